// SPDX-License-Identifier: MIT
// Congestion controls: those of ns-3, with what they lack of the standards that matters here.
#pragma once

#include "ns3/type-id.h"

#include <string>

namespace wirelens {

// The type of a control by its name in scenarios.
ns3::TypeId TypeOf(const std::string& name);

}  // namespace wirelens
