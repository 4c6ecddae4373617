// Moves flows over FabricLinks: rates by max-min fairness, or one flow a link at a time.
#ifndef FLOW_ENGINE_H
#define FLOW_ENGINE_H

#include "fabric-link.h"

#include <ns3/event-id.h>
#include <ns3/object.h>

#include <queue>
#include <vector>

namespace ns3
{

/** Where a flow goes. `links` are indices given out by FlowEngine::AddLink. */
struct FlowRoute
{
    std::vector<uint32_t> links;
    Time latency; //!< of the whole route

    // Flows of one route have the same rate, so that one that starts when another ends changes no rates.
    mutable uint32_t vacated = 0; //!< flows of this route that ended at this instant, less those that started
    mutable int64_t rate = 0;     //!< which they had
};

/** Is told what becomes of flows. */
class FlowListener
{
  public:
    virtual ~FlowListener() = default;
    /** The flow begins to occupy its links. */
    virtual void FlowStarted(uint32_t tag) = 0;
    /** The flow has been sent; it occupies nothing any more. */
    virtual void FlowReleased(uint32_t tag) = 0;
    /** The flow has arrived, a latency after its release. */
    virtual void FlowArrived(uint32_t tag) = 0;
};

/**
 * A flow occupies every link of its route from its start for `Overhead` (LogGP's o), then for as long as its
 * bytes need at the rate it has, and arrives its route's latency later. Latency occupies nothing.
 *
 * Sharing `Fair`: the flows on a link share it; rates are max-min fair over all links and are worked out anew, where
 * they may have changed, whenever flows start or end. A flow has its share of a link during its overhead
 * too. Sharing `Exclusive`: a link carries one flow at a time; a flow waits until all links of its route are free, and of
 * those that wait for a link the one with the lowest tag goes first.
 *
 * All times are whole picoseconds, rounded up, and rates whole bit/s, rounded down: the same input gives the
 * same output everywhere, and no link beats its capacity. What happens at one instant is settled together: first all
 * releases and arrivals, then all starts in the order of their tags, then the new rates.
 */
class FlowEngine : public Object
{
  public:
    enum Sharing
    {
        FAIR,
        EXCLUSIVE
    };

    static TypeId GetTypeId();

    /** Makes the link known; the result names it in routes. */
    uint32_t AddLink(Ptr<FabricLink> link);
    void SetListener(FlowListener* listener) { m_listener = listener; }

    /**
     * Asks for a flow to start at the present instant, or, if sharing is exclusive, as soon as its links
     * are free.
     * \param tag names the flow to the listener, and ranks it among those that wait
     * \param route must stay valid until the flow has arrived; nullptr or no bytes: the flow starts, ends and
     *        arrives at once and occupies nothing
     * \param bytes not negative
     */
    void Request(uint32_t tag, const FlowRoute* route, int64_t bytes);

    /** Flows on the links at the moment. */
    uint32_t GetActiveFlows() const { return m_active; }
    /** The present rate of an active flow in bit/s, 0 if it is not active. For tests; linear in the flows. */
    int64_t GetRate(uint32_t tag) const;

  protected:
    void DoDispose() override;

  private:
    using Wide = __int128;

    struct Flow
    {
        uint32_t tag;
        const FlowRoute* route;
        Wide remaining;       //!< bits times 1e12
        int64_t rate;         //!< bit/s
        int64_t since;        //!< `remaining` is as of this time (ps); it does not fall before
        uint32_t version = 0; //!< of the rate; older completions in the queue are void
        bool seen = false;    //!< by the walk over a component
    };

    struct Link
    {
        Ptr<FabricLink> link;
        int64_t capacity;
        std::vector<uint32_t> flows;   //!< active flows on it, as slots
        std::vector<uint32_t> waiting; //!< requests that wait for it (exclusive), as slots
        int64_t left = 0;              //!< of the capacity, while rates are worked out
        uint32_t open = 0;             //!< flows without a rate yet, likewise
        bool dirty = false;
        bool seen = false;
    };

    struct Completion
    {
        int64_t time;
        uint32_t tag;
        uint32_t slot;
        uint32_t version;
        bool operator>(const Completion& other) const
        {
            return time != other.time ? time > other.time : tag > other.tag;
        }
    };

    struct Arrival
    {
        int64_t time;
        uint32_t tag;
    };

    /** Flows in flight with one latency: they arrive in the order of their release. */
    struct Flight
    {
        int64_t latency;
        std::vector<Arrival> arrivals;
        size_t first = 0;
    };

    void Settle();
    bool ReleaseDue(int64_t now);
    bool ArriveDue(int64_t now);
    bool StartRequested(int64_t now);
    void Start(uint32_t slot, int64_t now);
    void Release(uint32_t slot, int64_t now);
    void Fly(const FlowRoute* route, uint32_t tag, int64_t now);
    void Rerate(int64_t now);
    void RateComponent(int64_t now);
    void SetRate(uint32_t slot, int64_t rate, int64_t now);
    void ScheduleNext(int64_t now);
    void MarkDirty(const FlowRoute* route);

    Sharing m_sharing;
    Time m_overhead;
    bool m_notifyLinks;
    FlowListener* m_listener = nullptr;
    std::vector<Link> m_links;
    std::vector<Flow> m_flows;
    std::vector<uint32_t> m_freeSlots;
    uint32_t m_active = 0;
    std::vector<uint32_t> m_requested; //!< slots that wait for the end of this instant
    std::vector<uint32_t> m_starting;  //!< those of them that start now
    std::priority_queue<Completion, std::vector<Completion>, std::greater<>> m_completions;
    std::vector<Flight> m_flights;
    std::vector<const FlowRoute*> m_vacated; //!< routes whose flows ended at this instant
    std::vector<uint32_t> m_dirty;          //!< links whose flows changed
    std::vector<uint32_t> m_componentLinks; //!< scratch of RateComponent
    std::vector<uint32_t> m_componentFlows;
    EventId m_next;
    int64_t m_nextTime = INT64_MAX;
    bool m_settling = false;
};

} // namespace ns3

#endif /* FLOW_ENGINE_H */
