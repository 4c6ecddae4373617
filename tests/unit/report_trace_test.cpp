// Traces against the trace event format, read as a viewer does: event by event.
#include "report/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "support/expect_error.hpp"
#include "support/played.hpp"

namespace slackline {
namespace {

// Picoseconds of "12.000345" microseconds; -1 for what is not written so.
int64_t picoseconds(const std::string& text) {
  const size_t dot = text.find('.');
  if (dot == std::string::npos || text.size() != dot + 7) return -1;
  return std::stoll(text.substr(0, dot)) * 1'000'000 + std::stoll(text.substr(dot + 1));
}

// Checks the events of a trace one after the other, holding one at a time and a few words a track.
class TraceReader : public nlohmann::json_sax<Json> {
 public:
  std::map<std::string, int64_t> phases;
  std::map<int64_t, int64_t> occupied;  // by pid, durations of complete events in picoseconds
  std::map<std::pair<int64_t, int64_t>, std::string> track_names;
  std::map<std::string, int64_t> names;      // of complete events on tracks of groups
  std::map<std::string, double> most;        // percent, by counter
  std::vector<std::pair<std::string, int64_t>> instants;
  std::set<std::pair<int64_t, int64_t>> tracks;
  int64_t end = 0;

  bool null() override { return false; }
  bool boolean(bool) override { return put("true"); }
  bool number_integer(number_integer_t value) override { return put(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return put(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return put(text); }
  bool string(string_t& text) override { return put(text); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& text) override {
    (depth_ == 4 ? argument_ : key_) = text;
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == 3) {
      fields_.clear();
      arguments_.clear();
    }
    return depth_ <= 4;
  }
  bool end_object() override {
    if (depth_-- == 3) check();
    return true;
  }
  bool start_array(std::size_t) override {
    EXPECT_EQ(key_, "traceEvents");
    return ++depth_ == 2;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    ADD_FAILURE() << position << " " << token << " " << error.what();
    return false;
  }

 private:
  bool put(const std::string& value) {
    if (depth_ == 4)
      arguments_[argument_] = value;
    else
      fields_[key_] = value;
    return true;
  }

  int64_t whole(const std::string& key) {
    EXPECT_TRUE(fields_.count(key)) << key;
    return fields_.count(key) ? std::stoll(fields_.at(key)) : -1;
  }
  int64_t time(const std::string& key) {
    const int64_t value = fields_.count(key) ? picoseconds(fields_.at(key)) : -1;
    EXPECT_GE(value, 0) << key;
    end = std::max(end, value);
    return value;
  }

  void check() {
    const std::string phase = fields_["ph"];
    ++phases[phase];
    EXPECT_FALSE(fields_["name"].empty());
    const int64_t pid = whole("pid");
    if (phase == "M") {
      const std::string what = fields_["name"];
      EXPECT_EQ(arguments_.size(), 1u);
      if (what == "thread_name") track_names[{pid, whole("tid")}] = arguments_["name"];
      EXPECT_TRUE(what == "thread_name" || what == "process_name" ? arguments_.count("name") : arguments_.count("sort_index")) << what;
      return;
    }
    const int64_t ts = time("ts");
    EXPECT_GE(ts, last_);  // the whole file is in the order of time
    last_ = ts;
    if (phase == "X") {
      const int64_t tid = whole("tid"), duration = time("dur");
      end = std::max(end, ts + duration);
      occupied[pid] += duration;
      int64_t& free_at = free_[{pid, tid}];
      EXPECT_LE(free_at, ts) << "track " << pid << " " << tid;  // viewers break events that overlap on a track
      free_at = ts + duration;
      tracks.insert({pid, tid});
      if (arguments_.count("bytes")) ++names[fields_["name"]];
    } else if (phase == "i") {
      EXPECT_EQ(fields_["s"], "g");
      instants.emplace_back(fields_["name"], ts);
    } else if (phase == "C") {
      ASSERT_TRUE(arguments_.count("percent"));
      const double percent = std::stod(arguments_["percent"]);
      EXPECT_GE(percent, 0);
      EXPECT_LE(percent, 100.001);
      most[fields_["name"]] = std::max(most[fields_["name"]], percent);
    } else {
      ADD_FAILURE() << "phase " << phase;
    }
  }

  int depth_ = 0;
  std::string key_, argument_;
  std::map<std::string, std::string> fields_, arguments_;
  std::map<std::pair<int64_t, int64_t>, int64_t> free_;
  int64_t last_ = 0;
};

void read_trace(std::istream& stream, TraceReader& reader) {
  EXPECT_TRUE(Json::sax_parse(stream, &reader));
  for (const auto& track : reader.tracks) EXPECT_TRUE(reader.track_names.count(track)) << track.first << " " << track.second;
}

std::string trace_of(const PlayedRun& run) {
  std::ostringstream text;
  write_trace(run, text);
  return text.str();
}

TEST(Trace, ShowsEveryTransferOnRanksAndPorts) {
  const PlayedRun run = played(star(5, 4), generated("optcc", 5, CollectiveType::allreduce, {{"segments", 4}}, 4), 4, Bytes(1 << 20));
  const std::string text = trace_of(run);
  EXPECT_EQ(text, trace_of(run));
  std::istringstream stream(text);
  TraceReader reader;
  read_trace(stream, reader);
  const auto transfers = static_cast<int64_t>(run.groups[0].schedule.size());
  // Sender, receiver, and the two ports between them.
  EXPECT_EQ(reader.phases["X"], 4 * transfers);
  EXPECT_EQ(reader.phases["i"], 0);
  EXPECT_EQ(reader.names["S2 seg 3 sec 1"], 1);
  EXPECT_EQ(reader.names["S1 seg 0 sec 0"], 3);
  int64_t occupied = 0;
  for (size_t i = 0; i < run.result.recording.started.size(); ++i)
    occupied += (run.result.recording.released[i] - run.result.recording.started[i]).count();
  EXPECT_EQ(reader.occupied[1], 2 * occupied);  // exact to the picosecond
  EXPECT_EQ(reader.occupied[2], 2 * occupied);
  EXPECT_LE(reader.end, run.result.time.count());
  EXPECT_EQ(reader.most.size(), 10u);
  for (const auto& [port, percent] : reader.most) EXPECT_NEAR(percent, 100, 1e-3) << port;
  std::set<std::string> names;
  for (const auto& [track, name] : reader.track_names) names.insert(name);
  EXPECT_TRUE(names.count("rank 0 sends") && names.count("rank 4 receives") && names.count(run.network.links()[0].name));
  EXPECT_EQ(names.size(), 20u);  // one flow a port: no second lane anywhere
}

TEST(Trace, HasLanesWhereTransfersOverlap) {
  const PlayedRun run = played(star(3), HandMade::schedule(3, {{0, 1, 0}, {0, 2, 1}, {0, 1, 2}}), 1, Bytes(1'000'000));
  std::istringstream stream(trace_of(run));
  TraceReader reader;
  read_trace(stream, reader);
  std::set<std::string> names;
  for (const auto& [track, name] : reader.track_names) names.insert(name);
  EXPECT_TRUE(names.count("rank 0 sends") && names.count("rank 0 sends (2)") && names.count("rank 0 sends (3)"));
  EXPECT_TRUE(names.count("rank 1 receives (2)"));
  EXPECT_FALSE(names.count("rank 2 receives (2)"));
}

TEST(Trace, ShowsWhatHappensAndWhatHangs) {
  // Only the recording matters here: one transfer that was sent, one that stands still, one that never began.
  PlayedRun run = played(star(2), HandMade::schedule(2, {{0, 1}, {0, 1}, {0, 1}}), 1, Bytes(1'000'000));
  Recording& recording = run.result.recording;
  recording.released[1] = recording.ended[1] = TimePoint::never();
  recording.started[2] = recording.released[2] = recording.ended[2] = TimePoint::never();
  recording.instants = {{TimePoint(5'000'001), "a \"NIC\" of\nserver 0 dies \xff"}, {TimePoint(99'000'000), "detected"}};
  const std::string text = trace_of(run);
  std::istringstream stream(text);
  TraceReader reader;
  read_trace(stream, reader);
  EXPECT_EQ(reader.phases["X"], 2 * 4);
  ASSERT_EQ(reader.instants.size(), 2u);
  EXPECT_THAT(reader.instants[0].first, testing::StartsWith("a \"NIC\" of\nserver 0 dies "));
  EXPECT_EQ(reader.instants[0].second, 5'000'001);
  EXPECT_EQ(reader.end, 99'000'000);  // what hangs is shown to the end
  EXPECT_THAT(text, testing::HasSubstr("\"unfinished\":true"));
  run.result.recording = {};
  EXPECT_EQ(error_of([&] { trace_of(run); }), "a trace needs a run whose times were recorded");
}

// Megabytes that the process has had in memory at most since the last call.
int64_t peak_megabytes() {
  std::ifstream status("/proc/self/status");
  int64_t kilobytes = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kilobytes;
  std::ofstream("/proc/self/clear_refs") << "5";
  return kilobytes / 1024;
}

TEST(TraceLong, AMillionTransfersInLittleMemory) {
  const PlayedRun run = played(star(708), generated("ring", 708), 1, Bytes(int64_t{1} << 30));
  const auto transfers = static_cast<int64_t>(run.groups[0].schedule.size());
  ASSERT_GE(transfers, 1'000'000);
  const std::filesystem::path path = std::filesystem::temp_directory_path() / ("slackline-trace-" + std::to_string(::getpid()) + ".json");
  peak_megabytes();
  const int64_t before = peak_megabytes();
  {
    std::ofstream file(path, std::ios::binary);
    write_trace(run, file);
    file.close();
    ASSERT_TRUE(file);
  }
  const int64_t written = peak_megabytes();
  TraceReader reader;
  {
    std::ifstream file(path, std::ios::binary);
    read_trace(file, reader);
  }
  const int64_t read = peak_megabytes();
  std::printf("%lld bytes; %lld MB before, %lld MB while writing, %lld MB while reading\n",
              static_cast<long long>(std::filesystem::file_size(path)), static_cast<long long>(before), static_cast<long long>(written),
              static_cast<long long>(read));
  std::filesystem::remove(path);
  EXPECT_EQ(reader.phases["X"], 4 * transfers);
  EXPECT_LT(written - before, 100);
  EXPECT_LT(read - before, 100);
}

}  // namespace
}  // namespace slackline
