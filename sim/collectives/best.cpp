#include "collectives/best.hpp"

#include <algorithm>

namespace slackline {

namespace {

constexpr std::string_view own_name = "best";

// What an algorithm is to be tried with, besides its defaults.
std::vector<Json> variants(std::string_view algorithm, const Network& network) {
  // With more servers the simulation of all flows between any two of them takes minutes.
  if (algorithm == "nested_rings" && network.servers() <= 64) return {{{"exchange", "ring"}}, {{"exchange", "direct"}}};
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
  std::vector<std::string> notes;
};

Generated generate_best(const GenerateRequest& request) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.name != own_name) names.push_back(algorithm.name);
  std::vector<std::string> wanted;
  const auto candidates = request.options.find("candidates");
  if (candidates)
    for (const JsonCursor& name : candidates->elements()) wanted.push_back(name.one_of(names, "algorithm"));

  Generated best;
  std::vector<Trial> trials;
  std::vector<std::string> left_out;
  size_t winner = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == own_name) continue;
    if (candidates && std::find(wanted.begin(), wanted.end(), algorithm.name) == wanted.end()) continue;
    for (Json options : variants(algorithm.name, request.network)) {
      std::string label(algorithm.name);
      for (const auto& [key, value] : options.items()) label += " " + key + "=" + value.get<std::string>();
      options["algorithm"] = algorithm.name;
      if (const auto limit = request.options.find("max_transfers");
          limit && std::find(algorithm.options.begin(), algorithm.options.end(), "max_transfers") != algorithm.options.end())
        options["max_transfers"] = limit->value();
      GenerateRequest trial = request;
      trial.options = request.options.with_value(options);
      std::optional<std::string> reason = algorithm.inapplicable(trial);
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
      trials.push_back({label, request.simulate(made.schedule), made.notes});
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
    best.notes.push_back(std::to_string(++place) + ". " + trials[i].label + ": " + to_string(trials[i].time));
  for (const std::string& line : left_out) best.notes.push_back("does not apply: " + line);
  for (const std::string& note : trials[winner].notes) best.notes.push_back(trials[winner].label + ": " + note);
  return best;
}

}  // namespace

const Algorithm best_algorithm = {own_name, "the fastest of all algorithms that apply, with their best parameters", inapplicable,
                                  generate_best, {"candidates", "max_transfers"}};

}  // namespace slackline
