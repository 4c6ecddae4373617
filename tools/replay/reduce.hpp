// Reductions of one range of elements into another, on the CPU.
#pragma once

#include <cstddef>

#include "element.hpp"
#include "schedule/schedule.hpp"

namespace slackline {

/// destination[i] = destination[i] (+) source[i] over `bytes` bytes, which must be whole elements at addresses
/// aligned to them; the ranges must not overlap. 16-bit floats are computed in float and rounded to nearest;
/// int32 wraps around. Minimum and maximum of a NaN and a number are the destination's operand.
void reduce_into(void* destination, const void* source, size_t bytes, ElementType type, Reduction reduction);

}  // namespace slackline
