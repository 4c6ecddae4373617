#include <algorithm>

#include "collectives/algorithm.hpp"
#include "collectives/best.hpp"
#include "collectives/blink.hpp"
#include "collectives/iccl.hpp"
#include "collectives/nccl_ring.hpp"
#include "collectives/nccl_tree.hpp"
#include "collectives/nested_rings.hpp"
#include "collectives/optcc.hpp"
#include "collectives/r2ccl.hpp"
#include "collectives/recursive_halving_doubling.hpp"
#include "collectives/ring.hpp"

namespace slackline {

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> list = {
      best_algorithm,
      blink_algorithm,
      iccl_algorithm,
      nccl_ring_algorithm,
      nccl_tree_algorithm,
      nested_rings_algorithm,
      optcc_algorithm,
      r2ccl_algorithm,
      recursive_halving_doubling_algorithm,
      ring_algorithm,
  };
  return list;
}

Generated generate(const GenerateRequest& request) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) names.push_back(algorithm.name);
  const JsonCursor name = request.options.at("algorithm");
  const std::string wanted = name.one_of(names, "algorithm");
  const Algorithm& algorithm =
      *std::find_if(algorithms().begin(), algorithms().end(),
                    [&](const Algorithm& entry) { return entry.name == wanted; });
  if (const auto reason = algorithm.inapplicable(request)) name.fail(wanted + " does not apply: " + *reason);
  // What it sees of the options; the rest must be somebody's.
  std::vector<std::string_view> known = {"algorithm"};
  for (const Algorithm& other : algorithms()) known.insert(known.end(), other.options.begin(), other.options.end());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  request.options.expect_object(known);
  Json own = Json::object();
  std::string aside;
  for (const auto& [key, value] : request.options.members()) {
    if (key == "algorithm" || std::find(algorithm.options.begin(), algorithm.options.end(), key) != algorithm.options.end())
      own[key] = value.value();
    else
      aside += (aside.empty() ? "" : ", ") + key;
  }
  GenerateRequest narrowed = request;
  narrowed.options = request.options.with_value(own);

  Generated generated = algorithm.generate(narrowed);
  generated.schedule.set_algorithm(wanted);
  if (!aside.empty()) generated.notes.push_back("left aside, since " + wanted + " has no such option: " + aside);
  return generated;
}

}  // namespace slackline
