#include "report/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "report/report.hpp"
#include "report/stages.hpp"

namespace slackline {

namespace {

constexpr uint32_t none = UINT32_MAX;
constexpr std::array<std::string_view, 8> wait_names = {"send queue", "receive queue", "port",    "dependency",
                                                        "start",      "late rank",     "failure", "other"};

// A server's port into what connects servers.
bool is_port(const Network& network, const NetworkLink& link) {
  const int from = network.vertices()[static_cast<size_t>(link.from)].server;
  const int to = network.vertices()[static_cast<size_t>(link.to)].server;
  return link.kind == LinkKind::network && from != to && link.from != link.to;
}

bool leaves_server(const Network& network, const NetworkLink& link) {
  return network.vertices()[static_cast<size_t>(link.from)].server >= 0;
}

double utilisation(const NetworkLink& link, Bytes bytes, Duration time) {
  if (link.capacity.count() <= 0 || time.count() <= 0) return 0;
  return static_cast<double>(bytes.count()) * 8 / (static_cast<double>(link.capacity.count()) * static_cast<double>(time.count()) * 1e-12);
}

// Why a transfer started when it did.
struct Cause {
  Wait wait = Wait::start;
  uint32_t flow = none;  // that it waited for
  TimePoint since;       // when that ended; from then on it waited for something that is no transfer
  bool arrival = false;  // it waited for the arrival, not only for the ports
  std::string what;
};

class Explainer {
 public:
  explicit Explainer(const PlayedRun& run)
      : run_(run), network_(run.network), recording_(run.result.recording), flows_(run) {
    if (recording_.started.size() != flows_.size())
      throw Error(ErrorKind::usage, "an explanation needs a run whose times were recorded");
  }

  Numbers numbers() {
    Numbers result;
    result.time = run_.result.time;
    result.complete = run_.result.status == PlayStatus::finished;
    count_bytes(result);
    find_queues();
    find_first_activity();
    find_path(result);
    sum_path(result);
    if (result.bottleneck) explain_idle(result);
    return result;
  }

 private:
  TimePoint started(uint32_t flow) const { return recording_.started[flow]; }
  TimePoint released(uint32_t flow) const { return recording_.released[flow]; }
  TimePoint ended(uint32_t flow) const { return recording_.ended[flow]; }
  static bool happened(TimePoint time) { return time != TimePoint::never(); }

  void count_bytes(Numbers& result) const {
    std::array<Numbers::KindUse, 3> kinds = {{{LinkKind::nvlink, 0, {}}, {LinkKind::pcie, 0, {}}, {LinkKind::network, 0, {}}}};
    double sum = 0;
    for (uint32_t i = 0; i < network_.links().size(); ++i) {
      const NetworkLink& link = network_.links()[i];
      const Bytes bytes = run_.result.links[i].bytes;
      const bool port = is_port(network_, link);
      if (bytes.count() == 0) {
        if (port) ++result.unused_ports;
        continue;
      }
      const PortUse use{i, utilisation(link, bytes, result.time)};
      // Of equally used ones the one that was busy longest: it may have lost capacity on the way.
      const double most = result.bottleneck ? result.bottleneck->utilisation : 0;
      if (!result.bottleneck || use.utilisation > most * (1 + 1e-9) ||
          (use.utilisation > most * (1 - 1e-9) && run_.result.links[i].busy > run_.result.links[result.bottleneck->link].busy))
        result.bottleneck = use;
      if (link.from == link.to) continue;  // a rank's reductions move nothing
      Numbers::KindUse& kind = kinds[static_cast<size_t>(link.kind)];
      ++kind.links;
      kind.bytes += bytes;
      if (!port) continue;
      ++result.used_ports;
      sum += use.utilisation;
      if (leaves_server(network_, link)) result.sent_by_servers += bytes;
      if (!result.lowest || use.utilisation < result.lowest->utilisation) result.lowest = use;
      if (!result.highest || use.utilisation > result.highest->utilisation) result.highest = use;
    }
    if (result.used_ports > 0) result.mean_utilisation = sum / static_cast<double>(result.used_ports);
    for (const Numbers::KindUse& kind : kinds)
      if (kind.links > 0) result.kinds.push_back(kind);
    if (result.bottleneck) result.bottleneck_idle = result.time - run_.result.links[result.bottleneck->link].busy;
  }

  // The transfer before each in its two queues.
  void find_queues() {
    before_send_.assign(flows_.size(), none);
    before_receive_.assign(flows_.size(), none);
    for (size_t g = 0; g < run_.groups.size(); ++g) {
      const Schedule& schedule = run_.groups[g].schedule;
      std::map<std::pair<uint32_t, uint16_t>, uint32_t> last_send, last_receive;
      for (uint32_t t = 0; t < schedule.size(); ++t) {
        const uint32_t flow = flows_.first(g) + t;
        const auto put = [&](auto& last, uint32_t rank, std::vector<uint32_t>& before) {
          const auto [place, is_new] = last.try_emplace({rank, schedule.channel(t)}, flow);
          if (is_new) return;
          before[flow] = place->second;
          place->second = flow;
        };
        put(last_send, schedule.src(t), before_send_);
        put(last_receive, schedule.dst(t), before_receive_);
      }
    }
  }

  // By group and rank, the first start of a transfer in which it takes part.
  void find_first_activity() {
    for (size_t g = 0; g < run_.groups.size(); ++g) {
      const Schedule& schedule = run_.groups[g].schedule;
      first_activity_.emplace_back(run_.groups[g].ranks.size(), TimePoint::never());
      for (uint32_t t = 0; t < schedule.size(); ++t)
        for (const uint32_t rank : {schedule.src(t), schedule.dst(t)}) {
          TimePoint& first = first_activity_[g][rank];
          first = std::min(first, started(flows_.first(g) + t));
        }
    }
  }

  // A transfer that shares a link with `flow` and left it at `time`: with exclusive sharing `flow` may have waited for it.
  uint32_t holder(uint32_t flow, TimePoint time) {
    if (by_release_.empty()) {
      by_release_.resize(flows_.size());
      std::iota(by_release_.begin(), by_release_.end(), 0);
      std::stable_sort(by_release_.begin(), by_release_.end(), [this](uint32_t a, uint32_t b) { return released(a) < released(b); });
    }
    const std::vector<uint32_t> mine = flows_.links(flow);
    auto place = std::lower_bound(by_release_.begin(), by_release_.end(), time,
                                  [this](uint32_t candidate, TimePoint t) { return released(candidate) < t; });
    for (; place != by_release_.end() && released(*place) == time; ++place) {
      if (started(*place) >= time) continue;
      for (const uint32_t link : flows_.links(*place))
        if (std::find(mine.begin(), mine.end(), link) != mine.end()) return *place;
    }
    return none;
  }

  Cause cause(uint32_t flow) {
    const TimePoint start = started(flow);
    Cause latest;
    // Where several things let it start at the same time, the ports are named: they are what cannot be had sooner.
    const auto candidate = [&](Wait wait, uint32_t other, TimePoint time) {
      if (other != none && happened(time) && (latest.flow == none || time > latest.since)) latest = {wait, other, time, wait == Wait::dependency, {}};
    };
    if (before_send_[flow] != none) candidate(Wait::send_queue, before_send_[flow], released(before_send_[flow]));
    if (before_receive_[flow] != none) candidate(Wait::receive_queue, before_receive_[flow], released(before_receive_[flow]));
    const size_t g = flows_.group(flow);
    const Schedule& schedule = run_.groups[g].schedule;
    const uint32_t t = flows_.transfer(flow);
    for (const uint32_t earlier : schedule.after(t)) candidate(Wait::dependency, flows_.first(g) + earlier, ended(flows_.first(g) + earlier));
    if (latest.flow != none && latest.since == start) return latest;
    if (start == TimePoint()) return {};
    if (const uint32_t other = holder(flow, start); other != none) return {Wait::port, other, start, false, {}};
    const auto& instants = recording_.instants;
    const auto instant = std::find_if(instants.begin(), instants.end(), [&](const Recording::Instant& i) { return i.time == start; });
    if (instant != instants.end()) {
      latest.wait = Wait::failure;
      latest.what = instant->what;
      return latest;
    }
    for (const uint32_t rank : {schedule.src(t), schedule.dst(t)})
      if (first_activity_[g][rank] == start) {
        // Whatever else it needed was there before: only the rank was not.
        return {Wait::late_rank, none, TimePoint(), false,
                fmt::format("{}rank {}", run_.groups.size() > 1 ? run_.groups[g].name + ": " : "", rank)};
      }
    latest.wait = Wait::other;
    latest.what = "other traffic";
    return latest;
  }

  // How long within [from, to] the transfer stood on a dead link, until that came back or the failure was detected.
  Duration stalled(uint32_t flow, TimePoint from, TimePoint to) {
    if (recording_.instants.empty() || recording_.loads.empty()) return {};
    if (loads_.empty()) {
      loads_.resize(network_.links().size());
      for (const Recording::Load& load : recording_.loads) loads_[load.link].push_back({load.time, load.load});
    }
    const std::vector<uint32_t> first_way = flows_.links(flow);
    const uint32_t limit = recording_.limited_by[flow];
    if (limit != none && std::find(first_way.begin(), first_way.end(), limit) == first_way.end()) {
      // It went another way in the end, from the first detection on, or from its start.
      const auto moved = std::find_if(recording_.instants.begin(), recording_.instants.end(), [&](const Recording::Instant& instant) {
        return instant.time > from && instant.time < to && instant.what.starts_with("detected: ");
      });
      if (moved == recording_.instants.end()) return {};
      to = moved->time;
    }
    Duration longest;
    for (const uint32_t link : first_way) {
      Duration sum;
      TimePoint dead = from;  // nothing is on any link as the run begins
      const auto end_at = [&](TimePoint time) {
        if (!happened(dead)) return;
        for (const Recording::Instant& instant : recording_.instants)
          if (instant.time > dead && instant.time < time && instant.what.starts_with("detected: ")) {
            time = instant.time;
            break;
          }
        if (time > dead) sum += time - dead;
        dead = TimePoint::never();
      };
      for (const auto& [time, load] : loads_[link]) {
        if (time > to) break;
        const bool nothing = load.count() == 0;
        if (nothing && time < to) dead = std::max(time, from);
        if (!nothing) end_at(time);
      }
      end_at(to);
      longest = std::max(longest, sum);
    }
    return std::min(longest, to - from);
  }

  void find_path(Numbers& result) {
    uint32_t flow = none;
    for (uint32_t i = 0; i < flows_.size(); ++i)
      if (happened(ended(i)) && (flow == none || ended(i) > ended(flow))) flow = i;
    if (flow == none) return;
    bool arrived = true;  // whether the next step waited for its arrival, or only for its ports
    while (true) {
      // On one channel what arrives early is only there once all before it is.
      while (arrived && before_receive_[flow] != none && ended(before_receive_[flow]) == ended(flow) &&
             ended(flow) - released(flow) > flows_.latency(flow))
        flow = before_receive_[flow];
      const Cause why = cause(flow);
      CriticalStep step;
      step.flow = flow;
      step.waited_for = why.wait;
      step.waited_for_what = why.what;
      step.to = arrived ? ended(flow) : released(flow);
      step.from = why.since;
      step.waiting = started(flow) - step.from;
      const Duration occupied = released(flow) - started(flow);
      if (flows_.source(flow) != flows_.destination(flow) && flows_.bytes(flow).count() > 0)
        step.overhead = std::min(network_.message_overhead(), occupied);
      step.stalled = std::min(stalled(flow, started(flow), released(flow)), occupied - step.overhead);
      step.sending = occupied - step.overhead - step.stalled;
      step.latency = step.to - released(flow);
      step.link = recording_.limited_by[flow];
      result.path.push_back(std::move(step));
      if (why.flow == none) break;
      arrived = why.arrival;
      flow = why.flow;
    }
    std::reverse(result.path.begin(), result.path.end());
  }

  static void sort(std::vector<TimeShare>& shares, const std::map<std::string, Duration>& times) {
    for (const auto& [what, time] : times)
      if (time.count() > 0) shares.push_back({what, time});
    std::stable_sort(shares.begin(), shares.end(), [](const TimeShare& a, const TimeShare& b) { return a.time > b.time; });
  }

  static std::string waiting_for(Wait wait, const std::string& what) {
    return wait == Wait::late_rank ? "waiting for " + what + " to arrive" : wait == Wait::failure ? "waiting: " + what : "waiting for " + what;
  }

  void sum_path(Numbers& result) const {
    std::map<std::string, Duration> times;
    for (const CriticalStep& step : result.path) {
      times["latency"] += step.latency;
      times["overhead of messages"] += step.overhead;
      times["standing still on a dead link"] += step.stalled;
      if (step.sending.count() > 0)
        times["limited by " + (step.link < network_.links().size() ? network_.links()[step.link].name : "other traffic")] += step.sending;
      if (step.waiting.count() > 0) times[waiting_for(step.waited_for, step.waited_for_what)] += step.waiting;
    }
    sort(result.path_shares, times);
  }

  void explain_idle(Numbers& result) {
    const uint32_t port = result.bottleneck->link;
    std::vector<uint32_t> on_it;
    for (uint32_t i = 0; i < flows_.size(); ++i) {
      if (!happened(started(i))) continue;
      const std::vector<uint32_t> links = flows_.links(i);
      if (std::find(links.begin(), links.end(), port) != links.end() && started(i) != released(i)) on_it.push_back(i);
    }
    std::stable_sort(on_it.begin(), on_it.end(), [this](uint32_t a, uint32_t b) { return started(a) < started(b); });
    const TimePoint end = TimePoint() + result.time;
    std::map<std::string, Duration> times;
    for (const auto& [from, to] : gaps(port, on_it, end)) {
      if (to == end) {
        times["drain: its last transfer has been sent"] += to - from;
        continue;
      }
      const auto next = std::lower_bound(on_it.begin(), on_it.end(), to, [this](uint32_t flow, TimePoint t) { return started(flow) < t; });
      const bool is_there = next != on_it.end() && started(*next) == to;
      const bool stands = std::any_of(on_it.begin(), next, [&, gap = from](uint32_t flow) { return started(flow) <= gap && released(flow) > gap; });
      if (stands)
        times["dead, or its transfers stood still"] += to - from;
      else if (from == TimePoint())
        times["fill: before its first transfer"] += to - from;
      else if (!is_there)
        times["until traffic came that is new on this way"] += to - from;
      else
        explain_gap(*next, from, to, times);
    }
    sort(result.idle_reasons, times);
  }

  void explain_gap(uint32_t next, TimePoint from, TimePoint to, std::map<std::string, Duration>& times) {
    const Cause why = cause(next);
    switch (why.wait) {
      case Wait::dependency: {
        // What the next transfer needs was under way, first on ports and then in flight.
        const TimePoint sent = std::clamp(released(why.flow), from, to);
        times["waiting for data that was in flight (latency)"] += to - sent;
        times["waiting for data that was being sent"] += sent - from;
        break;
      }
      case Wait::send_queue: times["its sender was busy elsewhere"] += to - from; break;
      case Wait::receive_queue: times["its receiver was busy elsewhere"] += to - from; break;
      case Wait::port: times["another link of its next transfer was busy"] += to - from; break;
      default: times[waiting_for(why.wait, why.what)] += to - from;
    }
  }

  // When nothing moved on the link: by its load where that is known, else by the transfers `on_it`.
  std::vector<std::pair<TimePoint, TimePoint>> gaps(uint32_t link, const std::vector<uint32_t>& on_it, TimePoint end) const {
    std::vector<std::pair<TimePoint, TimePoint>> found;
    TimePoint idle_since;
    if (!recording_.loads.empty()) {
      bool idle = true;
      for (const Recording::Load& load : recording_.loads) {
        if (load.link != link || (load.load.count() == 0) == idle) continue;
        idle = !idle;
        if (idle)
          idle_since = load.time;
        else if (load.time > idle_since)
          found.emplace_back(idle_since, load.time);
      }
      if (!idle) return found;
    } else {
      for (const uint32_t flow : on_it) {
        if (started(flow) > idle_since) found.emplace_back(idle_since, started(flow));
        idle_since = std::max(idle_since, released(flow));
      }
    }
    if (idle_since < end) found.emplace_back(idle_since, end);
    return found;
  }

  const PlayedRun& run_;
  const Network& network_;
  const Recording& recording_;
  Flows flows_;
  std::vector<uint32_t> before_send_, before_receive_, by_release_;
  std::vector<std::vector<TimePoint>> first_activity_;
  std::vector<std::vector<std::pair<TimePoint, Bandwidth>>> loads_;
};

std::string percent(double fraction) { return fmt::format("{:.2f} %", fraction * 100); }

double fraction_of(Duration part, Duration whole) {
  return whole.count() > 0 ? static_cast<double>(part.count()) / static_cast<double>(whole.count()) : 0;
}

std::string line(std::string_view title, const std::string& text) { return fmt::format("  {:<16}{}\n", title, text); }

// The longest ones, and what the others come to.
std::string shares_text(std::string_view title, const std::vector<TimeShare>& shares, Duration whole, size_t most) {
  std::string text;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (i == most && shares.size() > most + 1) {
      Duration rest;
      for (size_t k = i; k < shares.size(); ++k) rest += shares[k].time;
      return text + line("", fmt::format("{:>12}  {:>9}  {} more", show_time(rest), percent(fraction_of(rest, whole)), shares.size() - i));
    }
    text += line(i ? "" : title, fmt::format("{:>12}  {:>9}  {}", show_time(shares[i].time), percent(fraction_of(shares[i].time, whole)), shares[i].what));
  }
  return text;
}

std::string step_text(const Flows& flows, const CriticalStep& step) {
  std::string text = fmt::format("{:>12} {:>12}  {} rank {} -> {}", show_time(step.from - TimePoint()), "+" + show_time(step.to - step.from),
                                 flows.name(step.flow), flows.source(step.flow), flows.destination(step.flow));
  text += fmt::format(", after: {}", to_string(step.waited_for));
  if (!step.waited_for_what.empty()) text += fmt::format(" ({})", step.waited_for_what);
  if (step.link < flows.run().network.links().size()) text += "; limit: " + flows.run().network.links()[step.link].name;
  return text;
}

Json microseconds(Duration time) {
  return Json::parse(fmt::format("{}.{:06}", time.count() / 1'000'000, time.count() % 1'000'000));
}

Json shares_json(const std::vector<TimeShare>& shares) {
  Json list = Json::array();
  for (const TimeShare& share : shares) list.push_back({{"what", share.what}, {"time_us", microseconds(share.time)}});
  return list;
}

Json use_json(const Network& network, const PortUse& use) {
  return {{"link", network.links()[use.link].name}, {"utilisation", use.utilisation}};
}

}  // namespace

std::string_view to_string(Wait wait) { return wait_names[static_cast<size_t>(wait)]; }

Numbers run_numbers(const PlayedRun& run) { return Explainer(run).numbers(); }

std::string numbers_text(const PlayedRun& run, const Numbers& numbers) {
  const Network& network = run.network;
  const Flows flows(run);
  const auto name = [&](const PortUse& use) { return network.links()[use.link].name; };
  std::string text;
  if (!numbers.complete) text += line("unfinished", "the numbers are about the transfers that have ended");
  if (numbers.lowest)
    text += line("ports", fmt::format("{:>9}  mean use of {}{}", percent(numbers.mean_utilisation), numbers.used_ports,
                                      numbers.unused_ports ? fmt::format("; {} more carried nothing", numbers.unused_ports) : "")) +
            line("", fmt::format("{:>9}  least: {}", percent(numbers.lowest->utilisation), name(*numbers.lowest))) +
            line("", fmt::format("{:>9}  most: {}", percent(numbers.highest->utilisation), name(*numbers.highest)));
  if (numbers.sent_by_servers.count() > 0) text += line("", fmt::format("{} sent by the servers in all", to_string(numbers.sent_by_servers)));
  for (size_t i = 0; i < numbers.kinds.size(); ++i)
    text += line(i ? "" : "carried", fmt::format("{}: {} over {} links, a transfer counted on each", to_string(numbers.kinds[i].kind),
                                                 to_string(numbers.kinds[i].bytes), numbers.kinds[i].links));
  if (numbers.bottleneck) {
    text += line("bottleneck", name(*numbers.bottleneck)) +
            line("", fmt::format("{} of its capacity used, idle for {} ({})", percent(numbers.bottleneck->utilisation),
                                 show_time(numbers.bottleneck_idle), percent(fraction_of(numbers.bottleneck_idle, numbers.time))));
    text += shares_text("idle because", numbers.idle_reasons, numbers.time, 6);
  }
  if (numbers.path.empty()) return text;
  text += shares_text("critical path", numbers.path_shares, numbers.time, 8);
  text += line("", fmt::format("through {} transfers; from, for how long, which:", numbers.path.size()));
  constexpr size_t first = 4, last = 8;
  for (size_t i = 0; i < numbers.path.size(); ++i) {
    if (i == first && numbers.path.size() > first + last + 1) {
      i = numbers.path.size() - last;
      text += line("", fmt::format("{:>12}  .. {} more ..", "", i - first));
    }
    text += line("", step_text(flows, numbers.path[i]));
  }
  return text;
}

Json numbers_json(const PlayedRun& run, const Numbers& numbers, size_t most_steps) {
  const Network& network = run.network;
  const Flows flows(run);
  Json json = {{"time_us", microseconds(numbers.time)}, {"complete", numbers.complete}};
  Json ports = {{"used", numbers.used_ports}, {"unused", numbers.unused_ports}, {"sent_bytes", numbers.sent_by_servers.count()}};
  if (numbers.lowest) {
    ports["mean_utilisation"] = numbers.mean_utilisation;
    ports["lowest"] = use_json(network, *numbers.lowest);
    ports["highest"] = use_json(network, *numbers.highest);
  }
  json["ports"] = std::move(ports);
  for (const Numbers::KindUse& kind : numbers.kinds)
    json["links"][std::string(to_string(kind.kind))] = {{"used", kind.links}, {"bytes", kind.bytes.count()}};
  if (numbers.bottleneck) {
    json["bottleneck"] = use_json(network, *numbers.bottleneck);
    json["bottleneck"]["idle_us"] = microseconds(numbers.bottleneck_idle);
    json["bottleneck"]["idle_because"] = shares_json(numbers.idle_reasons);
  }
  Json steps = Json::array();
  for (size_t i = numbers.path.size() - std::min(numbers.path.size(), most_steps); i < numbers.path.size(); ++i) {
    const CriticalStep& step = numbers.path[i];
    Json entry = {{"transfer", flows.transfer(step.flow)},
                  {"name", flows.name(step.flow)},
                  {"src", flows.source(step.flow)},
                  {"dst", flows.destination(step.flow)},
                  {"from_us", microseconds(step.from - TimePoint())},
                  {"to_us", microseconds(step.to - TimePoint())},
                  {"waited_for", to_string(step.waited_for)}};
    if (run.groups.size() > 1) entry["group"] = run.groups[flows.group(step.flow)].name;
    if (!step.waited_for_what.empty()) entry["waited_for_what"] = step.waited_for_what;
    const std::array<std::pair<const char*, Duration>, 5> parts = {{{"waiting_us", step.waiting},
                                                                    {"stalled_us", step.stalled},
                                                                    {"overhead_us", step.overhead},
                                                                    {"sending_us", step.sending},
                                                                    {"latency_us", step.latency}}};
    for (const auto& [key, time] : parts)
      if (time.count() > 0) entry[key] = microseconds(time);
    if (step.link < network.links().size()) entry["limited_by"] = network.links()[step.link].name;
    steps.push_back(std::move(entry));
  }
  json["critical_path"] = {{"shares", shares_json(numbers.path_shares)}, {"steps", numbers.path.size()}, {"last_steps", std::move(steps)}};
  return json;
}

}  // namespace slackline
