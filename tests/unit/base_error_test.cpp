#include "base/error.hpp"

#include <gtest/gtest.h>

#include <array>

#include "base/utf8.hpp"

namespace slackline {
namespace {

constexpr std::array<std::string_view, 4> names = {"ring", "optcc", "blink", "double_tree"};

TEST(Error, TextKindAndExitCode) {
  const Error error(ErrorKind::input, "must be a number", "a.json: /size");
  EXPECT_STREQ(error.what(), "a.json: /size: must be a number");
  EXPECT_EQ(error.message(), "must be a number");
  EXPECT_EQ(error.where(), "a.json: /size");
  EXPECT_STREQ(Error(ErrorKind::io, "alone").what(), "alone");
  EXPECT_EQ(Error(ErrorKind::input, "").exit_code(), 2);
  EXPECT_EQ(Error(ErrorKind::usage, "").exit_code(), 2);
  EXPECT_EQ(Error(ErrorKind::io, "").exit_code(), 2);
  EXPECT_EQ(Error(ErrorKind::internal, "").exit_code(), 3);
  EXPECT_EQ(Error(ErrorKind::device, "").exit_code(), 3);
}

TEST(Error, IsOneLineOfBearableLength) {
  EXPECT_STREQ(Error(ErrorKind::input, "a\nb\tc\x7f", "d\re").what(), "d?e: a?b?c?");
  EXPECT_EQ(one_line(std::string(2000, 'x')), std::string(2000, 'x'));
  EXPECT_EQ(one_line(std::string(2001, 'x')), std::string(1997, 'x') + "...");
  std::string accents;
  for (int i = 0; i < 1500; ++i) accents += "\u00e9";
  const std::string cut = one_line(accents);
  EXPECT_LE(cut.size(), 2000u);
  EXPECT_TRUE(is_utf8(cut));
}

TEST(Error, PointersAreEscaped) { EXPECT_EQ(escape_pointer("a/b~c~1"), "a~1b~0c~01"); }

TEST(NearestName, FindsPlausibleSlips) {
  EXPECT_EQ(nearest_name("rng", names), "ring");
  EXPECT_EQ(nearest_name("optc", names), "optcc");
  EXPECT_EQ(nearest_name("doubletree", names), "double_tree");
  EXPECT_EQ(nearest_name("ring", names), "ring");
  EXPECT_EQ(nearest_name("gnir", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'r'), names), "");
  EXPECT_EQ(nearest_name("ring", {}), "");
}

TEST(SuggestName, EndsAMessage) {
  EXPECT_EQ(suggest_name("rign", names), "; did you mean \"ring\"?");
  EXPECT_EQ(suggest_name("zzzzzzzz", names), "; known are ring, optcc, blink, double_tree");
}

TEST(Utf8, WellFormedOnly) {
  for (const char* const good : {"", "ascii", "\u00e9", "\u20ac", "\U0001f600", "\ud7ff", "\ue000", "\U0010ffff"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* const bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x80\x80", "\xe0\x9f\xbf",
                                "\xed\xa0\x80", "\xe2\x82", "\xe2\x82(", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
                                "\xf5\x80\x80\x80", "\xf0\x9f\x98", "\xff", "a\xfe"})
    EXPECT_FALSE(is_utf8(bad));
}

}  // namespace
}  // namespace slackline
