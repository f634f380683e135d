// SPDX-License-Identifier: MIT
#include "captures.h"

#include "scenario.h"

#include "ns3/ipv4-l3-protocol.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace wirelens {

using namespace ns3;

namespace {

constexpr uint32_t SNAPLEN = 120;  // IP, TCP and all of its options.
constexpr uint32_t LINKTYPE_RAW = 101;
// Times of the simulation begin here, in 2023.
constexpr uint64_t BEGIN_NS = 1'700'000'000'000'000'000;

template <size_t N>
void
Write(std::FILE* file, const std::array<uint32_t, N>& words)
{
    std::fwrite(words.data(), sizeof(uint32_t), N, file);
}

}  // namespace

Capture::Capture(const std::string& path)
    : m_path(path), m_file(std::fopen(path.c_str(), "wb"), std::fclose)
{
    if (!m_file) {
        throw Refused(path + ": cannot be written: " + std::strerror(errno));
    }
    Write(m_file.get(), std::array<uint32_t, 6>{0xa1b23c4d, 2 | 4 << 16, 0, 0, SNAPLEN,
                                                LINKTYPE_RAW});
}

void
Capture::Add(Ptr<Node> node, uint32_t interface)
{
    auto ip = node->GetObject<Ipv4L3Protocol>();
    const bool is_new = std::none_of(m_interfaces.begin(), m_interfaces.end(),
                                     [&](const auto& known) { return known.first == PeekPointer(ip); });
    m_interfaces.emplace_back(PeekPointer(ip), interface);
    if (is_new) {
        ip->TraceConnectWithoutContext("Tx", MakeCallback(&Capture::Take, this));
        ip->TraceConnectWithoutContext("Rx", MakeCallback(&Capture::Take, this));
    }
}

void
Capture::Take(Ptr<const Packet> packet, Ptr<Ipv4> ip, uint32_t interface)
{
    const std::pair<Ipv4*, uint32_t> here{PeekPointer(ip), interface};
    if (std::find(m_interfaces.begin(), m_interfaces.end(), here) == m_interfaces.end()) {
        return;
    }
    std::array<uint8_t, SNAPLEN> bytes;
    const uint32_t len = packet->CopyData(bytes.data(), bytes.size());
    const uint64_t now_ns = BEGIN_NS + Simulator::Now().GetNanoSeconds();
    const uint32_t seconds = now_ns / 1'000'000'000;
    const uint32_t rest_ns = now_ns % 1'000'000'000;
    Write(m_file.get(), std::array<uint32_t, 4>{seconds, rest_ns, len, packet->GetSize()});
    std::fwrite(bytes.data(), 1, len, m_file.get());
    ++m_count;
}

void
Capture::Finish()
{
    if (std::fflush(m_file.get()) != 0 || std::ferror(m_file.get()) != 0) {
        throw Refused(m_path + ": could not be written: " + std::strerror(errno));
    }
}

}  // namespace wirelens
