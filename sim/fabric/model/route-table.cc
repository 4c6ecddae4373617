#include "route-table.h"

namespace ns3
{

static_assert(FlowRoute::WHOLE == slackline::Route::whole);

void
RouteTable::SetNetwork(std::shared_ptr<const slackline::Network> network)
{
    m_networks.push_back(std::move(network));
    m_routes.clear();
}

const FlowRoute*
RouteTable::Get(uint32_t src, uint32_t dst, bool reduce)
{
    if (src == dst)
    {
        return nullptr;
    }
    const int reducer = reduce ? m_networks.back()->reduction_link(static_cast<int>(dst)) : -1;
    const uint64_t key = uint64_t{src} << 33 | uint64_t{dst} << 1 | (reducer >= 0 ? 1 : 0);
    const auto [place, isNew] = m_routes.try_emplace(key, nullptr);
    if (!isNew)
    {
        return place->second;
    }
    size_t age = m_networks.size() - 1;
    while (age > 0 && !m_networks[age]->has_route(static_cast<int>(src), static_cast<int>(dst)))
    {
        --age;
    }
    try
    {
        const slackline::Route& route = m_networks[age]->route(static_cast<int>(src), static_cast<int>(dst));
        FlowRoute made;
        made.links = route.links;
        made.weights = route.weights;
        made.latency = PicoSeconds(static_cast<uint64_t>(route.latency.count()));
        if (reducer >= 0)
        {
            made.links.push_back(static_cast<uint32_t>(reducer));
            if (!made.weights.empty())
            {
                made.weights.push_back(FlowRoute::WHOLE);
            }
        }
        m_all.push_back(std::move(made));
    }
    catch (...)
    {
        m_routes.erase(place);
        throw;
    }
    place->second = &m_all.back();
    return place->second;
}

} // namespace ns3
