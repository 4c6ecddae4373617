#include "collectives/blink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "collectives/hamiltonian.hpp"
#include "collectives/islands.hpp"
#include "collectives/tree_streams.hpp"

namespace slackline {

namespace {

struct BlinkOptions {
  PackingOptions packing;
  ChunkOptions chunk;
  int root = -1;  // -1: each tree's own
  bool hybrid = false;
  Duration switch_over;
  bool timings = false;
};

BlinkOptions parse_options(const GenerateRequest& request) {
  const JsonCursor& json = request.options;
  BlinkOptions options;
  options.chunk = parse_chunk_options(json);
  if (const auto eps = json.find("eps")) {
    options.packing.eps = eps->fraction();
    if (options.packing.eps < Fraction(1, 100) || options.packing.eps > Fraction(9, 10)) eps->fail("eps lies between 1/100 and 9/10");
  }
  if (const auto threshold = json.find("threshold")) {
    options.packing.threshold = threshold->fraction();
    if (options.packing.threshold < Fraction(0) || options.packing.threshold >= Fraction(1))
      threshold->fail("the threshold is a fraction of the optimum, at least 0 and below 1");
  }
  if (const auto root = json.find("root")) {
    if (request.collective.type != CollectiveType::allreduce)
      root->fail(has_root(request.collective.type) ? "the root is given in the collective" : "only an allreduce has a root to choose");
    options.root = static_cast<int>(root->integer(0, request.network.ranks() - 1));
  }
  if (const auto hybrid = json.find("hybrid")) options.hybrid = hybrid->boolean();
  if (const auto time = json.find("switch_over")) {
    if (!options.hybrid) time->fail("is the cost of using PCIe beside NVLinks, which \"hybrid\": true asks for");
    options.switch_over = time->duration();
  }
  if (const auto timings = json.find("timings")) options.timings = timings->boolean();
  return options;
}

// The trees that a collective runs on, in equal shares. Trees lead from their root to the leaves whichever way data
// flows; `in` and `out` may ignore the root if it is the collective's.
struct TreeSource {
  int count = 0;
  std::function<Tree(int index, int root)> out;       // for data that flows from the root
  std::function<Tree(int index, int root)> in;        // for data that flows to the root
  std::vector<std::pair<Tree, Tree>> in_and_out;      // of an allreduce
};

// The way from the root to `leaf` alone.
Tree branch(const Tree& tree, int leaf) {
  Tree result{tree.root, std::vector<int>(tree.parent.size(), -1)};
  for (int v = leaf; v != tree.root; v = tree.parent[static_cast<size_t>(v)])
    result.parent[static_cast<size_t>(v)] = tree.parent[static_cast<size_t>(v)];
  return result;
}

std::vector<Stream> make_streams(const Collective& collective, const TreeSource& source) {
  std::vector<Stream> streams;
  const Fraction share(1, std::max(source.count, 1));
  const auto each_tree = [&](int part, const auto& fill) {
    for (int i = 0; i < source.count; ++i) {
      Stream stream{share, part, {}};
      fill(stream, i);
      streams.push_back(std::move(stream));
    }
  };
  const int root = collective.root;
  switch (collective.type) {
    case CollectiveType::broadcast:
      each_tree(-1, [&](Stream& stream, int i) { add_broadcast(stream, source.out(i, root)); });
      break;
    case CollectiveType::reduce:
      each_tree(-1, [&](Stream& stream, int i) { add_reduce(stream, source.in(i, root)); });
      break;
    case CollectiveType::scatter:
      for (int q = 0; q < collective.ranks; ++q)
        if (q != root) each_tree(q, [&](Stream& stream, int i) { add_broadcast(stream, branch(source.out(i, root), q)); });
      break;
    case CollectiveType::gather:
      // Nothing is combined: each part goes up its own branch, which leads from q to the root.
      for (int q = 0; q < collective.ranks; ++q)
        if (q != root) each_tree(q, [&](Stream& stream, int i) { add_broadcast(stream, rerooted(branch(source.in(i, root), q), q)); });
      break;
    case CollectiveType::allgather:
      for (int q = 0; q < collective.ranks; ++q)
        each_tree(q, [&](Stream& stream, int i) { add_broadcast(stream, source.out(i, q)); });
      break;
    case CollectiveType::reduce_scatter:
      for (int q = 0; q < collective.ranks; ++q)
        each_tree(q, [&](Stream& stream, int i) { add_reduce(stream, source.in(i, q)); });
      break;
    case CollectiveType::allreduce:
      for (const auto& [in, out] : source.in_and_out) {
        Stream stream{Fraction(1, static_cast<int64_t>(source.in_and_out.size())), -1, {}};
        add_reduce(stream, in);
        add_broadcast(stream, out);
        streams.push_back(std::move(stream));
      }
      break;
    case CollectiveType::alltoall: break;  // inapplicable() has refused it
  }
  return streams;
}

// Numbers of an island's vertices to ranks of the job.
Tree spread(const Tree& local, const Island& island, int ranks) {
  Tree tree{island.ranks[static_cast<size_t>(local.root)], std::vector<int>(static_cast<size_t>(ranks), -1)};
  for (size_t v = 0; v < island.ranks.size(); ++v)
    if (local.parent[v] >= 0) tree.parent[static_cast<size_t>(island.ranks[v])] = island.ranks[static_cast<size_t>(local.parent[v])];
  return tree;
}

std::string links_text(const Fraction& links) { return links.to_string() + (links == Fraction(1) ? " link" : " links"); }

void describe_packing(const TreePacking& packing, const Island& island, bool timings, bool each_tree,
                      std::vector<std::string>& notes) {
  for (const PackingStage& stage : packing.stages) {
    std::string line = fmt::format("{}: {} ({:.6g} GB/s)", stage.name, links_text(stage.rate),
                                   stage.rate.to_double() * island.link_bytes_per_second / 1e9);
    if (stage.trees > 0)
      line += fmt::format(", {} tree{}, {} hop{} deep at most", stage.trees, stage.trees == 1 ? "" : "s", stage.depth, stage.depth == 1 ? "" : "s");
    if (timings) line += fmt::format(", {:.1f} ms", stage.seconds * 1e3);
    notes.push_back(line);
  }
  if (!each_tree) return;
  for (const Tree& local : packing.trees) {
    const Tree tree = spread(local, island, island.ranks.back() + 1);
    std::string line = fmt::format("tree of {} at rank {}:", packing.denominator == 1 ? "1 link" : fmt::format("1/{} link", packing.denominator), tree.root);
    const std::vector<int> depth = depths(tree);
    for (int d = 1; d <= *std::max_element(depth.begin(), depth.end()); ++d)
      for (size_t v = 0; v < depth.size(); ++v)
        if (depth[v] == d) line += fmt::format(" {}>{}", tree.parent[v], v);
    notes.push_back(line);
  }
}

// All from one rank to all others at once.
Tree star(int root, const std::vector<int>& members, int ranks) {
  Tree tree{root, std::vector<int>(static_cast<size_t>(ranks), -1)};
  for (const int v : members)
    if (v != root) tree.parent[static_cast<size_t>(v)] = root;
  return tree;
}

class BlinkGenerator {
 public:
  explicit BlinkGenerator(const GenerateRequest& request)
      : request_(request), options_(parse_options(request)), islands_(nvlink_islands(request.network)), ranks_(request.network.ranks()) {}

  Generated run() {
    std::vector<Stream> streams;
    if (options_.hybrid && (islands_.size() > 1 || islands_[0].switched))
      request_.options.at("hybrid").fail("needs ranks that NVLinks join to each other, without an NVSwitch");
    if (options_.root >= 0 && (islands_.size() > 1 || islands_[0].switched))
      request_.options.at("root").fail("has a meaning only where NVLinks join the ranks to each other, without an NVSwitch: elsewhere "
                                       "all ranks take turns as roots");
    if (islands_.size() > 1) {
      streams = several_islands();
    } else if (islands_[0].switched) {
      streams = one_switch();
    } else {
      streams = one_island();
      if (options_.hybrid) add_pcie(streams);
    }
    if (!one_chunk_) return generate_streams(request_, streams, options_.chunk, std::move(notes_));
    const StreamPlan plan = plan_streams(request_.network, streams);
    notes_.push_back(fmt::format("planned rate {:.6g} GB/s, {} one-hop trees", plan.bytes_per_second / 1e9, streams.size()));
    Generated result;
    result.schedule = schedule_streams(request_.collective, streams, 1);
    result.notes = std::move(notes_);
    return result;
  }

 private:
  CollectiveType type() const { return request_.collective.type; }
  bool one_to_many() const { return has_root(type()); }

  std::vector<Stream> one_island();
  std::vector<Stream> one_switch();
  std::vector<Stream> several_islands();
  std::vector<Fraction> shares_by_port() const;
  double way_out(const Island& island) const;
  void add_pcie(std::vector<Stream>& streams);

  const GenerateRequest& request_;
  BlinkOptions options_;
  std::vector<Island> islands_;
  int ranks_;
  bool one_chunk_ = false;  // the ports are busy without a pipeline
  std::vector<std::string> notes_;
};

std::vector<Stream> BlinkGenerator::one_island() {
  const Island& island = islands_[0];
  const bool inward = type() == CollectiveType::reduce || type() == CollectiveType::gather;
  const PackingGoal goal{!one_to_many(), std::max(request_.collective.root, 0)};
  const TreePacking packing = pack_trees(inward ? island.graph.reversed() : island.graph, goal, options_.packing);
  if (packing.trees.empty())
    throw Error(ErrorKind::input, "the NVLinks do not lead from every rank to every other", request_.options.where());
  describe_packing(packing, island, options_.timings, true, notes_);
  TreeSource source;
  source.count = static_cast<int>(packing.trees.size());
  source.out = source.in = [&](int index, int root) {
    const Tree& tree = packing.trees[static_cast<size_t>(index)];
    return one_to_many() ? tree : rerooted(tree, root);
  };
  for (const Tree& tree : packing.trees) {
    const Tree used = options_.root < 0 ? tree : rerooted(tree, options_.root);
    source.in_and_out.emplace_back(used, used);
  }
  std::vector<Stream> streams = make_streams(request_.collective, source);
  assign_own_channels(streams);
  return streams;
}

// Shares x of the ranks on an NVSwitch with ports c: a rank sends and receives x (m-1) as the owner and 1 - x as
// one of the others, in time T: x = (T c - 1)/(m - 2), not below 0, and all x together are 1.
std::vector<Fraction> BlinkGenerator::shares_by_port() const {
  std::vector<Fraction> port(static_cast<size_t>(ranks_), Fraction(0));
  for (int rank = 0; rank < ranks_; ++rank) {
    Fraction out(0), in(0);
    for (const uint32_t l : request_.network.out_links(rank))
      if (request_.network.links()[l].kind == LinkKind::nvlink) out += Fraction(request_.network.links()[l].capacity.count());
    for (const uint32_t l : request_.network.in_links(rank))
      if (request_.network.links()[l].kind == LinkKind::nvlink) in += Fraction(request_.network.links()[l].capacity.count());
    port[static_cast<size_t>(rank)] = std::min(out, in);
  }
  const Fraction fastest = *std::max_element(port.begin(), port.end());
  for (Fraction& c : port) c /= fastest;
  // Leave out the slowest as long as their share would be negative.
  std::vector<size_t> order(port.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return port[a] < port[b]; });
  std::vector<Fraction> shares(port.size(), Fraction(0));
  for (size_t first = 0; first < order.size(); ++first) {
    Fraction total(0);
    for (size_t i = first; i < order.size(); ++i) total += port[order[i]];
    const auto owners = static_cast<int64_t>(order.size() - first);
    const Fraction time = Fraction(ranks_ - 2 + owners) / total;
    if (time * port[order[first]] < Fraction(1)) continue;
    for (size_t i = first; i < order.size(); ++i) shares[order[i]] = (time * port[order[i]] - Fraction(1)) / Fraction(ranks_ - 2);
    break;
  }
  return shares;
}

std::vector<Stream> BlinkGenerator::one_switch() {
  const Island& island = islands_[0];
  const std::vector<int>& ranks = island.ranks;
  notes_.push_back(fmt::format("{} ranks on an NVSwitch, {:.6g} GB/s each way{}", ranks_, island.link_bytes_per_second / 1e9,
                               island.equal_ports ? "" : " (the slowest)"));
  TreeSource source;
  if (type() == CollectiveType::broadcast || type() == CollectiveType::reduce) {
    // Through each other rank in turn: the root sends every byte once, and the others pass it on.
    source.count = ranks_ - 1;
    source.out = source.in = [&](int index, int root) {
      const int via = index < root ? index : index + 1;
      Tree tree = star(via, ranks, ranks_);
      tree.root = root;
      tree.parent[static_cast<size_t>(root)] = -1;
      tree.parent[static_cast<size_t>(via)] = root;
      return tree;
    };
    std::vector<Stream> streams = make_streams(request_.collective, source);
    assign_own_channels(streams);
    return streams;
  }
  source.count = 1;
  source.out = source.in = [&](int, int root) { return star(root, ranks, ranks_); };
  for (const int rank : ranks) source.in_and_out.emplace_back(star(rank, ranks, ranks_), star(rank, ranks, ranks_));
  std::vector<Stream> streams = make_streams(request_.collective, source);
  if (!island.equal_ports && type() == CollectiveType::allreduce && ranks_ > 2) {
    // Equal streams, several for a rank, so that fair sharing gives each rank its due; unless that makes a multitude.
    const std::vector<Fraction> shares = shares_by_port();
    int64_t whole = 1;
    for (const Fraction& share : shares) whole = std::lcm(whole, share.denominator());
    const bool split = whole <= 128;
    std::vector<Stream> kept;
    for (size_t rank = 0; rank < streams.size(); ++rank) {
      if (shares[rank] == Fraction(0)) continue;
      streams[rank].share = split ? Fraction(1, whole) : shares[rank];
      const int64_t copies = split ? (shares[rank] * Fraction(whole)).numerator() : 1;
      kept.insert(kept.end(), static_cast<size_t>(copies), streams[rank]);
    }
    assign_own_channels(kept);
    return kept;
  }
  one_chunk_ = true;
  // In step s every rank sends to the rank s further on, so that no two transfers share a port; one channel then
  // does, and it also keeps the reductions into one rank apart, which need not wait for each other's arrival.
  for (Stream& stream : streams) {
    const auto distance = [&](const StreamOp& op) { return (op.dst - op.src + ranks_) % ranks_; };
    std::stable_sort(stream.ops.begin(), stream.ops.end(), [&](const StreamOp& a, const StreamOp& b) {
      return std::pair(a.op == TransferOp::copy, distance(a)) < std::pair(b.op == TransferOp::copy, distance(b));
    });
    int last_reduction = -1;
    for (size_t i = 0; i < stream.ops.size(); ++i) {
      StreamOp& op = stream.ops[i];
      const bool reduces = op.op == TransferOp::reduce;
      op.level = distance(op) - 1 + (!reduces && last_reduction >= 0 ? ranks_ - 1 : 0);
      op.after = {reduces ? -1 : last_reduction, -1};
      if (reduces) last_reduction = static_cast<int>(i);
    }
  }
  return streams;
}

// What the ranks of an island together can send elsewhere than over NVLinks, in bytes per second: over the network if
// there is one, else over PCIe.
double BlinkGenerator::way_out(const Island& island) const {
  double network = 0, pcie = 0;
  for (const int rank : island.ranks) {
    for (const uint32_t l : request_.network.out_links(rank)) {
      const NetworkLink& link = request_.network.links()[l];
      const double rate = static_cast<double>(link.capacity.count()) / 8;
      if (link.kind == LinkKind::network) network += rate;
      if (link.kind == LinkKind::pcie) pcie += rate;
    }
  }
  return network > 0 ? network : pcie;
}

std::vector<Stream> BlinkGenerator::several_islands() {
  const auto count = static_cast<int64_t>(islands_.size());
  // The message is cut into cells; in each the islands have one rank as gate and one tree.
  int64_t cells = 1;
  constexpr int64_t most_cells = 240;
  for (const Island& island : islands_) cells = std::lcm(cells, static_cast<int64_t>(island.ranks.size()));
  cells = std::min(cells, most_cells);
  std::vector<TreePacking> packings(islands_.size());
  for (size_t s = 0; s < islands_.size(); ++s) {
    const Island& island = islands_[s];
    const std::string head = fmt::format("ranks {} of server {}: ", rank_set(island.ranks), island.server);
    if (island.ranks.size() == 1) {
      notes_.push_back(head + "no NVLinks among them");
    } else if (island.switched) {
      notes_.push_back(head + "on an NVSwitch");
    } else {
      // Few trees do where the island's way out is the bottleneck, not its NVLinks.
      PackingOptions options = options_.packing;
      const Fraction few(1, 5);
      const double optimum = allreduce_optimum(island.graph).rate.to_double() * island.link_bytes_per_second;
      if ((Fraction(1) - few).to_double() * optimum >= way_out(island)) options.threshold = std::max(options.threshold, few);
      packings[s] = pack_trees(island.graph, {true, 0}, options);
      if (packings[s].trees.empty())
        throw Error(ErrorKind::input, "the NVLinks do not lead from every rank to every other", request_.options.where());
      notes_.push_back(head + "trees");
      describe_packing(packings[s], island, options_.timings, false, notes_);
      // All trees alike, if that makes no multitude of cells.
      const int64_t finer = std::lcm(cells, static_cast<int64_t>(packings[s].trees.size()));
      if (!has_parts(type()) && finer <= most_cells) cells = finer;
    }
  }

  const auto gate = [&](size_t island, int64_t cell) {
    const std::vector<int>& ranks = islands_[island].ranks;
    return ranks[static_cast<size_t>(cell * static_cast<int64_t>(ranks.size()) / cells)];
  };
  // The island's own tree in this cell.
  const auto plant = [&](Tree& tree, size_t s, int64_t cell, int root) {
    const Island& island = islands_[s];
    Tree local = star(root, island.ranks, ranks_);
    if (!island.switched && island.ranks.size() > 1) {
      const std::vector<Tree>& trees = packings[s].trees;
      const auto vertex = std::lower_bound(island.ranks.begin(), island.ranks.end(), root) - island.ranks.begin();
      local = spread(rerooted(trees[static_cast<size_t>(cell * static_cast<int64_t>(trees.size()) / cells)], static_cast<int>(vertex)), island, ranks_);
    }
    for (const int v : island.ranks)
      if (v != root) tree.parent[static_cast<size_t>(v)] = local.parent[static_cast<size_t>(v)];
  };
  enum class Between { star, forward, backward };
  // The tree from `root`: in its own island, then from gate to gate.
  const auto plant_all = [&](int root, int64_t cell, Between between) {
    Tree tree{root, std::vector<int>(static_cast<size_t>(ranks_), -1)};
    size_t home = 0;
    while (!std::binary_search(islands_[home].ranks.begin(), islands_[home].ranks.end(), root)) ++home;
    plant(tree, home, cell, root);
    for (int64_t step = 1; step < count; ++step) {
      const auto around = [&](int64_t steps) {
        const int64_t s = static_cast<int64_t>(home) + (between == Between::backward ? -steps : steps);
        return static_cast<size_t>((s % count + count) % count);
      };
      const size_t here = around(step), before = between == Between::star ? home : around(step - 1);
      plant(tree, here, cell, gate(here, cell));
      tree.parent[static_cast<size_t>(gate(here, cell))] = gate(before, cell);
    }
    return tree;
  };

  // One hop between servers; a ring where islands share PCIe, whose links it uses once each.
  bool shared = false;
  for (size_t s = 1; s < islands_.size(); ++s) shared |= islands_[s].server == islands_[s - 1].server;
  TreeSource source;
  source.count = static_cast<int>(cells);
  source.out = [&](int cell, int root) { return plant_all(root, cell, Between::forward); };
  source.in = [&](int cell, int root) { return plant_all(root, cell, Between::backward); };
  if (type() == CollectiveType::allreduce)
    for (int64_t cell = 0; cell < cells; ++cell)
      for (size_t owner = 0; owner < islands_.size(); ++owner)
        source.in_and_out.emplace_back(plant_all(gate(owner, cell), cell, shared ? Between::backward : Between::star),
                                       plant_all(gate(owner, cell), cell, shared ? Between::forward : Between::star));
  notes_.push_back(fmt::format("{} cells, {} between the islands", cells,
                               shared ? "a ring" : type() == CollectiveType::allreduce ? "one hop" : "a chain"));
  std::vector<Stream> streams = make_streams(request_.collective, source);
  assign_own_channels(streams);
  return streams;
}

void BlinkGenerator::add_pcie(std::vector<Stream>& streams) {
  if (type() != CollectiveType::broadcast && type() != CollectiveType::reduce && type() != CollectiveType::allreduce)
    request_.options.at("hybrid").fail("is for broadcast, reduce and allreduce");
  const Network& network = request_.network;
  const auto over_pcie = [&](int u, int v) {
    return u != v && network.has_route(u, v) &&
           std::all_of(network.route(u, v).links.begin(), network.route(u, v).links.end(),
                       [&](uint32_t link) { return network.links()[link].kind == LinkKind::pcie; });
  };
  const auto chain = [&](const std::vector<int>& order, size_t first, bool forward) {
    Tree tree{order[first], std::vector<int>(static_cast<size_t>(ranks_), -1)};
    const size_t n = order.size();
    for (size_t step = 1; step < n; ++step) {
      const size_t here = forward ? (first + step) % n : (first + n - step) % n;
      const size_t before = forward ? (here + n - 1) % n : (here + 1) % n;
      tree.parent[static_cast<size_t>(order[here])] = order[before];
    }
    return tree;
  };
  const bool closed = type() == CollectiveType::allreduce;
  const auto order = hamiltonian_path(ranks_, closed ? 0 : request_.collective.root, closed, over_pcie);
  if (!order) {
    notes_.push_back(std::string("PCIe is not used: no ") + (closed ? "ring" : "chain") +
                     " joins all ranks over PCIe alone, as transfers take an NVLink where there is one");
    return;
  }
  TreeSource source;
  source.count = 1;
  source.out = source.in = [&](int, int) { return chain(*order, 0, true); };
  for (size_t first = 0; first < order->size(); ++first) source.in_and_out.emplace_back(chain(*order, first, false), chain(*order, first, true));
  std::vector<Stream> pcie = make_streams(request_.collective, source);

  const double rate_nvlink = plan_streams(network, streams).bytes_per_second, rate_pcie = plan_streams(network, pcie).bytes_per_second;
  const double size = static_cast<double>(request_.size.count()), late = static_cast<double>(options_.switch_over.count()) * 1e-12;
  // Both finish at T = D_nvlink/B_n = T_dpa + D_pcie/B_p.
  const double bytes = std::max(0.0, (size * rate_pcie - late * rate_pcie * rate_nvlink) / (rate_pcie + rate_nvlink));
  const Fraction share(static_cast<int64_t>(std::llround(bytes / size * 1000)), 1000);
  notes_.push_back(fmt::format("PCIe at {:.6g} GB/s beside NVLink at {:.6g} GB/s takes {} of the message; predicted time {:.6g} us, switch-over included",
                               rate_pcie / 1e9, rate_nvlink / 1e9, share.to_string(),
                               1e6 * (bytes > 0 ? (size + late * rate_pcie) / (rate_pcie + rate_nvlink) : size / rate_nvlink)));
  if (share == Fraction(0)) return;
  for (Stream& stream : streams) stream.share *= Fraction(1) - share;
  for (Stream& stream : pcie) {
    stream.share *= share;
    streams.push_back(std::move(stream));
  }
  assign_own_channels(streams);
}

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  if (request.collective.type == CollectiveType::alltoall) return "trees do not serve alltoall";
  if (!request.collective.in_place) return "it works in place only";
  const std::string missing = missing_route(request.network, nvlink_islands(request.network));
  if (!missing.empty()) return missing;
  return std::nullopt;
}

Generated generate_blink(const GenerateRequest& request) { return BlinkGenerator(request).run(); }

}  // namespace

const Algorithm blink_algorithm = {"blink", "spanning trees packed into the links that the job has", inapplicable, generate_blink,
                                   {"chunk", "max_transfers", "eps", "threshold", "root", "hybrid", "switch_over", "timings"}};

}  // namespace slackline
