"""One tap: bytes in flight of a flow, slot by slot, and the input of a model.

They are made by the same code as in `wirelens cca` without ``--egress``. Bytes in flight passed the
tap and are not acknowledged; they are not the occupancy of one queue, which needs two taps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wirelens import _wirelens
from wirelens.cca.slots import FLOWS_MAX, FlowWay, SlotFlow, Windows, read_slots
from wirelens.questions import Duration, Source, _duration
from wirelens.views import rows_of

if TYPE_CHECKING:
    from wirelens._wirelens import TapOptions

__all__ = [
    "FLIGHT_INPUTS",
    "FlightFlow",
    "flight_inputs",
    "flight_slots",
    "flight_windows",
    "row_slots",
]

SLOT_LEN = 96
"""Bytes of a slot."""

FLIGHT_INPUTS = ("flight_bytes", "sent_bytes")
"""What a model of one tap reads unless told otherwise."""


@dataclass(frozen=True, slots=True)
class FlightFlow(SlotFlow):
    """One way of a flow at a tap that saw both; `crates/cca/src/flight/slot.rs` tells what a slot
    holds."""

    SLOT_LEN = SLOT_LEN


def flight_inputs() -> list[str]:
    """What a window of one tap may have of each slot."""
    return _wirelens.flight_inputs()


def flight_slots(
    captures: Source,
    *,
    slot: Duration = "1ms",
    max_flows: int = FLOWS_MAX,
    filter: str | None = None,
) -> list[dict[FlowWay, FlightFlow]]:
    """Divides captures of single taps into slots: of each capture its TCP flows with data.

    Parameters
    ----------
    captures
        Captures with both directions of flows, each on its own.
    slot
        Length of a slot.
    max_flows
        Maximum number of conversations tracked per capture; others are ignored.
    filter
        Read only frames that match this filter (pcap-filter(7)).

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If `captures` cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        If a capture cannot be read to its end.
    """
    options: TapOptions = {
        "slot": _duration(slot),
        "max_flows": max_flows,
        "share": 1.0,
        "seed": None,
    }
    return read_slots(captures, filter, options, _wirelens.flight_slots, FlightFlow)


def row_slots(flow: FlightFlow, end: int, *, slot: Duration, rows_per_rtt: int) -> int | None:
    """Slots of a row where each RTT is cut into so many rows, by the flow's mean RTT of ten
    seconds, up to where one was timed last before the slot `end`; None where none was. `slot` is
    that of `flight_slots`."""
    return _wirelens.flight_row_slots(flow.slots, end, _duration(slot), rows_per_rtt)


def flight_windows(
    flow: FlightFlow,
    starts: Sequence[int],
    slots: int,
    *,
    row_slots: int = 1,
    inputs: Sequence[str] = FLIGHT_INPUTS,
) -> Windows:
    """Input windows of a model of one tap for a flow, from given start slots.

    Parameters
    ----------
    flow
        The flow.
    starts
        First slots of windows, counted from 1970.
    slots
        Rows of each window.
    row_slots
        Slots that are one row.
    inputs
        Inputs per slot; `flight_inputs` names all.

    Returns
    -------
    Windows
        In ``missing``, ``data`` where the flow had none by the window's end, and ``acks`` where
        none of it was acknowledged, so that what is in flight is not known.

    Raises
    ------
    OptionError
        If an argument is invalid.
    """
    values, missing = _wirelens.flight_windows(
        flow.slots, list(starts), slots, row_slots, list(inputs)
    )
    shaped = rows_of(values, "f", slots, len(inputs))
    return Windows(tuple(inputs), shaped, tuple(missing))
