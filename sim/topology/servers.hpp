// The servers that all fabric builders have in common: GPUs on an NVSwitch, NICs, and PCIe switches between them where
// asked for. A fabric says only which switch each port of each NIC leads to.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "base/json.hpp"
#include "topology/topology.hpp"

namespace slackline {

/// What a builder's object says of its servers; topologies/README.md is the reference of the keys.
struct ServerParts {
  int servers = 0;
  int gpus = 0;           ///< per server
  int nics = 0;           ///< per server
  int ports = 1;          ///< per NIC
  int pcie_switches = 0;  ///< per server; 0: no PCIe in the topology
  Bandwidth nic_bandwidth;
  Bandwidth port_bandwidth;  ///< of each port of a NIC
  Duration nic_latency;      ///< between NICs on one switch
  Duration message_overhead;
  Bandwidth nvlink_bandwidth;
  Duration nvlink_latency;  ///< from GPU to GPU
  Bandwidth pcie_bandwidth;
  Duration pcie_latency;  ///< of a link
};

/// Vertices or links of a kind that a built topology can have at most.
constexpr int64_t most_topology_parts = 4'000'000;

/// Checks that `object` has no keys but those of servers, `builder`, `name`, `description` and the `fabric`'s own, and
/// reads those of servers. Throws Error{input} at what is wrong.
ServerParts read_servers(const JsonCursor& object, std::span<const std::string_view> fabric);

/// The switch that a port of a NIC leads to.
using PortSwitch = std::function<TopologyVertexId(int server, int nic, int port)>;

/// Adds all servers. The whole latency of a way between two NICs on one switch lies on the link from the first NIC.
void add_servers(Topology& topology, const ServerParts& parts, const PortSwitch& port_switch);

}  // namespace slackline
