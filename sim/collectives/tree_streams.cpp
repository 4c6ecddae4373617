#include "collectives/tree_streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "collectives/segments.hpp"

namespace slackline {

namespace {

// The ranks of a tree by depth.
std::vector<std::vector<int>> by_depth(const Tree& tree) {
  const std::vector<int> all = depths(tree);
  std::vector<std::vector<int>> result;
  for (int v = 0; v < static_cast<int>(all.size()); ++v) {
    const int d = all[static_cast<size_t>(v)];
    if (d < 0) continue;
    if (static_cast<size_t>(d) >= result.size()) result.resize(static_cast<size_t>(d) + 1);
    result[static_cast<size_t>(d)].push_back(v);
  }
  return result;
}

int level_after(const Stream& stream, int op) { return op < 0 ? 0 : stream.ops[static_cast<size_t>(op)].level + 1; }

// Shares as whole numbers of 1/whole.
struct Shares {
  std::vector<int64_t> numerators;
  int64_t whole = 1;
};
Shares common_shares(const std::vector<Stream>& streams) {
  Fraction whole(1);
  for (const Stream& stream : streams)
    whole *= Fraction(stream.share.denominator() / std::gcd(stream.share.denominator(), whole.numerator()));
  Shares result{{}, whole.numerator()};
  for (const Stream& stream : streams) result.numerators.push_back((stream.share * whole).numerator());
  return result;
}

}  // namespace

void add_reduce(Stream& stream, const Tree& tree) {
  std::vector<int> last(tree.parent.size(), -1);  // the latest op into each rank
  std::vector<std::vector<int>> ranks = by_depth(tree);
  for (size_t d = ranks.size() - 1; d > 0; --d) {
    // The child that is ready first goes first.
    std::stable_sort(ranks[d].begin(), ranks[d].end(), [&](int a, int b) {
      return level_after(stream, last[static_cast<size_t>(a)]) < level_after(stream, last[static_cast<size_t>(b)]);
    });
    for (const int v : ranks[d]) {
      const int parent = tree.parent[static_cast<size_t>(v)];
      int& before = last[static_cast<size_t>(parent)];
      const int own = last[static_cast<size_t>(v)];
      stream.ops.push_back({v, parent, TransferOp::reduce, {own, before},
                            std::max(level_after(stream, own), level_after(stream, before)), 0});
      before = static_cast<int>(stream.ops.size()) - 1;
    }
  }
}

void add_broadcast(Stream& stream, const Tree& tree) {
  std::vector<int> arrival(tree.parent.size(), -1);
  for (size_t i = 0; i < stream.ops.size(); ++i)
    if (stream.ops[i].dst == tree.root) arrival[static_cast<size_t>(tree.root)] = static_cast<int>(i);
  const std::vector<std::vector<int>> ranks = by_depth(tree);
  for (size_t d = 1; d < ranks.size(); ++d) {
    for (const int v : ranks[d]) {
      const int parent = tree.parent[static_cast<size_t>(v)], source = arrival[static_cast<size_t>(parent)];
      stream.ops.push_back({parent, v, TransferOp::copy, {source, -1}, level_after(stream, source), 0});
      arrival[static_cast<size_t>(v)] = static_cast<int>(stream.ops.size()) - 1;
    }
  }
}

void assign_own_channels(std::vector<Stream>& streams) {
  int base = 0;
  for (Stream& stream : streams) {
    // Two hops may share a channel if they have neither the source nor the destination in common.
    std::map<std::pair<int, int>, bool> sends, receives;  // by rank and channel
    int used = 0;
    for (StreamOp& op : stream.ops) {
      int channel = 0;
      while (sends.contains({op.src, channel}) || receives.contains({op.dst, channel})) ++channel;
      sends[{op.src, channel}] = receives[{op.dst, channel}] = true;
      used = std::max(used, channel + 1);
      op.channel = base + channel;
    }
    base += used;
  }
}

StreamPlan plan_streams(const Network& network, const std::vector<Stream>& streams) {
  StreamPlan plan;
  std::vector<double> load(network.links().size(), 0);
  for (const Stream& stream : streams) {
    const double share = stream.share.to_double() / (stream.part < 0 ? 1 : network.ranks());
    for (const StreamOp& op : stream.ops) {
      const Route& route = network.route(op.src, op.dst);
      for (const uint32_t link : route.links) load[link] += share;
      plan.latency = std::max(plan.latency, route.latency);
      plan.levels = std::max(plan.levels, op.level + 1);
    }
    plan.ops += stream.ops.size();
  }
  double slowest = 0;  // seconds a byte of message
  for (size_t link = 0; link < load.size(); ++link)
    slowest = std::max(slowest, load[link] * 8 / static_cast<double>(network.links()[link].capacity.count()));
  plan.bytes_per_second = slowest > 0 ? 1 / slowest : 0;
  return plan;
}

Schedule schedule_streams(const Collective& collective, const std::vector<Stream>& streams, int64_t chunks, int64_t shown) {
  const Shares shares = common_shares(streams);
  const int64_t parts = has_parts(collective.type) ? collective.ranks : 1;
  Schedule schedule(collective, (Fraction(shares.whole) * Fraction(chunks) * Fraction(parts)).numerator());

  // Chunks: stream by stream within the message or its part.
  std::vector<int64_t> used(static_cast<size_t>(parts), 0);
  std::vector<uint32_t> first_chunk;
  for (size_t s = 0; s < streams.size(); ++s) {
    const int64_t part = std::max(streams[s].part, 0);
    int64_t& offset = used[static_cast<size_t>(part)];
    first_chunk.push_back(static_cast<uint32_t>(schedule.chunks().size()));
    for (int64_t j = 0; j < chunks; ++j)
      schedule.add_chunk({Buffer::data, (part * shares.whole + offset) * chunks + j * shares.numerators[s], shares.numerators[s]});
    offset += shares.numerators[s];
  }

  size_t ops = 0;
  int levels = 0;
  for (const Stream& stream : streams) {
    ops += stream.ops.size();
    for (const StreamOp& op : stream.ops) {
      levels = std::max(levels, op.level + 1);
      if (op.channel > UINT16_MAX)
        throw Error(ErrorKind::input, "the schedule needs more than 65536 channels: use fewer ranks or trees");
    }
  }
  shown = std::min(shown, chunks);
  schedule.reserve(ops * static_cast<size_t>(shown), 2 * ops * static_cast<size_t>(shown));

  // Step by step, so that list order is the order of a pipeline without delays.
  std::vector<std::vector<uint32_t>> index(streams.size());  // by op and chunk
  for (size_t s = 0; s < streams.size(); ++s) index[s].resize(streams[s].ops.size() * static_cast<size_t>(shown));
  const auto place = [&](int op, int64_t chunk) { return static_cast<size_t>(op * shown + chunk); };
  for (int64_t step = 0; step < levels - 1 + shown; ++step) {
    for (size_t s = 0; s < streams.size(); ++s) {
      for (int o = 0; o < static_cast<int>(streams[s].ops.size()); ++o) {
        const StreamOp& op = streams[s].ops[static_cast<size_t>(o)];
        const int64_t chunk = step - op.level;
        if (chunk < 0 || chunk >= shown) continue;
        uint32_t after[2];
        size_t count = 0;
        for (const int earlier : op.after)
          if (earlier >= 0) after[count++] = index[s][place(earlier, chunk)];
        const uint32_t data = first_chunk[s] + static_cast<uint32_t>(chunk);
        index[s][place(o, chunk)] = static_cast<uint32_t>(schedule.size());
        schedule.add({static_cast<uint32_t>(op.src), static_cast<uint32_t>(op.dst), data, data, op.op,
                      static_cast<uint16_t>(op.channel), {after, count}});
      }
    }
  }
  return schedule;
}

ChunkOptions parse_chunk_options(const JsonCursor& options) {
  ChunkOptions result;
  if (const auto chunk = options.find("chunk"); chunk && chunk->value() != "auto") {
    result.chunk = chunk->bytes();
    if (result.chunk.count() < 1) chunk->fail("a chunk has at least 1 byte");
  }
  if (const auto most = options.find("max_transfers")) result.max_transfers = most->integer(1, int64_t{1} << 31);
  return result;
}

double pipeline_seconds(const StreamPlan& plan, const Network& network, Bytes size, int64_t chunks) {
  const double seconds = static_cast<double>(size.count()) / plan.bytes_per_second;
  const double overhead = static_cast<double>(network.message_overhead().count()) * 1e-12;
  const double n = static_cast<double>(chunks), levels = plan.levels;
  return (levels + n - 1) * (overhead + seconds / n) + levels * static_cast<double>(plan.latency.count()) * 1e-12;
}

int64_t choose_chunks(const GenerateRequest& request, const std::vector<Stream>& streams, const StreamPlan& plan,
                      const ChunkOptions& options, std::vector<std::string>& notes) {
  Fraction largest(0);
  for (const Stream& stream : streams)
    largest = std::max(largest, stream.part < 0 ? stream.share : stream.share / Fraction(request.network.ranks()));
  const double bytes = largest.to_double() * static_cast<double>(request.size.count());  // of the largest stream
  const auto chunks_of = [&](double chunk) { return static_cast<int64_t>(std::ceil(std::max(bytes / chunk, 1.0) - 1e-9)); };
  const int64_t most = std::max<int64_t>(
      1, std::min(options.max_transfers / static_cast<int64_t>(plan.ops), chunks_of(static_cast<double>(request.element.count()))));

  if (options.chunk.count() > 0) {
    const int64_t chunks = chunks_of(static_cast<double>(options.chunk.count()));
    if (chunks > options.max_transfers / static_cast<int64_t>(plan.ops))
      request.options.at("chunk").fail("makes " + std::to_string(chunks * static_cast<int64_t>(plan.ops)) +
                                       " transfers; max_transfers is " + std::to_string(options.max_transfers));
    notes.push_back(fmt::format("{} chunk{} a stream, as given", chunks, chunks == 1 ? "" : "s"));
    return chunks;
  }

  // A pipeline that is full goes on as it does then.
  const int64_t full = std::max<int64_t>(4 * plan.levels, 96);
  const std::function<Duration(int64_t)> simulated = extrapolated(full, full / 3, [&](int64_t chunks, int64_t shown) {
    return request.simulate(schedule_streams(request.collective, streams, chunks, shown));
  });
  std::map<int64_t, double> known;
  int64_t best = 0;
  const auto seconds = [&](int64_t chunks) {
    chunks = std::clamp<int64_t>(chunks, 1, most);
    auto [entry, is_new] = known.try_emplace(chunks, 0.0);
    if (is_new)
      entry->second = request.simulate
                          ? static_cast<double>(simulated(chunks).count()) * 1e-12
                          : pipeline_seconds(plan, request.network, request.size, chunks);
    if (best == 0 || std::pair(entry->second, chunks) < std::pair(known[best], best)) best = chunks;
    return entry->second;
  };
  // The closed form has its minimum at n^2 = (levels - 1)(bytes/rate)/overhead. The chunk size starts at a quarter
  // of that, doubles as long as this helps, then shrinks again in steps of an eighth.
  const double overhead = std::max(static_cast<double>(request.network.message_overhead().count()) * 1e-12, 1e-12);
  const double optimum = std::sqrt((plan.levels - 1) * static_cast<double>(request.size.count()) / plan.bytes_per_second / overhead);
  double chunk = std::max(bytes / std::clamp(4 * optimum, 1.0, static_cast<double>(most)), 1.0);
  double time = seconds(chunks_of(chunk));
  while (chunks_of(chunk) > 1) {
    const double next = seconds(chunks_of(2 * chunk));
    if (next > time) break;
    chunk *= 2;
    time = next;
  }
  for (const double step = chunk / 8; chunk > 2 * step;) {
    const double next = seconds(chunks_of(chunk - step));
    if (next >= time && chunks_of(chunk - step) != chunks_of(chunk)) break;
    chunk -= step;
    time = next;
  }
  notes.push_back(fmt::format("{} chunk{} a stream: the least {} of {} tried", best, best == 1 ? "" : "s",
                              request.simulate ? "simulated time" : "time by the closed form", known.size()));
  return best;
}

Generated generate_streams(const GenerateRequest& request, const std::vector<Stream>& streams,
                           const ChunkOptions& options, std::vector<std::string> notes) {
  const StreamPlan plan = plan_streams(request.network, streams);
  notes.push_back(fmt::format("planned rate {:.6g} GB/s, {} streams of up to {} hops", plan.bytes_per_second / 1e9, streams.size(), plan.levels));
  Generated result;
  result.segments = choose_chunks(request, streams, plan, options, notes);
  result.schedule = schedule_streams(request.collective, streams, result.segments);
  result.notes = std::move(notes);
  return result;
}

}  // namespace slackline
