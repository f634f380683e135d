// SPDX-License-Identifier: MIT
#include "queues.h"

#include "ns3/drop-tail-queue.h"
#include "ns3/ipv4-queue-disc-item.h"
#include "ns3/simulator.h"

namespace wirelens {

using namespace ns3;

namespace {

uint64_t
NowNs()
{
    return Simulator::Now().GetNanoSeconds();
}

uint8_t
EcnOf(Ptr<const QueueDiscItem> item)
{
    uint8_t field = 0;
    item->GetUint8Value(QueueItem::IP_DSFIELD, field);
    return field & 3;
}

// A queue that never refuses: what may wait is the router's decision alone.
Ptr<QueueDisc::InternalQueue>
Unbounded()
{
    auto queue = CreateObject<DropTailQueue<QueueDiscItem>>();
    queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, UINT32_MAX));
    return queue;
}

// The sender, by the third number of its address, 10.0.SENDER.1.
uint16_t
SenderOf(const Ipv4Header& header)
{
    return (header.GetSource().Get() >> 8) & 0xff;
}

const char*
NameOf(uint8_t outcome)
{
    return outcome == WL_DROPPED_FULL ? "full" : outcome == WL_DROPPED_EARLY ? "early" : "late";
}

}  // namespace

NS_OBJECT_ENSURE_REGISTERED(RouterDisc);

TypeId
RouterDisc::GetTypeId()
{
    static TypeId id = TypeId("wirelens::RouterDisc").SetParent<QueueDisc>();
    return id;
}

RouterDisc::RouterDisc(wl_router* router, Ledger& ledger, DataRate rate, const std::string& journal)
    : QueueDisc(QueueDiscSizePolicy::NO_LIMITS),
      m_router(router),
      m_ledger(ledger),
      m_rate(rate)
{
    if (!journal.empty()) {
        m_journal.Open(journal);
    }
}

bool
RouterDisc::CheckConfig()
{
    AddInternalQueue(Unbounded());
    AddInternalQueue(Unbounded());
    return true;
}

void
RouterDisc::Note(const uint8_t* entry)
{
    if (m_journal.IsOpen()) {
        m_journal.Write(entry, WL_ENTRY_LEN);
    }
}

bool
RouterDisc::DoEnqueue(Ptr<QueueDiscItem> item)
{
    const Ipv4Header& header = StaticCast<Ipv4QueueDiscItem>(item)->GetHeader();
    const uint64_t tag = m_ledger.Arrived(SenderOf(header), item->GetPacket()->GetUid());
    const uint64_t l4s = GetInternalQueue(0)->GetNPackets();
    const uint64_t classic = GetInternalQueue(1)->GetNPackets();
    uint8_t entry[WL_ENTRY_LEN];
    const wl_enqueue_outcome entered = wl_router_arrive(
        m_router, NowNs(), item->GetSize() + PPP_LEN, EcnOf(item), tag, entry);
    Note(entry);
    m_ledger.Entered(tag, NowNs(), entered, l4s, classic);
    if (entered.outcome != WL_SENT) {
        DropBeforeEnqueue(item, NameOf(entered.outcome));
        return false;
    }
    return GetInternalQueue(entered.queue)->Enqueue(item);
}

Ptr<QueueDiscItem>
RouterDisc::DoDequeue()
{
    if (Simulator::Now() < m_free_at) {
        return nullptr;
    }
    wl_departure left;
    uint8_t entry[WL_ENTRY_LEN];
    while (wl_router_leave(m_router, NowNs(), &left, entry)) {
        Note(entry);
        // The router's queues are first in, first out, as these are: the head is the packet.
        Ptr<QueueDiscItem> item = GetInternalQueue(left.queue)->Dequeue();
        m_ledger.Left(item->GetPacket()->GetUid(), left, NowNs());
        if (left.outcome != WL_SENT) {
            DropAfterDequeue(item, NameOf(left.outcome));
            continue;
        }
        if (left.mark != WL_UNMARKED) {
            item->Mark();
        }
        const Time busy = m_rate.CalculateBytesTxTime(left.len);
        m_free_at = Simulator::Now() + busy;
        Simulator::Schedule(busy, &RouterDisc::Run, this);
        return item;
    }
    Note(entry);
    return nullptr;
}

NS_OBJECT_ENSURE_REGISTERED(SenderDisc);

TypeId
SenderDisc::GetTypeId()
{
    static TypeId id = TypeId("wirelens::SenderDisc").SetParent<QueueDisc>();
    return id;
}

SenderDisc::SenderDisc(uint16_t sender, Ledger& ledger, Choosing choosing,
                       const RouterDisc& router)
    : QueueDisc(QueueDiscSizePolicy::NO_LIMITS),
      m_sender(sender),
      m_ledger(ledger),
      m_choosing(choosing),
      m_router(router)
{
}

bool
SenderDisc::CheckConfig()
{
    AddInternalQueue(Unbounded());
    return true;
}

// The ECN field of the packet that was announced, and its number at the marker.
wl_marking
SenderDisc::Chosen(uint8_t ecn, uint32_t size) const
{
    const auto& [steering, marker] = m_choosing;
    if (marker != nullptr) {
        // It learns from classic packets, too, and changes none.
        return wl_marker_leave(marker, NowNs(), announced.flow, announced.receiver, size, ecn);
    }
    const bool is_asked = steering != nullptr && announced.is_l4s;
    return {0, is_asked ? wl_steering_choose(steering, ecn, m_router.Router(), NowNs()) : ecn};
}

void
SenderDisc::Acknowledged(const wl_record& record, uint64_t number, bool is_clear)
{
    const auto& [steering, marker] = m_choosing;
    const uint64_t latency_ns = NowNs() - record.sent_ns;
    if (marker != nullptr) {
        wl_marker_acknowledge(marker, number, NowNs(), is_clear ? latency_ns : WL_NEVER);
    } else if (steering != nullptr) {
        wl_steering_acknowledge(steering, record.queue, latency_ns);
    }
}

bool
SenderDisc::DoEnqueue(Ptr<QueueDiscItem> item)
{
    if (announced.is_data) {
        announced.is_data = false;
        const uint8_t ecn = EcnOf(item);
        const auto [number, chosen] = Chosen(ecn, item->GetSize() + PPP_LEN);
        if (chosen != ecn) {
            // An item's header cannot be changed, so that the packet gets a new item.
            auto old = StaticCast<Ipv4QueueDiscItem>(item);
            Ipv4Header header = old->GetHeader();
            header.SetEcn(static_cast<Ipv4Header::EcnType>(chosen));
            item = Create<Ipv4QueueDiscItem>(old->GetPacket(), old->GetAddress(),
                                             old->GetProtocol(), header);
            item->SetTxQueueIndex(old->GetTxQueueIndex());
        }
        wl_record record{};
        record.sent_ns = NowNs();
        record.entered_ns = record.left_ns = record.received_ns = record.acked_ns = WL_NEVER;
        record.sequence = announced.sequence;
        record.flow = announced.flow;
        record.size = item->GetSize() + PPP_LEN;
        record.sender = m_sender;
        record.receiver = announced.receiver;
        record.ecn_sent = record.ecn_left = chosen;
        record.flags = (announced.is_retransmission ? WL_RETRANSMISSION : 0) |
                       (chosen != ecn ? WL_REMARKED : 0);
        m_ledger.Sent(item->GetPacket()->GetUid(), record, announced.payload, number);
    }
    return GetInternalQueue(0)->Enqueue(item);
}

Ptr<QueueDiscItem>
SenderDisc::DoDequeue()
{
    return GetInternalQueue(0)->Dequeue();
}

}  // namespace wirelens
