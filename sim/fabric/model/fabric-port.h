// The end of a FabricLink at a node: a NIC's or NVLink's transmit or receive side, as an ns-3 NetDevice.
#ifndef FABRIC_PORT_H
#define FABRIC_PORT_H

#include "fabric-link.h"

#include <ns3/mac48-address.h>
#include <ns3/net-device.h>
#include <ns3/node.h>

#include <string>

namespace ns3
{

/**
 * A port of a node. It exists so that the network can be walked, named and configured as any ns-3 network;
 * flows are moved by FlowEngine, and packets are not: Send() refuses them.
 *
 * Attributes: Name, for people.
 */
class FabricPort : public NetDevice
{
  public:
    static TypeId GetTypeId();

    void SetChannel(Ptr<FabricLink> link) { m_link = link; }
    const std::string& GetName() const { return m_name; }

    void SetIfIndex(const uint32_t index) override { m_ifIndex = index; }
    uint32_t GetIfIndex() const override { return m_ifIndex; }
    Ptr<Channel> GetChannel() const override { return m_link; }
    void SetAddress(Address address) override { m_address = Mac48Address::ConvertFrom(address); }
    Address GetAddress() const override { return m_address; }
    bool SetMtu(const uint16_t mtu) override;
    uint16_t GetMtu() const override { return m_mtu; }
    bool IsLinkUp() const override { return bool(m_link); }
    void AddLinkChangeCallback(Callback<void> callback) override;
    bool IsBroadcast() const override { return false; }
    Address GetBroadcast() const override { return Mac48Address::GetBroadcast(); }
    bool IsMulticast() const override { return false; }
    Address GetMulticast(Ipv4Address group) const override { return Mac48Address::GetMulticast(group); }
    Address GetMulticast(Ipv6Address group) const override { return Mac48Address::GetMulticast(group); }
    bool IsBridge() const override { return false; }
    bool IsPointToPoint() const override { return true; }
    bool Send(Ptr<Packet> packet, const Address& dest, uint16_t protocol) override;
    bool SendFrom(Ptr<Packet> packet, const Address& source, const Address& dest, uint16_t protocol) override;
    Ptr<Node> GetNode() const override { return m_node; }
    void SetNode(Ptr<Node> node) override { m_node = node; }
    bool NeedsArp() const override { return false; }
    void SetReceiveCallback(ReceiveCallback cb) override { m_receive = cb; }
    void SetPromiscReceiveCallback(PromiscReceiveCallback cb) override { m_promiscReceive = cb; }
    bool SupportsSendFrom() const override { return false; }

  protected:
    void DoDispose() override;

  private:
    Ptr<FabricLink> m_link;
    Ptr<Node> m_node;
    std::string m_name;
    Mac48Address m_address;
    uint32_t m_ifIndex = 0;
    uint16_t m_mtu = 4096;
    ReceiveCallback m_receive;
    PromiscReceiveCallback m_promiscReceive;
    TracedCallback<> m_linkChange;
};

} // namespace ns3

#endif /* FABRIC_PORT_H */
