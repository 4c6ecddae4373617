// The element types that can be reduced, and the software conversions of the 16-bit ones.
// Compiled by nvcc too, hence free of the standard library's containers and of fmt.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/units.hpp"

#ifdef __CUDACC__
#define SLACKLINE_HOST_DEVICE __host__ __device__
#else
#define SLACKLINE_HOST_DEVICE
#endif

namespace slackline {

enum class ElementType : uint8_t { float32, float16, bfloat16, int32 };

std::string_view to_string(ElementType type);
std::span<const std::string_view> element_type_names();
/// Throws std::out_of_range for an unknown name.
ElementType element_type(std::string_view name);

SLACKLINE_HOST_DEVICE constexpr int element_bytes(ElementType type) {
  return type == ElementType::float16 || type == ElementType::bfloat16 ? 2 : 4;
}
inline Bytes element_size(ElementType type) { return Bytes(element_bytes(type)); }

SLACKLINE_HOST_DEVICE inline uint32_t float_bits(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
SLACKLINE_HOST_DEVICE inline float bits_float(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// IEEE 754 binary16, exact. No branches, so that loops over it vectorise.
SLACKLINE_HOST_DEVICE inline float half_to_float(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu;
  // Shifted into a float's place the exponent is read with a bias of 127 instead of 15: 2^112 too small,
  // subnormal or not.
  const uint32_t scaled = float_bits(bits_float(magnitude << 13) * 0x1p112f);
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;  // infinities and NaNs
  return bits_float((half & 0x8000u) << 16 | scaled | special);
}

/// IEEE 754 binary16, to nearest, ties to even; too large a value becomes infinity. No branches.
SLACKLINE_HOST_DEVICE inline uint16_t float_to_half(float value) {
  const uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  // From 2^-14 on: rebias the exponent and round away 13 bits; a carry rounds up to infinity by itself.
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // Below: one step of a float at 0.5 is 2^-24, the step of subnormal halves, so that this sum rounds right.
  const uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  return static_cast<uint16_t>(sign | (magnitude >= 0x47800000u ? special : finite));
}

/// bfloat16: the upper half of a float.
SLACKLINE_HOST_DEVICE inline float bfloat16_to_float(uint16_t value) {
  return bits_float(static_cast<uint32_t>(value) << 16);
}

/// To nearest, ties to even; NaNs stay NaNs. No branches.
SLACKLINE_HOST_DEVICE inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(nan ? bits >> 16 | 0x40u : rounded);
}

}  // namespace slackline
