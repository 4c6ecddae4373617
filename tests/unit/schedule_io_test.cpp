#include "schedule/schedule_io.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "../support/expect_error.hpp"
#include "../support/networks.hpp"
#include "base/files.hpp"

namespace slackline {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

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

// Every feature of the format in one schedule, which computes nothing sensible.
Schedule everything() {
  Schedule schedule({CollectiveType::broadcast, 4, 3, false, Reduction::max}, 6);
  schedule.set_algorithm("hand \"made\" \u00e9");
  schedule.add_chunk({Buffer::input, 0, 6});
  schedule.add_chunk({Buffer::output, 0, 3});
  schedule.add_chunk({Buffer::scratch, INT64_MAX - 1, 1});
  schedule.add({3, 0, 0, 0, TransferOp::copy, 0, {}});
  const uint32_t first[] = {0};
  schedule.add({UINT32_MAX, 1, 1, 2, TransferOp::reduce, UINT16_MAX, first});
  const uint32_t both[] = {0, 1, 70000};
  schedule.add({1, 1, 2, UINT32_MAX, TransferOp::copy, 1, both});
  return schedule;
}

constexpr const char* everything_as_json = R"({
  "format": "slackline-schedule",
  "version": 1,
  "algorithm": "hand \"made\" é",
  "collective": {"type": "broadcast", "ranks": 4, "root": 3, "in_place": false, "reduction": "max"},
  "units": 6,
  "chunks": [
    {"buffer":"input","offset":0,"length":6},
    {"buffer":"output","offset":0,"length":3},
    {"buffer":"scratch","offset":9223372036854775806,"length":1}
  ],
  "transfers": [
    {"src":3,"dst":0,"chunk":0,"op":"copy"},
    {"src":4294967295,"dst":1,"src_chunk":1,"dst_chunk":2,"op":"reduce","channel":65535,"after":[0]},
    {"src":1,"dst":1,"src_chunk":2,"dst_chunk":4294967295,"op":"copy","channel":1,"after":[0,1,70000]}
  ]
}
)";

// A small correct document, for the tests that spoil it.
constexpr const char* small = R"({"format": "slackline-schedule", "version": 1, "algorithm": "x",
"collective": {"type": "allreduce", "ranks": 2, "in_place": true, "reduction": "sum"}, "units": 2,
"chunks": [{"buffer": "data", "offset": 0, "length": 1}, {"buffer": "data", "offset": 1, "length": 1}],
"transfers": [
{"src": 0, "dst": 1, "chunk": 0, "op": "reduce"},
{"src": 1, "dst": 0, "chunk": 0, "op": "copy", "channel": 2, "after": [0]}]})";

// `small` with the first `from` replaced by `to`.
std::string spoiled(const std::string& from, const std::string& to) {
  std::string text = small;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string json_error(const std::string& text) {
  return error_of([&] { parse_schedule_json(text, "s.json"); });
}

std::string cbor_error(const std::string& bytes) {
  return error_of([&] { parse_schedule_cbor(bytes, "s.cbor"); });
}

TEST(ScheduleJson, CanonicalForm) { EXPECT_EQ(json_of(everything()), everything_as_json); }

TEST(ScheduleJson, ReadsBackWhatItWrote) { EXPECT_EQ(parse_schedule_json(everything_as_json, "x"), everything()); }

TEST(ScheduleJson, CanonicalFormOfTheEmptySchedule) {
  const Schedule schedule({CollectiveType::allreduce, 2}, 2);
  EXPECT_EQ(json_of(schedule), R"({
  "format": "slackline-schedule",
  "version": 1,
  "algorithm": "",
  "collective": {"type": "allreduce", "ranks": 2, "in_place": true, "reduction": "sum"},
  "units": 2,
  "chunks": [],
  "transfers": []
}
)");
  EXPECT_EQ(parse_schedule_json(json_of(schedule), "x"), schedule);
  EXPECT_EQ(parse_schedule_cbor(cbor_of(schedule), "x"), schedule);
}

TEST(ScheduleJson, KeysMayStandInAnyOrderAndOptionalOnesMayBeAbsent) {
  const Schedule schedule = parse_schedule_json(
      R"({"transfers": [{"op": "copy", "dst_chunk": 0, "after": [], "src_chunk": 0, "dst": 1, "src": 0}],
          "chunks": [{"length": 1, "offset": 0, "buffer": "data"}], "units": 1,
          "collective": {"root": 0, "ranks": 2, "type": "broadcast"}, "version": 1, "format": "slackline-schedule"})",
      "x");
  Schedule expected({CollectiveType::broadcast, 2, 0, true, Reduction::sum}, 1);
  expected.add_chunk({Buffer::data, 0, 1});
  expected.add({0, 1, 0, 0, TransferOp::copy, 0, {}});
  EXPECT_EQ(schedule, expected);
}

TEST(ScheduleJson, StringsAreUnescaped) {
  const Schedule schedule = parse_schedule_json(
      spoiled(R"("algorithm": "x")", R"("algorith\u006d": "\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")"), "x");
  EXPECT_EQ(schedule.algorithm(), "\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001f600");
  EXPECT_EQ(parse_schedule_json(json_of(schedule), "x"), schedule);
}

TEST(ScheduleCbor, CanonicalFormIsWhatNlohmannReadsAsTheSameDocument) {
  EXPECT_EQ(nlohmann::ordered_json::from_cbor(cbor_of(everything())), nlohmann::ordered_json::parse(everything_as_json));
}

TEST(ScheduleCbor, NumbersTakeTheirShortestForm) {
  // nlohmann's writer also chooses the shortest, so the bytes are the same.
  const auto document = nlohmann::ordered_json::parse(everything_as_json);
  std::string expected;
  nlohmann::ordered_json::to_cbor(document, expected);
  EXPECT_EQ(cbor_of(everything()), expected);
}

TEST(ScheduleCbor, ReadsMapsAndArraysOfUnstatedLength) {
  // {"format": "slackline-schedule", "version": 1, "units": 1, "chunks": [], "transfers": [],
  //  "collective": {"type": "allreduce", "ranks": 2}} with every container open-ended.
  std::string bytes = "\xbf\x66"
                      "format\x72"
                      "slackline-schedule\x67"
                      "version\x01\x65"
                      "units\x18\x01\x66"
                      "chunks\x9f\xff\x69"
                      "transfers\x9f\xff\x6a"
                      "collective\xbf\x64"
                      "type\x69"
                      "allreduce\x65"
                      "ranks\x02\xff\xff";
  EXPECT_EQ(parse_schedule_cbor(bytes, "x"), Schedule({CollectiveType::allreduce, 2}, 1));
}

class ScheduleRoundTrip : public testing::TestWithParam<int> {};

TEST_P(ScheduleRoundTrip, IsByteStableThroughBothFormats) {
  std::vector<Schedule> schedules;
  for (const CollectiveType type :
       {CollectiveType::allreduce, CollectiveType::reduce_scatter, CollectiveType::allgather})
    schedules.push_back(generated("ring", GetParam(), type));
  if (GetParam() >= 3) schedules.push_back(generated("optcc", GetParam(), CollectiveType::allreduce, {{"segments", 5}}, 4));
  for (const Schedule& schedule : schedules) {
    ASSERT_GT(schedule.size(), 0u);
    const std::string json = json_of(schedule), cbor = cbor_of(schedule);
    const Schedule from_json = parse_schedule_json(json, "x"), from_cbor = parse_schedule_cbor(cbor, "x");
    EXPECT_EQ(from_json, schedule);
    EXPECT_EQ(from_cbor, schedule);
    EXPECT_EQ(json_of(from_cbor), json);
    EXPECT_EQ(cbor_of(from_json), cbor);
    EXPECT_LT(cbor.size(), json.size());
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, ScheduleRoundTrip, testing::Values(2, 3, 8, 17));

TEST(ScheduleJson, LongListsCrossTheOutputBuffer) {
  Schedule schedule({CollectiveType::allreduce, 2}, 1);
  schedule.set_algorithm(std::string(1 << 20, 'a'));  // longer than the buffer itself
  schedule.add_chunk({Buffer::data, 0, 1});
  std::vector<uint32_t> after;
  for (uint32_t i = 0; i < 30000; ++i) {
    schedule.add({i % 2, 1 - i % 2, 0, 0, TransferOp::copy, 0, std::span(after).first(std::min<size_t>(after.size(), i % 9))});
    after.push_back(i);
  }
  EXPECT_EQ(parse_schedule_json(json_of(schedule), "x"), schedule);
  EXPECT_EQ(parse_schedule_cbor(cbor_of(schedule), "x"), schedule);
}

TEST(ScheduleErrors, AnAlgorithmThatIsNotUtf8IsWrittenAsUtf8) {
  Schedule schedule({CollectiveType::allreduce, 2}, 1);
  schedule.set_algorithm("a\xff\xc3");
  EXPECT_EQ(parse_schedule_json(json_of(schedule), "x").algorithm(), "a\ufffd\ufffd");
  EXPECT_EQ(parse_schedule_cbor(cbor_of(schedule), "x").algorithm(), "a\ufffd\ufffd");
}

struct Spoiling {
  const char* from;
  const char* to;
  const char* error;
};

// Each makes one mistake in `small`.
const Spoiling spoilings[] = {
    // Values of wrong types.
    {R"("slackline-schedule")", "7", "/format: must be a string, not 7"},
    {R"("slackline-schedule")", R"("msccl")", R"(/format: must be "slackline-schedule", not "msccl")"},
    {R"("version": 1)", R"("version": 2)", "/version: must be 1, not 2"},
    {R"("algorithm": "x")", R"("algorithm": null)", "/algorithm: must be a string, not null"},
    {R"("units": 2)", R"("units": "2")", "/units: must be a whole number from 1 to 9223372036854775807, not a string"},
    {R"("units": 2)", R"("units": 2.0)", "/units: must be a whole number from 1 to 9223372036854775807, not 2.0"},
    {R"("units": 2)", R"("units": 0)", "/units: must be a whole number from 1 to 9223372036854775807, not 0"},
    {R"("units": 2)", R"("units": 9223372036854775808)",
     "/units: must be a whole number from 1 to 9223372036854775807, not 9223372036854775808"},
    {R"("ranks": 2)", R"("ranks": true)", "/collective/ranks: must be a whole number from 1 to 2147483647, not true"},
    {R"("ranks": 2)", R"("ranks": 2147483648)",
     "/collective/ranks: must be a whole number from 1 to 2147483647, not 2147483648"},
    {R"("in_place": true)", R"("in_place": 1)", "/collective/in_place: must be true or false, not 1"},
    {R"("in_place": true)", R"("in_place": "yes")", "/collective/in_place: must be true or false, not a string"},
    {R"({"type": "allreduce", "ranks": 2, "in_place": true, "reduction": "sum"})", "[]",
     "/collective: must be an object, not an array"},
    {R"({"buffer": "data", "offset": 0, "length": 1})", "3", "/chunks/0: must be an object, not 3"},
    {R"("after": [0])", R"("after": 0)", "/transfers/1/after: must be an array, not 0"},
    {R"("after": [0])", R"("after": {})", "/transfers/1/after: must be an array, not an object"},
    {R"("after": [0])", R"("after": [0, [1]])",
     "/transfers/1/after/1: must be a whole number from 0 to 4294967295, not an array"},
    {R"("dst": 1)", R"("dst": {"rank": 1})",
     "/transfers/0/dst: must be a whole number from 0 to 4294967295, not an object"},
    // Numbers out of range.
    {R"("src": 0)", R"("src": -1)", "/transfers/0/src: must be a whole number from 0 to 4294967295, not -1"},
    {R"("src": 0)", R"("src": 4294967296)",
     "/transfers/0/src: must be a whole number from 0 to 4294967295, not 4294967296"},
    {R"("src": 0)", R"("src": 1e3)", "/transfers/0/src: must be a whole number from 0 to 4294967295, not 1e3"},
    {R"("src": 0)", R"("src": -99999999999999999999)",
     "/transfers/0/src: must be a whole number from 0 to 4294967295, not -99999999999999999999"},
    {R"("channel": 2)", R"("channel": 65536)",
     "/transfers/1/channel: must be a whole number from 0 to 65535, not 65536"},
    {R"("after": [0])", R"("after": [0, 99999999999])",
     "/transfers/1/after/1: must be a whole number from 0 to 4294967295, not 99999999999"},
    {R"("offset": 1)", R"("offset": -1)",
     "/chunks/1/offset: must be a whole number from 0 to 9223372036854775807, not -1"},
    {R"("offset": 1)", R"("offset": 9223372036854775807)", "/chunks/1: offset + length must stay below 2^63"},
    // Unknown names.
    {R"("op": "reduce")", R"("op": "reduse")", R"(/transfers/0/op: unknown op "reduse"; did you mean "reduce"?)"},
    {R"("op": "reduce")", R"("op": "")", R"(/transfers/0/op: unknown op ""; known are copy, reduce)"},
    {R"("buffer": "data")", R"("buffer": "dta")", R"(/chunks/0/buffer: unknown buffer "dta"; did you mean "data"?)"},
    {R"("allreduce")", R"("all_reduce")", R"(/collective/type: unknown type "all_reduce"; did you mean "allreduce"?)"},
    {R"("sum")", R"("avg")", R"(/collective/reduction: unknown reduction "avg"; known are sum, prod, min, max)"},
    {R"("src": 0)", R"("source": 0)",
     R"(/transfers/0/source: unknown key "source"; did you mean "src"?)"},
    {R"("src": 0)", R"("from_rank": 0)",
     R"(/transfers/0/from_rank: unknown key "from_rank"; known are src, dst, chunk, src_chunk, dst_chunk, op, channel, after)"},
    {R"("channel": 2)", R"("chanel": 2)", R"(/transfers/1/chanel: unknown key "chanel"; did you mean "channel"?)"},
    {R"("units": 2)", R"("un/ts~": 2)", R"(/un~1ts~0: unknown key "un/ts~"; did you mean "units"?)"},
    {R"("units": 2)", R"("un\nts": 2)", R"(/un?ts: unknown key "un?ts"; did you mean "units"?)"},
    {R"("offset": 0)", R"("ofset": 0)", R"(/chunks/0/ofset: unknown key "ofset"; did you mean "offset"?)"},
    {R"("reduction": "sum")", R"("reduce": "sum")",
     R"(/collective/reduce: unknown key "reduce"; did you mean "reduction"?)"},
    // Keys missing, twice, or excluding each other.
    {R"("src": 0, )", "", R"(/transfers/0: needs the key "src")"},
    {R"(, "op": "reduce")", "", R"(/transfers/0: needs the key "op")"},
    {R"("units": 2,)", "", R"(/: needs the key "units")"},
    {R"("ranks": 2, )", "", R"(/collective: needs the key "ranks")"},
    {R"("length": 1)", R"("buffer": "data")", R"(/chunks/0/buffer: the key "buffer" appears twice in one object)"},
    {R"("src": 0)", R"("src": 0, "src": 0)", R"(/transfers/0/src: the key "src" appears twice in one object)"},
    {R"("units": 2)", R"("units": 2, "chunks": [])", R"(/chunks: the key "chunks" appears twice in one object)"},
    {R"("chunk": 0)", R"("src_chunk": 0)",
     R"(/transfers/0: needs either the key "chunk" or both "src_chunk" and "dst_chunk")"},
    {R"("chunk": 0)", R"("chunk": 0, "dst_chunk": 0)",
     R"(/transfers/0: needs either the key "chunk" or both "src_chunk" and "dst_chunk")"},
    {R"("allreduce", "ranks": 2)", R"("reduce", "ranks": 2)", R"(/collective: reduce needs the key "root")"},
    {R"("ranks": 2)", R"("ranks": 2, "root": 0)", "/collective/root: allreduce has no root"},
};

TEST(ScheduleErrors, EachMistakeIsNamedWithItsPlace) {
  ASSERT_EQ(json_error(small), "no error");
  for (const Spoiling& spoiling : spoilings)
    EXPECT_EQ(json_error(spoiled(spoiling.from, spoiling.to)), std::string("s.json: ") + spoiling.error)
        << spoiling.to;
}

TEST(ScheduleErrors, CborIsCheckedLikeJson) {
  for (const Spoiling& spoiling : spoilings) {
    const std::string text = spoiled(spoiling.from, spoiling.to);
    // What a document cannot hold, or prints in another way.
    if (std::string(spoiling.error).find("twice") != std::string::npos) continue;
    if (std::string(spoiling.to).find_first_of(".e9") != std::string::npos &&
        std::string(spoiling.error).find("whole number") != std::string::npos)
      continue;
    std::string bytes;
    nlohmann::ordered_json::to_cbor(nlohmann::ordered_json::parse(text), bytes);
    EXPECT_EQ(cbor_error(bytes), std::string("s.cbor: ") + spoiling.error) << spoiling.to;
  }
}

TEST(ScheduleErrors, SyntaxErrorsNameTheLine) {
  EXPECT_EQ(json_error(""), "s.json:1: not valid JSON: a value is expected, but the file ends");
  EXPECT_EQ(json_error(std::string(small) + "x"), "s.json:6: not valid JSON: something follows the end of the document");
  EXPECT_EQ(json_error(spoiled("[0]", "[0,]")), "s.json:6: not valid JSON: a value is expected, but ']' comes");
  EXPECT_EQ(json_error(spoiled("[0]", "[0 1]")), "s.json:6: not valid JSON: ',' or ']' is expected, but '1' comes");
  EXPECT_EQ(json_error(spoiled(R"("src": 0,)", R"("src": 0,,)")),
            "s.json:5: not valid JSON: a key in quotes is expected, but ',' comes");
  EXPECT_EQ(json_error(spoiled(R"("src": 0)", R"("src" 0)")), "s.json:5: not valid JSON: ':' is expected, but '0' comes");
  EXPECT_EQ(json_error(spoiled(R"("src": 0)", R"("src": 01)")),
            "s.json:5: not valid JSON: ',' or '}' is expected, but '1' comes");
  EXPECT_EQ(json_error(spoiled(R"("src": 0)", R"("src": -)")),
            "s.json:5: not valid JSON: a digit is expected, but ',' comes");
  EXPECT_EQ(json_error(spoiled(R"("src": 0)", R"("src": 0.)")),
            "s.json:5: not valid JSON: a digit is expected, but ',' comes");
  EXPECT_EQ(json_error(spoiled(R"("src": 0)", R"("src": .5)")),
            "s.json:5: not valid JSON: a value is expected, but '.' comes");
  EXPECT_EQ(json_error(spoiled(R"("src": 0)", R"("src": NaN)")),
            "s.json:5: not valid JSON: a value is expected, but 'N' comes");
  EXPECT_EQ(json_error(spoiled("true", "tru")), "s.json:2: not valid JSON: a value is expected, but 't' comes");
  EXPECT_EQ(json_error(spoiled("\"x\"", "\"\n\"")),
            "s.json:1: not valid JSON: a control character in a string is not escaped");
  EXPECT_EQ(json_error(spoiled("\"x\"", "\"\xff\"")), "s.json:1: not valid JSON: a string is not UTF-8");
  EXPECT_EQ(json_error(spoiled("\"x\"", "\xff")), "s.json:1: not valid JSON: a value is expected, but byte 0xff comes");
  EXPECT_EQ(json_error(spoiled("\"x\"", R"("\q")")), "s.json:1: not valid JSON: an unknown escape in a string");
  EXPECT_EQ(json_error(spoiled("\"x\"", R"("\ud800")")), "s.json:1: not valid JSON: half a surrogate pair in a string");
  EXPECT_EQ(json_error(spoiled("\"x\"", R"("\udc00")")), "s.json:1: not valid JSON: half a surrogate pair in a string");
  EXPECT_EQ(json_error(spoiled("\"x\"", R"("\u12g4")")), "s.json:1: not valid JSON: \\u needs four hexadecimal digits");
}

TEST(ScheduleErrors, EveryTruncationIsRefused) {
  const std::string text = everything_as_json, bytes = cbor_of(everything());
  for (size_t length = 0; length + 2 < text.size(); ++length)  // without the last "}\n"
    EXPECT_NE(json_error(text.substr(0, length)).find("not valid JSON: "), std::string::npos) << length;
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(cbor_error(bytes.substr(0, length)).find("not valid CBOR: "), std::string::npos) << length;
}

TEST(ScheduleErrors, DeepNestingIsRefusedAtTheFirstLevelThatDoesNotBelong) {
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(json_error(deep), "s.json: /: must be an object, not an array");
  EXPECT_EQ(json_error(spoiled("[0]", deep)),
            "s.json: /transfers/1/after/0: must be a whole number from 0 to 4294967295, not an array");
}

TEST(ScheduleErrors, CborThatIsNotRead) {
  EXPECT_EQ(cbor_error(""), "s.cbor: not valid CBOR: byte 0: the file ends too early");
  EXPECT_EQ(cbor_error("\xd9\xd9\xf7\xa0"), "s.cbor: not valid CBOR: byte 1: tags are not read");
  EXPECT_EQ(cbor_error(cbor_of(everything()) + '\0'),
            "s.cbor: not valid CBOR: byte " + std::to_string(cbor_of(everything()).size()) + ": something follows the end");
  EXPECT_EQ(cbor_error("\xa1\x01\x01"), "s.cbor: not valid CBOR: byte 2: a key that is not a text string");
  EXPECT_EQ(cbor_error("\xa1\x7f\x61\x61\xff"), "s.cbor: not valid CBOR: byte 2: strings in pieces are not read");
  EXPECT_EQ(cbor_error("\xa1" + std::string(1'000'000, '\x7f')),
            "s.cbor: not valid CBOR: byte 2: strings in pieces are not read");
  EXPECT_EQ(cbor_error(std::string(1'000'000, '\x9f')), "s.cbor: /: must be an object, not an array");
  EXPECT_EQ(cbor_error("\xa1\x66" "format\x62\xc3\x28"),
            "s.cbor: not valid CBOR: byte 11: a text string before this byte is not UTF-8");
  EXPECT_EQ(cbor_error("\xa1\x66" "format\x42\x01\x02"), "s.cbor: /format: must be a string, not a byte string");
  for (const std::string& number : {"\xf9\x3e\x00"s, "\xfa\x3f\xc0\x00\x00"s, "\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00"s})
    EXPECT_EQ(cbor_error("\xa1\x66" "format" + number), "s.cbor: /format: must be a string, not 1.5");
}

TEST(ScheduleErrors, LengthsThatAreOnlyClaimedTakeNoMemory) {
  const std::string huge = "\xbb\x0f\xff\xff\xff\xff\xff\xff\xff";  // a map of 2^60 - 1 members
  EXPECT_EQ(cbor_error(huge), "s.cbor: not valid CBOR: byte 9: the file ends too early");
  const std::string key = "\xa1\x66" "chunks";
  EXPECT_EQ(cbor_error(key + "\x9b\x0f\xff\xff\xff\xff\xff\xff\xff"),
            "s.cbor: not valid CBOR: byte 17: the file ends too early");
  EXPECT_EQ(cbor_error("\xa1\x7b\xff\xff\xff\xff\xff\xff\xff\xff"),
            "s.cbor: not valid CBOR: byte 10: the file ends within a string");
}

// A folder that is removed with its contents.
class ScheduleFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("slackline_schedule_io_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name, const std::string& contents) {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return folder_ / name;
  }
  fs::path folder_;
};

TEST_F(ScheduleFiles, TheExtensionChoosesTheFormatWrittenAndTheContentsThatRead) {
  write_schedule(everything(), folder_ / "a.json");
  write_schedule(everything(), folder_ / "a.cbor");
  EXPECT_EQ(read_file(folder_ / "a.json"), everything_as_json);
  EXPECT_EQ(read_file(folder_ / "a.cbor"), cbor_of(everything()));
  fs::rename(folder_ / "a.json", folder_ / "b.cbor");
  fs::rename(folder_ / "a.cbor", folder_ / "b.json");
  EXPECT_EQ(read_schedule(folder_ / "b.json"), everything());
  EXPECT_EQ(read_schedule(folder_ / "b.cbor"), everything());
  EXPECT_EQ(read_schedule(write("c", "\xef\xbb\xbf\n" + std::string(everything_as_json))), everything());
}

TEST_F(ScheduleFiles, OtherExtensionsAreRefusedBeforeAnythingIsWritten) {
  const fs::path path = folder_ / "a.txt";
  const auto action = [&] { write_schedule(everything(), path); };
  EXPECT_EQ(error_of(action), path.string() + ": a schedule is written in the format that its file's extension names, one "
                                              "of .json, .cbor, .xml");
  EXPECT_EQ(error_kind_of(action), ErrorKind::usage);
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ScheduleFiles, UnreadableFiles) {
  const auto error = [&](const fs::path& path) { return error_of([&] { read_schedule(path); }); };
  EXPECT_EQ(error(folder_ / "none"), (folder_ / "none").string() + ": cannot be read: No such file or directory");
  EXPECT_EQ(error(folder_), folder_.string() + ": is a directory, not a file");
  EXPECT_EQ(error(write("empty", "")), (folder_ / "empty").string() + ": is empty");
  EXPECT_EQ(error(write("x", "src,dst\n")).find((folder_ / "x").string() +
                                                ": is not a schedule in any format that slackline reads: "),
            0u);
  EXPECT_EQ(error(write("y", "{\n\"format\": }")),
            (folder_ / "y").string() + ":2: not valid JSON: a value is expected, but '}' comes");
}

}  // namespace
}  // namespace slackline
