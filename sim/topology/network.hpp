// What a job sees of a topology: its ranks and the directed capacities between them. This is what
// schedules are made for, what the simulator plays them on, and what the lower bounds are computed from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fraction.hpp"
#include "base/units.hpp"
#include "topology/topology.hpp"

namespace slackline {

/// How transfers that use one link at the same time share it: max-min fair, or one after the other.
enum class Sharing : uint8_t { fair, exclusive };

/// A vertex of a Network; the first `ranks()` vertices are the ranks.
struct NetworkVertex {
  std::string name;
  int server = -1;  ///< -1 for what stands between servers
  bool relays = true;  ///< whether transfers of others may pass through it; ranks never relay
};

/// A directed capacity: a NIC's transmit or receive side, an NVLink direction. Of a network that is part of a sequence of
/// states it may be 0: dead. `from` = `to` is a rank's speed of reducing what it receives.
struct NetworkLink {
  std::string name;
  int from = 0;
  int to = 0;
  Bandwidth capacity;
  Duration latency;
  LinkKind kind = LinkKind::network;
  int count = 1;  ///< equal links that it stands for (NVLinks bundled between two GPUs)
};

/// The way of a transfer: its links in order, and what they add up to.
struct Route {
  /// A transfer that is striped over NICs or sprayed over switches loads each link with a part of its rate, in units of
  /// 1/whole.
  static constexpr uint32_t whole = 5'765'760;  // 2^7 x 3^2 x 5 x 7 x 11 x 13: most parts are exact

  std::vector<uint32_t> links;
  std::vector<uint32_t> weights;  ///< by link; empty: the whole rate on every link
  Duration latency;               ///< of the longest of parallel ways
};

class Network;

/// Finds ways between servers where they are more than one link out and one link in.
class Router {
 public:
  virtual ~Router() = default;
  /// Of two ranks on different servers; nothing where there is no way.
  virtual std::optional<Route> route(const Network& network, int from, int to) const = 0;
};

/// Ranks and capacities. Immutable once built, but for the cache of routes (not thread-safe).
class Network {
 public:
  /// Without ranks.
  Network() = default;
  Network(std::vector<NetworkVertex> vertices, int ranks, std::vector<NetworkLink> links,
          Duration message_overhead);

  /// A copy with an empty cache of routes.
  Network clone() const;

  int ranks() const { return ranks_; }
  /// Servers that have at least one rank.
  int servers() const { return servers_; }
  /// Ranks per server where all have the same number, else 0.
  int ranks_per_server() const { return ranks_per_server_; }
  int server_of(int rank) const { return vertices_[static_cast<size_t>(rank)].server; }
  const std::vector<NetworkVertex>& vertices() const { return vertices_; }
  const std::vector<NetworkLink>& links() const { return links_; }
  /// Occupies the ports of each message besides its bytes (LogGP o).
  Duration message_overhead() const { return message_overhead_; }

  /// How much slower than the fastest rank's network port this rank's is: l >= 1, exact. 1 for every rank
  /// of a network without network ports (one server).
  const Fraction& slowdown(int rank) const { return slowdowns_[static_cast<size_t>(rank)]; }
  void set_slowdowns(std::vector<Fraction> slowdowns) { slowdowns_ = std::move(slowdowns); }
  /// Ranks with slowdown > 1, ascending.
  std::vector<int> stragglers() const;

  /// Ways between servers are found by `router` from now on.
  void set_router(std::shared_ptr<const Router> router) { router_ = std::move(router); }
  /// The link that limits what the rank reduces, or -1.
  int reduction_link(int rank) const { return reduction_links_[static_cast<size_t>(rank)]; }

  /// Out-links and in-links of a vertex, as indices into links().
  std::span<const uint32_t> out_links(int vertex) const { return out_[static_cast<size_t>(vertex)]; }
  std::span<const uint32_t> in_links(int vertex) const { return in_[static_cast<size_t>(vertex)]; }

  bool has_route(int from, int to) const { return find_route(from, to) != nullptr; }
  /// The cheapest way between two ranks that does not pass through a third: NVLink before PCIe before the
  /// network, fewer links before more; from a rank to itself no link at all. Throws Error{input} where there is none. The reference stays valid as
  /// long as the Network.
  const Route& route(int from, int to) const;

 private:
  const Route* find_route(int from, int to) const;

  std::vector<NetworkVertex> vertices_;
  int ranks_ = 0;
  int servers_ = 0;
  int ranks_per_server_ = 0;
  std::vector<NetworkLink> links_;
  Duration message_overhead_;
  std::vector<Fraction> slowdowns_;
  std::vector<std::vector<uint32_t>> out_, in_;
  std::vector<int> reduction_links_;
  std::shared_ptr<const Router> router_;
  mutable std::unordered_map<uint64_t, std::unique_ptr<Route>> routes_;
};

/// Which GPUs of a topology make up the job.
struct RankSelection {
  int gpus_per_server = 0;                 ///< the first so many of every server; 0: see below
  std::vector<std::vector<int>> gpus;      ///< per server the GPUs; a single entry stands for all servers
  std::string where;                       ///< where it was read, for messages
};

/// The chosen GPUs of each server, in the order of their ranks. Throws as build_network does.
std::vector<std::vector<int>> chosen_gpus(const Topology& topology, const RankSelection& selection);

/// The Network of the chosen ranks, numbered server by server. Inside a server the links among the chosen
/// GPUs, NVSwitches and PCIe are taken over. Between servers a rank has its share of the server's living
/// NIC bandwidth (the whole divided by the number of GPUs in the server), transmitting and receiving, into
/// a fabric that is assumed not to block. Throws Error{input}: no such GPU, fewer than 2 ranks, a
/// server that has ranks but no living NIC although there are several servers.
Network build_network(const Topology& topology, const RankSelection& selection);

/// From `from` on the network is `network`, which has the vertices and links of the one before it and other capacities.
struct NetworkState {
  TimePoint from;
  std::shared_ptr<const Network> network;
  std::string what;  ///< has happened, for people
};

/// Gives the first change after a time, or nothing; asked for one change after the other, as time goes on.
using NetworkTimeline = std::function<std::optional<NetworkState>(TimePoint after)>;

}  // namespace slackline
