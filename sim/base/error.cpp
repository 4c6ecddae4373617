#include "base/error.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace slackline {

namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > 200) return {};
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (const std::string_view candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  const size_t limit = std::max(word.size(), best.size()) / 3 + 1;
  return best_distance <= limit ? std::string(best) : std::string();
}

std::string suggest_name(std::string_view word, std::span<const std::string_view> known) {
  const std::string near = nearest_name(word, known);
  if (!near.empty()) return "; did you mean \"" + near + "\"?";
  std::string text = "; known are ";
  for (size_t i = 0; i < known.size(); ++i) {
    if (i > 0) text += ", ";
    text += known[i];
  }
  return text;
}

}  // namespace slackline
