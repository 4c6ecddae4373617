#include "schedule-playback.h"

#include "rank-application.h"

#include <ns3/log.h>
#include <ns3/simulator.h>

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SchedulePlayback");
NS_OBJECT_ENSURE_REGISTERED(SchedulePlayback);

TypeId
SchedulePlayback::GetTypeId()
{
    static TypeId tid = TypeId("ns3::SchedulePlayback")
                            .SetParent<Object>()
                            .SetGroupName("Fabric")
                            .AddConstructor<SchedulePlayback>()
                            .AddTraceSource("TransferStarted",
                                            "A transfer began.",
                                            MakeTraceSourceAccessor(&SchedulePlayback::m_transferStarted),
                                            "ns3::SchedulePlayback::TransferTracedCallback")
                            .AddTraceSource("TransferEnded",
                                            "A transfer arrived.",
                                            MakeTraceSourceAccessor(&SchedulePlayback::m_transferEnded),
                                            "ns3::SchedulePlayback::TransferTracedCallback");
    return tid;
}

void
SchedulePlayback::SetUp(const slackline::Schedule* schedule,
                        const slackline::MessageLayout* layout,
                        Ptr<FlowEngine> engine,
                        std::unordered_map<uint64_t, FlowRoute> routes)
{
    m_schedule = schedule;
    m_layout = layout;
    m_engine = engine;
    m_routes = std::move(routes);
    m_engine->SetListener(this);
    m_done.assign(schedule->size() / 64 + 1, 0);
    m_awaited = m_done;

    // A counting sort of the transfers into the queues: per rank and channel first the sends, then the
    // receives. Ranks have as many channels as the highest of them, plus one.
    const auto ranks = static_cast<size_t>(schedule->collective().ranks);
    m_lastRoutes.assign(ranks, LastRoute());
    std::vector<uint32_t> channels(ranks, 0);
    for (size_t i = 0; i < schedule->size(); ++i)
    {
        for (const uint32_t rank : {schedule->src(i), schedule->dst(i)})
        {
            channels[rank] = std::max(channels[rank], uint32_t{schedule->channel(i)} + 1);
        }
    }
    std::vector<uint64_t> first(ranks + 1, 0);
    for (size_t rank = 0; rank < ranks; ++rank)
    {
        first[rank + 1] = first[rank] + 2 * uint64_t{channels[rank]};
    }
    const auto sendQueue = [&](size_t i) { return first[schedule->src(i)] + 2 * schedule->channel(i); };
    const auto receiveQueue = [&](size_t i) { return first[schedule->dst(i)] + 2 * schedule->channel(i) + 1; };
    m_queueBegin.assign(first[ranks] + 1, 0);
    for (size_t i = 0; i < schedule->size(); ++i)
    {
        ++m_queueBegin[sendQueue(i) + 1];
        ++m_queueBegin[receiveQueue(i) + 1];
    }
    for (size_t q = 1; q < m_queueBegin.size(); ++q)
    {
        m_queueBegin[q] += m_queueBegin[q - 1];
    }
    m_order.resize(2 * schedule->size());
    std::vector<uint64_t> next(m_queueBegin.begin(), m_queueBegin.end() - 1);
    for (size_t i = 0; i < schedule->size(); ++i)
    {
        m_order[next[sendQueue(i)]++] = static_cast<uint32_t>(i);
        m_order[next[receiveQueue(i)]++] = static_cast<uint32_t>(i);
    }
    m_owned.clear();
    m_applications.clear();
    m_firstQueue = std::move(first);
}

void
SchedulePlayback::AddRank(Ptr<RankApplication> application)
{
    const size_t rank = m_applications.size();
    const auto queue = [this](uint64_t q) {
        return std::span<const uint32_t>(m_order.data() + m_queueBegin[q], m_queueBegin[q + 1] - m_queueBegin[q]);
    };
    for (uint64_t q = m_firstQueue[rank]; q < m_firstQueue[rank + 1]; q += 2)
    {
        application->AddChannel(static_cast<uint16_t>((q - m_firstQueue[rank]) / 2), queue(q), queue(q + 1));
    }
    application->SetPlayback(this);
    m_applications.push_back(PeekPointer(application));
    m_owned.push_back(application);
}

void
SchedulePlayback::TryStart(uint32_t transfer)
{
    const uint16_t channel = m_schedule->channel(transfer);
    RankApplication& source = At(m_schedule->src(transfer));
    RankApplication& destination = At(m_schedule->dst(transfer));
    if (!source.MaySend(channel, transfer) || !destination.MayReceive(channel, transfer))
    {
        return; // the queue that holds it back will offer it again
    }
    for (const uint32_t earlier : m_schedule->after(transfer))
    {
        if (!HasEnded(earlier))
        {
            m_awaited[earlier >> 6] |= uint64_t{1} << (earlier & 63);
            m_waiters.emplace(earlier, transfer);
            return;
        }
    }
    source.SendStarted(channel);
    destination.ReceiveStarted(channel);
    const int64_t bytes = m_layout->length(m_schedule->chunks()[m_schedule->src_chunk(transfer)],
                                           m_schedule->chunks()[m_schedule->dst_chunk(transfer)]);
    const FlowRoute* route = nullptr;
    if (source.GetRank() != destination.GetRank())
    {
        LastRoute& last = m_lastRoutes[source.GetRank()];
        if (last.dst != destination.GetRank())
        {
            last = {destination.GetRank(), &m_routes.at(uint64_t{source.GetRank()} << 32 | destination.GetRank())};
        }
        route = last.route;
    }
    m_engine->Request(transfer, route, bytes);
}

void
SchedulePlayback::FlowStarted(uint32_t tag)
{
    m_transferStarted(tag);
}

void
SchedulePlayback::FlowReleased(uint32_t tag)
{
    const uint16_t channel = m_schedule->channel(tag);
    At(m_schedule->src(tag)).SendReleased(channel);
    At(m_schedule->dst(tag)).ReceiveReleased(channel);
}

void
SchedulePlayback::FlowArrived(uint32_t tag)
{
    At(m_schedule->dst(tag)).Arrived(m_schedule->channel(tag), tag);
}

void
SchedulePlayback::End(uint32_t transfer)
{
    m_done[transfer >> 6] |= uint64_t{1} << (transfer & 63);
    ++m_ended;
    m_completion = Simulator::Now();
    m_transferEnded(transfer);
    if (!(m_awaited[transfer >> 6] >> (transfer & 63) & 1))
    {
        return;
    }
    // Those that are woken may wait for something else at once, which changes the map. Their order does not matter: the
    // engine starts what is requested at one instant in list order.
    const auto [first, last] = m_waiters.equal_range(transfer);
    const size_t begin = m_woken.size();
    for (auto waiter = first; waiter != last; ++waiter)
    {
        m_woken.push_back(waiter->second);
    }
    m_waiters.erase(first, last);
    for (size_t i = begin; i < m_woken.size(); ++i)
    {
        TryStart(m_woken[i]);
    }
    m_woken.resize(begin);
}

void
SchedulePlayback::DoDispose()
{
    m_owned.clear();
    m_applications.clear();
    m_engine = nullptr;
    Object::DoDispose();
}

} // namespace ns3
