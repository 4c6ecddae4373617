// Schedules of every collective for the tests of the executor, made by hand or by the generators.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "collectives/algorithm.hpp"
#include "replay/contents.hpp"
#include "schedule/schedule.hpp"
#include "topology/builders.hpp"
#include "topology/failures.hpp"
#include "topology/network.hpp"

namespace slackline::testing {

/// `ranks` servers with one GPU and one NIC each.
inline Network star(int ranks, const std::string& latency = "2 us", const std::string& overhead = "20 ns",
                    const Fraction& slowdown = Fraction(1)) {
  const Json document = {{"builder", "rail_fabric"},     {"servers", ranks},
                         {"gpus_per_server", 1},         {"nics_per_server", 1},
                         {"nic_bandwidth", "100 GB/s"},  {"nic_latency", latency},
                         {"message_overhead", overhead}, {"nvlink_bandwidth", "900 GB/s"},
                         {"nvlink_latency", "500 ns"}};
  Topology topology = build_topology(JsonCursor(document, "test"), ".");
  if (slowdown > Fraction(1)) {
    Failure failure;
    failure.slowdown = slowdown;
    apply_failures(topology, {failure});
  }
  RankSelection selection;
  selection.gpus_per_server = 1;
  return build_network(topology, selection);
}

inline Collective collective(CollectiveType type, int ranks, bool in_place = true,
                             Reduction reduction = Reduction::sum) {
  return {type, ranks, has_root(type) ? ranks / 2 : -1, in_place, reduction};
}

inline Schedule generated(const std::string& algorithm, const Network& network, const Collective& what, Bytes size,
                          int segments = 0) {
  Json options = {{"algorithm", algorithm}};
  if (segments > 0) options["segments"] = segments;
  return generate({network, what, size, Bytes(4), Sharing::fair, JsonCursor(options, "test"), {}}).schedule;
}

inline Schedule ring(int ranks, CollectiveType type = CollectiveType::allreduce, Reduction reduction = Reduction::sum) {
  return generated("ring", star(ranks), collective(type, ranks, true, reduction), Bytes(1 << 20));
}

inline Schedule optcc(int ranks, int segments, const Fraction& slowdown) {
  return generated("optcc", star(ranks, "2 us", "20 ns", slowdown), collective(CollectiveType::allreduce, ranks),
                   Bytes(1 << 20), segments);
}

/// Adds transfers with their chunks.
class HandMade {
 public:
  HandMade(const Collective& what, int64_t units) : schedule_(what, units) {}

  uint32_t add(int src, const Chunk& from, int dst, const Chunk& to, TransferOp op, int channel = 0,
               std::vector<uint32_t> after = {}) {
    schedule_.add({static_cast<uint32_t>(src), static_cast<uint32_t>(dst), schedule_.add_chunk(from),
                   schedule_.add_chunk(to), op, static_cast<uint16_t>(channel), after});
    return static_cast<uint32_t>(schedule_.size() - 1);
  }
  const Schedule& schedule() const { return schedule_; }

 private:
  Schedule schedule_;
};

/// Several rings at once, each on a channel and on units of its own.
inline Schedule channel_rings(int ranks, int channels) {
  HandMade writer(collective(CollectiveType::allreduce, ranks), ranks * channels);
  std::vector<std::vector<uint32_t>> last(static_cast<size_t>(ranks * channels));
  for (const TransferOp op : {TransferOp::reduce, TransferOp::copy})
    for (int step = 0; step + 1 < ranks; ++step)
      for (int rank = 0; rank < ranks; ++rank)
        for (int channel = 0; channel < channels; ++channel) {
          const int turn = rank + 2 * ranks - step - (op == TransferOp::reduce ? 1 : 0);
          const int unit = channel * ranks + turn % ranks;
          auto& wait = last[static_cast<size_t>(unit)];
          wait = {writer.add(rank, {Buffer::data, unit, 1}, (rank + 1) % ranks, {Buffer::data, unit, 1}, op, channel,
                             wait)};
        }
  return writer.schedule();
}

/// All to one and back through a scratch slot a rank at the root: `after` says when a slot is full and, for
/// the second half of the message, when it is empty again.
inline Schedule scratch_allreduce(int ranks) {
  HandMade writer(collective(CollectiveType::allreduce, ranks), 4);
  std::vector<uint32_t> emptied(static_cast<size_t>(ranks)), last_reduce;
  for (int half = 0; half < 2; ++half) {
    const Chunk data{Buffer::data, half * 2, 2};
    for (int rank = 1; rank < ranks; ++rank) {
      const Chunk slot{Buffer::scratch, rank * 2, 2};
      std::vector<uint32_t> empty;
      if (half == 1) empty.push_back(emptied[static_cast<size_t>(rank)]);
      // Every rank on a channel of its own, so that the order of arrival at the root is open.
      const uint32_t full = writer.add(rank, data, 0, slot, TransferOp::copy, rank, empty);
      emptied[static_cast<size_t>(rank)] = writer.add(0, slot, 0, data, TransferOp::reduce, 0, {full});
    }
    for (int rank = 1; rank < ranks; ++rank)
      writer.add(0, data, rank, data, TransferOp::copy, rank, {emptied.back()});
  }
  return writer.schedule();
}

/// Straight from who has it to who wants it, by way of the transfers' definition; out of place.
inline Schedule direct(CollectiveType type, int ranks) {
  const Collective what = collective(type, ranks, false);
  HandMade writer(what, 2 * ranks);
  const Chunk all{Buffer::input, 0, 2 * ranks}, all_out{Buffer::output, 0, 2 * ranks};
  const auto part = [&](Buffer buffer, int q) { return Chunk{buffer, 2 * q, 2}; };
  const int root = what.root;
  for (int dst = 0; dst < ranks; ++dst) {
    std::vector<uint32_t> first;  // the copy that starts a sum
    for (int src = 0; src < ranks; ++src) {
      const TransferOp op = reduces(type) && src > 0 ? TransferOp::reduce : TransferOp::copy;
      const int channel = src % 3;
      const auto add = [&](const Chunk& from, const Chunk& to) {
        const uint32_t index = writer.add(src, from, dst, to, op, channel, first);
        if (reduces(type)) first = {index};
      };
      switch (type) {
        case CollectiveType::allreduce: add(all, all_out); break;
        case CollectiveType::reduce: if (dst == root) add(all, all_out); break;
        case CollectiveType::reduce_scatter: add(part(Buffer::input, dst), part(Buffer::output, 0)); break;
        case CollectiveType::broadcast: if (src == root) add(all, all_out); break;
        case CollectiveType::allgather: add(part(Buffer::input, 0), part(Buffer::output, src)); break;
        case CollectiveType::gather: if (dst == root) add(part(Buffer::input, 0), part(Buffer::output, src)); break;
        case CollectiveType::scatter: if (src == root) add(part(Buffer::input, dst), part(Buffer::output, 0)); break;
        case CollectiveType::alltoall: add(part(Buffer::input, dst), part(Buffer::output, src)); break;
      }
    }
  }
  return writer.schedule();
}

/// A name and a schedule, for loops over all of them.
struct NamedSchedule {
  std::string name;
  Schedule schedule;
};

inline std::vector<NamedSchedule> all_kinds(int ranks) {
  std::vector<NamedSchedule> list;
  list.push_back({"ring", ring(ranks)});
  list.push_back({"ring reduce_scatter", ring(ranks, CollectiveType::reduce_scatter)});
  list.push_back({"ring allgather", ring(ranks, CollectiveType::allgather)});
  list.push_back({"optcc l=2", optcc(ranks, 4, Fraction(2))});
  list.push_back({"optcc l=4/3", optcc(ranks, 5, Fraction(4, 3))});
  list.push_back({"three rings", channel_rings(ranks, 3)});
  list.push_back({"through scratch", scratch_allreduce(ranks)});
  for (int type = 0; type < 8; ++type)
    list.push_back({"direct " + std::string(to_string(static_cast<CollectiveType>(type))),
                    direct(static_cast<CollectiveType>(type), ranks)});
  return list;
}

}  // namespace slackline::testing
