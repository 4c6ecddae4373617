#include "network-changes.h"

#include <ns3/boolean.h>
#include <ns3/log.h>
#include <ns3/simulator.h>
#include <ns3/uinteger.h>

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("NetworkChanges");
NS_OBJECT_ENSURE_REGISTERED(NetworkChanges);

TypeId
NetworkChanges::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::NetworkChanges")
            .SetParent<Object>()
            .SetGroupName("Fabric")
            .AddConstructor<NetworkChanges>()
            .AddAttribute("Reroute",
                          "Whether flows on dead links are sent another way.",
                          BooleanValue(false),
                          MakeBooleanAccessor(&NetworkChanges::m_reroute),
                          MakeBooleanChecker())
            .AddAttribute("Detection",
                          "From a change to its detection.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&NetworkChanges::m_detection),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("Migration",
                          "From the detection until flows go other ways.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&NetworkChanges::m_migration),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("AcknowledgedChunk",
                          "Bytes that are acknowledged together; what is sent of one that is not complete is lost.",
                          UintegerValue(512 * 1024),
                          MakeUintegerAccessor(&NetworkChanges::m_chunk),
                          MakeUintegerChecker<uint64_t>(1, INT64_MAX))
            .AddTraceSource("Happened",
                            "A change of the network, a detection, a migration.",
                            MakeTraceSourceAccessor(&NetworkChanges::m_happened),
                            "ns3::NetworkChanges::HappenedTracedCallback");
    return tid;
}

void
NetworkChanges::SetUp(slackline::NetworkTimeline next,
                      Ptr<FlowEngine> engine,
                      RouteTable* routes,
                      std::vector<Ptr<SchedulePlayback>> playbacks)
{
    m_next = std::move(next);
    m_engine = engine;
    m_routes = routes;
    m_playbacks = std::move(playbacks);
    ScheduleNext(slackline::TimePoint());
}

int64_t
NetworkChanges::GetResendTime() const
{
    int64_t most = 0;
    for (const auto& [source, time] : m_resend)
    {
        most = std::max(most, time);
    }
    return most;
}

void
NetworkChanges::ScheduleNext(slackline::TimePoint after)
{
    std::optional<slackline::NetworkState> next = m_next(after);
    if (!next)
    {
        return;
    }
    const int64_t delay = next->from.count() - Simulator::Now().GetPicoSeconds();
    Simulator::Schedule(PicoSeconds(static_cast<uint64_t>(delay)), &NetworkChanges::Apply, this, *next);
}

void
NetworkChanges::Apply(slackline::NetworkState state)
{
    uint64_t ended = 0;
    for (const Ptr<SchedulePlayback>& playback : m_playbacks)
    {
        ended += playback->GetEnded();
    }
    const bool moving = m_engine->IsMoving(m_playbacks.back()->GetTagsEnd());
    m_idle = moving || ended != m_lastEnded ? 0 : m_idle + 1;
    m_lastEnded = ended;
    m_happened(state.what);
    const std::vector<slackline::NetworkLink>& links = state.network->links();
    for (uint32_t i = 0; i < links.size(); ++i)
    {
        m_engine->SetCapacity(i, links[i].capacity.count());
    }
    if (m_reroute)
    {
        Simulator::Schedule(m_detection + m_migration, &NetworkChanges::Detected, this, state);
    }
    if (m_idle < 1000)
    {
        ScheduleNext(state.from);
    }
}

void
NetworkChanges::Detected(slackline::NetworkState state)
{
    m_routes->SetNetwork(state.network);
    for (const Ptr<SchedulePlayback>& playback : m_playbacks)
    {
        playback->ForgetRoutes();
    }
    uint32_t moved = 0;
    for (const auto& [tag, route] : m_engine->GetFlows())
    {
        const bool stuck = route && std::any_of(route->links.begin(), route->links.end(), [&](uint32_t link) {
                               return state.network->links()[link].capacity.count() == 0;
                           });
        if (!stuck)
        {
            continue;
        }
        for (const Ptr<SchedulePlayback>& playback : m_playbacks)
        {
            if (!playback->Owns(tag))
            {
                continue;
            }
            const SchedulePlayback::Resent resent =
                playback->Reroute(tag, route, static_cast<int64_t>(m_chunk));
            moved += resent.moved ? 1 : 0;
            m_lost += resent.lost;
            if (resent.duration > 0)
            {
                m_resend[resent.source] += resent.duration;
            }
        }
    }
    if (moved > 0)
    {
        const int64_t now = Simulator::Now().GetPicoSeconds();
        m_detected += now - std::max(m_detectedUntil, state.from.count());
        m_detectedUntil = now;
        m_happened("detected: " + state.what + "; " + std::to_string(moved) +
                   (moved == 1 ? " transfer goes" : " transfers go") + " another way");
    }
}

void
NetworkChanges::DoDispose()
{
    m_next = nullptr;
    m_engine = nullptr;
    m_playbacks.clear();
    Object::DoDispose();
}

} // namespace ns3
