#include "fabric-helper.h"

#include "../model/fabric-port.h"

#include "base/error.hpp"

#include <ns3/names.h>
#include <ns3/string.h>
#include <ns3/uinteger.h>

namespace ns3
{

FabricHelper::FabricHelper()
{
    m_engineFactory.SetTypeId("ns3::FlowEngine");
}

void
FabricHelper::SetEngineAttribute(const std::string& name, const AttributeValue& value)
{
    m_engineFactory.Set(name, value);
}

void
FabricHelper::Build(const slackline::Network& network)
{
    m_network = &network;
    // The caller keeps the network; the table shares ownership of the networks that take its place.
    m_routes.SetNetwork(std::shared_ptr<const slackline::Network>(std::shared_ptr<void>(), &network));
    m_engineFactory.Set("Overhead", TimeValue(PicoSeconds(static_cast<uint64_t>(network.message_overhead().count()))));
    m_engine = m_engineFactory.Create<FlowEngine>();
    m_nodes.Create(static_cast<uint32_t>(network.vertices().size()));
    for (const slackline::NetworkLink& link : network.links())
    {
        Ptr<FabricLink> made = CreateObjectWithAttributes<FabricLink>(
            "Capacity",
            UintegerValue(static_cast<uint64_t>(link.capacity.count())),
            "Latency",
            TimeValue(PicoSeconds(static_cast<uint64_t>(link.latency.count()))));
        Ptr<FabricPort> ends[2];
        const int vertices[2] = {link.from, link.to};
        for (int end = 0; end < 2; ++end)
        {
            ends[end] = CreateObjectWithAttributes<FabricPort>("Name", StringValue(link.name));
            m_nodes.Get(static_cast<uint32_t>(vertices[end]))->AddDevice(ends[end]);
        }
        made->Attach(ends[0], ends[1]);
        m_engine->AddLink(made);
        m_links.push_back(made);
    }
}

ApplicationContainer
FabricHelper::Install(const slackline::Schedule& schedule,
                      const slackline::MessageLayout& layout,
                      std::vector<uint32_t> ranks)
{
    const auto wanted = static_cast<size_t>(schedule.collective().ranks);
    if (ranks.empty() && schedule.collective().ranks == m_network->ranks())
    {
        for (uint32_t rank = 0; rank < wanted; ++rank)
        {
            ranks.push_back(rank);
        }
    }
    if (ranks.size() != wanted)
    {
        throw slackline::Error(slackline::ErrorKind::input,
                               "the schedule is for " + std::to_string(wanted) + " ranks, and the network has " +
                                   std::to_string(ranks.empty() ? static_cast<size_t>(m_network->ranks()) : ranks.size()));
    }
    for (const uint32_t rank : ranks)
    {
        if (rank >= static_cast<uint32_t>(m_network->ranks()))
        {
            throw slackline::Error(slackline::ErrorKind::input,
                                   "the network has no rank " + std::to_string(rank));
        }
    }
    // A missing route is found now and not when the first transfer needs it.
    for (size_t i = 0; i < schedule.size(); ++i)
    {
        m_routes.Get(ranks[schedule.src(i)], ranks[schedule.dst(i)], false);
    }
    const uint32_t firstTag = m_playbacks.empty() ? 0 : m_playbacks.back()->GetTagsEnd();
    if (schedule.size() > UINT32_MAX - firstTag)
    {
        throw slackline::Error(slackline::ErrorKind::input, "the schedules have more than 4 billion transfers together");
    }
    Ptr<SchedulePlayback> playback = CreateObject<SchedulePlayback>();
    playback->SetUp(&schedule, &layout, m_engine, firstTag, &m_routes, ranks);
    m_playbacks.push_back(playback);
    ApplicationContainer applications;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    {
        Ptr<RankApplication> application = CreateObjectWithAttributes<RankApplication>("Rank", UintegerValue(rank));
        m_nodes.Get(ranks[rank])->AddApplication(application);
        playback->AddRank(application);
        applications.Add(application);
    }
    return applications;
}

} // namespace ns3
