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
                            .AddTraceSource("TransferReleased",
                                            "A transfer has been sent and occupies its ports no more.",
                                            MakeTraceSourceAccessor(&SchedulePlayback::m_transferReleased),
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
                        uint32_t firstTag,
                        RouteTable* routes,
                        std::vector<uint32_t> ranks)
{
    m_schedule = schedule;
    m_layout = layout;
    m_engine = engine;
    m_firstTag = firstTag;
    m_routes = routes;
    m_ranks = std::move(ranks);
    if (schedule->size() > 0)
    {
        m_engine->AddListener(firstTag, this);
    }
    m_arrived.assign(schedule->size() / 64 + 1, 0);
    m_awaited = m_arrived;

    // A counting sort of the transfers into the queues: per rank and channel first the sends, then the
    // receives. Ranks have as many channels as the highest of them, plus one.
    const auto count = static_cast<size_t>(schedule->collective().ranks);
    m_lastRoutes.assign(count, LastRoute());
    std::vector<uint32_t> channels(count, 0);
    for (size_t i = 0; i < schedule->size(); ++i)
    {
        for (const uint32_t rank : {schedule->src(i), schedule->dst(i)})
        {
            channels[rank] = std::max(channels[rank], uint32_t{schedule->channel(i)} + 1);
        }
    }
    std::vector<uint64_t> first(count + 1, 0);
    for (size_t rank = 0; rank < count; ++rank)
    {
        first[rank + 1] = first[rank] + 2 * uint64_t{channels[rank]};
    }
    const auto sendQueue = [&](size_t i) { return first[schedule->src(i)] + 2 * schedule->channel(i); };
    const auto receiveQueue = [&](size_t i) { return first[schedule->dst(i)] + 2 * schedule->channel(i) + 1; };
    m_queueBegin.assign(first[count] + 1, 0);
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
    m_engine->Request(m_firstTag + transfer, RouteOf(transfer), BytesOf(transfer));
}

int64_t
SchedulePlayback::BytesOf(uint32_t transfer) const
{
    return m_layout->length(m_schedule->chunks()[m_schedule->src_chunk(transfer)],
                            m_schedule->chunks()[m_schedule->dst_chunk(transfer)]);
}

const FlowRoute*
SchedulePlayback::RouteOf(uint32_t transfer) const
{
    const uint32_t src = m_schedule->src(transfer);
    const uint32_t dst = m_schedule->dst(transfer);
    const bool reduce = m_schedule->op(transfer) == slackline::TransferOp::reduce;
    LastRoute& last = m_lastRoutes[src];
    if (last.dst != dst || last.reduce != reduce)
    {
        last = {dst, reduce, m_routes->Get(m_ranks[src], m_ranks[dst], reduce)};
    }
    return last.route;
}

void
SchedulePlayback::ForgetRoutes()
{
    m_lastRoutes.assign(m_lastRoutes.size(), LastRoute());
}

SchedulePlayback::Resent
SchedulePlayback::Reroute(uint32_t tag, const FlowRoute* route, int64_t chunk)
{
    const uint32_t transfer = tag - m_firstTag;
    const FlowRoute* now = RouteOf(transfer);
    if (!route || (now->links == route->links && now->weights == route->weights))
    {
        return {};
    }
    const int64_t sent = m_engine->Cancel(tag);
    const int64_t acknowledged = sent / chunk * chunk;
    int64_t& outstanding = m_outstanding.try_emplace(transfer, BytesOf(transfer)).first->second;
    outstanding -= acknowledged;
    m_engine->Request(tag, now, outstanding);
    Resent resent;
    resent.moved = true;
    resent.source = m_ranks[m_schedule->src(transfer)];
    resent.lost = sent - acknowledged;
    for (size_t i = 0; i < now->links.size(); ++i)
    {
        const int64_t capacity = m_routes->GetNetwork().links()[now->links[i]].capacity.count();
        const double part = now->weights.empty() ? 1 : static_cast<double>(now->weights[i]) / FlowRoute::WHOLE;
        if (capacity > 0)
        {
            resent.duration = std::max(resent.duration,
                                       static_cast<int64_t>(static_cast<double>(resent.lost) * 8e12 * part /
                                                            static_cast<double>(capacity)));
        }
    }
    return resent;
}

void
SchedulePlayback::FlowStarted(uint32_t tag)
{
    m_transferStarted(tag - m_firstTag);
}

void
SchedulePlayback::FlowReleased(uint32_t tag)
{
    const uint32_t transfer = tag - m_firstTag;
    const uint16_t channel = m_schedule->channel(transfer);
    m_transferReleased(transfer);
    At(m_schedule->src(transfer)).SendReleased(channel);
    At(m_schedule->dst(transfer)).ReceiveReleased(channel);
}

void
SchedulePlayback::FlowArrived(uint32_t tag)
{
    const uint32_t transfer = tag - m_firstTag;
    At(m_schedule->dst(transfer)).Arrived(m_schedule->channel(transfer), transfer);
}

void
SchedulePlayback::End(uint32_t transfer)
{
    m_arrived[transfer >> 6] |= uint64_t{1} << (transfer & 63);
    ++m_ended;
    m_completion = Simulator::Now();
    m_transferEnded(transfer);
    if (IsComplete() && !m_done.IsNull())
    {
        m_done();
    }
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
