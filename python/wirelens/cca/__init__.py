"""Congestion control: what two taps around a queue see of its flows.

- `tap_slots`: flows of captures, cut into slots of time
- `Flow.windows`: what a model reads of them, by the code that serves
"""

from wirelens.cca.slots import FlowWay, TapFlow, Windows, tap_slots, windows

__all__ = ["FlowWay", "TapFlow", "Windows", "tap_slots", "windows"]
