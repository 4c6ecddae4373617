#include "collectives/nested_rings.hpp"

#include <algorithm>
#include <cstdlib>

#include "collectives/segments.hpp"
#include "collectives/slices.hpp"

namespace slackline {

std::vector<NestedRing> nested_ring_classes(const std::vector<Fraction>& bandwidths) {
  const auto p = static_cast<int64_t>(bandwidths.size());
  if (p == 2) {
    // A ring of two moves as much as an exchange with a leaf does, so one class does it all.
    return {{2, Fraction(1)}};
  }
  Fraction sum(0);
  int64_t m = 0;
  for (const Fraction& c : bandwidths) {
    sum += c;
    if (c < Fraction(1)) ++m;
  }
  const Fraction time = std::max(Fraction(2 * (p - 1)) / sum, Fraction(1) / bandwidths[0]);
  // What a server has left when it has sent and received everything once as a leaf: e = T* c - 1, ascending.
  std::vector<NestedRing> classes;
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

// Units of a slice of a segment of weight 1. Sections are cut at the nearest unit below.
constexpr int64_t grid = int64_t{1} << 30;

int env(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : fallback;
}

class NestedRings {
 public:
  NestedRings(const Network& network, int64_t segments);

  const Slices& slices() const { return slices_; }
  int64_t transfers_per_segment() const;
  void emit(TransferSink& sink, int64_t shown, bool probe);

 private:
  struct Class {
    std::vector<uint32_t> ring;    // servers
    std::vector<uint32_t> leaves;  // the others
    std::vector<int64_t> place;    // by server: position in the ring, -1 for leaves
    Fraction begin, part;
    uint16_t channel = 0;
    uint32_t first_chunk = 0;  // within a segment
  };
  // Where a segment of one class stands.
  struct Progress {
    std::vector<uint32_t> reduced;   // by section: the latest hop of the reduce-scatter
    std::vector<uint32_t> moved;     // by section: the latest hop of the allgather
    std::vector<uint32_t> raw;       // by section and leaf: what the leaf sent of it
    std::vector<uint32_t> received;  // by position: last receive of the allgather
    std::vector<uint32_t> sent_at, received_at;  // by position and hop of the reduce-scatter
  };

  int64_t size(const Class& c) const { return static_cast<int64_t>(c.ring.size()); }
  uint32_t section(const Class& c, int64_t s, int64_t j) const {
    const int64_t r = size(c);
    return static_cast<uint32_t>(s * chunks_a_segment_ + c.first_chunk + (j % r + r) % r);
  }
  uint32_t at(const Class& c, int64_t position) const {
    const int64_t r = size(c);
    return c.ring[static_cast<size_t>((position % r + r) % r)];
  }
  uint16_t leaf_channel(uint32_t leaf, int64_t stream, bool up, int64_t s) const {
    return static_cast<uint16_t>(2 * lanes_ * static_cast<int64_t>(classes_.size()) + ((leaf_[leaf] + stream) * 2 + (up ? 1 : 0)) * lanes_ + s % lanes_);
  }
  uint16_t ring_channel(const Class& c, int64_t s, bool gather) const {
    const int merge = env("NR_MERGE", 0), split = env("NR_SPLIT", 0);
    const int64_t base = merge ? 0 : c.channel;
    return static_cast<uint16_t>((base * 2 + (split && gather ? 1 : 0)) * lanes_ + s % lanes_);
  }
  Progress& progress(size_t cls, int64_t s) { return progress_[cls][static_cast<size_t>(s % window)]; }

  void upload(int64_t s);
  void download(int64_t s, int64_t reducing);
  std::optional<std::pair<size_t, int64_t>> pacer(uint32_t server) const;
  void hops(int64_t reducing, int64_t gathering);
  void reduce_hop(size_t cls, int64_t s, int64_t link, int64_t q);
  void gather_hop(size_t cls, int64_t s, int64_t link, int64_t q);

  static constexpr int64_t window = 64;  // segments that are remembered

  int64_t k_;
  std::vector<int> streams_;
  std::vector<double> leaf_rate_;
  int64_t lanes_ = env("NR_LANES", 1), gate_ = env("NR_GATE", 2), gate2_ = env("NR_GATE2", 2);
  int64_t shown_ = 0;
  Slices slices_;
  std::vector<Class> classes_;
  std::vector<int64_t> leaf_;  // by server: its number among the leaves
  int64_t chunks_a_segment_ = 0;
  std::vector<std::vector<Progress>> progress_;
  std::vector<std::vector<std::vector<uint32_t>>> down_;  // by segment in the window, server, stream: last result received as a leaf
};

std::vector<int> fastest_first(const Network& network) {
  const int g = network.ranks_per_server();
  std::vector<int> order;
  for (int server = 0; server < network.servers(); ++server) order.push_back(server);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return network.slowdown(a * g) < network.slowdown(b * g); });
  return order;
}

std::vector<NestedRing> classes_of(const Network& network) {
  std::vector<Fraction> bandwidths;
  for (const int server : fastest_first(network)) bandwidths.push_back(Fraction(1) / network.slowdown(server * network.ranks_per_server()));
  std::reverse(bandwidths.begin(), bandwidths.end());
  return nested_ring_classes(bandwidths);
}

double time_of_classes(const Network& network) {
  double sum = 0, least = 1;
  const double p = network.servers();
  for (int server = 0; server < network.servers(); ++server) {
    const double c = 1 / network.slowdown(server * network.ranks_per_server()).to_double();
    sum += c;
    least = std::min(least, c);
  }
  return std::max(2 * (p - 1) / sum, 1 / least);
}

int channels(const Network& network, const std::vector<NestedRing>&) {
  return env("NR_LANES", 1) * (200);
}

NestedRings::NestedRings(const Network& network, int64_t segments)
    : k_(segments), slices_(network, channels(network, classes_of(network)), NvlinkOrder::overlapped) {
  const std::vector<int> order = fastest_first(network);
  leaf_.assign(order.size(), -1);
  leaf_rate_.assign(order.size(), 0);
  streams_.assign(order.size(), 1);
  int64_t leaves = 0;
  Fraction begin(0);
  const std::vector<NestedRing> nested_classes = classes_of(network);
  const int healthy = nested_classes.back().ring;
  for (const NestedRing& nested : nested_classes) {
    const int slow = nested.ring - healthy;
    const double F = env("NR_F", 4);
    const double rate = 2.0 * (nested.ring - 1) / nested.ring * nested.part.to_double() / time_of_classes(network);
    const int copies = std::max(1, static_cast<int>(rate * F + 0.5));
    for (int copy = 0; copy < copies; ++copy) {
      Class c;
      for (int i = 0; i < healthy; ++i) c.ring.push_back(static_cast<uint32_t>(order[i]));
      std::sort(c.ring.begin(), c.ring.end());
      for (int i = slow - 1; i >= 0; --i) {
        const int spot = (i * copies + copy) * healthy / (slow * copies);
        c.ring.insert(c.ring.begin() + spot + 1, static_cast<uint32_t>(order[healthy + i]));
      }
      for (size_t i = nested.ring; i < order.size(); ++i) c.leaves.push_back(static_cast<uint32_t>(order[i]));
      std::reverse(c.leaves.begin(), c.leaves.end());
      c.place.assign(order.size(), -1);
      for (size_t i = 0; i < c.ring.size(); ++i) c.place[c.ring[i]] = static_cast<int64_t>(i);
      c.begin = begin;
      c.part = nested.part / Fraction(copies);
      for (const uint32_t leaf : c.leaves) leaf_rate_[leaf] += c.part.to_double() / time_of_classes(network);
      begin += c.part;
      c.channel = static_cast<uint16_t>(classes_.size());
      c.first_chunk = static_cast<uint32_t>(chunks_a_segment_);
      chunks_a_segment_ += size(c);
      classes_.push_back(std::move(c));
    }
  }
  for (const uint32_t leaf : classes_.back().leaves) {
    streams_[leaf] = std::max(1, static_cast<int>(leaf_rate_[leaf] * env("NR_F", 4) + 0.5));
    leaf_[leaf] = leaves;
    leaves += streams_[leaf];
  }
  const int64_t taper = env("NR_TAPER", 0);
  for (int64_t s = 0; s < k_; ++s) {
    const int64_t edge = std::min(s, k_ - 1 - s);
    const int64_t length = edge < taper ? grid >> (taper - edge) : grid;
    slices_.add_segment(length);
    for (const Class& c : classes_) {
      const auto boundary = [&](int64_t j) {
        const Fraction place = c.begin + c.part * Fraction(j, size(c));
        return static_cast<int64_t>(static_cast<__int128>(place.numerator()) * length / place.denominator());
      };
      for (int64_t j = 0; j < size(c); ++j) slices_.add_chunk(boundary(j), boundary(j + 1) - boundary(j));
    }
  }
  slices_.finish_layout();
}

int64_t NestedRings::transfers_per_segment() const {
  int64_t total = 0;
  for (const Class& c : classes_) total += 2 * size(c) * (size(c) - 1 + static_cast<int64_t>(c.leaves.size()));
  return total * slices_.ranks_per_server() + slices_.nvlink_transfers();
}

// Leaf number a hands section j over at the a-th server before the section's owner, which folds it in before the
// reduce-scatter passes.
void NestedRings::upload(int64_t s) {
  int64_t widest = 0;
  for (size_t cls = 0; cls < classes_.size(); ++cls) {
    const Class& c = classes_[cls];
    const int64_t r = size(c), leaves = static_cast<int64_t>(c.leaves.size());
    Progress& now = progress(cls, s);
    const auto sections = static_cast<size_t>(r);
    now.reduced.assign(sections, none);
    now.moved.assign(sections, none);
    now.received.assign(sections, none);
    now.sent_at.assign(sections * sections, none);
    now.received_at.assign(sections * sections, none);
    now.raw.assign(static_cast<size_t>(r * leaves), none);
    widest = std::max(widest, r);
  }
  const int pace = env("NR_PACE", 1);
  for (int64_t i = 0; i < widest; ++i) {
    for (size_t cls = 0; cls < classes_.size(); ++cls) {
      const Class& c = classes_[cls];
      const int64_t r = size(c), leaves = static_cast<int64_t>(c.leaves.size());
      Progress& now = progress(cls, s);
      if (i >= r) continue;
      for (int64_t a = 0; a < leaves; ++a) {
        const uint32_t leaf = c.leaves[static_cast<size_t>(a)];
        const int64_t position = env("NR_DIR", 1) * i + env("NR_OFF", 1) + a * r / leaves;
        const int64_t back = r > 1 ? a % (r - 1) : 0;
        const int64_t j = position + 1 + back + 4 * r;
        std::vector<uint32_t> after;
        // Another leaf's data for the same place.
        for (int64_t b = 0; b < leaves; ++b)
          if (b != a && (r > 1 ? b % (r - 1) : 0) == back) after.push_back(now.raw[static_cast<size_t>((j % r + r) % r * leaves + b)]);
        if (pace >= 1 && pacer(leaf) && s >= 1) {
          const auto [pcls, place] = *pacer(leaf);
          const int64_t rp = size(classes_[pcls]);
          const int64_t q = i * (rp - 1) / r;
          after.push_back(progress(pcls, s - 1).sent_at[static_cast<size_t>(place * rp + q)]);
        } else if (gate_ && s >= gate_ * lanes_ && i < streams_[leaf]) {
          const auto& earlier = down_[static_cast<size_t>((s - gate_ * lanes_) % window)][leaf];
          after.insert(after.end(), earlier.begin(), earlier.end());
        }
        now.raw[static_cast<size_t>((j % r + r) % r * leaves + a)] =
            slices_.add(leaf, at(c, position), section(c, s, j), TransferOp::reduce, leaf_channel(leaf, i % streams_[leaf], true, s), after);
      }
    }
  }
}

// The owner of section j, j - 1, sends it to the leaves.
void NestedRings::download(int64_t s, int64_t reducing) {
  auto& down = down_[static_cast<size_t>(s % window)];
  for (auto& server : down) server.clear();
  int64_t widest = 0;
  for (const Class& c : classes_) widest = std::max(widest, size(c));
  const int pace = env("NR_PACE", 1);
  for (int64_t i = 0; i < widest; ++i) {
    for (size_t cls = 0; cls < classes_.size(); ++cls) {
      const Class& c = classes_[cls];
      const int64_t r = size(c), leaves = static_cast<int64_t>(c.leaves.size());
      const Progress& now = progress(cls, s);
      if (i >= r) continue;
      for (int64_t a = 0; a < leaves; ++a) {
        const uint32_t leaf = c.leaves[static_cast<size_t>(a)];
        const int64_t position = env("NR_DIR", 1) * i + a * r / leaves + 2 * r;
        const int64_t j = (position + 1) % r;
        std::vector<uint32_t> after = {now.reduced[static_cast<size_t>(j)]};
        if (r == 1) after = now.raw;
        if (pace >= 2 && pacer(leaf) && reducing < shown_) {
          const auto [pcls, place] = *pacer(leaf);
          const int64_t rp = size(classes_[pcls]);
          const int64_t q = i * (rp - 1) / r;
          after.push_back(progress(pcls, reducing).received_at[static_cast<size_t>(place * rp + q)]);
        }
        down[leaf].resize(static_cast<size_t>(streams_[leaf]), none);
        down[leaf][static_cast<size_t>(i % streams_[leaf])] =
            slices_.add(at(c, position), leaf, section(c, s, j), TransferOp::copy, leaf_channel(leaf, i % streams_[leaf], false, s), after);
      }
    }
  }
}

std::optional<std::pair<size_t, int64_t>> NestedRings::pacer(uint32_t server) const {
  for (size_t cls = 0; cls < classes_.size(); ++cls) {
    if (classes_[cls].place[server] >= 0) return std::pair(cls, classes_[cls].place[server]);
  }
  return std::nullopt;
}

// Link i sends its hop q: section i - q in the reduce-scatter, i - q + 1 in the allgather.
void NestedRings::reduce_hop(size_t cls, int64_t s, int64_t link, int64_t q) {
  const Class& c = classes_[cls];
  const int64_t r = size(c), leaves = static_cast<int64_t>(c.leaves.size());
  const int64_t j = (link - q + r) % r;
  Progress& now = progress(cls, s);
  std::vector<uint32_t> after = {now.reduced[static_cast<size_t>(j)]};
  for (int64_t a = r - 2 - q; a < leaves; a += r - 1) after.push_back(now.raw[static_cast<size_t>(j * leaves + a)]);
  if (q == 0 && gate2_ && s >= gate2_ * lanes_) {
    for (size_t other = 0; other < classes_.size(); ++other) {
      const int64_t place = classes_[other].place[at(c, link)];
      if (other != cls && place >= 0)
        after.push_back(progress(other, s - gate2_ * lanes_).received[static_cast<size_t>(place)]);
    }
  }
  now.reduced[static_cast<size_t>(j)] = now.sent_at[static_cast<size_t>(link * r + q)] = now.received_at[static_cast<size_t>((link + 1) % r * r + q)] = slices_.add(at(c, link), at(c, link + 1), section(c, s, j), TransferOp::reduce, ring_channel(c, s, false), after);
}

void NestedRings::gather_hop(size_t cls, int64_t s, int64_t link, int64_t q) {
  const Class& c = classes_[cls];
  const int64_t r = size(c);
  const int64_t j = (link - q + 1 + r) % r;
  Progress& now = progress(cls, s);
  const uint32_t source = q > 0 ? now.moved[static_cast<size_t>(j)] : now.reduced[static_cast<size_t>(j)];
  now.moved[static_cast<size_t>(j)] = now.received[static_cast<size_t>((link + 1) % r)] =
      slices_.add(at(c, link), at(c, link + 1), section(c, s, j), TransferOp::copy, ring_channel(c, s, true), {source});
}

void NestedRings::hops(int64_t reducing, int64_t gathering) {
  int64_t steps = 0;
  for (const Class& c : classes_) steps = std::max(steps, size(c) - 1);
  for (int64_t q = 0; q < steps; ++q) {
    for (size_t cls = 0; cls < classes_.size(); ++cls) {
      const int64_t r = size(classes_[cls]);
      if (q >= r - 1) continue;
      for (int64_t link = 0; link < r; ++link) {
        if (reducing < shown_) reduce_hop(cls, reducing, link, q);
        if (gathering >= 0) gather_hop(cls, gathering, link, q);
      }
    }
  }
}

void NestedRings::emit(TransferSink& sink, int64_t shown, bool probe) {
  slices_.start(sink, probe);
  shown_ = shown;
  progress_.assign(classes_.size(), std::vector<Progress>(window));
  down_.assign(window, std::vector<std::vector<uint32_t>>(static_cast<size_t>(slices_.servers())));
  slices_.reduce_scatter(0);
  for (int64_t b = 0; b < shown + lanes_; ++b) {
    if (b + 1 < shown) slices_.reduce_scatter(b + 1);
    if (b >= 1 + lanes_) slices_.allgather(b - 1 - lanes_);
    if (b < shown) upload(b);
    hops(b, b - lanes_);
    if (b >= lanes_) download(b - lanes_, b);
  }
  slices_.allgather(shown - 1);
}

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  if (request.collective.type != CollectiveType::allreduce) return "nested rings are an AllReduce";
  if (auto reason = unsliceable(request.network)) return reason;
  try {
    classes_of(request.network);
  } catch (const Error& error) {
    return "the servers' bandwidths have no short common fraction: " + error.message();
  }
  return std::nullopt;
}

Generated generate_nested_rings(const GenerateRequest& request) {
  Generated result;
  for (const NestedRing& nested : classes_of(request.network))
    result.notes.push_back("class: " + nested.part.to_string() + " of the message around the " + std::to_string(nested.ring) +
                           " fastest servers");
  const auto schedule = [&](int64_t k, int64_t shown) {
    NestedRings rings(request.network, k);
    Schedule made(request.collective, rings.slices().units());
    for (const Chunk& chunk : rings.slices().chunks()) made.add_chunk(chunk);
    rings.emit(made, shown, false);
    return made;
  };
  if (const auto segments = segments_option(request.options)) {
    result.segments = *segments;
  } else {
    const int64_t limit = max_transfers_option(request.options) / NestedRings(request.network, 1).transfers_per_segment();
    const int64_t elements = (request.size.count() + request.element.count() - 1) / request.element.count();
    const int64_t highest = std::min(limit, elements / request.network.ranks() + 1);
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
                                          inapplicable, generate_nested_rings, {"max_transfers", "segments"}};

}  // namespace slackline
