#include "bounds/bounds.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.hpp"
#include "bounds/cut.hpp"
#include "bounds/exact.hpp"
#include "bounds/latency.hpp"
#include "bounds/theorems.hpp"
#include "bounds/volume.hpp"

namespace slackline {

namespace {

constexpr Wide int64_limit = std::numeric_limits<int64_t>::max();

void check(const BoundRequest& request) {
  const int ranks = request.network.ranks();
  const Collective& collective = request.collective;
  const auto fail = [](const std::string& message) { throw Error(ErrorKind::input, message); };
  if (collective.ranks != ranks)
    fail("the collective has " + std::to_string(collective.ranks) + " ranks, the network " +
         std::to_string(ranks));
  if (ranks < 2) fail("a collective needs at least 2 ranks");
  if (has_root(collective.type) && (collective.root < 0 || collective.root >= ranks))
    fail("the root " + std::to_string(collective.root) + " is none of the ranks 0 to " +
         std::to_string(ranks - 1));
  if (request.size < Bytes(0) || request.element < Bytes(1))
    fail("a bound needs a message of at least 0 bytes and elements of at least 1 byte");
  if (Wide(request.size.count()) * 2 * ranks > int64_limit)
    fail(to_string(request.size) + " on " + std::to_string(ranks) +
         " ranks are more bytes in total than 64 bits count");
  Wide capacity = 0;
  for (const NetworkLink& link : request.network.links()) capacity += link.capacity.count();
  if (capacity > int64_limit) fail("the links together carry more than 2^63 b/s");
}

// `exact`, unless its number has more than four digits before the point or more than three after
// it, or none of its units fits: then `value` in decimal units, to nine digits.
std::string readable(std::string exact, double value, std::span<const std::string_view> units) {
  if (exact.find_first_of(". ") <= 4 && exact.size() <= 14) return exact;
  size_t unit = 0;
  for (; unit + 1 < units.size() && value >= 1000; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, "%.9g ", value);
  return text + std::string(units[unit]);
}

std::string show(Duration duration) {
  static constexpr std::array<std::string_view, 5> units = {"ps", "ns", "us", "ms", "s"};
  return readable(to_string(duration), static_cast<double>(duration.count()), units);
}

}  // namespace

const std::vector<BoundFamily>& bound_families() {
  static const std::vector<BoundFamily> families = {
      {"theorems", "OptCC's theorems for stragglers on a fabric that only NICs limit",
       add_theorems},
      {"cut", "a set of ranks must send or receive so much", add_cuts},
      {"volume", "an allreduce among r parts moves the message 2(r-1) times", add_volumes},
      {"latency", "what one rank contributes must get to another", add_latency},
  };
  return families;
}

std::vector<Bound> lower_bounds(const BoundRequest& request) {
  check(request);
  std::vector<Bound> bounds;
  for (const BoundFamily& family : bound_families()) family.add(request, bounds);
  std::stable_sort(bounds.begin(), bounds.end(),
                   [](const Bound& a, const Bound& b) { return a.time > b.time; });
  return bounds;
}

std::string describe(const Bound& bound) {
  return bound.name + ": " + show(bound.time) + "; " + bound.certificate + " [" + bound.source +
         "]";
}

Bandwidth common_link(const Network& network) {
  if (network.vertices().size() != static_cast<size_t>(network.ranks())) return Bandwidth(0);
  int64_t unit = 0, largest = 0;
  for (const NetworkLink& link : network.links()) {
    if (link.kind != LinkKind::nvlink) return Bandwidth(0);
    unit = std::gcd(unit, link.capacity.count());
    largest = std::max(largest, link.capacity.count());
  }
  return Bandwidth(largest <= 16 * unit ? unit : 0);
}

Bound load_bound(const BoundRequest& request, std::string name, const Load& load,
                 std::vector<std::vector<int>> parts, std::string certificate, std::string source) {
  const Wide time = load.bytes * 8 * 1'000'000'000'000 / load.capacity;
  if (time > int64_limit)
    throw Error(ErrorKind::input, show(Bytes(static_cast<int64_t>(load.bytes))) + " through " +
                                      show(Bandwidth(static_cast<int64_t>(load.capacity))) +
                                      " take longer than the 106 days that slackline can count");
  Bound bound;
  bound.name = std::move(name);
  bound.time = Duration(static_cast<int64_t>(time));
  bound.certificate = std::move(certificate);
  bound.source = std::move(source);
  bound.parts = std::move(parts);
  bound.amount = Bytes(static_cast<int64_t>(load.bytes));
  bound.capacity = Bandwidth(static_cast<int64_t>(load.capacity));

  const Bandwidth link = request.link.count() > 0 ? request.link : common_link(request.network);
  if (link.count() > 0 && load.bytes > 0) {
    try {
      bound.rate_in_links = Fraction(request.size.count(), bound.amount.count()) *
                            Fraction(bound.capacity.count(), link.count());
      // Parts rounded to elements make fractions that tell a reader nothing.
      if (bound.rate_in_links->denominator() < 10'000)
        bound.certificate +=
            ": algbw is at most " + bound.rate_in_links->to_string() + " links' worth";
    } catch (const Error&) {
      bound.rate_in_links.reset();  // nor do those that 64 bits do not hold
    }
  }
  return bound;
}

std::string show(Bytes bytes) {
  static constexpr std::array<std::string_view, 5> units = {"B", "kB", "MB", "GB", "TB"};
  return readable(to_string(bytes), static_cast<double>(bytes.count()), units);
}

std::string show(Bandwidth bandwidth) {
  static constexpr std::array<std::string_view, 5> units = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return readable(to_string(bandwidth), static_cast<double>(bandwidth.count()) / 8, units);
}

std::string name_ranks(const Network& network, const std::vector<int>& ranks) {
  if (ranks.size() == 1)
    return "rank " + std::to_string(ranks[0]) + " (" +
           network.vertices()[static_cast<size_t>(ranks[0])].name + ")";
  constexpr size_t shown = 16;
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks.size() > shown && i >= 4 && i + 1 < ranks.size()) continue;
    if (i > 0) text += ", ";
    if (ranks.size() > shown && i + 1 == ranks.size()) text += ".. ";
    text += std::to_string(ranks[i]);
  }
  return ranks.size() > shown ? std::to_string(ranks.size()) + " ranks " + text : "ranks " + text;
}

void fail_unreachable(const BoundRequest& request, const std::vector<int>& ranks) {
  throw Error(ErrorKind::input, "no schedule can do this " +
                                    std::string(to_string(request.collective.type)) + ": " +
                                    name_ranks(request.network, ranks) +
                                    " and the other ranks have no path that it needs");
}

}  // namespace slackline
