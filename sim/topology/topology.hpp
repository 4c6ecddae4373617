// The physical machine: servers with GPUs, NVLinks, PCIe, NICs, and the switches between them, as a
// Boost.Graph graph. Failures of its parts: failures.hpp.
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
  std::optional<Bandwidth> reduction = {};  ///< a failing GPU reduces at most at this rate; none: no limit
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

/// A machine room. Value type; failures change the `health` of links and the
/// `reduction` of GPUs and nothing else.
struct Topology {
  std::string name;
  TopologyGraph graph;
  std::vector<TopologyServer> servers;
  Duration message_overhead;  ///< time that every message occupies its ports besides its bytes (LogGP o)

  TopologyVertexId add_vertex(VertexKind kind, int server, const std::string& name = {});
  /// Adds the link in both directions.
  void add_link(TopologyVertexId a, TopologyVertexId b, const TopologyLink& link);
};

}  // namespace slackline
