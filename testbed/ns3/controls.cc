// SPDX-License-Identifier: MIT
#include "controls.h"

#include "ns3/tcp-bbr.h"
#include "ns3/tcp-bic.h"
#include "ns3/tcp-cubic.h"
#include "ns3/tcp-dctcp.h"
#include "ns3/tcp-highspeed.h"
#include "ns3/tcp-htcp.h"
#include "ns3/tcp-hybla.h"
#include "ns3/tcp-illinois.h"
#include "ns3/tcp-linux-reno.h"
#include "ns3/tcp-lp.h"
#include "ns3/tcp-scalable.h"
#include "ns3/tcp-vegas.h"
#include "ns3/tcp-veno.h"
#include "ns3/tcp-westwood.h"
#include "ns3/tcp-yeah.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace wirelens {

using namespace ns3;

namespace {

// Slow start by at most two segments an acknowledgement, and by one after a timeout (RFC 3465,
// section 2.3). ns-3 counts all that a cumulative acknowledgement covers, also what SACK said long
// ago: after a timeout a window grew from 1 to 600 segments at one acknowledgement.
template <typename Control>
class Limited : public Control {
  public:
    static TypeId GetTypeId()
    {
        // `wirelens::Cubic` of `ns3::TcpCubic`.
        const std::string name = Control::GetTypeId().GetName().substr(std::strlen("ns3::Tcp"));
        static TypeId id = TypeId("wirelens::" + name)
                               .SetParent<Control>()
                               .template AddConstructor<Limited<Control>>();
        return id;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Limited<Control>>(this); }
    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t acked) override
    {
        if (tcb->m_cWnd < tcb->m_ssThresh) {
            acked = std::min(acked, tcb->m_congState == TcpSocketState::CA_LOSS ? 1U : 2U);
        }
        Control::IncreaseWindow(tcb, acked);
    }
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

using Types = std::map<std::string, TypeId>;

const Types&
AllTypes()
{
    static const Types types = {
        {"bbr", TcpBbr::GetTypeId()},
        {"bic", Limited<TcpBic>::GetTypeId()},
        {"cubic", Limited<TcpCubic>::GetTypeId()},
        {"dctcp", Dctcp::GetTypeId()},
        {"highspeed", Limited<TcpHighSpeed>::GetTypeId()},
        {"htcp", Limited<TcpHtcp>::GetTypeId()},
        {"hybla", Limited<TcpHybla>::GetTypeId()},
        {"illinois", Limited<TcpIllinois>::GetTypeId()},
        {"lp", Limited<TcpLp>::GetTypeId()},
        {"prague", Prague::GetTypeId()},
        {"reno", Limited<TcpLinuxReno>::GetTypeId()},
        {"scalable", Limited<TcpScalable>::GetTypeId()},
        {"vegas", Limited<TcpVegas>::GetTypeId()},
        {"veno", Limited<TcpVeno>::GetTypeId()},
        {"westwood", Limited<TcpWestwood>::GetTypeId()},
        {"yeah", Limited<TcpYeah>::GetTypeId()},
    };
    return types;
}

}  // namespace

bool
IsControl(const std::string& name)
{
    return AllTypes().count(name) != 0;
}

TypeId
TypeOf(const std::string& name)
{
    const auto found = AllTypes().find(name);
    return found == AllTypes().end() ? Limited<TcpLinuxReno>::GetTypeId() : found->second;
}

}  // namespace wirelens
