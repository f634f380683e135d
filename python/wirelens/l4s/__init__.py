"""Which L4S queue each packet should take: a simulated network, and latencies of packets.

- `simulate`: many TCP flows through an L4S router, faster than they would take
- `Scenario`: what is simulated, as values instead of text
- `read_trace`: what happened to each packet in a simulation or at a router in front of real TCP
- `read_latencies`: latencies of real traffic from the testbed, as compact columns
"""

from wirelens.l4s.latencies import read_latencies
from wirelens.l4s.simulated import (
    Delays,
    Group,
    Queue,
    Scenario,
    SteeringCounts,
    Summary,
    Traffic,
    Tunings,
    simulate,
)
from wirelens.l4s.trace import read_trace

__all__ = [
    "Delays",
    "Group",
    "Queue",
    "Scenario",
    "SteeringCounts",
    "Summary",
    "Traffic",
    "Tunings",
    "read_latencies",
    "read_trace",
    "simulate",
]
