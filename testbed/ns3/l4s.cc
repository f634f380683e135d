// SPDX-License-Identifier: MIT
// Senders, a bottleneck with an L4S router, receivers behind it: `l4s --help`. The router and
// steering are those of Wirelens, in Rust; TCP, links and time are those of ns-3.

#include "traffic.h"

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-static-routing-helper.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/uinteger.h"

#include <cinttypes>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

using namespace ns3;
using namespace wirelens;

namespace {

constexpr const char* HELP =
    "Simulate TCP flows over an L4S router in ns-3.\n"
    "\n"
    "usage: l4s SCENARIO [--trace FILE] [--journal FILE] [--model DIR] [--set LINE]...\n"
    "           [--sizes FILE]\n"
    "\n"
    "  SCENARIO         lines of `key value`, such as testbed/scenarios/l4s-default.txt\n"
    "  --trace FILE     write one record per data packet (docs/specs/l4s-trace.md)\n"
    "  --journal FILE   write what the router was asked and decided, for `wirelens testbed replay`\n"
    "  --model DIR      a causal model of `wirelens train l4s`, for a control such as predicted:5ms\n"
    "  --set LINE       a line that is read after those of SCENARIO, such as 'seed 12'\n"
    "  --sizes FILE     sizes of messages (default: testbed/data/message-sizes.txt)\n"
    "\n"
    "Prints a summary as one line of JSON: delays in ms, for each queue and group of flows.\n";

struct Arguments {
    std::string scenario;
    std::string trace;
    std::string journal;
    std::string model;
    std::string sizes = WIRELENS_SIZES;
    std::vector<std::string> lines;
};

Arguments
ReadArguments(int count, char** words)
{
    Arguments arguments;
    const std::map<std::string, std::string*> values = {{"--trace", &arguments.trace},
                                                        {"--journal", &arguments.journal},
                                                        {"--model", &arguments.model},
                                                        {"--sizes", &arguments.sizes}};
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        const auto value = values.find(word);
        if (value != values.end() || word == "--set") {
            if (++i == count) {
                throw Refused("`" + word + "`: wanted a value behind it; see --help");
            }
            if (word == "--set") {
                arguments.lines.emplace_back(words[i]);
            } else {
                *value->second = words[i];
            }
        } else if (word.rfind('-', 0) == 0 || !arguments.scenario.empty()) {
            throw Refused("`" + word + "`: not understood; see --help");
        } else {
            arguments.scenario = word;
        }
    }
    if (arguments.scenario.empty()) {
        throw Refused("no scenario; wanted a file, such as testbed/scenarios/l4s-default.txt");
    }
    return arguments;
}

// The model's file in a folder that `wirelens train l4s` wrote.
std::vector<uint8_t>
ReadModel(const std::string& folder)
{
    const std::string path = folder + "/model.safetensors";
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw Refused(path + ": cannot be read: " + std::strerror(errno) +
                      "; wanted: a causal model of `wirelens train l4s`");
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Handles of the Rust side, freed at the end. Of steering and marker there is one.
struct Core {
    std::unique_ptr<wl_router, decltype(&wl_router_free)> router{nullptr, wl_router_free};
    std::unique_ptr<wl_steering, decltype(&wl_steering_free)> steering{nullptr, wl_steering_free};

    std::unique_ptr<wl_marker, decltype(&wl_marker_free)> marker{nullptr, wl_marker_free};

    Core(const Scenario& scenario, const std::string& model)
    {
        char error[512] = "";
        router.reset(wl_router_new(scenario.router.c_str(), scenario.seed, 0, error, sizeof error));
        if (!router) {
            throw Refused("`router " + scenario.router + "`: " + error);
        }
        if (scenario.control.rfind("predicted", 0) == 0) {
            Predict(scenario.control, model);
            return;
        }
        if (!model.empty()) {
            throw Refused("`control " + scenario.control + "`: needs no model; wanted predicted:TIME");
        }
        // Another seed than the router's: the two must not draw the same.
        const uint64_t seed = ~scenario.seed;
        steering.reset(
            wl_steering_new(scenario.control.c_str(), seed, error, sizeof error));
        if (!steering) {
            throw Refused("`control " + scenario.control + "`: " + error);
        }
    }

    Choosing OfSender(uint16_t sender) const
    {
        return sender == 1 ? Choosing{steering.get(), marker.get()} : Choosing{};
    }

    wl_marker_counts_of Counts() const
    {
        if (marker) {
            return wl_marker_counts(marker.get());
        }
        const wl_steering_counts_of counts = wl_steering_counts(steering.get());
        return {counts.asked, 0, counts.remarked, 0, 0, 0};
    }

  private:
    void Predict(const std::string& control, const std::string& model)
    {
        if (model.empty()) {
            throw Refused("`control " + control + "`: wanted its model: --model DIR");
        }
        const std::vector<uint8_t> bytes = ReadModel(model);
        char error[512] = "";
        marker.reset(
            wl_marker_new(control.c_str(), bytes.data(), bytes.size(), error, sizeof error));
        if (!marker) {
            throw Refused("`control " + control + "`, model " + model + ": " + error);
        }
    }
};

// The network: sender nodes, the router, and one host that has all receivers. Links behind the
// bottleneck would never hold a packet up.
class Network {
  public:
    Network(const Scenario& scenario, const Core& core, Ledger& ledger, const std::string& journal)
        : m_scenario(scenario)
    {
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        m_router.Create(1);
        m_far.Create(1);
        internet.Install(m_router);
        internet.Install(m_far);
        JoinFar(core.router.get(), ledger, journal);
        std::set<uint16_t> senders;
        for (const Group& group : scenario.groups) {
            senders.insert(group.sender);
        }
        for (uint16_t sender : senders) {
            JoinSender(internet, sender, ledger, core.OfSender(sender));
        }
    }

    void Begin(Flow& flow, uint16_t sender)
    {
        auto& [node, egress] = m_senders.at(sender);
        flow.Begin(node, m_far.Get(0), "10.1.0.2", egress);
    }

    void Finish() { m_disc->Finish(); }

  private:
    // The bottleneck link, to the host behind it.
    void JoinFar(wl_router* router, Ledger& ledger, const std::string& journal)
    {
        const DataRate rate(m_scenario.rate_bps);
        const NetDeviceContainer devices = Link(rate, NanoSeconds(m_scenario.delay_ns), m_far);
        m_disc = CreateObject<RouterDisc>(router, ledger, rate, journal);
        auto layer = m_router.Get(0)->GetObject<TrafficControlLayer>();
        layer->SetRootQueueDiscOnDevice(devices.Get(0), m_disc);
        Address(devices, "10.1.0.0");
        TrafficControlHelper().Uninstall(devices.Get(1));
        devices.Get(1)->TraceConnectWithoutContext(
            "PhyRxEnd", MakeCallback(+[](Ledger* to, Ptr<const Packet> packet) {
                            to->Received(packet->GetUid(), Simulator::Now().GetNanoSeconds());
                        }).Bind(&ledger));
        SetDefaultRoute(m_far.Get(0), "10.1.0.1");
    }

    void JoinSender(const InternetStackHelper& internet, uint16_t sender, Ledger& ledger,
                    Choosing choosing)
    {
        NodeContainer node;
        node.Create(1);
        internet.Install(node);
        // Fast, and without delay: what is measured is the bottleneck's.
        const NetDeviceContainer devices =
            Link(DataRate(AccessBps()), Time(0), node);
        auto egress = CreateObject<SenderDisc>(sender, ledger, choosing, *m_disc);
        auto layer = node.Get(0)->GetObject<TrafficControlLayer>();
        layer->SetRootQueueDiscOnDevice(devices.Get(1), egress);
        const std::string net = "10.0." + std::to_string(sender);
        Address(devices, (net + ".0").c_str());
        TrafficControlHelper().Uninstall(devices.Get(0));
        SetDefaultRoute(node.Get(0), (net + ".2").c_str());
        m_senders[sender] = {node.Get(0), egress};
    }

    uint64_t AccessBps() const
    {
        return m_scenario.access_bps != 0 ? m_scenario.access_bps : m_scenario.rate_bps * 100;
    }

    NetDeviceContainer Link(DataRate rate, Time delay, const NodeContainer& other)
    {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", DataRateValue(rate));
        link.SetChannelAttribute("Delay", TimeValue(delay));
        // Nothing is lost but by the router's decision.
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000000p"));
        return link.Install(m_router.Get(0), other.Get(0));
    }

    // Senders have the first address of their net, as the router does towards the far host.
    static void Address(const NetDeviceContainer& devices, const char* net)
    {
        Ipv4AddressHelper addresses(net, "255.255.255.0");
        const bool is_far = std::strncmp(net, "10.1.", 5) == 0;
        addresses.Assign(devices.Get(is_far ? 0 : 1));
        addresses.Assign(devices.Get(is_far ? 1 : 0));
    }

    static void SetDefaultRoute(Ptr<Node> node, const char* gateway)
    {
        Ipv4StaticRoutingHelper routing;
        routing.GetStaticRouting(node->GetObject<Ipv4>())->SetDefaultRoute(gateway, 1);
    }

    const Scenario& m_scenario;
    NodeContainer m_router;
    NodeContainer m_far;
    Ptr<RouterDisc> m_disc;
    std::map<uint16_t, std::pair<Ptr<Node>, Ptr<SenderDisc>>> m_senders;
};

void
SetDefaults(const Scenario& scenario)
{
    RngSeedManager::SetSeed(scenario.seed);
    // ECT(1): by default ns-3's DCTCP takes ECT(0), which is for the classic queue.
    Config::SetDefault("ns3::TcpDctcp::UseEct0", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(32 << 20));
    // As Linux. ns-3 waits a second, and delays acknowledgements by as much as 200 ms.
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
}

void
PrintDelays(Delays& delays)
{
    std::printf("\"packets\": %zu", delays.Count());
    const std::pair<const char*, double> shares[] = {
        {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};
    for (const auto& [name, share] : shares) {
        if (delays.Count() == 0) {
            std::printf(", \"%s_ms\": null", name);
        } else {
            std::printf(", \"%s_ms\": %.6f", name, delays.Quantile(share) / 1e6);
        }
    }
}

void
PrintQueue(const char* name, Delays& delays, const wl_counts& counts)
{
    std::printf("\"%s\": {", name);
    PrintDelays(delays);
    std::printf(", \"received\": %" PRIu64 ", \"sent\": %" PRIu64 ", \"dropped_full\": %" PRIu64
                ", \"dropped_early\": %" PRIu64 ", \"dropped_late\": %" PRIu64
                ", \"marked_pi\": %" PRIu64 ", \"marked_threshold\": %" PRIu64
                ", \"waiting\": %" PRIu64 "}",
                counts.received, counts.sent, counts.dropped_full, counts.dropped_early,
                counts.dropped_late, counts.marked_pi, counts.marked_threshold, counts.waiting);
}

void
PrintGroup(const Group& group, uint32_t first, double seconds, Ledger& ledger,
           const std::vector<std::unique_ptr<Flow>>& flows)
{
    OfFlow all;
    uint64_t retransmissions = 0;
    uint64_t messages = 0;
    for (uint32_t number = first; number < first + group.count; ++number) {
        const OfFlow& flow = ledger.of_flow[number];
        all.delays.Add(flow.delays);
        all.left_bytes += flow.left_bytes;
        all.dropped += flow.dropped;
        all.remarked += flow.remarked;
        all.reordered += flow.reordered;
        retransmissions += flows[number]->RetransmittedPackets();
        messages += flows[number]->Messages();
    }
    std::printf("{\"congestion\": \"%s\", \"count\": %" PRIu32
                ", \"sender\": %u, \"receiver\": %u, ",
                group.congestion.c_str(), group.count, group.sender, group.receiver);
    PrintDelays(all.delays);
    std::printf(", \"throughput_bps\": %.0f, \"dropped\": %" PRIu64
                ", \"retransmissions\": %" PRIu64 ", \"reordered\": %" PRIu64
                ", \"remarked\": %" PRIu64 ", \"messages\": %" PRIu64 "}",
                static_cast<double>(all.left_bytes) * 8 / seconds, all.dropped, retransmissions,
                all.reordered, all.remarked, messages);
}

void
PrintSteered(const Core& core)
{
    const wl_marker_counts_of counts = core.Counts();
    std::printf("\"steered\": {\"asked\": %" PRIu64 ", \"remarked\": %" PRIu64, counts.asked,
                counts.remarked);
    if (core.marker) {
        std::printf(", \"kept\": %" PRIu64 ", \"silent\": %" PRIu64 ", \"unknown\": %" PRIu64
                    ", \"limited\": %" PRIu64 ", \"rare\": %" PRIu64,
                    counts.kept, counts.silent, counts.unknown, counts.limited, counts.rare);
    }
    std::printf("}");
}

std::string
Escaped(const std::string& text)
{
    std::string escaped;
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            escaped += '\\';
        }
        escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return escaped;
}

void
Run(const Arguments& arguments)
{
    const auto began = std::chrono::steady_clock::now();
    Scenario scenario = ReadScenario(arguments.scenario);
    for (const std::string& line : arguments.lines) {
        scenario.Take(line, "--set");
    }
    scenario.Check();
    Core core(scenario, arguments.model);
    std::map<std::string, Sizes> sizes;
    uint32_t count = 0;
    uint16_t sender_max = 0;
    for (const Group& group : scenario.groups) {
        count += group.count;
        sender_max = std::max(sender_max, group.sender);
        if (!group.workload.empty()) {
            sizes.try_emplace(group.workload, arguments.sizes, group.workload);
        }
    }
    SetDefaults(scenario);
    Ledger ledger(sender_max, count, scenario.warmup_ns, arguments.trace);
    Network network(scenario, core, ledger, arguments.journal);
    std::vector<std::unique_ptr<Flow>> flows;
    for (const Group& group : scenario.groups) {
        const Sizes* of = group.workload.empty() ? nullptr : &sizes.at(group.workload);
        for (uint32_t i = 0; i < group.count; ++i) {
            flows.push_back(
                std::make_unique<Flow>(flows.size(), group, scenario, of, ledger));
            network.Begin(*flows.back(), group.sender);
        }
    }
    Simulator::Stop(NanoSeconds(scenario.duration_ns));
    Simulator::Run();
    network.Finish();
    ledger.Finish();

    char router[512] = "";
    wl_router_settings(core.router.get(), router, sizeof router);
    const double seconds =
        static_cast<double>(std::max(scenario.duration_ns, scenario.warmup_ns + 1) -
                            scenario.warmup_ns) / 1e9;
    std::printf("{\"world\": \"ns-3\", \"router\": \"%s\", \"control\": \"%s\", \"seed\": %" PRIu64
                ", \"seconds\": %g, \"queues\": {",
                router, Escaped(scenario.control).c_str(), scenario.seed, seconds);
    PrintQueue("l4s", ledger.of_queue[0], wl_router_counts(core.router.get(), WL_L4S));
    std::printf(", ");
    PrintQueue("classic", ledger.of_queue[1], wl_router_counts(core.router.get(), WL_CLASSIC));
    std::printf("}, \"groups\": [");
    uint32_t first = 0;
    for (const Group& group : scenario.groups) {
        std::printf("%s", first == 0 ? "" : ", ");
        PrintGroup(group, first, seconds, ledger, flows);
        first += group.count;
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
    std::printf("], ");
    PrintSteered(core);
    std::printf(", \"records\": %" PRIu64 ", \"wall_s\": %.3f, \"cpu_s\": %.3f}\n",
                ledger.RecordCount(), wall.count(),
                static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
    Simulator::Destroy();
}

}  // namespace

int
main(int count, char** words)
{
    for (int i = 1; i < count; ++i) {
        if (std::strcmp(words[i], "--help") == 0 || std::strcmp(words[i], "-h") == 0) {
            std::fputs(HELP, stdout);
            return 0;
        }
    }
    try {
        Run(ReadArguments(count, words));
    } catch (const Refused& refused) {
        std::fprintf(stderr, "l4s: %s\n", refused.what());
        return 2;
    }
    return 0;
}
