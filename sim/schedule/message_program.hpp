// Programs of messages without contents: GOAL (LogGOPSim) and Chakra traces (astra-sim). What can be said of them is
// whether messages meet and whether they end; nobody knows what data a message carries.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/validate.hpp"

namespace slackline {

struct MessageOp {
  enum class Kind : uint8_t { send, receive, work };
  Kind kind = Kind::work;
  int64_t peer = -1;  ///< rank; of a receive -1: anyone
  int64_t tag = 0;    ///< of a receive -1: any
  int64_t bytes = 0;
  std::vector<uint32_t> after;           ///< operations of the same rank that must have ended
  std::vector<uint32_t> after_begin_of;  ///< that must have begun
  std::string name;                      ///< label or node, for messages
  std::string where;                     ///< file and line
};

struct MessageProgram {
  std::string file, format;
  std::vector<std::vector<MessageOp>> ranks;

  size_t ops() const;
};

bool looks_like_goal(std::string_view text);
/// `num_ranks N`, then `rank r { l1: send 8b to 1 tag 0; l2: recv ..; l3: calc 5; l2 requires l1; l3 irequires l2 }`. Throws
/// Error{input} with file and line.
MessageProgram read_goal(std::string_view text, const std::string& file);

bool looks_like_chakra(std::string_view text);
/// Chakra execution traces, one file a rank: `path` is one of PREFIX.0.et, PREFIX.1.et and so on, and all are read. Throws
/// Error{input} with the file and the offset in it.
MessageProgram read_chakra(const std::filesystem::path& path, const std::string& shown_as);
/// Appends a rank.
void read_chakra_rank(std::string_view bytes, const std::string& file, MessageProgram& program);

struct MessageReport {
  std::vector<Finding> findings;
  bool ends = false;             ///< with any buffering
  bool ends_unbuffered = false;  ///< if a send ends only when it has been received
  int64_t messages = 0, bytes = 0, longest_chain = 0;  ///< longest_chain: in messages, each after the one before
};

/// Sends and receives of one pair and tag meet in the order in which they begin. Rules: message-missing,
/// message-unreceived, message-size, deadlock, deadlock-capacity, dependency-cycle, no-contents (info: always).
MessageReport check_messages(const MessageProgram& program);

}  // namespace slackline
