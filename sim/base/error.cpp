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

std::string one_line(std::string text) {
  constexpr size_t limit = 2000;
  if (text.size() > limit) {
    size_t end = limit - 3;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // not within a UTF-8 character
    text = text.substr(0, end) + "...";
  }
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

std::string escape_pointer(std::string_view key) {
  std::string text;
  for (const char c : key) {
    if (c == '~')
      text += "~0";
    else if (c == '/')
      text += "~1";
    else
      text += c;
  }
  return text;
}

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
