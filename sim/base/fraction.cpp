#include "base/fraction.hpp"

#include <charconv>
#include <limits>

#include "base/error.hpp"

namespace slackline {

namespace {

using Wide = __int128;

Wide wide_gcd(Wide a, Wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

}  // namespace

Fraction Fraction::from_wide(Wide numerator, Wide denominator) {
  if (denominator == 0) throw Error(ErrorKind::input, "division by zero in an exact fraction");
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  const Wide divisor = wide_gcd(numerator, denominator);
  if (divisor > 1) {
    numerator /= divisor;
    denominator /= divisor;
  }
  constexpr Wide largest = std::numeric_limits<int64_t>::max();
  if (numerator > largest || numerator < -largest || denominator > largest)
    throw Error(ErrorKind::input,
                "an exact fraction grew beyond 64 bits; use simpler slowdowns or weights");
  Fraction result;
  result.numerator_ = static_cast<int64_t>(numerator);
  result.denominator_ = static_cast<int64_t>(denominator);
  return result;
}

Fraction::Fraction(int64_t numerator, int64_t denominator)
    : Fraction(from_wide(numerator, denominator)) {}

// The numerator is wide because -2^63 can be a Fraction while 2^63 cannot.
Fraction Fraction::plus(Wide numerator, int64_t denominator) const {
  const int64_t divisor = static_cast<int64_t>(wide_gcd(denominator_, denominator));
  const Wide left = Wide(numerator_) * (denominator / divisor);
  const Wide right = numerator * (denominator_ / divisor);
  return from_wide(left + right, Wide(denominator_) * (denominator / divisor));
}

Fraction Fraction::operator+(const Fraction& other) const { return plus(other.numerator_, other.denominator_); }

Fraction Fraction::operator-(const Fraction& other) const { return plus(-Wide(other.numerator_), other.denominator_); }

Fraction Fraction::operator*(const Fraction& other) const {
  return from_wide(Wide(numerator_) * other.numerator_, Wide(denominator_) * other.denominator_);
}

Fraction Fraction::operator/(const Fraction& other) const {
  return from_wide(Wide(numerator_) * other.denominator_, Wide(denominator_) * other.numerator_);
}

std::strong_ordering Fraction::operator<=>(const Fraction& other) const {
  return Wide(numerator_) * other.denominator_ <=> Wide(other.numerator_) * denominator_;
}

std::string Fraction::to_string() const {
  std::string text = std::to_string(numerator_);
  if (denominator_ != 1) text += "/" + std::to_string(denominator_);
  return text;
}

Fraction Fraction::parse(std::string_view text, const std::string& where) {
  const auto fail = [&]() -> Error {
    return Error(ErrorKind::input,
                 "\"" + std::string(text) +
                     "\" is not a fraction; write it as \"3/2\", \"2\" or \"1.25\"",
                 where);
  };
  const auto whole = [&](std::string_view digits) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) throw fail();
    return value;
  };
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    const int64_t denominator = whole(text.substr(slash + 1));
    if (denominator <= 0) throw fail();
    return Fraction(whole(text.substr(0, slash)), denominator);
  }
  if (const size_t point = text.find('.'); point != std::string_view::npos) {
    const std::string_view decimals = text.substr(point + 1);
    if (decimals.empty() || decimals.size() > 15 || decimals.front() == '-') throw fail();
    int64_t scale = 1;
    for (size_t i = 0; i < decimals.size(); ++i) scale *= 10;
    const std::string_view head = text.substr(0, point);
    if (head.empty() || head.front() == '-') throw fail();
    const Wide numerator = Wide(whole(head)) * scale + whole(decimals);
    try {
      return from_wide(numerator, scale);
    } catch (const Error& error) {
      throw Error(error.kind(), error.message(), where);
    }
  }
  return Fraction(whole(text));
}

}  // namespace slackline
