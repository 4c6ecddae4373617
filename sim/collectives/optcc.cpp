#include "collectives/optcc.hpp"

#include <algorithm>

#include "collectives/optcc_composition.hpp"
#include "collectives/segments.hpp"
#include "schedule/list_timing.hpp"

namespace slackline {

OptccComposition::OptccComposition(const OptccParameters& parameters)
    : slices_(parameters.network, 1, parameters.nvlink),
      k_(parameters.segments),
      slotted_(parameters.pace == Pace::slots),
      overlapped_(parameters.nvlink == NvlinkOrder::overlapped) {
  std::vector<bool> slow(static_cast<size_t>(slices_.servers()), false);
  for (const int server : parameters.stragglers) slow[static_cast<size_t>(server)] = true;
  for (int server = 0; server < slices_.servers(); ++server) {
    if (slow[static_cast<size_t>(server)]) continue;
    ring_.push_back(static_cast<uint32_t>(server));
    ring_slowdown_ = std::max(ring_slowdown_, slices_.slowdown(server));
  }
  h_ = static_cast<int64_t>(ring_.size());
}

void OptccComposition::emit(TransferSink& sink, bool probe) {
  slices_.start(sink, probe);
  start();
  // Overlapped, NVLink reduces what the next body starts with while the NICs work on this one.
  const int64_t ahead = overlapped_ ? 1 : 0;
  int64_t reduced = 0, gathered = 0;
  for (int64_t b = 0; b < bodies(); ++b) {
    for (; reduced < k_ && first_body(reduced) <= b + ahead; ++reduced) slices_.reduce_scatter(reduced);
    for (; gathered < k_ && last_body(gathered) < b; ++gathered) slices_.allgather(gathered);
    emit_body(b);
  }
  for (; gathered < k_; ++gathered) slices_.allgather(gathered);
}

namespace {

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  if (request.collective.type != CollectiveType::allreduce) return "OptCC is an AllReduce";
  return unsliceable(request.network);
}

// Servers from slowest to fastest.
std::vector<int> slowest_first(const Network& network) {
  const int g = network.ranks_per_server();
  std::vector<int> order;
  for (int server = 0; server < network.servers(); ++server) order.push_back(server);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return network.slowdown(a * g) > network.slowdown(b * g); });
  return order;
}

// Completion time over n, for many segments, where the `count` slowest are treated as stragglers.
double closed_form(const Network& network, const std::vector<int>& order, int count) {
  const auto slowdown = [&](int i) {
    return network.slowdown(order[static_cast<size_t>(i)] * network.ranks_per_server()).to_double();
  };
  const double p = network.servers();
  const double ring = slowdown(count), l = slowdown(0) / ring;
  if (count == 1) return ring * std::max(2 * (p - 1) / (p - 2 + 2 / l), l);
  return ring * std::max(2.0, l) * (p - 1) / (p - count);
}

std::unique_ptr<OptccComposition> compose(const OptccParameters& parameters) {
  return parameters.stragglers.size() == 1 ? compose_one_straggler(parameters) : compose_many_stragglers(parameters);
}

// The first `shown` segments of a message that is cut into parameters.segments.
Duration time_of(const GenerateRequest& request, OptccParameters parameters, int64_t shown) {
  const int64_t segments = parameters.segments;
  parameters.segments = shown;
  const auto candidate = compose(parameters);
  const MessageLayout layout(request.size, request.element, candidate->slices().units() / shown * segments);
  ListTiming timing(request.network, layout, candidate->slices().chunks());
  candidate->emit(timing, true);
  return timing.completion() - TimePoint();
}

Generated generate_optcc(const GenerateRequest& request) {
  const Network& network = request.network;
  const std::vector<int> order = slowest_first(network);
  const int healthiest = network.servers() - 1;
  OptccParameters parameters{network, 1, {}};
  Generated result;

  // Who is a straggler. OptCC without one still needs one to play the part.
  const int slow = static_cast<int>(network.stragglers().size()) / network.ranks_per_server();
  int count = std::clamp(slow, 1, healthiest);
  if (const auto wanted = request.options.find("stragglers"); wanted && !wanted->value().is_string()) {
    count = static_cast<int>(wanted->integer(1, healthiest));
  } else if (wanted) {
    if (wanted->string() != "auto" && wanted->string() != "slow")
      wanted->fail("must be a number of servers, \"slow\" (all that are) or \"auto\" (as many as make the schedule fastest)");
    if (wanted->string() == "auto") {
      int best = 1;
      for (int candidate = 2; candidate <= count; ++candidate)
        if (closed_form(network, order, candidate) < closed_form(network, order, best)) best = candidate;
      if (best != count)
        result.notes.push_back("stragglers: the " + std::to_string(best) + " slowest of " + std::to_string(count) +
                               " slow servers; the others stay in the ring");
      count = best;
    }
  }
  parameters.stragglers.assign(order.begin(), order.begin() + count);

  if (const auto nvlink = request.options.find("nvlink")) {
    static constexpr std::string_view known[] = {"overlapped", "alternating"};
    parameters.nvlink =
        nvlink->one_of(known, "NVLink order") == known[0] ? NvlinkOrder::overlapped : NvlinkOrder::alternating;
  }
  if (const auto pace = request.options.find("pace")) {
    static constexpr std::string_view known[] = {"slots", "asap"};
    parameters.pace = pace->one_of(known, "pace") == known[0] ? Pace::slots : Pace::asap;
  }

  const int64_t per_segment = (compose(parameters))->transfers();
  const int64_t granule = count == 1 ? 4 : 1;
  if (const auto segments = segments_option(request.options)) {
    parameters.segments = *segments;
  } else {
    const int64_t limit = max_transfers_option(request.options);
    // Sections of less than an element would be empty.
    const int64_t sections = int64_t{network.servers() - count} * network.ranks_per_server();
    const int64_t elements = (request.size.count() + request.element.count() - 1) / request.element.count();
    const int64_t highest = std::min(limit / per_segment, elements / sections + 1);
    parameters.segments = best_segments(granule, highest, extrapolated(8, 4, [&](int64_t k, int64_t shown) {
      OptccParameters candidate = parameters;
      candidate.segments = k;
      return time_of(request, candidate, shown);
    }));
    result.notes.push_back(chosen_segments_note(parameters.segments) +
                           (parameters.segments + granule > limit / per_segment ? " (max_transfers allows no more)" : ""));
  }

  const auto composition = compose(parameters);
  Schedule& schedule = result.schedule;
  schedule = Schedule(request.collective, composition->slices().units());
  for (const Chunk& chunk : composition->slices().chunks()) schedule.add_chunk(chunk);
  schedule.reserve(static_cast<size_t>(composition->transfers()), static_cast<size_t>(composition->transfers()));
  composition->emit(schedule);
  result.segments = parameters.segments;
  return result;
}

}  // namespace

const Algorithm optcc_algorithm = {"optcc", "OptCC's four pipelined stages around the stragglers", inapplicable,
                                   generate_optcc, {"max_transfers", "nvlink", "pace", "segments", "stragglers"}};

}  // namespace slackline
