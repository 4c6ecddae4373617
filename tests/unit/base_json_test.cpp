#include "base/json.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "../support/expect_error.hpp"

namespace slackline {
namespace {

// Calls `use` with a cursor on the root of the document.
template <class Use>
std::string error_with(const std::string& text, Use use) {
  const Json json = parse_json(text, "f.json");
  return error_of([&] { use(JsonCursor(json, "f.json")); });
}

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_json(text, "f.json"); });
}

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"b": 1, "a": [true, null, "x", -2, 1.5]})", "f").dump(),
            R"({"b":1,"a":[true,null,"x",-2,1.5]})");
}

TEST(ParseJson, SyntaxErrorsNameTheLine) {
  EXPECT_EQ(parse_error("{\n\"a\": 1,\n}").find("f.json:3: not valid JSON: "), 0u);
  EXPECT_EQ(parse_error("").find("f.json:1: not valid JSON: "), 0u);
  EXPECT_EQ(parse_error("{} {}").find("f.json:1: not valid JSON: "), 0u);
  EXPECT_EQ(parse_error("[1e999]"), "f.json:1: not valid JSON: number overflow parsing '1e999'");
  EXPECT_EQ(parse_error("[\"\xff\"]").find("f.json:1: not valid JSON: "), 0u);
  EXPECT_EQ(parse_error(std::string("{}\n\0junk", 8)), "f.json:2: not valid JSON: it has a NUL byte");
  EXPECT_EQ(error_kind_of([] { parse_json("{", "f"); }), ErrorKind::input);
}

TEST(ParseJson, DuplicateKeysAreRefusedOnlyWithinOneObject) {
  EXPECT_EQ(parse_error(R"({"a": 1, "b": 2, "a": 3})"),
            "f.json: not valid JSON: the key \"a\" appears twice in one object");
  EXPECT_EQ(parse_error(R"({"a": {"a": 1}, "b": {"a": 1}})"), "no error");
}

TEST(ParseJson, NestingDeeperThan100IsRefused) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(parse_error(nested(100)), "no error");
  EXPECT_EQ(parse_error(nested(101)), "f.json: not valid JSON: is nested more than 100 deep");
  EXPECT_EQ(parse_error(std::string(1'000'000, '[')), "f.json: not valid JSON: is nested more than 100 deep");
}

TEST(ParseJson, ManyKeysAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\": 0";
  EXPECT_EQ(parse_error(text + "}"), "no error");  // quadratic time would be minutes
  EXPECT_EQ(parse_error(text + ", \"77\": 1}"), "f.json: not valid JSON: the key \"77\" appears twice in one object");
}

TEST(ParseJson, FilesThatCannotBeRead) {
  EXPECT_EQ(error_of([] { read_json_file("/no/such.json"); }),
            "/no/such.json: cannot be read: No such file or directory");
}

TEST(JsonCursor, PointersLeadToTheValue) {
  EXPECT_EQ(error_with(R"({"a": [{"b": "x"}]})",
                       [](const JsonCursor& root) { root.at("a").elements().at(0).at("b").integer(0, 9); }),
            "f.json: /a/0/b: must be a whole number from 0 to 9, not a string");
  EXPECT_EQ(error_with(R"({"a/b~c": 1})", [](const JsonCursor& root) { root.at("a/b~c").string(); }),
            "f.json: /a~1b~0c: must be a string, not a number");
  EXPECT_EQ(error_with(R"({"a": {"b": 1}})",
                       [](const JsonCursor& root) {
                         for (const auto& [key, value] : root.at("a").members()) value.boolean();
                       }),
            "f.json: /a/b: must be true or false, not a number");
  EXPECT_EQ(error_with("[]", [](const JsonCursor& root) { root.at("a"); }), "f.json: /: must be an object, not an array");
  EXPECT_EQ(error_with("{}", [](const JsonCursor& root) { root.at("a"); }), "f.json: /: needs the key \"a\"");
  EXPECT_EQ(error_with("{}", [](const JsonCursor& root) { root.elements(); }), "f.json: /: must be an array, not an object");
  EXPECT_EQ(error_with("3", [](const JsonCursor& root) { root.members(); }), "f.json: /: must be an object, not a number");
}

TEST(JsonCursor, UnknownKeysSuggestTheNearest) {
  const auto check = [](const JsonCursor& root) { root.expect_object({"servers", "latency"}); };
  EXPECT_EQ(error_with(R"({"servers": 1})", check), "no error");
  EXPECT_EQ(error_with(R"({"server": 1})", check), "f.json: /server: unknown key \"server\"; did you mean \"servers\"?");
  EXPECT_EQ(error_with(R"({"quux": 1})", check), "f.json: /quux: unknown key \"quux\"; known are servers, latency");
  EXPECT_EQ(error_with("[]", check), "f.json: /: must be an object, not an array");
}

TEST(JsonCursor, FindAndHas) {
  const Json json = parse_json(R"({"a": 1})", "f");
  const JsonCursor root(json, "f");
  EXPECT_TRUE(root.has("a"));
  EXPECT_FALSE(root.has("b"));
  EXPECT_FALSE(root.at("a").has("b"));
  EXPECT_TRUE(root.find("a"));
  EXPECT_FALSE(root.find("b"));
}

TEST(JsonCursor, Integers) {
  const auto in = [](const JsonCursor& root) { root.integer(-5, 5); };
  EXPECT_EQ(error_with("5", in), "no error");
  EXPECT_EQ(error_with("-5", in), "no error");
  EXPECT_EQ(error_with("6", in), "f.json: /: must be a whole number from -5 to 5, not 6");
  EXPECT_EQ(error_with("-6", in), "f.json: /: must be a whole number from -5 to 5, not -6");
  EXPECT_EQ(error_with("1.0", in), "f.json: /: must be a whole number from -5 to 5, not 1.0");
  EXPECT_EQ(error_with("18446744073709551615", in),
            "f.json: /: must be a whole number from -5 to 5, not 18446744073709551615");
  EXPECT_EQ(error_with("null", in), "f.json: /: must be a whole number from -5 to 5, not null");
  const Json largest = parse_json("9223372036854775807", "f");
  EXPECT_EQ(JsonCursor(largest, "f").integer(0, INT64_MAX), INT64_MAX);
}

TEST(JsonCursor, Numbers) {
  const auto in = [](const JsonCursor& root) { root.number(0, 1.5); };
  EXPECT_EQ(error_with("1", in), "no error");
  EXPECT_EQ(error_with("1.5", in), "no error");
  EXPECT_EQ(error_with("1.6", in), "f.json: /: must be a number from 0.0 to 1.5, not 1.6");
  EXPECT_EQ(error_with("\"1\"", in), "f.json: /: must be a number, not a string");
}

TEST(JsonCursor, Quantities) {
  EXPECT_EQ(error_with(R"("8 GiB")", [](const JsonCursor& root) { EXPECT_EQ(root.bytes().count(), 8LL << 30); }), "no error");
  EXPECT_EQ(error_with(R"("2 us")", [](const JsonCursor& root) { EXPECT_EQ(root.duration().count(), 2'000'000); }),
            "no error");
  EXPECT_EQ(error_with("8", [](const JsonCursor& root) { root.bytes(); }),
            "f.json: /: must be a string with a unit, such as \"8 GiB\", not the bare number 8");
  EXPECT_EQ(error_with("[]", [](const JsonCursor& root) { root.duration(); }),
            "f.json: /: must be a string with a unit, such as \"2 us\", not an array");
  EXPECT_EQ(error_with(R"("0 b/s")", [](const JsonCursor& root) { root.bandwidth(); }), "f.json: /: a rate must be above 0");
  EXPECT_EQ(error_with(R"("8 Gb")", [](const JsonCursor& root) { root.bandwidth(); }).find(
                "f.json: /: \"8 Gb\" has an unknown unit \"Gb\"; write a rate such as"),
            0u);
}

TEST(JsonCursor, Fractions) {
  EXPECT_EQ(error_with(R"(["8/7", 2, "1.5"])",
                       [](const JsonCursor& root) {
                         EXPECT_EQ(root.elements()[0].fraction(), Fraction(8, 7));
                         EXPECT_EQ(root.elements()[1].fraction(), Fraction(2));
                         EXPECT_EQ(root.elements()[2].fraction(), Fraction(3, 2));
                       }),
            "no error");
  EXPECT_EQ(error_with("1.5", [](const JsonCursor& root) { root.fraction(); }),
            "f.json: /: must be an exact fraction: a whole number or a string such as \"3/2\"");
  EXPECT_EQ(error_with(R"("a")", [](const JsonCursor& root) { root.fraction(); }),
            "f.json: /: \"a\" is not a fraction; write it as \"3/2\", \"2\" or \"1.25\"");
}

TEST(JsonCursor, OneOf) {
  static constexpr std::array<std::string_view, 2> names = {"fair", "exclusive"};
  const auto choose = [](const JsonCursor& root) { root.one_of(names, "sharing"); };
  EXPECT_EQ(error_with(R"("fair")", choose), "no error");
  EXPECT_EQ(error_with(R"("fare")", choose), "f.json: /: unknown sharing \"fare\"; did you mean \"fair\"?");
  EXPECT_EQ(error_with(R"("x")", choose), "f.json: /: unknown sharing \"x\"; known are fair, exclusive");
  EXPECT_EQ(error_with("1", choose), "f.json: /: must be a string, not a number");
}

}  // namespace
}  // namespace slackline
