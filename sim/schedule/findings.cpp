#include "schedule/findings.hpp"

#include <algorithm>

namespace slackline {

std::vector<Finding> FindingList::take() {
  for (Finding& finding : list_) {
    size_t& count = counts_[{finding.rule, finding.severity}];
    if (count <= max_per_rule_) continue;
    finding.message += " (and " + std::to_string(count - max_per_rule_) + " more of this rule)";
    count = 0;
  }
  std::stable_sort(list_.begin(), list_.end(), [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return std::move(list_);
}

}  // namespace slackline
