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
     * Installs a RankApplication on every rank's node. Throws slackline::Error{input} if the schedule has a
     * transfer between ranks that have no route, or another number of ranks than the network.
     */
    ApplicationContainer Install(const slackline::Schedule& schedule, const slackline::MessageLayout& layout);

    NodeContainer GetNodes() const { return m_nodes; }
    /** Link i is link i of the slackline::Network. */
    Ptr<FabricLink> GetLink(uint32_t i) const { return m_links[i]; }
    Ptr<FlowEngine> GetEngine() const { return m_engine; }
    Ptr<SchedulePlayback> GetPlayback() const { return m_playback; }

  private:
    ObjectFactory m_engineFactory;
    const slackline::Network* m_network = nullptr;
    NodeContainer m_nodes;
    std::vector<Ptr<FabricLink>> m_links;
    Ptr<FlowEngine> m_engine;
    Ptr<SchedulePlayback> m_playback;
};

} // namespace ns3

#endif /* FABRIC_HELPER_H */
