#include <algorithm>
#include <cmath>

#include "collectives/optcc_composition.hpp"

namespace slackline {

namespace {

// One segment started a body, all with S3 S1 S4 S2 (design/optcc.md, "Composition: m stragglers"). A body has
// h + m - 1 groups; in group u + i straggler i receives from rank u and sends to rank u + 1, while link u of the
// ring rests. Everything runs on channel 0.
//
// The slots. Where every slowdown is at most 2, a group is two sections wide, and the ring's two lanes fill it,
// on whichever links work in it. One such link is the clock: it sends all the time, and in its slots what it sends keeps
// all else. After h - 1 groups it comes to rest and hands over to the link that has rested last; only there does a
// dependency, and with it a latency, pass the time on. A chain through every group would cost a latency a group.
// The first and the last body have no ring stage; there the stragglers' own messages make up the time (struct Tail).
class ManyStragglers : public OptccComposition {
 public:
  explicit ManyStragglers(const OptccParameters& parameters);

 protected:
  int64_t bodies() const override { return k_ + 3; }
  int64_t first_body(int64_t segment) const override { return segment; }
  int64_t last_body(int64_t segment) const override { return segment + 3; }
  void start() override;
  void emit_body(int64_t b) override;
  int64_t server_transfers() const override { return k_ * (2 * h_ * (h_ - 1) + 2 * m_ * h_); }

 private:
  // In a body of S3 or S2 only the last straggler's last `after` messages start when straggler `straggler` is through
  // with its first `before`.
  struct Tail {
    int64_t straggler = 0, before = 0, after = 0;
  };

  uint32_t section(int64_t segment, int64_t j) const {
    return static_cast<uint32_t>(segment * h_ + (j % h_ + h_) % h_);
  }
  double width(int64_t i) const { return slowdown(static_cast<int>(stragglers_[static_cast<size_t>(i)])).to_double(); }
  double length(const Tail& tail) const;
  void plan_tails();

  uint32_t hop(int64_t segment, bool gather, int64_t link, int64_t q, uint32_t clock);
  uint32_t upload(int64_t segment, int64_t i, int64_t u, uint32_t clock);
  uint32_t download(int64_t segment, int64_t i, int64_t u, uint32_t clock);
  void emit_groups(int64_t b);
  template <class Move>
  void emit_tail(const Tail& tail, Move&& move);

  static constexpr int64_t no_link = -1;

  int64_t m_;
  std::vector<uint32_t> stragglers_;
  bool clocked_ = false;
  Tail first_, last_;

  uint32_t clock_ = none;         // the transfer at whose end the next slot begins
  int64_t clock_link_ = no_link;  // the link of the ring that it is on
  int64_t working_ = 0;           // the link that tells the time
  std::vector<uint32_t> reduced_;  // by section: the latest of S3 and S1
  std::vector<uint32_t> moved_;    // by section: the latest of S4
};

ManyStragglers::ManyStragglers(const OptccParameters& parameters)
    : OptccComposition(parameters), m_(static_cast<int64_t>(parameters.stragglers.size())) {
  for (const int server : parameters.stragglers) stragglers_.push_back(static_cast<uint32_t>(server));
  for (int64_t s = 0; s < k_; ++s) {
    slices_.add_segment(h_);
    for (int64_t j = 0; j < h_; ++j) slices_.add_chunk(j, 1);
  }
  slices_.finish_layout();
  bool narrow = true;
  for (int64_t i = 0; i < m_; ++i) narrow &= slowdown(static_cast<int>(stragglers_[static_cast<size_t>(i)])) <= Fraction(2);
  clocked_ = slotted_ && narrow && h_ >= m_ + 2;
  if (clocked_) plan_tails();
}

// How long a body of S3 or S2 only takes, in section times: straggler i exchanges with the ranks in turn, each rank
// with the stragglers in turn.
double ManyStragglers::length(const Tail& tail) const {
  std::vector<double> rank_free(static_cast<size_t>(h_), 0);
  double longest = 0, released = 0;
  for (int64_t i = 0; i < m_; ++i) {
    double now = 0;
    for (int64_t u = 0; u < h_; ++u) {
      double& free = rank_free[static_cast<size_t>(u)];
      now = std::max(now, free);
      if (i == m_ - 1 && u == h_ - tail.after) now = std::max(now, released);
      free = now = now + width(i);
      if (i == tail.straggler && u == tail.before - 1) released = now;
    }
    longest = std::max(longest, now);
  }
  return longest;
}

// Looks for message counts that make the first and the last body together as long as two bodies; the slowdowns decide
// whether there are any. Without, both bodies are shorter, by less than a message each.
void ManyStragglers::plan_tails() {
  const double body = 2.0 * static_cast<double>(h_ + m_ - 1);
  const auto equal = [](double a, double b) { return std::abs(a - b) < 1e-9 * b; };
  if (equal(length({}), body)) return;
  const double last_width = width(m_ - 1);
  for (int64_t i = 0; i + 1 < m_; ++i) {
    for (int64_t before = 2; before <= 2 * h_; ++before) {
      const double exact = (2 * body - static_cast<double>(before) * width(i)) / last_width;
      const auto after = static_cast<int64_t>(std::llround(exact));
      if (after < 2 || after > 2 * h_ || std::abs(exact - static_cast<double>(after)) > 1e-9) continue;
      const Tail first{i, before / 2, after - after / 2}, last{i, before - before / 2, after / 2};
      const auto fits = [&](const Tail& tail) {
        return tail.before <= h_ && tail.after <= h_ &&
               equal(length(tail), static_cast<double>(tail.before) * width(i) + static_cast<double>(tail.after) * last_width);
      };
      if (!fits(first) || !fits(last)) continue;
      first_ = first;
      last_ = last;
      return;
    }
  }
}

void ManyStragglers::start() {
  reduced_.assign(static_cast<size_t>(k_ * h_), none);
  moved_ = reduced_;
  clock_ = none;
  clock_link_ = no_link;
  working_ = 0;
}

// Link i sends its hop q: section i - q in the reduce-scatter, i - q + 1 in the allgather.
uint32_t ManyStragglers::hop(int64_t segment, bool gather, int64_t link, int64_t q, uint32_t clock) {
  const uint32_t chunk = section(segment, gather ? link - q + 1 : link - q);
  uint32_t& latest = gather && moved_[chunk] != none ? moved_[chunk] : reduced_[chunk];
  const uint32_t index =
      add(ring(link), ring(link + 1), chunk, gather ? TransferOp::copy : TransferOp::reduce, {latest, clock});
  (gather ? moved_ : reduced_)[chunk] = index;
  return index;
}

// S2: rank u owns section u + 1.
uint32_t ManyStragglers::upload(int64_t segment, int64_t i, int64_t u, uint32_t clock) {
  const uint32_t chunk = section(segment, u + 1);
  return add(ring(u), stragglers_[static_cast<size_t>(i)], chunk, TransferOp::copy, {reduced_[chunk], clock});
}

// S3: rank u + 1 starts the chain of section u + 1.
uint32_t ManyStragglers::download(int64_t segment, int64_t i, int64_t u, uint32_t clock) {
  const uint32_t chunk = section(segment, u + 1);
  return reduced_[chunk] = add(stragglers_[static_cast<size_t>(i)], ring(u + 1), chunk, TransferOp::reduce, {clock});
}

template <class Move>
void ManyStragglers::emit_tail(const Tail& tail, Move&& move) {
  uint32_t released = none;
  uint32_t latest = none;
  for (int64_t i = 0; i < m_; ++i) {
    for (int64_t u = 0; u < h_; ++u) {
      uint32_t wait = u == 0 ? clock_ : none;
      if (i == m_ - 1 && u == h_ - tail.after) wait = released;
      latest = move(i, u, wait);
      if (i == tail.straggler && u == tail.before - 1) released = latest;
    }
  }
  if (clocked_) {
    clock_ = latest;
    clock_link_ = no_link;
  }
}

void ManyStragglers::emit_body(int64_t b) {
  if (b == 0)
    emit_tail(first_, [&](int64_t i, int64_t u, uint32_t wait) { return download(0, i, u, wait); });
  else if (b == k_ + 2)
    emit_tail(last_, [&](int64_t i, int64_t u, uint32_t wait) { return upload(k_ - 1, i, u, wait); });
  else
    emit_groups(b);
}

void ManyStragglers::emit_groups(int64_t b) {
  const auto active = [&](int64_t segment) { return segment >= 0 && segment < k_; };
  const bool reduces = active(b - 1), gathers = active(b - 2);
  for (int64_t t = 0; t < h_ + m_ - 1; ++t) {
    for (int64_t i = 0; i < m_; ++i) {
      const int64_t u = t - i;
      if (u < 0 || u >= h_) continue;
      if (active(b - 3)) upload(b - 3, i, u, none);
      if (active(b)) download(b, i, u, none);
    }
    const auto rests = [&](int64_t link) { return link <= t && t < link + m_; };  // both its ends are busy with stragglers
    if (clocked_ && rests(working_)) working_ = working_ >= m_ ? working_ - m_ : h_ - 1;
    // Where there is one lane only, a second link makes up the other half of the group.
    int ticks = clocked_ ? (reduces && gathers ? 1 : 2) : 0;
    for (int64_t i = 0; i < h_; ++i) {
      const int64_t link = (working_ + i) % h_;
      if (rests(link)) continue;
      const int64_t q = t < link ? t : t - m_;
      const bool tick = ticks > 0;
      if (tick) --ticks;
      // A link that goes on sends one section after the other by itself.
      const uint32_t wait = tick && clock_link_ != link ? clock_ : none;
      uint32_t latest = none;
      if (reduces) latest = hop(b - 1, false, link, q, wait);
      if (gathers) latest = hop(b - 2, true, link, q, reduces ? none : wait);
      if (tick) {
        clock_ = latest;
        clock_link_ = link;
      }
    }
  }
}

}  // namespace

std::unique_ptr<OptccComposition> compose_many_stragglers(const OptccParameters& parameters) {
  return std::make_unique<ManyStragglers>(parameters);
}

}  // namespace slackline
