#include "schedule/msccl_machine.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace slackline {

std::string msccl_step_name(const MscclProgram& program, size_t gpu, size_t block, size_t step) {
  const MscclBlock& tb = program.gpus[gpu].blocks[block];
  const int32_t line = tb.steps[step].line;
  std::string name;
  if (line > 0) name = (program.file.empty() ? "line " : program.file + ":") + std::to_string(line) + " ";
  return name + "gpu " + std::to_string(program.gpus[gpu].id) + " tb " + std::to_string(tb.id) + " step " + std::to_string(step);
}

MscclMachine::MscclMachine(const MscclProgram& program) : program_(program) {
  std::map<std::tuple<uint32_t, uint32_t, int32_t>, uint32_t> known;
  const auto connection = [&](uint32_t src, uint32_t dst, int32_t channel) {
    const auto [entry, fresh] = known.try_emplace({src, dst, channel}, static_cast<uint32_t>(connections_.size()));
    if (fresh) connections_.push_back({src, dst, channel, none, none});
    return entry->second;
  };
  std::vector<uint32_t> first_block(program.gpus.size());
  uint32_t step = 0;
  for (uint32_t g = 0; g < program.gpus.size(); ++g) {
    first_block[g] = static_cast<uint32_t>(blocks_.size());
    for (uint32_t b = 0; b < program.gpus[g].blocks.size(); ++b) {
      const MscclBlock& tb = program.gpus[g].blocks[b];
      const auto index = static_cast<uint32_t>(blocks_.size());
      blocks_.push_back({g, b, &tb, step, none, none});
      step += static_cast<uint32_t>(tb.steps.size());
      uint32_t sent = 0, received = 0;
      for (const MscclStep& s : tb.steps) {
        if (sends(s.op) || receives(s.op)) largest_count_ = std::max(largest_count_, s.count);
        sent += sends(s.op);
        received += receives(s.op);
      }
      most_messages_ = std::max({most_messages_, sent, received});
      if (sent > 0) {
        blocks_.back().send = connection(g, static_cast<uint32_t>(tb.send), tb.channel);
        connections_[blocks_.back().send].sender = index;
      }
      if (received > 0) {
        blocks_.back().receive = connection(static_cast<uint32_t>(tb.receive), g, tb.channel);
        connections_[blocks_.back().receive].receiver = index;
      }
    }
  }
  // The flag of a block only grows, so waiting for step t ends with the first step from t on that posts.
  waits_.resize(step);
  std::vector<std::vector<uint32_t>> posting(blocks_.size());
  for (uint32_t b = 0; b < blocks_.size(); ++b) {
    const std::vector<MscclStep>& steps = blocks_[b].program->steps;
    posting[b].assign(steps.size(), none);
    uint32_t next = none;
    for (auto s = static_cast<uint32_t>(steps.size()); s-- > 0;) {
      if (steps[s].posts && steps[s].op != MscclOp::nop) next = s;
      posting[b][s] = next;
    }
  }
  for (const Block& block : blocks_) {
    for (uint32_t s = 0; s < block.program->steps.size(); ++s) {
      const MscclStep& from = block.program->steps[s];
      if (from.dep_block < 0) continue;
      const uint32_t target = first_block[block.gpu] + static_cast<uint32_t>(from.dep_block);
      waits_[block.first_step + s] = {target, posting[target][static_cast<size_t>(std::max(from.dep_step, 0))]};
    }
  }
}

MscclMachine::Outcome MscclMachine::run(int32_t chunks_per_call, const std::function<int64_t(const Connection&)>& capacity,
                                        const std::function<void(uint32_t, uint32_t)>& order) const {
  struct Fifo {
    int64_t capacity = INT64_MAX;
    int64_t filled = 0;
  };
  std::vector<Fifo> fifos(connections_.size());
  if (capacity)
    for (size_t c = 0; c < connections_.size(); ++c) fifos[c].capacity = capacity(connections_[c]);
  std::vector<uint32_t> position(blocks_.size(), 0);  // the step that a block is in
  std::vector<int32_t> call(blocks_.size(), 0);       // the next call of that step
  // Blocks that wait for a flag of block b are chained from waiting[b].
  std::vector<uint32_t> waiting(blocks_.size(), none), next_waiting(blocks_.size(), none);
  std::vector<uint8_t> chained(blocks_.size(), 0);
  std::vector<uint32_t> runnable(blocks_.size());
  std::vector<uint8_t> queued(blocks_.size(), 1);
  for (uint32_t b = 0; b < blocks_.size(); ++b) runnable[b] = static_cast<uint32_t>(blocks_.size()) - 1 - b;
  const auto wake = [&](uint32_t b) {
    if (b == none || queued[b]) return;
    queued[b] = 1;
    runnable.push_back(b);
  };
  while (!runnable.empty()) {
    const uint32_t b = runnable.back();
    runnable.pop_back();
    queued[b] = 0;
    const Block& block = blocks_[b];
    const std::vector<MscclStep>& steps = block.program->steps;
    const uint32_t before = position[b];
    bool sent = false, received = false;
    for (uint32_t& s = position[b]; s < steps.size(); ++s) {
      const MscclStep& step = steps[s];
      const Wait& wait = waits_[block.first_step + s];
      if (wait.block != none && call[b] == 0 && (wait.step == none || position[wait.block] <= wait.step)) {
        if (!chained[b]) {
          next_waiting[b] = waiting[wait.block];
          waiting[wait.block] = b;
          chained[b] = 1;
        }
        break;
      }
      const bool in = receives(step.op), out = sends(step.op);
      const int32_t calls = in || out ? (step.count + chunks_per_call - 1) / chunks_per_call : 0;
      int32_t& done = call[b];
      for (; done < calls; ++done) {
        if (in && fifos[block.receive].filled == 0) break;
        if (out && fifos[block.send].filled >= fifos[block.send].capacity) break;
        if (in) {
          --fifos[block.receive].filled;
          received = true;
        }
        if (out) {
          ++fifos[block.send].filled;
          sent = true;
        }
      }
      if (done < calls) break;
      done = 0;
      if (order) order(b, s);
    }
    if (sent) wake(connections_[block.send].receiver);
    if (received) wake(connections_[block.receive].sender);
    if (position[b] > before) {
      uint32_t w = waiting[b];
      waiting[b] = none;
      while (w != none) {
        const uint32_t following = next_waiting[w];
        const Wait& wait = waits_[blocks_[w].first_step + position[w]];
        if (wait.step != none && position[b] > wait.step) {
          chained[w] = 0;
          wake(w);
        } else {
          next_waiting[w] = waiting[b];
          waiting[b] = w;
        }
        w = following;
      }
    }
  }

  Outcome outcome;
  // Whom does a stopped block wait for, and why?
  const auto reason = [&](uint32_t b, std::string& text) -> uint32_t {
    const Block& block = blocks_[b];
    const MscclStep& step = block.program->steps[position[b]];
    text = msccl_step_name(program_, block.gpu, block.index, position[b]) + " (" + std::string(to_string(step.op)) + ") waits ";
    const Wait& wait = waits_[block.first_step + position[b]];
    if (wait.block != none && call[b] == 0 && (wait.step == none || position[wait.block] <= wait.step)) {
      text += "for tb " + std::to_string(blocks_[wait.block].program->id) + " to " +
              (wait.step == none ? "post step " + std::to_string(step.dep_step) + ", which never happens"
                                 : "end step " + std::to_string(wait.step));
      return wait.block;
    }
    if (receives(step.op) && fifos[block.receive].filled == 0) {
      const Connection& from = connections_[block.receive];
      text += "for a message from gpu " + std::to_string(from.src) + (from.sender == none ? "" : " tb " + std::to_string(blocks_[from.sender].program->id)) +
              " on channel " + std::to_string(from.channel);
      return from.sender;
    }
    const Connection& to = connections_[block.send];
    text += "for gpu " + std::to_string(to.dst) + (to.receiver == none ? "" : " tb " + std::to_string(blocks_[to.receiver].program->id)) +
            " to take one of " + std::to_string(fifos[block.send].filled) + " calls out of the full FIFO of channel " + std::to_string(to.channel);
    return to.receiver;
  };
  std::vector<uint32_t> stopped;
  for (uint32_t b = 0; b < blocks_.size(); ++b)
    if (position[b] < blocks_[b].program->steps.size()) stopped.push_back(b);
  if (stopped.empty()) {
    outcome.completed = true;
    return outcome;
  }
  // Every stopped block waits for one other, so following the waiting ends in a cycle or at a block that has no
  // more steps. The shortest cycle tells most.
  std::vector<uint32_t> walk(blocks_.size(), none);  // the walk that came by first
  std::vector<uint32_t> best;
  const auto next = [&](uint32_t b) {
    std::string unused;
    return reason(b, unused);
  };
  const auto is_stopped = [&](uint32_t b) { return b != none && position[b] < blocks_[b].program->steps.size(); };
  for (const uint32_t start : stopped) {
    uint32_t b = start;
    while (is_stopped(b) && walk[b] == none) {
      walk[b] = start;
      b = next(b);
    }
    if (!is_stopped(b) || walk[b] != start) continue;
    std::vector<uint32_t> cycle{b};
    for (uint32_t c = next(b); c != b; c = next(c)) cycle.push_back(c);
    if (best.empty() || cycle.size() < best.size()) best = std::move(cycle);
  }
  outcome.cycle = !best.empty();
  if (best.empty())
    for (uint32_t b = stopped.front(); is_stopped(b); b = next(b)) best.push_back(b);
  outcome.block = best.front();
  outcome.step = position[best.front()];
  for (const uint32_t b : best) {
    outcome.waits.emplace_back();
    reason(b, outcome.waits.back());
  }
  return outcome;
}

}  // namespace slackline
