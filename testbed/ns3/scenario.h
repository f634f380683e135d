// SPDX-License-Identifier: MIT
// What is to be simulated: a text of `key value` lines, the same as the simulator in Rust reads.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace wirelens {

// Something that was asked for and cannot be; the message says what was seen and wanted.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Flows of one kind: `group congestion=prague count=6 sender=1 receiver=1 load=greedy`.
struct Group {
    std::string congestion;
    uint32_t count = 1;
    uint16_t sender = 1;
    uint16_t receiver = 1;
    std::string workload;  // Empty where the flows always have data.
    uint64_t load_bps = 0;
    uint64_t start_ns = 0;

    bool IsL4s() const { return congestion == "prague" || congestion == "dctcp"; }
};

struct Scenario {
    uint64_t rate_bps = 100'000'000;
    uint64_t delay_ns = 20'000'000;
    uint64_t access_bps = 0;  // A hundred times `rate_bps` where 0.
    uint64_t duration_ns = 20'000'000'000;
    uint64_t warmup_ns = 0;
    uint64_t seed = 1;
    std::string router;
    std::string control = "none";
    uint32_t delayed_acks = 1;
    std::vector<Group> groups;

    // Takes one line; `place` is where it was written, for messages. Throws Refused.
    void Take(const std::string& line, const std::string& place);
    // Throws Refused where there is no flow, or too many.
    void Check() const;
};

// The number that `text` is, for `key`. Throws Refused.
uint64_t Number(const std::string& key, const std::string& text, uint64_t least, uint64_t most);

Scenario ReadScenario(const std::string& path);

// Sizes of messages by cumulative share (testbed/data/message-sizes.txt).
class Sizes {
  public:
    Sizes(const std::string& path, const std::string& name);
    // The size at a share of at least 0 and less than 1.
    uint64_t At(double share) const;
    double MeanBytes() const;

  private:
    std::vector<std::pair<double, double>> m_steps;  // Bytes and cumulative share.
};

}  // namespace wirelens
