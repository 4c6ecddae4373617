// Moves flows over FabricLinks: rates by max-min fairness, or one flow a link at a time.
#ifndef FLOW_ENGINE_H
#define FLOW_ENGINE_H

#include "fabric-link.h"

#include <ns3/event-id.h>
#include <ns3/object.h>

#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

namespace ns3
{

/** Where a flow goes. `links` are indices given out by FlowEngine::AddLink. */
struct FlowRoute
{
    /** A flow that is striped or sprayed over parallel ways loads each of their links with a part of its rate. */
    static constexpr uint32_t WHOLE = 5'765'760; // 2^7 x 3^2 x 5 x 7 x 11 x 13: most parts are exact

    std::vector<uint32_t> links;
    Time latency;                       //!< of the whole route
    std::vector<uint32_t> weights = {}; //!< the parts, in units of 1/WHOLE, by link; empty: the whole rate on every link

    // Flows of one route have the same rate, so that one that starts when another ends changes no rates.
    mutable uint32_t vacated = 0; //!< flows of this route that ended at this instant, less those that started
    mutable int64_t rate = 0;     //!< which they had
    mutable uint32_t limit = 0;   //!< and the link that limited it
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

/** What a link has carried. */
struct FlowLinkUse
{
    int64_t bytes = 0; //!< of flows that have ended or were cancelled
    int64_t busy = 0;  //!< picoseconds with at least one flow on it
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
    /** `listener` hears of the flows whose tags are at least `firstTag` and below that of the listener added next. */
    void AddListener(uint32_t firstTag, FlowListener* listener);

    /** Gives the link another capacity from now on (bit/s); flows on one of capacity 0 stand still. */
    void SetCapacity(uint32_t link, int64_t capacity);
    /**
     * Takes a flow back that has been requested and has not been released: it occupies nothing any more, and its
     * listener hears nothing more of it. The result is the number of whole bytes that it has sent.
     */
    int64_t Cancel(uint32_t tag);
    /** The flows that have been requested and have not been released, with their routes, by tag. */
    std::map<uint32_t, const FlowRoute*> GetFlows() const;

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
    /** What the link has carried so far. */
    FlowLinkUse GetUse(uint32_t link) const;
    /** The link that limited the rate of the flow that is being released. */
    uint32_t GetLimit() const { return m_limit; }
    /** `watch` is called every few thousand instants. */
    void SetWatch(std::function<void()> watch) { m_watch = std::move(watch); }
    /** Whether any flow with a tag lower than `below` moves. Linear in the flows. */
    bool IsMoving(uint32_t below) const;

    /** Signature of the trace source LoadChanged: link, and the rate of all flows on it together in bit/s. */
    typedef void (*LoadTracedCallback)(uint32_t link, int64_t load);

  protected:
    void DoDispose() override;

  private:
    using Wide = __int128;

    struct Flow
    {
        uint32_t tag;
        const FlowRoute* route;
        FlowListener* listener;
        int64_t bytes;
        Wide remaining;       //!< bits times 1e12
        int64_t rate;         //!< bit/s
        int64_t since;        //!< `remaining` is as of this time (ps); it does not fall before
        uint32_t limit;       //!< the link that limits the rate
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
        int64_t open = 0;              //!< weight of the flows without a rate yet, likewise
        int64_t load = 0;              //!< as last told
        int64_t since = 0;             //!< when it last became busy
        FlowLinkUse use;
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
        FlowListener* listener;
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
    void Leave(uint32_t slot, int64_t now);
    void Fly(const Flow& flow, int64_t now);
    void Rerate(int64_t now);
    void RateComponent(int64_t now);
    void SetRate(uint32_t slot, int64_t rate, uint32_t limit, int64_t now);
    void Progress(Flow& flow, int64_t now);
    void TellLoad(uint32_t link);
    void ScheduleNow();
    void ScheduleNext(int64_t now);
    void MarkDirty(const FlowRoute* route);
    void MarkDirty(uint32_t link);
    FlowListener* ListenerOf(uint32_t tag) const;
    int64_t WeightOf(const FlowRoute* route, size_t position) const
    {
        return !m_weighted ? 1 : route->weights.empty() ? FlowRoute::WHOLE : route->weights[position];
    }

    Sharing m_sharing;
    Time m_overhead;
    bool m_notifyLinks;
    std::vector<std::pair<uint32_t, FlowListener*>> m_listeners; //!< by first tag
    bool m_weighted = false; //!< some route has weights; without any, a flow counts 1 and not WHOLE
    uint32_t m_limit = 0;
    TracedCallback<uint32_t, int64_t> m_loadChanged;
    std::function<void()> m_watch;
    uint32_t m_instants = 0;
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
