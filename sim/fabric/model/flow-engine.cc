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
                          MakeBooleanChecker())
            .AddTraceSource("LoadChanged",
                            "The flows on a link have another rate together.",
                            MakeTraceSourceAccessor(&FlowEngine::m_loadChanged),
                            "ns3::FlowEngine::LoadTracedCallback");
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
FlowEngine::AddListener(uint32_t firstTag, FlowListener* listener)
{
    m_listeners.emplace_back(firstTag, listener);
    std::sort(m_listeners.begin(), m_listeners.end());
}

FlowListener*
FlowEngine::ListenerOf(uint32_t tag) const
{
    size_t found = 0;
    for (size_t i = 1; i < m_listeners.size() && m_listeners[i].first <= tag; ++i)
    {
        found = i;
    }
    return m_listeners[found].second;
}

void
FlowEngine::DoDispose()
{
    m_next.Cancel();
    m_links.clear();
    m_listeners.clear();
    Object::DoDispose();
}

void
FlowEngine::SetCapacity(uint32_t link, int64_t capacity)
{
    if (m_links[link].capacity == capacity)
    {
        return;
    }
    m_links[link].capacity = capacity;
    m_links[link].link->SetCapacity(capacity);
    MarkDirty(link);
    ScheduleNow();
}

std::map<uint32_t, const FlowRoute*>
FlowEngine::GetFlows() const
{
    std::map<uint32_t, const FlowRoute*> flows;
    const auto add = [&](uint32_t slot) { flows.emplace(m_flows[slot].tag, m_flows[slot].route); };
    for (const Link& link : m_links)
    {
        std::for_each(link.flows.begin(), link.flows.end(), add);
        std::for_each(link.waiting.begin(), link.waiting.end(), add);
    }
    std::for_each(m_requested.begin(), m_requested.end(), add);
    return flows;
}

int64_t
FlowEngine::Cancel(uint32_t tag)
{
    const int64_t now = Simulator::Now().GetPicoSeconds();
    const auto has = [&](uint32_t slot) { return m_flows[slot].tag == tag; };
    const auto drop = [&](std::vector<uint32_t>& list) {
        const auto place = std::find_if(list.begin(), list.end(), has);
        const uint32_t slot = place == list.end() ? UINT32_MAX : *place;
        if (place != list.end())
        {
            list.erase(place);
        }
        return slot;
    };
    uint32_t slot = drop(m_requested);
    for (Link& link : m_links)
    {
        const uint32_t waiting = drop(link.waiting);
        slot = waiting == UINT32_MAX ? slot : waiting;
    }
    int64_t sent = 0;
    if (slot == UINT32_MAX)
    {
        for (const Link& link : m_links)
        {
            const auto place = std::find_if(link.flows.begin(), link.flows.end(), has);
            if (place != link.flows.end())
            {
                slot = *place;
                break;
            }
        }
        NS_ABORT_MSG_IF(slot == UINT32_MAX, "flow " << tag << " is not under way");
        Flow& flow = m_flows[slot];
        Progress(flow, now);
        const Wide left = (flow.remaining + 8'000'000'000'000 - 1) / 8'000'000'000'000;
        sent = flow.bytes - static_cast<int64_t>(left);
        flow.bytes = sent; // what its links carried
        MarkDirty(flow.route);
        Leave(slot, now);
    }
    m_freeSlots.push_back(slot);
    ScheduleNow();
    return sent;
}

FlowLinkUse
FlowEngine::GetUse(uint32_t link) const
{
    FlowLinkUse use = m_links[link].use;
    if (!m_links[link].flows.empty())
    {
        use.busy += Simulator::Now().GetPicoSeconds() - m_links[link].since;
    }
    return use;
}

bool
FlowEngine::IsMoving(uint32_t below) const
{
    for (const Link& link : m_links)
    {
        for (const uint32_t slot : link.flows)
        {
            if (m_flows[slot].rate > 0 && m_flows[slot].tag < below)
            {
                return true;
            }
        }
    }
    return false;
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
    flow.listener = ListenerOf(tag);
    flow.bytes = bytes;
    flow.remaining = Wide(bytes) * 8 * 1'000'000'000'000;
    flow.rate = 0;
    flow.limit = UINT32_MAX;
    if (flow.route && !flow.route->weights.empty())
    {
        m_weighted = true;
    }
    m_requested.push_back(slot);
    ScheduleNow();
}

void
FlowEngine::ScheduleNow()
{
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
    if (m_watch && (++m_instants & 4095) == 0)
    {
        m_watch();
    }
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
            const Arrival& arrival = flight.arrivals[flight.first++];
            arrival.listener->FlowArrived(arrival.tag);
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
    FlowListener* listener = m_flows[slot].listener;
    listener->FlowStarted(tag);
    if (!route)
    {
        m_freeSlots.push_back(slot);
        m_limit = UINT32_MAX;
        listener->FlowReleased(tag);
        listener->FlowArrived(tag);
        return;
    }
    ++m_active;
    m_flows[slot].since = now + m_overhead.GetPicoSeconds();
    for (const uint32_t link : route->links)
    {
        if (m_links[link].flows.empty())
        {
            m_links[link].since = now;
        }
        m_links[link].flows.push_back(slot);
        if (m_notifyLinks)
        {
            m_links[link].link->NotifyStarted(tag);
        }
    }
    if (route->vacated > 0)
    {
        --route->vacated;
        SetRate(slot, route->rate, route->limit, now);
    }
    else
    {
        MarkDirty(route);
    }
}

void
FlowEngine::Release(uint32_t slot, int64_t now)
{
    const Flow flow = m_flows[slot];
    Leave(slot, now);
    if (flow.route->vacated++ == 0)
    {
        m_vacated.push_back(flow.route);
        flow.route->rate = flow.rate;
        flow.route->limit = flow.limit;
    }
    m_freeSlots.push_back(slot);
    m_limit = flow.limit;
    Fly(flow, now);
    flow.listener->FlowReleased(flow.tag);
}

void
FlowEngine::Leave(uint32_t slot, int64_t now)
{
    Flow& flow = m_flows[slot];
    const FlowRoute* route = flow.route;
    ++flow.version;
    --m_active;
    for (size_t i = 0; i < route->links.size(); ++i)
    {
        Link& link = m_links[route->links[i]];
        const auto place = std::find(link.flows.begin(), link.flows.end(), slot);
        *place = link.flows.back();
        link.flows.pop_back();
        link.use.bytes += route->weights.empty()
                              ? flow.bytes
                              : static_cast<int64_t>(Wide(flow.bytes) * route->weights[i] / FlowRoute::WHOLE);
        if (link.flows.empty())
        {
            link.use.busy += now - link.since;
        }
        if (m_notifyLinks)
        {
            link.link->NotifyEnded(flow.tag);
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
}

void
FlowEngine::Fly(const Flow& flow, int64_t now)
{
    const int64_t latency = flow.route->latency.GetPicoSeconds();
    const Arrival arrival{now + latency, flow.tag, flow.listener};
    for (Flight& flight : m_flights)
    {
        if (flight.latency == latency)
        {
            flight.arrivals.push_back(arrival);
            return;
        }
    }
    m_flights.push_back({latency, {arrival}, 0});
}

void
FlowEngine::MarkDirty(const FlowRoute* route)
{
    for (const uint32_t link : route->links)
    {
        MarkDirty(link);
    }
}

void
FlowEngine::MarkDirty(uint32_t link)
{
    if (!m_links[link].dirty)
    {
        m_links[link].dirty = true;
        m_dirty.push_back(link);
    }
}

void
FlowEngine::Progress(Flow& flow, int64_t now)
{
    if (flow.since < now)
    {
        flow.remaining = std::max<Wide>(flow.remaining - Wide(flow.rate) * (now - flow.since), 0);
        flow.since = now;
    }
}

void
FlowEngine::SetRate(uint32_t slot, int64_t rate, uint32_t limit, int64_t now)
{
    Flow& flow = m_flows[slot];
    flow.limit = limit;
    if (rate == flow.rate)
    {
        return;
    }
    Progress(flow, now);
    flow.rate = rate;
    ++flow.version;
    if (rate == 0)
    {
        return; // stands still until it gets another rate
    }
    const Wide left = (flow.remaining + rate - 1) / rate;
    NS_ABORT_MSG_IF(left > INT64_MAX - flow.since, "a flow would take longer than 106 days");
    m_completions.push({flow.since + static_cast<int64_t>(left), flow.tag, slot, flow.version});
}

void
FlowEngine::TellLoad(uint32_t index)
{
    Link& link = m_links[index];
    Wide load = 0;
    for (const uint32_t slot : link.flows)
    {
        const FlowRoute* route = m_flows[slot].route;
        const size_t position =
            static_cast<size_t>(std::find(route->links.begin(), route->links.end(), index) - route->links.begin());
        load += Wide(m_flows[slot].rate) * (route->weights.empty() ? FlowRoute::WHOLE : route->weights[position]);
    }
    const auto whole = static_cast<int64_t>(load / FlowRoute::WHOLE);
    if (whole != link.load)
    {
        link.load = whole;
        m_loadChanged(index, whole);
    }
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
            if (!m_loadChanged.IsEmpty())
            {
                TellLoad(link);
            }
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
            here.open = static_cast<int64_t>(here.flows.size()) * (m_weighted ? FlowRoute::WHOLE : 1);
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
            if (!m_loadChanged.IsEmpty())
            {
                TellLoad(index);
            }
        }
    }
    m_dirty.clear();
}

void
FlowEngine::RateComponent(int64_t now)
{
    if (m_weighted)
    {
        // A flow that takes a part of its rate on a link weighs less there; `open` was summed as if all were whole.
        for (const uint32_t slot : m_componentFlows)
        {
            const FlowRoute* route = m_flows[slot].route;
            for (size_t i = 0; i < route->weights.size(); ++i)
            {
                m_links[route->links[i]].open -= int64_t{FlowRoute::WHOLE} - route->weights[i];
            }
        }
    }
    const auto shareOf = [this](const Link& link) {
        return m_weighted ? static_cast<int64_t>(std::min<Wide>(Wide(link.left) * FlowRoute::WHOLE / link.open, INT64_MAX))
                          : link.left / link.open;
    };
    if (m_componentFlows.size() == 1)
    {
        const uint32_t slot = m_componentFlows[0];
        int64_t rate = INT64_MAX;
        uint32_t limit = UINT32_MAX;
        for (const uint32_t link : m_componentLinks)
        {
            const int64_t share = m_links[link].capacity == 0 ? 0 : std::max<int64_t>(shareOf(m_links[link]), 1);
            if (share < rate)
            {
                rate = share;
                limit = link;
            }
        }
        m_flows[slot].seen = false;
        SetRate(slot, rate, limit, now);
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
            queue.push({shareOf(m_links[link]), link});
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
        const int64_t share = shareOf(link);
        if (share > lowest.share)
        {
            queue.push({share, lowest.link});
            continue;
        }
        // Nothing moves over a dead link; over a living one something always does, however little.
        const int64_t rate = link.capacity == 0 ? 0 : std::max<int64_t>(share, 1);
        // The order of the flows in the list is irrelevant: all get the same.
        for (const uint32_t slot : link.flows)
        {
            Flow& flow = m_flows[slot];
            if (!flow.seen)
            {
                continue; // has its rate
            }
            flow.seen = false;
            const FlowRoute* route = flow.route;
            for (size_t i = 0; i < route->links.size(); ++i)
            {
                Link& its = m_links[route->links[i]];
                const int64_t weight = WeightOf(route, i);
                its.left -= m_weighted
                                ? static_cast<int64_t>((Wide(share) * weight + FlowRoute::WHOLE - 1) / FlowRoute::WHOLE)
                                : share;
                its.open -= weight;
            }
            SetRate(slot, rate, lowest.link, now);
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
