#include "fabric-link.h"

#include "fabric-port.h"

#include <ns3/uinteger.h>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(FabricLink);

TypeId
FabricLink::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::FabricLink")
            .SetParent<Channel>()
            .SetGroupName("Fabric")
            .AddConstructor<FabricLink>()
            .AddAttribute("Capacity",
                          "What the flows on this link can carry together, in bit/s.",
                          UintegerValue(800'000'000'000),
                          MakeUintegerAccessor(&FabricLink::m_capacity),
                          MakeUintegerChecker<uint64_t>(0, INT64_MAX))
            .AddAttribute("Latency",
                          "From the end of a flow's transmission to its arrival.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&FabricLink::m_latency),
                          MakeTimeChecker(Time(0)))
            .AddTraceSource("FlowStarted",
                            "A flow began to occupy the link.",
                            MakeTraceSourceAccessor(&FabricLink::m_flowStarted),
                            "ns3::FabricLink::FlowTracedCallback")
            .AddTraceSource("FlowEnded",
                            "A flow ceased to occupy the link.",
                            MakeTraceSourceAccessor(&FabricLink::m_flowEnded),
                            "ns3::FabricLink::FlowTracedCallback");
    return tid;
}

void
FabricLink::Attach(Ptr<FabricPort> from, Ptr<FabricPort> to)
{
    m_from = from;
    m_to = to;
    from->SetChannel(this);
    to->SetChannel(this);
}

std::size_t
FabricLink::GetNDevices() const
{
    return (m_from ? 1 : 0) + (m_to ? 1 : 0);
}

Ptr<NetDevice>
FabricLink::GetDevice(std::size_t i) const
{
    return i == 0 ? m_from : m_to;
}

void
FabricLink::DoDispose()
{
    m_from = nullptr;
    m_to = nullptr;
    Channel::DoDispose();
}

} // namespace ns3
