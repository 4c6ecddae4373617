// Names transfers for people: by the stage of the OptCC paper that they belong to, by segment and section. All of it is
// read off the schedule, whatever generator it comes from.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/run.hpp"

namespace slackline {

/// What a transfer does for its collective. Those of the first four are S1, S2, S3, S4 of Chen et al., arXiv 2606.01680.
enum class Stage : uint8_t {
  reduce_scatter,  ///< a reduction between healthy ranks
  upload,          ///< to a straggler
  download,        ///< from a straggler
  allgather,       ///< a copy between healthy ranks
  server_reduce,   ///< a reduction within one of several servers
  server_copy,     ///< a copy within one of several servers
  copy,            ///< any transfer of a collective that reduces nothing
  local,           ///< a rank to itself
};
constexpr size_t stage_count = 8;

/// "reduce-scatter", "upload", ..
std::string_view to_string(Stage stage);
/// "S1", "S2", ..; where the paper has no name for it, the same as to_string().
std::string_view short_name(Stage stage);

/// Where in the message a transfer is. -1 where it moves scratch space to scratch space, which is not in the message.
struct MessagePlace {
  int64_t segment = 0;
  int64_t section = 0;  ///< the unit within the segment with which it begins
};

/// Stages and places of the transfers of a schedule, which must outlive this object.
class Stages {
 public:
  /// The message is cut into `segments` >= 1 equal parts. `stragglers` and `servers` are about the schedule's ranks;
  /// without `servers`, or where all are the same, ranks are told apart by health only.
  Stages(const Schedule& schedule, int64_t segments, std::span<const int> stragglers, std::span<const int> servers = {});

  Stage stage(size_t transfer) const;
  MessagePlace place(size_t transfer) const;
  /// "S1 seg 3 sec 5".
  std::string name(size_t transfer) const;

 private:
  const Schedule& schedule_;
  int64_t segments_;
  bool reduces_;
  std::vector<bool> slow_;
  std::vector<int> servers_;
};

/// The flows of a run, which must outlive this object: their transfers, names and ways.
class Flows {
 public:
  explicit Flows(const PlayedRun& run);

  const PlayedRun& run() const { return run_; }
  uint32_t size() const { return first_.back(); }
  /// The first flow of a group; of one past the last group, size().
  uint32_t first(size_t group) const { return first_[group]; }
  size_t group(uint32_t flow) const;
  uint32_t transfer(uint32_t flow) const { return flow - first_[group(flow)]; }
  const Stages& stages(size_t group) const { return stages_[group]; }
  Bytes bytes(uint32_t flow) const;
  /// With the name of its group where there are several.
  std::string name(uint32_t flow) const;
  /// The links that it takes as the run begins, the receiver's reduction among them. Empty within a rank.
  std::vector<uint32_t> links(uint32_t flow) const;
  Duration latency(uint32_t flow) const;
  /// Ranks of the network.
  int source(uint32_t flow) const;
  int destination(uint32_t flow) const;

 private:
  const Route* route(uint32_t flow) const;

  const PlayedRun& run_;
  std::vector<uint32_t> first_{0};
  std::vector<Stages> stages_;
};

}  // namespace slackline
