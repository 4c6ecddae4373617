// Schedules as synthesizers and NCCL write them: TE-CCL's flow tables, NCCL's graph files; and formats that are recognized
// only to say why they are no schedule that slackline can prove anything about.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace slackline {

/// TE-CCL's results ("Chunk 0 from 3 traveled over 3->2 in epoch 4"): an AllGather in place, or an AlltoAll out of place
/// with scratch for relays, by what the demands are. A flow waits for those that brought its chunk in earlier epochs,
/// as the store-and-forward model of TE-CCL has it (Liu et al., SIGCOMM 2024). Fractions of an AlltoAll's chunks
/// are told apart by the table's paths. Throws Error{input} for fractions in an AllGather, whose paths do not tell which part is copied.
bool looks_like_te_ccl(std::string_view text);
Schedule parse_te_ccl(std::string_view text, const std::string& file);

/// NCCL's graph files (NCCL_GRAPH_DUMP_FILE): the ring graph as an AllReduce, every channel a ring of all GPUs with its
/// share of the message; without a ring, the tree graph, whose channels are chains inside a server. Throws
/// Error{input} for graphs with <net>, which tell one server's part only.
bool looks_like_nccl_graph(std::string_view text);
Schedule parse_nccl_graph(std::string_view text, const std::string& file);

/// ForestColl's trees (<Algo nchunkspernode> with <tree root nchunks><send src dst path>), an AllGather in place: every root's
/// chunks go down its trees. Ranks are GPUs in the order of server and number.
bool looks_like_forest(std::string_view text);
Schedule parse_forest(std::string_view text, const std::string& file);

/// Other tools' JSON that is no schedule: throws Error{input} that says what it is.
bool looks_like_other_json(std::string_view text);
Schedule parse_other_json(std::string_view text, const std::string& file);

/// Chakra traces and GOAL programs (message_program.hpp): throw Error{input}, as they are no schedules of a collective.
Schedule parse_chakra(std::string_view text, const std::string& file);
Schedule parse_goal(std::string_view text, const std::string& file);

}  // namespace slackline
