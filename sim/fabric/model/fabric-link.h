// One direction of a link between two ports: a capacity that flows share, a latency they pass through.
#ifndef FABRIC_LINK_H
#define FABRIC_LINK_H

#include <ns3/channel.h>
#include <ns3/nstime.h>
#include <ns3/traced-callback.h>

namespace ns3
{

class FabricPort;

/**
 * A directed capacity. The link carries flows, not packets: FlowEngine decides their rates.
 *
 * Attributes: Capacity (bit/s), Latency. Trace sources: FlowStarted and FlowEnded, with the flow's tag.
 */
class FabricLink : public Channel
{
  public:
    static TypeId GetTypeId();

    /** Attaches the port that transmits and the port that receives. */
    void Attach(Ptr<FabricPort> from, Ptr<FabricPort> to);
    std::size_t GetNDevices() const override;
    Ptr<NetDevice> GetDevice(std::size_t i) const override;

    int64_t GetCapacity() const { return static_cast<int64_t>(m_capacity); }
    /** A link of capacity 0 is dead. */
    void SetCapacity(int64_t capacity) { m_capacity = static_cast<uint64_t>(capacity); }
    Time GetLatency() const { return m_latency; }

    void NotifyStarted(uint32_t tag) { m_flowStarted(tag); }
    void NotifyEnded(uint32_t tag) { m_flowEnded(tag); }

    /** Signature of both trace sources: the tag of the flow. */
    typedef void (*FlowTracedCallback)(uint32_t tag);

  protected:
    void DoDispose() override;

  private:
    Ptr<FabricPort> m_from;
    Ptr<FabricPort> m_to;
    uint64_t m_capacity; //!< bit/s
    Time m_latency;
    TracedCallback<uint32_t> m_flowStarted;
    TracedCallback<uint32_t> m_flowEnded;
};

} // namespace ns3

#endif /* FABRIC_LINK_H */
