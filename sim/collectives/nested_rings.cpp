#include "collectives/nested_rings.hpp"

#include <algorithm>

#include "collectives/segments.hpp"
#include "collectives/slices.hpp"

namespace slackline {

namespace {

Fraction sum_of(const std::vector<Fraction>& bandwidths) {
  Fraction sum(0);
  for (const Fraction& c : bandwidths) sum += c;
  return sum;
}

// T* over N/B (design/bounds.md); ascending bandwidths.
Fraction optimum(const std::vector<Fraction>& bandwidths) {
  const auto p = static_cast<int64_t>(bandwidths.size());
  return std::max(Fraction(2 * (p - 1)) / sum_of(bandwidths), Fraction(1) / bandwidths[0]);
}

}  // namespace

std::vector<NestedRing> nested_ring_classes(const std::vector<Fraction>& bandwidths) {
  const auto p = static_cast<int64_t>(bandwidths.size());
  // In a ring of two each sends and receives as much as in an exchange with a leaf.
  if (p == 2) return {{2, Fraction(1)}};
  const Fraction time = optimum(bandwidths);
  const int64_t m = std::count_if(bandwidths.begin(), bandwidths.end(), [](const Fraction& c) { return c < Fraction(1); });
  std::vector<NestedRing> classes;
  // `left` is e = T* c - 1: what a server can still do when it has sent and received everything once, as a leaf.
  Fraction before(0), rest(1);
  for (int64_t i = 0; i < m; ++i) {
    const Fraction left = time * bandwidths[static_cast<size_t>(i)] - Fraction(1);
    const Fraction part = std::min(Fraction(p - i) * (left - before) / Fraction(p - 2), rest);
    before = left;
    if (part <= Fraction(0)) continue;
    classes.push_back({static_cast<int>(p - i), part});
    rest -= part;
  }
  if (rest > Fraction(0)) classes.push_back({static_cast<int>(p - m), rest});
  return classes;
}

namespace {

constexpr uint32_t none = Slices::none;

// Units of a slice of a segment. Sections are cut at the nearest unit below.
constexpr int64_t grid = int64_t{1} << 30;

// How many flows each server has, and what bandwidth that comes to.
struct Flows {
  int channels = 1;                  // F
  std::vector<int> servers;          // from slowest to fastest
  std::vector<int> flows;            // of each of `servers`, 1..F
  std::vector<Fraction> bandwidths;  // that these flows add up to, ascending

  Fraction time() const { return optimum(bandwidths); }
};

// The slowest server's bandwidth is the first channel's rate if it is less than 1/F; the other channels share the
// rest of a fast server's.
Flows share_out(const Network& network, int channels) {
  const int g = network.ranks_per_server();
  Flows result;
  result.channels = channels;
  for (int server = 0; server < network.servers(); ++server) result.servers.push_back(server);
  std::stable_sort(result.servers.begin(), result.servers.end(),
                   [&](int a, int b) { return network.slowdown(a * g) > network.slowdown(b * g); });
  const auto bandwidth = [&](int server) { return Fraction(1) / network.slowdown(server * g); };
  const Fraction first = std::min(Fraction(1, channels), bandwidth(result.servers[0]));
  const Fraction other = channels > 1 ? (Fraction(1) - first) / Fraction(channels - 1) : Fraction(1);
  for (const int server : result.servers) {
    const Fraction more = channels > 1 ? (bandwidth(server) - first) / other : Fraction(0);
    const int64_t flows = 1 + more.numerator() / more.denominator();
    result.flows.push_back(static_cast<int>(flows));
    result.bandwidths.push_back(first + other * Fraction(flows - 1));
  }
  // In terms of the fastest, which has all channels, or, with one channel, is as slow as the slowest.
  const Fraction fastest = result.bandwidths.back();
  for (Fraction& c : result.bandwidths) c /= fastest;
  return result;
}

// With few channels bandwidths are rounded down coarsely; every channel more makes for more and smaller messages.
Flows choose_flows(const Network& network) {
  std::vector<Fraction> exact;
  const int g = network.ranks_per_server();
  for (int server = 0; server < network.servers(); ++server) exact.push_back(Fraction(1) / network.slowdown(server * g));
  std::sort(exact.begin(), exact.end());
  const double goal = optimum(exact).to_double();
  Flows best;
  double least = 0;
  for (int channels = exact.front() == Fraction(1) ? 1 : 2; channels <= 32; ++channels) {
    Flows candidate = share_out(network, channels);
    const double time = candidate.time().to_double();
    if (best.servers.empty() || time < least) {
      best = std::move(candidate);
      least = time;
    }
    if (least <= goal * (1 + 1.0 / 400)) break;
  }
  return best;
}

// Bodies, as in OptCC: in body b
//   on the first group's channels, which all servers have, class 0 reduce-scatters segment b and allgathers segment b - 1
//   around all servers; and for every other class the leaves take their turns, handing over raw data of segment b and
//   fetching results of segment b - 1, while the ring reduce-scatters segment b, for all but the last hops;
//   on the channels that only the ring of class j has, that class ends the reduce-scatter of segment b - 1 and
//   allgathers it.
// A ring of R servers with m leaves thus makes R - m of its hops beside the leaves' R turns, and m - 1 + R - 1 hops on its
// own channels, which is what the classes' parts of the message are worked out for.
class NestedRings {
 public:
  NestedRings(const Network& network, const Flows& flows, int64_t segments);

  const Slices& slices() const { return slices_; }
  int64_t transfers_per_segment() const;
  /// The first `shown` segments.
  void emit(TransferSink& sink, int64_t shown);

 private:
  struct Class {
    std::vector<uint32_t> ring, leaves;  // servers
    Fraction begin, part;                // of the message
    uint16_t channel = 0;                // its own first one
    int64_t channels = 0;                // its own, 0 for class 0 and where another class has used them up
    uint32_t narrow = 0, wide = 0;       // chunks within a segment: sections cut for the shared and for its own channels
    int64_t size() const { return static_cast<int64_t>(ring.size()); }
    int64_t leaf_count() const { return static_cast<int64_t>(leaves.size()); }
    // Turns in a body; hops beside them, of a ring that has its own channels.
    int64_t turns() const { return std::max(size(), leaf_count()); }
    int64_t shared_hops() const { return std::max<int64_t>(size() - leaf_count(), 0); }
  };
  // Where a class stands with a segment; by part of the section and section.
  struct Progress {
    std::vector<uint32_t> reduced, raw, moved;  // on the shared channels: latest hops, latest raw data of a leaf
    std::vector<uint32_t> total, gathered;      // on its own: latest hop of the reduce-scatter, of the allgather
  };
  // What all servers of the shared channels do at once.
  struct Slot {
    size_t cls;
    int64_t step;
    bool gather;  // class 0 only
    double place;  // in the body, 0..1
  };

  static size_t index(const Class& c, int64_t part, int64_t section) {
    const int64_t r = c.size();
    return static_cast<size_t>(part * r + (section % r + r) % r);
  }
  static uint32_t at(const Class& c, int64_t position) { return c.ring[static_cast<size_t>((position % c.size() + c.size()) % c.size())]; }
  uint32_t narrow(const Class& c, int64_t s, int64_t part, int64_t section) const {
    return static_cast<uint32_t>(s * chunks_a_segment_) + c.narrow + static_cast<uint32_t>(index(c, part, section));
  }
  uint32_t wide(const Class& c, int64_t s, int64_t part, int64_t section) const {
    return static_cast<uint32_t>(s * chunks_a_segment_) + c.wide + static_cast<uint32_t>(index(c, part, section));
  }
  Progress& progress(size_t cls, int64_t s) { return progress_[cls][static_cast<size_t>(s % 3)]; }
  bool active(int64_t s) const { return s >= 0 && s < shown_; }
  // The parts of the other cutting that part `part` of `parts` meets, of `others`.
  static std::pair<int64_t, int64_t> overlap(int64_t part, int64_t parts, int64_t others) {
    return {part * others / parts, ((part + 1) * others + parts - 1) / parts};
  }

  void begin_segment(int64_t s);
  void own_channels(size_t cls, int64_t s);
  void around_all(const Slot& slot, int64_t b);
  void turn(const Slot& slot, int64_t b);
  void shared_hop(size_t cls, int64_t s, int64_t channel, int64_t link, int64_t q);
  uint32_t add(uint32_t src, uint32_t dst, uint32_t chunk, TransferOp op, int64_t channel) {
    return slices_.add(src, dst, chunk, op, static_cast<uint16_t>(channel), after_);
  }

  int64_t k_, shown_ = 0;
  Slices slices_;
  std::vector<Class> classes_;  // class 0 is the ring of all; it may be missing, then classes_[0] has leaves
  int64_t shared_ = 1;          // channels that all servers have
  int64_t chunks_a_segment_ = 0;
  std::vector<Slot> program_;
  std::vector<std::vector<Progress>> progress_;
  std::vector<uint32_t> after_;  // of the transfer to come
};

NestedRings::NestedRings(const Network& network, const Flows& flows, int64_t segments)
    : k_(segments), slices_(network, flows.channels, NvlinkOrder::overlapped), shared_(flows.flows.front()) {
  const int p = network.servers();
  Fraction begin(0);
  int used = flows.flows.front();
  for (const NestedRing& nested : nested_ring_classes(flows.bandwidths)) {
    Class c;
    const int leaves = p - nested.ring;
    for (int i = 0; i < p; ++i)
      (i < leaves ? c.leaves : c.ring).push_back(static_cast<uint32_t>(flows.servers[static_cast<size_t>(i)]));
    std::sort(c.ring.begin(), c.ring.end());
    c.begin = begin;
    c.part = nested.part;
    begin += nested.part;
    if (leaves > 0) {
      // Its own channels are those that its slowest member has beyond those of the classes before.
      const int flows_of_slowest = flows.flows[static_cast<size_t>(leaves)];
      c.channel = static_cast<uint16_t>(used);
      c.channels = flows_of_slowest - used;
      used = flows_of_slowest;
    }
    classes_.push_back(std::move(c));
  }
  for (Class& c : classes_) {
    c.narrow = static_cast<uint32_t>(chunks_a_segment_);
    chunks_a_segment_ += c.size() * shared_;
    c.wide = static_cast<uint32_t>(chunks_a_segment_);
    chunks_a_segment_ += c.size() * c.channels;
  }
  for (int64_t s = 0; s < k_; ++s) {
    slices_.add_segment(grid);
    for (const Class& c : classes_) {
      for (const int64_t parts : {shared_, c.channels}) {
        for (int64_t part = 0; part < parts; ++part) {
          for (int64_t section = 0; section < c.size(); ++section) {
            const auto boundary = [&](int64_t of_parts) {
              const Fraction place = c.begin + c.part * (Fraction(section) + Fraction(of_parts, parts)) / Fraction(c.size());
              return static_cast<int64_t>(static_cast<__int128>(place.numerator()) * grid / place.denominator());
            };
            slices_.add_chunk(boundary(part), boundary(part + 1) - boundary(part));
          }
        }
      }
    }
  }
  slices_.finish_layout();

  // The classes' slots are spread evenly over the body.
  for (size_t cls = 0; cls < classes_.size(); ++cls) {
    const Class& c = classes_[cls];
    const int64_t steps = c.leaves.empty() ? 2 * (c.size() - 1) : c.turns();
    for (int64_t i = 0; i < steps; ++i) {
      const bool gather = c.leaves.empty() && i % 2 == 1;
      const int64_t step = c.leaves.empty() ? i / 2 : i;
      program_.push_back({cls, step, gather, (static_cast<double>(i) + 0.5) / static_cast<double>(steps)});
    }
  }
  std::stable_sort(program_.begin(), program_.end(), [](const Slot& a, const Slot& b) { return a.place < b.place; });
}

int64_t NestedRings::transfers_per_segment() const {
  int64_t total = 0;
  for (const Class& c : classes_) {
    if (c.leaves.empty())
      total += shared_ * 2 * c.size() * (c.size() - 1);
    else
      total += shared_ * c.size() * (c.shared_hops() + 2 * c.leaf_count()) + c.channels * c.size() * (2 * (c.size() - 1) - c.shared_hops());
  }
  return total * slices_.ranks_per_server() + slices_.nvlink_transfers();
}

void NestedRings::begin_segment(int64_t s) {
  for (size_t cls = 0; cls < classes_.size(); ++cls) {
    const Class& c = classes_[cls];
    Progress& now = progress(cls, s);
    for (auto* list : {&now.reduced, &now.raw, &now.moved}) list->assign(static_cast<size_t>(shared_ * c.size()), none);
    for (auto* list : {&now.total, &now.gathered}) list->assign(static_cast<size_t>(c.channels * c.size()), none);
  }
}

// Class 0: link i sends its hop q, section i - q in the reduce-scatter, i - q + 1 in the allgather.
void NestedRings::around_all(const Slot& slot, int64_t b) {
  const Class& c = classes_[slot.cls];
  const int64_t s = slot.gather ? b - 1 : b;
  if (!active(s)) return;
  Progress& now = progress(slot.cls, s);
  for (int64_t channel = 0; channel < shared_; ++channel) {
    for (int64_t link = 0; link < c.size(); ++link) {
      const int64_t section = slot.gather ? link - slot.step + 1 : link - slot.step;
      uint32_t& reduced = now.reduced[index(c, channel, section)];
      uint32_t& moved = now.moved[index(c, channel, section)];
      after_.assign(1, slot.gather && moved != none ? moved : reduced);
      (slot.gather ? moved : reduced) = add(at(c, link), at(c, link + 1), narrow(c, s, channel, section),
                                            slot.gather ? TransferOp::copy : TransferOp::reduce, channel);
    }
  }
}

void NestedRings::shared_hop(size_t cls, int64_t s, int64_t channel, int64_t link, int64_t q) {
  const Class& c = classes_[cls];
  uint32_t& reduced = progress(cls, s).reduced[index(c, channel, link - q)];
  after_.assign(1, reduced);
  reduced = add(at(c, link), at(c, link + 1), narrow(c, s, channel, link - q), TransferOp::reduce, channel);
}

// Turn t: leaf i is between the servers u and u + 1 of the ring, u = t - i. From u, which owns section u + 1, it gets that
// section's total, to u + 1 it hands its data of the section that u + 1 owns. The ring's other links make the next of their
// hops. A link has a leaf on it for m turns on end; the hop of the link before it is always a turn ahead.
void NestedRings::turn(const Slot& slot, int64_t b) {
  const Class& c = classes_[slot.cls];
  const int64_t r = c.size(), m = c.leaf_count(), turns = c.turns(), t = slot.step;
  // The totals of segment b - 1 are there when the class's own channels have made the last m - 1 hops, in this body.
  const int64_t lag = m + 1;
  const int64_t fetched = t < std::min(lag, turns) ? b - 2 : b - 1;
  for (int64_t channel = 0; channel < shared_; ++channel) {
    for (int64_t i = 0; i < m; ++i) {
      const int64_t u = ((t - i) % turns + turns) % turns;
      if (u >= r) continue;
      const uint32_t leaf = c.leaves[static_cast<size_t>(i)];
      if (active(fetched)) {
        Progress& then = progress(slot.cls, fetched);
        after_ = {then.reduced[index(c, channel, u + 1)], then.raw[index(c, channel, u + 1)]};
        const auto [first, last] = overlap(channel, shared_, c.channels);
        for (int64_t part = first; part < last; ++part) after_.push_back(then.total[index(c, part, u + 1)]);
        add(at(c, u), leaf, narrow(c, fetched, channel, u + 1), TransferOp::copy, channel);
      }
      if (active(b)) {
        uint32_t& raw = progress(slot.cls, b).raw[index(c, channel, u + 2)];
        after_.clear();
        raw = add(leaf, at(c, u + 1), narrow(c, b, channel, u + 2), TransferOp::reduce, channel);
      }
    }
    if (!active(b)) continue;
    for (int64_t link = 0; link < r; ++link) {
      // Turns before this one in which the link had a leaf.
      const int64_t wrapped = std::max<int64_t>(link + m - turns, 0);
      if ((t >= link && t < link + m) || t < wrapped) continue;
      shared_hop(slot.cls, b, channel, link, t < link ? t - wrapped : t - m);
    }
  }
}

// The last hops of the reduce-scatter, then the allgather.
void NestedRings::own_channels(size_t cls, int64_t s) {
  const Class& c = classes_[cls];
  const int64_t r = c.size();
  Progress& now = progress(cls, s);
  for (int64_t step = c.shared_hops(); step < 2 * (r - 1); ++step) {
    const bool gather = step >= r - 1;
    const int64_t q = gather ? step - (r - 1) : step;
    for (int64_t part = 0; part < c.channels; ++part) {
      for (int64_t link = 0; link < r; ++link) {
        const int64_t section = gather ? link - q + 1 : link - q;
        uint32_t& total = now.total[index(c, part, section)];
        uint32_t& gathered = now.gathered[index(c, part, section)];
        after_.assign(1, gather && gathered != none ? gathered : total);
        const auto [first, last] = overlap(part, c.channels, shared_);
        // Onto what the shared channels did; the owner's sum waits for the leaves' data.
        const bool takes_over = step == c.shared_hops() || (gather && q == 0);
        for (int64_t other = first; other < last; ++other) {
          if (takes_over) after_.push_back(now.reduced[index(c, other, section)]);
          if (step == r - 2 || (gather && q == 0)) after_.push_back(now.raw[index(c, other, section)]);
        }
        (gather ? gathered : total) = add(at(c, link), at(c, link + 1), wide(c, s, part, section),
                                          gather ? TransferOp::copy : TransferOp::reduce, c.channel + part);
      }
    }
  }
}

void NestedRings::emit(TransferSink& sink, int64_t shown) {
  slices_.start(sink, false);
  shown_ = shown;
  progress_.assign(classes_.size(), std::vector<Progress>(3));
  slices_.reduce_scatter(0);
  // In body k the last results are under way, in body k + 1 those of them whose turn came too early.
  for (int64_t b = 0; b < shown + 2; ++b) {
    if (b + 1 < shown) slices_.reduce_scatter(b + 1);
    if (b >= 3) slices_.allgather(b - 3);
    if (active(b)) begin_segment(b);
    for (size_t cls = 0; cls < classes_.size(); ++cls)
      if (!classes_[cls].leaves.empty() && active(b - 1)) own_channels(cls, b - 1);
    for (const Slot& slot : program_) classes_[slot.cls].leaves.empty() ? around_all(slot, b) : turn(slot, b);
  }
  for (int64_t s = std::max<int64_t>(shown - 2, 0); s < shown; ++s) slices_.allgather(s);
}

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  if (request.collective.type != CollectiveType::allreduce) return "nested rings are an AllReduce";
  if (auto reason = unsliceable(request.network)) return reason;
  try {
    nested_ring_classes(choose_flows(request.network).bandwidths);
  } catch (const Error& error) {
    return "the servers' bandwidths have no short common fraction: " + error.message();
  }
  return std::nullopt;
}

Generated generate_nested_rings(const GenerateRequest& request) {
  Generated result;
  Flows flows;
  if (const auto channels = request.options.find("channels"))
    flows = share_out(request.network, static_cast<int>(channels->integer(1, 64)));
  else
    flows = choose_flows(request.network);
  result.notes.push_back("channels: " + std::to_string(flows.channels) + ", of which the slowest server has " +
                         std::to_string(flows.flows.front()));
  for (const NestedRing& nested : nested_ring_classes(flows.bandwidths))
    result.notes.push_back("class: " + nested.part.to_string() + " of the message around the " + std::to_string(nested.ring) +
                           " fastest servers");
  const auto schedule = [&](int64_t k, int64_t shown) {
    NestedRings rings(request.network, flows, k);
    Schedule made(request.collective, rings.slices().units());
    for (const Chunk& chunk : rings.slices().chunks()) made.add_chunk(chunk);
    rings.emit(made, shown);
    return made;
  };
  if (const auto segments = segments_option(request.options)) {
    result.segments = *segments;
  } else {
    const int64_t limit = max_transfers_option(request.options) / NestedRings(request.network, flows, 1).transfers_per_segment();
    const int64_t elements = (request.size.count() + request.element.count() - 1) / request.element.count();
    const int64_t highest = std::min(limit, elements / (int64_t{request.network.ranks()} * flows.channels) + 1);
    result.segments = best_segments(1, highest, extrapolated(8, 4, [&](int64_t k, int64_t shown) {
      return time_of(request, schedule(k, shown));
    }));
    result.notes.push_back(chosen_segments_note(result.segments));
  }
  result.schedule = schedule(result.segments, result.segments);
  return result;
}

}  // namespace

const Algorithm nested_rings_algorithm = {"nested_rings", "rings over ever fewer servers, optimal for unequal NICs",
                                          inapplicable, generate_nested_rings, {"segments", "channels", "max_transfers"}};

}  // namespace slackline
