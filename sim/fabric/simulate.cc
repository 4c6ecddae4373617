#include "simulate.hpp"

#include "helper/fabric-helper.h"

#include "base/error.hpp"

#include <ns3/boolean.h>
#include <ns3/callback.h>
#include <ns3/enum.h>
#include <ns3/priority-queue-scheduler.h>
#include <ns3/simulator.h>

namespace slackline
{

namespace
{

/** Destroys the simulation, also when an exception passes. */
struct Simulation
{
    Simulation()
    {
        // The resolution can be set once a process.
        static const bool once = [] {
            ns3::Time::SetResolution(ns3::Time::PS);
            return true;
        }();
        static_cast<void>(once);
        ns3::ObjectFactory scheduler;
        scheduler.SetTypeId(ns3::PriorityQueueScheduler::GetTypeId());
        ns3::Simulator::SetScheduler(scheduler);
    }

    ~Simulation()
    {
        ns3::Simulator::Destroy();
    }
};

void
Record(std::vector<TimePoint>* times, uint32_t transfer)
{
    (*times)[transfer] = TimePoint(ns3::Simulator::Now().GetPicoSeconds());
}

} // namespace

SimulateResult
simulate(const Network& network, const Schedule& schedule, const MessageLayout& layout, const SimulateOptions& options)
{
    const Simulation simulation;
    ns3::FabricHelper fabric;
    fabric.SetEngineAttribute("Sharing",
                              ns3::EnumValue(options.sharing == Sharing::fair ? ns3::FlowEngine::FAIR
                                                                                  : ns3::FlowEngine::EXCLUSIVE));
    fabric.SetEngineAttribute("NotifyLinks", ns3::BooleanValue(false)); // nobody listens
    fabric.Build(network);
    fabric.Install(schedule, layout);
    SimulateResult result;
    if (options.record_times)
    {
        result.started.resize(schedule.size());
        result.ended.resize(schedule.size());
        fabric.GetPlayback()->TraceConnectWithoutContext("TransferStarted",
                                                         ns3::MakeBoundCallback(&Record, &result.started));
        fabric.GetPlayback()->TraceConnectWithoutContext("TransferEnded",
                                                         ns3::MakeBoundCallback(&Record, &result.ended));
    }
    ns3::Simulator::Run();
    result.time = Duration(fabric.GetPlayback()->GetCompletion().GetPicoSeconds());
    result.events = ns3::Simulator::GetEventCount();
    const uint64_t ended = fabric.GetPlayback()->GetEnded();
    fabric.GetPlayback()->Dispose();
    fabric.GetEngine()->Dispose();
    if (ended != schedule.size())
    {
        throw Error(ErrorKind::internal,
                    "the simulation stalled after " + std::to_string(ended) + " of " +
                        std::to_string(schedule.size()) + " transfers");
    }
    return result;
}

} // namespace slackline
