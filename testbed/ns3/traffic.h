// SPDX-License-Identifier: MIT
// Flows: their congestion controls, what they send, and what their sockets tell the ledger.
#pragma once

#include "queues.h"
#include "scenario.h"

#include "ns3/node.h"
#include "ns3/random-variable-stream.h"
#include "ns3/tcp-socket-base.h"

#include <memory>

namespace wirelens {

// One connection that lasts, with a sender that always has data, or has messages.
class Flow {
  public:
    Flow(uint32_t number, const Group& group, const Scenario& scenario, const Sizes* sizes,
         Ledger& ledger);

    // Makes both sockets. `to` is the receiver's address.
    void Begin(ns3::Ptr<ns3::Node> sender, ns3::Ptr<ns3::Node> receiver, ns3::Ipv4Address to,
               ns3::Ptr<SenderDisc> egress);

    uint64_t RetransmittedPackets() const { return m_retransmitted; }
    uint64_t Messages() const { return m_messages; }

  private:
    void Connect(ns3::InetSocketAddress to);
    void NextMessage();
    void Fill();
    void OnSend(ns3::Ptr<const ns3::Packet> packet, const ns3::TcpHeader& header,
                ns3::Ptr<const ns3::TcpSocketBase> socket);
    void OnAck(ns3::Ptr<const ns3::Packet> packet, const ns3::TcpHeader& header,
               ns3::Ptr<const ns3::TcpSocketBase> socket);
    uint64_t Unwrapped(ns3::SequenceNumber32 number) const;

    uint32_t m_number;
    const Group& m_group;
    uint32_t m_delayed_acks;
    const Sizes* m_sizes;
    Ledger& m_ledger;
    ns3::Ptr<SenderDisc> m_egress;
    ns3::Ptr<ns3::Socket> m_socket;
    ns3::Ptr<ns3::ExponentialRandomVariable> m_gaps;
    ns3::Ptr<ns3::UniformRandomVariable> m_draws;
    uint64_t m_owed = 0;   // Bytes of messages that the socket was not given yet.
    uint64_t m_given = 0;  // Bytes that it was given.
    uint64_t m_sent_until = 0;
    uint64_t m_retransmitted = 0;
    uint64_t m_messages = 0;
    std::vector<Range> m_sacked;
};

}  // namespace wirelens
