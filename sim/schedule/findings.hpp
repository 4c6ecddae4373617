// Collecting findings, at most so many of a rule in full.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/validate.hpp"

namespace slackline {

class FindingList {
 public:
  explicit FindingList(size_t max_per_rule) : max_per_rule_(max_per_rule) {}

  /// The finding, to be filled in further, or null when there are enough of its rule.
  Finding* add(std::string_view rule, Severity severity, std::string message, std::string where = {}) {
    if (severity == Severity::error) ++errors_;
    size_t& count = counts_[{rule, severity}];
    if (count++ >= max_per_rule_) return nullptr;
    list_.push_back({.rule = rule, .severity = severity, .message = std::move(message), .where = std::move(where)});
    return &list_.back();
  }
  void add(Finding finding) {
    if (Finding* added = add(finding.rule, finding.severity, {})) *added = std::move(finding);
  }
  size_t errors() const { return errors_; }

  /// Errors first, then warnings, then what is worth knowing.
  std::vector<Finding> take();

 private:
  size_t max_per_rule_;
  size_t errors_ = 0;
  std::map<std::pair<std::string_view, Severity>, size_t> counts_;
  std::vector<Finding> list_;
};

}  // namespace slackline
