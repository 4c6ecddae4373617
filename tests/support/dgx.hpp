// The machines of topologies/, parts of them as networks, and their classes of allocations.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "collectives/islands.hpp"
#include "topology/builders.hpp"
#include "topology/failures.hpp"
#include "topology/network.hpp"

namespace slackline {

/// topologies/NAME.json; `changes` are the keys beside "file" of a reference to it.
inline Topology machine(const std::string& name, const std::string& changes = "") {
  const Json json = parse_json("{\"file\": \"topologies/" + name + ".json\"" + (changes.empty() ? "" : ", " + changes) + "}", "reference");
  return build_topology(JsonCursor(json, "reference"), SLACKLINE_SOURCE_DIR);
}

/// The network of a job: per server its GPUs (one entry counts for all servers).
inline Network allocation(const Topology& topology, std::vector<std::vector<int>> gpus) {
  RankSelection selection;
  selection.gpus = std::move(gpus);
  selection.where = "ranks";
  return build_network(topology, selection);
}

/// "0146" as GPU numbers.
inline std::vector<int> gpu_list(const std::string& digits) {
  std::vector<int> gpus;
  for (const char digit : digits) gpus.push_back(digit - '0');
  return gpus;
}

/// GPU subsets that are the same up to renaming GPUs with equal numbers of links.
struct AllocationClass {
  std::vector<int> gpus;  ///< the lexicographically first
  int count = 0;
};

/// All classes of connected subsets of `size` GPUs among those of `graph`.
inline std::vector<AllocationClass> allocation_classes(const CapacityGraph& graph, int size) {
  const auto part = [&](const std::vector<int>& gpus) {
    CapacityGraph result(size);
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j) result.at(i, j) = graph.at(gpus[static_cast<size_t>(i)], gpus[static_cast<size_t>(j)]);
    return result;
  };
  // Backtracking over the images of vertex 0, 1, ..
  const auto isomorphic = [&](const CapacityGraph& a, const CapacityGraph& b) {
    std::vector<int> image;
    std::vector<bool> used(static_cast<size_t>(size), false);
    const auto extend = [&](const auto& self) -> bool {
      const int v = static_cast<int>(image.size());
      if (v == size) return true;
      for (int w = 0; w < size; ++w) {
        if (used[static_cast<size_t>(w)]) continue;
        bool fits = true;
        for (int u = 0; u < v && fits; ++u) fits = a.at(u, v) == b.at(image[static_cast<size_t>(u)], w);
        if (!fits) continue;
        used[static_cast<size_t>(w)] = true;
        image.push_back(w);
        if (self(self)) return true;
        image.pop_back();
        used[static_cast<size_t>(w)] = false;
      }
      return false;
    };
    return extend(extend);
  };
  std::vector<AllocationClass> classes;
  std::vector<int> gpus(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) gpus[static_cast<size_t>(i)] = i;
  for (;;) {
    const CapacityGraph own = part(gpus);
    const std::vector<int> hops = hops_from(own, 0);
    if (std::find(hops.begin(), hops.end(), -1) == hops.end()) {
      const auto known = std::find_if(classes.begin(), classes.end(), [&](const AllocationClass& c) { return isomorphic(part(c.gpus), own); });
      if (known != classes.end())
        ++known->count;
      else
        classes.push_back({gpus, 1});
    }
    int i = size - 1;
    while (i >= 0 && gpus[static_cast<size_t>(i)] == graph.vertices() - size + i) --i;
    if (i < 0) return classes;
    ++gpus[static_cast<size_t>(i)];
    for (int j = i + 1; j < size; ++j) gpus[static_cast<size_t>(j)] = gpus[static_cast<size_t>(j - 1)] + 1;
  }
}

/// The NVLinks of a whole DGX-1.
inline CapacityGraph whole_machine(const std::string& name) {
  return nvlink_islands(allocation(machine(name), {gpu_list("01234567")})).at(0).graph;
}

}  // namespace slackline
