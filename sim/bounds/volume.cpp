#include "bounds/volume.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "bounds/strength.hpp"

namespace slackline {

namespace {

constexpr int exact_ranks = 400;            // for strength: as many maximum flows a step
constexpr int exhaustive_ranks = 8;         // 4140 partitions
constexpr size_t split_limit = 10'000'000;  // links times servers, for splitting each server

// Which side of a switch a cut counts. A transfer between parts that passes switches leaves its
// part at the first link from i to something that is not i; so a link is cut unless its start is
// `unreached` (the links into it were cut), its end is `open` (the links out of it are cut), or
// both ends carry the same label.
constexpr int unreached = -1, open = -2;

bool is_cut(int from, int to) {
  return from != unreached && to != open && from != to;
}

class Partitions {
public:
  explicit Partitions(const BoundRequest& request) : request_(request) {}

  Load load(const std::vector<int>& part_of, int parts) const {
    return {2 * Wide(parts - 1) * request_.size.count(),
            capacity_between(request_.network, part_of)};
  }

  void add(std::vector<Bound>& bounds, const std::string& name, const std::string& what,
           const std::vector<int>& part_of, int parts) const {
    const Load found = load(part_of, parts);
    std::vector<std::vector<int>> members(static_cast<size_t>(parts));
    for (size_t rank = 0; rank < part_of.size(); ++rank)
      members[static_cast<size_t>(part_of[rank])].push_back(static_cast<int>(rank));
    if (found.bytes == 0) return;
    if (found.capacity == 0) fail_unreachable(request_, members[0]);
    bounds.push_back(load_bound(
        request_, name, found, std::move(members),
        "limited by the capacity between " + what + ": an allreduce moves at least 2 x " +
            std::to_string(parts - 1) + " x " + show(request_.size) + " between them, through " +
            show(Bandwidth(static_cast<int64_t>(found.capacity))),
        "volume argument of Chen et al., arXiv 2606.01680, Theorems 1-3; Tutte, Nash-Williams "
        "1961"));
  }

private:
  const BoundRequest& request_;
};

// "0 1|2|3", and only the number of parts where that is long.
std::string show_parts(const std::vector<int>& part_of, int parts) {
  if (part_of.size() > 32) return std::to_string(parts) + " parts";
  std::string text;
  for (int part = 0; part < parts; ++part) {
    if (part > 0) text += " | ";
    bool first = true;
    for (size_t rank = 0; rank < part_of.size(); ++rank) {
      if (part_of[rank] != part) continue;
      text += (first ? "" : " ") + std::to_string(rank);
      first = false;
    }
  }
  return "the parts " + text;
}

// All partitions of a few ranks, as restricted growth strings.
template <class Visit>
void each_partition(std::vector<int>& part_of, size_t next, int parts, const Visit& visit) {
  if (next == part_of.size()) return visit(parts);
  for (int part = 0; part <= parts; ++part) {
    part_of[next] = part;
    each_partition(part_of, next + 1, std::max(parts, part + 1), visit);
  }
}

}  // namespace

Wide capacity_between(const Network& network, const std::vector<int>& part_of_rank) {
  const size_t vertices = network.vertices().size();
  const auto& links = network.links();
  std::vector<int> label(part_of_rank);
  label.resize(vertices, unreached);
  // A switch starts in the part that its neighbours are of, if there is only one.
  for (size_t v = part_of_rank.size(); v < vertices; ++v) {
    std::vector<int> near;
    for (const uint32_t link : network.in_links(static_cast<int>(v)))
      if (links[link].from < network.ranks())
        near.push_back(part_of_rank[static_cast<size_t>(links[link].from)]);
    for (const uint32_t link : network.out_links(static_cast<int>(v)))
      if (links[link].to < network.ranks())
        near.push_back(part_of_rank[static_cast<size_t>(links[link].to)]);
    if (!near.empty() &&
        std::all_of(near.begin(), near.end(), [&](int part) { return part == near[0]; }))
      label[v] = near[0];
  }
  // Give each switch its best label in turn, as long as that helps. Any labelling is valid.
  for (bool better = vertices > part_of_rank.size(); better;) {
    better = false;
    for (size_t v = part_of_rank.size(); v < vertices; ++v) {
      Wide to_unreached = 0, to_open = 0;  // what is cut under these labels
      std::map<int, Wide> saved;           // what a part's label saves of the two together
      for (const uint32_t index : network.in_links(static_cast<int>(v))) {
        const NetworkLink& link = links[index];
        const int other = label[static_cast<size_t>(link.from)];
        if (other == unreached || link.from == link.to) continue;
        to_unreached += link.capacity.count();
        if (other != open) saved[other] += link.capacity.count();
      }
      for (const uint32_t index : network.out_links(static_cast<int>(v))) {
        const NetworkLink& link = links[index];
        const int other = label[static_cast<size_t>(link.to)];
        if (other == open || link.from == link.to) continue;
        to_open += link.capacity.count();
        if (other != unreached) saved[other] += link.capacity.count();
      }
      const auto cost = [&](int candidate) {
        if (candidate == unreached) return to_unreached;
        if (candidate == open) return to_open;
        const auto found = saved.find(candidate);
        return to_unreached + to_open - (found == saved.end() ? Wide(0) : found->second);
      };
      int best = label[v];
      for (const int candidate : {unreached, open})
        if (cost(candidate) < cost(best)) best = candidate;
      for (const auto& [part, amount] : saved)
        if (cost(part) < cost(best)) best = part;
      if (best != label[v]) {
        label[v] = best;
        better = true;
      }
    }
  }
  Wide capacity = 0;
  for (const NetworkLink& link : links)
    if (is_cut(label[static_cast<size_t>(link.from)], label[static_cast<size_t>(link.to)]))
      capacity += link.capacity.count();
  return capacity;
}

void add_volumes(const BoundRequest& request, std::vector<Bound>& bounds) {
  if (request.collective.type != CollectiveType::allreduce) return;
  const Network& network = request.network;
  const int ranks = network.ranks(), servers = network.servers();
  const auto p = static_cast<size_t>(ranks);
  const Partitions partitions(request);

  std::vector<int> each(p);
  std::iota(each.begin(), each.end(), 0);
  partitions.add(bounds, "rank volume", "the " + std::to_string(ranks) + " ranks", each, ranks);

  if (servers > 1 && servers < ranks) {
    std::map<int, int> number;
    std::vector<int> by_server(p), by_rail(p), seen(static_cast<size_t>(servers));
    for (int rank = 0; rank < ranks; ++rank) {
      const int server =
          number.emplace(network.server_of(rank), static_cast<int>(number.size())).first->second;
      by_server[static_cast<size_t>(rank)] = server;
      by_rail[static_cast<size_t>(rank)] = seen[static_cast<size_t>(server)]++;
    }
    const int rails = *std::max_element(seen.begin(), seen.end());
    partitions.add(bounds, "server volume", "the " + std::to_string(servers) + " servers",
                   by_server, servers);
    partitions.add(bounds, "rail volume", "the " + std::to_string(rails) + " rails", by_rail,
                   rails);

    if (static_cast<size_t>(servers) * network.links().size() <= split_limit) {
      Load most;
      std::vector<int> most_parts;
      int chosen = -1;
      for (const auto& [server, index] : number) {
        const int inside = seen[static_cast<size_t>(index)];
        if (inside < 2) continue;
        std::vector<int> part_of(p, inside);
        for (size_t rank = 0; rank < p; ++rank)
          if (by_server[rank] == index) part_of[rank] = by_rail[rank];
        if (const Load found = partitions.load(part_of, inside + 1); found > most) {
          most = found;
          most_parts = part_of;
          chosen = server;
        }
      }
      if (chosen >= 0)
        partitions.add(
            bounds, "split server volume",
            "the ranks of server " + std::to_string(chosen) + " and all others together",
            most_parts,
            static_cast<int>(*std::max_element(most_parts.begin(), most_parts.end())) + 1);
    }
  }

  Partition weakest;
  if (network.vertices().size() == p && ranks <= exact_ranks) {
    std::map<std::pair<int, int>, Wide> between;
    for (const NetworkLink& link : network.links())
      if (link.from != link.to) between[std::minmax(link.from, link.to)] += link.capacity.count();
    std::vector<Edge> edges;
    for (const auto& [ends, capacity] : between)
      edges.push_back({ends.first, ends.second, capacity});
    weakest = weakest_partition(ranks, edges);
  } else if (ranks <= exhaustive_ranks) {
    Load most;
    std::vector<int> part_of(p);
    each_partition(part_of, 0, 0, [&](int parts) {
      if (parts < 2) return;
      const Load found = partitions.load(part_of, parts);
      if (weakest.parts > 0 && !(found > most)) return;
      most = found;
      weakest = {part_of, parts, found.capacity};
    });
  }
  if (weakest.parts > 1)
    partitions.add(bounds, "partition volume", show_parts(weakest.part_of, weakest.parts),
                   weakest.part_of, weakest.parts);
}

}  // namespace slackline
