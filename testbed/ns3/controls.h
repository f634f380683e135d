// SPDX-License-Identifier: MIT
// Congestion controls: those of ns-3, with what they lack of the standards that matters here.
#pragma once

#include "ns3/type-id.h"

#include <string>

namespace wirelens {

bool IsControl(const std::string& name);

// The type of a control by its name in scenarios; that of Reno for a name that is none.
ns3::TypeId TypeOf(const std::string& name);

}  // namespace wirelens
