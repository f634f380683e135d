// SPDX-License-Identifier: MIT
#include "controls.h"

#include "ns3/tcp-bbr.h"
#include "ns3/tcp-cubic.h"
#include "ns3/tcp-dctcp.h"
#include "ns3/tcp-linux-reno.h"

#include <algorithm>

namespace wirelens {

using namespace ns3;

namespace {

// Slow start by at most two segments an acknowledgement, and by one after a timeout (RFC 3465,
// section 2.3). ns-3 counts all that a cumulative acknowledgement covers, also what SACK said long
// ago: after a timeout a window grew from 1 to 600 segments at one acknowledgement.
template <typename Control>
class Limited : public Control {
  public:
    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t acked) override
    {
        if (tcb->m_cWnd < tcb->m_ssThresh) {
            acked = std::min(acked, tcb->m_congState == TcpSocketState::CA_LOSS ? 1U : 2U);
        }
        Control::IncreaseWindow(tcb, acked);
    }
};

class Cubic : public Limited<TcpCubic> {
  public:
    static TypeId GetTypeId()
    {
        static TypeId id =
            TypeId("wirelens::Cubic").SetParent<TcpCubic>().AddConstructor<Cubic>();
        return id;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Cubic>(this); }
};

class Reno : public Limited<TcpLinuxReno> {
  public:
    static TypeId GetTypeId()
    {
        static TypeId id =
            TypeId("wirelens::Reno").SetParent<TcpLinuxReno>().AddConstructor<Reno>();
        return id;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Reno>(this); }
};

// It halves its window after a loss, as Linux' does (RFC 8257, section 3.5). ns-3's reduces it by
// the share of marks alone: without marks, losses would not slow it down.
class Dctcp : public Limited<TcpDctcp> {
  public:
    static TypeId GetTypeId()
    {
        static TypeId id =
            TypeId("wirelens::Dctcp").SetParent<TcpDctcp>().AddConstructor<Dctcp>();
        return id;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Dctcp>(this); }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t in_flight) override
    {
        // The socket asks when it enters recovery after a loss, and when it enters CWR at a mark.
        if (tcb->m_congState != TcpSocketState::CA_RECOVERY) {
            return TcpDctcp::GetSsThresh(tcb, in_flight);
        }
        return std::max(2 * tcb->m_segmentSize, tcb->m_cWnd.Get() / 2);
    }
};

// What is nearest to TCP Prague in ns-3: DCTCP that is paced at its rate and, below an RTT of
// 25 ms, grows as if the RTT were that.
class Prague : public Dctcp {
  public:
    static TypeId GetTypeId()
    {
        static TypeId id =
            TypeId("wirelens::Prague").SetParent<Dctcp>().AddConstructor<Prague>();
        return id;
    }
    std::string GetName() const override { return "TcpPrague"; }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Prague>(this); }

    void Init(Ptr<TcpSocketState> tcb) override
    {
        Dctcp::Init(tcb);
        tcb->m_pacing = true;
        tcb->m_pacingCaRatio = 100;
    }

  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t acked) override
    {
        const double share = tcb->m_lastRtt.Get().GetSeconds() / 0.025;
        m_owed += acked * std::min(1.0, share * share);
        const uint32_t whole = m_owed;
        m_owed -= whole;
        Dctcp::CongestionAvoidance(tcb, whole);
    }

  private:
    double m_owed = 0;
};

}  // namespace

TypeId
TypeOf(const std::string& name)
{
    return name == "prague"  ? Prague::GetTypeId()
           : name == "dctcp" ? Dctcp::GetTypeId()
           : name == "cubic" ? Cubic::GetTypeId()
           : name == "bbr"   ? TcpBbr::GetTypeId()
                             : Reno::GetTypeId();
}

}  // namespace wirelens
