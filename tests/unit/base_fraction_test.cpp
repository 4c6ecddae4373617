#include "base/fraction.hpp"

#include <gtest/gtest.h>

#include <random>

#include "../support/expect_error.hpp"

namespace slackline {
namespace {

constexpr const char* too_large = "an exact fraction grew beyond 64 bits; use simpler slowdowns or weights";

TEST(Fraction, IsKeptInLowestTermsWithAPositiveDenominator) {
  EXPECT_EQ(Fraction(6, 4), Fraction(3, 2));
  EXPECT_EQ(Fraction(6, 4).numerator(), 3);
  EXPECT_EQ(Fraction(6, 4).denominator(), 2);
  EXPECT_EQ(Fraction(3, -6).to_string(), "-1/2");
  EXPECT_EQ(Fraction(-3, -6).to_string(), "1/2");
  EXPECT_EQ(Fraction(0, -5).to_string(), "0");
  EXPECT_EQ(Fraction(8, 4).to_string(), "2");
  EXPECT_EQ(Fraction().to_string(), "0");
  EXPECT_DOUBLE_EQ(Fraction(8, 7).to_double(), 8.0 / 7.0);
}

TEST(Fraction, Arithmetic) {
  EXPECT_EQ(Fraction(1, 2) + Fraction(1, 3), Fraction(5, 6));
  EXPECT_EQ(Fraction(1, 2) - Fraction(1, 3), Fraction(1, 6));
  EXPECT_EQ(Fraction(2, 3) * Fraction(3, 4), Fraction(1, 2));
  EXPECT_EQ(Fraction(2, 3) / Fraction(4, 3), Fraction(1, 2));
  EXPECT_EQ(-Fraction(1, 2), Fraction(-1, 2));
  Fraction sum(1);
  sum += Fraction(1, 2);
  sum -= Fraction(1, 4);
  sum *= Fraction(2);
  sum /= Fraction(5);
  EXPECT_EQ(sum, Fraction(1, 2));
}

TEST(Fraction, Order) {
  EXPECT_LT(Fraction(1, 3), Fraction(1, 2));
  EXPECT_LT(Fraction(-1, 2), Fraction(-1, 3));
  EXPECT_GT(Fraction(8, 7), Fraction(1));
  // Equal as doubles, but not exactly.
  EXPECT_LT(Fraction(INT64_MAX - 1, INT64_MAX), Fraction(1));
  EXPECT_LT(Fraction(INT64_MAX - 2, INT64_MAX - 1), Fraction(INT64_MAX - 1, INT64_MAX));
}

TEST(Fraction, LawsHoldForRandomFractions) {
  std::mt19937_64 random(3);
  const auto any = [&] {
    return Fraction(static_cast<int64_t>(random() % 2000) - 1000, 1 + static_cast<int64_t>(random() % 1000));
  };
  for (int i = 0; i < 5000; ++i) {
    const Fraction a = any(), b = any(), c = any();
    ASSERT_EQ(a + b, b + a);
    ASSERT_EQ((a + b) + c, a + (b + c));
    ASSERT_EQ(a * (b + c), a * b + a * c);
    ASSERT_EQ(a - b + b, a);
    if (b != Fraction(0)) {
      ASSERT_EQ(a / b * b, a);
    }
    ASSERT_EQ(a < b, a.to_double() < b.to_double());
    ASSERT_EQ(Fraction::parse(a.to_string()), a);
  }
}

TEST(Fraction, OverflowIsAnError) {
  const Fraction largest(INT64_MAX), tiny(1, INT64_MAX);
  EXPECT_EQ(error_of([&] { largest + Fraction(1); }), too_large);
  EXPECT_EQ(error_of([&] { largest * Fraction(2); }), too_large);
  EXPECT_EQ(error_of([&] { tiny / Fraction(2); }), too_large);
  EXPECT_EQ(error_of([&] { tiny + Fraction(1, INT64_MAX - 1); }), too_large);
  EXPECT_EQ(error_of([&] { Fraction(INT64_MIN, 1); }), too_large);
  EXPECT_EQ(error_kind_of([&] { largest + Fraction(1); }), ErrorKind::input);
  // Intermediate results may exceed 64 bits.
  EXPECT_EQ(largest * tiny, Fraction(1));
  EXPECT_EQ(largest - largest, Fraction(0));
  EXPECT_EQ(largest * Fraction(3, 7), Fraction(INT64_MAX / 7 * 3));  // 7 divides 2^63 - 1
  EXPECT_EQ(tiny + Fraction(INT64_MAX - 1, INT64_MAX), Fraction(1));
}

TEST(Fraction, SmallestInteger) {
  const Fraction smallest(INT64_MIN);
  EXPECT_EQ(smallest + Fraction(1), Fraction(INT64_MIN + 1));
  EXPECT_EQ(Fraction(-1) - smallest, Fraction(INT64_MAX));
  EXPECT_EQ(error_of([&] { -smallest; }), too_large);
}

TEST(Fraction, DivisionByZero) {
  EXPECT_EQ(error_of([] { Fraction(1, 0); }), "division by zero in an exact fraction");
  EXPECT_EQ(error_of([] { Fraction(1) / Fraction(0); }), "division by zero in an exact fraction");
}

TEST(Fraction, Parse) {
  EXPECT_EQ(Fraction::parse("8/7"), Fraction(8, 7));
  EXPECT_EQ(Fraction::parse("-6/4"), Fraction(-3, 2));
  EXPECT_EQ(Fraction::parse("2"), Fraction(2));
  EXPECT_EQ(Fraction::parse("-2"), Fraction(-2));
  EXPECT_EQ(Fraction::parse("1.25"), Fraction(5, 4));
  EXPECT_EQ(Fraction::parse("0.000000000000001"), Fraction(1, 1'000'000'000'000'000));
  for (const char* const text : {"", "x", "1/0", "1/-2", "1/", "/2", "1/2/3", "1.", ".5", "-1.5", "1.-5", "1.5/2", "1.2.3",
                                 " 1", "1 ", "+1", "1e3", "0.0000000000000001", "9223372036854775808"})
    EXPECT_EQ(error_of([&] { Fraction::parse(text, "f: /l"); }),
              "f: /l: \"" + std::string(text) + "\" is not a fraction; write it as \"3/2\", \"2\" or \"1.25\"");
  EXPECT_EQ(error_of([] { Fraction::parse("9223372036854775807.5", "f: /l"); }), std::string("f: /l: ") + too_large);
}

}  // namespace
}  // namespace slackline
