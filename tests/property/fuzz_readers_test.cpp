// Mutation fuzzing of everything that reads files: whatever the bytes, a reader succeeds or throws slackline::Error,
// in bounded time. Seeded, so that a failure repeats. SLACKLINE_PROPERTY_SCALE multiplies the number of inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "../support/networks.hpp"
#include "base/files.hpp"
#include "schedule/cbor_reader.hpp"
#include "schedule/json_reader.hpp"
#include "schedule/schedule_io.hpp"

namespace slackline {
namespace {

using nlohmann::json;
using namespace std::string_literals;

int inputs(int count) {
  const char* const scale = std::getenv("SLACKLINE_PROPERTY_SCALE");
  return scale ? static_cast<int>(count * std::max(std::atof(scale), 0.0)) : count;
}

std::string json_of(const Schedule& schedule) {
  std::ostringstream stream;
  write_schedule_json(schedule, stream);
  return stream.str();
}

std::string cbor_of(const Schedule& schedule) {
  std::ostringstream stream;
  write_schedule_cbor(schedule, stream);
  return stream.str();
}

std::vector<Schedule> schedules() {
  Schedule odd({CollectiveType::scatter, 2, 1, false, Reduction::prod}, INT64_MAX);
  odd.set_algorithm("a \"b\" \\ \u00e9 \U0001f600");
  odd.add_chunk({Buffer::scratch, 0, 0});
  odd.add({0, UINT32_MAX, 0, 1, TransferOp::reduce, UINT16_MAX, {}});
  const uint32_t after[] = {7, UINT32_MAX};
  odd.add({1, 1, 70000, 70000, TransferOp::copy, 1, after});
  return {generated("ring", 3), generated("optcc", 3, CollectiveType::allreduce, {{"segments", 1}}, 1), odd, Schedule()};
}

std::vector<std::string> topologies() {
  return {R"({"builder": "rail_fabric", "servers": 2, "gpus_per_server": 2, "nics_per_server": 2,
 "nic_bandwidth": "100 GB/s", "nic_latency": "2 us", "message_overhead": "20 ns", "nvlink_bandwidth": "900 GB/s",
 "nvlink_latency": "500 ns"})",
          R"({"builder": "explicit", "name": "x", "vertices": [{"name": "a", "kind": "gpu", "server": 0},
 {"name": "b", "kind": "gpu", "server": 0}, {"name": "c", "kind": "pcie_switch", "server": 0}],
 "links": [{"from": "a", "to": "b", "kind": "nvlink", "bandwidth": "20 GB/s", "count": 2, "one_way": true},
 {"from": "a", "to": "c", "kind": "pcie", "bandwidth": "1.5 GB/s", "latency": "1 us"}]})",
          read_file(SLACKLINE_SOURCE_DIR "/topologies/two_quads.json")};
}

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::vector<std::string> snippets, uint64_t seed)
      : corpus_(std::move(corpus)), snippets_(std::move(snippets)), random_(seed) {}

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    for (size_t rounds = 1 + below(3); rounds > 0; --rounds) mutate(text);
    return text;
  }

 private:
  size_t below(size_t bound) { return bound == 0 ? 0 : static_cast<size_t>(random_() % bound); }
  void mutate(std::string& text) {
    const size_t at = below(text.size() + 1);
    const size_t length = std::min(text.size() - at, 1 + below(below(8) == 0 ? 200 : 6));
    switch (below(9)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2: text.resize(at); break;
      case 3: text.erase(at, length); break;
      case 4: text.insert(below(text.size() + 1), text.substr(at, length)); break;
      case 5: {  // the beginning of this one, the end of another
        const std::string& other = corpus_[below(corpus_.size())];
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      case 6: text.insert(at, snippets_[below(snippets_.size())]); break;
      case 7: text.replace(at, length, snippets_[below(snippets_.size())]); break;
      case 8: {  // another number in place of the next
        const size_t first = text.find_first_of("0123456789", at);
        if (first == std::string::npos) break;
        const size_t end = std::min(text.find_first_not_of("0123456789", first), text.size());
        text.replace(first, end - first, snippets_[below(snippets_.size())]);
        break;
      }
    }
  }

  std::vector<std::string> corpus_, snippets_;
  std::mt19937_64 random_;
};

std::vector<std::string> json_snippets() {
  return {"-1", "0", "4294967295", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616",
          "1e999", "-0", "0.5", "1E+2", "null", "true", "{", "}", "[", "]", ",", ":", "\"", "\"a\":1,", "{}", "[[]]", "\\",
          "\\u0000", "\\ud83d\\ude00", "\\udc00", "\x80", "\xed\xa0\x80", "\n", "\xef\xbb\xbf",
          std::string(1, '\0'), std::string(300, '['), std::string(100'000, '['), std::string(5000, '9')};
}

std::vector<std::string> cbor_snippets() {
  return {"\x9f", "\xbf", "\xff", "\x7f", "\x5f", "\xa0", "\x80", "\xf6", "\xf5", "\x1a\xff\xff\xff\xff"s,
          "\x1b\xff\xff\xff\xff\xff\xff\xff\xff"s, "\x1b\x7f\xff\xff\xff\xff\xff\xff\xff"s, "\x3b\xff\xff\xff\xff\xff\xff\xff\xff"s,
          "\x9b\x0f\xff\xff\xff\xff\xff\xff\xff"s, "\xbb\x0f\xff\xff\xff\xff\xff\xff\xff"s, "\x7b\x0f\xff\xff\xff\xff\xff\xff\xff"s,
          "\xf9\x7e\x00"s, "\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00"s, "\xd9\xd9\xf7", "\x63src", "\x65" "after",
          std::string(300, '\x81'), std::string(100'000, '\x9f'), std::string(100'000, '\x7f')};
}

// Runs `action`, which may throw Error and nothing else; the error, or "".
template <class Action>
std::string outcome(const std::string& input, Action action) {
  const std::clock_t start = std::clock();
  std::string text;
  try {
    action();
  } catch (const Error& error) {
    text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::input) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LT(text.size(), 4200u);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what() << "\nfor " << json(input).dump(-1, ' ', true, json::error_handler_t::replace);
  }
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC) << input.substr(0, 1000);
  return text;
}

// Rebuilds the document from a reader's events.
class Recorder {
 public:
  void null() { add(nullptr); }
  void boolean(bool value) { add(value); }
  void number_integer(int64_t value) { add(value); }
  void number_unsigned(uint64_t value) { add(value); }
  void number_other(std::string_view text) {
    const std::string copy(text);
    const double value = std::strtod(copy.c_str(), nullptr);
    comparable_ &= copy.find(' ') == std::string::npos && !std::isinf(value);
    add(value);
  }
  void string(std::string_view value) { add(value); }
  void byte_string() {
    comparable_ = false;
    add(nullptr);
  }
  void start_object() { open(json::object()); }
  void key(std::string_view name) { key_ = name; }
  void end_object() { open_.pop_back(); }
  void start_array() { open(json::array()); }
  void end_array() { open_.pop_back(); }

  const json& root() const { return root_; }
  /// False where nlohmann reads something else on purpose: infinite numbers, byte strings, numbers below -2^63.
  bool comparable() const { return comparable_; }

 private:
  json& add(json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
    return (*open_.back())[key_] = std::move(value);
  }
  void open(json container) { open_.push_back(&add(std::move(container))); }

  json root_;
  std::vector<json*> open_;
  std::string key_;
  bool comparable_ = true;
};

TEST(FuzzReaders, JsonReaderAgreesWithNlohmann) {
  std::vector<std::string> corpus = topologies();
  for (const Schedule& schedule : schedules()) corpus.push_back(json_of(schedule));
  Mutator mutator(corpus, json_snippets(), 1);
  int accepted = 0, refused = 0;
  for (int i = 0; i < inputs(3000); ++i) {
    const std::string text = mutator.next();
    Recorder recorder;
    const std::string file = "f";
    const std::string error = outcome(text, [&] { JsonReader(text, file, recorder).read(); });
    if (error.empty()) {
      ++accepted;
      const json expected = json::parse(text, nullptr, false);
      if (recorder.comparable()) {
        ASSERT_EQ(recorder.root(), expected) << text;
      }
    } else {
      ++refused;
      // nlohmann takes a NUL byte for the end of the text.
      if (error.find("nested more than") == std::string::npos && text.find('\0') == std::string::npos) {
        ASSERT_FALSE(json::accept(text)) << error << "\n" << text;
      }
    }
  }
  EXPECT_GT(accepted, inputs(3000) / 50);
  EXPECT_GT(refused, inputs(3000) / 50);
}

TEST(FuzzReaders, CborReaderReadsNothingThatNlohmannReadsDifferently) {
  std::vector<std::string> corpus;
  for (const Schedule& schedule : schedules()) corpus.push_back(cbor_of(schedule));
  for (const std::string& text : topologies()) {
    corpus.emplace_back();
    json::to_cbor(json::parse(text), corpus.back());
  }
  corpus.emplace_back();
  json::to_cbor(json::parse(R"([1.5, -7, 1e300, null, true, {"a": []}, -3000000000, "x"])"), corpus.back());
  Mutator mutator(corpus, cbor_snippets(), 2);
  int accepted = 0, refused = 0;
  for (int i = 0; i < inputs(3000); ++i) {
    const std::string bytes = mutator.next();
    Recorder recorder;
    const std::string file = "f";
    if (outcome(bytes, [&] { CborReader(bytes, file, recorder).read(); }).empty()) {
      ++accepted;
      // Dumped, since NaN does not equal itself.
      if (recorder.comparable()) {
        ASSERT_EQ(recorder.root().dump(), json::from_cbor(bytes).dump());
      }
    } else {
      ++refused;
    }
  }
  EXPECT_GT(accepted, inputs(3000) / 50);
  EXPECT_GT(refused, inputs(3000) / 50);
}

// What was read must be what is written back, in both formats.
void expect_stable(const Schedule& schedule) {
  EXPECT_EQ(parse_schedule_json(json_of(schedule), "f"), schedule);
  EXPECT_EQ(parse_schedule_cbor(cbor_of(schedule), "f"), schedule);
}

TEST(FuzzReaders, ScheduleJson) {
  std::vector<std::string> corpus;
  for (const Schedule& schedule : schedules()) corpus.push_back(json_of(schedule));
  Mutator mutator(corpus, json_snippets(), 3);
  int accepted = 0;
  for (int i = 0; i < inputs(5000); ++i) {
    const std::string text = mutator.next();
    Schedule schedule;
    const std::string error = outcome(text, [&] { schedule = parse_schedule_json(text, "s.json"); });
    if (error.empty()) {
      ++accepted;
      EXPECT_TRUE(json::accept(text));
      expect_stable(schedule);
    } else {
      EXPECT_EQ(error.find("s.json:"), 0u) << error;
    }
  }
  EXPECT_GT(accepted, inputs(5000) / 500);
}

TEST(FuzzReaders, ScheduleCbor) {
  std::vector<std::string> corpus;
  for (const Schedule& schedule : schedules()) corpus.push_back(cbor_of(schedule));
  Mutator mutator(corpus, cbor_snippets(), 4);
  int accepted = 0;
  for (int i = 0; i < inputs(5000); ++i) {
    const std::string bytes = mutator.next();
    Schedule schedule;
    const std::string error = outcome(bytes, [&] { schedule = parse_schedule_cbor(bytes, "s.cbor"); });
    if (error.empty()) {
      ++accepted;
      expect_stable(schedule);
    } else {
      EXPECT_EQ(error.find("s.cbor: "), 0u) << error;
    }
  }
  EXPECT_GT(accepted, inputs(5000) / 500);
}

TEST(FuzzReaders, TopologyJson) {
  Mutator mutator(topologies(), json_snippets(), 5);
  int built = 0;
  for (int i = 0; i < inputs(2000); ++i) {
    const std::string text = mutator.next();
    outcome(text, [&] {
      const Topology topology = topology_of(text);
      ++built;
      const Network network = build_network(topology, {});
      for (int rank = 1; rank < std::min(network.ranks(), 10); ++rank) network.has_route(0, rank);
    });
  }
  EXPECT_GT(built, inputs(2000) / 100);
}

}  // namespace
}  // namespace slackline
