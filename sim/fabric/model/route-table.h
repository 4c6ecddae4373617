// The routes of transfers on a network that changes: made when they are first asked for.
#ifndef ROUTE_TABLE_H
#define ROUTE_TABLE_H

#include "flow-engine.h"

#include "topology/network.hpp"

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

namespace ns3
{

/**
 * Routes between the ranks of a slackline::Network. When parts of it fail, a network with the same links and other
 * capacities takes its place; routes that were given out stay valid.
 */
class RouteTable
{
  public:
    /** From now on routes are those of `network`, which must have the vertices and links of the ones before it. */
    void SetNetwork(std::shared_ptr<const slackline::Network> network);
    const slackline::Network& GetNetwork() const { return *m_networks.back(); }

    /**
     * The way of a transfer, or nullptr from a rank to itself. Where the network has no way any more, the last one
     * that there was. Throws slackline::Error{input} where there never was one.
     * \param reduce whether the destination reduces what it receives, which a slow GPU does slowly
     */
    const FlowRoute* Get(uint32_t src, uint32_t dst, bool reduce);

  private:
    std::vector<std::shared_ptr<const slackline::Network>> m_networks; //!< the present one last
    std::unordered_map<uint64_t, const FlowRoute*> m_routes;           //!< of the present one
    std::deque<FlowRoute> m_all;
};

} // namespace ns3

#endif /* ROUTE_TABLE_H */
