// OptCC's theorems by name, against the oracle of the paper's formulas and by hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bounds_networks.hpp"

namespace slackline {
namespace {

using namespace test;

TEST(BoundsTheorems, EqualTheOracle) {
  const std::string path = SLACKLINE_SHARED_DIR "/oracles/optcc_closed_form.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto document = nlohmann::json::parse(std::ifstream(path));
  // A multiple of every numerator that occurs, so that B/l is a whole number.
  const int64_t healthy = 800LL * 27 * 7 * 1'000'000;
  const Bytes size(int64_t{1} << 33);
  const double n = static_cast<double>(size.count()) * 8e12 / static_cast<double>(healthy);  // ps
  int cases = 0;
  for (const auto& entry : document.at("cases")) {
    std::vector<Bandwidth> capacity(entry.at("p").get<size_t>(), Bandwidth(healthy));
    size_t rank = 0, slow = 0;
    for (const auto& text : entry.at("slowdowns")) {
      const Fraction l = Fraction::parse(text.get<std::string>());
      const Fraction share = Fraction(healthy) / l;
      ASSERT_EQ(share.denominator(), 1) << l.to_string();
      capacity[rank++] = Bandwidth(share.numerator());
      slow += l > Fraction(1);
    }
    const Network network = star(capacity);
    const auto bounds =
        lower_bounds({network, collective(CollectiveType::allreduce, network), size});
    const double expected =
        Fraction::parse(entry.at("lower_bound_over_n").get<std::string>()).to_double();
    // Nothing on a star is sharper than the theorem, and among equals it comes first.
    EXPECT_EQ(bounds[0].name, slow > 1 ? "theorem 2" : "theorem 1");
    EXPECT_NEAR(static_cast<double>(bounds[0].time.count()) / n, expected, 1e-9 * expected)
        << describe(bounds[0]);
    ++cases;
  }
  EXPECT_GE(cases, 10);
}

TEST(BoundsTheorems, Theorem1SaysWhatBinds) {
  // p = 4, l = 2: 2 (p-1) / (p - 1 + 1/2) = 12/7 < l = 2.
  const Network slow = star({gigabytes(50), gigabytes(100), gigabytes(100), gigabytes(100)});
  const Bytes size(1'000'000'000);
  auto bounds = lower_bounds({slow, collective(CollectiveType::allreduce, slow), size});
  EXPECT_EQ(bounds[0].name, "theorem 1");
  EXPECT_EQ(bounds[0].time, Duration(20'000'000'000));  // 1 GB at 50 GB/s
  EXPECT_EQ(bounds[0].parts, (std::vector<std::vector<int>>{{0}}));
  EXPECT_EQ(bounds[0].certificate,
            "limited by rank 0 (gpu0), slowed down by l = 2: it must receive, and send, 1 GB "
            "through 50 GB/s");
  EXPECT_EQ(describe(bounds[0]),
            "theorem 1: 20 ms; limited by rank 0 (gpu0), slowed down by l = 2: it must receive, "
            "and send, 1 GB "
            "through 50 GB/s [Chen et al., arXiv 2606.01680, Theorem 1]");
  // l = 8/7: 2 x 3 GB through 3 x 100 + 87.5 GB/s = 15.48 ms, against 11.43 ms for the straggler
  // alone.
  const Network slight =
      star({gigabytes(100), Bandwidth(700'000'000'000), gigabytes(100), gigabytes(100)});
  bounds = lower_bounds({slight, collective(CollectiveType::allreduce, slight), size});
  EXPECT_EQ(bounds[0].name, "theorem 1");
  EXPECT_EQ(bounds[0].time, Duration(15'483'870'967));  // 6/387.5 s
  EXPECT_EQ(bounds[0].amount, Bytes(6'000'000'000));
  EXPECT_EQ(bounds[0].capacity, Bandwidth(3'100'000'000'000));
  EXPECT_EQ(bounds[0].certificate,
            "limited by the NICs together: 4 ranks must send 2 x 3 x 1 GB through 387.5 GB/s (1 "
            "slowed down, most "
            "of all rank 1 (gpu1) by l = 8/7)");
}

TEST(BoundsTheorems, Theorem3IsThePapersFormula) {
  // max(2l(p-g) / (g(l(p-g)+g)), l/g) n, n = N/B, B per GPU; NVLink fast enough not to matter.
  const Bytes size(1'000'000'000);
  const double n = 1e10;  // ps at 100 GB/s
  for (const int g : {2, 4, 8}) {
    for (const int servers : {2, 3, 16}) {
      for (const auto& [l, capacity] :
           std::vector<std::pair<double, Bandwidth>>{{1.0, gigabytes(100)},
                                                     {8.0 / 7, Bandwidth(700'000'000'000)},
                                                     {2.0, gigabytes(50)},
                                                     {4.0, gigabytes(25)}}) {
        std::vector<Bandwidth> nic(static_cast<size_t>(servers), gigabytes(100));
        nic[1] = capacity;
        const Network network = rail(g, gigabytes(90'000), nic);
        const double p = g * servers;
        const double expected = std::max(2 * l * (p - g) / (g * (l * (p - g) + g)), l / g) * n;
        const auto bounds =
            lower_bounds({network, collective(CollectiveType::allreduce, network), size});
        EXPECT_EQ(bounds[0].name, "theorem 3");
        EXPECT_NEAR(static_cast<double>(bounds[0].time.count()), expected, 1e-9 * expected + 1);
      }
    }
  }
}

TEST(BoundsTheorems, SlowNvlinkBindsBeforeTheorem3) {
  // Each of 2 x 8 ranks has 10 + 100 GB/s: 2 x 15 x 1 GB through 16 x 110 GB/s, worse than the
  // server's 1/800 s.
  const Network network = rail(8, gigabytes(10), {gigabytes(100), gigabytes(100)});
  const auto bounds =
      lower_bounds({network, collective(CollectiveType::allreduce, network), Bytes(1'000'000'000)});
  EXPECT_EQ(bounds[0].name, "rank volume");
  EXPECT_EQ(bounds[0].time, Duration(17'045'454'545));
  ASSERT_NE(find(bounds, "theorem 3"), nullptr);
  EXPECT_EQ(find(bounds, "theorem 3")->time, Duration(1'250'000'000));
}

TEST(BoundsTheorems, ApplyOnlyToTheirKind) {
  const auto has_theorem = [](const Network& network, CollectiveType type) {
    for (const Bound& bound : lower_bounds({network, collective(type, network), Bytes(1000)}))
      if (bound.name.starts_with("theorem")) return true;
    return false;
  };
  const Network plain = star({gigabytes(1), gigabytes(1), gigabytes(1)});
  EXPECT_TRUE(has_theorem(plain, CollectiveType::allreduce));
  EXPECT_FALSE(has_theorem(plain, CollectiveType::allgather));
  // Two slow servers of several ranks: theorem 3 speaks of one.
  const Network two = rail(2, gigabytes(9), {gigabytes(1), gigabytes(1), gigabytes(2)});
  EXPECT_FALSE(has_theorem(two, CollectiveType::allreduce));
  const Network direct = mesh({0, 1, 2}, dgx1_wires(true), gigabytes(25));
  EXPECT_FALSE(has_theorem(direct, CollectiveType::allreduce));
  // Transmitting and receiving at different rates.
  const Network uneven({{"a", 0}, {"b", 1}, {"fabric", -1}}, 2,
                       {{"", 0, 2, gigabytes(1), {}, LinkKind::network},
                        {"", 2, 0, gigabytes(2), {}, LinkKind::network},
                        {"", 1, 2, gigabytes(1), {}, LinkKind::network},
                        {"", 2, 1, gigabytes(1), {}, LinkKind::network}},
                       {});
  EXPECT_FALSE(has_theorem(uneven, CollectiveType::allreduce));
}

}  // namespace
}  // namespace slackline
