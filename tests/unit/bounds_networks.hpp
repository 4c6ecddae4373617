// Networks that the tests of the bounds are made on.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bounds/bounds.hpp"

namespace slackline::test {

constexpr Bandwidth gigabytes(int64_t count) {
  return Bandwidth(count * 8'000'000'000);
}

/// One rank a server, each with this transmit and receive capacity into a common fabric.
inline Network star(const std::vector<Bandwidth>& capacity, Duration latency = {},
                    Duration overhead = {}) {
  const int ranks = static_cast<int>(capacity.size());
  std::vector<NetworkVertex> vertices;
  for (int rank = 0; rank < ranks; ++rank) vertices.push_back({"gpu" + std::to_string(rank), rank});
  vertices.push_back({"fabric", -1});
  std::vector<NetworkLink> links;
  for (int rank = 0; rank < ranks; ++rank) {
    links.push_back(
        {"tx", rank, ranks, capacity[static_cast<size_t>(rank)], latency, LinkKind::network});
    links.push_back(
        {"rx", ranks, rank, capacity[static_cast<size_t>(rank)], {}, LinkKind::network});
  }
  return Network(std::move(vertices), ranks, std::move(links), overhead);
}

/// Servers with g GPUs on an NVSwitch; nic[s] for each GPU of server s, where there are several
/// servers.
inline Network rail(int g, Bandwidth nvlink, const std::vector<Bandwidth>& nic) {
  const int servers = static_cast<int>(nic.size()), ranks = g * servers;
  std::vector<NetworkVertex> vertices;
  for (int rank = 0; rank < ranks; ++rank)
    vertices.push_back({"gpu" + std::to_string(rank), rank / g});
  for (int s = 0; s < servers; ++s) vertices.push_back({"nvswitch" + std::to_string(s), s});
  vertices.push_back({"fabric", -1});
  std::vector<NetworkLink> links;
  const auto both = [&](int a, int b, Bandwidth capacity, LinkKind kind) {
    links.push_back({"link", a, b, capacity, {}, kind});
    links.push_back({"link", b, a, capacity, {}, kind});
  };
  for (int rank = 0; rank < ranks; ++rank) {
    both(rank, ranks + rank / g, nvlink, LinkKind::nvlink);
    if (servers > 1)
      both(rank, ranks + servers, nic[static_cast<size_t>(rank / g)], LinkKind::network);
  }
  if (servers == 1) vertices.pop_back();
  return Network(std::move(vertices), ranks, std::move(links), {});
}

struct Wire {
  int a, b, count;
};

/// The NVLinks of a DGX-1 (blink.md, "Machines").
inline std::vector<Wire> dgx1_wires(bool volta) {
  if (volta)
    return {{0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 5, 2}, {2, 3, 2}, {4, 7, 2}, {5, 6, 2}, {6, 7, 2},
            {0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {5, 7, 1}};
  std::vector<Wire> wires;
  for (int a = 0; a < 8; ++a)
    for (int b = a + 1; b < 8; ++b)
      if (a / 4 == b / 4 || b == a + 4) wires.push_back({a, b, 1});
  return wires;
}

/// The network of some vertices' direct links, `unit` each, both ways; all on one server.
inline Network mesh(const std::vector<int>& chosen, const std::vector<Wire>& wires,
                    Bandwidth unit) {
  std::vector<NetworkVertex> vertices;
  for (const int gpu : chosen) vertices.push_back({"gpu" + std::to_string(gpu), 0});
  const auto place = [&](int gpu) {
    const auto found = std::find(chosen.begin(), chosen.end(), gpu);
    return found == chosen.end() ? -1 : static_cast<int>(found - chosen.begin());
  };
  std::vector<NetworkLink> links;
  for (const Wire& wire : wires) {
    const int a = place(wire.a), b = place(wire.b);
    if (a < 0 || b < 0) continue;
    links.push_back({"nvlink", a, b, Bandwidth(unit.count() * wire.count), {}, LinkKind::nvlink});
    links.push_back({"nvlink", b, a, Bandwidth(unit.count() * wire.count), {}, LinkKind::nvlink});
  }
  const int ranks = static_cast<int>(chosen.size());
  return Network(std::move(vertices), ranks, std::move(links), {});
}

inline Collective collective(CollectiveType type, const Network& network, int root = 0) {
  Collective result;
  result.type = type;
  result.ranks = network.ranks();
  result.root = has_root(type) ? root : -1;
  return result;
}

/// The bound of that name, or nullptr.
inline const Bound* find(const std::vector<Bound>& bounds, const std::string& name) {
  const auto found = std::find_if(bounds.begin(), bounds.end(),
                                  [&](const Bound& bound) { return bound.name == name; });
  return found == bounds.end() ? nullptr : &*found;
}

}  // namespace slackline::test
