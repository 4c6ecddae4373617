#include "rank-application.h"

#include "schedule-playback.h"

#include <ns3/uinteger.h>

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RankApplication);

TypeId
RankApplication::GetTypeId()
{
    static TypeId tid = TypeId("ns3::RankApplication")
                            .SetParent<Application>()
                            .SetGroupName("Fabric")
                            .AddConstructor<RankApplication>()
                            .AddAttribute("Rank",
                                          "The rank that this application plays.",
                                          UintegerValue(0),
                                          MakeUintegerAccessor(&RankApplication::m_rank),
                                          MakeUintegerChecker<uint32_t>());
    return tid;
}

void
RankApplication::AddChannel(uint16_t channel,
                            std::span<const uint32_t> sends,
                            std::span<const uint32_t> receives)
{
    if (channel >= m_sends.size())
    {
        m_sends.resize(size_t{channel} + 1);
        m_receives.resize(size_t{channel} + 1);
    }
    m_sends[channel].transfers = sends;
    m_receives[channel].transfers = receives;
}

void
RankApplication::StartApplication()
{
    m_started = true;
    for (size_t channel = 0; channel < m_sends.size(); ++channel)
    {
        Offer(m_sends[channel]);
        Offer(m_receives[channel]);
    }
}

void
RankApplication::Offer(const Queue& queue)
{
    if (m_started && !queue.busy && queue.head < queue.transfers.size())
    {
        m_playback->TryStart(queue.transfers[queue.head]);
    }
}

void
RankApplication::Advance(Queue& queue)
{
    queue.busy = false;
    ++queue.head;
    Offer(queue);
}

void
RankApplication::SendReleased(uint16_t channel)
{
    Advance(m_sends[channel]);
}

void
RankApplication::ReceiveReleased(uint16_t channel)
{
    Advance(m_receives[channel]);
}

void
RankApplication::Arrived(uint16_t channel, uint32_t transfer)
{
    Queue& queue = m_receives[channel];
    if (queue.transfers[queue.arrived] != transfer)
    {
        queue.early.push_back(transfer);
        return;
    }
    while (true)
    {
        m_playback->End(queue.transfers[queue.arrived++]);
        if (queue.early.empty() || queue.arrived == queue.transfers.size())
        {
            return;
        }
        const auto next = std::find(queue.early.begin(), queue.early.end(), queue.transfers[queue.arrived]);
        if (next == queue.early.end())
        {
            return;
        }
        queue.early.erase(next);
    }
}

void
RankApplication::DoDispose()
{
    m_playback = nullptr;
    m_sends.clear();
    m_receives.clear();
    Application::DoDispose();
}

} // namespace ns3
