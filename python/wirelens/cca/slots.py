"""Slots: a flow at a tap, slot by slot, and the input of a model of two taps.

They are made by the same code as in `wirelens cca`, so that training and serving cannot differ.

>>> taps = ["testdata/testbed/congestion/before.pcapng.gz",
...         "testdata/testbed/congestion/after.pcapng.gz"]
>>> before, after = tap_slots(taps)
>>> way = max(before, key=lambda way: len(before[way].slots))
>>> way.src_ip, way.dst_port
('10.1.3.12', 5001)
>>> start = before[way].first_slot
>>> found = windows(before[way], after[way], [start + 1000], 100)
>>> found.values.shape, found.missing
((1, 100, 2), (None,))
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeVar

from wirelens import _wirelens
from wirelens.found import readable_captures
from wirelens.questions import Duration, Source, _duration, _inputs
from wirelens.results import warn_of
from wirelens.views import rows_of

if TYPE_CHECKING:
    from wirelens._wirelens import InputOptions, Reader, TapOptions, WindowOptions

__all__ = ["DEFAULT_INPUTS", "FlowWay", "TapFlow", "Windows", "inputs", "tap_slots", "windows"]

SLOT_LEN = 64
"""Bytes of a slot."""

DEFAULT_INPUTS = ("cbiq_bytes", "ingress_bytes")
"""What the paper's model reads (§III-B)."""

FLOWS_MAX = 65_536
"""Flows that are followed at once unless told otherwise."""


class FlowWay(NamedTuple):
    """Data that flows one way in a conversation."""

    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int


@dataclass(frozen=True, slots=True)
class SlotFlow:
    """One way of a flow, cut into slots of `SLOT_LEN` bytes that each begin with their number."""

    SLOT_LEN: ClassVar[int]

    way: FlowWay
    community_id: str
    slots: bytes

    def __len__(self) -> int:
        return len(self.slots) // self.SLOT_LEN

    @property
    def first_slot(self) -> int:
        """Its first slot, counted from 1970."""
        return self._number(0)

    @property
    def last_slot(self) -> int:
        """Its last slot."""
        return self._number(len(self) - 1)

    def _number(self, index: int) -> int:
        words: memoryview[int] = memoryview(self.slots).cast("q")
        return words[index * self.SLOT_LEN // 8]


Flow = TypeVar("Flow", bound=SlotFlow)


@dataclass(frozen=True, slots=True)
class TapFlow(SlotFlow):
    """One way of a flow at one tap; `crates/packet/src/tap_slot.rs` tells what a slot holds."""

    SLOT_LEN = SLOT_LEN


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one flow."""

    inputs: tuple[str, ...]
    values: "memoryview[float]"
    """Windows × slots × inputs, 32-bit floats: ``numpy.asarray(windows.values)``; of no
    windows, in one dimension."""
    missing: tuple[str | None, ...]
    """Of each window what is missing, if anything is: ``ingress`` or ``egress``, where nothing
    was seen at that tap, or ``apart``, where both saw other connections. It is all zeros then."""


def inputs() -> list[str]:
    """What a window may have of each slot."""
    return _wirelens.slot_inputs()


def tap_slots(
    captures: Source,
    *,
    slot: Duration = "1ms",
    share: float = 1.0,
    seed: int = 0,
    max_flows: int = FLOWS_MAX,
    filter: str | None = None,
) -> list[dict[FlowWay, TapFlow]]:
    """Divides captures of taps into slots: of each capture its TCP flows, by the direction of data.

    Parameters
    ----------
    captures
        One capture per tap, such as upstream and downstream of a queue.
    slot
        Length of a slot.
    share
        Fraction of packets to use, sampled at random; below 1, create windows with
        ``empty="line", throughput="sequence"``.
    seed
        Of that chance.
    max_flows
        Maximum number of flows tracked per capture; others are ignored.
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
        "share": float(share),
        "seed": seed,
    }
    return read_slots(captures, filter, options, _wirelens.tap_slots, TapFlow)


def read_slots(
    captures: Source,
    filter: str | None,
    options: "TapOptions",
    read: Callable[["InputOptions", "TapOptions"], "Reader"],
    kind: Callable[[FlowWay, str, bytes], Flow],
) -> list[dict[FlowWay, Flow]]:
    """Of each capture its flows, as `read` cuts them and `kind` holds them."""
    asked = _inputs(captures, filter, None, True, None, None)
    found = readable_captures(asked["names"], stacklevel=4)
    reader = read({**asked, "names": found}, options)
    taps: list[dict[FlowWay, Flow]] = [{} for _ in found]
    try:
        for batch in reader:
            for file, community_id, *way, slots in zip(*batch.columns(), strict=True):
                flow = FlowWay(*way)
                taps[file][flow] = kind(flow, community_id, slots)
        # Whoever asked for slots is told.
        warn_of(reader, stacklevel=3)
    finally:
        reader.close()
    return taps


def windows(
    ingress: TapFlow,
    egress: TapFlow,
    starts: Sequence[int],
    slots: int,
    *,
    inputs: Sequence[str] = DEFAULT_INPUTS,
    passed: Literal["first", "highest"] = "first",
    empty: Literal["next", "line"] = "next",
    throughput: Literal["counted", "sequence"] = "counted",
) -> Windows:
    """Input windows of a model for a flow, from given start slots.

    Parameters
    ----------
    ingress, egress
        The flow at the upstream and at the downstream tap.
    starts
        First slots of windows, counted from 1970.
    slots
        Slots of each window.
    inputs
        Inputs per slot; `inputs` names all.
    passed
        Which bytes have passed a tap by the end of a slot: all before the ``"first"`` packet of the
        next one, as in the paper, or all before the ``"highest"`` byte seen.
    empty
        The sequence number of a slot without a packet: that of the ``"next"``, or on the ``"line"``
        between its neighbours.
    throughput
        Bytes ``"counted"``, or told by ``"sequence"`` numbers.

    Raises
    ------
    OptionError
        If an argument is invalid.
    """
    asked: WindowOptions = {
        "inputs": list(inputs),
        "passed": passed,
        "empty": empty,
        "throughput": throughput,
    }
    taps = (ingress.slots, egress.slots)
    values, missing = _wirelens.slot_windows(taps, list(starts), slots, asked)
    shaped = rows_of(values, "f", slots, len(asked["inputs"]))
    return Windows(tuple(inputs), shaped, tuple(missing))
