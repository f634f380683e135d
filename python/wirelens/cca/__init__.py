"""Congestion control: flows of a queue at two taps around it, or at a single tap.

- `tap_slots`: flows of captures, cut into slots of time
- `windows`: what a model reads of them, by the code that serves
- `flight_slots`, `flight_windows`: the same of one tap that sees data and acknowledgements
"""

from wirelens.cca.flight import FlightFlow, flight_slots, flight_windows, row_slots
from wirelens.cca.slots import FlowWay, TapFlow, Windows, tap_slots, windows

__all__ = [
    "FlightFlow",
    "FlowWay",
    "TapFlow",
    "Windows",
    "flight_slots",
    "flight_windows",
    "row_slots",
    "tap_slots",
    "windows",
]
