// The optimal rates of Blink's machines, as exact fractions of one link, and of machines with
// switches.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "bounds/strength.hpp"
#include "bounds_networks.hpp"

namespace slackline {
namespace {

using namespace test;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> fields;
  std::istringstream stream(text);
  for (std::string field; std::getline(stream, field, separator);) fields.push_back(field);
  return fields;
}

Fraction rate(const Network& network, Collective collective, Bandwidth link) {
  // Divisible by every number of ranks up to 8, so that parts are equal.
  const auto bounds = lower_bounds({network, collective, Bytes(840'000'000), Bytes(1), link});
  return bounds[0].rate_in_links.value_or(Fraction(0));
}

TEST(BoundsBlink, EqualTheOracleOfDgx1) {
  const std::string path = SLACKLINE_SHARED_DIR "/oracles/blink_dgx1.tsv";
  std::ifstream file(path);
  if (!file) GTEST_SKIP() << path << " is not there";
  std::string line;
  std::getline(file, line);
  std::map<std::string, size_t> column;
  for (const std::string& name : split(line, '\t')) {
    const size_t start = name.find_first_not_of(" #");
    column.emplace(name.substr(start), column.size());
  }
  int rows = 0;
  while (std::getline(file, line)) {
    if (line.empty()) continue;
    const auto fields = split(line, '\t');
    const auto value = [&](const std::string& name) { return fields.at(column.at(name)); };
    const bool volta = value("topo") == "DGX-1V";
    std::vector<int> gpus;
    for (const char digit : value("rep")) gpus.push_back(digit - '0');
    const Bandwidth link = gigabytes(volta ? 25 : 20);
    const Network network = mesh(gpus, dgx1_wires(volta), link);
    SCOPED_TRACE(line);
    for (int root = 0; root < network.ranks(); ++root) {
      for (const CollectiveType type : {CollectiveType::broadcast, CollectiveType::reduce})
        EXPECT_EQ(rate(network, collective(type, network, root), link),
                  Fraction::parse(value("lambda")));
    }
    EXPECT_EQ(rate(network, collective(CollectiveType::allreduce, network), link),
              Fraction::parse(value("tau")));
    for (const CollectiveType type : {CollectiveType::allgather, CollectiveType::reduce_scatter})
      EXPECT_EQ(rate(network, collective(type, network), link), Fraction::parse(value("AG_algbw")));

    // The oracle's partition is as weak as ours; there may be several.
    std::vector<int> part_of(gpus.size());
    const auto parts = split(value("tau_partition"), '|');
    for (size_t part = 0; part < parts.size(); ++part)
      for (const char digit : parts[part])
        part_of[static_cast<size_t>(std::find(gpus.begin(), gpus.end(), digit - '0') -
                                    gpus.begin())] = static_cast<int>(part);
    Wide between = 0;
    for (const NetworkLink& arc : network.links())
      if (part_of[static_cast<size_t>(arc.from)] != part_of[static_cast<size_t>(arc.to)])
        between += arc.capacity.count();
    EXPECT_EQ(Fraction(static_cast<int64_t>(between),
                       2 * link.count() * static_cast<int64_t>(parts.size() - 1)),
              Fraction::parse(value("tau")));
    ++rows;
  }
  EXPECT_GE(rows, 40);
}

TEST(BoundsBlink, WholeMachines) {
  // blink.md, "Numbers".
  std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
  const Network volta = mesh(all, dgx1_wires(true), gigabytes(25));
  const Network pascal = mesh(all, dgx1_wires(false), gigabytes(20));
  const auto in_links = [](const Network& network, CollectiveType type) {
    return rate(network, collective(type, network, 3), Bandwidth(0));
  };
  EXPECT_EQ(in_links(volta, CollectiveType::broadcast), Fraction(6));
  EXPECT_EQ(in_links(pascal, CollectiveType::broadcast), Fraction(4));
  EXPECT_EQ(in_links(volta, CollectiveType::allreduce), Fraction(24, 7));
  EXPECT_EQ(in_links(pascal, CollectiveType::allreduce), Fraction(16, 7));
  const auto bounds =
      lower_bounds({volta, collective(CollectiveType::allreduce, volta), Bytes(7'000'000'000)});
  EXPECT_EQ(bounds[0].name, "rank volume");
  EXPECT_EQ(bounds[0].certificate,
            "limited by the capacity between the 8 ranks: an allreduce moves at least 2 x 7 x 7 GB "
            "between them, "
            "through 1.2 TB/s: algbw is at most 24/7 links' worth");
}

TEST(BoundsBlink, CommonLink) {
  EXPECT_EQ(common_link(mesh({0, 1, 3}, dgx1_wires(true), gigabytes(25))), gigabytes(25));
  EXPECT_EQ(common_link(star({gigabytes(1), gigabytes(1)})), Bandwidth(0));
  EXPECT_EQ(common_link(rail(4, gigabytes(150), {gigabytes(1)})), Bandwidth(0));
  EXPECT_EQ(common_link(mesh({0, 1, 2}, {{0, 1, 1}, {1, 2, 17}}, gigabytes(1))), Bandwidth(0));
}

TEST(BoundsBlink, MachinesWithSwitches) {
  // blink.md: exact allgather algbw in GB/s; N is a multiple of every number of ranks.
  struct Case {
    const char* name;
    Network network;
    double algbw;
  };
  std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<Bandwidth> a100(4, gigabytes(25)), h100(4, gigabytes(50));
  const auto first = [](const std::vector<Bandwidth>& nics, size_t servers) {
    return std::vector<Bandwidth>(nics.begin(),
                                  nics.begin() + static_cast<std::ptrdiff_t>(servers));
  };
  std::vector<Case> cases;
  cases.push_back({"DGX-1P", mesh(all, dgx1_wires(false), gigabytes(20)), 91.428571});
  cases.push_back({"DGX-1V", mesh(all, dgx1_wires(true), gigabytes(25)), 171.428571});
  cases.push_back({"DGX-2", rail(16, gigabytes(150), {gigabytes(100)}), 160});
  cases.push_back({"A100 x1", rail(8, gigabytes(300), first(a100, 1)), 342.857143});
  cases.push_back({"A100 x2", rail(8, gigabytes(300), first(a100, 2)), 346.666667});
  cases.push_back({"A100 x4", rail(8, gigabytes(300), a100), 266.666667});
  cases.push_back({"H100 x1", rail(8, gigabytes(450), first(h100, 1)), 514.285714});
  cases.push_back({"H100 x2", rail(8, gigabytes(450), first(h100, 2)), 533.333333});
  cases.push_back({"H100 x4", rail(8, gigabytes(450), h100), 516.129032});
  for (const Case& entry : cases) {
    for (const CollectiveType type : {CollectiveType::allgather, CollectiveType::reduce_scatter}) {
      const Bytes size(32'000'000'000);
      const auto bounds = lower_bounds({entry.network, collective(type, entry.network), size});
      EXPECT_NEAR(32e12 / static_cast<double>(bounds[0].time.count()), entry.algbw, 1e-5)
          << entry.name << ": " << describe(bounds[0]);
      // No set of ranks is worse than the worst of single ranks and servers here; all were
      // searched, but on one NVSwitch, where there is no need.
      const Bound* set = find(bounds, "set cut");
      EXPECT_EQ(set == nullptr,
                entry.network.servers() == 1 && entry.network.vertices().size() > 8);
      EXPECT_TRUE(set == nullptr || set->time == bounds[0].time);
    }
  }
}

}  // namespace
}  // namespace slackline
