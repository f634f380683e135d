// SPDX-License-Identifier: MIT
// What became of each packet: one record from its sender to its acknowledgement, written as soon as
// all of it is known. What is held is what is under way, which queues and windows bound.
#pragma once

#include "wirelens_l4s.h"

#include <cstdint>
#include <cstdio>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace wirelens {

// A file that has its name when it is complete, and `.partial` behind it until then.
class Output {
  public:
    ~Output();
    void Open(const std::string& path);
    bool IsOpen() const { return m_file != nullptr; }
    void Write(const uint8_t* bytes, size_t len);
    void Finish();

  private:
    std::FILE* m_file = nullptr;
    std::string m_path;
};

// Delays of packets, for quantiles that are exact. 4 bytes a packet; delays of more than 4.29 s
// count as that.
class Delays {
  public:
    void Add(uint64_t ns);
    void Add(const Delays& others);
    size_t Count() const { return m_ns.size(); }
    uint32_t Quantile(double share);

  private:
    std::vector<uint32_t> m_ns;
};

// Bytes of a flow that were acknowledged out of order: from, and until before.
using Range = std::pair<uint64_t, uint64_t>;

// What became of the packets of a flow. Packets that reached the router in the warm-up are not in
// delays, bytes and drops.
struct OfFlow {
    Delays delays;
    uint64_t left_bytes = 0;
    uint64_t dropped = 0;
    uint64_t remarked = 0;
    uint64_t reordered = 0;
    uint64_t newest = 0;  // Highest sequence that has arrived.
};

class Ledger {
  public:
    // Tag of packets at the router that carry no data, and so have no record.
    static constexpr uint64_t NONE = UINT64_MAX;

    Ledger(size_t senders, size_t flows, uint64_t warmup_ns, const std::string& trace);

    // A packet leaves its sender. `uid` is how it is recognised at the router, `number` how at a
    // marker.
    void Sent(uint64_t uid, const wl_record& record, uint32_t payload, uint64_t number);
    // A packet of a sender arrives at the router: its tag there.
    uint64_t Arrived(uint16_t sender, uint64_t uid);
    // What the router did with it at arrival.
    void Entered(uint64_t tag, uint64_t now_ns, wl_enqueue_outcome entered, uint64_t l4s,
                 uint64_t classic);
    // It leaves the router, or is dropped.
    void Left(uint64_t uid, const wl_departure& left, uint64_t now_ns);
    // A packet arrives behind the bottleneck.
    void Received(uint64_t uid, uint64_t now_ns);

    // An acknowledgement arrives at the sender of a flow. Calls `covered(record, number, is_clear)`
    // for each packet that it is the first to cover; it is clear which copy that was where its bytes
    // were sent once (Karn's rule).
    template <typename Covered>
    void Acked(uint32_t flow, uint64_t until, const std::vector<Range>& sacked, uint64_t now_ns,
               Covered covered)
    {
        std::deque<uint64_t>& unacked = m_unacked[flow];
        std::set<uint64_t>& repeated = m_repeated[flow];
        for (size_t i = 0; i < unacked.size(); ++i) {
            Entry* entry = Find(unacked[i]);
            if (entry == nullptr || entry->is_done) {
                continue;
            }
            if (IsCovered(*entry, until, sacked)) {
                entry->record.acked_ns = now_ns;
                const bool is_clear = (entry->record.flags & WL_RETRANSMISSION) == 0 &&
                                      repeated.count(entry->record.sequence) == 0;
                covered(entry->record, entry->number, is_clear);
                Done(*entry);
            }
        }
        while (!unacked.empty() && IsDone(unacked.front())) {
            unacked.pop_front();
        }
        repeated.erase(repeated.begin(), repeated.lower_bound(until));
        Flush();
    }

    // Writes what is still under way.
    void Finish();

    uint64_t RecordCount() const { return m_first + m_entries.size(); }
    Delays of_queue[2];
    std::vector<OfFlow> of_flow;

  private:
    struct Entry {
        wl_record record;
        uint32_t payload;
        uint64_t number;
        bool is_done;
    };
    struct OnLink {
        uint64_t uid;
        uint64_t tag;
    };

    static bool IsCovered(const Entry& entry, uint64_t until, const std::vector<Range>& sacked);
    Entry* Find(uint64_t tag);
    bool IsDone(uint64_t tag);
    void Done(Entry& entry) { entry.is_done = true; }
    void Dropped(const wl_record& record);
    void Flush();
    void Write(const wl_record& record);

    std::vector<std::deque<std::pair<uint64_t, Entry>>> m_sent;  // Of each sender, in order.
    std::deque<Entry> m_entries;  // From m_first on, in the order in which they reached the router.
    uint64_t m_first = 0;
    uint64_t m_warmup_ns;
    std::deque<OnLink> m_on_link;
    // Of each flow: packets that have arrived and were not acknowledged, as they arrived, since one
    // in a short queue overtakes those in a long one.
    std::vector<std::deque<uint64_t>> m_unacked;
    // Of each flow: where bytes begin that were sent again and not acknowledged.
    std::vector<std::set<uint64_t>> m_repeated;
    Output m_trace;
};

}  // namespace wirelens
