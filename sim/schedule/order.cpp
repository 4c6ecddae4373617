#include "schedule/order.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>

namespace slackline {

namespace {

constexpr uint32_t none = ChainForest::none;

// The sends of a rank on a channel are a chain: the first has ended phase A before the second's A
// begins. So are its receives in phase B. What lies before a phase is therefore, on each chain, all
// up to some transfer, and a vector with one entry a chain says it all: how many of the chain lie
// before.
//     before(A(t)) = union of before(B(d)) + {A(d), B(d)} over the d in `after`, and of
//     before(A(s)) + {A(s)} before(B(t)) = before(A(t)) united with before(B(v)) + {A(v), B(v)}
// where s is the transfer before t in its send queue and v the one before t in its receive queue.
class ChainClocks {
public:
  ChainClocks(const Schedule& schedule, uint32_t first, uint32_t last)
      : schedule_(schedule), first_(first), last_(last) {
    name_chains();
    find_last_uses();
  }

  uint32_t chains() const { return chains_; }
  uint32_t target_chain(const OrderQuery& query) const {
    const Ends& ends = ends_[query.earlier - first_];
    return query.conflict == Conflict::read_write ? ends.send : ends.receive;
  }

  // How many chains to follow at once, so that the vectors fit into a fixed amount of memory; wide
  // vectors save passes, narrow ones stay in the cache.
  uint32_t width() const {
    constexpr size_t budget = size_t{256} << 20;
    const size_t vectors = size_t{peak_} + 2 * chains_ + 2;
    return static_cast<uint32_t>(
        std::clamp(budget / (sizeof(uint32_t) * vectors) / 8 * 8, size_t{8}, size_t{128}));
  }

  // Answers the queries up to `end`, ascending by `later`, all of whose target chains have a column
  // below `width`.
  void pass(const std::vector<uint32_t>& column, uint32_t width, const OrderQuery* query,
            const OrderQuery* end, size_t enough, std::vector<OrderQuery>& unordered) {
    // The compiler has fast vector instructions for the short type on every machine.
    if (longest_ <= INT16_MAX)
      pass_with<int16_t>(column, width, query, end, enough, unordered);
    else
      pass_with<uint32_t>(column, width, query, end, enough, unordered);
  }

private:
  struct Ends {
    uint32_t send, receive;        // chains
    uint32_t send_at, receive_at;  // how many of the chain there are up to here, this one included
  };

  template <class Time>
  void pass_with(const std::vector<uint32_t>& column, uint32_t width, const OrderQuery* query,
                 const OrderQuery* end, size_t enough, std::vector<OrderQuery>& unordered);
  void name_chains();
  void find_last_uses();

  const Schedule& schedule_;
  uint32_t first_, last_;
  uint32_t chains_ = 0, longest_ = 0, peak_ = 0;  // peak_: transfers needed later, at any one time
  std::vector<Ends> ends_;                        // by transfer - first_, as is all that follows
  std::vector<uint32_t> last_use_;  // the last transfer that has this one in `after`, or none
  std::vector<uint32_t> slot_;
};

void ChainClocks::name_chains() {
  std::unordered_map<uint64_t, uint32_t> names;  // only looked up
  const auto name = [&](uint32_t rank, uint32_t channel, uint32_t receives) {
    const uint64_t key = (uint64_t{rank} << 17) | (channel << 1) | receives;
    return names.try_emplace(key, static_cast<uint32_t>(names.size())).first->second;
  };
  std::vector<uint32_t> length;
  ends_.reserve(last_ - first_ + 1);
  for (uint32_t t = first_; t <= last_; ++t) {
    const uint32_t send = name(schedule_.src(t), schedule_.channel(t), 0);
    const uint32_t receive = name(schedule_.dst(t), schedule_.channel(t), 1);
    length.resize(names.size(), 0);
    ends_.push_back({send, receive, ++length[send], ++length[receive]});
    longest_ = std::max({longest_, length[send], length[receive]});
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

template <class Time>
void ChainClocks::pass_with(const std::vector<uint32_t>& column, uint32_t width,
                            const OrderQuery* query, const OrderQuery* end, size_t enough,
                            std::vector<OrderQuery>& unordered) {
  std::vector<Time> queues(size_t{chains_} * width,
                           0);  // by chain: what is before its next phase because of the chain
  std::vector<Time> kept;       // before(B(d)) + {A(d), B(d)} of those still needed
  std::vector<uint32_t> free_slots;
  std::vector<Time> clock(width);
  const auto join = [width](Time* __restrict into, const Time* __restrict other) {
    for (uint32_t c = 0; c < width; ++c) into[c] = std::max(into[c], other[c]);
  };
  for (uint32_t i = 0; query != end && unordered.size() < enough; ++i) {
    const Ends& ends = ends_[i];
    const auto answer = [&](bool reads) {
      for (const OrderQuery* q = query; q != end && q->later - first_ == i; ++q) {
        if ((q->conflict == Conflict::write_read) != reads) continue;
        const Ends& earlier = ends_[q->earlier - first_];
        const bool read_first = q->conflict == Conflict::read_write;
        const auto known =
            static_cast<uint32_t>(clock[column[read_first ? earlier.send : earlier.receive]]);
        if (known < (read_first ? earlier.send_at : earlier.receive_at)) unordered.push_back(*q);
      }
    };
    Time* const sends = &queues[size_t{ends.send} * width];
    Time* const receives = &queues[size_t{ends.receive} * width];
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
    if (column[ends.send] != none) sends[column[ends.send]] = static_cast<Time>(ends.send_at);
    join(clock.data(), receives);
    answer(false);
    if (column[ends.send] != none) clock[column[ends.send]] = static_cast<Time>(ends.send_at);
    if (column[ends.receive] != none)
      clock[column[ends.receive]] = static_cast<Time>(ends.receive_at);
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

bool by_later(const OrderQuery& a, const OrderQuery& b) {
  return std::tie(a.later, a.earlier, a.conflict) < std::tie(b.later, b.earlier, b.conflict);
}

// Most of what one thread block does, it does in order, step by step: then chains of transfers that
// wait for each other tell at once.
void drop_chained(const Schedule& schedule, uint32_t first, uint32_t last,
                  std::vector<OrderQuery>& queries) {
  ChainForest forest;
  std::unordered_map<uint64_t, uint32_t> received;  // by queue, only looked up
  for (uint32_t t = first; t <= last; ++t) {
    uint32_t before = none;
    for (const uint32_t d : schedule.after(t))
      if (d >= first && (before == none || d - first > before)) before = d - first;
    const uint64_t queue = (uint64_t{schedule.dst(t)} << 16) | schedule.channel(t);
    const auto [found, is_new] = received.try_emplace(queue, t - first);
    if (!is_new && (before == none || found->second > before)) before = found->second;
    found->second = t - first;
    forest.add(before);
  }
  std::erase_if(queries, [&](const OrderQuery& query) {
    const uint32_t earlier = query.earlier - first;
    if (query.conflict != Conflict::write_read && forest.reaches(earlier, query.later - first))
      return true;
    const auto after = schedule.after(query.later);
    return std::any_of(after.begin(), after.end(), [&](uint32_t d) {
      return d >= query.earlier && forest.reaches(earlier, d - first);
    });
  });
}

}  // namespace

std::vector<OrderQuery> unordered_pairs(const Schedule& schedule, std::vector<OrderQuery> queries,
                                        size_t enough) {
  std::vector<OrderQuery> unordered;
  if (queries.empty()) return unordered;
  uint32_t first = none, last = 0;
  for (const OrderQuery& query : queries) {
    first = std::min(first, query.earlier);
    last = std::max(last, query.later);
  }
  drop_chained(schedule, first, last, queries);
  if (queries.empty()) return unordered;
  ChainClocks clocks(schedule, first, last);

  // Sorts by target chain, so that a pass finds its queries side by side, and within a pass by
  // later transfer.
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
    std::sort(queries.begin() + static_cast<ptrdiff_t>(i),
              queries.begin() + static_cast<ptrdiff_t>(end), by_later);
    clocks.pass(column, width, queries.data() + i, queries.data() + end, enough, unordered);
    i = end;
  }
  std::sort(unordered.begin(), unordered.end(), by_later);
  return unordered;
}

}  // namespace slackline
