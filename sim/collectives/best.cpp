#include "collectives/best.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace slackline {

namespace {

constexpr std::string_view own_name = "best";
// Tried first: cheap to time, or likely to win, so that the others need not be timed once their loads alone take longer.
constexpr std::array<std::string_view, 3> first_names = {"ring", "nested_rings", "optcc"};
// Exchanges between any two of more servers, or more of them, take minutes to simulate.
constexpr int most_servers_at_once = 64;
constexpr int64_t most_exchanges = 262'144;

// What an algorithm is to be tried with, besides its defaults.
std::vector<Json> variants(std::string_view algorithm, const Network& network) {
  if (algorithm == "nested_rings" && network.servers() <= most_servers_at_once) return {{{"exchange", "ring"}}, {{"exchange", "direct"}}};
  if (algorithm == "optcc") return {{{"pace", "asap"}, {"stragglers", "auto"}}};
  if (algorithm == "r2ccl") return {{{"form", "balance"}}, {{"form", "allreduce"}}};
  return {Json::object()};
}

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  if (!request.simulate) return "it needs a simulator to compare schedules";
  return std::nullopt;
}

struct Trial {
  std::string label;  // the algorithm and its variant
  Duration time;
  bool simulated;  // otherwise it takes at least `time`
  std::vector<std::string> notes;
};

// What every schedule takes at least: the busiest link's bytes at its rate.
Duration busiest_link(const GenerateRequest& request, const Schedule& schedule) {
  const Network& network = request.network;
  const MessageLayout layout(request.size, request.element, schedule.units());
  std::vector<double> bytes(network.links().size(), 0);
  for (size_t i = 0; i < schedule.size(); ++i) {
    const auto from = static_cast<int>(schedule.src(i)), to = static_cast<int>(schedule.dst(i));
    if (from == to) continue;
    const int64_t length = layout.length(schedule.chunks()[schedule.src_chunk(i)], schedule.chunks()[schedule.dst_chunk(i)]);
    for (const uint32_t link : network.route(from, to).links) bytes[link] += static_cast<double>(length);
  }
  double seconds = 0;
  for (size_t link = 0; link < bytes.size(); ++link)
    seconds = std::max(seconds, bytes[link] * 8 / static_cast<double>(network.links()[link].capacity.count()));
  return Duration(static_cast<int64_t>(seconds * 1e12));
}

// All but `best`, in the order in which they are tried.
std::vector<const Algorithm*> candidates_in_order() {
  std::vector<const Algorithm*> order;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.name != own_name) order.push_back(&algorithm);
  std::stable_sort(order.begin(), order.end(), [](const Algorithm* a, const Algorithm* b) {
    const auto place = [](const Algorithm* x) { return std::find(first_names.begin(), first_names.end(), x->name); };
    return place(a) < place(b);
  });
  return order;
}

Generated generate_best(const GenerateRequest& request) {
  std::vector<std::string_view> names;
  const std::vector<const Algorithm*> all = candidates_in_order();
  for (const Algorithm* algorithm : all) names.push_back(algorithm->name);
  std::vector<std::string> wanted;
  const auto candidates = request.options.find("candidates");
  if (candidates)
    for (const JsonCursor& name : candidates->elements()) wanted.push_back(name.one_of(names, "algorithm"));

  Generated best;
  std::vector<Trial> trials;
  std::vector<std::string> left_out;
  size_t winner = 0;
  for (const Algorithm* tried : all) {
    const Algorithm& algorithm = *tried;
    if (candidates && std::find(wanted.begin(), wanted.end(), algorithm.name) == wanted.end()) continue;
    for (Json options : variants(algorithm.name, request.network)) {
      std::string label(algorithm.name);
      for (const auto& [key, value] : options.items()) label += " " + key + "=" + value.get<std::string>();
      options["algorithm"] = algorithm.name;
      if (const auto limit = request.options.find("max_transfers");
          limit && std::find(algorithm.options.begin(), algorithm.options.end(), "max_transfers") != algorithm.options.end()) {
        const int64_t most = limit->integer(1, int64_t{1} << 31);
        options["max_transfers"] = algorithm.name == "blink" ? std::min(most, most_exchanges) : most;
      }
      GenerateRequest trial = request;
      trial.options = request.options.with_value(options);
      bool simulated = true;
      trial.simulate = [&](const Schedule& schedule) {
        const Duration least = busiest_link(request, schedule);
        simulated = trials.empty() || least < trials[winner].time;
        return simulated ? request.simulate(schedule) : least;
      };
      std::optional<std::string> reason = algorithm.inapplicable(trial);
      if (!reason && algorithm.name == "blink" && request.network.servers() > most_servers_at_once)
        reason = "exchanges between any two of " + std::to_string(request.network.servers()) + " servers take too long to simulate";
      Generated made;
      // Whether a variant applies may turn out only when it is generated.
      try {
        if (!reason) made = algorithm.generate(trial);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::input) throw;
        reason = error.message();
      }
      if (reason) {
        left_out.push_back(label + ": " + *reason);
        continue;
      }
      const Duration time = trial.simulate(made.schedule);
      trials.push_back({label, time, simulated, made.notes});
      if (trials.size() == 1 || trials.back().time < trials[winner].time) {
        winner = trials.size() - 1;
        best = std::move(made);
      }
    }
  }
  if (trials.empty()) {
    std::string reasons;
    for (const std::string& line : left_out) reasons += (reasons.empty() ? "" : "; ") + line;
    (candidates ? *candidates : request.options.at("algorithm")).fail("no algorithm applies: " + reasons);
  }

  std::vector<size_t> order(trials.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return trials[a].time < trials[b].time; });
  best.notes.clear();
  int place = 0;
  for (const size_t i : order)
    best.notes.push_back(fmt::format("{}. {}: {}{:.2f} us", ++place, trials[i].label, trials[i].simulated ? "" : "at least ",
                                     static_cast<double>(trials[i].time.count()) * 1e-6));
  for (const std::string& line : left_out) best.notes.push_back("left out: " + line);
  for (const std::string& note : trials[winner].notes) best.notes.push_back(trials[winner].label + ": " + note);
  return best;
}

}  // namespace

const Algorithm best_algorithm = {own_name, "the fastest of all algorithms that apply, with their best parameters", inapplicable,
                                  generate_best, {"candidates", "max_transfers"}};

}  // namespace slackline
