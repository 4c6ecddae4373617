// Pictures as XML: what is in them, and that they stay small.
#include "report/plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "support/expect_error.hpp"
#include "support/played.hpp"

namespace slackline {
namespace {

using testing::HasSubstr;
using testing::Not;

// Parses; fails the test where it is no XML.
void expect_svg(const std::string& svg) {
  pugi::xml_document document;
  EXPECT_TRUE(document.load_string(svg.c_str()));
  EXPECT_STREQ(document.document_element().name(), "svg");
}

// The bars of a colour.
size_t bars(const std::string& svg, const std::string& colour) {
  size_t count = 0;
  pugi::xml_document document;
  document.load_string(svg.c_str());
  for (const pugi::xml_node& path : document.document_element().children("path")) {
    if (path.attribute("fill").value() != colour) continue;
    const std::string d = path.attribute("d").value();
    count += static_cast<size_t>(std::count(d.begin(), d.end(), 'M'));
  }
  return count;
}

TEST(Plot, HasABarForEveryTransferWhereThereIsRoom) {
  const PlayedRun run = played(star(5, 4), generated("optcc", 5, CollectiveType::allreduce, {{"segments", 4}}, 4), 4, Bytes(int64_t{1} << 30));
  const std::string svg = run_svg(run, "optcc <& friends>");
  expect_svg(svg);
  EXPECT_EQ(svg, run_svg(run, "optcc <& friends>"));
  EXPECT_THAT(svg, HasSubstr("optcc &lt;&amp; friends&gt;"));
  // Every transfer once where it is sent and once where it is received: 48, 16, 16, 48 of the stages.
  EXPECT_EQ(bars(svg, "#0072B2"), 96u);
  EXPECT_EQ(bars(svg, "#E69F00"), 32u);
  EXPECT_EQ(bars(svg, "#D55E00"), 32u);
  EXPECT_EQ(bars(svg, "#009E73"), 96u);
  for (const std::string part : {"S1 reduce-scatter", "S2 upload", "S3 download", "S4 allgather", "0 (straggler)", "time (ms)", "10 network ports", "busiest: "})
    EXPECT_THAT(svg, HasSubstr(part));
  EXPECT_THAT(svg, Not(HasSubstr("in-server")));
}

TEST(Plot, StaysSmall) {
  const PlayedRun run = played(star(100), generated("ring", 100), 1, Bytes(int64_t{1} << 30));
  const std::string svg = run_svg(run, "ring");
  expect_svg(svg);
  EXPECT_LT(svg.size(), 2'000'000u);
  EXPECT_THAT(svg, HasSubstr("ranks, several a row"));
  EXPECT_THAT(svg, HasSubstr(">0 to 1<"));
  EXPECT_THAT(svg, HasSubstr(">98 to 99<"));
}

TEST(Plot, ShowsEventsAndManagesWithoutLoads) {
  PlayedRun run = played(star(2), HandMade::schedule(2, {{0, 1}}), 1, Bytes(1'000'000));
  run.result.recording.loads.clear();
  for (int i = 0; i < 8; ++i) run.result.recording.instants.push_back({TimePoint(1'000'000 * (i + 1)), "event <" + std::to_string(i) + ">"});
  const std::string svg = run_svg(run, "events");
  expect_svg(svg);
  EXPECT_THAT(svg, HasSubstr("1.0000 us: event &lt;0&gt;"));
  EXPECT_THAT(svg, HasSubstr("event &lt;5&gt;  (and 2 more events)"));
  EXPECT_THAT(svg, Not(HasSubstr("tilisation")));
  run.result.recording = {};
  EXPECT_EQ(error_of([&] { run_svg(run, ""); }), "a plot needs a run whose times were recorded");
}

}  // namespace
}  // namespace slackline
