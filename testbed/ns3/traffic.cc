// SPDX-License-Identifier: MIT
#include "traffic.h"

#include "controls.h"

#include "ns3/inet-socket-address.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-option-sack.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace wirelens {

using namespace ns3;

namespace {

constexpr uint32_t SEGMENT_LEN = 1448;  // With the timestamp option, IP packets of 1500 bytes.
constexpr uint16_t FIRST_PORT = 5000;
// What a socket is given beyond what it has sent: enough for any burst, and little memory.
constexpr uint64_t AHEAD_LEN = 256 * SEGMENT_LEN;
// Flows of a group begin at random within this time, so that they do not grow in step.
constexpr uint64_t START_WINDOW_NS = 100'000'000;

// The control is given when the socket is made: TcpL4Protocol::SocketType is read then and never
// again, and one for all flows would not do.
Ptr<Socket>
MakeSocket(Ptr<Node> node, const std::string& congestion, uint32_t delayed_acks)
{
    Ptr<Socket> socket = node->GetObject<TcpL4Protocol>()->CreateSocket(TypeOf(congestion));
    socket->SetAttribute("SegmentSize", UintegerValue(SEGMENT_LEN));
    socket->SetAttribute("DelAckCount", UintegerValue(delayed_acks));
    return socket;
}

// What arrives in order is thrown away, which leaves room for the rest.
void
Discard(Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv()) {
        if (packet->GetSize() == 0) {
            break;
        }
    }
}

void
Accepted(Ptr<Socket> socket, const Address&)
{
    socket->SetRecvCallback(MakeCallback(&Discard));
}

}  // namespace

Flow::Flow(uint32_t number, const Group& group, const Scenario& scenario, const Sizes* sizes,
           Ledger& ledger)
    : m_number(number),
      m_group(group),
      m_delayed_acks(scenario.delayed_acks),
      m_sizes(sizes),
      m_ledger(ledger),
      m_gaps(CreateObject<ExponentialRandomVariable>()),
      m_draws(CreateObject<UniformRandomVariable>())
{
    // Streams by number, so that one flow's draws do not depend on how many others there are.
    m_gaps->SetStream(2 * number);
    m_draws->SetStream(2 * number + 1);
}

void
Flow::Begin(Ptr<Node> sender, Ptr<Node> receiver, Ipv4Address to, Ptr<SenderDisc> egress)
{
    const uint16_t port = FIRST_PORT + m_number;
    Ptr<Socket> listening = MakeSocket(receiver, m_group.congestion, m_delayed_acks);
    listening->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
    listening->Listen();
    listening->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                 MakeCallback(&Accepted));
    m_egress = egress;
    m_socket = MakeSocket(sender, m_group.congestion, m_delayed_acks);
    m_socket->TraceConnectWithoutContext("Tx", MakeCallback(&Flow::OnSend, this));
    m_socket->TraceConnectWithoutContext("Rx", MakeCallback(&Flow::OnAck, this));
    m_socket->Bind();
    const uint64_t start_ns = m_group.start_ns + m_draws->GetValue(0, START_WINDOW_NS);
    Simulator::Schedule(NanoSeconds(start_ns), &Flow::Connect, this, InetSocketAddress(to, port));
}

void
Flow::Connect(InetSocketAddress to)
{
    m_socket->SetSendCallback(MakeCallback(
        +[](Flow* flow, Ptr<Socket>, uint32_t) { flow->Fill(); }).Bind(this));
    m_socket->Connect(to);
    if (m_sizes != nullptr) {
        NextMessage();
    }
}

void
Flow::NextMessage()
{
    const double mean_s = m_sizes->MeanBytes() * 8 / m_group.load_bps;
    const double gap_s = m_gaps->GetValue(mean_s, 0);
    const auto arrive = [](Flow* flow) {
        flow->m_owed += flow->m_sizes->At(flow->m_draws->GetValue(0, 1));
        ++flow->m_messages;
        flow->Fill();
        flow->NextMessage();
    };
    Simulator::Schedule(Seconds(gap_s), +arrive, this);
}

void
Flow::Fill()
{
    // One segment a piece: the socket need not cut them.
    const bool is_greedy = m_sizes == nullptr;
    while ((is_greedy || m_owed > 0) && m_given - m_sent_until < AHEAD_LEN) {
        const uint64_t wanted = is_greedy ? SEGMENT_LEN : std::min<uint64_t>(SEGMENT_LEN, m_owed);
        const uint32_t len = std::min<uint64_t>(wanted, m_socket->GetTxAvailable());
        if (len == 0 || m_socket->Send(Create<Packet>(len)) < 0) {
            return;
        }
        m_given += len;
        m_owed -= is_greedy ? 0 : len;
    }
}

// The 64-bit place of a sequence number, near to where the flow is. Data begins at number 1.
uint64_t
Flow::Unwrapped(SequenceNumber32 number) const
{
    const auto distance = static_cast<int32_t>(number.GetValue() - 1 -
                                               static_cast<uint32_t>(m_sent_until));
    return static_cast<uint64_t>(static_cast<int64_t>(m_sent_until) + distance);
}

void
Flow::OnSend(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>)
{
    const uint32_t payload = packet->GetSize();
    if (payload == 0) {
        return;
    }
    const uint64_t sequence = Unwrapped(header.GetSequenceNumber());
    const bool is_retransmission = sequence < m_sent_until;
    m_retransmitted += is_retransmission;
    m_sent_until = std::max(m_sent_until, sequence + payload);
    m_egress->announced = {true,     m_number, payload, sequence, is_retransmission,
                           m_group.IsL4s(), m_group.receiver};
}

void
Flow::OnAck(Ptr<const Packet>, const TcpHeader& header, Ptr<const TcpSocketBase>)
{
    if ((header.GetFlags() & (TcpHeader::ACK | TcpHeader::SYN)) != TcpHeader::ACK) {
        return;
    }
    m_sacked.clear();
    if (Ptr<const TcpOption> option = header.GetOption(TcpOption::SACK)) {
        for (const auto& [from, until] : StaticCast<const TcpOptionSack>(option)->GetSackList()) {
            m_sacked.emplace_back(Unwrapped(from), Unwrapped(until));
        }
    }
    const uint64_t until = Unwrapped(header.GetAckNumber());
    const uint64_t now_ns = Simulator::Now().GetNanoSeconds();
    const auto covered = [&](const wl_record& record, uint64_t number, bool is_clear) {
        m_egress->Acknowledged(record, number, is_clear);
    };
    m_ledger.Acked(m_number, until, m_sacked, now_ns, covered);
    // In recovery a socket does not ask for more. One that has nothing new to send then sends old
    // data again that was not lost (RFC 6675, NextSeg, rule 3).
    Fill();
}

}  // namespace wirelens
