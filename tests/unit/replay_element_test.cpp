// Software half floats and the reduction loops against the compiler's own arithmetic.
#include "replay/element.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "replay/pattern.hpp"
#include "replay/reduce.hpp"

namespace slackline {
namespace {

#ifdef __FLT16_MAX__
// GCC's _Float16 converts in hardware or in libgcc, both independent of ours.
uint16_t reference_half(float value) {
  const _Float16 half = static_cast<_Float16>(value);
  uint16_t bits = 0;
  std::memcpy(&bits, &half, 2);
  return bits;
}
float reference_float(uint16_t bits) {
  _Float16 half = 0;
  std::memcpy(&half, &bits, 2);
  return static_cast<float>(half);
}

TEST(ReplayElement, EveryHalfBecomesTheSameFloatAsTheCompilers) {
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const float ours = half_to_float(static_cast<uint16_t>(bits)), theirs = reference_float(static_cast<uint16_t>(bits));
    if (std::isnan(theirs))
      EXPECT_TRUE(std::isnan(ours)) << bits;
    else
      EXPECT_EQ(float_bits(ours), float_bits(theirs)) << bits;
  }
}

TEST(ReplayElement, FloatsRoundToHalvesLikeTheCompilers) {
  std::mt19937 random(1);
  const auto check = [](uint32_t bits) {
    const float value = bits_float(bits);
    const uint16_t ours = float_to_half(value), theirs = reference_half(value);
    if (std::isnan(value))
      EXPECT_TRUE((ours & 0x7c00) == 0x7c00 && (ours & 0x3ff) != 0) << bits;
    else
      EXPECT_EQ(ours, theirs) << bits;
  };
  for (int i = 0; i < 300'000; ++i) check(random());
  // Around every half and every midpoint between two: ties, and the first and last float on either side.
  for (uint32_t half = 0; half < 1u << 16; ++half) {
    const uint32_t bits = float_bits(half_to_float(static_cast<uint16_t>(half)));
    for (const uint32_t step : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) {
      check(bits + step);
      check(bits - step);
    }
  }
}
#endif

TEST(ReplayElement, BfloatsRoundToNearestEven) {
  const auto rounded = [](uint32_t bits) { return float_to_bfloat16(bits_float(bits)); };
  EXPECT_EQ(rounded(0x3f800000), 0x3f80);
  EXPECT_EQ(rounded(0x3f807fff), 0x3f80);
  EXPECT_EQ(rounded(0x3f808000), 0x3f80);  // a tie, to even
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);
  EXPECT_EQ(rounded(0x3f818000), 0x3f82);  // a tie, to even
  EXPECT_EQ(rounded(0x7f7fffff), 0x7f80);  // beyond the largest: infinity
  EXPECT_EQ(rounded(0xff800000), 0xff80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(rounded(0x7f800001))));
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const float value = bfloat16_to_float(static_cast<uint16_t>(bits));
    EXPECT_TRUE(std::isnan(value) || float_to_bfloat16(value) == bits) << bits;
  }
}

// Values of a type as doubles, which hold all of them, their sums and their products exactly.
double value_of(ElementType type, uint32_t bits) {
  switch (type) {
    case ElementType::float32: return bits_float(bits);
    case ElementType::float16: return half_to_float(static_cast<uint16_t>(bits));
    case ElementType::bfloat16: return bfloat16_to_float(static_cast<uint16_t>(bits));
    case ElementType::int32: return static_cast<int32_t>(bits);
  }
  return 0;
}
double apply(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::sum: return a + b;
    case Reduction::prod: return a * b;
    case Reduction::min: return std::min(a, b);
    case Reduction::max: return std::max(a, b);
  }
  return 0;
}

std::vector<uint32_t> unpack(const std::vector<std::byte>& bytes, int width) {
  std::vector<uint32_t> result(bytes.size() / static_cast<size_t>(width), 0);
  for (size_t i = 0; i < result.size(); ++i)
    std::memcpy(&result[i], bytes.data() + i * static_cast<size_t>(width), static_cast<size_t>(width));
  return result;
}

constexpr ElementType types[] = {ElementType::float32, ElementType::float16, ElementType::bfloat16, ElementType::int32};
constexpr Reduction reductions[] = {Reduction::sum, Reduction::prod, Reduction::min, Reduction::max};

// Odd lengths, so that the ends of vectorised loops are passed too.
TEST(ReplayReduce, ReducesEveryTypeByEveryOperation) {
  std::mt19937 random(2);
  for (const ElementType type : types) {
    for (const Reduction reduction : reductions) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{33}, size_t{1001}}) {
        SCOPED_TRACE(std::string(to_string(type)) + " " + std::string(to_string(reduction)) + " " + std::to_string(count));
        const int width = element_bytes(type);
        std::vector<std::byte> to(count * static_cast<size_t>(width)), from(to.size());
        const auto fill = [&](std::vector<std::byte>& bytes) {
          for (size_t i = 0; i < count; ++i) {
            // Small numbers with few bits: sums and products are exact in all types.
            const float number = static_cast<float>(static_cast<int>(random() % 31) - 15);
            uint32_t bits = float_bits(number);
            if (type == ElementType::float16) bits = float_to_half(number);
            if (type == ElementType::bfloat16) bits = float_to_bfloat16(number);
            if (type == ElementType::int32) bits = static_cast<uint32_t>(static_cast<int32_t>(number));
            std::memcpy(bytes.data() + i * static_cast<size_t>(width), &bits, static_cast<size_t>(width));
          }
        };
        fill(to);
        fill(from);
        const auto a = unpack(to, width), b = unpack(from, width);
        reduce_into(to.data(), from.data(), to.size(), type, reduction);
        const auto result = unpack(to, width);
        for (size_t i = 0; i < count; ++i)
          ASSERT_EQ(value_of(type, result[i]), apply(reduction, value_of(type, a[i]), value_of(type, b[i]))) << i;
      }
    }
  }
}

TEST(ReplayReduce, IntegersWrapAround) {
  std::vector<int32_t> to = {INT32_MAX, INT32_MIN, 65536, -1}, from = {1, -1, 65536, INT32_MAX};
  auto product = to;
  reduce_into(to.data(), from.data(), 16, ElementType::int32, Reduction::sum);
  EXPECT_EQ(to, (std::vector<int32_t>{INT32_MIN, INT32_MAX, 131072, INT32_MAX - 1}));
  reduce_into(product.data(), from.data(), 16, ElementType::int32, Reduction::prod);
  EXPECT_EQ(product, (std::vector<int32_t>{INT32_MAX, INT32_MIN, 0, -INT32_MAX}));
}

// The heart of the checking: any order of the pairwise reductions gives Pattern::reduced, bit for bit.
TEST(ReplayPattern, ReducesExactlyInEveryOrder) {
  std::mt19937 random(3);
  for (const int ranks : {2, 3, 5, 8, 16, 64, 300, 1024}) {
    for (const ElementType type : types) {
      for (const Reduction reduction : reductions) {
        SCOPED_TRACE(std::string(to_string(type)) + " " + std::string(to_string(reduction)) + ", " + std::to_string(ranks) + " ranks");
        const Pattern pattern(type, reduction, true, ranks, static_cast<uint32_t>(ranks));
        const int64_t index = static_cast<int64_t>(random());
        for (int order = 0; order < 20; ++order) {
          // A random binary tree of reductions.
          std::vector<uint32_t> terms;
          for (int rank = 0; rank < ranks; ++rank) terms.push_back(pattern.input(static_cast<uint32_t>(rank), index + order));
          while (terms.size() > 1) {
            std::swap(terms[random() % terms.size()], terms.back());
            const uint32_t last = terms.back();
            terms.pop_back();
            reduce_into(&terms[random() % terms.size()], &last, static_cast<size_t>(element_bytes(type)), type, reduction);
          }
          ASSERT_EQ(terms[0], pattern.reduced(index + order));
        }
      }
    }
  }
}

// A contribution that is missing, or there twice, shows within a few elements.
TEST(ReplayPattern, SumsTellWhoIsMissingOrDoubled) {
  for (const ElementType type : types) {
    for (const int ranks : {2, 16, 300}) {
      const Pattern pattern(type, Reduction::sum, true, ranks, 7);
      for (int odd = 0; odd < ranks; ++odd) {
        for (const bool doubled : {false, true}) {
          int differing = 0;
          for (int64_t index = 0; index < 16; ++index) {
            uint32_t sum = 0;  // the bits of 0 in every type
            for (int rank = 0; rank < ranks; ++rank) {
              const uint32_t term = pattern.input(static_cast<uint32_t>(rank), index);
              for (int times = rank == odd ? (doubled ? 2 : 0) : 1; times > 0; --times)
                reduce_into(&sum, &term, static_cast<size_t>(element_bytes(type)), type, Reduction::sum);
            }
            differing += sum != pattern.reduced(index);
          }
          EXPECT_GE(differing, ranks > 256 ? 1 : 14) << to_string(type) << " " << ranks << " " << odd << doubled;
        }
      }
    }
  }
}

TEST(ReplayElement, NamesAreThoseOfTheCommandLine) {
  for (const std::string_view name : element_type_names()) EXPECT_EQ(to_string(element_type(name)), name);
  EXPECT_THROW(element_type("float64"), std::out_of_range);
}

}  // namespace
}  // namespace slackline
