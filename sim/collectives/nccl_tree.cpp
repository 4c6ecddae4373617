#include "collectives/nccl_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "collectives/hamiltonian.hpp"
#include "collectives/islands.hpp"
#include "collectives/tree_streams.hpp"

namespace slackline {

namespace {

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  if (request.collective.type != CollectiveType::allreduce) return "NCCL uses trees for allreduce only";
  if (!request.collective.in_place) return "it works in place only";
  const std::string missing = missing_route(request.network, nvlink_islands(request.network));
  if (!missing.empty()) return missing;
  return std::nullopt;
}

// The ranks of each node, in the order of their chain.
std::vector<std::vector<int>> nodes_of(const Network& network) {
  std::vector<std::vector<int>> nodes;
  if (network.servers() == 1) {
    for (int rank = 0; rank < network.ranks(); ++rank) nodes.push_back({rank});
    return nodes;
  }
  const std::vector<Island> islands = nvlink_islands(network);
  std::map<int, std::vector<int>> servers;
  for (int rank = 0; rank < network.ranks(); ++rank) servers[network.server_of(rank)].push_back(rank);
  for (auto& [server, ranks] : servers) {
    const auto whole = std::find_if(islands.begin(), islands.end(), [&](const Island& island) { return island.ranks == ranks; });
    if (whole != islands.end() && !whole->switched && ranks.size() > 2) {
      const CapacityGraph& graph = whole->graph;
      // A cycle, so that the chain can start anywhere.
      const auto order = hamiltonian_path(graph.vertices(), 0, true, [&](int u, int v) {
        return std::min(graph.at(u, v), graph.at(v, u)) > Fraction(0);
      });
      if (order)
        for (size_t i = 0; i < order->size(); ++i) ranks[i] = whole->ranks[static_cast<size_t>((*order)[i])];
    }
    nodes.push_back(ranks);
  }
  return nodes;
}

Generated generate_nccl_tree(const GenerateRequest& request) {
  const ChunkOptions options = parse_chunk_options(request.options);
  const std::vector<std::vector<int>> nodes = nodes_of(request.network);
  size_t heads = 0;
  for (const std::vector<int>& node : nodes) heads = std::max(heads, node.size());
  const auto n = static_cast<int>(nodes.size());
  std::vector<Stream> streams;
  for (const Tree& over_nodes : {binary_tree(n), complementary_binary_tree(n)}) {
    for (size_t turn = 0; turn < heads; ++turn) {
      const auto member = [&](int node, size_t position) {
        const std::vector<int>& ranks = nodes[static_cast<size_t>(node)];
        return ranks[(turn + position) % ranks.size()];
      };
      Tree tree{member(over_nodes.root, 0), std::vector<int>(static_cast<size_t>(request.network.ranks()), -1)};
      for (int node = 0; node < n; ++node) {
        if (node != over_nodes.root)
          tree.parent[static_cast<size_t>(member(node, 0))] = member(over_nodes.parent[static_cast<size_t>(node)], 0);
        for (size_t i = 1; i < nodes[static_cast<size_t>(node)].size(); ++i)
          tree.parent[static_cast<size_t>(member(node, i))] = member(node, i - 1);
      }
      Stream stream{Fraction(1, static_cast<int64_t>(2 * heads)), -1, {}};
      add_reduce(stream, tree);
      add_broadcast(stream, tree);
      streams.push_back(std::move(stream));
    }
  }
  assign_own_channels(streams);
  std::vector<std::string> notes{fmt::format("two binary trees over {} {}", n, request.network.servers() == 1 ? "ranks" : "servers")};
  if (heads > 1) notes.push_back(fmt::format("each {} times, with another head in every server", heads));
  return generate_streams(request, streams, options, std::move(notes));
}

}  // namespace

Tree binary_tree(int n) {
  Tree tree{0, std::vector<int>(static_cast<size_t>(n), -1)};
  for (int v = 1; v < n; ++v) {
    // Up one level: the number with v's lowest bit cleared and the next one set; where that is beyond the last
    // number, its own lower neighbour on that level.
    const int bit = v & -v;
    int up = (v ^ bit) | (bit << 1);
    if (up >= n) up = v ^ bit;
    tree.parent[static_cast<size_t>(v)] = up;
  }
  return tree;
}

Tree complementary_binary_tree(int n) {
  const Tree first = binary_tree(n);
  const auto map = [&](int v) { return n % 2 == 0 ? n - 1 - v : (v + 1) % n; };
  Tree tree{map(0), std::vector<int>(static_cast<size_t>(n), -1)};
  for (int v = 1; v < n; ++v) tree.parent[static_cast<size_t>(map(v))] = map(first.parent[static_cast<size_t>(v)]);
  return tree;
}

const Algorithm nccl_tree_algorithm = {"nccl_tree", "NCCL's double binary trees across servers", inapplicable, generate_nccl_tree,
                                       {"chunk", "max_transfers"}};

}  // namespace slackline
