// SPDX-License-Identifier: MIT
// TCP flows of many congestion controls over one bottleneck, captured at four places of the path:
// `onetap --help`.

#include "captures.h"
#include "controls.h"
#include "scenario.h"

#include "ns3/config.h"
#include "ns3/data-rate.h"
#include "ns3/error-model.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-global-routing-helper.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/pointer.h"
#include "ns3/random-variable-stream.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/uinteger.h"

#include <cinttypes>
#include <cmath>
#include <ctime>
#include <list>
#include <sstream>

using namespace ns3;
using namespace wirelens;

namespace {

constexpr const char* HELP =
    "Simulate TCP flows over one bottleneck in ns-3, captured at four places of the path.\n"
    "\n"
    "usage: onetap FOLDER KEY=VALUE...\n"
    "\n"
    "  FOLDER                  an existing folder: sender.pcap, before.pcap and behind.pcap (the\n"
    "                          bottleneck) and receiver.pcap are written there, headers only\n"
    "  rate_bps=N              of the bottleneck\n"
    "  buffer_bytes=N          of its drop-tail queue\n"
    "  delay_ns=N              of the bottleneck's link, one way\n"
    "  loss_ppm=N              packets lost at random behind the bottleneck, of a million\n"
    "  delayed_acks=N          an acknowledgement for so many packets\n"
    "  duration_ns=N  seed=N\n"
    "  short_bps=N             short CUBIC flows of 10 kB to 1 MB that come and go, together\n"
    "  flow=CONTROL,START_NS,SENDER_DELAY_NS,RECEIVER_DELAY_NS   a flow that always has data and\n"
    "                          has links of its own, with these delays; up to 60 times\n"
    "\n"
    "Prints flows by port as one line of JSON.\n";

constexpr uint32_t SEGMENT_LEN = 1448;
constexpr uint16_t FIRST_PORT = 5001;
constexpr uint16_t SHORT_PORT = 6000;
constexpr size_t FLOWS_MAX = 60;

struct Long {
    std::string control;
    uint64_t start_ns = 0;
    uint64_t sender_delay_ns = 0;
    uint64_t receiver_delay_ns = 0;
};

struct Asked {
    std::string folder;
    uint64_t rate_bps = 10'000'000;
    uint64_t buffer_bytes = 100'000;
    uint64_t delay_ns = 5'000'000;
    uint64_t loss_ppm = 0;
    uint64_t delayed_acks = 2;
    uint64_t duration_ns = 30'000'000'000;
    uint64_t seed = 1;
    uint64_t short_bps = 0;
    std::vector<Long> flows;
};

Long
ReadFlow(const std::string& text)
{
    std::istringstream words(text);
    std::vector<std::string> parts;
    for (std::string word; std::getline(words, word, ',');) {
        parts.push_back(word);
    }
    if (parts.size() != 4 || !IsControl(parts[0])) {
        throw Refused("`flow=" + text + "`: wanted CONTROL,START_NS,SENDER_DELAY_NS," +
                      "RECEIVER_DELAY_NS, such as cubic,0,5000000,5000000");
    }
    constexpr uint64_t SECOND_NS = 1'000'000'000;
    return {parts[0], Number("start", parts[1], 0, 3'600 * SECOND_NS),
            Number("sender delay", parts[2], 1'000, 10 * SECOND_NS),
            Number("receiver delay", parts[3], 1'000, 10 * SECOND_NS)};
}

Asked
Read(int count, char** words)
{
    Asked asked;
    const std::map<std::string, uint64_t*> numbers = {
        {"rate_bps", &asked.rate_bps},         {"buffer_bytes", &asked.buffer_bytes},
        {"delay_ns", &asked.delay_ns},         {"loss_ppm", &asked.loss_ppm},
        {"delayed_acks", &asked.delayed_acks}, {"duration_ns", &asked.duration_ns},
        {"seed", &asked.seed},                 {"short_bps", &asked.short_bps},
    };
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        const size_t equals = word.find('=');
        const std::string key = word.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
        if (const auto number = numbers.find(key); number != numbers.end()) {
            *number->second = Number(key, value, 0, 1'000'000'000'000);
        } else if (key == "flow") {
            asked.flows.push_back(ReadFlow(value));
        } else if (i == 1) {
            asked.folder = word;
        } else {
            throw Refused("`" + word + "`: not understood; see --help");
        }
    }
    if (asked.folder.empty() || asked.flows.empty() || asked.flows.size() > FLOWS_MAX) {
        throw Refused("wanted a folder and 1 to 60 of flow=; see --help");
    }
    for (const auto& [key, number] : numbers) {
        if (*number == 0 && key != "loss_ppm" && key != "short_bps") {
            throw Refused("`" + key + "=0`: wanted more than 0");
        }
    }
    return asked;
}

void
Discard(Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv()) {
        if (packet->GetSize() == 0) {
            break;
        }
    }
}

Ptr<Socket>
MakeSocket(Ptr<Node> node, const std::string& control, uint32_t delayed_acks)
{
    Ptr<Socket> socket = node->GetObject<TcpL4Protocol>()->CreateSocket(TypeOf(control));
    socket->SetAttribute("SegmentSize", UintegerValue(SEGMENT_LEN));
    socket->SetAttribute("DelAckCount", UintegerValue(delayed_acks));
    return socket;
}

void
Listen(Ptr<Node> node, uint16_t port, const std::string& control, uint32_t delayed_acks)
{
    Ptr<Socket> socket = MakeSocket(node, control, delayed_acks);
    socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
    socket->Listen();
    socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                              MakeCallback(+[](Ptr<Socket> accepted, const Address&) {
                                  accepted->SetRecvCallback(MakeCallback(&Discard));
                              }));
}

// A connection that sends so many bytes.
class Sending {
  public:
    Sending(Ptr<Socket> socket, InetSocketAddress to, uint64_t bytes)
        : m_socket(socket), m_left(bytes)
    {
        m_socket->Bind();
        m_socket->SetSendCallback(MakeCallback(
            +[](Sending* sending, Ptr<Socket>, uint32_t) { sending->Fill(); }).Bind(this));
        m_socket->Connect(to);
        Fill();
    }

  private:
    void Fill()
    {
        while (m_left > 0) {
            const uint32_t room = m_socket->GetTxAvailable();
            const uint32_t len = std::min<uint64_t>({SEGMENT_LEN, m_left, room});
            // A piece of a segment each, so that the socket need not cut them.
            if (len < std::min<uint64_t>(SEGMENT_LEN, m_left) ||
                m_socket->Send(Create<Packet>(len)) < 0) {
                return;
            }
            m_left -= len;
        }
        m_socket->Close();
    }

    Ptr<Socket> m_socket;
    uint64_t m_left;
};

// A sender and a receiver for each flow, and two routers with the bottleneck between them.
class Path {
  public:
    explicit Path(const Asked& asked) : m_asked(asked)
    {
        m_routers.Create(2);
        m_internet.SetIpv6StackInstall(false);
        m_internet.Install(m_routers);
        JoinRouters();
        for (const char* place : {"sender", "before", "behind", "receiver"}) {
            m_captures.emplace_back(asked.folder + "/" + place + ".pcap");
        }
        for (const Long& flow : asked.flows) {
            const auto [sender, from] = JoinHost(0, flow.sender_delay_ns);
            const auto [receiver, to] = JoinHost(1, flow.receiver_delay_ns);
            At("sender").Add(sender, 1);
            At("before").Add(m_routers.Get(0), from);
            At("behind").Add(m_routers.Get(1), to);
            At("receiver").Add(receiver, 1);
            m_ends.emplace_back(sender, receiver);
        }
        if (asked.short_bps > 0) {
            m_short = {JoinHost(0, asked.delay_ns).first, JoinHost(1, asked.delay_ns).first};
        }
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    }

    void Begin()
    {
        uint16_t port = FIRST_PORT;
        for (size_t i = 0; i < m_ends.size(); ++i, ++port) {
            const auto& flow = m_asked.flows[i];
            const auto& [sender, receiver] = m_ends[i];
            Listen(receiver, port, flow.control, m_asked.delayed_acks);
            Simulator::Schedule(NanoSeconds(flow.start_ns), &Path::Send, this, sender,
                                InetSocketAddress(AddressOf(receiver), port), flow.control,
                                UINT64_MAX);
        }
        if (m_asked.short_bps > 0) {
            Listen(m_short.second, SHORT_PORT, "cubic", m_asked.delayed_acks);
            NextShort();
        }
    }

    void Finish()
    {
        for (Capture& capture : m_captures) {
            capture.Finish();
        }
    }

  private:
    Capture& At(const std::string& place)
    {
        static const std::vector<std::string> places = {"sender", "before", "behind", "receiver"};
        const auto at = std::find(places.begin(), places.end(), place) - places.begin();
        return *std::next(m_captures.begin(), at);
    }

    static Ipv4Address AddressOf(Ptr<Node> node)
    {
        return node->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
    }

    void JoinRouters()
    {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(m_asked.rate_bps)));
        link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(m_asked.delay_ns)));
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
                      StringValue(std::to_string(m_asked.buffer_bytes) + "B"));
        const NetDeviceContainer devices = link.Install(m_routers);
        if (m_asked.loss_ppm > 0) {
            auto errors = CreateObject<RateErrorModel>();
            errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
            errors->SetRate(static_cast<double>(m_asked.loss_ppm) / 1e6);
            devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
        }
        Assign(devices);
    }

    // The host, and the router's interface towards it.
    std::pair<Ptr<Node>, uint32_t> JoinHost(uint32_t router, uint64_t delay_ns)
    {
        NodeContainer host;
        host.Create(1);
        m_internet.Install(host);
        PointToPointHelper link;
        const uint64_t rate_bps = std::max<uint64_t>(10 * m_asked.rate_bps, 100'000'000);
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate_bps)));
        link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delay_ns)));
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000000p"));
        Assign(link.Install(host.Get(0), m_routers.Get(router)));
        return {host.Get(0), m_routers.Get(router)->GetObject<Ipv4>()->GetNInterfaces() - 1};
    }

    // The device queue is the only one.
    void Assign(const NetDeviceContainer& devices)
    {
        const std::string net = "10." + std::to_string(m_nets / 250) + "." +
                                std::to_string(m_nets % 250) + ".0";
        ++m_nets;
        Ipv4AddressHelper addresses(net.c_str(), "255.255.255.0");
        addresses.Assign(devices);
        TrafficControlHelper().Uninstall(devices);
    }

    void Send(Ptr<Node> sender, InetSocketAddress to, std::string control, uint64_t bytes)
    {
        m_sending.emplace_back(MakeSocket(sender, control, m_asked.delayed_acks), to, bytes);
    }

    // Sizes are even in their logarithm, so that most flows are short and most bytes are of long ones.
    void NextShort()
    {
        constexpr double LEAST = 1e4;
        constexpr double MOST = 1e6;
        const double mean = (MOST - LEAST) / std::log(MOST / LEAST);
        const double gap_s = m_gaps->GetValue(mean * 8 / static_cast<double>(m_asked.short_bps), 0);
        Simulator::Schedule(Seconds(gap_s), +[](Path* path) {
            const double size = LEAST * std::pow(MOST / LEAST, path->m_draws->GetValue(0, 1));
            path->Send(path->m_short.first,
                       InetSocketAddress(AddressOf(path->m_short.second), SHORT_PORT), "cubic",
                       static_cast<uint64_t>(size));
            path->NextShort();
        }, this);
    }

    const Asked& m_asked;
    NodeContainer m_routers;
    InternetStackHelper m_internet;
    uint32_t m_nets = 0;
    std::list<Capture> m_captures;
    std::vector<std::pair<Ptr<Node>, Ptr<Node>>> m_ends;
    std::pair<Ptr<Node>, Ptr<Node>> m_short;
    std::list<Sending> m_sending;
    Ptr<ExponentialRandomVariable> m_gaps = CreateObject<ExponentialRandomVariable>();
    Ptr<UniformRandomVariable> m_draws = CreateObject<UniformRandomVariable>();
};

void
SetDefaults(const Asked& asked)
{
    RngSeedManager::SetSeed(asked.seed);
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(32 << 20));
    // As Linux. ns-3 waits a second, and delays acknowledgements by as much as 200 ms.
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
}

void
Run(const Asked& asked)
{
    SetDefaults(asked);
    Path path(asked);
    path.Begin();
    Simulator::Stop(NanoSeconds(asked.duration_ns));
    Simulator::Run();
    path.Finish();
    std::printf("{\"flows\": [");
    uint16_t port = FIRST_PORT;
    for (const Long& flow : asked.flows) {
        std::printf("%s{\"port\": %u, \"control\": \"%s\"}", port == FIRST_PORT ? "" : ", ", port,
                    flow.control.c_str());
        ++port;
    }
    std::printf("], \"cpu_s\": %.3f}\n", static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
    Simulator::Destroy();
}

}  // namespace

int
main(int count, char** words)
{
    if (count == 2 && (std::string(words[1]) == "--help" || std::string(words[1]) == "-h")) {
        std::fputs(HELP, stdout);
        return 0;
    }
    try {
        Run(Read(count, words));
    } catch (const Refused& refused) {
        std::fprintf(stderr, "onetap: %s\n", refused.what());
        return 2;
    }
    return 0;
}
