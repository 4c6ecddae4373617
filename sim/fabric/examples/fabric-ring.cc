// Builds a star of four ranks by hand and plays a ring AllReduce of 1 GB on it, printing each transfer of rank 0.
#include "../helper/fabric-helper.h"

#include <ns3/command-line.h>
#include <ns3/enum.h>
#include <ns3/simulator.h>

#include <iostream>

using namespace ns3;

namespace
{

const slackline::Schedule* g_schedule = nullptr;

void
Ended(uint32_t transfer)
{
    if (g_schedule->src(transfer) == 0)
    {
        std::cout << Simulator::Now().As(Time::US) << " rank 0's transfer " << transfer << " arrives at rank "
                  << g_schedule->dst(transfer) << "\n";
    }
}

} // namespace

int
main(int argc, char* argv[])
{
    using slackline::Bandwidth;
    using slackline::Duration;

    bool exclusive = false;
    CommandLine command(__FILE__);
    command.AddValue("exclusive", "One flow a link at a time", exclusive);
    command.Parse(argc, argv);
    Time::SetResolution(Time::PS);

    constexpr int ranks = 4;
    std::vector<slackline::NetworkVertex> vertices;
    std::vector<slackline::NetworkLink> links;
    for (int rank = 0; rank < ranks; ++rank)
    {
        vertices.push_back({"rank" + std::to_string(rank), rank});
        links.push_back({"transmit", rank, ranks, Bandwidth(800'000'000'000), Duration(2'000'000), slackline::LinkKind::network});
        links.push_back({"receive", ranks, rank, Bandwidth(800'000'000'000), Duration(0), slackline::LinkKind::network});
    }
    vertices.push_back({"switch", -1});
    const slackline::Network network(vertices, ranks, links, Duration(20'000));

    slackline::Collective collective;
    collective.ranks = ranks;
    slackline::Schedule schedule(collective, ranks);
    for (int chunk = 0; chunk < ranks; ++chunk)
    {
        schedule.add_chunk({slackline::Buffer::data, chunk, 1});
    }
    std::vector<uint32_t> last(ranks, UINT32_MAX);
    for (uint32_t step = 0; step < 2 * (ranks - 1); ++step)
    {
        for (uint32_t rank = 0; rank < ranks; ++rank)
        {
            const uint32_t chunk = (rank + 2 * ranks - step) % ranks;
            const auto index = static_cast<uint32_t>(schedule.size());
            const auto op = step < ranks - 1 ? slackline::TransferOp::reduce : slackline::TransferOp::copy;
            schedule.add({rank, (rank + 1) % ranks, chunk, chunk, op, 0, {&last[chunk], last[chunk] == UINT32_MAX ? 0U : 1U}});
            last[chunk] = index;
        }
    }
    g_schedule = &schedule;
    const slackline::MessageLayout layout(slackline::Bytes(1'000'000'000), slackline::Bytes(4), ranks);

    FabricHelper fabric;
    fabric.SetEngineAttribute("Sharing", EnumValue(exclusive ? FlowEngine::EXCLUSIVE : FlowEngine::FAIR));
    fabric.Build(network);
    fabric.Install(schedule, layout);
    fabric.GetPlayback()->TraceConnectWithoutContext("TransferEnded", MakeCallback(&Ended));
    Simulator::Run();
    std::cout << "completed after " << fabric.GetPlayback()->GetCompletion().As(Time::US) << "\n";
    fabric.GetPlayback()->Dispose();
    fabric.GetEngine()->Dispose();
    Simulator::Destroy();
    return 0;
}
