#include "report/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/json.hpp"
#include "report/stages.hpp"

namespace slackline {

namespace {

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// A stretch of text that goes out whenever it has grown long.
class Writer {
 public:
  explicit Writer(std::ostream& out) : out_(out) { text_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":["; }

  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    if (text_.size() > limit) flush();
  }

  void end() {
    text_ += "\n]}\n";
    flush();
  }

 private:
  static constexpr size_t limit = size_t{1} << 16;

  void flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }

  std::ostream& out_;
  std::string text_;
  bool first_ = true;
};


// Lanes of one track: a lane carries one transfer at a time.
struct Track {
  struct Lane {
    int64_t free_at;
    int tid;
  };
  std::vector<Lane> lanes;

  int lane(int64_t from, int64_t to, int& next_tid) {
    for (Lane& lane : lanes)
      if (lane.free_at <= from) {
        lane.free_at = to;
        return lane.tid;
      }
    lanes.push_back({to, next_tid++});
    return lanes.back().tid;
  }
};

class TraceWriter {
 public:
  TraceWriter(const PlayedRun& run, std::ostream& out)
      : run_(run), recording_(run.result.recording), flows_(run), writer_(out), ports_(static_cast<int>(run.groups.size()) + 1) {
    for (const NetworkLink& link : run.network.links()) link_names_.push_back(quoted(link.name));
    link_tracks_.resize(link_names_.size());
    for (const PlayedGroup& group : run.groups) rank_tracks_.emplace_back(2 * group.ranks.size());
    if (recording_.started.size() != flows_.size()) throw Error(ErrorKind::usage, "a trace needs a run whose times were recorded");
  }

  void write() {
    std::vector<uint32_t> order(flows_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [this](uint32_t a, uint32_t b) { return recording_.started[a] < recording_.started[b]; });
    find_end();
    find_full_loads();
    size_t instant = 0, load = 0;
    for (const uint32_t flow : order) {
      const TimePoint from = recording_.started[flow];
      if (from == TimePoint::never()) break;
      write_until(from, instant, load);
      transfer(flow, from);
    }
    write_until(TimePoint::never(), instant, load);
    metadata();
    writer_.end();
  }

 private:
  // The time of the last thing that happened: what has not been sent by then is shown until then.
  void find_end() {
    end_ = TimePoint() + run_.result.time;
    for (const auto* times : {&recording_.started, &recording_.released, &recording_.ended})
      for (const TimePoint time : *times)
        if (time != TimePoint::never()) end_ = std::max(end_, time);
    if (!recording_.loads.empty()) end_ = std::max(end_, recording_.loads.back().time);
    if (!recording_.instants.empty()) end_ = std::max(end_, recording_.instants.back().time);
  }

  // A link that is dead at the start is measured by what it carries at most.
  void find_full_loads() {
    for (const NetworkLink& link : run_.network.links()) full_.push_back(link.capacity);
    for (const Recording::Load& load : recording_.loads) full_[load.link] = std::max(full_[load.link], load.load);
  }

  void write_until(TimePoint time, size_t& instant, size_t& load) {
    const auto& instants = recording_.instants;
    const auto& loads = recording_.loads;
    while ((instant < instants.size() && instants[instant].time <= time) || (load < loads.size() && loads[load].time <= time)) {
      if (load == loads.size() || (instant < instants.size() && instants[instant].time <= loads[load].time)) {
        writer_.event(R"({{"ph":"i","s":"g","name":{},"cat":"failure","pid":{},"tid":0,"ts":{}}})", quoted(instants[instant].what),
                      ports_, us(instants[instant].time));
        ++instant;
      } else {
        const Recording::Load& now = loads[load++];
        const double full = static_cast<double>(full_[now.link].count());
        const double percent = full > 0 ? 100 * static_cast<double>(now.load.count()) / full : 0;
        writer_.event(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"percent":{:.6g}}}}})", link_names_[now.link], ports_,
                      us(now.time), percent);
      }
    }
  }

  void transfer(uint32_t flow, TimePoint from) {
    const size_t g = flows_.group(flow);
    const PlayedGroup& group = run_.groups[g];
    const uint32_t t = flows_.transfer(flow);
    const bool sent = recording_.released[flow] != TimePoint::never();
    const TimePoint to = sent ? recording_.released[flow] : end_;
    const Stage stage = flows_.stages(g).stage(t);
    const uint32_t src = group.schedule.src(t), dst = group.schedule.dst(t);
    const std::string times = fmt::format("\"ts\":{},\"dur\":{}", us(from), us(TimePoint(to.count() - from.count())));
    const std::string head = fmt::format(R"("ph":"X","name":"{}","cat":"{}")", flows_.stages(g).name(t), to_string(stage));
    const int pid = static_cast<int>(g) + 1;

    const Chunk& chunk = group.schedule.chunks()[group.schedule.src_chunk(t)];
    std::string args = fmt::format(R"("transfer":{},"src":{},"dst":{},"bytes":{},"chunk":"{} {}+{}","op":"{}","channel":{})", t, src,
                                   dst, flows_.bytes(flow).count(), to_string(chunk.buffer), chunk.offset, chunk.length,
                                   to_string(group.schedule.op(t)), group.schedule.channel(t));
    if (recording_.limited_by[flow] < link_names_.size()) args += ",\"limited_by\":" + link_names_[recording_.limited_by[flow]];
    if (recording_.ended[flow] != TimePoint::never()) args += fmt::format(",\"arrives_us\":{}", us(recording_.ended[flow]));
    if (!sent) args += ",\"unfinished\":true";
    const int send_lane = rank_tracks_[g][2 * src].lane(from.count(), to.count(), next_tid_);
    writer_.event(R"({{{},"pid":{},"tid":{},{},"args":{{{}}}}})", head, pid, send_lane, times, args);
    if (src == dst) return;
    const int receive_lane = rank_tracks_[g][2 * dst + 1].lane(from.count(), to.count(), next_tid_);
    writer_.event(R"({{{},"pid":{},"tid":{},{},"args":{{"transfer":{},"src":{}}}}})", head, pid, receive_lane, times, t, src);
    if (from == to) return;
    for (const uint32_t link : flows_.links(flow)) {
      const int lane = link_tracks_[link].lane(from.count(), to.count(), next_tid_);
      writer_.event(R"({{{},"pid":{},"tid":{},{},"args":{{"transfer":{},"src":{},"dst":{}}}}})", head, ports_, lane, times, t,
                    group.ranks[src], group.ranks[dst]);
    }
  }

  void metadata() {
    for (size_t g = 0; g < run_.groups.size(); ++g) {
      name_process(static_cast<int>(g) + 1, run_.groups[g].name);
      for (size_t i = 0; i < rank_tracks_[g].size(); ++i)
        name_lanes(static_cast<int>(g) + 1, rank_tracks_[g][i], fmt::format("rank {} {}", i / 2, i % 2 ? "receives" : "sends"), i);
    }
    name_process(ports_, "ports");
    for (size_t link = 0; link < link_tracks_.size(); ++link)
      name_lanes(ports_, link_tracks_[link], run_.network.links()[link].name, link);
  }

  void name_process(int pid, const std::string& name) {
    writer_.event(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})", pid, quoted(name));
    writer_.event(R"({{"ph":"M","name":"process_sort_index","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})", pid);
  }

  void name_lanes(int pid, const Track& track, const std::string& name, size_t position) {
    for (size_t lane = 0; lane < track.lanes.size(); ++lane) {
      const int tid = track.lanes[lane].tid;
      writer_.event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", pid, tid,
                    quoted(lane == 0 ? name : fmt::format("{} ({})", name, lane + 1)));
      writer_.event(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", pid, tid,
                    position * 1000 + std::min<size_t>(lane, 999));
    }
  }

  static std::string us(TimePoint time) { return fmt::format("{}.{:06}", time.count() / 1'000'000, time.count() % 1'000'000); }

  const PlayedRun& run_;
  const Recording& recording_;
  Flows flows_;
  Writer writer_;
  int ports_;  // the process of the links
  int next_tid_ = 1;
  TimePoint end_;
  std::vector<Bandwidth> full_;
  std::vector<std::string> link_names_;  // in quotes
  std::vector<Track> link_tracks_;
  std::vector<std::vector<Track>> rank_tracks_;  // by group: what a rank sends, what it receives
};

}  // namespace

void write_trace(const PlayedRun& run, std::ostream& out) { TraceWriter(run, out).write(); }

}  // namespace slackline
