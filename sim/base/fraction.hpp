// Exact fractions of 64-bit integers. Slowdowns, tree weights and chunk boundaries are fractions, and a
// rounding error in one of them would leave a gap or an overlap in a schedule.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace slackline {

/// A fraction in lowest terms with a positive denominator. Every operation throws
/// Error{ErrorKind::input} when its exact result does not fit into 64-bit terms.
class Fraction {
 public:
  constexpr Fraction() = default;
  constexpr Fraction(int64_t whole) : numerator_(whole) {}  // NOLINT: integers are fractions
  /// `denominator` must not be 0.
  Fraction(int64_t numerator, int64_t denominator);

  constexpr int64_t numerator() const { return numerator_; }
  constexpr int64_t denominator() const { return denominator_; }

  Fraction operator+(const Fraction& other) const;
  Fraction operator-(const Fraction& other) const;
  Fraction operator*(const Fraction& other) const;
  /// Throws on division by zero.
  Fraction operator/(const Fraction& other) const;
  Fraction operator-() const { return Fraction(0) - *this; }
  Fraction& operator+=(const Fraction& other) { return *this = *this + other; }
  Fraction& operator-=(const Fraction& other) { return *this = *this - other; }
  Fraction& operator*=(const Fraction& other) { return *this = *this * other; }
  Fraction& operator/=(const Fraction& other) { return *this = *this / other; }

  bool operator==(const Fraction&) const = default;
  std::strong_ordering operator<=>(const Fraction& other) const;

  double to_double() const { return static_cast<double>(numerator_) / static_cast<double>(denominator_); }
  /// "3/2", or "2" for a whole number.
  std::string to_string() const;

  /// Reads "3/2", "2" or a decimal such as "1.25". Throws Error{input} with `where` otherwise.
  static Fraction parse(std::string_view text, const std::string& where = {});

 private:
  static Fraction from_wide(__int128 numerator, __int128 denominator);
  Fraction plus(__int128 numerator, int64_t denominator) const;

  int64_t numerator_ = 0;
  int64_t denominator_ = 1;
};

}  // namespace slackline
