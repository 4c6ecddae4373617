#include "flow-engine.h"

#include <ns3/abort.h>
#include <ns3/boolean.h>
#include <ns3/enum.h>
#include <ns3/log.h>
#include <ns3/simulator.h>

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("FlowEngine");
NS_OBJECT_ENSURE_REGISTERED(FlowEngine);

TypeId
FlowEngine::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::FlowEngine")
            .SetParent<Object>()
            .SetGroupName("Fabric")
            .AddConstructor<FlowEngine>()
            .AddAttribute("Sharing",
                          "How flows share a link.",
                          EnumValue(FlowEngine::FAIR),
                          MakeEnumAccessor(&FlowEngine::m_sharing),
                          MakeEnumChecker(FlowEngine::FAIR, "Fair", FlowEngine::EXCLUSIVE, "Exclusive"))
            .AddAttribute("Overhead",
                          "Time for which every flow occupies its links besides its bytes.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&FlowEngine::m_overhead),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("NotifyLinks",
                          "Whether links fire their trace sources, which costs a tenth of the time.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&FlowEngine::m_notifyLinks),
                          MakeBooleanChecker());
    return tid;
}

uint32_t
FlowEngine::AddLink(Ptr<FabricLink> link)
{
    Link entry;
    entry.link = link;
    entry.capacity = link->GetCapacity();
    m_links.push_back(std::move(entry));
    return static_cast<uint32_t>(m_links.size() - 1);
}

void
FlowEngine::DoDispose()
{
    m_next.Cancel();
    m_links.clear();
    m_listener = nullptr;
    Object::DoDispose();
}

int64_t
FlowEngine::GetRate(uint32_t tag) const
{
    for (const Link& link : m_links)
    {
        for (const uint32_t slot : link.flows)
        {
            if (m_flows[slot].tag == tag)
            {
                return m_flows[slot].rate;
            }
        }
    }
    return 0;
}

void
FlowEngine::Request(uint32_t tag, const FlowRoute* route, int64_t bytes)
{
    uint32_t slot;
    if (m_freeSlots.empty())
    {
        slot = static_cast<uint32_t>(m_flows.size());
        m_flows.emplace_back();
    }
    else
    {
        slot = m_freeSlots.back();
        m_freeSlots.pop_back();
    }
    Flow& flow = m_flows[slot];
    flow.tag = tag;
    flow.route = bytes > 0 ? route : nullptr;
    flow.remaining = Wide(bytes) * 8 * 1'000'000'000'000;
    flow.rate = 0;
    m_requested.push_back(slot);
    if (!m_settling && m_nextTime != Simulator::Now().GetPicoSeconds())
    {
        // After everything else that happens at this instant.
        m_next.Cancel();
        m_nextTime = Simulator::Now().GetPicoSeconds();
        m_next = Simulator::ScheduleNow(&FlowEngine::Settle, this);
    }
}

void
FlowEngine::Settle()
{
    const int64_t now = Simulator::Now().GetPicoSeconds();
    m_settling = true;
    bool changed = true;
    while (changed)
    {
        changed = ReleaseDue(now);
        changed = ArriveDue(now) || changed;
        changed = StartRequested(now) || changed;
    }
    Rerate(now);
    m_settling = false;
    ScheduleNext(now);
}

bool
FlowEngine::ReleaseDue(int64_t now)
{
    bool any = false;
    while (!m_completions.empty() && m_completions.top().time <= now)
    {
        const Completion due = m_completions.top();
        m_completions.pop();
        if (m_flows[due.slot].version == due.version)
        {
            Release(due.slot, now);
            any = true;
        }
    }
    return any;
}

bool
FlowEngine::ArriveDue(int64_t now)
{
    bool any = false;
    for (size_t i = 0; i < m_flights.size(); ++i)
    {
        // The listener may not add flights: it only requests, and requests start later.
        Flight& flight = m_flights[i];
        while (flight.first < flight.arrivals.size() && flight.arrivals[flight.first].time <= now)
        {
            m_listener->FlowArrived(flight.arrivals[flight.first++].tag);
            any = true;
        }
        if (flight.first == flight.arrivals.size())
        {
            flight.arrivals.clear();
            flight.first = 0;
        }
        else if (flight.first > 4096 && flight.first > flight.arrivals.size() / 2)
        {
            flight.arrivals.erase(flight.arrivals.begin(),
                                  flight.arrivals.begin() + static_cast<std::ptrdiff_t>(flight.first));
            flight.first = 0;
        }
    }
    return any;
}

bool
FlowEngine::StartRequested(int64_t now)
{
    if (m_requested.empty())
    {
        return false;
    }
    // Starting a flow may request others, which come in the next round.
    m_starting.clear();
    m_starting.swap(m_requested);
    std::sort(m_starting.begin(), m_starting.end(), [this](uint32_t a, uint32_t b) {
        return m_flows[a].tag < m_flows[b].tag;
    });
    for (const uint32_t slot : m_starting)
    {
        const FlowRoute* route = m_flows[slot].route;
        if (m_sharing == EXCLUSIVE && route)
        {
            bool free = true;
            for (const uint32_t link : route->links)
            {
                free = free && m_links[link].flows.empty();
            }
            if (!free)
            {
                for (const uint32_t link : route->links)
                {
                    m_links[link].waiting.push_back(slot);
                }
                continue;
            }
        }
        Start(slot, now);
    }
    return true;
}

void
FlowEngine::Start(uint32_t slot, int64_t now)
{
    const uint32_t tag = m_flows[slot].tag;
    const FlowRoute* route = m_flows[slot].route;
    m_listener->FlowStarted(tag);
    if (!route)
    {
        m_freeSlots.push_back(slot);
        m_listener->FlowReleased(tag);
        m_listener->FlowArrived(tag);
        return;
    }
    ++m_active;
    m_flows[slot].since = now + m_overhead.GetPicoSeconds();
    for (const uint32_t link : route->links)
    {
        m_links[link].flows.push_back(slot);
        if (m_notifyLinks)
        {
            m_links[link].link->NotifyStarted(tag);
        }
    }
    if (route->vacated > 0)
    {
        --route->vacated;
        SetRate(slot, route->rate, now);
    }
    else
    {
        MarkDirty(route);
    }
}

void
FlowEngine::Release(uint32_t slot, int64_t now)
{
    Flow& flow = m_flows[slot];
    const uint32_t tag = flow.tag;
    const FlowRoute* route = flow.route;
    ++flow.version;
    --m_active;
    for (const uint32_t index : route->links)
    {
        Link& link = m_links[index];
        const auto place = std::find(link.flows.begin(), link.flows.end(), slot);
        *place = link.flows.back();
        link.flows.pop_back();
        if (m_notifyLinks)
        {
            link.link->NotifyEnded(tag);
        }
        if (!link.waiting.empty())
        {
            // All that wait may try again; they line up by tag. They leave the other links' lists too.
            std::vector<uint32_t> waiting;
            waiting.swap(link.waiting);
            for (const uint32_t other : waiting)
            {
                for (const uint32_t its : m_flows[other].route->links)
                {
                    std::vector<uint32_t>& list = m_links[its].waiting;
                    list.erase(std::remove(list.begin(), list.end(), other), list.end());
                }
                m_requested.push_back(other);
            }
        }
    }
    if (route->vacated++ == 0)
    {
        m_vacated.push_back(route);
        route->rate = flow.rate;
    }
    m_freeSlots.push_back(slot);
    Fly(route, tag, now);
    m_listener->FlowReleased(tag);
}

void
FlowEngine::Fly(const FlowRoute* route, uint32_t tag, int64_t now)
{
    const int64_t latency = route->latency.GetPicoSeconds();
    for (Flight& flight : m_flights)
    {
        if (flight.latency == latency)
        {
            flight.arrivals.push_back({now + latency, tag});
            return;
        }
    }
    m_flights.push_back({latency, {{now + latency, tag}}, 0});
}

void
FlowEngine::MarkDirty(const FlowRoute* route)
{
    for (const uint32_t link : route->links)
    {
        if (!m_links[link].dirty)
        {
            m_links[link].dirty = true;
            m_dirty.push_back(link);
        }
    }
}

void
FlowEngine::SetRate(uint32_t slot, int64_t rate, int64_t now)
{
    Flow& flow = m_flows[slot];
    if (rate == flow.rate)
    {
        return;
    }
    if (flow.since < now)
    {
        flow.remaining -= Wide(flow.rate) * (now - flow.since);
        flow.since = now;
        if (flow.remaining < 0)
        {
            flow.remaining = 0;
        }
    }
    flow.rate = rate;
    ++flow.version;
    const Wide left = (flow.remaining + rate - 1) / rate;
    NS_ABORT_MSG_IF(left > INT64_MAX - flow.since, "a flow would take longer than 106 days");
    m_completions.push({flow.since + static_cast<int64_t>(left), flow.tag, slot, flow.version});
}

void
FlowEngine::Rerate(int64_t now)
{
    for (const FlowRoute* route : m_vacated)
    {
        if (route->vacated > 0)
        {
            MarkDirty(route);
            route->vacated = 0;
        }
    }
    m_vacated.clear();
    for (const uint32_t link : m_dirty)
    {
        if (!m_links[link].dirty)
        {
            continue; // was part of an earlier component
        }
        if (m_links[link].flows.empty())
        {
            m_links[link].dirty = false;
            continue;
        }
        // Everything that shares a link with something that shares a link .. with this one.
        m_componentLinks.assign(1, link);
        m_componentFlows.clear();
        m_links[link].seen = true;
        for (size_t i = 0; i < m_componentLinks.size(); ++i)
        {
            Link& here = m_links[m_componentLinks[i]];
            here.dirty = false;
            here.left = here.capacity;
            here.open = static_cast<uint32_t>(here.flows.size());
            for (const uint32_t slot : here.flows)
            {
                Flow& flow = m_flows[slot];
                if (flow.seen)
                {
                    continue;
                }
                flow.seen = true;
                m_componentFlows.push_back(slot);
                for (const uint32_t next : flow.route->links)
                {
                    if (!m_links[next].seen)
                    {
                        m_links[next].seen = true;
                        m_componentLinks.push_back(next);
                    }
                }
            }
        }
        RateComponent(now);
        for (const uint32_t index : m_componentLinks)
        {
            m_links[index].seen = false;
        }
    }
    m_dirty.clear();
}

void
FlowEngine::RateComponent(int64_t now)
{
    if (m_componentFlows.size() == 1)
    {
        const uint32_t slot = m_componentFlows[0];
        int64_t rate = INT64_MAX;
        for (const uint32_t link : m_componentLinks)
        {
            rate = std::min(rate, m_links[link].capacity);
        }
        m_flows[slot].seen = false;
        SetRate(slot, rate, now);
        return;
    }
    // Water filling: the link with the smallest share per flow that has no rate yet fixes its flows at that
    // share, and so on. A queue of shares would be stale after each step; shares only rise, so an entry that is too low
    // when it comes up goes back with its present share.
    struct Share
    {
        int64_t share;
        uint32_t link;
        bool operator>(const Share& other) const
        {
            return share != other.share ? share > other.share : link > other.link;
        }
    };
    std::priority_queue<Share, std::vector<Share>, std::greater<>> queue;
    for (const uint32_t link : m_componentLinks)
    {
        if (m_links[link].open > 0)
        {
            queue.push({m_links[link].left / m_links[link].open, link});
        }
    }
    while (!queue.empty())
    {
        const Share lowest = queue.top();
        queue.pop();
        Link& link = m_links[lowest.link];
        if (link.open == 0)
        {
            continue;
        }
        const int64_t share = link.left / link.open;
        if (share > lowest.share)
        {
            queue.push({share, lowest.link});
            continue;
        }
        // The order of the flows in the list is irrelevant: all get the same.
        for (const uint32_t slot : link.flows)
        {
            Flow& flow = m_flows[slot];
            if (!flow.seen)
            {
                continue; // has its rate
            }
            flow.seen = false;
            for (const uint32_t its : flow.route->links)
            {
                m_links[its].left -= share;
                --m_links[its].open;
            }
            SetRate(slot, std::max<int64_t>(share, 1), now);
        }
    }
}

void
FlowEngine::ScheduleNext(int64_t now)
{
    while (!m_completions.empty() && m_flows[m_completions.top().slot].version != m_completions.top().version)
    {
        m_completions.pop();
    }
    int64_t next = m_completions.empty() ? INT64_MAX : m_completions.top().time;
    for (const Flight& flight : m_flights)
    {
        if (flight.first < flight.arrivals.size())
        {
            next = std::min(next, flight.arrivals[flight.first].time);
        }
    }
    m_nextTime = next;
    if (next != INT64_MAX)
    {
        m_next = Simulator::Schedule(PicoSeconds(static_cast<uint64_t>(next - now)), &FlowEngine::Settle, this);
    }
}

} // namespace ns3
