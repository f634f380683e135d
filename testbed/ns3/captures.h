// SPDX-License-Identifier: MIT
// Captures of a simulated node: headers of the IP packets that it sends and receives.
#pragma once

#include "ns3/ipv4.h"
#include "ns3/node.h"
#include "ns3/packet.h"
#include "ns3/ptr.h"

#include <cstdio>
#include <memory>
#include <string>

namespace wirelens {

// A pcap file with nanoseconds, of raw IP, cut to the headers.
class Capture {
  public:
    // Throws Refused where the file cannot be written.
    explicit Capture(const std::string& path);

    // From now on all IP packets of this interface of the node, both ways.
    void Add(ns3::Ptr<ns3::Node> node, uint32_t interface);

    // Throws Refused where something could not be written.
    void Finish();

    uint64_t PacketCount() const { return m_count; }

  private:
    void Take(ns3::Ptr<const ns3::Packet> packet, ns3::Ptr<ns3::Ipv4> ip, uint32_t interface);

    std::string m_path;
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> m_file;
    std::vector<std::pair<ns3::Ipv4*, uint32_t>> m_interfaces;
    uint64_t m_count = 0;
};

}  // namespace wirelens
