"""Intervals: what a model is trained on and judged by, pieces of flows from any moment on."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy

from wirelens.cca.packed import Member, PackedRun
from wirelens.cca.runs import AnyRun, Flow, Run
from wirelens.cca.slots import DEFAULT_INPUTS, windows

Array = Any

OTHER = "other"
"""The class of all controls that have no class of their own."""

SETTLED_S = 2.0
"""Intervals begin so long after a flow's first packet: it is told in flight, not by its start."""


@dataclass(frozen=True)
class Reading:
    """How intervals are read."""

    slots: int
    """Slots of an interval."""
    inputs: tuple[str, ...] = DEFAULT_INPUTS
    slot: str = "1ms"
    share: float = 1.0
    """Packets that are looked at."""
    passed: str = "first"
    per_flow: int = 20
    """Intervals of a flow at most."""
    row_slots: int = 1
    """Slots of a row."""
    with_sums: bool = False
    """With the sum of each input over all flows of the run behind those of the flow."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of an interval."""
        width = len(self.inputs) * (2 if self.with_sums else 1)
        return self.slots // self.row_slots, width

    def rules(self) -> dict[str, str]:
        """As `wirelens.cca.windows` takes them."""
        if self.share < 1:
            return {"passed": self.passed, "empty": "line", "throughput": "sequence"}
        return {"passed": self.passed, "empty": "next", "throughput": "counted"}


@dataclass
class Intervals:
    """Intervals of many flows."""

    values: Array
    """Intervals × rows × inputs; with `Reading.with_sums` × twice as many."""
    controls: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    """Of each interval its run, counted from 0."""
    background: list[int] = field(default_factory=list)
    """Of each interval how many flows competed."""
    rtts_ms: list[float] = field(default_factory=list)
    """Of each interval its flow's round trip without the queue."""

    def __len__(self) -> int:
        return len(self.controls)

    def of_runs(self, wanted: Sequence[int]) -> "Intervals":
        """Those of some runs."""
        kept = [at for at, run in enumerate(self.runs) if run in set(wanted)]
        return self.taken(kept)

    def named(self, controls: Sequence[str]) -> "Intervals":
        """With `OTHER` in place of controls that are not among these."""
        names = [name if name in controls else OTHER for name in self.controls]
        return replace(self, controls=names)

    def thinned(self, most: int, seed: int) -> "Intervals":
        """So many of them at most, each as likely as any other."""
        if len(self) <= most:
            return self
        return self.taken(sorted(random.Random(seed).sample(range(len(self)), most)))

    def taken(self, kept: Sequence[int]) -> "Intervals":
        """Some of them, in that order."""
        return Intervals(
            self.values[list(kept)],
            [self.controls[at] for at in kept],
            [self.runs[at] for at in kept],
            [self.background[at] for at in kept],
            [self.rtts_ms[at] for at in kept],
        )


def joined(pieces: Sequence[Intervals]) -> Intervals:
    """Those of the same runs, read in other ways."""
    if len(pieces) == 1:
        return pieces[0]
    return Intervals(
        numpy.concatenate([piece.values for piece in pieces]),
        [control for piece in pieces for control in piece.controls],
        [run for piece in pieces for run in piece.runs],
        [count for piece in pieces for count in piece.background],
        [rtt_ms for piece in pieces for rtt_ms in piece.rtts_ms],
    )


def in_rows(values: Array, row_slots: int) -> Array:
    """Slots added up to rows of so many."""
    count, slots, width = values.shape
    rows = values.reshape(count, slots // row_slots, row_slots, width)
    return rows[:, :, 0] if row_slots == 1 else rows.sum(axis=2)


def normalised(values: Array) -> Array:
    """Each input divided by its maximum in the interval; what is nothing stays nothing."""
    highest = values.max(axis=1, keepdims=True)
    return values / numpy.where(highest > 0, highest, 1)


@dataclass
class _Drawn:
    """Intervals that are being gathered."""

    pieces: list[Array] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    background: list[int] = field(default_factory=list)
    rtts_ms: list[float] = field(default_factory=list)

    def add(self, values: Array, member: Member, run: int, background: int) -> None:
        self.pieces.append(values)
        self.controls += [member.control] * len(values)
        self.runs += [run] * len(values)
        self.background += [background] * len(values)
        self.rtts_ms += [member.rtt_ms] * len(values)

    def gathered(self, reading: Reading) -> Intervals:
        values = numpy.concatenate([numpy.empty((0, *reading.shape), numpy.float32), *self.pieces])
        return Intervals(values, self.controls, self.runs, self.background, self.rtts_ms)


def draw(
    runs: Sequence[AnyRun],
    readings: Sequence[Reading],
    seed: int,
    show: Callable[[int, int], None] = lambda done, total: None,
    *,
    background_max: int = 0,
) -> list[Intervals]:
    """Draws intervals from flows, each start as likely as any other: for each reading its own.

    Of a run's background flows `background_max` are drawn at most. Each run is read once for all
    readings, which are to have one slot length and one share. An interval in which a tap saw
    nothing of its flow is left out, as nothing can be told of it.
    """
    found = [_Drawn() for _ in readings]
    for number, run in enumerate(runs):
        if isinstance(run, PackedRun):
            of_run = _of_packed(run, readings, seed, background_max)
        else:
            of_run = _of_captures(run, readings, seed, background_max)
        for reading, drawn, pieces in zip(readings, found, of_run, strict=True):
            for member, values in pieces:
                drawn.add(in_rows(values, reading.row_slots), member, number, run.background)
        show(number + 1, len(runs))
    return [drawn.gathered(reading) for reading, drawn in zip(readings, found, strict=True)]


def _of_packed(
    run: PackedRun, readings: Sequence[Reading], seed: int, background_max: int
) -> Iterator[list[tuple[Member, Array]]]:
    for reading in readings:
        chance = random.Random(f"{seed} {run.path.name}")
        yield run.drawn(reading, chance, background_max)


def _of_captures(
    run: Run, readings: Sequence[Reading], seed: int, background_max: int
) -> Iterator[list[tuple[Member, Array]]]:
    all_are_read = background_max > 0 or any(reading.with_sums for reading in readings)
    slot, share = readings[0].slot, readings[0].share
    present = run.flows(with_background=all_are_read, slot=slot, share=share, seed=seed)
    flows = _some(run, present, background_max, seed)
    for reading in readings:
        chance = random.Random(f"{seed} {run.path.name}")
        starts = [_starts(flow, reading, chance) for flow in flows]
        sums = _sums(present, reading, starts) if reading.with_sums else [None] * len(flows)
        yield [
            (flow.member, _of_flow(flow, reading, begin, of_all))
            for flow, begin, of_all in zip(flows, starts, sums, strict=True)
        ]


def _some(run: Run, flows: Sequence[Flow], background_max: int, seed: int) -> list[Flow]:
    background = [flow for flow in flows if flow.is_background]
    random.Random(f"{seed} {run.path.name} background").shuffle(background)
    return [flow for flow in flows if not flow.is_background] + background[:background_max]


def _of_flow(
    flow: Flow, reading: Reading, starts: Sequence[int], of_all: Array | None
) -> Array:
    values, is_known = _windows(flow, reading, starts)
    if of_all is not None:
        values = numpy.concatenate([values, of_all], axis=2)
    return values[is_known]


def _windows(flow: Flow, reading: Reading, starts: Sequence[int]) -> tuple[Array, Array]:
    """Slot by slot what begins there, zeros where nothing is known, and where something is."""
    if not starts:
        shape = (0, reading.slots, len(reading.inputs))
        return numpy.empty(shape, numpy.float32), numpy.empty(0, bool)
    seen = windows(
        flow.before, flow.after, starts, reading.slots,
        inputs=reading.inputs, **reading.rules(),  # type: ignore[arg-type]
    )  # fmt: skip
    return numpy.asarray(seen.values), numpy.array([missing is None for missing in seen.missing])


def _sums(
    present: Sequence[Flow], reading: Reading, starts: Sequence[Sequence[int]]
) -> list[Array]:
    """Inputs of all flows, added up, in the intervals of each flow."""
    every = [start for begin in starts for start in begin]
    total = numpy.zeros((len(every), reading.slots, len(reading.inputs)), numpy.float32)
    for flow in present:
        total += _windows(flow, reading, every)[0]
    ends = numpy.cumsum([len(begin) for begin in starts])
    return list(numpy.split(total, ends[:-1]))


def _starts(flow: Flow, reading: Reading, chance: random.Random) -> list[int]:
    slots_per_s = _slots_per_second(reading.slot)
    first = flow.before.first_slot + round(SETTLED_S * slots_per_s)
    last = flow.before.last_slot - reading.slots
    if last < first:
        # A flow that is hardly longer than the interval is told by its start, too.
        first = flow.before.first_slot
    if last < first:
        return []
    # More would be nearly the same again: they share three quarters and more.
    distinct = 1 + 4 * (last - first) // reading.slots
    return [chance.randint(first, last) for _ in range(min(reading.per_flow, distinct))]


def _slots_per_second(slot: str) -> float:
    from wirelens.learn.typed import time_us

    return 1e6 / time_us(slot)
