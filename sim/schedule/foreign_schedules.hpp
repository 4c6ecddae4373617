// Schedules as synthesizers and NCCL write them: TE-CCL's flow tables, NCCL's graph files; and formats that are recognized
// only to say why they are no schedule that slackline can prove anything about.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace slackline {

/// TE-CCL's results ("Chunk 0 from 3 traveled over 3->2 in epoch 4"): an AllGather in place, or an AlltoAll out of place
/// with scratch for relays, by what the demands are. A flow waits for those that brought its chunk in earlier epochs,
/// as the store-and-forward model of TE-CCL has it (Liu et al., SIGCOMM 2024). Throws Error{input} for chunks in
/// fractions, whose parts the table does not tell apart.
bool looks_like_te_ccl(std::string_view text);
Schedule parse_te_ccl(std::string_view text, const std::string& file);

/// NCCL's graph files (NCCL_GRAPH_DUMP_FILE): the ring graph as an AllReduce, every channel a ring of all GPUs with its
/// share of the message; without a ring, the tree graph, whose channels are chains inside a server. Throws
/// Error{input} for graphs with <net>, which tell one server's part only.
bool looks_like_nccl_graph(std::string_view text);
Schedule parse_nccl_graph(std::string_view text, const std::string& file);

/// MSCCL++ execution plans: throws Error{input} that names the first operation.
bool looks_like_mscclpp_plan(std::string_view text);
Schedule parse_mscclpp_plan(std::string_view text, const std::string& file);

/// Other tools' JSON that is no schedule: throws Error{input} that says what it is.
bool looks_like_other_json(std::string_view text);
Schedule parse_other_json(std::string_view text, const std::string& file);

/// Chakra traces and GOAL programs: throws Error{input}. They have sizes and an order, but say nothing about which data a
/// message carries.
bool looks_like_chakra(std::string_view text);
Schedule parse_chakra(std::string_view text, const std::string& file);
bool looks_like_goal(std::string_view text);
Schedule parse_goal(std::string_view text, const std::string& file);

}  // namespace slackline
