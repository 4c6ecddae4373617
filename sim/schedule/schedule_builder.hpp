// Builds a schedule from the stream of parse events of its JSON model, so that no document tree of tens of
// millions of transfers ever exists. Whatever does not belong is refused where it stands.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace slackline {

/// Takes the events of JsonReader and CborReader; throws Error{input} at `file: /pointer`.
class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(std::string file) : file_(std::move(file)) {}

  void null() { mismatch("null"); }
  void boolean(bool value);
  void number_integer(int64_t value);
  void number_unsigned(uint64_t value);
  /// A number that is neither whole nor in range.
  void number_other(std::string_view text) { mismatch(std::string(text)); }
  void string(std::string_view value);
  void byte_string() { mismatch("a byte string"); }
  void start_object();
  void key(std::string_view name);
  void end_object();
  void start_array();
  void end_array();

  /// The result, once the document has ended.
  Schedule& schedule() { return schedule_; }

 private:
  /// What the next event belongs to: a member of an object, or an element of an array.
  enum class Place : uint8_t { document, root, collective, chunks, chunk, transfers, transfer, after };
  enum class Kind : uint8_t { integer, string, boolean, array, object };
  /// A key, or what the elements of an array are.
  struct Field {
    std::string_view name;
    Kind kind;
    bool required = true;
    uint64_t lowest = 0, highest = 0;  // of an integer
  };
  static constexpr size_t places = 8;

  static std::span<const Field> fields(Place place);
  const Field& field() const { return fields(place_)[key_[static_cast<size_t>(place_)]]; }
  bool seen(Place place, size_t key) const { return seen_[static_cast<size_t>(place)] >> key & 1; }
  void enter(Place place);
  void leave(Place place) { place_ = place; }
  void end_collective();
  void end_chunk();
  void end_transfer();

  std::string pointer() const;
  std::string member_pointer() const;
  [[noreturn]] void fail_at(const std::string& pointer, const std::string& message) const;
  [[noreturn]] void mismatch(const std::string& found) const;
  template <class Enum>
  Enum named(std::string_view value, std::span<const std::string_view> known) const;

  std::string file_;
  Schedule schedule_;
  Place place_ = Place::document;
  std::array<size_t, places> key_{};     // by place: index into fields() of the key that came last
  std::array<uint32_t, places> seen_{};  // by place: the keys that came, as bits
  Collective collective_;
  Chunk chunk_;
  Transfer transfer_;
  std::vector<uint32_t> after_;
};

}  // namespace slackline
