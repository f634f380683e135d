"""Which L4S queue each packet should take: a simulated network, and rules to compare in it.

- `simulate`: many TCP flows through an L4S router, faster than they would take
- `Scenario`: what is simulated, as values instead of text
"""

from wirelens.l4s.simulated import Delays, Group, Queue, Scenario, Summary, Traffic, simulate

__all__ = ["Delays", "Group", "Queue", "Scenario", "Summary", "Traffic", "simulate"]
