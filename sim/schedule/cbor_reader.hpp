// A reader of CBOR (RFC 8949) that sends parse events. nlohmann's recurses without limit on nested chunked strings,
// so that a small file exhausts its stack; and it is several times slower.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/utf8.hpp"

namespace slackline {

/// Sends the events of one CBOR item to `handler`, whose handlers throw to stop; see ScheduleBuilder for their names.
/// Never trusts a length beyond the bytes that are there. Read are integers, text (UTF-8) and byte strings of definite length, arrays and maps
/// (with text keys) of either kind, true, false, null and floats; the rest (tags, chunked strings, other simple
/// values), nesting deeper than 100 and bytes after the item throw Error{input} at `file`.
template <class Handler>
class CborReader {
 public:
  CborReader(std::string_view bytes, const std::string& file, Handler& handler)
      : bytes_(bytes), file_(file), handler_(handler) {}

  void read() {
    item(0);
    if (position_ != bytes_.size()) fail("something follows the end");
  }

 private:
  enum Major : uint8_t { unsigned_integer, negative_integer, byte_string, text_string, array, map, tag, simple };
  static constexpr uint8_t indefinite = 31, end_mark = 0xff;

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::input, "not valid CBOR: byte " + std::to_string(position_) + ": " + problem, file_);
  }
  uint8_t byte() {
    if (position_ == bytes_.size()) fail("the file ends too early");
    return static_cast<uint8_t>(bytes_[position_++]);
  }
  uint64_t big_endian(unsigned count) {
    if (bytes_.size() - position_ < count) fail("the file ends too early");
    uint64_t value = 0;
    for (unsigned i = 0; i < count; ++i) value = value << 8 | static_cast<uint8_t>(bytes_[position_++]);
    return value;
  }
  // The number that follows an initial byte with this additional information.
  uint64_t argument(uint8_t info) {
    if (info < 24) return info;
    if (info > 27) fail("a length or number of a kind that is not read");
    return big_endian(1u << (info - 24));
  }
  std::string_view string(uint8_t info) {
    if (info == indefinite) fail("strings in pieces are not read");
    const uint64_t length = argument(info);
    if (length > bytes_.size() - position_) fail("the file ends within a string");
    const std::string_view content = bytes_.substr(position_, length);
    position_ += length;
    return content;
  }
  std::string_view text(uint8_t info) {
    const std::string_view result = string(info);
    if (!is_utf8(result)) fail("a text string before this byte is not UTF-8");
    return result;
  }
  bool at_end_mark() {
    if (position_ == bytes_.size() || static_cast<uint8_t>(bytes_[position_]) != end_mark) return false;
    ++position_;
    return true;
  }

  void item(int depth) {
    const uint8_t initial = byte();
    const uint8_t info = initial & 31;
    switch (static_cast<Major>(initial >> 5)) {
      case unsigned_integer: handler_.number_unsigned(argument(info)); break;
      case negative_integer: {
        const uint64_t below = argument(info);  // the value is -1 - below
        if (below > static_cast<uint64_t>(INT64_MAX))
          handler_.number_other("-1 - " + std::to_string(below));
        else
          handler_.number_integer(-1 - static_cast<int64_t>(below));
        break;
      }
      case byte_string:
        string(info);
        handler_.byte_string();
        break;
      case text_string: handler_.string(text(info)); break;
      case array: {
        if (depth >= 100) fail("nested more than 100 deep");
        const bool open = info == indefinite;
        const uint64_t count = open ? UINT64_MAX : argument(info);
        handler_.start_array();
        for (uint64_t i = 0; open ? !at_end_mark() : i < count; ++i) item(depth + 1);
        handler_.end_array();
        break;
      }
      case map: {
        if (depth >= 100) fail("nested more than 100 deep");
        const bool open = info == indefinite;
        const uint64_t count = open ? UINT64_MAX : argument(info);
        handler_.start_object();
        for (uint64_t i = 0; open ? !at_end_mark() : i < count; ++i) {
          const uint8_t key = byte();
          if (key >> 5 != text_string) fail("a key that is not a text string");
          handler_.key(text(key & 31));
          item(depth + 1);
        }
        handler_.end_object();
        break;
      }
      case tag: fail("tags are not read");
      case simple: simple_value(info); break;
    }
  }
  void simple_value(uint8_t info) {
    double value = 0;
    switch (info) {
      case 20: handler_.boolean(false); return;
      case 21: handler_.boolean(true); return;
      case 22: handler_.null(); return;
      case 25: value = half(static_cast<uint16_t>(big_endian(2))); break;
      case 26: value = std::bit_cast<float>(static_cast<uint32_t>(big_endian(4))); break;
      case 27: value = std::bit_cast<double>(big_endian(8)); break;
      default: fail("a simple value that is not read");
    }
    handler_.number_other(fmt::format("{}", value));
  }
  static double half(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    const double size = exponent == 0    ? std::ldexp(fraction, -24)
                        : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                         : std::ldexp(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -size : size;
  }

  std::string_view bytes_;
  const std::string& file_;
  Handler& handler_;
  size_t position_ = 0;
};

}  // namespace slackline
