#include "collectives/recursive_halving_doubling.hpp"

#include <bit>

namespace slackline {

namespace {

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  switch (request.collective.type) {
    case CollectiveType::allreduce: return std::nullopt;
    case CollectiveType::reduce_scatter:
    case CollectiveType::allgather:
      if (std::has_single_bit(static_cast<uint32_t>(request.network.ranks()))) return std::nullopt;
      return "except for allreduce it wants a power of two ranks";
    default: return "it does allreduce, reduce_scatter and allgather only";
  }
}

// 2^f nodes; the first p - 2^f of them are two ranks each, of which one holds the node's lower half of the message and
// one the upper. The node keeps one half in its first exchange; from then on the rank that holds it stands
// for the node.
class HalvingDoubling {
 public:
  HalvingDoubling(const Collective& collective)
      : p_(static_cast<uint32_t>(collective.ranks)),
        f_(static_cast<uint32_t>(std::bit_width(p_)) - 1),
        nodes_(1u << f_),
        pairs_(p_ - nodes_),
        schedule_(collective, nodes_) {
    const bool reduces = collective.type != CollectiveType::allgather;
    const bool gathers = collective.type != CollectiveType::reduce_scatter;
    last_received_.assign(p_, none);
    if (reduces) {
      for (uint32_t v = 0; v < pairs_; ++v) {
        const uint32_t low = chunk(0, nodes_ / 2), high = chunk(nodes_ / 2, nodes_ / 2);
        const uint32_t up = send(2 * v, 2 * v + 1, high, TransferOp::reduce, none);
        const uint32_t down = send(2 * v + 1, 2 * v, low, TransferOp::reduce, none);
        last_received_[2 * v + 1] = up;
        last_received_[2 * v] = down;
      }
      // Halving, the highest bit first: node v ends with the v-th unit.
      for (uint32_t bit = nodes_ / 2; bit > 0; bit /= 2) exchange(bit, false);
    }
    if (gathers) {
      for (uint32_t bit = 1; bit < nodes_; bit *= 2) exchange(bit, true);
      for (uint32_t v = 0; v < pairs_; ++v) {
        // Now the upper half goes down and the lower up.
        const uint32_t low = chunk(0, nodes_ / 2), high = chunk(nodes_ / 2, nodes_ / 2);
        send(2 * v, 2 * v + 1, low, TransferOp::copy, last_received_[2 * v]);
        send(2 * v + 1, 2 * v, high, TransferOp::copy, last_received_[2 * v + 1]);
      }
    }
  }

  Schedule take() { return std::move(schedule_); }

 private:
  static constexpr uint32_t none = UINT32_MAX;

  uint32_t chunk(uint32_t offset, uint32_t length) {
    // Chunks of one length follow each other; lengths are powers of two.
    const auto order = static_cast<uint32_t>(std::countr_zero(length));
    if (first_.empty()) {
      for (uint32_t i = 0; i < f_ + 1; ++i) {
        first_.push_back(static_cast<uint32_t>(schedule_.chunks().size()));
        for (uint32_t at = 0; at < nodes_; at += 1u << i)
          schedule_.add_chunk({Buffer::data, static_cast<int64_t>(at), int64_t{1} << i});
      }
    }
    return first_[order] + (offset >> order);
  }

  // The rank that stands for node v where the half `upper` is concerned.
  uint32_t holder(uint32_t v, bool upper) const {
    if (v < pairs_) return 2 * v + (upper ? 1 : 0);
    return v + pairs_;
  }

  uint32_t send(uint32_t src, uint32_t dst, uint32_t what, TransferOp op, uint32_t after) {
    const auto index = static_cast<uint32_t>(schedule_.size());
    schedule_.add({src, dst, what, what, op, 0, {&after, after == none ? 0u : 1u}});
    return index;
  }

  // Nodes v and v ^ bit exchange the halves of what they share, `bit` units each: halving, each sends what the
  // other keeps; doubling, what it has.
  void exchange(uint32_t bit, bool gather) {
    std::vector<uint32_t> received = last_received_;
    for (uint32_t v = 0; v < nodes_; ++v) {
      const uint32_t partner = v ^ bit;
      const uint32_t begin = (gather ? v : partner) & ~(bit - 1);
      const bool upper = begin >= nodes_ / 2;
      const uint32_t src = holder(v, upper), dst = holder(partner, upper);
      received[dst] = send(src, dst, chunk(begin, bit), gather ? TransferOp::copy : TransferOp::reduce, last_received_[src]);
    }
    last_received_ = received;
  }

  uint32_t p_, f_, nodes_, pairs_;
  Schedule schedule_;
  std::vector<uint32_t> first_;          // chunk of each length
  std::vector<uint32_t> last_received_;  // by rank
};

Generated generate_recursive_halving_doubling(const GenerateRequest& request) {
  Generated result;
  result.schedule = HalvingDoubling(request.collective).take();
  return result;
}

}  // namespace

const Algorithm recursive_halving_doubling_algorithm = {
    "recursive_halving_doubling", "exchanges of halves at power-of-two distances", inapplicable,
    generate_recursive_halving_doubling};

}  // namespace slackline
