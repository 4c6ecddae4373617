// Reading JSON so that every complaint names the file and the JSON pointer of what is wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/fraction.hpp"
#include "base/units.hpp"

namespace slackline {

/// Keeps keys in the order in which they were written.
using Json = nlohmann::ordered_json;

/// Parses `text`; a syntax error, a duplicate key or nesting deeper than 100 throws Error{input} with
/// `file:line`.
Json parse_json(std::string_view text, const std::string& file);
/// parse_json of a file's contents (at most 1 GiB).
Json read_json_file(const std::filesystem::path& path);

/// A value inside a JSON document that knows where it stands. Copies are cheap; the document and the
/// file name must outlive it. Every accessor throws Error{input} at `file: /pointer`.
class JsonCursor {
 public:
  JsonCursor(const Json& value, std::string file, std::string pointer = {})
      : value_(&value), file_(std::move(file)), pointer_(std::move(pointer)) {}

  const Json& value() const { return *value_; }
  /// Another value, which must outlive the result, that stands for the one here.
  JsonCursor with_value(const Json& value) const { return JsonCursor(value, file_, pointer_); }
  const std::string& file() const { return file_; }
  std::string where() const { return file_ + ": " + (pointer_.empty() ? "/" : pointer_); }
  [[noreturn]] void fail(const std::string& message) const;

  /// Checks that this is an object and has no key but `known`.
  void expect_object(std::initializer_list<std::string_view> known) const;
  void expect_object(std::span<const std::string_view> known) const;
  bool has(std::string_view key) const { return value_->is_object() && value_->contains(key); }
  /// The member `key`, which must be there.
  JsonCursor at(std::string_view key) const;
  std::optional<JsonCursor> find(std::string_view key) const;
  /// The elements; this must be an array.
  std::vector<JsonCursor> elements() const;
  /// The members, key by key; this must be an object.
  std::vector<std::pair<std::string, JsonCursor>> members() const;

  std::string string() const;
  bool boolean() const;
  int64_t integer(int64_t lowest, int64_t highest) const;
  double number(double lowest, double highest) const;
  Bytes bytes() const { return parse_bytes(unit_text("\"8 GiB\""), where()); }
  Duration duration() const { return parse_duration(unit_text("\"2 us\""), where()); }
  /// A rate above 0.
  Bandwidth bandwidth() const;
  /// A whole number or a string such as "3/2".
  Fraction fraction() const;
  /// One of `known`; anything else is an error that suggests the nearest.
  std::string one_of(std::span<const std::string_view> known, std::string_view what) const;

 private:
  std::string unit_text(std::string_view example) const;

  const Json* value_;
  std::string file_;
  std::string pointer_;
};

}  // namespace slackline
