// SPDX-License-Identifier: MIT
#include "scenario.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace wirelens {

uint64_t
Number(const std::string& key, const std::string& text, uint64_t least, uint64_t most)
{
    uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end || number < least || number > most) {
        throw Refused("`" + key + " " + text + "`: wanted a number from " +
                      std::to_string(least) + " to " + std::to_string(most));
    }
    return number;
}

namespace {

constexpr uint64_t FLOWS_MAX = 20'000;

void
SetLoad(Group& group, const std::string& text)
{
    if (text == "greedy") {
        return;
    }
    const size_t first = text.find(':');
    const size_t second = text.find(':', first == std::string::npos ? first : first + 1);
    if (text.compare(0, first, "messages") != 0 || second == std::string::npos) {
        throw Refused("`load=" + text + "`: wanted greedy or messages:NAME:BITS-PER-SECOND, " +
                      "such as messages:websearch:5000000");
    }
    group.workload = text.substr(first + 1, second - first - 1);
    group.load_bps = Number("load", text.substr(second + 1), 1'000, 100'000'000'000);
}

Group
ReadGroup(const std::string& text)
{
    static const std::vector<std::string> kinds = {"prague", "dctcp", "cubic", "bbr", "reno"};
    Group group;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        const size_t equals = word.find('=');
        const std::string key = word.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
        if (key == "congestion") {
            if (std::find(kinds.begin(), kinds.end(), value) == kinds.end()) {
                throw Refused("`" + word + "`: wanted prague, dctcp, cubic, bbr or reno");
            }
            group.congestion = value;
        } else if (key == "count") {
            group.count = Number(key, value, 1, 10'000);
        } else if (key == "sender") {
            group.sender = Number(key, value, 1, 200);
        } else if (key == "receiver") {
            group.receiver = Number(key, value, 1, 200);
        } else if (key == "load") {
            SetLoad(group, value);
        } else if (key == "start_ns") {
            group.start_ns = Number(key, value, 0, 3'600'000'000'000);
        } else {
            throw Refused("`" + word + "`: wanted congestion=, count=, sender=, receiver=, " +
                          "load= or start_ns=");
        }
    }
    if (group.congestion.empty()) {
        throw Refused("a group without `congestion=`: wanted prague, dctcp, cubic, bbr or reno");
    }
    return group;
}

}  // namespace

void
Scenario::Take(const std::string& line, const std::string& place)
{
    std::istringstream words(line.substr(0, line.find('#')));
    std::string key;
    std::string value;
    if (!(words >> key)) {
        return;
    }
    std::getline(words >> std::ws, value);
    value.erase(value.find_last_not_of(" \t\r") + 1);
    try {
        if (key == "rate_bps") {
            rate_bps = Number(key, value, 100'000, 10'000'000'000);
        } else if (key == "delay_ns") {
            delay_ns = Number(key, value, 1'000, 1'000'000'000);
        } else if (key == "duration_ns") {
            duration_ns = Number(key, value, 1'000'000, 3'600'000'000'000);
        } else if (key == "warmup_ns") {
            warmup_ns = Number(key, value, 0, 3'600'000'000'000);
        } else if (key == "access_bps") {
            access_bps = Number(key, value, 100'000, 1'000'000'000'000);
        } else if (key == "recovery") {
            if (value != "dupacks") {
                throw Refused("`recovery " + value + "`: wanted dupacks; ns-3 has no RACK");
            }
        } else if (key == "seed") {
            seed = Number(key, value, 1, UINT32_MAX);
        } else if (key == "router") {
            router = value;
        } else if (key == "control") {
            control = value;
        } else if (key == "delayed_acks") {
            delayed_acks = Number(key, value, 1, 2);
        } else if (key == "group") {
            groups.push_back(ReadGroup(value));
        } else {
            throw Refused("unknown key `" + key + "`: wanted rate_bps, access_bps, delay_ns, " +
                          "duration_ns, warmup_ns, recovery, seed, router, control, delayed_acks or group");
        }
    } catch (const Refused& refused) {
        throw Refused(place + ": " + refused.what());
    }
}

void
Scenario::Check() const
{
    if (groups.empty()) {
        throw Refused("no flow: wanted a line such as `group congestion=prague count=6 " +
                      std::string("sender=1 receiver=1 load=greedy`"));
    }
    uint64_t count = 0;
    for (const Group& group : groups) {
        count += group.count;
    }
    // Each has a port of the receiving host.
    if (count > FLOWS_MAX) {
        throw Refused(std::to_string(count) + " flows: wanted at most " +
                      std::to_string(FLOWS_MAX));
    }
}

Scenario
ReadScenario(const std::string& path)
{
    std::ifstream file(path);
    if (!file) {
        throw Refused(path + ": cannot be read; wanted a scenario, such as one of " +
                      "testbed/scenarios/l4s-*.txt");
    }
    Scenario scenario;
    size_t number = 0;
    for (std::string line; std::getline(file, line);) {
        scenario.Take(line, path + ":" + std::to_string(++number));
    }
    return scenario;
}

Sizes::Sizes(const std::string& path, const std::string& name)
{
    std::ifstream file(path);
    if (!file) {
        throw Refused(path + ": cannot be read; wanted the sizes of messages (--sizes FILE)");
    }
    m_steps.emplace_back(1.0, 0.0);
    std::vector<std::string> names;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string of;
        double bytes = 0;
        double share = 0;
        if (!(words >> of)) {
            continue;
        }
        if (names.empty() || names.back() != of) {
            names.push_back(of);
        }
        const bool is_pair = static_cast<bool>(words >> bytes >> share);
        if (of != name) {
            continue;
        }
        if (!is_pair || bytes < m_steps.back().first || share <= m_steps.back().second) {
            throw Refused(path + ": `" + line + "`: wanted rising bytes and shares");
        }
        m_steps.emplace_back(bytes, share);
    }
    if (m_steps.back().second != 1.0) {
        std::string known;
        for (const std::string& one : names) {
            known += (known.empty() ? "" : ", ") + one;
        }
        throw Refused("`messages:" + name + "`: wanted one of " + known + ", up to share 1 (" +
                      path + ")");
    }
}

uint64_t
Sizes::At(double share) const
{
    for (size_t i = 1; i < m_steps.size(); ++i) {
        const auto& [bytes, until] = m_steps[i];
        if (share < until) {
            const auto& [before, from] = m_steps[i - 1];
            return std::max(1.0, before + (bytes - before) * (share - from) / (until - from));
        }
    }
    return m_steps.back().first;
}

double
Sizes::MeanBytes() const
{
    double mean = 0;
    for (size_t i = 1; i < m_steps.size(); ++i) {
        const double middle = (m_steps[i].first + m_steps[i - 1].first) / 2;
        mean += middle * (m_steps[i].second - m_steps[i - 1].second);
    }
    return mean;
}

}  // namespace wirelens
