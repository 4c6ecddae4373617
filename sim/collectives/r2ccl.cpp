#include "collectives/r2ccl.hpp"

#include <algorithm>
#include <numeric>

#include "collectives/ring.hpp"
#include "collectives/slices.hpp"

namespace slackline {

namespace {

constexpr uint32_t none = Slices::none;

// Units of a slice of one round. Sections are cut at the nearest unit below.
constexpr int64_t grid = int64_t{1} << 30;

// Most flows between a server outside of a class and its members, each way.
constexpr int most_lanes = 32;

// With so many at a time, equally many for each, they all end together, where there is such a number.
size_t lanes(size_t members) {
  for (size_t count = std::min<size_t>(members, most_lanes); count > 1; --count)
    if (members % count == 0) return count;
  return std::min<size_t>(members, most_lanes);
}

int64_t on_grid(const Fraction& part) {
  return static_cast<int64_t>(static_cast<__int128>(part.numerator()) * grid / part.denominator());
}

std::optional<std::string> inapplicable(const GenerateRequest& request) { return no_ring_for(request); }

class TwoStages {
 public:
  TwoStages(const Network& network, int64_t rounds, int64_t pieces);

  const Slices& slices() const { return slices_; }
  void emit(TransferSink& sink);

 private:
  // The ring of those servers that have at least some bandwidth, made of parallel rings.
  struct Class {
    std::vector<uint32_t> members, outside;
    Fraction begin;  // of its part of the message
    uint16_t channel = 0, rings = 0;
    Fraction ring_part;       // of the message, that each of its rings carries
    uint32_t first_chunk = 0; // by ring, section: the section, then its pieces
  };
  // State of one ring of a class, by position in it.
  struct Ring {
    std::vector<uint32_t> reduced, moved, last_sent, last_received, total;
    std::vector<bool> stage2_received;
  };

  size_t size(const Class& c) const { return c.members.size(); }
  uint32_t section(const Class& c, int64_t round, size_t ring, size_t position) const {
    return chunk(c, round, ring, position);
  }
  uint32_t piece(const Class& c, int64_t round, size_t ring, size_t position, int64_t k) const {
    return chunk(c, round, ring, position) + 1 + static_cast<uint32_t>(k);
  }
  uint32_t chunk(const Class& c, int64_t round, size_t ring, size_t position) const {
    const uint32_t each = c.outside.empty() ? 1 : 1 + static_cast<uint32_t>(pieces_);
    return static_cast<uint32_t>(round) * chunks_a_round_ + c.first_chunk +
           static_cast<uint32_t>(ring * size(c) + position) * each;
  }
  uint16_t leaf_channel(uint32_t server, size_t lane, bool up) const {
    return static_cast<uint16_t>(leaf_channels_ + 2 * (most_lanes * leaf_[server] + static_cast<int>(lane)) + (up ? 1 : 0));
  }
  static int channels(const Network& network, std::vector<int64_t>& levels, int64_t& denominator);

  void add_chunks();
  void stage1(int64_t round);
  void stage2(int64_t round);

  std::vector<int64_t> levels_;  // bandwidths of the servers, ascending and distinct, over denominator_
  int64_t denominator_ = 1;
  int64_t rounds_, pieces_;
  Slices slices_;
  std::vector<Class> classes_;
  std::vector<std::vector<Ring>> rings_;  // by class
  int leaf_channels_ = 0;
  std::vector<int> leaf_;  // by server: its number among those outside of some class
  uint32_t chunks_a_round_ = 0;
  std::vector<std::vector<uint32_t>> last_;  // by server: its last transfers of the stage before
};

// Bandwidth of a server in terms of the fastest's, in parts of `denominator`.
int64_t level(const Network& network, int server, int64_t denominator) {
  const Fraction c = Fraction(1) / network.slowdown(server * network.ranks_per_server());
  return std::max<int64_t>((c * Fraction(denominator)).numerator() / (c * Fraction(denominator)).denominator(), 1);
}

int TwoStages::channels(const Network& network, std::vector<int64_t>& levels, int64_t& denominator) {
  denominator = 1;
  for (int server = 0; server < network.servers() && denominator <= 32; ++server)
    denominator = std::lcm(denominator, network.slowdown(server * network.ranks_per_server()).numerator());
  if (denominator > 32) denominator = 32;
  int slow = 0;
  for (int server = 0; server < network.servers(); ++server) {
    levels.push_back(level(network, server, denominator));
    if (levels.back() < denominator) ++slow;
  }
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return static_cast<int>(denominator) + 2 * most_lanes * slow;
}

TwoStages::TwoStages(const Network& network, int64_t rounds, int64_t pieces)
    : rounds_(rounds), pieces_(pieces), slices_(network, channels(network, levels_, denominator_), NvlinkOrder::overlapped) {
  leaf_channels_ = static_cast<int>(denominator_);
  leaf_.assign(static_cast<size_t>(network.servers()), 0);
  int leaves = 0;
  int64_t below = 0;
  for (const int64_t bandwidth : levels_) {
    Class c;
    for (int server = 0; server < network.servers(); ++server)
      (level(network, server, denominator_) >= bandwidth ? c.members : c.outside).push_back(static_cast<uint32_t>(server));
    c.begin = Fraction(below, denominator_);
    c.ring_part = Fraction(1, denominator_);
    c.channel = static_cast<uint16_t>(below);
    c.rings = static_cast<uint16_t>(bandwidth - below);
    below = bandwidth;
    classes_.push_back(std::move(c));
  }
  for (const uint32_t server : classes_.back().outside) leaf_[server] = leaves++;
  add_chunks();
}

void TwoStages::add_chunks() {
  uint32_t next = 0;
  for (int64_t round = 0; round < rounds_; ++round) {
    slices_.add_segment(grid);
    for (Class& c : classes_) {
      if (round == 0) c.first_chunk = next;
      const auto parts = static_cast<int64_t>(size(c));
      for (int64_t ring = 0; ring < c.rings; ++ring) {
        for (int64_t position = 0; position < parts; ++position) {
          const auto boundary = [&](int64_t k) {  // in k of the section's pieces
            return on_grid(c.begin + c.ring_part * (Fraction(ring) + (Fraction(position) + Fraction(k, pieces_)) / Fraction(parts)));
          };
          const int64_t begin = boundary(0);
          next = slices_.add_chunk(begin, boundary(pieces_) - begin) + 1;
          if (c.outside.empty()) continue;
          for (int64_t k = 0; k < pieces_; ++k) next = slices_.add_chunk(boundary(k), boundary(k + 1) - boundary(k)) + 1;
        }
      }
    }
    if (round == 0) chunks_a_round_ = next;
  }
  slices_.finish_layout();
}

// All rings at once, step by step. The section that starts at position i + 1 ends at position i, which owns it.
void TwoStages::stage1(int64_t round) {
  rings_.clear();
  size_t steps = 0;
  for (const Class& c : classes_) {
    const Ring fresh{std::vector<uint32_t>(size(c), none), std::vector<uint32_t>(size(c), none), std::vector<uint32_t>(size(c), none),
                     std::vector<uint32_t>(size(c), none), std::vector<uint32_t>(size(c), none), std::vector<bool>(size(c), false)};
    rings_.emplace_back(c.rings, fresh);
    steps = std::max(steps, 2 * (size(c) - 1));
  }
  for (size_t step = 0; step < steps; ++step) {
    for (size_t j = 0; j < classes_.size(); ++j) {
      const Class& c = classes_[j];
      const size_t members = size(c);
      if (step >= 2 * (members - 1)) continue;
      const bool gathers = step >= members - 1;
      const size_t turned = gathers ? step - (members - 1) : step + 1;
      for (size_t r = 0; r < c.rings; ++r) {
        Ring& ring = rings_[j][r];
        for (size_t i = 0; i < members; ++i) {
          const size_t owner = (i + members - turned) % members, next = (i + 1) % members;
          uint32_t& latest = gathers && ring.moved[owner] != none ? ring.moved[owner] : ring.reduced[owner];
          // A round starts at a server when the round before has ended there.
          std::vector<uint32_t> after = {latest};
          if (step == 0) after.insert(after.end(), last_[c.members[i]].begin(), last_[c.members[i]].end());
          const uint32_t index = slices_.add(c.members[i], c.members[next], section(c, round, r, owner),
                                             gathers ? TransferOp::copy : TransferOp::reduce,
                                             static_cast<uint16_t>(c.channel + r), after);
          (gathers ? ring.moved : ring.reduced)[owner] = index;
          ring.last_sent[i] = ring.last_received[next] = index;
        }
      }
    }
  }
  for (auto& last : last_) last.clear();
  for (size_t j = 0; j < classes_.size(); ++j)
    for (const Ring& ring : rings_[j])
      for (size_t i = 0; i < size(classes_[j]); ++i)
        for (const uint32_t index : {ring.last_sent[i], ring.last_received[i]})
          if (index != none) last_[classes_[j].members[i]].push_back(index);
}

void TwoStages::stage2(int64_t round) {
  const auto servers = static_cast<size_t>(slices_.servers());
  // By server, its latest two transfers; on any of its channels the next round may start a little early.
  std::vector<std::vector<uint32_t>> last(servers);
  const auto note = [&](uint32_t server, uint32_t index) {
    std::vector<uint32_t>& latest = last[server];
    if (latest.size() == 2) latest.erase(latest.begin());
    latest.push_back(index);
  };
  for (int64_t k = 0; k < pieces_; ++k) {
    // Up: what the servers outside bring, section i to member i, each server starting elsewhere.
    std::vector<std::vector<uint32_t>> uploaded(servers);  // by server: its last transfers upwards of this piece
    for (size_t j = 0; j < classes_.size(); ++j) {
      const Class& c = classes_[j];
      if (c.outside.empty()) continue;
      const size_t side = lanes(size(c));
      for (size_t r = 0; r < c.rings; ++r) {
        Ring& ring = rings_[j][r];
        std::fill(ring.total.begin(), ring.total.end(), none);
        for (size_t i = 0; i < size(c); ++i) {
          for (size_t o = 0; o < c.outside.size(); ++o) {
            const uint32_t leaf = c.outside[o];
            const size_t position = (i + o * size(c) / c.outside.size()) % size(c);
            std::vector<uint32_t> after = {ring.total[position], ring.last_sent[position], ring.last_received[position]};
            if (k == 0 && i < side) after.insert(after.end(), last_[leaf].begin(), last_[leaf].end());
            ring.total[position] = slices_.add(leaf, c.members[position], piece(c, round, r, position, k), TransferOp::reduce,
                                               leaf_channel(leaf, i % side, true), after);
            uploaded[leaf].resize(most_lanes, none);
            uploaded[leaf][i % side] = ring.total[position];
          }
        }
      }
    }
    // Down, and around among the members.
    for (size_t j = 0; j < classes_.size(); ++j) {
      const Class& c = classes_[j];
      if (c.outside.empty()) continue;
      const size_t side = lanes(size(c));
      for (size_t r = 0; r < c.rings; ++r) {
        Ring& ring = rings_[j][r];
        for (size_t i = 0; i < size(c); ++i) {
          for (size_t o = 0; o < c.outside.size(); ++o) {
            const uint32_t leaf = c.outside[o];
            const size_t position = (i + o * size(c) / c.outside.size()) % size(c);
            std::vector<uint32_t> after = uploaded[leaf];
            after.push_back(ring.total[position]);
            const uint32_t index = slices_.add(c.members[position], leaf, piece(c, round, r, position, k), TransferOp::copy,
                                               leaf_channel(leaf, i % side, false), after);
            note(leaf, index);
            note(c.members[position], index);
          }
        }
        std::vector<uint32_t> moved = ring.total;
        for (size_t hop = 0; hop + 1 < size(c); ++hop) {
          for (size_t i = 0; i < size(c); ++i) {
            const size_t owner = (i + size(c) - hop) % size(c), next = (i + 1) % size(c);
            // The first message here must not overwrite what stage 1 still sends.
            const uint32_t sent = ring.stage2_received[next] ? none : ring.last_sent[next];
            ring.stage2_received[next] = true;
            moved[owner] = slices_.add(c.members[i], c.members[next], piece(c, round, r, owner, k), TransferOp::copy,
                                       static_cast<uint16_t>(c.channel + r), {moved[owner], sent});
            note(c.members[next], moved[owner]);
          }
        }
      }
    }
  }
  for (size_t server = 0; server < servers; ++server)
    if (!last[server].empty()) last_[server] = last[server];
}

void TwoStages::emit(TransferSink& sink) {
  slices_.start(sink, false);
  last_.assign(static_cast<size_t>(slices_.servers()), {});
  slices_.reduce_scatter(0);
  for (int64_t round = 0; round < rounds_; ++round) {
    if (round + 1 < rounds_) slices_.reduce_scatter(round + 1);
    if (round > 0) slices_.allgather(round - 1);
    stage1(round);
    stage2(round);
  }
  slices_.allgather(rounds_ - 1);
}

Generated generate_r2ccl(const GenerateRequest& request) {
  const Network& network = request.network;
  Generated result;
  int64_t pieces = 4;
  if (const auto wanted = request.options.find("stage2_chunks")) pieces = wanted->integer(1, 4096);
  int64_t rounds = network.ranks_per_server() == 1 ? 1 : 8;
  if (const auto wanted = request.options.find("rounds")) rounds = wanted->integer(1, 4096);
  if (network.ranks_per_server() == 1) rounds = 1;
  const int rings = rings_option(request);

  static constexpr std::string_view forms[] = {"allreduce", "auto", "balance"};
  std::string form = "auto";
  const auto wanted = request.options.find("form");
  if (wanted) form = wanted->one_of(forms, "form");
  std::optional<std::string> no_allreduce = unsliceable(network);
  if (request.collective.type != CollectiveType::allreduce) no_allreduce = "that form is an AllReduce";
  if (form == "allreduce" && no_allreduce) wanted->fail(*no_allreduce);
  const auto balanced = [&] { return ring_schedule(request.collective, ring_orders(network, rings)); };
  const auto in_two_stages = [&] {
    TwoStages stages(network, rounds, pieces);
    Schedule schedule(request.collective, stages.slices().units());
    for (const Chunk& chunk : stages.slices().chunks()) schedule.add_chunk(chunk);
    stages.emit(schedule);
    return schedule;
  };
  const auto choose = [&](Schedule schedule, bool two_stages) {
    result.schedule = std::move(schedule);
    result.segments = two_stages ? rounds : 1;
    if (form == "auto") result.notes.push_back(two_stages ? "form: allreduce" : "form: balance");
    return std::move(result);
  };
  if (form == "allreduce") return choose(in_two_stages(), true);
  if (form == "balance" || no_allreduce) return choose(balanced(), false);
  // The closed form knows no NVLink.
  if (network.ranks_per_server() > 1 && request.simulate) {
    Schedule balance = balanced(), two_stages = in_two_stages();
    const bool better = request.simulate(two_stages) < request.simulate(balance);
    return choose(std::move(better ? two_stages : balance), better);
  }
  double l = 1;
  for (const int rank : network.stragglers()) l = std::max(l, network.slowdown(rank).to_double());
  const double p = network.servers(), ring = 2 * (p - 1) / p;
  return ring + (1 + 1 / static_cast<double>(pieces)) * (l - 1) < l * ring ? choose(in_two_stages(), true) : choose(balanced(), false);
}

}  // namespace

const Algorithm r2ccl_algorithm = {"r2ccl", "R2CCL's balance and allreduce forms for degraded servers", inapplicable,
                                   generate_r2ccl, {"form", "rings", "rounds", "stage2_chunks"}};

}  // namespace slackline
