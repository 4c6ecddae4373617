// The JSON Schemas in schedules/, topologies/ and scenarios/ describe what the readers read: what slackline writes satisfies
// them, and what they refuse the readers refuse too.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "../support/expect_error.hpp"
#include "../support/networks.hpp"
#include "../support/sanitized.hpp"
#include "base/files.hpp"
#include "scenario/failures.hpp"
#include "scenario/scenario.hpp"
#include "schedule/schedule_io.hpp"
#include "schedule/validate.hpp"

namespace slackline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path source_dir = SLACKLINE_SOURCE_DIR;

// Holds a schema; says what is wrong with a document, or "".
class SchemaFile {
 public:
  explicit SchemaFile(const fs::path& path) : document_(json::parse(read_file(path))) {
    valijson::SchemaParser parser;
    parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(document_), schema_);
  }
  std::string problem(const json& document) const {
    valijson::Validator validator(valijson::Validator::kStrongTypes);
    valijson::ValidationResults results;
    const valijson::adapters::NlohmannJsonAdapter adapter(document);
    if (validator.validate(schema_, adapter, &results)) return "";
    valijson::ValidationResults::Error error;
    return results.popError(error) ? error.description : "unknown";
  }

 private:
  json document_;
  valijson::Schema schema_;
};

std::string json_of(const Schedule& schedule) {
  std::ostringstream stream;
  write_schedule_json(schedule, stream);
  return stream.str();
}

// Each patch (RFC 6902) of a correct document must be refused by the schema and, when it is a schedule or topology,
// by `read`.
template <class Read>
void expect_refused(const SchemaFile& schema, const json& document, const std::vector<const char*>& patches, Read read) {
  ASSERT_EQ(schema.problem(document), "");
  ASSERT_EQ(error_of([&] { read(document.dump()); }), "no error");
  for (const char* const patch : patches) {
    const json changed = document.patch(json::parse(patch));
    EXPECT_NE(schema.problem(changed), "") << patch;
    EXPECT_NE(error_of([&] { read(changed.dump()); }), "no error") << patch;
  }
}

TEST(ScheduleSchema, TheExampleIsTheRingOfThree) {
  const std::string text = read_file(source_dir / "schedules/examples/ring3.json");
  EXPECT_EQ(text, json_of(generated("ring", 3)));
  EXPECT_TRUE(validate(parse_schedule_json(text, "ring3.json")).empty());
}

TEST(ScheduleSchema, AcceptsWhatSlacklineWrites) {
  const SchemaFile schema(source_dir / "schedules/schedule.schema.json");
  for (const int ranks : {2, 3, 8}) {
    for (const CollectiveType type :
         {CollectiveType::allreduce, CollectiveType::reduce_scatter, CollectiveType::allgather})
      EXPECT_EQ(schema.problem(json::parse(json_of(generated("ring", ranks, type)))), "");
    if (ranks > 2) {
      const Schedule optcc = generated("optcc", ranks, CollectiveType::allreduce, {{"segments", 3}}, 1);
      EXPECT_EQ(schema.problem(json::parse(json_of(optcc))), "");
    }
  }
  Schedule rooted({CollectiveType::gather, 2, 1, false, Reduction::min}, 2);
  rooted.add_chunk({Buffer::scratch, 0, 0});
  rooted.add({0, UINT32_MAX, 0, 1, TransferOp::reduce, UINT16_MAX, {}});
  EXPECT_EQ(schema.problem(json::parse(json_of(rooted))), "");
}

TEST(ScheduleSchema, WhatItRefusesTheReaderRefuses) {
  const SchemaFile schema(source_dir / "schedules/schedule.schema.json");
  const json document = json::parse(read_file(source_dir / "schedules/examples/ring3.json"));
  expect_refused(schema, document,
                 {
                     R"([{"op": "remove", "path": "/format"}])",
                     R"([{"op": "replace", "path": "/format", "value": "schedule"}])",
                     R"([{"op": "replace", "path": "/version", "value": 2}])",
                     R"([{"op": "remove", "path": "/version"}])",
                     R"([{"op": "replace", "path": "/algorithm", "value": 1}])",
                     R"([{"op": "add", "path": "/comment", "value": ""}])",
                     R"([{"op": "remove", "path": "/collective"}])",
                     R"([{"op": "replace", "path": "/collective/type", "value": "all-reduce"}])",
                     R"([{"op": "replace", "path": "/collective/ranks", "value": 0}])",
                     R"([{"op": "replace", "path": "/collective/ranks", "value": 2147483648}])",
                     R"([{"op": "add", "path": "/collective/root", "value": 0}])",
                     R"([{"op": "replace", "path": "/collective/type", "value": "broadcast"}])",
                     R"([{"op": "replace", "path": "/collective/in_place", "value": 0}])",
                     R"([{"op": "replace", "path": "/collective/reduction", "value": "avg"}])",
                     R"([{"op": "replace", "path": "/units", "value": 0}])",
                     R"([{"op": "replace", "path": "/units", "value": "3"}])",
                     R"([{"op": "replace", "path": "/units", "value": 1.5}])",
                     R"([{"op": "replace", "path": "/chunks", "value": {}}])",
                     R"([{"op": "replace", "path": "/chunks/0", "value": [0, 1]}])",
                     R"([{"op": "replace", "path": "/chunks/0/buffer", "value": "Data"}])",
                     R"([{"op": "replace", "path": "/chunks/0/offset", "value": -1}])",
                     R"([{"op": "remove", "path": "/chunks/0/length"}])",
                     R"([{"op": "add", "path": "/chunks/0/rank", "value": 0}])",
                     R"([{"op": "replace", "path": "/transfers", "value": null}])",
                     R"([{"op": "remove", "path": "/transfers/1/src"}])",
                     R"([{"op": "replace", "path": "/transfers/1/src", "value": -1}])",
                     R"([{"op": "replace", "path": "/transfers/1/dst", "value": 4294967296}])",
                     R"([{"op": "remove", "path": "/transfers/1/chunk"}])",
                     R"([{"op": "add", "path": "/transfers/1/src_chunk", "value": 0}])",
                     R"([{"op": "move", "from": "/transfers/1/chunk", "path": "/transfers/1/dst_chunk"}])",
                     R"([{"op": "remove", "path": "/transfers/1/op"}])",
                     R"([{"op": "replace", "path": "/transfers/1/op", "value": "add"}])",
                     R"([{"op": "add", "path": "/transfers/1/channel", "value": 65536}])",
                     R"([{"op": "add", "path": "/transfers/1/after", "value": 0}])",
                     R"([{"op": "add", "path": "/transfers/1/after", "value": ["0"]}])",
                     R"([{"op": "add", "path": "/transfers/1/after", "value": [-1]}])",
                     R"([{"op": "add", "path": "/transfers/1/rank", "value": 0}])",
                 },
                 [](const std::string& text) { parse_schedule_json(text, "x"); });
  EXPECT_NE(schema.problem(json::array()), "");
}

TEST(TopologySchema, TheExampleIsTwoQuads) {
  const SchemaFile schema(source_dir / "topologies/topology.schema.json");
  const std::string text = read_file(source_dir / "topologies/two_quads.json");
  EXPECT_EQ(schema.problem(json::parse(text)), "");
  const Network network = build_network(topology_of(text), {});
  ASSERT_EQ(network.ranks(), 8);
  EXPECT_EQ(network.links().size(), 32u);  // 16 in both directions
  for (int a = 0; a < 8; ++a) {
    EXPECT_EQ(network.out_links(a).size(), 4u);
    for (int b = 0; b < 8; ++b) {
      if (a == b) continue;
      const bool linked = a / 4 == b / 4 || a % 4 == b % 4;
      ASSERT_EQ(network.has_route(a, b), linked) << a << " " << b;  // no way leads through a third GPU
      if (!linked) continue;
      const Route& route = network.route(a, b);
      ASSERT_EQ(route.links.size(), 1u);
      EXPECT_EQ(network.links()[route.links[0]].capacity, parse_bandwidth("20 GB/s"));
    }
  }
}

TEST(TopologySchema, WhatItRefusesTheExplicitBuilderRefuses) {
  const SchemaFile schema(source_dir / "topologies/topology.schema.json");
  const json document = json::parse(read_file(source_dir / "topologies/two_quads.json"));
  expect_refused(schema, document,
                 {
                     R"([{"op": "remove", "path": "/builder"}])",
                     R"([{"op": "replace", "path": "/builder", "value": "mesh"}])",
                     R"([{"op": "add", "path": "/servers", "value": 1}])",
                     R"([{"op": "remove", "path": "/vertices"}])",
                     R"([{"op": "remove", "path": "/links"}])",
                     R"([{"op": "replace", "path": "/name", "value": 1}])",
                     R"([{"op": "add", "path": "/message_overhead", "value": "20"}])",
                     R"([{"op": "remove", "path": "/vertices/0/server"}])",
                     R"([{"op": "replace", "path": "/vertices/0/server", "value": -1}])",
                     R"([{"op": "replace", "path": "/vertices/0/kind", "value": "tpu"}])",
                     R"([{"op": "replace", "path": "/vertices/0/name", "value": ""}])",
                     R"([{"op": "add", "path": "/vertices/0/memory", "value": "80 GiB"}])",
                     R"([{"op": "remove", "path": "/links/0/from"}])",
                     R"([{"op": "replace", "path": "/links/0/to", "value": 1}])",
                     R"([{"op": "remove", "path": "/links/0/bandwidth"}])",
                     R"([{"op": "replace", "path": "/links/0/bandwidth", "value": "20 GB"}])",
                     R"([{"op": "replace", "path": "/links/0/bandwidth", "value": "-20 GB/s"}])",
                     R"([{"op": "replace", "path": "/links/0/bandwidth", "value": "20. GB/s"}])",
                     R"([{"op": "replace", "path": "/links/0/bandwidth", "value": ".5 GB/s"}])",
                     R"([{"op": "replace", "path": "/links/0/bandwidth", "value": 20}])",
                     R"([{"op": "replace", "path": "/links/0/latency", "value": "1 GB/s"}])",
                     R"([{"op": "replace", "path": "/links/0/kind", "value": "nvswitch"}])",
                     R"([{"op": "add", "path": "/links/0/count", "value": 0}])",
                     R"([{"op": "add", "path": "/links/0/count", "value": 1025}])",
                     R"([{"op": "add", "path": "/links/0/one_way", "value": "no"}])",
                     R"([{"op": "add", "path": "/links/0/speed", "value": "1 GB/s"}])",
                 },
                 [](const std::string& text) { topology_of(text); });
}

TEST(TopologySchema, WhatItRefusesTheRailFabricRefuses) {
  const SchemaFile schema(source_dir / "topologies/topology.schema.json");
  const json document = json::parse(R"({"builder": "rail_fabric", "name": "x", "servers": 2, "gpus_per_server": 8,
      "nics_per_server": 8, "nic_bandwidth": "400 Gb/s", "nic_latency": "2 us", "message_overhead": "20 ns",
      "nvlink_bandwidth": "0.9 TB/s", "nvlink_latency": "500 ns"})");
  std::vector<std::string> patches;
  for (const char* const key : {"servers", "gpus_per_server", "nics_per_server"})
    for (const char* const value : {"0", "-1", "1.5", "\"2\"", "65537", "null"})
      patches.push_back(R"([{"op": "replace", "path": "/)" + std::string(key) + R"(", "value": )" + value + "}]");
  for (const char* const key : {"nic_bandwidth", "nvlink_bandwidth"})
    for (const char* const value : {"100", "\"100\"", "\"100 Gb\"", "\"1e3 GB/s\"", "\"100 gb/s\""})
      patches.push_back(R"([{"op": "replace", "path": "/)" + std::string(key) + R"(", "value": )" + value + "}]");
  for (const char* const key : {"nic_latency", "message_overhead", "nvlink_latency"})
    for (const char* const value : {"0", "\"0\"", "\"2 µs\"", "\"2 us \"", "\"1 GB\""})
      patches.push_back(R"([{"op": "replace", "path": "/)" + std::string(key) + R"(", "value": )" + value + "}]");
  for (const auto& [key, value] : document.items())
    if (key != "name") patches.push_back(R"([{"op": "remove", "path": "/)" + key + "\"}]");
  patches.push_back(R"([{"op": "add", "path": "/vertices", "value": []}])");
  std::vector<const char*> texts;
  for (const std::string& patch : patches) texts.push_back(patch.c_str());
  expect_refused(schema, document, texts, [](const std::string& text) { topology_of(text); });
}

TEST(TopologySchema, WhatItRefusesTheFabricsRefuse) {
  const SchemaFile schema(source_dir / "topologies/topology.schema.json");
  const auto read = [](const std::string& text) { topology_of(text); };
  const auto file = [](const char* name) { return json::parse(read_file(source_dir / "topologies" / name)); };
  expect_refused(schema, file("rails_with_spine.json"),
                 {R"([{"op": "replace", "path": "/builder", "value": "single_switch"}])", R"([{"op": "replace", "path": "/builder", "value": "leaf_spine"}])",
                  R"([{"op": "remove", "path": "/pcie_bandwidth"}, {"op": "add", "path": "/pcie_latency", "value": "1 ns"}])",
                  R"([{"op": "add", "path": "/pcie_switches_per_server", "value": 0}])", R"([{"op": "add", "path": "/ports_per_nic", "value": 3}])",
                  R"([{"op": "remove", "path": "/spine/switches"}])", R"([{"op": "remove", "path": "/spine/latency"}])",
                  R"([{"op": "replace", "path": "/spine/switches", "value": 0}])", R"([{"op": "replace", "path": "/spine/oversubscription", "value": 0}])",
                  R"([{"op": "add", "path": "/spine/bandwidth", "value": "1 Gb/s"}])", R"([{"op": "add", "path": "/spine/spines", "value": 1}])"},
                 read);
  expect_refused(schema, file("fat_tree.json"),
                 {R"([{"op": "remove", "path": "/servers_per_leaf"}])", R"([{"op": "remove", "path": "/leaves_per_pod"}])",
                  R"([{"op": "remove", "path": "/aggregations_per_pod"}])", R"([{"op": "remove", "path": "/cores"}])",
                  R"([{"op": "remove", "path": "/switch_latency"}])", R"([{"op": "replace", "path": "/cores", "value": 65537}])",
                  R"([{"op": "add", "path": "/oversubscription", "value": "2:1"}])", R"([{"op": "add", "path": "/spine", "value": {}}])"},
                 read);
  expect_refused(schema, file("dual_tor.json"),
                 {R"([{"op": "remove", "path": "/servers_per_rack"}])", R"([{"op": "add", "path": "/ports_per_nic", "value": 2}])",
                  R"([{"op": "add", "path": "/port_bandwidth", "value": "200"}])", R"([{"op": "replace", "path": "/spine", "value": []}])"},
                 read);
}

TEST(ScenarioSchema, WhatItRefusesOfFailuresTheReaderRefuses) {
  const SchemaFile schema(source_dir / "scenarios/scenario.schema.json");
  json document = json::parse(read_file(source_dir / "scenarios/one_nic_down.json"));
  document["failures"] = json::parse(R"([{"server": 0, "nics": [1], "remaining": "1/2"}, {"server": 1, "nic": 0, "port": 0}, {"cable": ["server1/nic1", "rail1"]},
      {"switch": "rail2", "remaining": 0}, {"server": 1, "gpu": 2, "reduction": "50 GB/s"}, {"server": 2, "slowdown": "3/2", "nvlink": [0], "count": 1}])");
  expect_refused(schema, document,
                 {R"([{"op": "remove", "path": "/failures/0/nics"}])", R"([{"op": "replace", "path": "/failures/0/remaining", "value": "half"}])",
                  R"([{"op": "add", "path": "/failures/0/count", "value": 1}])", R"([{"op": "remove", "path": "/failures/1/port"}])",
                  R"([{"op": "remove", "path": "/failures/1/server"}])", R"([{"op": "add", "path": "/failures/1/nics", "value": 1}])",
                  R"([{"op": "remove", "path": "/failures/2/cable/0"}])", R"([{"op": "add", "path": "/failures/2/server", "value": 0}])",
                  R"([{"op": "replace", "path": "/failures/3/switch", "value": ""}])", R"([{"op": "replace", "path": "/failures/3/remaining", "value": -1}])",
                  R"([{"op": "add", "path": "/failures/3/gpu", "value": 1}])", R"([{"op": "remove", "path": "/failures/4/reduction"}])",
                  R"([{"op": "replace", "path": "/failures/4/reduction", "value": "50"}])", R"([{"op": "add", "path": "/failures/4/remaining", "value": 1}])",
                  R"([{"op": "add", "path": "/failures/5/nvlink/1", "value": -1}])", R"([{"op": "add", "path": "/failures/5/at", "value": 3}])",
                  R"([{"op": "add", "path": "/failures/5/flap", "value": {"period": "1 ms"}}])", R"([{"op": "add", "path": "/failures/5/when", "value": "1 s"}])",
                  R"([{"op": "replace", "path": "/failures/5", "value": {"random": {"seed": 1, "horizon": "1 s"}}}])"},
                 [](const std::string& text) {
                   const Json scenario = parse_json(text, "test");
                   const JsonCursor root(scenario, "test");
                   Topology topology = build_topology(root.at("topology"), ".");
                   apply_failures(topology, parse_failures(root.at("failures"), topology));
                 });
  for (const char* const entry : {R"({"switch": "rail1", "at": "1 ms"})", R"({"server": 0, "nics": 1, "until": "1 min"})",
                                  R"({"server": 0, "gpu": 0, "reduction": "1 GB/s"})", R"({"switch": "rail1", "flap": {"period": "1 ms", "duty": "1/2"}})",
                                  R"({"random": {"seed": 1, "nic_failures_per_hour": "100", "repair": "1 s", "horizon": "1 h"}})"}) {
    document["failures"] = json::array({json::parse(entry)});
    EXPECT_EQ(schema.problem(document), "") << entry;
    EXPECT_EQ(error_of([&] { parse_scenario({parse_json(document.dump(), "test"), "test", "."}); }), "no error") << entry;
  }
}

TEST(ScenarioSchema, WhatItRefusesOfRecoveryTheReaderRefuses) {
  const SchemaFile schema(source_dir / "scenarios/scenario.schema.json");
  json document = json::parse(read_file(source_dir / "scenarios/drills/one_nic.json"));
  document.erase("sweep");
  document["arrivals"] = json::parse(R"({"distribution": "uniform", "mean": "1 ms", "seed": 1})");
  document["background"] = json::parse(R"([{"from": {"server": 0, "gpu": 1}, "to": {"server": 2, "gpu": 1}, "rate": "10 Gb/s", "until": "1 s"}])");
  document["network"] = json::parse(R"({"nics": "each", "striping": "all", "cross_rail": "switches", "routing": "spray", "seed": 3})");
  expect_refused(schema, document,
                 {R"([{"op": "replace", "path": "/recovery/policy", "value": "hope"}])", R"([{"op": "replace", "path": "/recovery/detection", "value": 5}])",
                  R"([{"op": "add", "path": "/recovery/patience", "value": "1 ms"}])", R"([{"op": "remove", "path": "/arrivals/seed"}])",
                  R"([{"op": "replace", "path": "/arrivals/distribution", "value": "poisson"}])", R"([{"op": "remove", "path": "/background/0/to"}])",
                  R"([{"op": "remove", "path": "/background/0/from/gpu"}])", R"([{"op": "replace", "path": "/background/0/rate", "value": "10"}])",
                  R"([{"op": "replace", "path": "/network/nics", "value": "all"}])", R"([{"op": "replace", "path": "/network/routing", "value": "adaptive"}])",
                  R"([{"op": "replace", "path": "/network/seed", "value": -1}])", R"([{"op": "replace", "path": "/ranks/groups", "value": 0}])",
                  R"([{"op": "remove", "path": "/ranks/gpus_per_server"}])", R"([{"op": "add", "path": "/jobs", "value": []}])",
                  R"([{"op": "add", "path": "/jobs", "value": [{"size": "1 GiB"}]}])"},
                 [](const std::string& text) {
                   const Json scenario = parse_json(text, "test");
                   for (const ScenarioDocument& group : group_documents({scenario, "test", "."})) parse_scenario(group);
                 });
}

TEST(ScenarioSchema, DescribesWhatTheReaderReads) {
  const SchemaFile schema(source_dir / "scenarios/scenario.schema.json");
  for (const auto& entry : fs::recursive_directory_iterator(source_dir / "scenarios")) {
    if (entry.path().extension() != ".json" || entry.path().filename() == "scenario.schema.json") continue;
    EXPECT_EQ(schema.problem(json::parse(read_file(entry.path()))), "") << entry.path();
    const bool drill = entry.path().parent_path().filename() == "drills";
    for (const SweepPoint& point : sweep_points(read_scenario(entry.path()))) {
      EXPECT_EQ(error_of([&] { parse_scenario(group_documents(point.document).back()); }), "no error") << entry.path() << " " << point.label;
      // Points of drills differ in the policy only, and their clusters are large.
      if (drill || sanitized) break;
    }
  }
  expect_refused(schema, json::parse(read_file(source_dir / "scenarios/one_nic_down.json")),
                 {R"([{"op": "remove", "path": "/name"}])", R"([{"op": "remove", "path": "/topology"}])",
                  R"([{"op": "remove", "path": "/topology/builder"}])", R"([{"op": "remove", "path": "/schedule"}])",
                  R"([{"op": "add", "path": "/sise", "value": 1}])", R"([{"op": "replace", "path": "/ranks", "value": {}}])",
                  R"([{"op": "add", "path": "/ranks/gpus", "value": [0]}])", R"([{"op": "replace", "path": "/ranks/gpus_per_server", "value": 0}])",
                  R"([{"op": "replace", "path": "/collective/type", "value": "sum"}])", R"([{"op": "replace", "path": "/collective/size", "value": 8}])",
                  R"([{"op": "replace", "path": "/collective/size", "value": "8 Gb"}])", R"([{"op": "add", "path": "/collective/reduction", "value": "avg"}])",
                  R"([{"op": "replace", "path": "/failures", "value": {}}])", R"([{"op": "remove", "path": "/failures/0/server"}])",
                  R"([{"op": "replace", "path": "/network/sharing", "value": "unfair"}])", R"([{"op": "replace", "path": "/network/model", "value": "packet"}])"},
                 [](const std::string& text) { parse_scenario({parse_json(text, "test"), "test", "."}); });
}

}  // namespace
}  // namespace slackline
