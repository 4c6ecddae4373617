// A reader of JSON (RFC 8259) that sends parse events, for files of gigabytes: nlohmann's is several times slower,
// as it copies every token. Everything else in slackline is read with parse_json().
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/utf8.hpp"

namespace slackline {

/// Sends the events of one JSON text to `handler`, whose handlers throw to stop; see ScheduleBuilder for their
/// names. A syntax error, text that is not UTF-8 and nesting deeper than 100 throw Error{input} at `file:line`.
template <class Handler>
class JsonReader {
 public:
  JsonReader(std::string_view text, const std::string& file, Handler& handler)
      : begin_(text.data()), here_(begin_), end_(begin_ + text.size()), file_(file), handler_(handler) {}

  void read() {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (std::string_view(here_, static_cast<size_t>(end_ - here_)).starts_with(byte_order_mark)) here_ += 3;
    value(0);
    skip_space();
    if (here_ != end_) fail("something follows the end of the document");
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    const auto line = 1 + std::count(begin_, here_, '\n');
    throw Error(ErrorKind::input, "not valid JSON: " + problem, file_ + ":" + std::to_string(line));
  }
  // Fails because of the character that comes instead of what is expected.
  [[noreturn]] void fail_expecting(const std::string& expected) const {
    std::string found = "the file ends";
    if (here_ != end_) {
      const auto c = static_cast<uint8_t>(*here_);
      constexpr const char* digits = "0123456789abcdef";
      found = c > ' ' && c < 0x7f ? std::string("'") + *here_ + "' comes"
                                  : std::string("byte 0x") + digits[c >> 4] + digits[c & 15] + " comes";
    }
    fail(expected + " is expected, but " + found);
  }
  void skip_space() {
    while (here_ != end_ && (*here_ == ' ' || *here_ == '\n' || *here_ == '\r' || *here_ == '\t')) ++here_;
  }
  // Passes over `c` and space before it, if it comes next.
  bool take(char c) {
    skip_space();
    if (here_ == end_ || *here_ != c) return false;
    ++here_;
    return true;
  }

  void value(int depth) {
    skip_space();
    if (here_ == end_) fail_expecting("a value");
    switch (*here_) {
      case '{': object(depth); break;
      case '[': array(depth); break;
      case '"': handler_.string(string()); break;
      case 't': literal("true"), handler_.boolean(true); break;
      case 'f': literal("false"), handler_.boolean(false); break;
      case 'n': literal("null"), handler_.null(); break;
      default: number(); break;
    }
  }
  void object(int depth) {
    if (depth >= 100) fail("nested more than 100 deep");
    ++here_;
    handler_.start_object();
    if (!take('}')) {
      do {
        skip_space();
        if (here_ == end_ || *here_ != '"') fail_expecting("a key in quotes");
        handler_.key(string());
        if (!take(':')) fail_expecting("':'");
        value(depth + 1);
      } while (take(','));
      if (!take('}')) fail_expecting("',' or '}'");
    }
    handler_.end_object();
  }
  void array(int depth) {
    if (depth >= 100) fail("nested more than 100 deep");
    ++here_;
    handler_.start_array();
    if (!take(']')) {
      do {
        value(depth + 1);
      } while (take(','));
      if (!take(']')) fail_expecting("',' or ']'");
    }
    handler_.end_array();
  }
  void literal(std::string_view word) {
    if (std::string_view(here_, static_cast<size_t>(end_ - here_)).substr(0, word.size()) != word)
      fail_expecting("a value");
    here_ += word.size();
  }

  bool digit() const { return here_ != end_ && *here_ >= '0' && *here_ <= '9'; }
  void digits() {
    if (!digit()) fail_expecting("a digit");
    while (digit()) ++here_;
  }
  void number() {
    const char* const first = here_;
    const bool negative = *here_ == '-';
    if (negative) ++here_;
    if (!digit()) fail_expecting(negative ? "a digit" : "a value");
    if (*here_ == '0')
      ++here_;
    else
      digits();
    bool whole = true;
    if (here_ != end_ && *here_ == '.') {
      whole = false;
      ++here_;
      digits();
    }
    if (here_ != end_ && (*here_ == 'e' || *here_ == 'E')) {
      whole = false;
      ++here_;
      if (here_ != end_ && (*here_ == '+' || *here_ == '-')) ++here_;
      digits();
    }
    if (whole && !negative) {
      uint64_t value = 0;
      if (std::from_chars(first, here_, value).ec == std::errc()) return handler_.number_unsigned(value);
    } else if (whole) {
      int64_t value = 0;
      if (std::from_chars(first, here_, value).ec == std::errc()) return handler_.number_integer(value);
    }
    handler_.number_other(std::string_view(first, static_cast<size_t>(here_ - first)));
  }

  // The string at the opening quote; valid until the next one.
  std::string_view string() {
    const char* const first = ++here_;
    bool ascii = true;
    for (; here_ != end_ && *here_ != '"' && *here_ != '\\'; ++here_) {
      if (static_cast<uint8_t>(*here_) < 0x20) fail("a control character in a string is not escaped");
      ascii &= static_cast<uint8_t>(*here_) < 0x80;
    }
    std::string_view result(first, static_cast<size_t>(here_ - first));
    if (here_ != end_ && *here_ == '\\') {
      unescaped_ = result;
      unescape();
      result = unescaped_;
      ascii = false;
    }
    if (here_ == end_) fail("the file ends within a string");
    if (!ascii && !is_utf8(result)) fail("a string is not UTF-8");
    ++here_;
    return result;
  }
  // Appends the rest of a string, from its first backslash on, to unescaped_.
  void unescape() {
    for (; here_ != end_ && *here_ != '"'; ++here_) {
      if (static_cast<uint8_t>(*here_) < 0x20) fail("a control character in a string is not escaped");
      if (*here_ != '\\') {
        unescaped_ += *here_;
        continue;
      }
      constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
      if (++here_ == end_) return;
      if (*here_ == 'u') {
        uint32_t code = hexadecimal();
        if (code >= 0xd800 && code < 0xdc00) {  // the first half of a pair
          if (end_ - here_ < 3 || here_[1] != '\\' || here_[2] != 'u') fail("half a surrogate pair in a string");
          here_ += 2;
          const uint32_t low = hexadecimal();
          if (low < 0xdc00 || low >= 0xe000) fail("half a surrogate pair in a string");
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        } else if (code >= 0xdc00 && code < 0xe000) {
          fail("half a surrogate pair in a string");
        }
        append_utf8(code);
      } else if (const size_t letter = letters.find(*here_); letter != std::string_view::npos) {
        unescaped_ += meanings[letter];
      } else {
        fail("an unknown escape in a string");
      }
    }
  }
  // Four digits after here_, which ends on the last.
  uint32_t hexadecimal() {
    uint32_t code = 0;
    if (end_ - here_ < 5) fail("the file ends within a string");
    const auto result = std::from_chars(here_ + 1, here_ + 5, code, 16);
    if (result.ec != std::errc() || result.ptr != here_ + 5) fail("\\u needs four hexadecimal digits");
    here_ += 4;
    return code;
  }
  void append_utf8(uint32_t code) {
    const auto add = [&](uint32_t byte) { unescaped_ += static_cast<char>(byte); };
    if (code < 0x80) {
      add(code);
    } else if (code < 0x800) {
      add(0xc0 | code >> 6);
    } else if (code < 0x10000) {
      add(0xe0 | code >> 12);
      add(0x80 | (code >> 6 & 63));
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 63));
      add(0x80 | (code >> 6 & 63));
    }
    if (code >= 0x80) add(0x80 | (code & 63));
  }

  const char* begin_;
  const char* here_;
  const char* end_;
  const std::string& file_;
  Handler& handler_;
  std::string unescaped_;
};

}  // namespace slackline
