#include "rounds.hpp"

#include <algorithm>
#include <map>

namespace slackline {

namespace {

bool is_receive(const Step& step) { return step.kind == StepKind::receive || step.kind == StepKind::receive_reduce; }

// By step: the round in which it ends; of sends, the last in which one ends that they wait for.
std::vector<uint32_t> number_rounds(const Plan& plan) {
  const std::vector<Step>& steps = plan.steps();
  std::vector<uint32_t> rounds(steps.size(), 0);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    uint32_t last = 0;
    for (const uint32_t earlier : steps[s].order)
      if (earlier != Step::none) last = std::max(last, rounds[earlier]);
    for (const uint32_t earlier : plan.after(s)) last = std::max(last, rounds[earlier]);
    rounds[s] = is_receive(steps[s]) ? last + 1 : last;
  }
  return rounds;
}

}  // namespace

RankRounds rounds_of(const Plan& plan, int rank) {
  const std::vector<Step>& steps = plan.steps();
  const std::vector<uint32_t> numbers = number_rounds(plan);
  std::map<uint32_t, Round> rounds;
  std::map<uint32_t, std::vector<LocalWork>> local;  // comes after what is received
  std::map<uint32_t, int64_t> staged;                // bytes
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const Step& step = steps[s];
    if (step.rank != static_cast<uint32_t>(rank)) continue;
    // A send's receive stands right behind it and has the bytes and the round.
    const bool send = step.kind == StepKind::send;
    const uint32_t moving = send ? s + 1 : s;
    const uint32_t number = numbers[moving];
    for (const Piece& piece : plan.pieces(moving)) {
      Round& round = rounds[number];
      if (send) {
        round.messages.push_back({step.peer, true, false, step.source, piece.source, piece.bytes});
      } else if (step.kind == StepKind::receive) {
        round.messages.push_back({step.peer, false, false, step.destination, piece.destination, piece.bytes});
      } else if (step.kind == StepKind::receive_reduce) {
        // Aligned like its destination, so that the kernel can take 16 bytes at a time.
        int64_t& end = staged[number];
        const int64_t begin = end + ((piece.destination - end) % 16 + 16) % 16;
        end = begin + piece.bytes;
        round.messages.push_back({step.peer, false, true, step.destination, begin, piece.bytes});
        round.work.push_back({true, true, step.destination, step.destination, {begin, piece.destination, piece.bytes}});
      } else {
        local[number].push_back({step.kind == StepKind::reduce, false, step.source, step.destination, piece});
      }
    }
  }
  RankRounds result;
  for (auto& [number, round] : rounds) {
    round.number = number;
    const std::vector<LocalWork>& work = local[number];
    round.work.insert(round.work.end(), work.begin(), work.end());
    result.staging_bytes = std::max(result.staging_bytes, staged[number]);
    result.rounds.push_back(std::move(round));
  }
  return result;
}

}  // namespace slackline
