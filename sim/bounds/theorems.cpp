#include "bounds/theorems.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "bounds/exact.hpp"

namespace slackline {

namespace {

// Servers whose only way to each other is through one hub.
struct ServerStar {
  std::vector<int> server;              // the topology's numbers, ascending
  std::vector<std::vector<int>> ranks;  // by position in `server`
  std::vector<Wide> capacity;           // out of the server, and into it
};

std::optional<ServerStar> server_star(const Network& network) {
  std::map<int, std::vector<int>> members;
  for (int rank = 0; rank < network.ranks(); ++rank)
    members[network.server_of(rank)].push_back(rank);
  if (members.size() < 2 || members.begin()->first < 0) return std::nullopt;
  std::map<int, Wide> out, in;
  int hub = -1;
  for (const NetworkLink& link : network.links()) {
    const int from = network.vertices()[static_cast<size_t>(link.from)].server;
    const int to = network.vertices()[static_cast<size_t>(link.to)].server;
    if (from == to && from >= 0) continue;
    if ((from < 0) == (to < 0)) return std::nullopt;
    const int outside = from < 0 ? link.from : link.to;
    if (hub >= 0 && outside != hub) return std::nullopt;
    hub = outside;
    (from < 0 ? in[to] : out[from]) += link.capacity.count();
  }
  ServerStar star;
  for (const auto& [server, ranks] : members) {
    if (out[server] != in[server] || out[server] == 0) return std::nullopt;
    star.server.push_back(server);
    star.ranks.push_back(ranks);
    star.capacity.push_back(out[server]);
  }
  return star;
}

}  // namespace

void add_theorems(const BoundRequest& request, std::vector<Bound>& bounds) {
  const Network& network = request.network;
  const int g = network.ranks_per_server();
  if (request.collective.type != CollectiveType::allreduce || request.size == Bytes(0) || g == 0)
    return;
  const std::optional<ServerStar> star = server_star(network);
  if (!star) return;

  const size_t servers = star->server.size();
  const Wide healthy = *std::max_element(star->capacity.begin(), star->capacity.end());
  size_t stragglers = 0, slowest = 0;
  Wide total = 0;
  for (size_t s = 0; s < servers; ++s) {
    stragglers += star->capacity[s] < healthy;
    total += star->capacity[s];
    if (star->capacity[s] < star->capacity[slowest]) slowest = s;
  }
  if (g > 1 && stragglers > 1) return;
  const int number = g > 1 ? 3 : stragglers > 1 ? 2 : 1;

  const Wide size = request.size.count();
  const Load volume{2 * size * static_cast<Wide>(servers - 1), total};
  const Load straggler{size, star->capacity[slowest]};
  const std::string who = g > 1 ? "server " + std::to_string(star->server[slowest])
                                : name_ranks(network, star->ranks[slowest]);
  const Fraction slowdown(static_cast<int64_t>(healthy),
                          static_cast<int64_t>(star->capacity[slowest]));
  const std::string name = "theorem " + std::to_string(number);
  const std::string source = "Chen et al., arXiv 2606.01680, Theorem " + std::to_string(number);
  if (straggler > volume) {
    bounds.push_back(
        load_bound(request, name, straggler, {star->ranks[slowest]},
                   "limited by " + who + ", slowed down by l = " + slowdown.to_string() +
                       ": it must receive, and send, " + show(request.size) + " through " +
                       show(Bandwidth(static_cast<int64_t>(straggler.capacity))),
                   source));
  } else {
    const std::string what = g > 1 ? " servers" : " ranks";
    bounds.push_back(load_bound(
        request, name, volume, star->ranks,
        "limited by the NICs together: " + std::to_string(servers) + what + " must send 2 x " +
            std::to_string(servers - 1) + " x " + show(request.size) + " through " +
            show(Bandwidth(static_cast<int64_t>(total))) +
            (stragglers > 0 ? " (" + std::to_string(stragglers) + " slowed down, most of all " +
                                  who + " by l = " + slowdown.to_string() + ")"
                            : ""),
        source));
  }
}

}  // namespace slackline
