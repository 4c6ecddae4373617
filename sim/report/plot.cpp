#include "report/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "report/report.hpp"
#include "report/stages.hpp"

namespace slackline {

namespace {

// Okabe and Ito's colours, which people with any common colour blindness can tell apart (https://jfly.uni-koeln.de/color/).
constexpr std::array<std::string_view, stage_count> colours = {"#0072B2", "#E69F00", "#D55E00", "#009E73",
                                                               "#56B4E9", "#CC79A7", "#009E73", "#999999"};
constexpr double plot_width = 1000, left = 150, right = 30;
constexpr size_t most_rows = 64, most_labels = 1500, most_bars = 60'000;

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      default: result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

// Shortened to about `most` characters, not within one.
std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

// With at most two decimals and none that are zero.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

struct Bar {
  double from, to;  // in pixels
  Stage stage;
  int64_t segment;
};

struct Unit {
  double picoseconds;
  const char* name;
};

// The largest unit in which the time is at least 1.
Unit unit_of(Duration time) {
  static constexpr std::array<Unit, 5> units = {Unit{1e12, "s"}, {1e9, "ms"}, {1e6, "µs"}, {1e3, "ns"}, {1, "ps"}};
  for (const Unit& unit : units)
    if (static_cast<double>(time.count()) >= unit.picoseconds) return unit;
  return units.back();
}

// 1, 2 or 5 times a power of ten, so that there are 5 to 12 steps.
double step_of(double range) {
  double step = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double factor : {5.0, 2.0})
    if (range / (step * factor) >= 5) return step * factor;
  return step;
}

class Plot {
 public:
  Plot(const PlayedRun& run, const std::string& title) : run_(run), recording_(run.result.recording), flows_(run), title_(title) {
    if (recording_.started.size() != flows_.size()) throw Error(ErrorKind::usage, "a plot needs a run whose times were recorded");
    end_ = TimePoint() + run.result.time;
    for (const TimePoint time : recording_.released)
      if (time != TimePoint::never()) end_ = std::max(end_, time);
    for (const TimePoint time : recording_.started)
      if (time != TimePoint::never()) end_ = std::max(end_, time);
    for (const Recording::Instant& instant : recording_.instants) end_ = std::max(end_, instant.time);
    if (end_ == TimePoint()) end_ = TimePoint(1);
    for (size_t g = 0; g < run.groups.size(); ++g) {
      first_rank_.push_back(ranks_);
      ranks_ += run.groups[g].ranks.size();
    }
    per_row_ = (ranks_ + most_rows - 1) / most_rows;
    rows_ = (ranks_ + per_row_ - 1) / per_row_;
    half_ = std::clamp(std::floor(640.0 / static_cast<double>(rows_) / 2), 4.0, 16.0);
    bins_ = std::min<size_t>(1000, most_bars / (2 * rows_));
  }

  std::string svg() {
    const double top = 62 + instant_rows();
    const double gantt_height = static_cast<double>(rows_) * row_height();
    const double load_top = top + gantt_height + 52, load_height = recording_.loads.empty() ? 0 : 130;
    height_ = load_top + load_height + (recording_.loads.empty() ? 0 : 62);
    gantt(top);
    instants(top - 4, recording_.loads.empty() ? top + gantt_height : load_top + load_height);
    time_axis(top, top + gantt_height, true);
    if (!recording_.loads.empty()) loads(load_top, load_height);
    const std::string heading =
        fmt::format("<text x=\"{}\" y=\"20\" font-size=\"15\" font-weight=\"bold\">{}</text>\n", number(left), escaped(shortened(title_, 130)));
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
               "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#222\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
               number(left + plot_width + right), number(height_)) +
           heading + legend(40) + body_ + "</svg>\n";
  }

 private:
  double x(TimePoint time) const { return plot_width * static_cast<double>(time.count()) / static_cast<double>(end_.count()); }
  double gap() const { return half_ >= 6 ? 3 : half_ > 4 ? 2 : 1; }
  double row_height() const { return 2 * half_ + gap(); }

  // Rows for the labels of instants: none, or as many as are needed.
  double instant_rows() const { return recording_.instants.empty() ? 0 : 8 + 14 * static_cast<double>(std::min<size_t>(recording_.instants.size(), 6)); }

  void gantt(double top) {
    std::vector<std::vector<uint32_t>> by_half(2 * rows_);
    for (uint32_t flow = 0; flow < flows_.size(); ++flow) {
      if (recording_.started[flow] == TimePoint::never()) continue;
      const size_t g = flows_.group(flow);
      const Schedule& schedule = run_.groups[g].schedule;
      const uint32_t t = flows_.transfer(flow);
      by_half[2 * row_of(g, schedule.src(t))].push_back(flow);
      if (schedule.src(t) != schedule.dst(t)) by_half[2 * row_of(g, schedule.dst(t)) + 1].push_back(flow);
    }
    const auto late = [this](uint32_t a, uint32_t b) { return recording_.started[a] < recording_.started[b]; };
    for (size_t i = 0; i < by_half.size(); ++i) {
      std::stable_sort(by_half[i].begin(), by_half[i].end(), late);
      const double y = top + static_cast<double>(i / 2) * row_height() + (i % 2 ? half_ : 0);
      body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", number(left), number(y), number(plot_width),
                           number(half_), i % 2 ? "#f4f4f4" : "#ececec");
      half_row(by_half[i], y);
    }
    for (size_t row = 0; row < rows_; ++row) {
      // Rows too low for their names have every other one, or every fourth.
      const size_t every = row_height() >= 11 ? 1 : 2;
      if (row % every == 0) row_label(row, top + static_cast<double>(row) * row_height() + half_ + std::min(4.0, row_height() * 0.3));
    }
    body_ += fmt::format("<text transform=\"translate(14,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                         number(top + static_cast<double>(rows_) * row_height() / 2), per_row_ > 1 ? "ranks, several a row" : "rank");
  }

  size_t row_of(size_t group, uint32_t rank) const { return (first_rank_[group] + rank) / per_row_; }

  std::string rank_name(size_t index) const {
    const size_t g = static_cast<size_t>(std::upper_bound(first_rank_.begin(), first_rank_.end(), index) - first_rank_.begin()) - 1;
    const size_t rank = index - first_rank_[g];
    return run_.groups.size() > 1 ? fmt::format("{}/{}", shortened(run_.groups[g].name, 8), rank) : std::to_string(rank);
  }

  bool slow(size_t index) const {
    const size_t g = static_cast<size_t>(std::upper_bound(first_rank_.begin(), first_rank_.end(), index) - first_rank_.begin()) - 1;
    const std::vector<int>& stragglers = run_.groups[g].stragglers;
    return std::find(stragglers.begin(), stragglers.end(), static_cast<int>(index - first_rank_[g])) != stragglers.end();
  }

  void row_label(size_t row, double y) {
    const size_t from = row * per_row_, to = std::min(ranks_, from + per_row_) - 1;
    bool straggler = false;
    for (size_t i = from; i <= to; ++i) straggler = straggler || slow(i);
    std::string text = from == to ? rank_name(from) : fmt::format("{} to {}", rank_name(from), rank_name(to));
    if (straggler) text += from == to ? " (straggler)" : " *";
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"{}\"{}>{}</text>\n", number(left - 6), number(y),
                         number(std::clamp(row_height(), 8.0, 11.0)), straggler ? " font-weight=\"bold\"" : "", escaped(text));
  }

  Bar bar_of(uint32_t flow) const {
    const size_t g = flows_.group(flow);
    const uint32_t t = flows_.transfer(flow);
    const TimePoint to = recording_.released[flow] == TimePoint::never() ? end_ : recording_.released[flow];
    return {x(recording_.started[flow]), x(to), flows_.stages(g).stage(t), flows_.stages(g).place(t).segment};
  }

  // What one side of a row does. Exact, in lanes where several transfers go on at once; in bins where there is too much.
  void half_row(const std::vector<uint32_t>& flows, double y) {
    std::vector<std::vector<Bar>> lanes;
    const size_t most_lanes = static_cast<size_t>(half_ / 3);
    size_t bars = 0;
    for (const uint32_t flow : flows) {
      const Bar bar = bar_of(flow);
      used_[static_cast<size_t>(bar.stage)] = true;
      if (bar.to <= bar.from) continue;
      size_t lane = 0;
      while (lane < lanes.size() && !lanes[lane].empty() && lanes[lane].back().to > bar.from + 1e-9) ++lane;
      if (lane == lanes.size()) lanes.emplace_back();
      std::vector<Bar>& there = lanes[lane];
      if (!there.empty() && there.back().stage == bar.stage && bar.from - there.back().to < 0.5 &&
          (bar.to - bar.from < 2 || there.back().to - there.back().from < 2)) {
        there.back().to = bar.to;
        if (there.back().segment != bar.segment) there.back().segment = -1;
      } else {
        there.push_back(bar);
        ++bars;
      }
      if (lanes.size() > most_lanes || bars > bins_) return binned(flows, y);
    }
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const double lane_height = half_ / static_cast<double>(lanes.size());
      draw(lanes[lane], y + lane_height * static_cast<double>(lane), lane_height);
    }
  }

  // Each bin in the colour of the stage that takes most of it, where any rank of the row is busy for half of the bin.
  void binned(const std::vector<uint32_t>& flows, double y) {
    const double width = plot_width / static_cast<double>(bins_);
    std::vector<std::array<double, stage_count>> busy(bins_);
    for (const uint32_t flow : flows) {
      const Bar bar = bar_of(flow);
      used_[static_cast<size_t>(bar.stage)] = true;
      for (auto bin = static_cast<size_t>(bar.from / width); bin < bins_ && static_cast<double>(bin) * width < bar.to; ++bin) {
        const double begin = static_cast<double>(bin) * width;
        busy[bin][static_cast<size_t>(bar.stage)] += std::max(0.0, std::min(bar.to, begin + width) - std::max(bar.from, begin));
      }
    }
    binned_ = true;
    std::vector<Bar> bars;
    for (size_t bin = 0; bin < bins_; ++bin) {
      const auto most = std::max_element(busy[bin].begin(), busy[bin].end());
      const double all = std::accumulate(busy[bin].begin(), busy[bin].end(), 0.0);
      if (all < 0.5 * width) continue;
      const Bar bar{static_cast<double>(bin) * width, static_cast<double>(bin + 1) * width, static_cast<Stage>(most - busy[bin].begin()), -1};
      if (!bars.empty() && bars.back().stage == bar.stage && bar.from - bars.back().to < 1e-6)
        bars.back().to = bar.to;
      else
        bars.push_back(bar);
    }
    draw(bars, y, half_);
  }

  void draw(const std::vector<Bar>& bars, double y, double height) {
    std::array<std::string, stage_count> paths;
    std::string labels;
    for (const Bar& bar : bars) {
      // A hair of space tells wide neighbours apart.
      const double width = std::max(bar.to - bar.from - (bar.to - bar.from > 3 ? 0.5 : 0), 0.15);
      paths[static_cast<size_t>(bar.stage)] += fmt::format("M{} 0h{}v{}h-{}z", number(bar.from), number(width), number(height), number(width));
      const std::string segment = std::to_string(bar.segment);
      if (bar.segment >= 0 && height >= 9 && width > 8 + 6 * static_cast<double>(segment.size()) && labels_ < most_labels) {
        ++labels_;
        const bool light = bar.stage == Stage::upload || bar.stage == Stage::server_reduce || bar.stage == Stage::server_copy;
        labels += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>", number(left + bar.from + width / 2), number(y + height / 2 + 3.2),
                              light ? " fill=\"#000\"" : "", segment);
      }
    }
    for (size_t stage = 0; stage < stage_count; ++stage)
      if (!paths[stage].empty())
        body_ += fmt::format("<path transform=\"translate({},{})\" fill=\"{}\" d=\"{}\"/>\n", number(left), number(y), colours[stage], paths[stage]);
    if (!labels.empty()) body_ += fmt::format("<g font-size=\"9\" fill=\"#fff\" text-anchor=\"middle\">{}</g>\n", labels);
  }

  void instants(double top, double bottom) {
    const auto& all = recording_.instants;
    const size_t shown = std::min<size_t>(all.size(), 6);
    constexpr size_t most_lines = 200;
    for (size_t i = 0; i < std::min(all.size(), most_lines); ++i) {
      const double at = left + x(all[i].time);
      const double label = top - 14 * static_cast<double>(std::min(shown - 1 - std::min(i, shown - 1), shown)) - 4;
      body_ += fmt::format("<line x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#000\" stroke-dasharray=\"5 3\"{3}/>\n", number(at),
                           number(i < shown ? label - 3 : top), number(bottom), i < shown ? "" : " stroke-opacity=\"0.35\"");
      if (i >= shown) continue;
      std::string text = show_time(all[i].time - TimePoint()) + ": " + shortened(all[i].what, 90);
      if (i + 1 == shown && all.size() > shown) text += fmt::format("  (and {} more events)", all.size() - shown);
      const bool to_left = x(all[i].time) > plot_width / 2;
      body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", number(at + (to_left ? -4 : 4)), number(label + 3),
                           to_left ? " text-anchor=\"end\"" : "", escaped(text));
    }
  }

  void time_axis(double top, double bottom, bool title) {
    const Unit unit = unit_of(end_ - TimePoint());
    const double range = static_cast<double>(end_.count()) / unit.picoseconds;
    const double step = step_of(range);
    body_ += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"#444\"/>\n", number(left), number(left + plot_width),
                         number(bottom), number(bottom));
    for (int i = 0; static_cast<double>(i) * step <= range * 1.0000001; ++i) {
      const double at = left + static_cast<double>(i) * step / range * plot_width;
      body_ += fmt::format("<line x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#000\" stroke-opacity=\"0.12\"/>", number(at), number(top),
                           number(bottom + 4));
      body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>\n", number(at), number(bottom + 16),
                           static_cast<double>(i) * step);
    }
    if (title)
      body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">time ({})</text>\n", number(left + plot_width / 2), number(bottom + 31),
                           unit.name);
  }

  // The utilisation of the ports that carried anything, averaged over bins.
  void loads(double top, double height) {
    const Network& network = run_.network;
    std::vector<Bandwidth> full;
    std::vector<bool> carried(network.links().size(), false);
    for (const NetworkLink& link : network.links()) full.push_back(link.capacity);
    for (const Recording::Load& load : recording_.loads) {
      full[load.link] = std::max(full[load.link], load.load);
      carried[load.link] = true;
    }
    // The ports of servers; where there are none, all links.
    std::vector<uint32_t> shown;
    for (const bool ports : {true, false}) {
      for (uint32_t i = 0; i < network.links().size() && (ports || shown.size() < 4096); ++i) {
        const NetworkLink& link = network.links()[i];
        const bool port = link.kind == LinkKind::network && network.vertices()[static_cast<size_t>(link.from)].server !=
                                                                network.vertices()[static_cast<size_t>(link.to)].server;
        if (carried[i] && link.from != link.to && (port || !ports)) shown.push_back(i);
      }
      if (!shown.empty()) {
        only_ports_ = ports;
        break;
      }
    }
    if (shown.empty()) return;
    constexpr size_t bins = 500;
    std::vector<size_t> position(network.links().size(), SIZE_MAX);
    for (size_t i = 0; i < shown.size(); ++i) position[shown[i]] = i;
    std::vector<std::array<float, bins>> use(shown.size());
    std::vector<std::pair<TimePoint, double>> last(shown.size());
    const auto add = [&](size_t i, TimePoint until) {
      const auto [since, fraction] = last[i];
      const double from = x(since) / plot_width * bins, to = std::min(x(until) / plot_width * bins, double{bins});
      if (fraction > 0)
        for (auto bin = static_cast<size_t>(from); bin < bins && static_cast<double>(bin) < to; ++bin)
          use[i][bin] += static_cast<float>(fraction * (std::min(to, static_cast<double>(bin) + 1) - std::max(from, static_cast<double>(bin))));
    };
    for (const Recording::Load& load : recording_.loads) {
      const size_t i = position[load.link];
      if (i == SIZE_MAX) continue;
      add(i, load.time);
      last[i] = {load.time, static_cast<double>(load.load.count()) / std::max(1.0, static_cast<double>(full[load.link].count()))};
    }
    for (size_t i = 0; i < shown.size(); ++i) add(i, end_);

    size_t busiest = 0;
    double most = -1;
    for (size_t i = 0; i < shown.size(); ++i) {
      const double sum = std::accumulate(use[i].begin(), use[i].end(), 0.0);
      if (sum > most * 1.0000001) {
        most = sum;
        busiest = i;
      }
    }
    std::string upper, lower, mean, busy;
    const auto point = [&](size_t bin, double fraction) {
      return fmt::format("{},{} ", number(left + (static_cast<double>(bin) + 0.5) * plot_width / bins), number(top + height * (1 - fraction)));
    };
    for (size_t bin = 0; bin < bins; ++bin) {
      double low = 1, high = 0, sum = 0;
      for (const auto& each : use) {
        low = std::min(low, double{each[bin]});
        high = std::max(high, double{each[bin]});
        sum += each[bin];
      }
      upper += point(bin, high);
      lower = point(bin, low) + lower;
      mean += point(bin, sum / static_cast<double>(use.size()));
      busy += point(bin, use[busiest][bin]);
    }
    for (const int percent : {0, 25, 50, 75, 100}) {
      const double y = top + height * (1 - percent / 100.0);
      body_ += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"#000\" stroke-opacity=\"0.12\"/>", number(left),
                           number(left + plot_width), number(y), number(y));
      body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} %</text>\n", number(left - 6), number(y + 4), percent);
    }
    body_ += fmt::format("<polygon fill=\"#56B4E9\" fill-opacity=\"0.35\" points=\"{}{}\"/>\n", upper, lower);
    body_ += fmt::format("<polyline fill=\"none\" stroke=\"#D55E00\" stroke-width=\"1\" points=\"{}\"/>\n", busy);
    body_ += fmt::format("<polyline fill=\"none\" stroke=\"#000\" stroke-width=\"1.6\" points=\"{}\"/>\n", mean);
    body_ += fmt::format("<text transform=\"translate(14,{}) rotate(-90)\" text-anchor=\"middle\">utilisation</text>\n", number(top + height / 2));
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"12\" font-weight=\"bold\">{}</text>\n", number(left), number(top - 7),
                         escaped(fmt::format("Utilisation of {} {} (averages over {})", shown.size(),
                                             only_ports_ ? "network ports" : "links", show_time(Duration(end_.count() / int64_t{bins})))));
    time_axis(top, top + height, true);
    const double y = top + height + 50;
    double at = left;
    const auto entry = [&](const std::string& symbol, const std::string& text) {
      body_ += fmt::format("<g transform=\"translate({},{})\">{}<text x=\"24\" y=\"4\">{}</text></g>\n", number(at), number(y), symbol, escaped(text));
      at += 40 + 6.6 * static_cast<double>(text.size());
    };
    entry("<line x2=\"18\" stroke=\"#000\" stroke-width=\"1.6\"/>", "mean");
    entry("<rect y=\"-5\" width=\"18\" height=\"10\" fill=\"#56B4E9\" fill-opacity=\"0.35\"/>", "least to most");
    entry("<line x2=\"18\" stroke=\"#D55E00\"/>", "busiest: " + shortened(network.links()[shown[busiest]].name, 80));
  }

  std::string legend(double y) {
    std::string text;
    double at = left;
    for (size_t stage = 0; stage < stage_count; ++stage) {
      if (!used_[stage]) continue;
      std::string name(to_string(static_cast<Stage>(stage)));
      if (short_name(static_cast<Stage>(stage)) != name) name = std::string(short_name(static_cast<Stage>(stage))) + " " + name;
      text += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n", number(at),
                          number(y - 10), colours[stage], number(at + 17), number(y), escaped(name));
      at += 36 + 6.8 * static_cast<double>(name.size());
    }
    std::string note = "upper half of a row: sends, lower half: receives";
    if (labels_ > 0) note += "; numbers: segments";
    if (binned_) note += fmt::format("; where bars are too small, the stage with the largest part of {}", show_time(Duration(end_.count() / static_cast<int64_t>(bins_))));
    if (per_row_ > 1) note += "; a row is filled where any of its ranks is busy; *: with a straggler";
    text += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#555\">{}</text>\n", number(left), number(y + 16), escaped(note));
    return text;
  }

  const PlayedRun& run_;
  const Recording& recording_;
  Flows flows_;
  std::string title_;
  TimePoint end_;
  std::vector<size_t> first_rank_;  // by group, among all ranks
  size_t ranks_ = 0, per_row_ = 1, rows_ = 0, bins_ = 0;
  double half_ = 0, height_ = 0;
  std::array<bool, stage_count> used_{};
  size_t labels_ = 0;
  bool binned_ = false, only_ports_ = true;
  std::string body_;
};

}  // namespace

std::string run_svg(const PlayedRun& run, const std::string& title) { return Plot(run, title).svg(); }

}  // namespace slackline
