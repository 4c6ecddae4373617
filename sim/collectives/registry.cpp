#include <algorithm>

#include "collectives/algorithm.hpp"
#include "collectives/iccl.hpp"
#include "collectives/nested_rings.hpp"
#include "collectives/optcc.hpp"
#include "collectives/r2ccl.hpp"
#include "collectives/recursive_halving_doubling.hpp"
#include "collectives/ring.hpp"
#include "collectives/tree.hpp"

namespace slackline {

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> list = {
      iccl_algorithm,
      nested_rings_algorithm,
      optcc_algorithm,
      r2ccl_algorithm,
      recursive_halving_doubling_algorithm,
      ring_algorithm,
      tree_algorithm,
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
  Generated generated = algorithm.generate(request);
  generated.schedule.set_algorithm(wanted);
  return generated;
}

}  // namespace slackline
