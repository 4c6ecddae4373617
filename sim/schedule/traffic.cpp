#include "schedule/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace slackline {

int64_t least_traffic(CollectiveType type, int64_t ranks, int64_t units) {
  switch (type) {
    case CollectiveType::allreduce: return 2 * (ranks - 1) * units;
    case CollectiveType::gather:
    case CollectiveType::scatter: return (ranks - 1) * (units / ranks);
    default: return (ranks - 1) * units;
  }
}

std::optional<Finding> excess_traffic(const Schedule& schedule) {
  __int128 moved = 0;
  for (size_t t = 0; t < schedule.size(); ++t)
    if (schedule.src(t) != schedule.dst(t)) moved += schedule.chunks()[schedule.src_chunk(t)].length;
  const Collective& collective = schedule.collective();
  const auto least = static_cast<double>(least_traffic(collective.type, collective.ranks, schedule.units()));
  if (static_cast<double>(moved) <= least || least <= 0) return std::nullopt;
  Finding finding;
  finding.rule = "excess-bytes";
  finding.severity = Severity::info;
  finding.message = fmt::format("moves {:.4g} times the message between ranks, {:.2f} times the {:.4g} that {} on {} ranks needs",
                                static_cast<double>(moved) / static_cast<double>(schedule.units()), static_cast<double>(moved) / least,
                                least / static_cast<double>(schedule.units()), to_string(collective.type), collective.ranks);
  return finding;
}

namespace {

// Intervals of units, made disjoint and ascending.
void merge(std::vector<std::pair<int64_t, int64_t>>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  size_t kept = 0;
  for (const auto& [begin, end] : intervals) {
    if (kept > 0 && begin <= intervals[kept - 1].second)
      intervals[kept - 1].second = std::max(intervals[kept - 1].second, end);
    else
      intervals[kept++] = {begin, end};
  }
  intervals.resize(kept);
}

int64_t length(const std::vector<std::pair<int64_t, int64_t>>& intervals) {
  int64_t sum = 0;
  for (const auto& [begin, end] : intervals) sum += end - begin;
  return sum;
}

}  // namespace

std::vector<Finding> traffic_notes(const Schedule& schedule) {
  std::vector<Finding> notes;
  if (std::optional<Finding> excess = excess_traffic(schedule)) notes.push_back(std::move(*excess));
  std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> written, read;
  for (size_t t = 0; t < schedule.size(); ++t) {
    const Chunk &from = schedule.chunks()[schedule.src_chunk(t)], &to = schedule.chunks()[schedule.dst_chunk(t)];
    if (from.buffer == Buffer::scratch) read[schedule.src(t)].emplace_back(from.offset, from.offset + from.length);
    if (to.buffer == Buffer::scratch) written[schedule.dst(t)].emplace_back(to.offset, to.offset + to.length);
  }
  constexpr size_t most = 5;
  size_t ranks = 0;
  for (auto& [rank, intervals] : written) {
    std::vector<std::pair<int64_t, int64_t>>& used = read[rank];
    merge(used);
    std::vector<std::pair<int64_t, int64_t>> both = used;
    both.insert(both.end(), intervals.begin(), intervals.end());
    merge(both);
    const int64_t unused = length(both) - length(used);
    if (unused == 0 || ++ranks > most) continue;
    Finding finding;
    finding.rule = "unused-scratch";
    finding.severity = Severity::info;
    finding.rank = static_cast<int>(rank);
    finding.message = fmt::format("rank {} gets {} units of scratch that nobody reads", rank, unused);
    notes.push_back(std::move(finding));
  }
  if (ranks > most) notes.back().message += fmt::format(" (and {} more ranks)", ranks - most);
  return notes;
}

}  // namespace slackline
