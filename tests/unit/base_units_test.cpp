#include "base/units.hpp"

#include <gtest/gtest.h>

#include <random>

#include "../support/expect_error.hpp"

namespace slackline {
namespace {

TEST(Units, EveryUnitOfSize) {
  const std::pair<const char*, int64_t> expected[] = {
      {"7 B", 7},
      {"7 kB", 7'000},
      {"7 KB", 7'000},
      {"7 MB", 7'000'000},
      {"7 GB", 7'000'000'000},
      {"7 TB", 7'000'000'000'000},
      {"7 KiB", 7LL << 10},
      {"7 MiB", 7LL << 20},
      {"7 GiB", 7LL << 30},
      {"7 TiB", 7LL << 40},
  };
  for (const auto& [text, count] : expected) EXPECT_EQ(parse_bytes(text).count(), count) << text;
}

TEST(Units, EveryUnitOfTime) {
  const std::pair<const char*, int64_t> expected[] = {
      {"3 ps", 3},
      {"3 ns", 3'000},
      {"3 us", 3'000'000},
      {"3 ms", 3'000'000'000},
      {"3 s", 3'000'000'000'000},
      {"3 min", 180'000'000'000'000},
      {"3 h", 10'800'000'000'000'000},
  };
  for (const auto& [text, count] : expected) EXPECT_EQ(parse_duration(text).count(), count) << text;
}

TEST(Units, EveryUnitOfRate) {
  const std::pair<const char*, int64_t> expected[] = {
      {"5 b/s", 5},
      {"5 kb/s", 5'000},
      {"5 Mb/s", 5'000'000},
      {"5 Gb/s", 5'000'000'000},
      {"5 Tb/s", 5'000'000'000'000},
      {"5 B/s", 40},
      {"5 kB/s", 40'000},
      {"5 MB/s", 40'000'000},
      {"5 GB/s", 40'000'000'000},
      {"5 TB/s", 40'000'000'000'000},
      {"5 MiB/s", 5LL << 23},
      {"5 GiB/s", 5LL << 33},
  };
  for (const auto& [text, count] : expected) EXPECT_EQ(parse_bandwidth(text).count(), count) << text;
}

TEST(Units, DecimalsAndSpacing) {
  EXPECT_EQ(parse_bytes("1.5 KiB").count(), 1536);
  EXPECT_EQ(parse_bytes("0 B").count(), 0);
  EXPECT_EQ(parse_bytes("8GiB"), parse_bytes("8   GiB"));
  EXPECT_EQ(parse_duration("0.000000000001 s").count(), 1);
  EXPECT_EQ(parse_bandwidth("0.125 B/s").count(), 1);
  EXPECT_EQ(parse_bytes("00000000000000000008 B").count(), 8);
}

TEST(Units, LargestValues) {
  EXPECT_EQ(parse_bytes("9223372036854775807 B").count(), INT64_MAX);
  EXPECT_EQ(parse_duration("9223372.036854775807 s").count(), INT64_MAX);
  EXPECT_EQ(error_of([] { parse_bytes("9223372036854775808 B"); }),
            "\"9223372036854775808 B\" is too large; the largest size is 2^63 - 1 B");
  EXPECT_EQ(error_of([] { parse_bytes("8388608 TiB"); }), "\"8388608 TiB\" is too large; the largest size is 2^63 - 1 B");
  EXPECT_EQ(error_of([] { parse_duration("99999999999999999999 h"); }),
            "\"99999999999999999999 h\" is too large; the largest time is 2^63 - 1 ps");
  EXPECT_EQ(error_of([] { parse_bandwidth("9223373 Tb/s"); }),
            "\"9223373 Tb/s\" is too large; the largest rate is 2^63 - 1 b/s");
  EXPECT_EQ(error_of([] { parse_bytes("000000000000000000001 B"); }),
            "\"000000000000000000001 B\" has more digits than slackline reads (20)");
}

TEST(Units, WhatIsWrongWithASize) {
  const std::string expected = "write a size such as \"8 GiB\" (units: B, kB, KB, MB, GB, TB, KiB, MiB, GiB, TiB)";
  for (const char* const text : {"", "GiB", "-1 B", "+1 B", " 8 GiB", ".5 GiB", "5. GiB", ".", ". B", "..5 B", "x"})
    EXPECT_EQ(error_of([&] { parse_bytes(text); }), "\"" + std::string(text) + "\" is no quantity; " + expected);
  for (const char* const text : {"8", "8 ", "1.5"})
    EXPECT_EQ(error_of([&] { parse_bytes(text); }), "\"" + std::string(text) + "\" has no unit; " + expected);
  for (const char* const unit : {"gib", "Gib", "b", "GiB ", "GiB/s", "e3 B", "1 B", ".5 B", "ps"})
    EXPECT_EQ(error_of([&] { parse_bytes("8." + std::string("5 ") + unit); }),
              "\"8.5 " + std::string(unit) + "\" has an unknown unit \"" + unit + "\"; " + expected);
  EXPECT_EQ(error_of([] { parse_bytes("0.5 B"); }), "\"0.5 B\" is not a whole number of B");
  EXPECT_EQ(error_of([] { parse_bytes("8 gb", "a.json: /size"); }),
            "a.json: /size: \"8 gb\" has an unknown unit \"gb\"; " + expected);
  EXPECT_EQ(error_kind_of([] { parse_bytes("8"); }), ErrorKind::input);
}

TEST(Units, WhatIsWrongWithATimeOrRate) {
  EXPECT_EQ(error_of([] { parse_duration("2 \u00b5s"); }),
            "\"2 \u00b5s\" has an unknown unit \"\u00b5s\"; write a time such as \"2 us\" (units: ps, ns, us, ms, s, min, h)");
  EXPECT_EQ(error_of([] { parse_duration("0.0001 ns"); }), "\"0.0001 ns\" is not a whole number of ps");
  EXPECT_EQ(error_of([] { parse_bandwidth("400 Gbps"); }),
            "\"400 Gbps\" has an unknown unit \"Gbps\"; write a rate such as \"400 Gb/s\" (units: b/s, kb/s, Mb/s, Gb/s, "
            "Tb/s, B/s, kB/s, MB/s, GB/s, TB/s, MiB/s, GiB/s)");
}

TEST(Units, Texts) {
  EXPECT_EQ(to_string(Bytes(0)), "0 B");
  EXPECT_EQ(to_string(Bytes(8LL << 30)), "8 GiB");
  EXPECT_EQ(to_string(Bytes(1500)), "1.5 kB");
  EXPECT_EQ(to_string(Bytes(1536)), "1.5 KiB");
  EXPECT_EQ(to_string(Bytes(1001)), "1.001 kB");
  EXPECT_EQ(to_string(Bytes(1 << 20 | 1)), "1048.577 kB");
  EXPECT_EQ(to_string(Duration(2'000'000)), "2 us");
  EXPECT_EQ(to_string(Duration(1'250)), "1.25 ns");
  EXPECT_EQ(to_string(Duration(999)), "999 ps");
  EXPECT_EQ(to_string(Bandwidth(400'000'000'000)), "50 GB/s");
  EXPECT_EQ(to_string(Bandwidth(1)), "1 b/s");
  EXPECT_EQ(to_string(Bytes(INT64_MAX)), "9223372036854775.807 kB");
  EXPECT_EQ(to_string(Bandwidth(INT64_MAX)), "9223372036854775.807 kb/s");
}

TEST(Units, TextParsesBackToTheSameQuantity) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    int64_t count = static_cast<int64_t>(random() >> (1 + random() % 63));
    // Round counts exercise the larger units.
    const int64_t round[] = {1, 8, 1000, 1024, 1'000'000, 1 << 20, 8'000'000'000};
    count -= count % round[random() % 7];
    ASSERT_EQ(parse_bytes(to_string(Bytes(count))).count(), count);
    ASSERT_EQ(parse_duration(to_string(Duration(count))).count(), count);
    ASSERT_EQ(parse_bandwidth(to_string(Bandwidth(count))).count(), count);
  }
}

TEST(TransferTime, RoundsUp) {
  EXPECT_EQ(transfer_time(Bytes(1), Bandwidth(8'000'000'000'000)).count(), 1);
  EXPECT_EQ(transfer_time(Bytes(1), Bandwidth(8'000'000'000'001)).count(), 1);
  EXPECT_EQ(transfer_time(Bytes(1), Bandwidth(7'999'999'999'999)).count(), 2);
  EXPECT_EQ(transfer_time(Bytes(0), Bandwidth(1)).count(), 0);
  EXPECT_EQ(transfer_time(Bytes(1), Bandwidth(3)).count(), 2'666'666'666'667);
  EXPECT_EQ(transfer_time(parse_bytes("16 GiB"), parse_bandwidth("100 GB/s")).count(), 171'798'691'840);
}

TEST(TransferTime, NeedsMoreThan64BitsInBetween) {
  // 2^60 B are 2^63 * 10^12 bit picoseconds.
  EXPECT_EQ(transfer_time(Bytes(1LL << 60), Bandwidth(1LL << 62)).count(), 2'000'000'000'000);
  EXPECT_EQ(transfer_time(Bytes(INT64_MAX), Bandwidth(INT64_MAX)).count(), 8'000'000'000'000);
}

TEST(TransferTime, NoLinkBeatsItsRate) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const auto bytes = static_cast<int64_t>(random() >> (24 + random() % 40));
    const auto rate = static_cast<int64_t>(1'000'000 + (random() >> (20 + random() % 40)));
    const __int128 time = transfer_time(Bytes(bytes), Bandwidth(rate)).count();
    const __int128 work = static_cast<__int128>(bytes) * 8 * 1'000'000'000'000;
    ASSERT_GE(time * rate, work);
    ASSERT_LT((time - 1) * rate, work);
  }
}

TEST(TransferTime, ErrorsSayWhy) {
  EXPECT_EQ(error_of([] { transfer_time(Bytes(1LL << 40), Bandwidth(1)); }),
            "1 TiB at 1 b/s take longer than the 106 days that slackline can count");
  EXPECT_EQ(error_kind_of([] { transfer_time(Bytes(1LL << 40), Bandwidth(1)); }), ErrorKind::input);
  EXPECT_EQ(error_kind_of([] { transfer_time(Bytes(1), Bandwidth(0)); }), ErrorKind::internal);
}

TEST(Quantities, AddSubtractCompare) {
  EXPECT_EQ(Bytes(3) + Bytes(4), Bytes(7));
  EXPECT_EQ(Bytes(3) - Bytes(4), Bytes(-1));
  EXPECT_EQ(Duration(3) * 4, Duration(12));
  EXPECT_LT(Bandwidth(1), Bandwidth(2));
  EXPECT_EQ(TimePoint(5) + Duration(2), TimePoint(7));
  EXPECT_EQ(TimePoint(5) - TimePoint(2), Duration(3));
}

}  // namespace
}  // namespace slackline
