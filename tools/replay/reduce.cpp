#include "reduce.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define SLACKLINE_F16C
#endif

// The loops are plain, for the compiler to vectorise; on x86 it makes an AVX2 form of each beside the portable one.
// (Sanitizers' runtimes are not up yet when the loader chooses among forms.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define SLACKLINE_VECTORISE __attribute__((target_clones("avx2", "default")))
#else
#define SLACKLINE_VECTORISE
#endif

namespace slackline {

namespace {

struct Sum {
  template <class T>
  static T apply(T a, T b) { return a + b; }
};
struct Prod {
  template <class T>
  static T apply(T a, T b) { return a * b; }
};
struct Min {
  template <class T>
  static T apply(T a, T b) { return b < a ? b : a; }
};
struct Max {
  template <class T>
  static T apply(T a, T b) { return b > a ? b : a; }
};

// How each element type is stored, and what it is computed in.
struct Float32 {
  using Stored = float;
  static float load(float x) { return x; }
  static float store(float x) { return x; }
};
struct Float16 {
  using Stored = uint16_t;
  static float load(uint16_t x) { return half_to_float(x); }
  static uint16_t store(float x) { return float_to_half(x); }
};
struct Bfloat16 {
  using Stored = uint16_t;
  static float load(uint16_t x) { return bfloat16_to_float(x); }
  static uint16_t store(float x) { return float_to_bfloat16(x); }
};
// Sums and products of unsigned numbers wrap around to the bits of the signed ones; comparisons need the sign.
struct Int32Bits {
  using Stored = uint32_t;
  static uint32_t load(uint32_t x) { return x; }
  static uint32_t store(uint32_t x) { return x; }
};
struct Int32 {
  using Stored = int32_t;
  static int32_t load(int32_t x) { return x; }
  static int32_t store(int32_t x) { return x; }
};

template <class Element, class Operation>
inline __attribute__((always_inline)) void loop(void* destination, const void* source, size_t bytes) {
  using Stored = typename Element::Stored;
  auto* __restrict to = static_cast<Stored*>(destination);
  const auto* __restrict from = static_cast<const Stored*>(source);
  for (size_t i = 0; i < bytes / sizeof(Stored); ++i)
    to[i] = Element::store(Operation::apply(Element::load(to[i]), Element::load(from[i])));
}

#ifdef SLACKLINE_F16C
// Halves, eight at a time; returns how many were done. The compiler does not vectorise the conversions, and the processor has them.
__attribute__((target("avx,f16c"))) size_t reduce_halves(uint16_t* to, const uint16_t* from, size_t count, Reduction reduction) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto* place = reinterpret_cast<__m128i*>(to + i);
    const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128(place));
    const __m256 b = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    __m256 result = a;
    switch (reduction) {
      case Reduction::sum: result = _mm256_add_ps(a, b); break;
      case Reduction::prod: result = _mm256_mul_ps(a, b); break;
      case Reduction::min: result = _mm256_min_ps(b, a); break;  // of a NaN and a number: the second operand
      case Reduction::max: result = _mm256_max_ps(b, a); break;
    }
    _mm_storeu_si128(place, _mm256_cvtps_ph(result, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}
#endif

template <class Element, class Other>
inline __attribute__((always_inline)) void choose(void* to, const void* from, size_t bytes, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return loop<Element, Sum>(to, from, bytes);
    case Reduction::prod: return loop<Element, Prod>(to, from, bytes);
    case Reduction::min: return loop<Other, Min>(to, from, bytes);
    case Reduction::max: return loop<Other, Max>(to, from, bytes);
  }
}

}  // namespace

SLACKLINE_VECTORISE static void reduce_plainly(void* destination, const void* source, size_t bytes, ElementType type,
                                               Reduction reduction) {
  switch (type) {
    case ElementType::float32: return choose<Float32, Float32>(destination, source, bytes, reduction);
    case ElementType::float16: return choose<Float16, Float16>(destination, source, bytes, reduction);
    case ElementType::bfloat16: return choose<Bfloat16, Bfloat16>(destination, source, bytes, reduction);
    case ElementType::int32: return choose<Int32Bits, Int32>(destination, source, bytes, reduction);
  }
}

void reduce_into(void* destination, const void* source, size_t bytes, ElementType type, Reduction reduction) {
#ifdef SLACKLINE_F16C
  if (type == ElementType::float16 && __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c")) {
    auto* to = static_cast<uint16_t*>(destination);
    const auto* from = static_cast<const uint16_t*>(source);
    const size_t done = reduce_halves(to, from, bytes / 2, reduction);
    return reduce_plainly(to + done, from + done, bytes - 2 * done, type, reduction);
  }
#endif
  reduce_plainly(destination, source, bytes, type, reduction);
}

}  // namespace slackline
