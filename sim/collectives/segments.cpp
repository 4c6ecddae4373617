#include "collectives/segments.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "schedule/list_timing.hpp"

namespace slackline {

int64_t best_segments(int64_t granule, int64_t highest, const std::function<Duration(int64_t)>& time, double tolerance) {
  highest = std::max<int64_t>(highest, 1);
  std::map<int64_t, Duration> known;
  const auto at = [&](int64_t segments) {
    const auto found = known.find(segments);
    return found != known.end() ? found->second : known.emplace(segments, time(segments)).first->second;
  };
  std::vector<int64_t> ladder;
  for (int64_t k = 1; k < std::min(granule, highest + 1); ++k) ladder.push_back(k);
  for (int64_t k = granule; k <= highest; k *= 2)
    ladder.push_back(k);
  if (const int64_t last = highest / granule * granule; last >= granule && ladder.back() != last) ladder.push_back(last);

  // Upwards until two rungs in a row are clearly worse than the best so far.
  size_t best = 0;
  int worse = 0;
  for (size_t i = 0; i < ladder.size() && worse < 2; ++i) {
    const Duration now = at(ladder[i]);
    if (now < at(ladder[best])) best = i;
    worse = i > best && now.count() > at(ladder[best]).count() / 100 * 101 ? worse + 1 : 0;
  }
  // The valley floor lies between the neighbours of the best rung: golden section among the multiples.
  int64_t low = ladder[best > 0 ? best - 1 : 0];
  int64_t high = ladder[std::min(best + 1, ladder.size() - 1)];
  if (low >= granule) {
    low /= granule;
    high /= granule;
    const auto wide = [&] { return high - low > std::max<int64_t>(3, static_cast<int64_t>(static_cast<double>(low) * tolerance)); };
    while (wide()) {
      const int64_t step = (high - low) * 382 / 1000;
      if (at((low + step) * granule) <= at((high - step) * granule))
        high -= step;
      else
        low += step;
    }
    if (high - low <= 3)
      for (int64_t k = low; k <= high; ++k) at(k * granule);
  }
  int64_t winner = ladder[best];
  for (const auto& [segments, duration] : known)
    if (duration < known.at(winner)) winner = segments;
  for (const auto& [segments, duration] : known)
    if (duration == known.at(winner)) return segments;
  return winner;
}

std::function<Duration(int64_t)> extrapolated(int64_t base, int64_t period,
                                              const std::function<Duration(int64_t, int64_t)>& time) {
  return [=](int64_t k) {
    if (k <= base + period) return time(k, k);
    const int64_t start = time(k, base).count();
    const auto more = static_cast<__int128>(time(k, base + period).count() - start);
    return Duration(start + static_cast<int64_t>(more * (k - base) / period));
  };
}

Duration time_of(const GenerateRequest& request, const Schedule& schedule) {
  if (request.simulate) return request.simulate(schedule);
  const MessageLayout layout(request.size, request.element, schedule.units());
  ListTiming timing(request.network, layout, schedule.chunks());
  for (size_t i = 0; i < schedule.size(); ++i) timing.add(schedule.transfer(i));
  return timing.completion() - TimePoint();
}

std::string chosen_segments_note(int64_t segments) {
  return "segments: " + std::to_string(segments) + ", the fastest of those tried";
}

std::optional<int64_t> segments_option(const JsonCursor& options) {
  const auto wanted = options.find("segments");
  if (!wanted) return std::nullopt;
  if (!wanted->value().is_string()) return wanted->integer(1, 1'000'000);
  if (wanted->string() != "auto") wanted->fail("must be a number of segments or \"auto\"");
  return std::nullopt;
}

int64_t max_transfers_option(const JsonCursor& options) {
  const auto limit = options.find("max_transfers");
  return limit ? limit->integer(1, int64_t{4} << 30) : int64_t{1} << 26;
}

}  // namespace slackline
