// What happens to a network while schedules are played on it: parts fail and come back, flows are sent other ways.
#ifndef NETWORK_CHANGES_H
#define NETWORK_CHANGES_H

#include "flow-engine.h"
#include "route-table.h"
#include "schedule-playback.h"

#include "topology/network.hpp"

#include <ns3/object.h>
#include <ns3/traced-callback.h>

#include <string>
#include <vector>

namespace ns3
{

/**
 * Gives links their capacities when the network changes and, if Reroute is set, a detection time later sends
 * what is stuck on dead links by the routes of the network as it was detected. What it cannot send another way stays
 * where it is, and goes on when the link comes back.
 *
 * Changes are asked for one at a time, so that a link may flap for ever. When nothing has moved between a thousand
 * changes in a row no more are asked for, so that a run that is stuck ends.
 *
 * Attributes: Reroute, Detection, Migration, AcknowledgedChunk (bytes). Trace source: Happened, with words for people.
 */
class NetworkChanges : public Object
{
  public:
    static TypeId GetTypeId();

    void SetUp(slackline::NetworkTimeline next,
               Ptr<FlowEngine> engine,
               RouteTable* routes,
               std::vector<Ptr<SchedulePlayback>> playbacks);

    /** Time in which flows waited for detection and migration (ps); periods that overlap count once. */
    int64_t GetDetection() const { return m_detected; }
    /** Bytes that were sent in vain and were sent again, and the time the slowest source needed for its own (ps). */
    int64_t GetLostBytes() const { return m_lost; }
    int64_t GetResendTime() const;

    /** Signature of the trace source. */
    typedef void (*HappenedTracedCallback)(const std::string& what);

  protected:
    void DoDispose() override;

  private:
    void ScheduleNext(slackline::TimePoint after);
    void Apply(slackline::NetworkState state);
    void Detected(slackline::NetworkState state);

    bool m_reroute;
    Time m_detection;
    Time m_migration;
    uint64_t m_chunk;
    slackline::NetworkTimeline m_next;
    Ptr<FlowEngine> m_engine;
    RouteTable* m_routes = nullptr;
    std::vector<Ptr<SchedulePlayback>> m_playbacks;
    uint32_t m_idle = 0;        //!< changes in a row between which nothing moved
    uint64_t m_lastEnded = 0;
    int64_t m_detected = 0;
    int64_t m_detectedUntil = 0;
    int64_t m_lost = 0;
    std::map<uint32_t, int64_t> m_resend; //!< by source
    TracedCallback<const std::string&> m_happened;
};

} // namespace ns3

#endif /* NETWORK_CHANGES_H */
