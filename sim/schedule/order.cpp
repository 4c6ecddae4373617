#include "schedule/order.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace slackline {

namespace {

constexpr uint32_t none = UINT32_MAX;

// The sends of a rank on a channel are a chain: the first has ended phase A before the second's A begins. So are its
// receives in phase B. What lies before a phase is therefore, on each chain, all up to some transfer, and a vector
// with one entry a chain says it all: entry = 1 + that transfer - the first transfer looked at, or 0.
//     before(A(t)) = union of before(B(d)) + {A(d), B(d)} over the d in `after`, and of before(A(s)) + {A(s)}
//     before(B(t)) = before(A(t)) united with before(B(v)) + {A(v), B(v)}
// where s is the transfer before t in its send queue and v the one before t in its receive queue.
class ChainClocks {
 public:
  ChainClocks(const Schedule& schedule, uint32_t first, uint32_t last) : schedule_(schedule), first_(first), last_(last) {
    name_chains();
    find_last_uses();
  }

  uint32_t chains() const { return chains_; }
  uint32_t target_chain(const OrderQuery& query) const {
    const Ends& ends = ends_[query.earlier - first_];
    return query.conflict == Conflict::read_write ? ends.send : ends.receive;
  }

  // How many chains to follow at once, so that the vectors fit into a fixed amount of memory; wide vectors save
  // passes, narrow ones stay in the cache.
  uint32_t width() const {
    constexpr size_t budget = size_t{256} << 20;
    const size_t vectors = size_t{peak_} + chains_ + 2;
    return static_cast<uint32_t>(std::clamp(budget / (sizeof(uint32_t) * vectors) / 8 * 8, size_t{8}, size_t{64}));
  }

  // Answers `queries`, ascending by `later`, all of whose target chains have a column below `width`.
  void pass(const std::vector<uint32_t>& column, uint32_t width, const OrderQuery* query, const OrderQuery* end,
            std::vector<OrderQuery>& unordered);

 private:
  struct Ends {
    uint32_t send, receive;  // chains
  };

  void name_chains();
  void find_last_uses();

  const Schedule& schedule_;
  uint32_t first_, last_;
  uint32_t chains_ = 0, peak_ = 0;
  std::vector<Ends> ends_;          // by transfer - first_, as is all that follows
  std::vector<uint32_t> last_use_;  // the last transfer that has this one in `after`, or none
  std::vector<uint32_t> slot_;
};

void ChainClocks::name_chains() {
  std::unordered_map<uint64_t, uint32_t> names;  // only looked up
  const auto name = [&](uint32_t rank, uint32_t channel, uint32_t receives) {
    const uint64_t key = (uint64_t{rank} << 17) | (channel << 1) | receives;
    return names.try_emplace(key, static_cast<uint32_t>(names.size())).first->second;
  };
  ends_.reserve(last_ - first_ + 1);
  for (uint32_t t = first_; t <= last_; ++t) {
    const uint32_t send = name(schedule_.src(t), schedule_.channel(t), 0);
    ends_.push_back({send, name(schedule_.dst(t), schedule_.channel(t), 1)});
  }
  chains_ = static_cast<uint32_t>(names.size());
}

void ChainClocks::find_last_uses() {
  const uint32_t size = last_ - first_ + 1;
  last_use_.assign(size, none);
  slot_.assign(size, none);
  for (uint32_t i = 0; i < size; ++i)
    for (const uint32_t d : schedule_.after(first_ + i))
      if (d >= first_) last_use_[d - first_] = i;
  uint32_t alive = 0;
  for (uint32_t i = 0; i < size; ++i) {
    if (last_use_[i] != none) peak_ = std::max(peak_, ++alive);
    for (const uint32_t d : schedule_.after(first_ + i))
      if (d >= first_ && last_use_[d - first_] == i && slot_[d - first_] == none) {
        slot_[d - first_] = 0;  // counted, even if it is listed twice
        --alive;
      }
  }
  std::fill(slot_.begin(), slot_.end(), none);
}

void ChainClocks::pass(const std::vector<uint32_t>& column, uint32_t width, const OrderQuery* query,
                       const OrderQuery* end, std::vector<OrderQuery>& unordered) {
  std::vector<uint32_t> queue(size_t{chains_} * width, 0);  // what is before the next of this chain, by its queue
  std::vector<uint32_t> kept;                               // before(B(d)) + {A(d), B(d)} of those still needed
  std::vector<uint32_t> free_slots;
  std::vector<uint32_t> clock(width);
  const auto join = [width](uint32_t* into, const uint32_t* other) {
    for (uint32_t c = 0; c < width; ++c) into[c] = std::max(into[c], other[c]);
  };
  const uint32_t last = (end - 1)->later - first_;
  for (uint32_t i = 0; i <= last && query != end; ++i) {
    const Ends ends = ends_[i];
    const auto answer = [&](bool begins_reading) {
      for (const OrderQuery* q = query; q != end && q->later - first_ == i; ++q) {
        if ((q->conflict == Conflict::write_read) != begins_reading) continue;
        if (clock[column[target_chain(*q)]] < q->earlier - first_ + 1) unordered.push_back(*q);
      }
    };
    uint32_t* const sends = &queue[size_t{ends.send} * width];
    uint32_t* const receives = &queue[size_t{ends.receive} * width];
    std::copy_n(sends, width, clock.data());
    for (const uint32_t d : schedule_.after(first_ + i)) {
      if (d < first_ || slot_[d - first_] == none) continue;
      join(clock.data(), &kept[size_t{slot_[d - first_]} * width]);
      if (last_use_[d - first_] == i) {
        free_slots.push_back(slot_[d - first_]);
        slot_[d - first_] = none;
      }
    }
    answer(true);
    std::copy_n(clock.data(), width, sends);
    if (column[ends.send] != none) sends[column[ends.send]] = i + 1;
    join(clock.data(), receives);
    answer(false);
    if (column[ends.send] != none) clock[column[ends.send]] = i + 1;
    if (column[ends.receive] != none) clock[column[ends.receive]] = i + 1;
    std::copy_n(clock.data(), width, receives);
    if (last_use_[i] != none) {
      if (free_slots.empty()) {
        free_slots.push_back(static_cast<uint32_t>(kept.size() / width));
        kept.resize(kept.size() + width);
      }
      slot_[i] = free_slots.back();
      free_slots.pop_back();
      std::copy_n(clock.data(), width, &kept[size_t{slot_[i]} * width]);
    }
    while (query != end && query->later - first_ == i) ++query;
  }
  std::fill(slot_.begin(), slot_.end(), none);
}

}  // namespace

std::vector<OrderQuery> unordered_pairs(const Schedule& schedule, std::vector<OrderQuery> queries, size_t enough) {
  std::vector<OrderQuery> unordered;
  if (queries.empty()) return unordered;
  uint32_t first = none, last = 0;
  for (const OrderQuery& query : queries) {
    first = std::min(first, query.earlier);
    last = std::max(last, query.later);
  }
  ChainClocks clocks(schedule, first, last);

  // Sorts by target chain, so that a pass finds its queries side by side, and within a pass by later transfer.
  std::sort(queries.begin(), queries.end(), [&](const OrderQuery& a, const OrderQuery& b) {
    const uint32_t chain_a = clocks.target_chain(a), chain_b = clocks.target_chain(b);
    return chain_a != chain_b ? chain_a < chain_b : a < b;
  });
  queries.erase(std::unique(queries.begin(), queries.end()), queries.end());

  const uint32_t width = clocks.width();
  std::vector<uint32_t> column(clocks.chains(), none);
  for (size_t i = 0; i < queries.size() && unordered.size() < enough;) {
    std::fill(column.begin(), column.end(), none);
    uint32_t columns = 0;
    size_t end = i;
    for (; end < queries.size(); ++end) {
      const uint32_t chain = clocks.target_chain(queries[end]);
      if (column[chain] != none) continue;
      if (columns == width) break;
      column[chain] = columns++;
    }
    std::sort(queries.begin() + static_cast<ptrdiff_t>(i), queries.begin() + static_cast<ptrdiff_t>(end),
              [](const OrderQuery& a, const OrderQuery& b) {
                return std::tie(a.later, a.earlier, a.conflict) < std::tie(b.later, b.earlier, b.conflict);
              });
    clocks.pass(column, width, queries.data() + i, queries.data() + end, unordered);
    i = end;
  }
  std::sort(unordered.begin(), unordered.end(), [](const OrderQuery& a, const OrderQuery& b) {
    return std::tie(a.later, a.earlier, a.conflict) < std::tie(b.later, b.earlier, b.conflict);
  });
  return unordered;
}

}  // namespace slackline
