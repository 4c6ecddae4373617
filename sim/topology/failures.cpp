#include "topology/failures.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"

namespace slackline {

namespace {

using Edge = TopologyGraph::edge_descriptor;

[[noreturn]] void fail(const Failure& failure, const std::string& message) { throw Error(ErrorKind::input, message, failure.where); }

// "it has NICs 0 to 7"
std::string numbered(const std::string& what, size_t count) {
  return count == 0 ? "it has none" : "it has " + what + "s 0 to " + std::to_string(count - 1);
}

bool needs_server(const Failure& failure) { return failure.cable.empty() && failure.net_switch.empty(); }

const TopologyServer& server_of(const Topology& topology, const Failure& failure) {
  if (failure.server < 0 || static_cast<size_t>(failure.server) >= topology.servers.size())
    fail(failure, "server " + std::to_string(failure.server) + " does not exist; the topology has servers 0 to " +
                      std::to_string(static_cast<int>(topology.servers.size()) - 1));
  return topology.servers[static_cast<size_t>(failure.server)];
}

std::string server_name(const Failure& failure) { return "server " + std::to_string(failure.server); }

TopologyVertexId gpu_of(const Topology& topology, const Failure& failure, int gpu) {
  const std::vector<TopologyVertexId>& gpus = server_of(topology, failure).gpus;
  if (gpu < 0 || static_cast<size_t>(gpu) >= gpus.size())
    fail(failure, server_name(failure) + " has no GPU " + std::to_string(gpu) + "; " + numbered("GPU", gpus.size()));
  return gpus[static_cast<size_t>(gpu)];
}

void check_remaining(const Failure& failure, const Fraction& remaining, const std::string& what) {
  if (remaining < Fraction(0) || remaining > Fraction(1))
    fail(failure, "what remains of " + what + " is a fraction from 0 to 1, not " + remaining.to_string());
}

// Links between `a` and another vertex that `wanted` accepts, those from a first and then those to it, each in the order
// in which they were added.
template <class Wanted>
std::pair<std::vector<Edge>, std::vector<Edge>> links_at(const TopologyGraph& graph, TopologyVertexId a, LinkKind kind, Wanted wanted) {
  std::pair<std::vector<Edge>, std::vector<Edge>> found;
  for (auto [edge, end] = boost::out_edges(a, graph); edge != end; ++edge)
    if (graph[*edge].kind == kind && wanted(boost::target(*edge, graph))) found.first.push_back(*edge);
  for (auto [edge, end] = boost::in_edges(a, graph); edge != end; ++edge)
    if (graph[*edge].kind == kind && wanted(boost::source(*edge, graph))) found.second.push_back(*edge);
  return found;
}

std::pair<std::vector<Edge>, std::vector<Edge>> network_links_at(const TopologyGraph& graph, TopologyVertexId vertex) {
  return links_at(graph, vertex, LinkKind::network, [](TopologyVertexId) { return true; });
}

bool alive(const Topology& topology, TopologyVertexId nic) {
  const auto [out, in] = network_links_at(topology.graph, nic);
  const auto lives = [&](const Edge& edge) { return topology.graph[edge].health > Fraction(0); };
  return std::any_of(out.begin(), out.end(), lives) || std::any_of(in.begin(), in.end(), lives);
}

void scale(Topology& topology, const Failure& failure, const std::vector<Edge>& edges, const Fraction& factor) {
  try {
    for (const Edge& edge : edges) topology.graph[edge].health *= factor;
  } catch (const Error& error) {
    fail(failure, error.message());
  }
}

void scale(Topology& topology, const Failure& failure, const std::pair<std::vector<Edge>, std::vector<Edge>>& links, const Fraction& factor) {
  scale(topology, failure, links.first, factor);
  scale(topology, failure, links.second, factor);
}

// The links of port `failure.port` of a NIC. The k-th link out to a switch and the k-th in from it are one cable.
std::pair<std::vector<Edge>, std::vector<Edge>> port_links(const Topology& topology, const Failure& failure, TopologyVertexId nic) {
  const auto [out, in] = network_links_at(topology.graph, nic);
  if (failure.port < 0 || static_cast<size_t>(failure.port) >= out.size())
    fail(failure, "NIC " + std::to_string(topology.graph[nic].index) + " of " + server_name(failure) + " has no port " +
                      std::to_string(failure.port) + "; " + numbered("port", out.size()));
  const Edge wanted = out[static_cast<size_t>(failure.port)];
  const TopologyVertexId other = boost::target(wanted, topology.graph);
  const auto before = std::count_if(out.begin(), out.begin() + failure.port, [&](const Edge& edge) { return boost::target(edge, topology.graph) == other; });
  std::pair<std::vector<Edge>, std::vector<Edge>> links{{wanted}, {}};
  std::ptrdiff_t seen = 0;
  for (const Edge& edge : in)
    if (boost::source(edge, topology.graph) == other && seen++ == before) links.second.push_back(edge);
  return links;
}

void fail_nics(Topology& topology, const Failure& failure) {
  const TopologyServer& server = server_of(topology, failure);
  for (const int index : failure.nic_indices) {
    const TopologyVertexId nic = server.nics[static_cast<size_t>(index)];
    scale(topology, failure, failure.port >= 0 ? port_links(topology, failure, nic) : network_links_at(topology.graph, nic), failure.remaining);
  }
  if (failure.slowdown < Fraction(1)) fail(failure, "a slowdown is at least 1, not " + failure.slowdown.to_string());
  if (failure.slowdown == Fraction(1)) return;
  if (!is_timed(failure) && std::none_of(server.nics.begin(), server.nics.end(), [&](TopologyVertexId nic) { return alive(topology, nic); }))
    fail(failure, server_name(failure) + " has no living NIC that could be slow");
  for (const TopologyVertexId nic : server.nics) scale(topology, failure, network_links_at(topology.graph, nic), Fraction(1) / failure.slowdown);
}

std::string nvlink_ends(const Failure& failure) {
  return failure.nvlink.size() == 2 ? "between GPU " + std::to_string(failure.nvlink[0]) + " and GPU " + std::to_string(failure.nvlink[1])
                                    : "from GPU " + std::to_string(failure.nvlink[0]) + " to an NVSwitch";
}

// `count` of the links die, in one direction.
void fail_nvlink_count(Topology& topology, const Failure& failure, const std::vector<Edge>& links) {
  int left = failure.nvlink_count;
  Fraction living(0);
  for (const Edge& edge : links) {
    TopologyLink& link = topology.graph[edge];
    const Fraction alive = Fraction(link.count) * link.health;
    living += alive;
    const Fraction dying = std::min(alive, Fraction(left));
    link.health -= dying / Fraction(link.count);
    left -= static_cast<int>(dying.numerator() / dying.denominator());
  }
  if (left > 0 && !is_timed(failure))
    fail(failure, server_name(failure) + " has " + living.to_string() + " living NVLinks " + nvlink_ends(failure) + ": " +
                      std::to_string(failure.nvlink_count) + " cannot fail");
}

void fail_nvlinks(Topology& topology, const Failure& failure) {
  if (failure.nvlink.size() > 2) fail(failure, "an NVLink is named by the two GPUs that it joins, or by one GPU on an NVSwitch");
  for (const int gpu : failure.nvlink) gpu_of(topology, failure, gpu);
  const TopologyVertexId a = gpu_of(topology, failure, failure.nvlink[0]);
  const auto links = links_at(topology.graph, a, LinkKind::nvlink, [&](TopologyVertexId other) {
    return failure.nvlink.size() == 2 ? other == gpu_of(topology, failure, failure.nvlink[1]) : topology.graph[other].kind == VertexKind::nvswitch;
  });
  if (links.first.empty() || links.second.empty()) fail(failure, server_name(failure) + " has no NVLink " + nvlink_ends(failure));
  if (failure.nvlink_count == 0) {
    scale(topology, failure, links, failure.nvlink_remaining);
  } else {
    fail_nvlink_count(topology, failure, links.first);
    fail_nvlink_count(topology, failure, links.second);
  }
}

// The end of a message about a name that is not there: the nearest of the others, or some of them.
std::string existing(const std::string& name, const std::vector<std::string_view>& known, const std::string& what) {
  if (const std::string near = nearest_name(name, known); !near.empty()) return "; did you mean \"" + near + "\"?";
  if (known.empty()) return "; the topology has no " + what;
  std::string text = "; there are ";
  for (size_t i = 0; i < known.size() && i < 8; ++i) text += (i > 0 ? ", " : "") + std::string(known[i]);
  return text + (known.size() > 8 ? ", ..." : "");
}

TopologyVertexId network_vertex(const Topology& topology, const Failure& failure, const std::string& name, bool only_switches) {
  const TopologyGraph& graph = topology.graph;
  const auto eligible = [&](TopologyVertexId v) {
    return graph[v].kind == VertexKind::net_switch || (!only_switches && graph[v].kind == VertexKind::nic);
  };
  for (auto [v, end] = boost::vertices(graph); v != end; ++v)
    if (graph[*v].name == name && eligible(*v)) return *v;
  std::vector<std::string_view> known;
  for (auto [v, end] = boost::vertices(graph); v != end; ++v)
    if (eligible(*v)) known.push_back(graph[*v].name);
  fail(failure, std::string("there is no ") + (only_switches ? "switch" : "NIC or switch") + " \"" + name + "\"" +
                    existing(name, known, only_switches ? "switches between servers" : "NICs and switches"));
}

void fail_cable(Topology& topology, const Failure& failure) {
  if (failure.cable.size() != 2) fail(failure, "a cable is named by the two vertices that it joins");
  const TopologyGraph& graph = topology.graph;
  const TopologyVertexId a = network_vertex(topology, failure, failure.cable[0], false), b = network_vertex(topology, failure, failure.cable[1], false);
  const auto links = links_at(graph, a, LinkKind::network, [&](TopologyVertexId other) { return other == b; });
  if (links.first.empty() && links.second.empty()) {
    std::vector<std::string_view> ends;
    for (const Edge& edge : network_links_at(graph, a).first) ends.push_back(graph[boost::target(edge, graph)].name);
    fail(failure, "no cable joins \"" + failure.cable[0] + "\" and \"" + failure.cable[1] + "\"; from the former " +
                      (ends.empty() ? "there is none" : "they lead to " + std::string(ends[0]) + (ends.size() > 1 ? " and " + std::to_string(ends.size() - 1) + " others" : "")));
  }
  scale(topology, failure, links, failure.remaining);
}

// The cable, switch or port that the failure is about, in words; "" if it is about none.
std::string network_part(const Failure& failure) {
  if (!failure.cable.empty()) return "cable " + failure.cable.front() + " - " + failure.cable.back();
  if (!failure.net_switch.empty()) return "switch " + failure.net_switch;
  if (failure.port < 0 || failure.nic_indices.empty()) return "";
  return "port " + std::to_string(failure.port) + " of NIC " + std::to_string(failure.nic_indices[0]) + " of " + server_name(failure);
}

// Half-open intervals; flapping is taken for a failure of the whole time.
bool overlap(const Failure& a, const Failure& b) { return a.at < b.until && b.at < a.until; }

bool permanent(const Failure& failure) { return !is_timed(failure); }

// Which NICs the failures seen so far kill, and when.
class NamedNics {
 public:
  void add(const Failure& failure) {
    if (failure.port >= 0 || failure.remaining > Fraction(0)) return;
    for (const int index : failure.nic_indices) killers_[{failure.server, index}].push_back(&failure);
  }
  bool dead_during(const Failure& failure, int index) const {
    return any(failure.server, index, [&](const Failure& earlier) { return overlap(earlier, failure); });
  }
  bool dead_for_good(int server, int index) const { return any(server, index, permanent); }

 private:
  template <class Condition>
  bool any(int server, int index, Condition condition) const {
    const auto found = killers_.find({server, index});
    return found != killers_.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Failure* earlier) { return condition(*earlier); });
  }
  std::map<std::pair<int, int>, std::vector<const Failure*>> killers_;
};

// Turns the count of `failure` into numbers and checks the numbers.
void resolve_nics(const Topology& topology, Failure& failure, const NamedNics& named) {
  const std::vector<TopologyVertexId>& nics = server_of(topology, failure).nics;
  if (failure.nic_count < 0) fail(failure, "a number of NICs cannot be negative");
  std::vector<int> counted;
  if (failure.nic_count > 0) {
    for (size_t n = 0; n < nics.size(); ++n)
      if (alive(topology, nics[n]) && !named.dead_during(failure, static_cast<int>(n))) counted.push_back(static_cast<int>(n));
    if (static_cast<size_t>(failure.nic_count) > counted.size())
      fail(failure, server_name(failure) + " has " + std::to_string(nics.size()) + " NICs, of which " + std::to_string(counted.size()) +
                        " were still alive: " + std::to_string(failure.nic_count) + " cannot fail");
    counted.resize(static_cast<size_t>(failure.nic_count));
  }
  std::set<int> seen(counted.begin(), counted.end());
  for (const int index : failure.nic_indices) {
    if (index < 0 || static_cast<size_t>(index) >= nics.size())
      fail(failure, server_name(failure) + " has no NIC " + std::to_string(index) + "; " + numbered("NIC", nics.size()));
    if (!seen.insert(index).second || (permanent(failure) && named.dead_for_good(failure.server, index)))
      fail(failure, "NIC " + std::to_string(index) + " of " + server_name(failure) + " has failed already");
  }
  failure.nic_indices.insert(failure.nic_indices.begin(), counted.begin(), counted.end());
  failure.nic_count = 0;
}

// The first of a flapping failure's own changes after `after`, not looking at `until`; never() beyond 64 bits.
TimePoint next_flap(const Failure& failure, TimePoint after) {
  const __int128 at = failure.at.count(), period = failure.flap_period.count();
  const __int128 begun = at + (after.count() - at) / period * period;  // of the period around `after`
  const __int128 rises = begun + failure.flap_down.count();
  const __int128 next = rises > after.count() ? rises : begun + period;
  return next < INT64_MAX ? TimePoint(static_cast<int64_t>(next)) : TimePoint::never();
}

bool active(const Failure& failure, TimePoint t) {
  if (t < failure.at || t >= failure.until) return false;
  if (failure.flap_period.count() <= 0) return true;
  return (t - failure.at).count() % failure.flap_period.count() < failure.flap_down.count();
}

TimePoint next_change_of(const Failure& failure, TimePoint after) {
  const bool flaps = failure.flap_period.count() > 0;
  if (failure.at >= failure.until || (flaps && failure.flap_down.count() <= 0)) return TimePoint::never();
  if (after < failure.at) return failure.at;
  if (after >= failure.until) return TimePoint::never();
  if (flaps && failure.flap_down < failure.flap_period)
    if (const TimePoint next = next_flap(failure, after); next < failure.until) return next;
  return active(failure, after) ? failure.until : TimePoint::never();
}

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ") + std::to_string(numbers[i]);
  return text;
}

std::string describe_nics(const Failure& failure, const Topology& topology) {
  const std::string of = " of " + server_name(failure);
  if (failure.nic_count > 0) return std::to_string(failure.nic_count) + (failure.nic_count == 1 ? " NIC" : " NICs") + of;
  const std::vector<int>& nics = failure.nic_indices;
  if (nics.empty()) return "no NIC" + of;
  const bool known = failure.server >= 0 && static_cast<size_t>(failure.server) < topology.servers.size();
  const size_t all = known ? topology.servers[static_cast<size_t>(failure.server)].nics.size() : 0;
  if (nics.size() > 1 && nics.size() == all) return "all " + std::to_string(all) + " NICs" + of;
  std::string text = (nics.size() == 1 ? "NIC " : "NICs ") + list(nics) + of;
  if (failure.port >= 0) {
    text = network_part(failure);
    if (known && static_cast<size_t>(nics[0]) < all) {
      const auto links = port_links(topology, failure, topology.servers[static_cast<size_t>(failure.server)].nics[static_cast<size_t>(nics[0])]);
      text += " (to " + topology.graph[boost::target(links.first[0], topology.graph)].name + ")";
    }
  }
  return text;
}

std::string describe_times(const Failure& failure) {
  const auto text = [](TimePoint t) { return to_string(t - TimePoint()); };
  std::string times;
  if (failure.flap_period.count() > 0)
    times += ", broken for the first " + to_string(failure.flap_down) + " of every " + to_string(failure.flap_period);
  if (failure.at > TimePoint()) times += " from " + text(failure.at);
  if (failure.until != TimePoint::never()) times += " until " + text(failure.until);
  return times;
}

}  // namespace

bool is_timed(const Failure& failure) {
  return failure.at > TimePoint() || failure.until != TimePoint::never() || failure.flap_period.count() > 0;
}

bool has_timed(const std::vector<Failure>& failures) { return std::any_of(failures.begin(), failures.end(), is_timed); }

std::vector<Failure> lasting_failures(std::vector<Failure> failures) {
  std::erase_if(failures, is_timed);
  return failures;
}

std::vector<Failure> active_failures(const std::vector<Failure>& failures, TimePoint t) {
  std::vector<Failure> result;
  std::copy_if(failures.begin(), failures.end(), std::back_inserter(result), [&](const Failure& failure) { return active(failure, t); });
  return result;
}

TimePoint next_change(const std::vector<Failure>& failures, TimePoint after) {
  TimePoint next = TimePoint::never();
  for (const Failure& failure : failures) next = std::min(next, next_change_of(failure, after));
  return next;
}

std::vector<Failure> resolve(const Topology& topology, const std::vector<Failure>& failures) {
  std::vector<Failure> result = failures;  // of constant size: `named` points into it
  NamedNics named;
  std::set<std::string> dead;  // other parts, for good
  for (Failure& failure : result) {
    if (needs_server(failure)) {
      resolve_nics(topology, failure, named);
      named.add(failure);
    }
    if (std::string part = network_part(failure); !part.empty() && permanent(failure) && failure.remaining == Fraction(0))
      if (!dead.insert(part).second) fail(failure, part + " has failed already");
  }
  return result;
}

void apply_failures(Topology& topology, const std::vector<Failure>& failures) {
  for (const Failure& failure : resolve(topology, failures)) {
    check_remaining(failure, failure.remaining, "a part");
    check_remaining(failure, failure.nvlink_remaining, "an NVLink");
    if (!failure.cable.empty()) fail_cable(topology, failure);
    if (!failure.net_switch.empty())
      scale(topology, failure, network_links_at(topology.graph, network_vertex(topology, failure, failure.net_switch, true)), failure.remaining);
    if (!needs_server(failure)) continue;
    fail_nics(topology, failure);
    if (!failure.nvlink.empty()) fail_nvlinks(topology, failure);
    if (failure.gpu >= 0) {
      if (failure.reduction.count() <= 0) fail(failure, "a GPU reduces at a rate above 0");
      std::optional<Bandwidth>& limit = topology.graph[gpu_of(topology, failure, failure.gpu)].reduction;
      limit = limit ? std::min(*limit, failure.reduction) : failure.reduction;
    }
  }
}

std::string describe(const Failure& failure, const Topology& topology) {
  std::vector<std::string> parts;
  const auto with_rest = [](const std::string& text, const Fraction& remaining, const char* whose) {
    return remaining > Fraction(0) ? text + " at " + remaining.to_string() + " of " + whose + " bandwidth" : text;
  };
  if (!needs_server(failure)) parts.push_back(with_rest(network_part(failure), failure.remaining, "its"));
  if (failure.gpu >= 0)
    parts.push_back("GPU " + std::to_string(failure.gpu) + " of " + server_name(failure) + " reduces at " + to_string(failure.reduction));
  if (failure.nic_count > 0 || !failure.nic_indices.empty())
    parts.push_back(with_rest(describe_nics(failure, topology), failure.remaining,
                              static_cast<size_t>(failure.nic_count) + failure.nic_indices.size() > 1 ? "their" : "its"));
  if (failure.slowdown != Fraction(1)) parts.push_back("NICs of " + server_name(failure) + " slower by " + failure.slowdown.to_string());
  if (!failure.nvlink.empty()) {
    const std::string links = "NVLinks " + nvlink_ends(failure) + " of " + server_name(failure);
    parts.push_back(failure.nvlink_count > 0 ? std::to_string(failure.nvlink_count) + " of the " + links : with_rest(links, failure.nvlink_remaining, "their"));
  }
  if (parts.empty()) parts.push_back(describe_nics(failure, topology));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text + describe_times(failure);
}

}  // namespace slackline
