#include "collectives/tree.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "collectives/segments.hpp"
#include "schedule/list_timing.hpp"

namespace slackline {

namespace {

constexpr int none = -1;

// The in-order binary tree over 0..size-1: a node's lowest bit is its height, so that odd numbers are leaves. 0 is the
// root, with one child. none is the root's parent.
int in_order_parent(int node, int size) {
  if (node == 0) return none;
  const int bit = 1 << std::countr_zero(static_cast<unsigned>(node));
  const int up = (node ^ bit) | (bit << 1);
  return up < size ? up : node ^ bit;
}

// Of two trees over the same nodes the second is the first with the numbers turned round, if there are evenly many,
// or moved on by one: either way the leaves of one are inner nodes of the other.
int tree_parent(bool second, int node, int size) {
  if (!second) return in_order_parent(node, size);
  const bool mirrored = size % 2 == 0;
  const int there = mirrored ? size - 1 - node : (node + size - 1) % size;
  const int parent = in_order_parent(there, size);
  if (parent == none) return none;
  return mirrored ? size - 1 - parent : (parent + 1) % size;
}

struct Tree {
  std::vector<int> parent;  // by rank
  std::vector<int> height;  // longest way down to a leaf
  std::vector<int> depth;
  std::vector<uint32_t> upwards;  // ranks, children before parents
  int levels = 0;
};

void finish(Tree& tree) {
  const size_t ranks = tree.parent.size();
  tree.depth.assign(ranks, 0);
  tree.height.assign(ranks, 0);
  for (size_t r = 0; r < ranks; ++r) {
    int depth = 0;
    for (int at = static_cast<int>(r); tree.parent[static_cast<size_t>(at)] != none; at = tree.parent[static_cast<size_t>(at)]) {
      const int up = tree.parent[static_cast<size_t>(at)];
      ++depth;
      tree.height[static_cast<size_t>(up)] = std::max(tree.height[static_cast<size_t>(up)], depth);
    }
    tree.depth[r] = depth;
    tree.levels = std::max(tree.levels, depth);
    tree.upwards.push_back(static_cast<uint32_t>(r));
  }
  std::stable_sort(tree.upwards.begin(), tree.upwards.end(),
                   [&](uint32_t a, uint32_t b) { return tree.depth[a] > tree.depth[b]; });
}

// The trees span the servers (with one server, the ranks). Where there is a root, its server is none of their nodes
// but above both of them, and a chain leads from the root to its rank that hands the trees their data.
std::vector<Tree> make_trees(const Network& network, int root) {
  std::map<int, std::vector<int>> by_server;
  for (int rank = 0; rank < network.ranks(); ++rank) by_server[network.servers() > 1 ? network.server_of(rank) : rank].push_back(rank);
  std::vector<int> home;
  std::vector<std::vector<int>> nodes;
  size_t widest = 1;
  for (auto& [server, ranks] : by_server) {
    widest = std::max(widest, ranks.size());
    if (const auto place = std::find(ranks.begin(), ranks.end(), root); place != ranks.end()) {
      std::rotate(ranks.begin(), place, ranks.end());
      home = ranks;
    } else {
      nodes.push_back(ranks);
    }
  }

  const int count = static_cast<int>(nodes.size());
  std::vector<Tree> trees;
  for (size_t c = 0; c < std::min<size_t>(widest, 16); ++c) {
    for (const bool second : {false, true}) {
      Tree tree;
      tree.parent.assign(static_cast<size_t>(network.ranks()), none);
      // Chains lead from a server's c-th rank round the server, and from the root round its own.
      const auto chain = [&](const std::vector<int>& ranks, size_t head) {
        for (size_t i = 1; i < ranks.size(); ++i)
          tree.parent[static_cast<size_t>(ranks[(head + i) % ranks.size()])] = ranks[(head + i - 1) % ranks.size()];
        return ranks[head % ranks.size()];
      };
      if (!home.empty()) chain(home, 0);
      for (int node = 0; node < count; ++node) {
        const auto& ranks = nodes[static_cast<size_t>(node)];
        int& above = tree.parent[static_cast<size_t>(chain(ranks, c))];
        if (const int parent = tree_parent(second, node, count); parent != none)
          above = nodes[static_cast<size_t>(parent)][c % nodes[static_cast<size_t>(parent)].size()];
        else if (!home.empty())
          above = home[c % home.size()];
      }
      finish(tree);
      trees.push_back(std::move(tree));
    }
  }
  return trees;
}

// `shown` of `segments` pipelined segments.
Schedule tree_schedule(const Collective& collective, const std::vector<Tree>& trees, int64_t segments, int64_t shown) {
  const int64_t count = static_cast<int64_t>(trees.size());
  Schedule schedule(collective, count * segments);
  for (int64_t s = 0; s < shown; ++s)
    for (int64_t t = 0; t < count; ++t) schedule.add_chunk({Buffer::data, t * segments + s, 1});
  const bool up = collective.type != CollectiveType::broadcast, down = collective.type != CollectiveType::reduce;
  const auto ranks = static_cast<size_t>(collective.ranks);
  const size_t transfers = (size_t{up} + size_t{down}) * trees.size() * (ranks - 1) * static_cast<size_t>(shown);
  schedule.reserve(transfers, 2 * transfers);

  constexpr uint32_t nothing = UINT32_MAX;
  // By segment, tree and rank: what the rank received last.
  std::vector<uint32_t> received(static_cast<size_t>(shown) * trees.size() * ranks, nothing);
  int levels = 0;
  for (const Tree& tree : trees) levels = std::max(levels, tree.levels);
  // In the order of time: in step t a node of height a sends segment t - a up, and one of depth d gets segment
  // t - levels - d + 1 from above.
  const int64_t turn = up ? levels : 0;
  for (int64_t t = 0; t < shown + turn + levels; ++t) {
    for (size_t i = 0; i < trees.size(); ++i) {
      const Tree& tree = trees[i];
      const auto move = [&](int64_t s, uint32_t src, uint32_t dst, TransferOp op) {
        const size_t base = (static_cast<size_t>(s) * trees.size() + i) * ranks;
        const auto index = static_cast<uint32_t>(schedule.size());
        const uint32_t chunk = static_cast<uint32_t>(s * count + static_cast<int64_t>(i));
        // One channel for each tree and direction.
        const auto channel = static_cast<uint16_t>(2 * i + (op == TransferOp::copy ? 1 : 0));
        schedule.add({src, dst, chunk, chunk, op, channel, {&received[base + src], received[base + src] == nothing ? 0u : 1u}});
        received[base + dst] = index;
      };
      for (const uint32_t rank : tree.upwards) {
        if (!up || tree.parent[rank] == none) continue;
        const int64_t s = t - tree.height[rank];
        if (s >= 0 && s < shown) move(s, rank, static_cast<uint32_t>(tree.parent[rank]), TransferOp::reduce);
      }
      for (auto it = tree.upwards.rbegin(); it != tree.upwards.rend() && down; ++it) {
        const uint32_t rank = *it;
        if (tree.parent[rank] == none) continue;
        const int64_t s = t - turn - tree.depth[rank] + 1;
        if (s >= 0 && s < shown) move(s, static_cast<uint32_t>(tree.parent[rank]), rank, TransferOp::copy);
      }
    }
  }
  return schedule;
}

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  switch (request.collective.type) {
    case CollectiveType::allreduce:
    case CollectiveType::reduce:
    case CollectiveType::broadcast: return std::nullopt;
    default: return "the double binary tree does allreduce, reduce and broadcast";
  }
}

Generated generate_tree(const GenerateRequest& request) {
  const std::vector<Tree> trees = make_trees(request.network, request.collective.root);
  Generated result;
  if (const auto segments = segments_option(request.options)) {
    result.segments = *segments;
  } else {
    const int64_t per_segment = 2 * static_cast<int64_t>(trees.size()) * (request.network.ranks() - 1);
    const int64_t elements = (request.size.count() + request.element.count() - 1) / request.element.count();
    const int64_t highest = std::max<int64_t>(
        std::min(max_transfers_option(request.options) / per_segment, elements / static_cast<int64_t>(trees.size())), 1);
    const int levels = std::max_element(trees.begin(), trees.end(), [](const Tree& a, const Tree& b) { return a.levels < b.levels; })->levels;
    result.segments = best_segments(1, highest, extrapolated(2 * levels + 8, 4, [&](int64_t k, int64_t shown) {
      return time_of(request, tree_schedule(request.collective, trees, k, shown));
    }));
    result.notes.push_back(chosen_segments_note(result.segments));
  }
  result.schedule = tree_schedule(request.collective, trees, result.segments, result.segments);
  return result;
}

}  // namespace

const Algorithm tree_algorithm = {"tree", "the double binary tree, pipelined, as NCCL's tree", inapplicable, generate_tree, {"max_transfers", "segments"}};

}  // namespace slackline
