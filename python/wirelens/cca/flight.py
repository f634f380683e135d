"""One tap: what a flow has in flight, slot by slot, and what a model reads of it.

They are made by the same code as in `wirelens cca` without ``--egress``. What is in flight was sent
past the tap and is not acknowledged; it is not what waits in one queue, which takes two taps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wirelens import _wirelens
from wirelens.cca.slots import FLOWS_MAX, FlowWay, SlotFlow, Windows, read_slots
from wirelens.questions import Duration, Source, _duration

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

SLOT_LEN = 80
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
    """Cuts what single taps saw into slots: of each capture its TCP flows that carry data.

    Parameters
    ----------
    captures
        Captures that saw both ways of flows, each for itself.
    slot
        How long a slot is.
    max_flows
        Conversations that are followed of each capture; of others nothing is kept.
    filter
        Only frames that pass this expression (pcap-filter(7)).

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        Where `captures` cannot be opened.
    FilterError, FilterUnavailableError
        Where `filter` cannot be used.
    OptionError
        Where another argument cannot mean what was given.

    Warns
    -----
    DamagedCaptureWarning
        Where a capture cannot be read to its end.
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
    """What a model of one tap reads of a flow, from some moments on.

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
        What is told of each slot; `flight_inputs` names all.

    Returns
    -------
    Windows
        In ``missing``, ``data`` where the flow had none by the window's end, and ``acks`` where
        none of it was acknowledged, so that what is in flight is not known.

    Raises
    ------
    OptionError
        Where an argument cannot mean what was given.
    """
    values, missing = _wirelens.flight_windows(
        flow.slots, list(starts), slots, row_slots, list(inputs)
    )
    shape = (len(missing), slots, len(inputs))
    return Windows(tuple(inputs), memoryview(values).cast("f", shape), tuple(missing))
