// The one exception type that crosses slackline's library boundaries, and the finder of near-miss
// names that its messages use.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace slackline {

/// What went wrong, in terms of what the caller can do about it.
enum class ErrorKind {
  input,     ///< a file or value from the user is wrong (exit code 2)
  usage,     ///< the command line is wrong (exit code 2)
  io,        ///< a file cannot be read or written (exit code 2)
  internal,  ///< slackline broke a rule of its own (exit code 3)
  device,    ///< a device that was asked for is absent or failed (exit code 3)
};

/// `text` as one line of bearable length: control characters, which text quoted from a bad file can hold, become '?',
/// and what exceeds 2000 bytes becomes "...".
std::string one_line(std::string text);

/// Carries one line of text: `where: message`. `where` is `file`, `file:line`, or `file: /json/pointer`;
/// it may be empty. Both are passed through one_line().
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, const std::string& where = {})
      : std::runtime_error(where.empty() ? one_line(message) : one_line(where) + ": " + one_line(message)),
        kind_(kind),
        message_(one_line(message)),
        where_(one_line(where)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }

  /// 2 for what the user can mend, 3 for the rest.
  int exit_code() const {
    return kind_ == ErrorKind::internal || kind_ == ErrorKind::device ? 3 : 2;
  }

 private:
  ErrorKind kind_;
  std::string message_;
  std::string where_;
};

/// `key` as a part of a JSON pointer (RFC 6901).
std::string escape_pointer(std::string_view key);

/// The entry of `known` nearest to `word` by edit distance, or "" when none is near enough to be a
/// plausible slip (more than a third of the longer word, plus one).
std::string nearest_name(std::string_view word, std::span<const std::string_view> known);

/// `; did you mean "x"?` or `; known are a, b, c`, to end a message about an unknown name.
std::string suggest_name(std::string_view word, std::span<const std::string_view> known);

}  // namespace slackline
