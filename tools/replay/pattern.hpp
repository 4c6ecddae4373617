// Inputs whose reduction is exact in every order, so that results are compared bit for bit (the idea is
// nccl-tests'). Compiled by nvcc too.
#pragma once

#include "element.hpp"
#include "schedule/schedule.hpp"

namespace slackline {

/// What every rank contributes to every element of the message, and what all contributions reduce to.
///  - sum of floats: positive whole numbers whose total is one that the type holds exactly (2^24, 2^11, 2^8 for
///    float32, float16, bfloat16); with more ranks than that, some contribute 0;
///  - product of floats: +-2^-1, 2^0, 2^1, with at most 12 exponents that are not 0;
///  - minimum and maximum: whole numbers up to 100;
///  - int32: any number; sums and products wrap around, which is exact;
///  - collectives without a reduction: any bits.
class Pattern {
 public:
  Pattern(ElementType type, Reduction reduction, bool reduces, int ranks, uint32_t seed)
      : type_(type), reduction_(reduction), reduces_(reduces), ranks_(static_cast<uint32_t>(ranks)), seed_(seed) {
    const uint32_t exact = type == ElementType::float32 ? 1u << 24 : type == ElementType::float16 ? 1u << 11 : 1u << 8;
    const uint32_t limit = reduction == Reduction::prod ? 12 : exact;
    range_ = limit / ranks_;
    if (range_ > 100) range_ = 100;
    if (reduction == Reduction::prod || range_ == 0) range_ = 1;
    period_ = (ranks_ + limit - 1) / limit;
  }

  ElementType type() const { return type_; }
  Reduction reduction() const { return reduction_; }
  bool reduces() const { return reduces_; }

  /// Rank `rank`'s contribution to element `index` of the message, as bits (the lower 16 of 16-bit types).
  SLACKLINE_HOST_DEVICE uint32_t input(uint32_t rank, int64_t index) const {
    const uint32_t random = hash(rank, index);
    if (!reduces_) return element_bytes(type_) == 2 ? random & 0xffffu : random;
    if (type_ == ElementType::int32) return reduction_ == Reduction::prod ? random | 1u : random;
    switch (reduction_) {
      case Reduction::sum: return encode(static_cast<float>(summand(rank, index, random)));
      case Reduction::prod: return power(exponent(rank, index, random), random >> 31);
      default: return encode(static_cast<float>(extremum(random)));
    }
  }

  /// What the contributions of all ranks to element `index` reduce to, computed without floating-point additions.
  SLACKLINE_HOST_DEVICE uint32_t reduced(int64_t index) const {
    if (type_ == ElementType::int32) {
      uint32_t result = input(0, index);
      for (uint32_t rank = 1; rank < ranks_; ++rank) {
        const uint32_t other = input(rank, index);
        const bool less = static_cast<int32_t>(other) < static_cast<int32_t>(result);
        switch (reduction_) {
          case Reduction::sum: result += other; break;
          case Reduction::prod: result *= other; break;
          case Reduction::min: result = less ? other : result; break;
          case Reduction::max: result = less ? result : other; break;
        }
      }
      return result;
    }
    int32_t number = reduction_ == Reduction::min || reduction_ == Reduction::max ? extremum(hash(0, index)) : 0;
    uint32_t negative = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const uint32_t random = hash(rank, index);
      const int32_t other = extremum(random);
      switch (reduction_) {
        case Reduction::sum: number += summand(rank, index, random); break;
        case Reduction::prod:
          number += exponent(rank, index, random);
          negative ^= random >> 31;
          break;
        case Reduction::min: number = other < number ? other : number; break;
        case Reduction::max: number = other > number ? other : number; break;
      }
    }
    return reduction_ == Reduction::prod ? power(number, negative) : encode(static_cast<float>(number));
  }

 private:
  // The finaliser of MurmurHash3 (Appleby, public domain) over a mix of both arguments.
  SLACKLINE_HOST_DEVICE uint32_t hash(uint32_t rank, int64_t index) const {
    uint32_t x = static_cast<uint32_t>(index) * 0x9e3779b1u + static_cast<uint32_t>(index >> 32) * 0x27d4eb2fu +
                 (rank + 1) * 0x165667b1u + seed_;
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
  }
  SLACKLINE_HOST_DEVICE bool takes_part(uint32_t rank, int64_t index) const {
    return period_ == 1 || (rank + static_cast<uint32_t>(index)) % period_ == 0;
  }
  // The upper bits of the product scale the hash to 0..range-1 without a division.
  SLACKLINE_HOST_DEVICE int32_t summand(uint32_t rank, int64_t index, uint32_t random) const {
    const int32_t number = 1 + static_cast<int32_t>(static_cast<uint64_t>(random) * range_ >> 32);
    return takes_part(rank, index) ? number : 0;
  }
  SLACKLINE_HOST_DEVICE int32_t exponent(uint32_t rank, int64_t index, uint32_t random) const {
    return takes_part(rank, index) ? static_cast<int32_t>(random % 3) - 1 : 0;
  }
  SLACKLINE_HOST_DEVICE int32_t extremum(uint32_t random) const {
    return static_cast<int32_t>(static_cast<uint64_t>(random) * 201 >> 32) - 100;
  }
  SLACKLINE_HOST_DEVICE uint32_t power(int32_t exponent, uint32_t negative) const {
    return encode(bits_float(negative << 31 | static_cast<uint32_t>(127 + exponent) << 23));
  }
  SLACKLINE_HOST_DEVICE uint32_t encode(float value) const {
    switch (type_) {
      case ElementType::float16: return float_to_half(value);
      case ElementType::bfloat16: return float_to_bfloat16(value);
      default: return float_bits(value);
    }
  }

  ElementType type_;
  Reduction reduction_;
  bool reduces_;
  uint32_t ranks_, seed_;
  uint32_t range_ = 1;   // summands are 1..range
  uint32_t period_ = 1;  // every period-th rank takes part in an element
};

}  // namespace slackline
