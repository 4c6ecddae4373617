#include "collectives/ring.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace slackline {

int default_rings(const Network& network) {
  return network.servers() > 1 ? std::clamp(network.ranks_per_server(), 1, 64) : 1;
}

int rings_option(const GenerateRequest& request) {
  const auto wanted = request.options.find("rings");
  return wanted ? static_cast<int>(wanted->integer(1, 64)) : default_rings(request.network);
}

std::optional<std::string> no_ring_for(const GenerateRequest& request) {
  switch (request.collective.type) {
    case CollectiveType::allreduce:
    case CollectiveType::reduce_scatter:
    case CollectiveType::allgather: return std::nullopt;
    default: return "the ring here does allreduce, reduce_scatter and allgather only";
  }
}

std::vector<std::vector<uint32_t>> ring_orders(const Network& network, int rings) {
  std::map<int, std::vector<uint32_t>> members;
  for (int rank = 0; rank < network.ranks(); ++rank) members[network.server_of(rank)].push_back(static_cast<uint32_t>(rank));
  std::vector<std::vector<uint32_t>> orders(static_cast<size_t>(rings));
  for (size_t c = 0; c < orders.size(); ++c) {
    for (const auto& [server, ranks] : members)
      for (size_t i = 0; i < ranks.size(); ++i) orders[c].push_back(ranks[(c + 1 + i) % ranks.size()]);
  }
  return orders;
}

namespace {

// Calls `add` with the transfers of all rings in list order; it returns the transfer's index. Chunk order[i] * rings + c is
// ring c's piece of the part of rank order[i].
template <class Add>
void turn_rings(const Collective& collective, const std::vector<std::vector<uint32_t>>& orders, Add add) {
  const auto ranks = static_cast<uint32_t>(collective.ranks), rings = static_cast<uint32_t>(orders.size());
  constexpr uint32_t none = UINT32_MAX;
  // Every chunk travels its own path around its ring; last[c] is the transfer that moved chunk c last.
  std::vector<uint32_t> last(size_t{ranks} * rings, none);
  const auto turn = [&](TransferOp op, uint32_t shift) {
    for (uint32_t step = 0; step + 1 < ranks; ++step) {
      for (uint32_t c = 0; c < rings; ++c) {
        const std::vector<uint32_t>& order = orders[c];
        for (uint32_t i = 0; i < ranks; ++i) {
          const uint32_t chunk = order[(i + shift + ranks - step) % ranks] * rings + c;
          const std::span<const uint32_t> after(&last[chunk], last[chunk] == none ? 0 : 1);
          last[chunk] = add(Transfer{order[i], order[i + 1 < ranks ? i + 1 : 0], chunk, chunk, op, static_cast<uint16_t>(c), after});
        }
      }
    }
  };
  // In the reduce-scatter part q starts at the rank after rank q and ends, complete, at rank q, which owns it; in
  // the allgather it starts there.
  if (collective.type != CollectiveType::allgather) turn(TransferOp::reduce, ranks - 1);
  if (collective.type != CollectiveType::reduce_scatter) turn(TransferOp::copy, 0);
}

}  // namespace

void emit_ring(const Collective& collective, const std::vector<std::vector<uint32_t>>& orders, TransferSink& sink) {
  uint32_t next = 0;
  turn_rings(collective, orders, [&](const Transfer& hop) {
    sink.add(hop);
    return next++;
  });
}

Schedule ring_schedule(const Collective& collective, const std::vector<std::vector<uint32_t>>& orders,
                       const std::function<Fraction(uint32_t, uint32_t)>& idle) {
  const auto ranks = static_cast<uint32_t>(collective.ranks), rings = static_cast<uint32_t>(orders.size());
  // Messages that occupy their ports for longer, and in how many units the piece must be cut to say how much.
  std::map<std::pair<uint32_t, uint32_t>, Fraction> longer;
  int64_t piece = 1;
  for (const auto& order : orders) {
    for (uint32_t i = 0; i < ranks && idle; ++i) {
      const uint32_t src = order[i], dst = order[(i + 1) % ranks];
      const Fraction extra = idle(src, dst);
      if (extra == Fraction(0)) continue;
      longer[{src, dst}] = extra;
      piece = std::lcm(piece, extra.denominator());
    }
  }

  Schedule schedule(collective, int64_t{ranks} * rings * piece);
  for (uint32_t c = 0; c < ranks * rings; ++c) schedule.add_chunk({Buffer::data, c * piece, piece});
  // Of each idle time, whole pieces and a rest, as chunks of every piece.
  std::map<std::pair<uint32_t, uint32_t>, std::pair<uint32_t, uint32_t>> filler;  // source chunk of piece 0, scratch chunk
  for (const auto& [hop, extra] : longer) {
    const int64_t length = (extra * Fraction(piece)).numerator();
    if (length > piece) throw Error(ErrorKind::internal, "a ring's message is idle for longer than itself");
    filler[hop] = {static_cast<uint32_t>(schedule.chunks().size()), 0};
    for (uint32_t c = 0; c < ranks * rings; ++c) schedule.add_chunk({Buffer::data, c * piece, length});
    filler[hop].second = schedule.add_chunk({Buffer::scratch, 0, length});
  }
  const size_t phases = collective.type == CollectiveType::allreduce ? 2 : 1;
  const size_t transfers = phases * rings * ranks * (ranks - 1);
  if (transfers >= UINT32_MAX - 1)
    throw Error(ErrorKind::input, "a ring of " + std::to_string(ranks) + " ranks takes " + std::to_string(transfers) +
                                      " transfers, and a schedule holds at most 2^32 - 2");
  schedule.reserve(transfers, transfers);

  turn_rings(collective, orders, [&](Transfer hop) {
    if (!filler.empty()) {
      if (const auto found = filler.find({hop.src, hop.dst}); found != filler.end()) {
        Transfer idle_time = hop;
        idle_time.src_chunk += found->second.first;
        idle_time.dst_chunk = found->second.second;
        idle_time.op = TransferOp::copy;
        schedule.add(idle_time);
      }
    }
    schedule.add(hop);
    return static_cast<uint32_t>(schedule.size() - 1);
  });
  return schedule;
}

namespace {

Generated generate_ring(const GenerateRequest& request) {
  Generated result;
  result.schedule = ring_schedule(request.collective, ring_orders(request.network, rings_option(request)));
  return result;
}

}  // namespace

const Algorithm ring_algorithm = {
    "ring", "reduce-scatter and allgather around all ranks, as NCCL's ring", no_ring_for, generate_ring,
    {"rings"}};

}  // namespace slackline
