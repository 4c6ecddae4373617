#include "collectives/nested_rings.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "collectives/segments.hpp"
#include "collectives/slices.hpp"

namespace slackline {

std::vector<double> nested_ring_parts(const std::vector<double>& bandwidths) {
  const size_t p = bandwidths.size();
  // With two servers each sends its half and the other's result, whatever the halves.
  if (p == 2) return {0.5, 0.5};
  std::vector<double> ascending = bandwidths;
  std::sort(ascending.begin(), ascending.end());
  // T with the `out` slowest without a part: those to whom it leaves no time.
  double time = 0;
  for (size_t out = 0; out < p; ++out) {
    double sum = 0;
    for (size_t i = out; i < p; ++i) sum += ascending[i];
    time = static_cast<double>(2 * p - 2 - out) / sum;
    if (time * ascending[out] >= 1) break;
  }
  std::vector<double> parts;
  for (const double c : bandwidths) parts.push_back(std::max(0.0, time * c - 1) / static_cast<double>(p - 2));
  return parts;
}

namespace {

constexpr uint32_t none = Slices::none;

// Two servers that exchange directly, as seen by one of them. There is one the other way round, too.
struct Exchange {
  int64_t from, to;
  int flows = 1;     // in parallel, the same both ways
  size_t first = 0;  // place of the first of them among all flows
  size_t back = 0;   // place of the first one the other way
};

// Who exchanges with whom, and how much.
struct Plan {
  int64_t servers = 0;
  std::vector<double> parts;  // of the message, by server
  std::vector<bool> in_ring;
  std::vector<int64_t> ring;  // servers; none, or three and more
  int most_flows = 1;         // between two servers
  size_t flows = 0;           // of all exchanges together
  std::vector<Exchange> exchanges;
};

// `flows` is the most between two servers.
Plan make_plan(const Network& network, bool ring, int flows) {
  Plan plan;
  plan.servers = network.servers();
  std::vector<double> bandwidths;
  for (int server = 0; server < network.servers(); ++server)
    bandwidths.push_back(1 / network.slowdown(server * network.ranks_per_server()).to_double());
  plan.parts = nested_ring_parts(bandwidths);
  const auto fastest = std::count(bandwidths.begin(), bandwidths.end(), 1.0);
  for (int64_t v = 0; v < plan.servers; ++v) {
    plan.in_ring.push_back(ring && fastest > 2 && bandwidths[static_cast<size_t>(v)] == 1.0);
    if (plan.in_ring.back()) plan.ring.push_back(v);
  }
  plan.most_flows = static_cast<int>(std::min<int64_t>(flows, 60000 / plan.servers));
  double most = 0;
  for (int64_t v = 0; v < plan.servers; ++v) {
    for (int64_t w = 0; w < plan.servers; ++w) {
      if (v == w || (plan.in_ring[static_cast<size_t>(v)] && plan.in_ring[static_cast<size_t>(w)])) continue;
      plan.exchanges.push_back({v, w});
      most = std::max(most, plan.parts[static_cast<size_t>(v)] + plan.parts[static_cast<size_t>(w)]);
    }
  }
  std::vector<size_t> first(static_cast<size_t>(plan.servers * plan.servers));
  for (Exchange& e : plan.exchanges) {
    const double load = plan.parts[static_cast<size_t>(e.from)] + plan.parts[static_cast<size_t>(e.to)];
    // Rounded up: a flow that is done early leaves its bandwidth to the others, one that is late finds its peer busy.
    e.flows = std::max(1, static_cast<int>(std::ceil(load / most * plan.most_flows - 1e-9)));
    e.first = first[static_cast<size_t>(e.from * plan.servers + e.to)] = plan.flows;
    plan.flows += static_cast<size_t>(e.flows);
  }
  for (Exchange& e : plan.exchanges) e.back = first[static_cast<size_t>(e.to * plan.servers + e.from)];
  return plan;
}

// Body b, of k + 1:
//   all who exchange directly send each other their data of segment b, into scratch space, where it is added, and the
//   sums of segment b - 1;
//   the ring reduce-scatters segment b and allgathers segment b - 1, hop by hop in turns, so that every section has a turn to
//   arrive in before it is sent on.
// A server's flows to one other go on channels of their own. With nothing but list order and data to wait for, slow
// servers may be up to two bodies ahead of the ring.
class NestedRings {
 public:
  NestedRings(const Network& network, const Plan& plan, int64_t elements, int64_t segments);

  const Slices& slices() const { return slices_; }
  /// The first `shown` segments.
  void emit(TransferSink& sink, int64_t shown);

 private:
  // The chunks of a segment; none where there is nothing.
  struct Segment {
    std::vector<uint32_t> part;         // by server
    std::vector<uint32_t> space;        // by exchange: scratch space at `to` for data of `from`, for the part of `to`
    std::vector<uint32_t> piece, slot;  // by flow: its piece of the part of `to`, and of that space
  };
  // Transfers of a segment.
  struct Progress {
    std::vector<uint32_t> hopped, moved;  // by server: the last hop of its part in the reduce-scatter and in the allgather
    std::vector<uint32_t> added;          // by server: the last addition to its part
    std::vector<uint32_t> raw;            // by flow
    std::vector<uint32_t> addition;       // by exchange
  };

  // Different for all that one server exchanges with.
  uint16_t channel(const Exchange& e, int x) const {
    return static_cast<uint16_t>(1 + (e.from + e.to) % plan_.servers * plan_.most_flows + x);
  }
  static int channels(const Plan& plan) { return static_cast<int>(2 + plan.servers * plan.most_flows); }
  int64_t ring_size() const { return static_cast<int64_t>(plan_.ring.size()); }
  int64_t at(int64_t position) const {
    return plan_.ring[static_cast<size_t>((position % ring_size() + ring_size()) % ring_size())];
  }
  const Segment& segment(int64_t s) const { return segments_[static_cast<size_t>(s)]; }
  Progress& progress(int64_t s) { return progress_[static_cast<size_t>(s % 3)]; }
  bool active(int64_t s) const { return s >= 0 && s < shown_; }
  // After this transfer the server has the sum of its part.
  uint32_t summed(int64_t s, int64_t v) {
    const uint32_t added = progress(s).added[static_cast<size_t>(v)];
    return added != none ? added : progress(s).hopped[static_cast<size_t>(v)];
  }
  uint32_t add(int64_t src, int64_t dst, uint32_t from, uint32_t to, TransferOp op, int channel) {
    return slices_.add(static_cast<uint32_t>(src), static_cast<uint32_t>(dst), from, to, op, static_cast<uint16_t>(channel), after_);
  }

  void send_raw(int64_t s);
  void hop(int64_t s, bool gather, int64_t q);
  void add_up(int64_t s);
  void send_sums(int64_t s);

  const Plan& plan_;
  int64_t shown_ = 0;
  Slices slices_;
  std::vector<Segment> segments_;
  std::vector<Progress> progress_;
  std::vector<uint32_t> after_;  // of the transfer to come
};

// With segments as long as this the slice has at most `segments` of them.
int64_t segment_length(int64_t slice, int64_t segments) { return (slice + segments - 1) / segments; }

NestedRings::NestedRings(const Network& network, const Plan& plan, int64_t elements, int64_t segments)
    : plan_(plan), slices_(network, channels(plan), NvlinkOrder::overlapped), segments_(static_cast<size_t>(segments)) {
  const auto p = static_cast<size_t>(plan.servers);
  // All segments but the last are equally long and are cut at the same places, so that the scratch space is, too: cuts that
  // differ would add up along the way of the data.
  const int64_t slice = elements / network.ranks_per_server(), longest = segment_length(slice, segments);
  // Every exchange has two slots in the scratch space of `to`, used in turns, with room for the largest the part can get.
  // Owners of equal parts have their slots at the same offsets, and for the same reason nobody else has.
  std::vector<int64_t> room, slot_offset;
  for (const double part : plan.parts) room.push_back(static_cast<int64_t>(part * static_cast<double>(longest)) + 2);
  std::map<int64_t, int64_t> senders, begin;  // by room: the most to one server, and where their slots begin
  std::vector<int64_t> turn, received(p, 0);
  for (const Exchange& e : plan.exchanges) {
    const auto to = static_cast<size_t>(e.to);
    turn.push_back(received[to]++);
    senders[room[to]] = std::max(senders[room[to]], received[to]);
  }
  int64_t end = 0;
  for (const auto& [length, count] : senders) {
    begin[length] = end;
    end += 2 * length * count;
  }
  for (size_t i = 0; i < plan.exchanges.size(); ++i) {
    const int64_t length = room[static_cast<size_t>(plan.exchanges[i].to)];
    slot_offset.push_back(begin[length] + 2 * length * turn[i]);
  }
  std::vector<int64_t> offset(p + 1);
  for (int64_t s = 0; s < segments; ++s) {
    Segment& now = segments_[static_cast<size_t>(s)];
    const int64_t length = std::min(longest, slice - s * longest);
    slices_.add_segment(length);
    double before = 0;
    for (size_t v = 0; v < p; ++v) {
      before += plan.parts[v];
      offset[v + 1] = v + 1 == p ? length : std::min<int64_t>(std::llround(before * static_cast<double>(length)), length);
      now.part.push_back(offset[v + 1] > offset[v] ? slices_.add_chunk(offset[v], offset[v + 1] - offset[v]) : none);
    }
    now.piece.reserve(plan.flows);
    now.slot.reserve(plan.flows);
    for (size_t i = 0; i < plan.exchanges.size(); ++i) {
      const Exchange& e = plan.exchanges[i];
      const auto to = static_cast<size_t>(e.to);
      const int64_t size = offset[to + 1] - offset[to], space = slot_offset[i] + s % 2 * room[to];
      now.space.push_back(size > 0 ? slices_.add_scratch(space, size) : none);
      for (int x = 0; x < e.flows; ++x) {
        const int64_t first = size * x / e.flows, last = size * (x + 1) / e.flows;
        const bool whole = last - first == size;
        now.piece.push_back(first == last ? none : whole ? now.part[to] : slices_.add_chunk(offset[to] + first, last - first));
        now.slot.push_back(first == last ? none : whole ? now.space.back() : slices_.add_scratch(space + first, last - first));
      }
    }
  }
  slices_.finish_layout();
}

void NestedRings::send_raw(int64_t s) {
  for (size_t i = 0; i < plan_.exchanges.size(); ++i) {
    const Exchange& e = plan_.exchanges[i];
    for (int x = 0; x < e.flows; ++x) {
      const size_t flow = e.first + static_cast<size_t>(x);
      if (segment(s).piece[flow] == none) continue;
      // The slot is free when what it held is added.
      after_.assign(1, s >= 2 ? progress(s - 2).addition[i] : none);
      progress(s).raw[flow] = add(e.from, e.to, segment(s).piece[flow], segment(s).slot[flow], TransferOp::copy, channel(e, x));
    }
  }
}

// Link i of the ring sends its hop q: in the reduce-scatter the part of the server at i - q - 1, which is the end of its
// way, in the allgather that of the one at i - q.
void NestedRings::hop(int64_t s, bool gather, int64_t q) {
  Progress& now = progress(s);
  for (int64_t link = 0; link < ring_size(); ++link) {
    const auto owner = static_cast<size_t>(at(gather ? link - q : link - q - 1));
    if (segment(s).part[owner] == none) continue;
    uint32_t& hopped = now.hopped[owner];
    uint32_t& moved = now.moved[owner];
    after_.assign(1, !gather ? hopped : moved != none ? moved : summed(s, static_cast<int64_t>(owner)));
    (gather ? moved : hopped) = add(at(link), at(link + 1), segment(s).part[owner], segment(s).part[owner],
                                    gather ? TransferOp::copy : TransferOp::reduce, 0);
  }
}

void NestedRings::add_up(int64_t s) {
  Progress& now = progress(s);
  for (size_t i = 0; i < plan_.exchanges.size(); ++i) {
    const Exchange& e = plan_.exchanges[i];
    if (segment(s).space[i] == none) continue;
    after_.assign(1, now.hopped[static_cast<size_t>(e.to)]);
    for (int x = 0; x < e.flows; ++x) after_.push_back(now.raw[e.first + static_cast<size_t>(x)]);
    now.added[static_cast<size_t>(e.to)] = now.addition[i] =
        add(e.to, e.to, segment(s).space[i], segment(s).part[static_cast<size_t>(e.to)], TransferOp::reduce, channels(plan_) - 1);
  }
}

void NestedRings::send_sums(int64_t s) {
  for (const Exchange& e : plan_.exchanges) {
    for (int x = 0; x < e.flows; ++x) {
      const uint32_t piece = segment(s).piece[e.back + static_cast<size_t>(x)];
      if (piece == none) continue;
      after_.assign(1, summed(s, e.from));
      add(e.from, e.to, piece, piece, TransferOp::copy, channel(e, x));
    }
  }
}

void NestedRings::emit(TransferSink& sink, int64_t shown) {
  slices_.start(sink, false);
  shown_ = shown;
  progress_.assign(3, Progress());
  slices_.reduce_scatter(0);
  for (int64_t b = 0; b <= shown; ++b) {
    if (active(b + 1)) slices_.reduce_scatter(b + 1);
    if (active(b - 2)) slices_.allgather(b - 2);
    if (active(b)) {
      Progress& now = progress(b);
      for (auto* list : {&now.hopped, &now.moved, &now.added}) list->assign(static_cast<size_t>(plan_.servers), none);
      now.raw.assign(plan_.flows, none);
      now.addition.assign(plan_.exchanges.size(), none);
      send_raw(b);
    }
    for (int64_t q = 0; q + 1 < ring_size(); ++q) {
      if (active(b)) hop(b, false, q);
      if (active(b - 1)) hop(b - 1, true, q);
    }
    if (active(b)) add_up(b);
    if (active(b - 1)) send_sums(b - 1);
  }
  slices_.allgather(shown - 1);
}

// Time over n of a body whose flows all keep the rates that `fair` sharing gives them while all of them run: no less than it
// takes, and T* where the flows are in proportion to their loads.
double steady_time(const Network& network, const Plan& plan) {
  struct Stream {  // equal flows between the same servers; the other way it is the same
    std::vector<int64_t> servers;
    double flows, load;  // how many, and of the message, together
    double rate = 0;     // of each
  };
  std::vector<Stream> streams;
  for (const Exchange& e : plan.exchanges)
    if (e.from < e.to)
      streams.push_back({{e.from, e.to}, static_cast<double>(e.flows), plan.parts[static_cast<size_t>(e.from)] + plan.parts[static_cast<size_t>(e.to)]});
  if (!plan.ring.empty())
    streams.push_back({plan.ring, 1, 2 * static_cast<double>(plan.ring.size() - 1) * plan.parts[static_cast<size_t>(plan.ring[0])]});

  // Max-min fairness: the server with the least for each of its flows decides on them, and so on without them.
  const auto p = static_cast<size_t>(plan.servers);
  std::vector<double> free(p), flows(p, 0);
  for (size_t v = 0; v < p; ++v) free[v] = 1 / network.slowdown(static_cast<int>(v) * network.ranks_per_server()).to_double();
  for (const Stream& stream : streams)
    for (const int64_t v : stream.servers) flows[static_cast<size_t>(v)] += stream.flows;
  double time = 0;
  for (;;) {
    size_t fullest = p;
    for (size_t v = 0; v < p; ++v)
      if (flows[v] > 0 && (fullest == p || free[v] * flows[fullest] < free[fullest] * flows[v])) fullest = v;
    if (fullest == p) return time;
    const double rate = free[fullest] / flows[fullest];
    for (Stream& stream : streams) {
      if (stream.rate > 0 || std::find(stream.servers.begin(), stream.servers.end(), static_cast<int64_t>(fullest)) == stream.servers.end())
        continue;
      stream.rate = rate;
      time = std::max(time, stream.load / (stream.flows * rate));
      for (const int64_t v : stream.servers) {
        free[static_cast<size_t>(v)] = std::max(0.0, free[static_cast<size_t>(v)] - stream.flows * rate);
        flows[static_cast<size_t>(v)] -= stream.flows;
      }
    }
    flows[fullest] = 0;
  }
}

// With one flow between any two servers, a slow server that has nothing left to do but with the fastest gets its whole
// bandwidth as long as all slow servers and the ring find room at a fast one for equal shares, which takes more fast servers than slow
// ones. Where there are fewer, flows must be in proportion to their loads. Tries the fewest that come ever closer to it.
Plan choose_flows(const Network& network, bool ring, const Plan& single, const std::function<Duration(const Plan&)>& time) {
  Plan best = single;
  Duration least = time(single);
  double nearest = steady_time(network, single);
  const double closer[] = {0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0};  // over the bound
  double whole = 0, slowest = 1;
  for (int v = 0; v < network.servers(); ++v) {
    const double c = 1 / network.slowdown(v * network.ranks_per_server()).to_double();
    whole += c;
    slowest = std::min(slowest, c);
  }
  const double bound = std::max(2 * (network.servers() - 1) / whole, 1 / slowest) * (1 + 1e-9);
  std::map<size_t, Plan> candidates;  // the first plan in each step, and the nearest of all
  for (int flows = 2; flows <= 128; ++flows) {
    const Plan candidate = make_plan(network, ring, flows);
    if (candidate.flows > 8192) break;
    const double steady = steady_time(network, candidate);
    if (steady >= nearest) continue;
    nearest = steady;
    size_t step = 0;
    while (step + 1 < std::size(closer) && steady <= bound * (1 + closer[step + 1])) ++step;
    if (candidates.emplace(step, candidate).second)
      candidates.erase(std::size(closer));
    else
      candidates.insert_or_assign(std::size(closer), candidate);
    if (steady <= bound) break;
  }
  for (const auto& [step, candidate] : candidates) {
    const Duration now = time(candidate);
    if (now < least) {
      least = now;
      best = candidate;
    }
  }
  return best;
}

int64_t elements_of(const GenerateRequest& request) { return request.size.count() / request.element.count(); }

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  if (request.collective.type != CollectiveType::allreduce) return "nested rings are an AllReduce";
  if (auto reason = unsliceable(request.network)) return reason;
  const int64_t g = request.network.ranks_per_server();
  if (elements_of(request) == 0 || request.size.count() % (request.element.count() * g) != 0)
    return "the message is not a multiple of " + std::to_string(g) + (g == 1 ? " element" : " elements, one for each rank of a server");
  return std::nullopt;
}

Generated generate_nested_rings(const GenerateRequest& request) {
  bool ring = true;
  if (const auto exchange = request.options.find("exchange")) {
    static constexpr std::string_view known[] = {"ring", "direct"};
    ring = exchange->one_of(known, "exchange") == known[0];
  }
  const int64_t elements = elements_of(request), g = request.network.ranks_per_server();
  Plan plan = make_plan(request.network, ring, 1);
  // As many segments of equal length as k asks for, or as there can be.
  const auto whole = [&](int64_t k) {
    const int64_t length = segment_length(elements / g, k);
    return (elements / g + length - 1) / length;
  };
  const auto schedule = [&](int64_t k, int64_t shown) {
    k = whole(k);
    shown = std::min(shown, k);
    NestedRings rings(request.network, plan, elements, k);
    Schedule made(request.collective, elements);
    for (const Chunk& chunk : rings.slices().chunks()) made.add_chunk(chunk);
    rings.emit(made, shown);
    return made;
  };
  const auto time = [&](int64_t k, int64_t shown) { return time_of(request, schedule(k, shown)); };
  Generated result;
  if (const auto flows = request.options.find("flows"); flows && !flows->value().is_string()) {
    plan = make_plan(request.network, ring, static_cast<int>(flows->integer(1, 128)));
  } else if (flows && flows->string() != "auto") {
    flows->fail("must be a number of flows or \"auto\"");
  } else if (const size_t slow = request.network.stragglers().size() / static_cast<size_t>(g);
             slow > 1 && plan.parts.size() <= 2 * slow && request.sharing == Sharing::fair) {
    plan = choose_flows(request.network, ring, plan, [&](const Plan& candidate) {
      plan = candidate;
      return extrapolated(24, 24, time)(200);
    });
    result.notes.push_back("flows: at most " + std::to_string(plan.most_flows) + " between two servers");
  }
  if (const auto segments = segments_option(request.options)) {
    result.segments = *segments;
  } else {
    const auto per_segment = static_cast<int64_t>(schedule(1, 1).size());
    const int64_t limit = max_transfers_option(request.options) / per_segment;
    const int64_t highest = std::min(limit, elements / request.network.ranks() + 1);
    result.segments = best_segments(1, std::min(highest, elements / g), extrapolated(3, 2, time), 0.1);
    result.notes.push_back(chosen_segments_note(result.segments) + (result.segments == limit ? " (max_transfers allows no more)" : ""));
  }
  double slow = 1;
  for (size_t v = 0; v < plan.parts.size(); ++v)
    if (plan.in_ring[v]) slow -= plan.parts[v];
  if (!plan.ring.empty())
    result.notes.push_back("ring: " + std::to_string(plan.ring.size()) + " servers, which sum up " +
                           std::to_string(static_cast<int64_t>(std::lround((1 - slow) * 1e4)) / 100) + " % of the message");
  result.segments = whole(result.segments);
  result.schedule = schedule(result.segments, result.segments);
  return result;
}

}  // namespace

const Algorithm nested_rings_algorithm = {"nested_rings", "rings over ever fewer servers, optimal for unequal NICs", inapplicable,
                                          generate_nested_rings, {"segments", "exchange", "flows", "max_transfers"}};

}  // namespace slackline
