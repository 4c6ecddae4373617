// The physical machine: servers with GPUs, NVLinks, PCIe, NICs, and the switches between them, as a
// Boost.Graph graph; and failures applied to it.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/fraction.hpp"
#include "base/units.hpp"

namespace slackline {

enum class VertexKind : uint8_t { gpu, nic, nvswitch, net_switch, cpu, pcie_switch };
enum class LinkKind : uint8_t { nvlink, pcie, network };

std::string_view to_string(VertexKind kind);
std::string_view to_string(LinkKind kind);
/// Throws std::out_of_range for an unknown name.
VertexKind vertex_kind(std::string_view name);
LinkKind link_kind(std::string_view name);

struct TopologyVertex {
  VertexKind kind = VertexKind::gpu;
  int server = -1;  ///< -1 for switches between servers
  int index = 0;    ///< number among the vertices of its kind in its server
  std::string name;
  std::optional<Bandwidth> reduction = {};  ///< of a GPU that reduces no faster than this
};

/// One direction of a link (or of a bundle of equal links).
struct TopologyLink {
  LinkKind kind = LinkKind::network;
  Bandwidth bandwidth;  ///< as built, of the whole bundle
  Duration latency;
  int count = 1;       ///< links in the bundle
  Fraction health{1};  ///< what failures left of the bandwidth, 0..1
};

using TopologyGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS,
                                            TopologyVertex, TopologyLink>;
using TopologyVertexId = TopologyGraph::vertex_descriptor;

struct TopologyServer {
  std::vector<TopologyVertexId> gpus;  ///< in index order
  std::vector<TopologyVertexId> nics;  ///< in index order
};

/// A machine room. Value type; failures change the `health` of links and nothing else.
struct Topology {
  std::string name;
  TopologyGraph graph;
  std::vector<TopologyServer> servers;
  Duration message_overhead;  ///< time that every message occupies its ports besides its bytes (LogGP o)

  TopologyVertexId add_vertex(VertexKind kind, int server, const std::string& name = {});
  /// Adds the link in both directions.
  void add_link(TopologyVertexId a, TopologyVertexId b, const TopologyLink& link);
};

/// NICs of one server that are dead, a server whose NIC bandwidth as a whole is divided by `slowdown`, or NVLinks
/// that are dead or slow.
struct Failure {
  int server = 0;
  int nic_count = 0;             ///< this many NICs die, the lowest-numbered living ones first
  std::vector<int> nic_indices;  ///< these NICs die
  Fraction slowdown{1};          ///< >= 1
  /// The NVLinks between two GPUs of the server, or, where one GPU is named, from it to the NVSwitches; both
  /// directions fail alike. Empty: no NVLink fails.
  std::vector<int> nvlink;
  int nvlink_count = 0;         ///< this many of them die; 0: see `nvlink_remaining`
  Fraction nvlink_remaining{0};  ///< what is left of their bandwidth where no count is given, 0..1
  std::string where;             ///< where it was read, for messages
};

/// Takes the failures' NICs, NVLinks and bandwidth out of `topology`. Throws Error{input} at the failure's `where`
/// for servers, NICs, GPUs and NVLinks that do not exist, more dead NICs or NVLinks than there are, slowdowns
/// below 1 or of servers without a living NIC.
void apply_failures(Topology& topology, const std::vector<Failure>& failures);

}  // namespace slackline
