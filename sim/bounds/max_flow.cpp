#include "bounds/max_flow.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <boost/multiprecision/cpp_int.hpp>

namespace slackline {

namespace {

// __int128 has no std::numeric_limits in strict C++20, which push-relabel needs.
using Flow = boost::multiprecision::int128_t;
using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Arc {
  Flow capacity, residual;
  Traits::edge_descriptor reverse;
};
using FlowGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;

}  // namespace

struct MinCut::Graph {
  explicit Graph(size_t vertices) : graph(vertices) {}
  FlowGraph graph;
  std::vector<FlowGraph::edge_descriptor> arcs;
};

MinCut::MinCut(int vertices) : graph_(std::make_unique<Graph>(static_cast<size_t>(vertices))) {}

MinCut::MinCut(MinCut&&) noexcept = default;
MinCut::~MinCut() = default;

size_t MinCut::add_arc(int from, int to, Wide capacity) {
  FlowGraph& graph = graph_->graph;
  const auto arc = boost::add_edge(static_cast<size_t>(from), static_cast<size_t>(to), graph).first;
  const auto back =
      boost::add_edge(static_cast<size_t>(to), static_cast<size_t>(from), graph).first;
  graph[arc].reverse = back;
  graph[back].reverse = arc;
  graph[arc].capacity = Flow(capacity);
  graph_->arcs.push_back(arc);
  return graph_->arcs.size() - 1;
}

void MinCut::set_capacity(size_t arc, Wide capacity) {
  graph_->graph[graph_->arcs[arc]].capacity = Flow(capacity);
}

Wide MinCut::solve(int source, int sink) {
  FlowGraph& graph = graph_->graph;
  source_ = source;
  const Flow flow = boost::push_relabel_max_flow(
      graph, static_cast<size_t>(source), static_cast<size_t>(sink),
      boost::get(&Arc::capacity, graph), boost::get(&Arc::residual, graph),
      boost::get(&Arc::reverse, graph), boost::get(boost::vertex_index, graph));
  return static_cast<Wide>(flow);
}

std::vector<bool> MinCut::source_side() const {
  const FlowGraph& graph = graph_->graph;
  std::vector<bool> reached(boost::num_vertices(graph));
  std::vector<size_t> stack{static_cast<size_t>(source_)};
  reached[stack.back()] = true;
  while (!stack.empty()) {
    const size_t vertex = stack.back();
    stack.pop_back();
    for (auto [arc, end] = boost::out_edges(vertex, graph); arc != end; ++arc) {
      const size_t next = boost::target(*arc, graph);
      if (graph[*arc].residual <= 0 || reached[next]) continue;
      reached[next] = true;
      stack.push_back(next);
    }
  }
  return reached;
}

}  // namespace slackline
