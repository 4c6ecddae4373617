// The bounds against brute force on small random networks, and against the times of schedules that
// are right by construction: a bound above one of them would be wrong.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "../unit/bounds_networks.hpp"
#include "bounds/demand.hpp"
#include "bounds/volume.hpp"
#include "collectives/algorithm.hpp"
#include "schedule/list_timing.hpp"

namespace slackline {
namespace {

using namespace test;

class Random {
public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  // low..high
  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  template <class T>
  T pick(const std::vector<T>& values) {
    return values[static_cast<size_t>(number(0, static_cast<int64_t>(values.size()) - 1))];
  }
  std::vector<int> shuffled(int count) {
    std::vector<int> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (int i = count - 1; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(number(0, i))]);
    return order;
  }

private:
  std::mt19937_64 engine_;
};

constexpr std::array all_types = {CollectiveType::allreduce,      CollectiveType::allgather,
                                  CollectiveType::reduce_scatter, CollectiveType::broadcast,
                                  CollectiveType::reduce,         CollectiveType::gather,
                                  CollectiveType::scatter,        CollectiveType::alltoall};

// Ranks and switches with links at random, and a ring through all of them so that everybody reaches
// everybody. Capacities are few or many different small numbers.
Network random_network(Random& random, int ranks, int switches, bool latencies) {
  const int vertices = ranks + switches;
  std::vector<NetworkVertex> names;
  const int servers = static_cast<int>(random.number(1, ranks));
  for (int v = 0; v < vertices; ++v)
    names.push_back({"v" + std::to_string(v),
                     v < ranks ? v % servers : static_cast<int>(random.number(-1, servers - 1))});
  const int64_t largest = random.pick<int64_t>({1, 3, 50});
  std::vector<NetworkLink> links;
  const auto add = [&](int from, int to) {
    links.push_back({"link", from, to, Bandwidth(1'000'000'000 * random.number(1, largest)),
                     Duration(latencies ? random.number(0, 3'000'000) : 0), LinkKind::nvlink});
  };
  const bool both_ways = random.number(0, 1) == 0;
  const std::vector<int> order = random.shuffled(vertices);
  for (size_t i = 0; i < order.size(); ++i) {
    const int from = order[i], to = order[(i + 1) % order.size()];
    add(from, to);
    if (both_ways) add(to, from);
  }
  for (int more = static_cast<int>(random.number(0, 2 * vertices)); more > 0; --more) {
    const int from = static_cast<int>(random.number(0, vertices - 1));
    const int to = static_cast<int>(random.number(0, vertices - 1));
    if (from == to) continue;
    add(from, to);
    if (both_ways) add(to, from);
  }
  return Network(std::move(names), ranks, std::move(links),
                 Duration(latencies ? random.number(0, 50'000) : 0));
}

// One switch, ports of any speeds: where add_cuts() does without maximum flows.
Network random_star(Random& random, int ranks) {
  std::vector<NetworkVertex> names;
  std::vector<NetworkLink> links;
  for (int rank = 0; rank < ranks; ++rank) {
    names.push_back({"v" + std::to_string(rank), rank});
    for (const auto& [from, to] : {std::pair{rank, ranks}, std::pair{ranks, rank}})
      links.push_back({"port", from, to, gigabytes(random.number(1, 9)), {}, LinkKind::network});
  }
  names.push_back({"fabric", -1});
  return Network(std::move(names), ranks, std::move(links), {});
}

int64_t floor_time(Wide bytes, Wide capacity) {
  return static_cast<int64_t>(bytes * 8 * 1'000'000'000'000 / capacity);
}

// The largest cut bound over all sets of vertices.
int64_t cut_by_force(const BoundRequest& request) {
  const Network& network = request.network;
  const Demand demand(request);
  int64_t longest = 0;
  for (uint32_t set = 1; set < uint32_t{1} << network.vertices().size(); ++set) {
    std::vector<int> ranks;
    for (int rank = 0; rank < network.ranks(); ++rank)
      if (set >> rank & 1) ranks.push_back(rank);
    const Wide bytes = demand.leaving(demand.set_of(ranks));
    if (bytes == 0) continue;
    Wide capacity = 0;
    for (const NetworkLink& link : network.links())
      if ((set >> link.from & 1) && !(set >> link.to & 1)) capacity += link.capacity.count();
    longest = std::max(longest, floor_time(bytes, capacity));
  }
  return longest;
}

TEST(BoundsProperty, CutsEqualBruteForce) {
  Random random(1);
  int sets = 0;
  for (int round = 0; round < 150; ++round) {
    const int ranks = static_cast<int>(random.number(2, 6)),
              switches = static_cast<int>(random.number(0, 3));
    const Network network = round % 4 == 0 ? random_star(random, ranks)
                                           : random_network(random, ranks, switches, false);
    for (const CollectiveType type : all_types) {
      const BoundRequest request{
          network, collective(type, network, static_cast<int>(random.number(0, ranks - 1))),
          Bytes(random.number(1, 1'000'000)), Bytes(random.pick<int64_t>({1, 2, 4, 64}))};
      int64_t longest = 0, simple = 0;
      for (const Bound& bound : lower_bounds(request)) {
        if (bound.name.ends_with("cut")) longest = std::max(longest, bound.time.count());
        if (bound.name == "rank cut" || bound.name == "server cut")
          simple = std::max(simple, bound.time.count());
      }
      EXPECT_EQ(longest, cut_by_force(request)) << to_string(type) << " in round " << round;
      sets += longest > simple;
    }
  }
  EXPECT_GT(sets, 100);  // neither ranks nor servers would have been enough
}

template <class Visit>
void each_partition(std::vector<int>& part_of, size_t next, int parts, const Visit& visit) {
  if (next == part_of.size()) return visit(parts);
  for (int part = 0; part <= parts; ++part) {
    part_of[next] = part;
    each_partition(part_of, next + 1, std::max(parts, part + 1), visit);
  }
}

TEST(BoundsProperty, VolumesEqualBruteForceWithoutSwitches) {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    const int ranks = static_cast<int>(random.number(2, 7));
    const Network network = random_network(random, ranks, 0, false);
    const Bytes size(random.number(1, 1'000'000));
    int64_t longest = 0;
    std::vector<int> part_of(static_cast<size_t>(ranks));
    each_partition(part_of, 0, 0, [&](int parts) {
      if (parts < 2) return;
      Wide capacity = 0;
      for (const NetworkLink& link : network.links())
        if (part_of[static_cast<size_t>(link.from)] != part_of[static_cast<size_t>(link.to)])
          capacity += link.capacity.count();
      longest = std::max(longest, floor_time(Wide(2) * (parts - 1) * size.count(), capacity));
    });
    int64_t found = 0;
    for (const Bound& bound :
         lower_bounds({network, collective(CollectiveType::allreduce, network), size}))
      if (bound.name.ends_with("volume")) found = std::max(found, bound.time.count());
    EXPECT_EQ(found, longest) << "round " << round;
  }
}

// Whether a rank reaches one of another part over the links that are left.
bool connected(const Network& network, const std::vector<int>& part_of, uint32_t removed) {
  for (int start = 0; start < network.ranks(); ++start) {
    std::vector<int> stack{start};
    std::vector<bool> seen(network.vertices().size());
    while (!stack.empty()) {
      const int vertex = stack.back();
      stack.pop_back();
      if (seen[static_cast<size_t>(vertex)]) continue;
      seen[static_cast<size_t>(vertex)] = true;
      if (vertex < network.ranks() &&
          part_of[static_cast<size_t>(vertex)] != part_of[static_cast<size_t>(start)])
        return true;
      for (const uint32_t link : network.out_links(vertex))
        if (!(removed >> link & 1)) stack.push_back(network.links()[link].to);
    }
  }
  return false;
}

TEST(BoundsProperty, CapacityBetweenPartsIsThatOfRealCuts) {
  // The least capacity that separates all parts from each other, over all sets of links, is what a
  // partition allows; counting less would make a bound that a schedule can beat.
  Random random(3);
  int cases = 0, equal = 0;
  for (int round = 0; cases < 60; ++round) {
    const int ranks = static_cast<int>(random.number(2, 4)),
              switches = static_cast<int>(random.number(1, 2));
    const Network network = random_network(random, ranks, switches, false);
    if (network.links().size() > 12) continue;
    ++cases;
    std::vector<int> part_of(static_cast<size_t>(ranks));
    for (int& part : part_of) part = static_cast<int>(random.number(0, ranks - 1));
    part_of[0] = 0;
    part_of[1] = 1;
    Wide least = -1;
    for (uint32_t removed = 0; removed < uint32_t{1} << network.links().size(); ++removed) {
      Wide capacity = 0;
      for (size_t link = 0; link < network.links().size(); ++link)
        if (removed >> link & 1) capacity += network.links()[link].capacity.count();
      if (least >= 0 && capacity >= least) continue;
      if (!connected(network, part_of, removed)) least = capacity;
    }
    const Wide found = capacity_between(network, part_of);
    EXPECT_TRUE(found >= least) << "round " << round;
    EXPECT_TRUE(switches > 1 || found == least) << "round " << round;
    equal += found == least;
  }
  EXPECT_GT(equal, 50);
}

// A bound must not exceed the time of a schedule that does the job.
void expect_not_below_bound(const Network& network, const Collective& job, Bytes size,
                            Bytes element, Duration time, const std::string& what) {
  for (const Bound& bound : lower_bounds({network, job, size, element}))
    EXPECT_LE(bound.time, time) << what << " of " << size.count() << " B in elements of "
                                << element.count() << " on " << network.ranks() << " ranks beats "
                                << describe(bound);
}

Duration time_of(const Network& network, const Schedule& schedule, Bytes size, Bytes element) {
  const MessageLayout layout(size, element, schedule.units());
  ListTiming timing(network, layout, schedule.chunks());
  for (size_t i = 0; i < schedule.size(); ++i) timing.add(schedule.transfer(i));
  return timing.completion() - TimePoint();
}

Bytes random_size(Random& random) {
  return Bytes(random.number(1, random.pick<int64_t>({3, 40, 1000, 1'000'000, int64_t{1} << 34})));
}

TEST(BoundsProperty, RingsAreNotFasterThanTheBound) {
  Random random(4);
  for (int round = 0; round < 400; ++round) {
    const int ranks = static_cast<int>(random.number(2, 24));
    const Bandwidth healthy = gigabytes(random.number(1, 100));
    std::vector<Bandwidth> capacity;
    bool is_healthy = true;
    for (int rank = 0; rank < ranks; ++rank) {
      const bool slow = random.number(0, 5) == 0;
      capacity.push_back(slow ? Bandwidth(healthy.count() * 100 / random.number(101, 400))
                              : healthy);
      is_healthy &= !slow;
    }
    const bool ideal = random.number(0, 1) == 0;
    const Network network = star(capacity, Duration(ideal ? 0 : random.number(0, 3'000'000)),
                                 Duration(ideal ? 0 : random.number(0, 100'000)));
    const Bytes size = random_size(random), element(random.pick<int64_t>({1, 2, 4, 8}));
    const Json options = {{"algorithm", "ring"}};
    for (const CollectiveType type :
         {CollectiveType::allreduce, CollectiveType::allgather, CollectiveType::reduce_scatter}) {
      const Collective job = collective(type, network);
      const Schedule ring =
          generate(
              {network, job, size, element, Sharing::exclusive, JsonCursor(options, "test"), {}})
              .schedule;
      expect_not_below_bound(network, job, size, element, time_of(network, ring, size, element),
                             "ring");
      // Without failures and latency the ring is optimal, so the bound must be as large as its
      // time, but for what every step's time is rounded up by.
      if (!is_healthy || !ideal) continue;
      const Bytes whole(size.count() * ranks);
      const Duration time = time_of(network, ring, whole, Bytes(1));
      const Duration bound = lower_bounds({network, job, whole})[0].time;
      EXPECT_GE(bound + Duration(2 * ranks), time);
    }
  }
}

// Schedules on any network, right by construction: unit by unit along trees of random shape among
// ranks that have a route, or straight from source to destination.
class RandomSchedule {
public:
  RandomSchedule(Random& random, const Network& network, const Collective& job)
      : random_(random), network_(network), job_(job) {}

  Schedule make() {
    const auto ranks = network_.ranks();
    const bool parts = has_parts(job_.type);
    const int64_t units = parts ? ranks : random_.number(1, 2 * ranks);
    schedule_ = Schedule(job_, units);
    for (int64_t u = 0; u < units; ++u) schedule_.add_chunk({Buffer::data, u, 1});
    for (const int u : random_.shuffled(static_cast<int>(units))) {
      switch (job_.type) {
        case CollectiveType::allreduce: {
          const int root = static_cast<int>(random_.number(0, ranks - 1));
          spread(u, root, collect(u, root));
          break;
        }
        case CollectiveType::reduce:
          collect(u, job_.root);
          break;
        case CollectiveType::broadcast:
          spread(u, job_.root, {});
          break;
        case CollectiveType::reduce_scatter:
          collect(u, u);
          break;
        case CollectiveType::allgather:
          spread(u, u, {});
          break;
        case CollectiveType::gather:
          pass(u, u, job_.root);
          break;
        case CollectiveType::scatter:
          pass(u, job_.root, u);
          break;
        case CollectiveType::alltoall:
          for (int from = 0; from < ranks; ++from) pass(u, from, u);
          break;
      }
    }
    return std::move(schedule_);
  }

private:
  uint32_t send(int unit, int from, int to, TransferOp op, const std::vector<uint32_t>& after) {
    schedule_.add({static_cast<uint32_t>(from), static_cast<uint32_t>(to),
                   static_cast<uint32_t>(unit), static_cast<uint32_t>(unit), op, 0, after});
    return static_cast<uint32_t>(schedule_.size() - 1);
  }

  // parent[v] of a random spanning tree in which `root` reaches all, or all reach it; in an order
  // in which each stands after its parent.
  std::vector<std::pair<int, int>> tree(int root, bool towards_root) {
    std::vector<bool> in(static_cast<size_t>(network_.ranks()));
    in[static_cast<size_t>(root)] = true;
    std::vector<std::pair<int, int>> edges;  // child, parent
    while (static_cast<int>(edges.size()) + 1 < network_.ranks()) {
      std::vector<std::pair<int, int>> candidates;
      for (int child = 0; child < network_.ranks(); ++child)
        for (int parent = 0; parent < network_.ranks(); ++parent)
          if (in[static_cast<size_t>(parent)] && !in[static_cast<size_t>(child)] &&
              (towards_root ? network_.has_route(child, parent)
                            : network_.has_route(parent, child)))
            candidates.push_back({child, parent});
      edges.push_back(random_.pick(candidates));
      in[static_cast<size_t>(edges.back().first)] = true;
    }
    return edges;
  }

  // Reduces the unit into the root; returns the transfers that brought it there.
  std::vector<uint32_t> collect(int unit, int root) {
    std::vector<std::vector<uint32_t>> came(static_cast<size_t>(network_.ranks()));
    const auto edges = tree(root, true);
    for (auto edge = edges.rbegin(); edge != edges.rend(); ++edge)
      came[static_cast<size_t>(edge->second)].push_back(
          send(unit, edge->first, edge->second, TransferOp::reduce,
               came[static_cast<size_t>(edge->first)]));
    return came[static_cast<size_t>(root)];
  }

  void spread(int unit, int root, const std::vector<uint32_t>& ready) {
    std::vector<std::vector<uint32_t>> came(static_cast<size_t>(network_.ranks()));
    came[static_cast<size_t>(root)] = ready;
    for (const auto& [child, parent] : tree(root, false))
      came[static_cast<size_t>(child)] = {
          send(unit, parent, child, TransferOp::copy, came[static_cast<size_t>(parent)])};
  }

  // Hands the unit on along the tree's path.
  void pass(int unit, int from, int to) {
    if (from == to) return;
    std::vector<int> parent(static_cast<size_t>(network_.ranks()), -1);
    for (const auto& [child, above] : tree(from, false)) parent[static_cast<size_t>(child)] = above;
    std::vector<int> path{to};
    while (path.back() != from) path.push_back(parent[static_cast<size_t>(path.back())]);
    std::vector<uint32_t> came;
    for (size_t i = path.size() - 1; i > 0; --i)
      came = {send(unit, path[i], path[i - 1], TransferOp::copy, came)};
  }

  Random& random_;
  const Network& network_;
  Collective job_;
  Schedule schedule_;
};

TEST(BoundsProperty, TreesOnAnyNetworkAreNotFasterThanTheBound) {
  Random random(5);
  for (int round = 0; round < 400; ++round) {
    const int ranks = static_cast<int>(random.number(2, 7)),
              switches = static_cast<int>(random.number(0, 2));
    const Network network = random_network(random, ranks, switches, random.number(0, 1) == 0);
    const Bytes size = random_size(random), element(random.pick<int64_t>({1, 4}));
    for (const CollectiveType type : all_types) {
      const Collective job =
          collective(type, network, static_cast<int>(random.number(0, ranks - 1)));
      const Schedule schedule = RandomSchedule(random, network, job).make();
      expect_not_below_bound(network, job, size, element, time_of(network, schedule, size, element),
                             std::string(to_string(type)) + " along trees");
    }
  }
}

}  // namespace
}  // namespace slackline
