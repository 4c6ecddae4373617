#include <array>

#include "topology/builders.hpp"
#include "topology/servers.hpp"

namespace slackline {

namespace {

Topology named(const JsonCursor& object, std::string_view builder) {
  Topology topology;
  topology.name = object.has("name") ? object.at("name").string() : std::string(builder);
  return topology;
}

std::vector<TopologyVertexId> add_switches(Topology& topology, int count, const std::string& name) {
  std::vector<TopologyVertexId> switches;
  for (int i = 0; i < count; ++i) {
    switches.push_back(topology.add_vertex(VertexKind::net_switch, -1, name + std::to_string(i)));
    topology.graph[switches.back()].index = i;
  }
  return switches;
}

int read_count(const JsonCursor& object, std::string_view key) { return static_cast<int>(object.at(key).integer(1, 65536)); }

// How many groups of `key` the `whole` makes; it must divide.
int read_groups(const JsonCursor& object, std::string_view key, int whole, const std::string& what) {
  const int size = read_count(object, key);
  if (whole % size != 0)
    object.at(key).fail("must divide the number of " + what + ", and " + std::to_string(whole) + " is no multiple of " + std::to_string(size));
  return whole / size;
}

Fraction read_oversubscription(const JsonCursor& object, std::string_view key) {
  const auto given = object.find(key);
  if (!given) return Fraction(1);
  const Fraction ratio = given->fraction();
  if (ratio < Fraction(1)) given->fail("an oversubscription is at least 1, not " + ratio.to_string());
  return ratio;
}

// The rate of each of a switch's `uplinks` where `count` links of `each` come from below, rounded down to b/s.
Bandwidth uplink_bandwidth(const JsonCursor& where, int64_t count, Bandwidth each, const Fraction& oversubscription, int uplinks) {
  try {
    const Fraction rate = Fraction(each.count()) * Fraction(count) / oversubscription / Fraction(uplinks);
    if (rate < Fraction(1)) where.fail("leaves less than 1 b/s for an uplink");
    return Bandwidth(rate.numerator() / rate.denominator());
  } catch (const Error& error) {
    where.fail(error.message());
  }
}

// Where a complaint about an optional key belongs.
JsonCursor at_or_here(const JsonCursor& object, std::string_view key) {
  const auto given = object.find(key);
  return given ? *given : object;
}

void limit_links(const JsonCursor& where, int64_t links) {
  if (links > most_topology_parts) where.fail("makes more than 4 million links between switches, which is more than slackline holds");
}

TopologyLink network_link(Bandwidth bandwidth, Duration latency) {
  TopologyLink link;
  link.kind = LinkKind::network;
  link.bandwidth = bandwidth;
  link.latency = latency;
  return link;
}

// Joins every one of `lower`, to each of which `ports` ports of NICs lead, with every spine switch.
void add_spine(Topology& topology, const JsonCursor& spine, const std::vector<TopologyVertexId>& lower, int64_t ports, Bandwidth port) {
  spine.expect_object({"switches", "oversubscription", "bandwidth", "latency"});
  const int count = read_count(spine, "switches");
  limit_links(spine.at("switches"), int64_t{count} * static_cast<int64_t>(lower.size()));
  Bandwidth bandwidth;
  if (const auto given = spine.find("bandwidth")) {
    if (spine.has("oversubscription")) given->fail("an uplink's bandwidth follows from \"oversubscription\"; give one of the two");
    bandwidth = given->bandwidth();
  } else {
    bandwidth = uplink_bandwidth(at_or_here(spine, "oversubscription"), ports, port, read_oversubscription(spine, "oversubscription"), count);
  }
  const TopologyLink link = network_link(bandwidth, spine.at("latency").duration());
  const std::vector<TopologyVertexId> switches = add_switches(topology, count, "spine");
  for (const TopologyVertexId low : lower)
    for (const TopologyVertexId high : switches) topology.add_link(low, high, link);
}

}  // namespace

Topology build_single_switch(const JsonCursor& object) {
  static constexpr std::array<std::string_view, 1> keys = {"ports_per_nic"};
  const ServerParts parts = read_servers(object, keys);
  Topology topology = named(object, "single_switch");
  const TopologyVertexId top = add_switches(topology, 1, "switch")[0];
  add_servers(topology, parts, [&](int, int, int) { return top; });
  return topology;
}

Topology build_rail_fabric(const JsonCursor& object) {
  static constexpr std::array<std::string_view, 2> keys = {"ports_per_nic", "spine"};
  const ServerParts parts = read_servers(object, keys);
  Topology topology = named(object, "rail_fabric");
  const std::vector<TopologyVertexId> rails = add_switches(topology, parts.nics, "rail");
  if (const auto spine = object.find("spine")) add_spine(topology, *spine, rails, int64_t{parts.servers} * parts.ports, parts.port_bandwidth);
  add_servers(topology, parts, [&](int, int nic, int) { return rails[static_cast<size_t>(nic)]; });
  return topology;
}

Topology build_leaf_spine(const JsonCursor& object) {
  static constexpr std::array<std::string_view, 3> keys = {"ports_per_nic", "servers_per_leaf", "spine"};
  const ServerParts parts = read_servers(object, keys);
  const int leaves = read_groups(object, "servers_per_leaf", parts.servers, "servers"), below = parts.servers / leaves;
  Topology topology = named(object, "leaf_spine");
  const std::vector<TopologyVertexId> leaf = add_switches(topology, leaves, "leaf");
  add_spine(topology, object.at("spine"), leaf, int64_t{below} * parts.nics * parts.ports, parts.port_bandwidth);
  add_servers(topology, parts, [&](int server, int, int) { return leaf[static_cast<size_t>(server / below)]; });
  return topology;
}

Topology build_dual_tor(const JsonCursor& object) {
  static constexpr std::array<std::string_view, 3> keys = {"servers_per_rack", "port_bandwidth", "spine"};
  ServerParts parts = read_servers(object, keys);
  parts.ports = 2;
  if (const auto given = object.find("port_bandwidth")) {
    parts.port_bandwidth = given->bandwidth();
  } else {
    if (parts.nic_bandwidth.count() % 2 != 0) object.at("nic_bandwidth").fail("does not divide into 2 ports of whole b/s");
    parts.port_bandwidth = Bandwidth(parts.nic_bandwidth.count() / 2);
  }
  const int racks = read_groups(object, "servers_per_rack", parts.servers, "servers"), below = parts.servers / racks;
  if (racks > 1) object.at("spine");  // without one the racks would not be joined
  Topology topology = named(object, "dual_tor");
  std::vector<TopologyVertexId> tors;
  for (int rack = 0; rack < racks; ++rack)
    for (const char* const side : {"a", "b"}) {
      tors.push_back(topology.add_vertex(VertexKind::net_switch, -1, "tor" + std::to_string(rack) + side));
      topology.graph[tors.back()].index = static_cast<int>(tors.size()) - 1;
    }
  if (const auto spine = object.find("spine")) add_spine(topology, *spine, tors, int64_t{below} * parts.nics, parts.port_bandwidth);
  add_servers(topology, parts, [&](int server, int, int port) { return tors[static_cast<size_t>(2 * (server / below) + port)]; });
  return topology;
}

Topology build_fat_tree(const JsonCursor& object) {
  static constexpr std::array<std::string_view, 8> keys = {"ports_per_nic", "servers_per_leaf", "leaves_per_pod",       "aggregations_per_pod",
                                                           "cores",         "oversubscription", "core_oversubscription", "switch_latency"};
  const ServerParts parts = read_servers(object, keys);
  const int leaves = read_groups(object, "servers_per_leaf", parts.servers, "servers"), below = parts.servers / leaves;
  const int pods = read_groups(object, "leaves_per_pod", leaves, "leaves"), leaves_per_pod = leaves / pods;
  const int aggregations = read_count(object, "aggregations_per_pod"), cores = read_count(object, "cores");
  if (cores % aggregations != 0)
    object.at("cores").fail("must be a multiple of \"aggregations_per_pod\", since each aggregation switch of a pod has its own share of them; " +
                            std::to_string(cores) + " is no multiple of " + std::to_string(aggregations));
  const int cores_each = cores / aggregations;
  limit_links(object.at("cores"), int64_t{leaves} * aggregations + int64_t{pods} * cores);
  const Duration latency = object.at("switch_latency").duration();
  const Bandwidth leaf_uplink = uplink_bandwidth(at_or_here(object, "oversubscription"), int64_t{below} * parts.nics * parts.ports, parts.port_bandwidth,
                                                 read_oversubscription(object, "oversubscription"), aggregations);
  const Bandwidth core_uplink = uplink_bandwidth(at_or_here(object, "core_oversubscription"), leaves_per_pod, leaf_uplink,
                                                 read_oversubscription(object, "core_oversubscription"), cores_each);
  Topology topology = named(object, "fat_tree");
  std::vector<TopologyVertexId> all_leaves;
  const std::vector<TopologyVertexId> core = add_switches(topology, cores, "core");
  for (int pod = 0; pod < pods; ++pod) {
    const std::string prefix = "pod" + std::to_string(pod) + "/";
    const auto aggregation = add_switches(topology, aggregations, prefix + "agg");
    const auto leaf = add_switches(topology, leaves_per_pod, prefix + "leaf");
    all_leaves.insert(all_leaves.end(), leaf.begin(), leaf.end());
    for (const TopologyVertexId low : leaf)
      for (const TopologyVertexId high : aggregation) topology.add_link(low, high, network_link(leaf_uplink, latency));
    for (size_t j = 0; j < core.size(); ++j)
      topology.add_link(aggregation[j / static_cast<size_t>(cores_each)], core[j], network_link(core_uplink, latency));
  }
  add_servers(topology, parts, [&](int server, int, int) { return all_leaves[static_cast<size_t>(server / below)]; });
  return topology;
}

}  // namespace slackline
