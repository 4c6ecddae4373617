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
FabricHelper::Install(const slackline::Schedule& schedule, const slackline::MessageLayout& layout)
{
    if (schedule.collective().ranks != m_network->ranks())
    {
        throw slackline::Error(slackline::ErrorKind::input,
                               "the schedule is for " + std::to_string(schedule.collective().ranks) +
                                   " ranks, and the network has " + std::to_string(m_network->ranks()));
    }
    std::unordered_map<uint64_t, FlowRoute> routes;
    for (size_t i = 0; i < schedule.size(); ++i)
    {
        const uint32_t src = schedule.src(i);
        const uint32_t dst = schedule.dst(i);
        if (src == dst)
        {
            continue;
        }
        const auto [place, isNew] = routes.try_emplace(uint64_t{src} << 32 | dst);
        if (isNew)
        {
            const slackline::Route& route = m_network->route(static_cast<int>(src), static_cast<int>(dst));
            place->second.links = route.links;
            place->second.latency = PicoSeconds(static_cast<uint64_t>(route.latency.count()));
        }
    }
    m_playback = CreateObject<SchedulePlayback>();
    m_playback->SetUp(&schedule, &layout, m_engine, std::move(routes));
    ApplicationContainer applications;
    for (int rank = 0; rank < m_network->ranks(); ++rank)
    {
        Ptr<RankApplication> application =
            CreateObjectWithAttributes<RankApplication>("Rank", UintegerValue(static_cast<uint64_t>(rank)));
        m_nodes.Get(static_cast<uint32_t>(rank))->AddApplication(application);
        m_playback->AddRank(application);
        applications.Add(application);
    }
    return applications;
}

} // namespace ns3
