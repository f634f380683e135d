"""Which L4S queue each packet should take: a simulated network, and what became of packets.

- `simulate`: many TCP flows through an L4S router, faster than they would take
- `Scenario`: what is simulated, as values instead of text
- `read_trace`: what became of each packet in a simulation or at a router in front of real TCP
"""

from wirelens.l4s.simulated import Delays, Group, Queue, Scenario, Summary, Traffic, simulate
from wirelens.l4s.trace import read_trace

__all__ = [
    "Delays",
    "Group",
    "Queue",
    "Scenario",
    "Summary",
    "Traffic",
    "read_trace",
    "simulate",
]
