// An MSCCL program made ready to run: who waits for whom, and which block sends to which through which FIFO.
// Runs it with FIFOs of any size, which decides about deadlocks and gives one valid order of all steps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schedule/msccl.hpp"

namespace slackline {

/// Where a step stands, for messages: "gpu 3 tb 1 step 4", with the file and line in front where known.
std::string msccl_step_name(const MscclProgram& program, size_t gpu, size_t block, size_t step);

/// Refers to a program, which must outlive it, must have its GPUs and blocks at the index of their ids, and must
/// satisfy the structural rules of check_msccl().
class MscclMachine {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  /// One direction between two blocks of different ranks, with a FIFO in between.
  struct Connection {
    uint32_t src = 0, dst = 0;  ///< ranks
    int32_t channel = 0;
    uint32_t sender = none, receiver = none;  ///< indices into blocks()
  };
  struct Block {
    uint32_t gpu = 0, index = 0;
    const MscclBlock* program = nullptr;
    uint32_t first_step = 0;  ///< steps of all blocks are numbered through
    uint32_t send = none, receive = none;  ///< indices into connections()
  };
  /// A step that a step waits for, by the flag that its block posts.
  struct Wait {
    uint32_t block = none;
    uint32_t step = 0;  ///< the first that posts and is not before the one that was named
  };

  explicit MscclMachine(const MscclProgram& program);

  const MscclProgram& program() const { return program_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<Connection>& connections() const { return connections_; }
  const Wait& wait(uint32_t step) const { return waits_[step]; }
  uint32_t steps() const { return static_cast<uint32_t>(waits_.size()); }
  /// The largest count of a step that sends or receives; 0 if there is none.
  int32_t largest_count() const { return largest_count_; }
  /// The largest number of messages on one connection.
  uint32_t most_messages() const { return most_messages_; }

  /// What a run came to.
  struct Outcome {
    bool completed = false;
    /// Where it stopped: a chain of steps that each wait for the next and, if it is a cycle, the last for the
    /// first; one line each.
    std::vector<std::string> waits;
    bool cycle = false;
    /// The step of waits.front(), as block and step; set when it stopped.
    uint32_t block = none, step = 0;
  };

  /// Runs all blocks. A step of `count` chunks is ceil(count / chunks_per_call) calls; a connection's FIFO holds
  /// `capacity(connection)` of them, or any number when that is empty. Progress is monotone, so the order of
  /// blocks does not matter. `order` is told of every step when it has ended.
  Outcome run(int32_t chunks_per_call, const std::function<int64_t(const Connection&)>& capacity,
              const std::function<void(uint32_t block, uint32_t step)>& order = {}) const;

 private:
  const MscclProgram& program_;
  std::vector<Block> blocks_;
  std::vector<Connection> connections_;
  std::vector<Wait> waits_;
  int32_t largest_count_ = 0;
  uint32_t most_messages_ = 0;
};

}  // namespace slackline
