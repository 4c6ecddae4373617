// Plays a schedule in list order on sums of weights, and times it as the papers' model does.
#pragma once

#include <string>
#include <vector>

#include "schedule/list_timing.hpp"
#include "schedule/schedule.hpp"

namespace slackline::test {

inline double list_seconds(const Network& network, const Schedule& schedule, Bytes size = Bytes(int64_t{8} << 30)) {
  const MessageLayout layout(size, Bytes(4), schedule.units());
  ListTiming timing(network, layout, schedule.chunks());
  for (size_t i = 0; i < schedule.size(); ++i) timing.add(schedule.transfer(i));
  return static_cast<double>(timing.completion().count()) * 1e-12;
}

/// "" where every rank ends with what the collective asks for, else what is wrong. List order only; validate() proves
/// it for all orders.
inline std::string wrong_in_list_order(const Schedule& schedule) {
  const Collective& c = schedule.collective();
  const size_t units = static_cast<size_t>(schedule.units()), ranks = static_cast<size_t>(c.ranks);
  const auto weight = [&](size_t rank, size_t unit) {
    uint64_t x = rank * 1000003 + unit + 1;
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ULL;
    return (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ULL;
  };
  size_t scratch = 0;
  for (const Chunk& chunk : schedule.chunks())
    if (chunk.buffer == Buffer::scratch) scratch = std::max(scratch, static_cast<size_t>(chunk.offset + chunk.length));
  std::vector<std::vector<uint64_t>> data(ranks, std::vector<uint64_t>(units + scratch, 0));
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t u = 0; u < units; ++u) {
      const bool has = c.type == CollectiveType::broadcast ? static_cast<int>(r) == c.root
                       : c.type == CollectiveType::allgather ? u / (units / ranks) == r
                                                             : true;
      data[r][u] = has ? weight(r, u) : 0;
    }
  }
  for (size_t i = 0; i < schedule.size(); ++i) {
    const Transfer t = schedule.transfer(i);
    const Chunk &from = schedule.chunks()[t.src_chunk], &to = schedule.chunks()[t.dst_chunk];
    if (from.length != to.length) return "transfer " + std::to_string(i) + " changes its length";
    for (const uint32_t earlier : t.after)
      if (earlier >= i) return "transfer " + std::to_string(i) + " waits for a later one";
    const auto at = [&](const Chunk& chunk, int64_t u) {
      return static_cast<size_t>(chunk.offset + u) + (chunk.buffer == Buffer::scratch ? units : 0);
    };
    for (int64_t u = 0; u < from.length; ++u) {
      const uint64_t value = data[t.src].at(at(from, u));
      uint64_t& target = data[t.dst].at(at(to, u));
      target = t.op == TransferOp::reduce ? target + value : value;
    }
  }
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t u = 0; u < units; ++u) {
      uint64_t wanted = 0;
      for (size_t q = 0; q < ranks; ++q) wanted += weight(q, u);
      bool checked = true;
      switch (c.type) {
        case CollectiveType::reduce: checked = static_cast<int>(r) == c.root; break;
        case CollectiveType::broadcast: wanted = weight(static_cast<size_t>(c.root), u); break;
        case CollectiveType::reduce_scatter: checked = u / (units / ranks) == r; break;
        case CollectiveType::allgather: wanted = weight(u / (units / ranks), u); break;
        default: break;
      }
      if (checked && data[r][u] != wanted)
        return "rank " + std::to_string(r) + " has a wrong unit " + std::to_string(u);
    }
  }
  return {};
}

}  // namespace slackline::test
