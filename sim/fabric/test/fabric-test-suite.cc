// The module's tests, in ns-3's own framework: rates, times and order of flows, and the objects' contracts.
#include "../helper/fabric-helper.h"
#include "../model/fabric-port.h"

#include <ns3/config.h>
#include <ns3/enum.h>
#include <ns3/simulator.h>
#include <ns3/test.h>
#include <ns3/uinteger.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

using namespace ns3;

namespace
{

constexpr int64_t GBPS = 8'000'000'000; // 1 GB/s in bit/s

/** Notes when flows started, were released and arrived, in picoseconds. */
struct Log : public FlowListener
{
    void FlowStarted(uint32_t tag) override { started[tag] = Simulator::Now().GetPicoSeconds(); }
    void FlowReleased(uint32_t tag) override { released[tag] = Simulator::Now().GetPicoSeconds(); }
    void FlowArrived(uint32_t tag) override { arrived[tag] = Simulator::Now().GetPicoSeconds(); }

    std::map<uint32_t, int64_t> started;
    std::map<uint32_t, int64_t> released;
    std::map<uint32_t, int64_t> arrived;
};

Ptr<FabricLink>
MakeLink(int64_t capacity)
{
    return CreateObjectWithAttributes<FabricLink>("Capacity", UintegerValue(static_cast<uint64_t>(capacity)));
}

/** Flows of known size over known links; the expected times follow from the numbers in the comments. */
class FairSharingTest : public TestCase
{
  public:
    FairSharingTest()
        : TestCase("max-min fair rates and the times that follow")
    {
    }

  private:
    void DoRun() override
    {
        Ptr<FlowEngine> engine = CreateObject<FlowEngine>();
        Log log;
        engine->AddListener(0, &log);
        const uint32_t a = engine->AddLink(MakeLink(10 * GBPS));
        const uint32_t b = engine->AddLink(MakeLink(4 * GBPS));
        const FlowRoute wide{{a}, PicoSeconds(500)};
        const FlowRoute both{{a, b}, PicoSeconds(700)};
        // Flow 0 (8 kB on a), flows 1 and 2 (2 kB each on a and b). b gives 1 and 2 2 GB/s each; a leaves 6 to flow 0.
        // At 1 us flows 1 and 2 have their 2 kB; flow 0 has 6 of its 8 kB and takes 0.2 us more at 10 GB/s.
        Simulator::ScheduleNow([&]() {
            engine->Request(0, &wide, 8000);
            engine->Request(1, &both, 2000);
            engine->Request(2, &both, 2000);
        });
        Simulator::Schedule(NanoSeconds(500), [&]() {
            NS_TEST_EXPECT_MSG_EQ(engine->GetRate(0), 6 * GBPS, "what the others leave");
            NS_TEST_EXPECT_MSG_EQ(engine->GetRate(1), 2 * GBPS, "half of b");
            NS_TEST_EXPECT_MSG_EQ(engine->GetRate(2), 2 * GBPS, "half of b");
        });
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(log.released[1], 1'000'000, "flow 1");
        NS_TEST_EXPECT_MSG_EQ(log.released[2], 1'000'000, "flow 2");
        NS_TEST_EXPECT_MSG_EQ(log.released[0], 1'200'000, "flow 0");
        NS_TEST_EXPECT_MSG_EQ(log.arrived[0], 1'200'500, "latency follows the release");
        NS_TEST_EXPECT_MSG_EQ(log.arrived[1], 1'000'700, "latency is the route's");
        NS_TEST_EXPECT_MSG_EQ(engine->GetActiveFlows(), 0, "all ended");
        engine->Dispose();
        Simulator::Destroy();
    }
};

class ExclusiveSharingTest : public TestCase
{
  public:
    ExclusiveSharingTest()
        : TestCase("one flow a link, the lowest tag first, overhead occupies")
    {
    }

  private:
    void DoRun() override
    {
        Ptr<FlowEngine> engine = CreateObjectWithAttributes<FlowEngine>("Sharing",
                                                                        EnumValue(FlowEngine::EXCLUSIVE),
                                                                        "Overhead",
                                                                        TimeValue(PicoSeconds(1000)));
        Log log;
        engine->AddListener(0, &log);
        const uint32_t a = engine->AddLink(MakeLink(GBPS));
        const uint32_t b = engine->AddLink(MakeLink(GBPS));
        const FlowRoute onA{{a}, PicoSeconds(0)};
        const FlowRoute onB{{b}, PicoSeconds(0)};
        const FlowRoute both{{a, b}, PicoSeconds(0)};
        // 1 kB takes 1 us and 1 ns of overhead. Flow 5 holds a, flow 6 holds b; flow 3 wants both and flow 4 wants a: when
        // both links come free together, 3 goes first, although 4 asked earlier.
        Simulator::ScheduleNow([&]() {
            engine->Request(5, &onA, 1000);
            engine->Request(6, &onB, 1000);
        });
        Simulator::Schedule(NanoSeconds(10), [&]() { engine->Request(4, &onA, 1000); });
        Simulator::Schedule(NanoSeconds(20), [&]() { engine->Request(3, &both, 1000); });
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(log.released[5], 1'001'000, "bytes and overhead");
        NS_TEST_EXPECT_MSG_EQ(log.started[3], 1'001'000, "lowest tag first");
        NS_TEST_EXPECT_MSG_EQ(log.started[4], 2'002'000, "after 3");
        NS_TEST_EXPECT_MSG_EQ(log.released[4], 3'003'000, "last");
        engine->Dispose();
        Simulator::Destroy();
    }
};

class EmptyFlowTest : public TestCase
{
  public:
    EmptyFlowTest()
        : TestCase("flows without bytes or route take no time")
    {
    }

  private:
    void DoRun() override
    {
        Ptr<FlowEngine> engine = CreateObjectWithAttributes<FlowEngine>("Overhead", TimeValue(PicoSeconds(1000)));
        Log log;
        engine->AddListener(0, &log);
        const FlowRoute route{{engine->AddLink(MakeLink(GBPS))}, PicoSeconds(300)};
        Simulator::Schedule(PicoSeconds(7), [&]() {
            engine->Request(0, &route, 0);
            engine->Request(1, nullptr, 100);
        });
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(log.arrived[0], 7, "no bytes");
        NS_TEST_EXPECT_MSG_EQ(log.arrived[1], 7, "no route");
        engine->Dispose();
        Simulator::Destroy();
    }
};

/** Three ranks on a switch, two transfers in a chain, played through the helper and seen through Config paths. */
class PlaybackTest : public TestCase
{
  public:
    PlaybackTest()
        : TestCase("a schedule is played in order, and every object can be found and traced")
    {
    }

  private:
    void Ended(uint32_t transfer) { m_ended[transfer] = Simulator::Now().GetPicoSeconds(); }

    std::map<uint32_t, int64_t> m_ended;

    void DoRun() override
    {
        using namespace slackline;
        std::vector<NetworkVertex> vertices = {{"a", 0}, {"b", 1}, {"c", 2}, {"switch", -1}};
        std::vector<NetworkLink> links;
        for (int rank = 0; rank < 3; ++rank)
        {
            links.push_back({"transmit", rank, 3, Bandwidth(GBPS), Duration(2000), LinkKind::network});
            links.push_back({"receive", 3, rank, Bandwidth(GBPS), Duration(0), LinkKind::network});
        }
        const Network network(vertices, 3, links, Duration(100));
        Collective collective;
        collective.type = CollectiveType::broadcast;
        collective.ranks = 3;
        collective.root = 0;
        Schedule schedule(collective, 1);
        const uint32_t chunk = schedule.add_chunk({slackline::Buffer::data, 0, 1});
        schedule.add({0, 1, chunk, chunk, TransferOp::copy, 0, {}});
        const uint32_t first = 0;
        schedule.add({1, 2, chunk, chunk, TransferOp::copy, 0, {&first, 1}});
        const MessageLayout layout(Bytes(1000), Bytes(4), 1);

        FabricHelper fabric;
        fabric.Build(network);
        const ApplicationContainer ranks = fabric.Install(schedule, layout);
        NS_TEST_EXPECT_MSG_EQ(fabric.GetNodes().GetN(), 4, "a node a vertex");
        NS_TEST_EXPECT_MSG_EQ(ranks.GetN(), 3, "an application a rank");
        NS_TEST_EXPECT_MSG_EQ(fabric.GetNodes().Get(0)->GetNDevices(), 2, "a port a link end");
        NS_TEST_EXPECT_MSG_EQ(fabric.GetLink(0)->GetDevice(0)->GetNode(), fabric.GetNodes().Get(0), "transmits at rank 0");
        const Config::MatchContainer found =
            Config::LookupMatches("/NodeList/*/ApplicationList/*/$ns3::RankApplication");
        NS_TEST_EXPECT_MSG_EQ(found.GetN(), 3, "applications can be found by path");
        fabric.GetPlayback()->TraceConnectWithoutContext("TransferEnded", MakeCallback(&PlaybackTest::Ended, this));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_ended[0], 1'002'100, "overhead 100, 1 us of bytes, latency 2000");
        NS_TEST_EXPECT_MSG_EQ(m_ended[1], 2'004'200, "the second waits for the first's arrival");
        NS_TEST_EXPECT_MSG_EQ(fabric.GetPlayback()->GetEnded(), 2, "all of them");
        fabric.GetPlayback()->Dispose();
        fabric.GetEngine()->Dispose();
        Simulator::Destroy();
    }
};

/**
 * Rates on random networks against progressive filling done naively in floating point: all rates rise together, and a flow
 * stops where a link on its way is full. Checked after the start, after links have failed, slowed down and come back,
 * and after flows have been cancelled and have ended; and what links carried against what flows sent.
 */
class MaxMinTest : public TestCase
{
  public:
    MaxMinTest()
        : TestCase("max-min fair rates on 1,000 random networks that change")
    {
    }

  private:
    struct Sent
    {
        const FlowRoute* route;
        int64_t bytes;
    };

    static std::map<uint32_t, double>
    Expected(const std::map<uint32_t, const FlowRoute*>& flows, const std::vector<int64_t>& capacities)
    {
        std::map<uint32_t, double> rates;
        const auto weight = [](const FlowRoute* route, size_t i) {
            return route->weights.empty() ? 1.0 : double(route->weights[i]) / FlowRoute::WHOLE;
        };
        std::map<uint32_t, const FlowRoute*> open = flows;
        double level = 0;
        while (!open.empty())
        {
            double step = 1e300;
            std::vector<double> left(capacities.begin(), capacities.end());
            std::vector<double> sum(capacities.size(), 0);
            for (const auto& [tag, route] : flows)
            {
                for (size_t i = 0; i < route->links.size(); ++i)
                {
                    const double rate = open.count(tag) ? level : rates[tag];
                    left[route->links[i]] -= rate * weight(route, i);
                    sum[route->links[i]] += open.count(tag) ? weight(route, i) : 0;
                }
            }
            for (size_t link = 0; link < capacities.size(); ++link)
            {
                if (sum[link] > 0)
                {
                    step = std::min(step, std::max(left[link], 0.0) / sum[link]);
                }
            }
            level += step;
            for (auto flow = open.begin(); flow != open.end();)
            {
                bool full = false;
                for (const uint32_t link : flow->second->links)
                {
                    full = full || left[link] - step * sum[link] <= 1e-7 * double(capacities[link]) + 1e-3;
                }
                if (full)
                {
                    rates[flow->first] = level;
                    flow = open.erase(flow);
                }
                else
                {
                    ++flow;
                }
            }
        }
        return rates;
    }

    void DoRun() override
    {
        for (uint32_t seed = 1; seed <= 1000; ++seed)
        {
            RunOne(seed);
        }
    }

    void RunOne(uint32_t seed)
    {
        std::mt19937 random(seed);
        const auto upTo = [&](uint32_t most) { return random() % most; };
        Ptr<FlowEngine> engine = CreateObject<FlowEngine>();
        Log log;
        engine->AddListener(0, &log);
        std::vector<int64_t> capacities;
        const uint32_t links = 1 + upTo(10);
        for (uint32_t link = 0; link < links; ++link)
        {
            capacities.push_back((1 + upTo(40)) * GBPS + upTo(1000));
            engine->AddLink(MakeLink(capacities.back()));
        }
        std::deque<FlowRoute> routes;
        const bool weighted = upTo(2) == 0;
        for (uint32_t i = 0; i < 1 + upTo(12); ++i)
        {
            FlowRoute route{{}, PicoSeconds(upTo(1000))};
            for (uint32_t link = 0; link < links; ++link)
            {
                if (upTo(3) == 0 || (link + 1 == links && route.links.empty()))
                {
                    route.links.push_back(link);
                    if (weighted)
                    {
                        route.weights.push_back(FlowRoute::WHOLE / (1 + upTo(8)));
                    }
                }
            }
            routes.push_back(route);
        }
        std::vector<int64_t> carried(links, 0); // by flows that ended or were cancelled
        std::map<uint32_t, Sent> sizes;
        const auto carry = [&](uint32_t tag, int64_t bytes) {
            const FlowRoute* route = sizes[tag].route;
            for (size_t i = 0; i < route->links.size(); ++i)
            {
                carried[route->links[i]] += route->weights.empty()
                                                ? bytes
                                                : int64_t((__int128)bytes * route->weights[i] / FlowRoute::WHOLE);
            }
        };
        const auto check = [&](const char* when) {
            const std::map<uint32_t, const FlowRoute*> flows = engine->GetFlows();
            const std::map<uint32_t, double> expected = Expected(flows, capacities);
            for (const auto& [tag, rate] : expected)
            {
                NS_TEST_ASSERT_MSG_EQ_TOL(double(engine->GetRate(tag)), rate, 1e-6 * rate + 100, "seed " << seed << ", flow " << tag << ", " << when);
            }
        };
        const uint32_t flows = 1 + upTo(15);
        Simulator::ScheduleNow([&]() {
            for (uint32_t tag = 0; tag < flows; ++tag)
            {
                sizes[tag] = {&routes[upTo(uint32_t(routes.size()))], int64_t(1 + upTo(100'000))};
                engine->Request(tag, sizes[tag].route, sizes[tag].bytes);
            }
        });
        Simulator::Schedule(PicoSeconds(1), [&]() { check("at the start"); });
        for (uint32_t change = 1; change <= 6; ++change)
        {
            Simulator::Schedule(NanoSeconds(700 * change), [&, change]() {
                if (change == 4)
                {
                    const std::map<uint32_t, const FlowRoute*> active = engine->GetFlows();
                    for (const auto& [tag, route] : active)
                    {
                        if (upTo(3) == 0)
                        {
                            const int64_t sent = engine->Cancel(tag);
                            NS_TEST_ASSERT_MSG_EQ((sent >= 0 && sent <= sizes[tag].bytes), true, "seed " << seed);
                            carry(tag, sent);
                            sizes.erase(tag);
                        }
                    }
                    return;
                }
                for (uint32_t link = 0; link < links; ++link)
                {
                    if (upTo(3) == 0)
                    {
                        capacities[link] = upTo(3) == 0 && change < 6 ? 0 : (1 + upTo(40)) * GBPS;
                        engine->SetCapacity(link, capacities[link]);
                    }
                }
            });
            Simulator::Schedule(NanoSeconds(700 * change) + PicoSeconds(1), [&]() { check("after a change"); });
        }
        Simulator::Schedule(MicroSeconds(6), [&]() {
            for (uint32_t link = 0; link < links; ++link)
            {
                engine->SetCapacity(link, GBPS);
            }
        });
        Simulator::Run();
        for (const auto& [tag, sent] : sizes)
        {
            NS_TEST_ASSERT_MSG_EQ(log.arrived.count(tag), 1, "seed " << seed << ", flow " << tag << " arrives in the end");
            carry(tag, sent.bytes);
        }
        for (uint32_t link = 0; link < links; ++link)
        {
            NS_TEST_ASSERT_MSG_EQ(engine->GetUse(link).bytes, carried[link], "seed " << seed << ": what went in came out");
        }
        engine->Dispose();
        Simulator::Destroy();
    }
};

class FabricTestSuite : public TestSuite
{
  public:
    FabricTestSuite()
        : TestSuite("fabric", UNIT)
    {
        AddTestCase(new FairSharingTest, TestCase::QUICK);
        AddTestCase(new ExclusiveSharingTest, TestCase::QUICK);
        AddTestCase(new EmptyFlowTest, TestCase::QUICK);
        AddTestCase(new PlaybackTest, TestCase::QUICK);
        AddTestCase(new MaxMinTest, TestCase::QUICK);
    }
};

FabricTestSuite g_fabricTestSuite;

} // namespace
