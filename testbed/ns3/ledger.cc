// SPDX-License-Identifier: MIT
#include "ledger.h"

#include "scenario.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace wirelens {

Output::~Output()
{
    if (m_file != nullptr) {
        std::fclose(m_file);
    }
}

void
Output::Open(const std::string& path)
{
    m_path = path;
    m_file = std::fopen((path + ".partial").c_str(), "wb");
    if (m_file == nullptr) {
        throw Refused(path + ".partial: cannot be written: " + std::strerror(errno));
    }
    std::setvbuf(m_file, nullptr, _IOFBF, 1 << 20);
}

void
Output::Write(const uint8_t* bytes, size_t len)
{
    if (std::fwrite(bytes, 1, len, m_file) != len) {
        throw Refused(m_path + ".partial: cannot be written: " + std::strerror(errno));
    }
}

void
Output::Finish()
{
    if (m_file == nullptr) {
        return;
    }
    const bool is_closed = std::fclose(m_file) == 0;
    m_file = nullptr;
    if (!is_closed || std::rename((m_path + ".partial").c_str(), m_path.c_str()) != 0) {
        throw Refused(m_path + ": cannot be completed: " + std::strerror(errno));
    }
}

void
Delays::Add(uint64_t ns)
{
    m_ns.push_back(static_cast<uint32_t>(std::min<uint64_t>(ns, UINT32_MAX)));
}

void
Delays::Add(const Delays& others)
{
    m_ns.insert(m_ns.end(), others.m_ns.begin(), others.m_ns.end());
}

uint32_t
Delays::Quantile(double share)
{
    if (m_ns.empty()) {
        return 0;
    }
    // The smallest delay that at least this share of packets does not exceed.
    const double rank = std::ceil(share * static_cast<double>(m_ns.size()));
    const size_t index = std::max(1.0, rank) - 1;
    std::nth_element(m_ns.begin(), m_ns.begin() + index, m_ns.end());
    return m_ns[index];
}

Ledger::Ledger(size_t senders, size_t flows, uint64_t warmup_ns, const std::string& trace)
    : of_flow(flows),
      m_sent(senders + 1),
      m_warmup_ns(warmup_ns),
      m_unacked(flows),
      m_repeated(flows)
{
    if (!trace.empty()) {
        m_trace.Open(trace);
        uint8_t magic[WL_MAGIC_LEN];
        wl_trace_magic(magic);
        m_trace.Write(magic, sizeof magic);
    }
}

void
Ledger::Sent(uint64_t uid, const wl_record& record, uint32_t payload, uint64_t number)
{
    if ((record.flags & WL_RETRANSMISSION) != 0) {
        m_repeated[record.flow].insert(record.sequence);
    }
    m_sent[record.sender].emplace_back(uid, Entry{record, payload, number, false});
}

uint64_t
Ledger::Arrived(uint16_t sender, uint64_t uid)
{
    // Access links keep the order and lose nothing, so that the oldest is this one, or this one
    // carries no data.
    auto& sent = m_sent[sender];
    if (sent.empty() || sent.front().first != uid) {
        return NONE;
    }
    m_entries.push_back(sent.front().second);
    sent.pop_front();
    return m_first + m_entries.size() - 1;
}

void
Ledger::Entered(uint64_t tag, uint64_t now_ns, wl_enqueue_outcome entered, uint64_t l4s,
                uint64_t classic)
{
    Entry* entry = Find(tag);
    if (entry == nullptr) {
        return;
    }
    wl_record& record = entry->record;
    record.entered_ns = now_ns;
    record.queue = entered.queue;
    record.found_l4s = l4s;
    record.found_classic = classic;
    record.ecn_left = record.ecn_sent;
    if (entered.outcome != WL_SENT) {
        record.outcome = entered.outcome;
        record.left_ns = now_ns;
        Dropped(record);
        Done(*entry);
        return;
    }
    record.outcome = WL_WAITING;
}

void
Ledger::Left(uint64_t uid, const wl_departure& left, uint64_t now_ns)
{
    Entry* entry = Find(left.tag);
    if (entry == nullptr) {
        return;
    }
    wl_record& record = entry->record;
    record.left_ns = now_ns;
    record.outcome = left.outcome;
    record.mark = left.mark;
    record.ecn_left = left.ecn;
    if (left.outcome != WL_SENT) {
        Dropped(record);
        Done(*entry);
        return;
    }
    if (record.entered_ns >= m_warmup_ns) {
        of_queue[left.queue == WL_L4S ? 0 : 1].Add(now_ns - record.entered_ns);
        OfFlow& flow = of_flow[record.flow];
        flow.delays.Add(now_ns - record.entered_ns);
        flow.left_bytes += record.size;
        flow.remarked += (record.flags & WL_REMARKED) != 0;
    }
    m_on_link.push_back({uid, left.tag});
}

void
Ledger::Received(uint64_t uid, uint64_t now_ns)
{
    if (m_on_link.empty() || m_on_link.front().uid != uid) {
        return;
    }
    if (Entry* entry = Find(m_on_link.front().tag)) {
        const wl_record& record = entry->record;
        entry->record.received_ns = now_ns;
        m_unacked[record.flow].push_back(m_on_link.front().tag);
        OfFlow& flow = of_flow[record.flow];
        const bool is_first = (record.flags & WL_RETRANSMISSION) == 0;
        flow.reordered += is_first && record.sequence < flow.newest;
        flow.newest = std::max(flow.newest, record.sequence);
    }
    m_on_link.pop_front();
}

void
Ledger::Dropped(const wl_record& record)
{
    if (record.entered_ns >= m_warmup_ns) {
        OfFlow& flow = of_flow[record.flow];
        ++flow.dropped;
        flow.remarked += (record.flags & WL_REMARKED) != 0;
    }
}

bool
Ledger::IsCovered(const Entry& entry, uint64_t until, const std::vector<Range>& sacked)
{
    const uint64_t from = entry.record.sequence;
    const uint64_t end = from + entry.payload;
    const auto holds = [&](const Range& range) { return range.first <= from && end <= range.second; };
    return end <= until || std::any_of(sacked.begin(), sacked.end(), holds);
}

Ledger::Entry*
Ledger::Find(uint64_t tag)
{
    return tag < m_first || tag - m_first >= m_entries.size() ? nullptr : &m_entries[tag - m_first];
}

bool
Ledger::IsDone(uint64_t tag)
{
    const Entry* entry = Find(tag);
    return entry == nullptr || entry->is_done;
}

void
Ledger::Flush()
{
    while (!m_entries.empty() && m_entries.front().is_done) {
        Write(m_entries.front().record);
        m_entries.pop_front();
        ++m_first;
    }
}

void
Ledger::Write(const wl_record& record)
{
    if (m_trace.IsOpen()) {
        uint8_t bytes[WL_RECORD_LEN];
        wl_trace_encode(&record, bytes);
        m_trace.Write(bytes, sizeof bytes);
    }
}

void
Ledger::Finish()
{
    for (const Entry& entry : m_entries) {
        Write(entry.record);
    }
    m_first += m_entries.size();
    m_entries.clear();
    m_trace.Finish();
}

}  // namespace wirelens
