// Plays a schedule: decides which transfer may start when, and lets FlowEngine move it.
#ifndef SCHEDULE_PLAYBACK_H
#define SCHEDULE_PLAYBACK_H

#include "flow-engine.h"
#include "route-table.h"

#include "schedule/schedule.hpp"

#include <ns3/object.h>
#include <ns3/traced-callback.h>

#include <unordered_map>
#include <vector>

namespace ns3
{

class RankApplication;

/**
 * What the RankApplications of one schedule share: which transfers have ended, and who waits for which.
 *
 * A transfer starts once every transfer in its `after` has arrived, and it is the next to be sent of its source's
 * and the next to be received of its destination's channel, and the one before it on each has been released.
 * On a channel a destination's transfers arrive in list order: one that overtakes another (on a shorter
 * route) counts as arrived when that one has.
 *
 * Trace sources: TransferStarted (again when a transfer is sent another way), TransferReleased, TransferEnded, with
 * the transfer's index in the schedule.
 */
class SchedulePlayback : public Object, public FlowListener
{
  public:
    static TypeId GetTypeId();

    /**
     * \param schedule must outlive this object, and be well-formed (slackline::validate)
     * \param layout of the message, likewise
     * \param engine moves the transfers, as flows with the tags firstTag, firstTag + 1, ..; this object listens to it
     * \param routes of the network; must outlive this object
     * \param ranks the network's rank that plays each rank of the schedule
     */
    void SetUp(const slackline::Schedule* schedule,
               const slackline::MessageLayout* layout,
               Ptr<FlowEngine> engine,
               uint32_t firstTag,
               RouteTable* routes,
               std::vector<uint32_t> ranks);
    /** The application that plays `rank`; call for every rank, in order. */
    void AddRank(Ptr<RankApplication> application);

    /** Transfers that have arrived so far. */
    uint64_t GetEnded() const { return m_ended; }
    bool IsComplete() const { return m_ended == m_schedule->size(); }
    /** When the latest of them arrived. */
    Time GetCompletion() const { return m_completion; }
    /** Calls `done` when the last transfer has arrived. */
    void SetDoneCallback(Callback<void> done) { m_done = done; }
    /** One more than the highest tag. */
    uint32_t GetTagsEnd() const { return m_firstTag + static_cast<uint32_t>(m_schedule->size()); }
    bool Owns(uint32_t tag) const { return tag >= m_firstTag && tag - m_firstTag < m_schedule->size(); }

    /** What a Reroute has cost. */
    struct Resent
    {
        bool moved = false;    //!< whether the flow has been sent another way
        uint32_t source = 0;   //!< the network's rank that sends it
        int64_t lost = 0;      //!< bytes that were sent in vain
        int64_t duration = 0;  //!< picoseconds that the way which the flow takes now needs for them
    };
    /** The table has the routes of another network now. */
    void ForgetRoutes();
    /**
     * Sends a flow that is under way by the route that the table gives now, from its last acknowledged chunk on.
     * \param chunk bytes of an acknowledged chunk, positive
     */
    Resent Reroute(uint32_t tag, const FlowRoute* route, int64_t chunk);

    /** Signature of the trace sources. */
    typedef void (*TransferTracedCallback)(uint32_t transfer);

    void FlowStarted(uint32_t tag) override;
    void FlowReleased(uint32_t tag) override;
    void FlowArrived(uint32_t tag) override;

  protected:
    void DoDispose() override;

  private:
    friend class RankApplication;

    /** Starts the transfer if nothing holds it back, or leaves a note with what does. */
    void TryStart(uint32_t transfer);
    const FlowRoute* RouteOf(uint32_t transfer) const;
    int64_t BytesOf(uint32_t transfer) const;
    void End(uint32_t transfer);
    bool HasEnded(uint32_t transfer) const { return m_arrived[transfer >> 6] >> (transfer & 63) & 1; }
    RankApplication& At(uint32_t rank) { return *m_applications[rank]; }

    const slackline::Schedule* m_schedule = nullptr;
    const slackline::MessageLayout* m_layout = nullptr;
    Ptr<FlowEngine> m_engine;
    RouteTable* m_routes = nullptr;
    uint32_t m_firstTag = 0;
    std::vector<uint32_t> m_ranks;
    std::unordered_map<uint32_t, int64_t> m_outstanding; //!< bytes that rerouted transfers have yet to send
    Callback<void> m_done;
    struct LastRoute
    {
        uint32_t dst = UINT32_MAX;
        bool reduce = false;
        const FlowRoute* route = nullptr;
    };
    mutable std::vector<LastRoute> m_lastRoutes; //!< by source: most ranks send to the same one again
    std::vector<RankApplication*> m_applications;
    std::vector<Ptr<RankApplication>> m_owned;
    std::vector<uint32_t> m_order;          //!< the queues of all ranks, one after the other
    std::vector<uint64_t> m_queueBegin;     //!< of each queue in m_order
    std::vector<uint64_t> m_firstQueue;     //!< of each rank
    std::vector<uint64_t> m_arrived;        //!< a bit a transfer
    std::vector<uint64_t> m_awaited;        //!< a bit a transfer: something waits for it
    std::unordered_multimap<uint32_t, uint32_t> m_waiters; //!< by the transfer they wait for
    std::vector<uint32_t> m_woken;          //!< scratch of End
    uint64_t m_ended = 0;
    Time m_completion;
    TracedCallback<uint32_t> m_transferStarted;
    TracedCallback<uint32_t> m_transferReleased;
    TracedCallback<uint32_t> m_transferEnded;
};

} // namespace ns3

#endif /* SCHEDULE_PLAYBACK_H */
