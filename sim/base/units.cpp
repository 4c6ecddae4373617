#include "base/units.hpp"

#include <array>
#include <limits>
#include <span>

#include "base/error.hpp"

namespace slackline {

namespace {

using Wide = __int128;

struct Unit {
  std::string_view name;
  int64_t size;  // in the base unit
};

constexpr std::array byte_units = {
    Unit{"B", 1},
    Unit{"kB", 1'000},
    Unit{"KB", 1'000},
    Unit{"MB", 1'000'000},
    Unit{"GB", 1'000'000'000},
    Unit{"TB", 1'000'000'000'000},
    Unit{"KiB", int64_t{1} << 10},
    Unit{"MiB", int64_t{1} << 20},
    Unit{"GiB", int64_t{1} << 30},
    Unit{"TiB", int64_t{1} << 40},
};
constexpr std::array duration_units = {
    Unit{"ps", 1},
    Unit{"ns", 1'000},
    Unit{"us", 1'000'000},
    Unit{"ms", 1'000'000'000},
    Unit{"s", 1'000'000'000'000},
    Unit{"min", 60'000'000'000'000},
    Unit{"h", 3'600'000'000'000'000},
};
constexpr std::array bandwidth_units = {
    Unit{"b/s", 1},
    Unit{"kb/s", 1'000},
    Unit{"Mb/s", 1'000'000},
    Unit{"Gb/s", 1'000'000'000},
    Unit{"Tb/s", 1'000'000'000'000},
    Unit{"B/s", 8},
    Unit{"kB/s", 8'000},
    Unit{"MB/s", 8'000'000},
    Unit{"GB/s", 8'000'000'000},
    Unit{"TB/s", 8'000'000'000'000},
    Unit{"MiB/s", int64_t{8} << 20},
    Unit{"GiB/s", int64_t{8} << 30},
};

std::string unit_list(std::span<const Unit> units) {
  std::string text;
  for (const Unit& unit : units) {
    if (!text.empty()) text += ", ";
    text += unit.name;
  }
  return text;
}

int64_t parse_quantity(std::string_view text, std::span<const Unit> units, std::string_view what,
                       std::string_view example, const std::string& where) {
  const auto fail = [&](const std::string& problem) {
    return Error(ErrorKind::input, "\"" + std::string(text) + "\" " + problem, where);
  };
  const std::string expected = "write a " + std::string(what) + " such as \"" + std::string(example) +
                               "\" (units: " + unit_list(units) + ")";
  size_t i = 0;
  Wide digits = 0;
  Wide scale = 1;
  size_t digit_count = 0;
  size_t point = std::string_view::npos;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' && point == std::string_view::npos) {
      point = i;
    } else if (c >= '0' && c <= '9') {
      if (++digit_count > 20) throw fail("has more digits than slackline reads (20)");
      digits = digits * 10 + (c - '0');
      if (point != std::string_view::npos) scale *= 10;
    } else {
      break;
    }
  }
  if (digit_count == 0 || point == 0 || point == i - 1) throw fail("is no quantity; " + expected);
  while (i < text.size() && text[i] == ' ') ++i;
  const std::string_view name = text.substr(i);
  if (name.empty()) throw fail("has no unit; " + expected);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    const Wide scaled = digits * unit.size;  // below 10^20 * 2^52 < 2^119
    if (scaled % scale != 0)
      throw fail("is not a whole number of " + std::string(units.front().name));
    if (scaled / scale > std::numeric_limits<int64_t>::max())
      throw fail("is too large; the largest " + std::string(what) + " is 2^63 - 1 " +
                 std::string(units.front().name));
    return static_cast<int64_t>(scaled / scale);
  }
  throw fail("has an unknown unit \"" + std::string(name) + "\"; " + expected);
}

// The largest unit that shows the count exactly with at most three decimals; the base unit otherwise.
std::string format_quantity(int64_t count, std::span<const std::string_view> preferred,
                            std::span<const Unit> units) {
  for (const std::string_view name : preferred) {
    for (const Unit& unit : units) {
      if (unit.name != name || count < unit.size) continue;
      const Wide thousandths = Wide(count) * 1000;
      if (thousandths % unit.size != 0) continue;
      std::string text = std::to_string(count / unit.size);
      if (const auto rest = static_cast<int64_t>(thousandths / unit.size % 1000); rest != 0) {
        std::string decimals = std::to_string(1000 + rest).substr(1);
        while (decimals.back() == '0') decimals.pop_back();
        text += "." + decimals;
      }
      return text + " " + std::string(unit.name);
    }
  }
  return std::to_string(count) + " " + std::string(units.front().name);
}

}  // namespace

Duration transfer_time(Bytes bytes, Bandwidth rate) {
  if (rate.count() <= 0) throw Error(ErrorKind::internal, "transfer_time needs a positive rate");
  const Wide bit_picoseconds = Wide(bytes.count()) * 8 * 1'000'000'000'000;
  const Wide time = (bit_picoseconds + rate.count() - 1) / rate.count();
  if (time > std::numeric_limits<int64_t>::max())
    throw Error(ErrorKind::input, to_string(bytes) + " at " + to_string(rate) +
                                      " take longer than the 106 days that slackline can count");
  return Duration(static_cast<int64_t>(time));
}

Bytes parse_bytes(std::string_view text, const std::string& where) {
  return Bytes(parse_quantity(text, byte_units, "size", "8 GiB", where));
}

Duration parse_duration(std::string_view text, const std::string& where) {
  return Duration(parse_quantity(text, duration_units, "time", "2 us", where));
}

Bandwidth parse_bandwidth(std::string_view text, const std::string& where) {
  return Bandwidth(parse_quantity(text, bandwidth_units, "rate", "400 Gb/s", where));
}

std::string to_string(Bytes bytes) {
  static constexpr std::array<std::string_view, 8> preferred = {"TiB", "GiB", "MiB", "KiB",
                                                                "TB",  "GB",  "MB",  "kB"};
  return format_quantity(bytes.count(), preferred, byte_units);
}

std::string to_string(Duration duration) {
  static constexpr std::array<std::string_view, 4> preferred = {"s", "ms", "us", "ns"};
  return format_quantity(duration.count(), preferred, duration_units);
}

std::string to_string(Bandwidth bandwidth) {
  static constexpr std::array<std::string_view, 7> preferred = {"TB/s", "GB/s", "Gb/s", "MB/s",
                                                                "Mb/s", "kb/s", "B/s"};
  return format_quantity(bandwidth.count(), preferred, bandwidth_units);
}

}  // namespace slackline
