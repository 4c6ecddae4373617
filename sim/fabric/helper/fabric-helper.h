// Builds the ns-3 network of a slackline::Network, and plays schedules on it.
#ifndef FABRIC_HELPER_H
#define FABRIC_HELPER_H

#include "../model/flow-engine.h"
#include "../model/rank-application.h"
#include "../model/schedule-playback.h"

#include "topology/network.hpp"

#include <ns3/application-container.h>
#include <ns3/node-container.h>
#include <ns3/object-factory.h>

namespace ns3
{

/**
 * One node a vertex, one FabricLink a link with a FabricPort at each end, one FlowEngine for all.
 *
 *     FabricHelper fabric;
 *     fabric.SetEngineAttribute("Sharing", EnumValue(FlowEngine::EXCLUSIVE));
 *     fabric.Build(network);
 *     ApplicationContainer ranks = fabric.Install(schedule, layout);
 *     Simulator::Run();
 *     Time completion = fabric.GetPlayback()->GetCompletion();
 */
class FabricHelper
{
  public:
    FabricHelper();

    void SetEngineAttribute(const std::string& name, const AttributeValue& value);
    /** The network must outlive the simulation. */
    void Build(const slackline::Network& network);
    /**
     * Installs a RankApplication for every rank of the schedule. Several schedules may be installed, one after the
     * other; they are played side by side. Throws slackline::Error{input} if the schedule has a
     * transfer between ranks that have no route, or another number of ranks than the network.
     * \param ranks the network's rank of each rank of the schedule; empty: 0, 1, ..
     */
    ApplicationContainer Install(const slackline::Schedule& schedule,
                                 const slackline::MessageLayout& layout,
                                 std::vector<uint32_t> ranks = {});

    NodeContainer GetNodes() const { return m_nodes; }
    /** Link i is link i of the slackline::Network. */
    Ptr<FabricLink> GetLink(uint32_t i) const { return m_links[i]; }
    Ptr<FlowEngine> GetEngine() const { return m_engine; }
    RouteTable* GetRoutes() { return &m_routes; }
    /** Of the schedule that was installed last. */
    Ptr<SchedulePlayback> GetPlayback() const { return m_playbacks.back(); }
    const std::vector<Ptr<SchedulePlayback>>& GetPlaybacks() const { return m_playbacks; }

  private:
    ObjectFactory m_engineFactory;
    const slackline::Network* m_network = nullptr;
    NodeContainer m_nodes;
    std::vector<Ptr<FabricLink>> m_links;
    Ptr<FlowEngine> m_engine;
    RouteTable m_routes;
    std::vector<Ptr<SchedulePlayback>> m_playbacks;
};

} // namespace ns3

#endif /* FABRIC_HELPER_H */
