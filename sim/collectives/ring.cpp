#include "collectives/ring.hpp"

namespace slackline {

namespace {

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  switch (request.collective.type) {
    case CollectiveType::allreduce:
    case CollectiveType::reduce_scatter:
    case CollectiveType::allgather: return std::nullopt;
    default: return "the ring here does allreduce, reduce_scatter and allgather only";
  }
}

Generated generate_ring(const GenerateRequest& request) {
  const auto ranks = static_cast<size_t>(request.collective.ranks);
  Generated result;
  Schedule& schedule = result.schedule;
  schedule = Schedule(request.collective, request.collective.ranks);
  for (size_t c = 0; c < ranks; ++c) schedule.add_chunk({Buffer::data, static_cast<int64_t>(c), 1});
  const size_t phases = request.collective.type == CollectiveType::allreduce ? 2 : 1;
  schedule.reserve(phases * ranks * (ranks - 1), phases * ranks * (ranks - 1));
  emit_ring(request.collective, schedule);
  return result;
}

}  // namespace

void emit_ring(const Collective& collective, TransferSink& sink) {
  const auto ranks = static_cast<uint32_t>(collective.ranks);
  // Every chunk travels its own path around the ring; last[c] is the transfer that moved chunk c last.
  constexpr uint32_t none = UINT32_MAX;
  std::vector<uint32_t> last(ranks, none);
  uint32_t index = 0;
  const auto turn = [&](TransferOp op, uint32_t shift) {
    for (uint32_t step = 0; step + 1 < ranks; ++step) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const uint32_t chunk = (rank + shift + ranks - step) % ranks;
        const std::span<const uint32_t> after(&last[chunk], last[chunk] == none ? 0 : 1);
        sink.add({rank, (rank + 1) % ranks, chunk, chunk, op, 0, after});
        last[chunk] = index++;
      }
    }
  };
  // In the reduce-scatter chunk c starts at rank c + 1 and ends, complete, at rank c, which owns part c; in the
  // allgather it starts there.
  if (collective.type != CollectiveType::allgather) turn(TransferOp::reduce, ranks - 1);
  if (collective.type != CollectiveType::reduce_scatter) turn(TransferOp::copy, 0);
}

const Algorithm ring_algorithm = {
    "ring", "reduce-scatter and allgather around all ranks, as NCCL's ring", inapplicable, generate_ring};

}  // namespace slackline
