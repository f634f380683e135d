// SPDX-License-Identifier: MIT
// Two queue discs: the one that re-marks packets as they leave their sender, and the bottleneck's,
// in which the router in Rust decides.
#pragma once

#include "ledger.h"

#include "ns3/data-rate.h"
#include "ns3/queue-disc.h"

namespace wirelens {

// Bytes that ns-3's point-to-point link adds to a packet.
constexpr uint32_t PPP_LEN = 2;

// The bottleneck. It hands out a packet only while its link is free, so that none waits in the
// device, where the router would not see it.
class RouterDisc : public ns3::QueueDisc {
  public:
    static ns3::TypeId GetTypeId();
    RouterDisc(wl_router* router, Ledger& ledger, ns3::DataRate rate, const std::string& journal);

    // The router, for the one control that looks at it.
    wl_router* Router() const { return m_router; }
    void Finish() { m_journal.Finish(); }

  private:
    bool DoEnqueue(ns3::Ptr<ns3::QueueDiscItem> item) override;
    ns3::Ptr<ns3::QueueDiscItem> DoDequeue() override;
    bool CheckConfig() override;
    void InitializeParams() override {}
    void Note(const uint8_t* entry);

    wl_router* m_router;
    Ledger& m_ledger;
    ns3::DataRate m_rate;
    ns3::Time m_free_at;
    Output m_journal;
};

// What TCP is about to send: known from its socket, which hands the packet down to the sender's
// queue disc within the same event.
struct Announced {
    bool is_data = false;
    uint32_t flow = 0;
    uint32_t payload = 0;
    uint64_t sequence = 0;
    bool is_retransmission = false;
    bool is_l4s = false;
    uint16_t receiver = 0;
};

// What chooses the ECN field of a sender's packets: a rule, a marker, or nothing where both are null.
struct Choosing {
    wl_steering* steering = nullptr;
    wl_marker* marker = nullptr;
};

// A sender's egress, where tc-bpf would be in Linux. It holds nothing: its link is fast.
class SenderDisc : public ns3::QueueDisc {
  public:
    static ns3::TypeId GetTypeId();
    SenderDisc(uint16_t sender, Ledger& ledger, Choosing choosing, const RouterDisc& router);

    Announced announced;
    // A packet was acknowledged; `is_clear` says whether it is known which copy was.
    void Acknowledged(const wl_record& record, uint64_t number, bool is_clear);

  private:
    bool DoEnqueue(ns3::Ptr<ns3::QueueDiscItem> item) override;
    ns3::Ptr<ns3::QueueDiscItem> DoDequeue() override;
    bool CheckConfig() override;
    void InitializeParams() override {}
    wl_marking Chosen(uint8_t ecn, uint32_t size) const;

    uint16_t m_sender;
    Ledger& m_ledger;
    Choosing m_choosing;
    const RouterDisc& m_router;
};

}  // namespace wirelens
