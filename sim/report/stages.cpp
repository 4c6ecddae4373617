#include "report/stages.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace slackline {

namespace {

constexpr std::array<std::string_view, stage_count> names = {"reduce-scatter",    "upload",         "download", "allgather",
                                                             "in-server reduce", "in-server copy", "copy",     "local"};
constexpr std::array<std::string_view, stage_count> short_names = {"S1", "S2", "S3", "S4", names[4], names[5], names[6], names[7]};

// Where a chunk of `rank` lies in the message, or -1 for scratch space.
int64_t unit_of(const Schedule& schedule, const Chunk& chunk, uint32_t rank) {
  if (chunk.buffer == Buffer::scratch) return -1;
  const CollectiveType type = schedule.collective().type;
  const bool brings_part = type == CollectiveType::allgather || type == CollectiveType::gather;
  const bool gets_part = type == CollectiveType::reduce_scatter || type == CollectiveType::scatter;
  if ((chunk.buffer == Buffer::input && brings_part) || (chunk.buffer == Buffer::output && gets_part))
    return chunk.offset + schedule.units() / schedule.collective().ranks * rank;
  return chunk.offset;
}

}  // namespace

std::string_view to_string(Stage stage) { return names[static_cast<size_t>(stage)]; }
std::string_view short_name(Stage stage) { return short_names[static_cast<size_t>(stage)]; }

Stages::Stages(const Schedule& schedule, int64_t segments, std::span<const int> stragglers, std::span<const int> servers)
    : schedule_(schedule), segments_(std::clamp<int64_t>(segments, 1, std::max<int64_t>(schedule.units(), 1))) {
  const CollectiveType type = schedule.collective().type;
  reduces_ = type == CollectiveType::allreduce || type == CollectiveType::reduce || type == CollectiveType::reduce_scatter;
  slow_.assign(static_cast<size_t>(schedule.collective().ranks), false);
  for (const int rank : stragglers) slow_[static_cast<size_t>(rank)] = true;
  if (std::any_of(servers.begin(), servers.end(), [&](int server) { return server != servers.front(); }))
    servers_.assign(servers.begin(), servers.end());
}

Stage Stages::stage(size_t transfer) const {
  const uint32_t src = schedule_.src(transfer), dst = schedule_.dst(transfer);
  if (src == dst) return Stage::local;
  if (!reduces_) return Stage::copy;
  const bool reduce = schedule_.op(transfer) == TransferOp::reduce;
  if (!servers_.empty() && servers_[src] == servers_[dst]) return reduce ? Stage::server_reduce : Stage::server_copy;
  if (slow_[dst]) return Stage::upload;
  if (slow_[src]) return Stage::download;
  return reduce ? Stage::reduce_scatter : Stage::allgather;
}

MessagePlace Stages::place(size_t transfer) const {
  int64_t unit = unit_of(schedule_, schedule_.chunks()[schedule_.dst_chunk(transfer)], schedule_.dst(transfer));
  if (unit < 0) unit = unit_of(schedule_, schedule_.chunks()[schedule_.src_chunk(transfer)], schedule_.src(transfer));
  if (unit < 0) return {-1, -1};
  const auto units = static_cast<__int128>(schedule_.units());
  const auto segment = static_cast<int64_t>(static_cast<__int128>(unit) * segments_ / units);
  const auto begin = static_cast<int64_t>((segment * units + segments_ - 1) / segments_);
  return {segment, unit - begin};
}

std::string Stages::name(size_t transfer) const {
  const MessagePlace at = place(transfer);
  const std::string_view stage_name = short_name(stage(transfer));
  return at.segment < 0 ? fmt::format("{} scratch", stage_name) : fmt::format("{} seg {} sec {}", stage_name, at.segment, at.section);
}

Flows::Flows(const PlayedRun& run) : run_(run) {
  for (const PlayedGroup& group : run.groups) {
    first_.push_back(first_.back() + static_cast<uint32_t>(group.schedule.size()));
    std::vector<int> servers;
    for (const int rank : group.ranks) servers.push_back(run.network.server_of(rank));
    stages_.emplace_back(group.schedule, group.segments, group.stragglers, servers);
  }
}

size_t Flows::group(uint32_t flow) const {
  return static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), flow) - first_.begin()) - 1;
}

Bytes Flows::bytes(uint32_t flow) const {
  const PlayedGroup& of = run_.groups[group(flow)];
  const uint32_t t = transfer(flow);
  return Bytes(of.layout.length(of.schedule.chunks()[of.schedule.src_chunk(t)], of.schedule.chunks()[of.schedule.dst_chunk(t)]));
}

std::string Flows::name(uint32_t flow) const {
  const size_t g = group(flow);
  const std::string name = stages_[g].name(transfer(flow));
  return run_.groups.size() > 1 ? run_.groups[g].name + ": " + name : name;
}

int Flows::source(uint32_t flow) const {
  const PlayedGroup& of = run_.groups[group(flow)];
  return static_cast<int>(of.schedule.src(transfer(flow)));
}

int Flows::destination(uint32_t flow) const {
  const PlayedGroup& of = run_.groups[group(flow)];
  return static_cast<int>(of.schedule.dst(transfer(flow)));
}

const Route* Flows::route(uint32_t flow) const {
  const std::vector<int>& ranks = run_.groups[group(flow)].ranks;
  const int from = ranks[static_cast<size_t>(source(flow))], to = ranks[static_cast<size_t>(destination(flow))];
  return from != to && run_.network.has_route(from, to) ? &run_.network.route(from, to) : nullptr;
}

std::vector<uint32_t> Flows::links(uint32_t flow) const {
  const Route* way = route(flow);
  if (!way) return {};
  std::vector<uint32_t> links = way->links;
  const int reducer = run_.network.reduction_link(run_.groups[group(flow)].ranks[static_cast<size_t>(destination(flow))]);
  if (reducer >= 0 && run_.groups[group(flow)].schedule.op(transfer(flow)) == TransferOp::reduce)
    links.push_back(static_cast<uint32_t>(reducer));
  return links;
}

Duration Flows::latency(uint32_t flow) const {
  const Route* way = route(flow);
  return way ? way->latency : Duration();
}

}  // namespace slackline
