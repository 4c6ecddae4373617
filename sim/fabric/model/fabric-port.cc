#include "fabric-port.h"

#include <ns3/log.h>
#include <ns3/packet.h>
#include <ns3/string.h>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("FabricPort");
NS_OBJECT_ENSURE_REGISTERED(FabricPort);

TypeId
FabricPort::GetTypeId()
{
    static TypeId tid = TypeId("ns3::FabricPort")
                            .SetParent<NetDevice>()
                            .SetGroupName("Fabric")
                            .AddConstructor<FabricPort>()
                            .AddAttribute("Name",
                                          "What people call this port.",
                                          StringValue(""),
                                          MakeStringAccessor(&FabricPort::m_name),
                                          MakeStringChecker());
    return tid;
}

bool
FabricPort::SetMtu(const uint16_t mtu)
{
    m_mtu = mtu;
    return true;
}

void
FabricPort::AddLinkChangeCallback(Callback<void> callback)
{
    m_linkChange.ConnectWithoutContext(callback);
}

bool
FabricPort::Send(Ptr<Packet>, const Address&, uint16_t)
{
    NS_LOG_WARN(m_name << " carries flows, not packets");
    return false;
}

bool
FabricPort::SendFrom(Ptr<Packet> packet, const Address&, const Address& dest, uint16_t protocol)
{
    return Send(packet, dest, protocol);
}

void
FabricPort::DoDispose()
{
    m_link = nullptr;
    m_node = nullptr;
    NetDevice::DoDispose();
}

} // namespace ns3
