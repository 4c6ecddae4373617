#include "simulate.hpp"

#include "helper/fabric-helper.h"
#include "model/fabric-port.h"
#include "model/network-changes.h"

#include "base/error.hpp"

#include <ns3/boolean.h>
#include <ns3/callback.h>
#include <ns3/enum.h>
#include <ns3/priority-queue-scheduler.h>
#include <ns3/simulator.h>
#include <ns3/uinteger.h>

#include <deque>
#include <memory>

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

/** What happens to the flows of a job, by flow. */
struct Recorder
{
    Recording* recording;
    ns3::Ptr<ns3::FlowEngine> engine;
    uint32_t first;

    void Started(uint32_t transfer)
    {
        TimePoint& time = recording->started[first + transfer];
        if (time == TimePoint::never())
        {
            time = Now();
        }
    }

    void Released(uint32_t transfer)
    {
        recording->released[first + transfer] = Now();
        recording->limited_by[first + transfer] = engine->GetLimit();
    }

    void Ended(uint32_t transfer)
    {
        recording->ended[first + transfer] = Now();
    }

    static TimePoint Now()
    {
        return TimePoint(ns3::Simulator::Now().GetPicoSeconds());
    }
};

/** Flows that nobody waits for. */
class Background : public ns3::FlowListener
{
  public:
    void FlowStarted(uint32_t) override {}
    void FlowReleased(uint32_t) override {}
    void FlowArrived(uint32_t) override {}
};

constexpr int64_t backgroundBytes = int64_t{1} << 50;

void
RecordLoad(std::vector<Recording::Load>* loads, uint32_t links, uint32_t link, int64_t load)
{
    if (link < links) // beyond them are the limits of background flows
    {
        loads->push_back({Recorder::Now(), link, Bandwidth(load)});
    }
}

void
RecordInstant(std::vector<Recording::Instant>* instants, const std::string& what)
{
    instants->push_back({Recorder::Now(), what});
}

void
JobDone(uint32_t* left)
{
    if (--*left == 0)
    {
        ns3::Simulator::Stop();
    }
}

/** Which transfers stand still on which dead links, the first few. */
std::vector<std::string>
DescribeWaiting(const Network& network, ns3::FabricHelper& fabric, std::span<const PlayedJob> jobs)
{
    std::vector<std::string> lines;
    constexpr size_t most = 8;
    size_t stuck = 0;
    for (const auto& [tag, route] : fabric.GetEngine()->GetFlows())
    {
        for (size_t j = 0; j < jobs.size(); ++j)
        {
            const ns3::Ptr<ns3::SchedulePlayback>& playback = fabric.GetPlaybacks()[j];
            if (!playback->Owns(tag) || ++stuck > most)
            {
                continue;
            }
            const uint32_t transfer = tag - (playback->GetTagsEnd() - static_cast<uint32_t>(jobs[j].schedule.size()));
            std::string line = (jobs.size() > 1 ? "group " + std::to_string(j) + ", " : "") + "transfer " +
                               std::to_string(transfer) + " (rank " + std::to_string(jobs[j].schedule.src(transfer)) +
                               " to rank " + std::to_string(jobs[j].schedule.dst(transfer)) + ")";
            const uint32_t* dead = nullptr;
            for (const uint32_t& link : route->links)
            {
                if (!dead && fabric.GetLink(link)->GetCapacity() == 0)
                {
                    dead = &link;
                }
            }
            lines.push_back(line + (dead ? " waits for " + network.links()[*dead].name + ", which is dead"
                                         : " waits for a port that a transfer on a dead link holds"));
        }
    }
    if (stuck > most)
    {
        lines.push_back("and " + std::to_string(stuck - most) + " more");
    }
    uint64_t ended = 0;
    uint64_t all = 0;
    for (size_t j = 0; j < jobs.size(); ++j)
    {
        ended += fabric.GetPlaybacks()[j]->GetEnded();
        all += jobs[j].schedule.size();
    }
    lines.push_back(std::to_string(ended) + " of " + std::to_string(all) + " transfers have ended; those that are not named wait for these");
    return lines;
}

} // namespace

SimulateResult
simulate(const Network& network, std::span<const PlayedJob> jobs, const SimulateOptions& options)
{
    const Simulation simulation;
    ns3::FabricHelper fabric;
    fabric.SetEngineAttribute("Sharing",
                              ns3::EnumValue(options.sharing == Sharing::fair ? ns3::FlowEngine::FAIR
                                                                                  : ns3::FlowEngine::EXCLUSIVE));
    fabric.SetEngineAttribute("NotifyLinks", ns3::BooleanValue(false)); // nobody listens
    fabric.Build(network);
    const ns3::Ptr<ns3::FlowEngine> engine = fabric.GetEngine();
    SimulateResult result;
    Recording& recording = result.recording;
    std::vector<std::unique_ptr<Recorder>> recorders;
    auto left = static_cast<uint32_t>(jobs.size());
    for (const PlayedJob& job : jobs)
    {
        ns3::ApplicationContainer ranks =
            fabric.Install(job.schedule, job.layout, std::vector<uint32_t>(job.ranks.begin(), job.ranks.end()));
        for (size_t rank = 0; rank < job.arrivals.size(); ++rank)
        {
            ranks.Get(static_cast<uint32_t>(rank))
                ->SetStartTime(ns3::PicoSeconds(static_cast<uint64_t>(job.arrivals[rank].count())));
        }
        const ns3::Ptr<ns3::SchedulePlayback> playback = fabric.GetPlayback();
        playback->SetDoneCallback(ns3::MakeBoundCallback(&JobDone, &left));
        if (job.schedule.size() == 0)
        {
            --left;
        }
        if (options.record_times)
        {
            const uint32_t first = playback->GetTagsEnd() - static_cast<uint32_t>(job.schedule.size());
            for (auto* times : {&recording.started, &recording.released, &recording.ended})
            {
                times->resize(playback->GetTagsEnd(), TimePoint::never());
            }
            recording.limited_by.resize(playback->GetTagsEnd(), UINT32_MAX);
            recorders.push_back(std::make_unique<Recorder>(Recorder{&recording, engine, first}));
            Recorder* recorder = recorders.back().get();
            playback->TraceConnectWithoutContext("TransferStarted", ns3::MakeCallback(&Recorder::Started, recorder));
            playback->TraceConnectWithoutContext("TransferReleased", ns3::MakeCallback(&Recorder::Released, recorder));
            playback->TraceConnectWithoutContext("TransferEnded", ns3::MakeCallback(&Recorder::Ended, recorder));
        }
    }
    if (options.record_loads)
    {
        engine->TraceConnectWithoutContext(
            "LoadChanged",
            ns3::MakeBoundCallback(&RecordLoad, &recording.loads, static_cast<uint32_t>(network.links().size())));
    }

    Background background;
    std::deque<ns3::FlowRoute> backgroundRoutes;
    uint32_t backgroundTag = fabric.GetPlayback()->GetTagsEnd();
    if (!options.background.empty())
    {
        engine->AddListener(backgroundTag, &background);
    }
    for (const BackgroundFlow& flow : options.background)
    {
        ns3::FlowRoute route = *fabric.GetRoutes()->Get(static_cast<uint32_t>(flow.from), static_cast<uint32_t>(flow.to), false);
        if (flow.rate.count() > 0)
        {
            // A link of its own limits it.
            const ns3::Ptr<ns3::FabricLink> limit = ns3::CreateObject<ns3::FabricLink>();
            limit->SetCapacity(flow.rate.count());
            route.links.push_back(engine->AddLink(limit));
            if (!route.weights.empty())
            {
                route.weights.push_back(ns3::FlowRoute::WHOLE);
            }
        }
        backgroundRoutes.push_back(std::move(route));
        ns3::Simulator::Schedule(ns3::PicoSeconds(static_cast<uint64_t>(flow.at.count())),
                                 &ns3::FlowEngine::Request,
                                 engine,
                                 backgroundTag,
                                 &backgroundRoutes.back(),
                                 backgroundBytes);
        if (flow.until != TimePoint::never())
        {
            ns3::Simulator::Schedule(ns3::PicoSeconds(static_cast<uint64_t>(flow.until.count())),
                                     &ns3::FlowEngine::Cancel,
                                     engine,
                                     backgroundTag);
        }
        ++backgroundTag;
    }

    ns3::Ptr<ns3::NetworkChanges> changes;
    if (options.changes)
    {
        changes = ns3::CreateObjectWithAttributes<ns3::NetworkChanges>(
            "Reroute",
            ns3::BooleanValue(options.reroute),
            "Detection",
            ns3::TimeValue(ns3::PicoSeconds(static_cast<uint64_t>(options.detection.count()))),
            "Migration",
            ns3::TimeValue(ns3::PicoSeconds(static_cast<uint64_t>(options.migration.count()))),
            "AcknowledgedChunk",
            ns3::UintegerValue(static_cast<uint64_t>(options.acknowledged_chunk.count())));
        if (options.record_times)
        {
            changes->TraceConnectWithoutContext("Happened", ns3::MakeBoundCallback(&RecordInstant, &recording.instants));
        }
        changes->SetUp(options.changes, engine, fabric.GetRoutes(), fabric.GetPlaybacks());
    }
    if (options.stop_at != TimePoint::never())
    {
        ns3::Simulator::Stop(ns3::PicoSeconds(static_cast<uint64_t>(options.stop_at.count())));
    }
    bool stopped = false;
    if (options.interrupted)
    {
        engine->SetWatch([&] {
            if (!stopped && options.interrupted())
            {
                stopped = true;
                ns3::Simulator::Stop();
            }
        });
    }
    if (left > 0)
    {
        ns3::Simulator::Run();
    }

    for (size_t j = 0; j < jobs.size(); ++j)
    {
        const ns3::Ptr<ns3::SchedulePlayback>& playback = fabric.GetPlaybacks()[j];
        result.jobs.emplace_back(playback->GetCompletion().GetPicoSeconds());
        result.finished.push_back(playback->IsComplete());
        result.time = std::max(result.time, result.jobs.back());
    }
    result.events = ns3::Simulator::GetEventCount();
    for (uint32_t link = 0; link < network.links().size(); ++link)
    {
        const ns3::FlowLinkUse use = engine->GetUse(link);
        result.links.push_back({Bytes(use.bytes), Duration(use.busy)});
    }
    if (changes)
    {
        result.lost = Bytes(changes->GetLostBytes());
        result.detection = Duration(changes->GetDetection());
        result.resending = Duration(changes->GetResendTime());
        changes->Dispose();
    }
    if (left > 0)
    {
        result.status = stopped                                      ? PlayStatus::interrupted
                        : Recorder::Now() >= options.stop_at         ? PlayStatus::cut
                                                                     : PlayStatus::stalled;
        if (result.status == PlayStatus::stalled)
        {
            result.waiting = DescribeWaiting(network, fabric, jobs);
        }
    }
    for (const ns3::Ptr<ns3::SchedulePlayback>& playback : fabric.GetPlaybacks())
    {
        playback->Dispose();
    }
    engine->Dispose();
    if (result.status == PlayStatus::stalled && !options.changes)
    {
        throw Error(ErrorKind::internal, "the simulation stalled: " + result.waiting.back());
    }
    return result;
}

SimulateResult
simulate(const Network& network, const Schedule& schedule, const MessageLayout& layout, const SimulateOptions& options)
{
    const PlayedJob job{schedule, layout};
    return simulate(network, std::span(&job, 1), options);
}

} // namespace slackline
