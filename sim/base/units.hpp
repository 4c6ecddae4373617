// Quantities with their units: bytes, picoseconds, bits per second. None converts to or from a plain
// number without being asked to, and each is read from text that names its unit.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace slackline {

/// A 64-bit count of one unit; `Tag` keeps the units apart.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(int64_t count) : count_(count) {}
  constexpr int64_t count() const { return count_; }
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity other) const { return Quantity(count_ + other.count_); }
  constexpr Quantity operator-(Quantity other) const { return Quantity(count_ - other.count_); }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }
  constexpr Quantity operator*(int64_t factor) const { return Quantity(count_ * factor); }

 private:
  int64_t count_ = 0;
};

using Bytes = Quantity<struct BytesTag>;          ///< bytes
using Duration = Quantity<struct DurationTag>;    ///< picoseconds
using Bandwidth = Quantity<struct BandwidthTag>;  ///< bits per second

/// Picoseconds since the collective began.
class TimePoint {
 public:
  constexpr TimePoint() = default;
  constexpr explicit TimePoint(int64_t picoseconds) : picoseconds_(picoseconds) {}
  /// Stands for what does not happen.
  static constexpr TimePoint never() { return TimePoint(INT64_MAX); }
  constexpr int64_t count() const { return picoseconds_; }
  constexpr auto operator<=>(const TimePoint&) const = default;
  constexpr TimePoint operator+(Duration d) const { return TimePoint(picoseconds_ + d.count()); }
  constexpr Duration operator-(TimePoint other) const {
    return Duration(picoseconds_ - other.picoseconds_);
  }

 private:
  int64_t picoseconds_ = 0;
};

/// The time `bytes` need at `rate`, computed in 128 bits and rounded up to a picosecond, so that no link
/// beats its rate. `rate` must be positive. Throws Error{input} if it exceeds 106 days (2^63 ps).
Duration transfer_time(Bytes bytes, Bandwidth rate);

/// Readers of "8 GiB", "2 us", "400 Gb/s". The number is a decimal without sign or exponent; the result
/// must be a whole count of the base unit and fit into 64 bits. Anything else throws Error{input} that
/// says what is wrong and names the accepted units; `where` says where the text stands.
Bytes parse_bytes(std::string_view text, const std::string& where = {});
Duration parse_duration(std::string_view text, const std::string& where = {});
Bandwidth parse_bandwidth(std::string_view text, const std::string& where = {});

/// Text that parses back to the same quantity, in the largest unit that shows it with few digits.
std::string to_string(Bytes bytes);
std::string to_string(Duration duration);
std::string to_string(Bandwidth bandwidth);

}  // namespace slackline
