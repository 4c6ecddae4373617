#include "collectives/nccl_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "collectives/hamiltonian.hpp"
#include "collectives/tree_streams.hpp"

namespace slackline {

namespace {

std::vector<int> reversed(std::vector<int> order) {
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<int> ranks_of(const Island& island, const std::vector<int>& local) {
  std::vector<int> result;
  for (const int v : local) result.push_back(island.ranks[static_cast<size_t>(v)]);
  return result;
}

NcclRings rings_in_server(const Network& network, const std::vector<Island>& islands) {
  std::vector<int> all;
  for (int rank = 0; rank < network.ranks(); ++rank) all.push_back(rank);
  if (islands.size() == 1) {
    const Island& island = islands[0];
    if (island.switched) return {{all}, "one ring through the NVSwitch"};
    if (all.size() == 2) {
      const Fraction links = std::min(island.graph.at(0, 1), island.graph.at(1, 0));
      const int64_t whole = std::max<int64_t>(1, links.numerator() / links.denominator());
      return {std::vector<std::vector<int>>(static_cast<size_t>(whole), all), fmt::format("{} rings of two, one a link", whole)};
    }
    NcclRings rings;
    for (const std::vector<int>& cycle : disjoint_hamiltonian_cycles(island.graph)) {
      rings.orders.push_back(ranks_of(island, cycle));
      rings.orders.push_back(reversed(rings.orders.back()));
    }
    if (!rings.orders.empty()) {
      rings.notes = fmt::format("{} NVLink rings, each in both directions", rings.orders.size() / 2);
      return rings;
    }
  }
  return {{all}, "no NVLink ring through all ranks: one ring over PCIe"};
}

// Ranks i to j of a chain: the rank's own way around its server.
std::vector<int> cycle_in_server(const Island* island, const std::vector<int>& ranks) {
  if (island && !island->switched && ranks.size() > 2) {
    const CapacityGraph& graph = island->graph;
    const auto order = hamiltonian_path(graph.vertices(), 0, true, [&](int u, int v) {
      return std::min(graph.at(u, v), graph.at(v, u)) > Fraction(0);
    });
    if (order) return ranks_of(*island, *order);
  }
  return ranks;
}

// A chain that covers the order from `first` on.
Tree chain(const std::vector<int>& order, size_t first, bool forward) {
  const size_t n = order.size();
  Tree tree{order[first], std::vector<int>(n, -1)};
  for (size_t step = 1; step < n; ++step) {
    const size_t here = forward ? (first + step) % n : (first + n - step) % n;
    const size_t before = forward ? (first + step - 1) % n : (first + n - step + 1) % n;
    tree.parent[static_cast<size_t>(order[here])] = order[before];
  }
  return tree;
}

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  if (!request.collective.in_place) return "it works in place only";
  switch (request.collective.type) {
    case CollectiveType::broadcast:
    case CollectiveType::reduce:
    case CollectiveType::allreduce:
    case CollectiveType::allgather:
    case CollectiveType::reduce_scatter: break;
    default: return "rings serve broadcast, reduce, allreduce, allgather and reduce_scatter";
  }
  const std::string missing = missing_route(request.network, nvlink_islands(request.network));
  if (!missing.empty()) return missing;
  return std::nullopt;
}

Generated generate_nccl_ring(const GenerateRequest& request) {
  const ChunkOptions options = parse_chunk_options(request.options);
  const NcclRings rings = nccl_rings(request.network, nvlink_islands(request.network));
  const auto count = static_cast<int64_t>(rings.orders.size());
  const int ranks = request.network.ranks();
  const CollectiveType type = request.collective.type;

  std::vector<Stream> streams;
  for (int64_t r = 0; r < count; ++r) {
    const std::vector<int>& order = rings.orders[static_cast<size_t>(r)];
    const auto add = [&](Stream stream, size_t first, bool in, bool out) {
      if (in) add_reduce(stream, chain(order, first, false));
      if (out) add_broadcast(stream, chain(order, first, true));
      for (StreamOp& op : stream.ops) op.channel = static_cast<int>(r);
      streams.push_back(std::move(stream));
    };
    if (has_root(type)) {
      const auto root = static_cast<size_t>(std::find(order.begin(), order.end(), request.collective.root) - order.begin());
      add({Fraction(1, count), -1, {}}, root, type == CollectiveType::reduce, type == CollectiveType::broadcast);
    } else if (type == CollectiveType::allreduce) {
      for (size_t first = 0; first < order.size(); ++first) add({Fraction(1, count * ranks), -1, {}}, first, true, true);
    } else {
      for (size_t first = 0; first < order.size(); ++first)
        add({Fraction(1, count), order[first], {}}, first, type == CollectiveType::reduce_scatter, type == CollectiveType::allgather);
    }
  }
  std::vector<std::string> notes{rings.notes};
  if (has_root(type)) return generate_streams(request, streams, options, std::move(notes));
  const StreamPlan plan = plan_streams(request.network, streams);
  notes.push_back(fmt::format("planned rate {:.6g} GB/s, {} steps", plan.bytes_per_second / 1e9, plan.levels));
  Generated result;
  result.schedule = schedule_streams(request.collective, streams, 1);
  result.notes = std::move(notes);
  return result;
}

}  // namespace

NcclRings nccl_rings(const Network& network, const std::vector<Island>& islands) {
  if (network.servers() == 1) return rings_in_server(network, islands);
  std::map<int, std::vector<int>> servers;
  for (int rank = 0; rank < network.ranks(); ++rank) servers[network.server_of(rank)].push_back(rank);
  std::vector<std::vector<int>> cycles;
  size_t largest = 0;
  for (const auto& [server, ranks] : servers) {
    const auto whole = std::find_if(islands.begin(), islands.end(), [&](const Island& island) { return island.ranks == ranks; });
    cycles.push_back(cycle_in_server(whole == islands.end() ? nullptr : &*whole, ranks));
    largest = std::max(largest, ranks.size());
  }
  NcclRings rings;
  for (size_t r = 0; r < largest; ++r) {
    std::vector<int> order;
    for (std::vector<int> cycle : cycles) {
      std::rotate(cycle.begin(), cycle.begin() + static_cast<std::ptrdiff_t>(r % cycle.size()), cycle.end());
      order.insert(order.end(), cycle.begin(), cycle.end());
    }
    rings.orders.push_back(order);
    rings.orders.push_back(reversed(order));
  }
  rings.notes = fmt::format("{} rings through {} servers, each in both directions", largest, servers.size());
  return rings;
}

const Algorithm nccl_ring_algorithm = {"nccl_ring", "NCCL's rings of NVLinks, over PCIe where there is none", inapplicable, generate_nccl_ring,
                                       {"chunk", "max_transfers"}};

}  // namespace slackline
