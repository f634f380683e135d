"""Intervals: what a model is trained on and judged by, pieces of flows from any moment on."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from wirelens.cca.runs import Flow, Run
from wirelens.cca.slots import DEFAULT_INPUTS, windows

Array = Any

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

    def rules(self) -> dict[str, str]:
        """As `wirelens.cca.windows` takes them."""
        if self.share < 1:
            return {"passed": "first", "empty": "line", "throughput": "sequence"}
        return {"passed": self.passed, "empty": "next", "throughput": "counted"}


@dataclass
class Intervals:
    """Intervals of many flows."""

    values: Array
    """Intervals × slots × inputs."""
    controls: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    """Of each interval its run, counted from 0."""
    background: list[int] = field(default_factory=list)
    """Of each interval how many flows competed."""

    def __len__(self) -> int:
        return len(self.controls)

    def of_runs(self, wanted: Sequence[int]) -> "Intervals":
        """Those of some runs."""
        kept = [at for at, run in enumerate(self.runs) if run in set(wanted)]
        return self.taken(kept)

    def taken(self, kept: Sequence[int]) -> "Intervals":
        """Some of them, in that order."""
        return Intervals(
            self.values[list(kept)],
            [self.controls[at] for at in kept],
            [self.runs[at] for at in kept],
            [self.background[at] for at in kept],
        )


def normalised(values: Array) -> Array:
    """Each input divided by its maximum in the interval; what is nothing stays nothing."""
    highest = values.max(axis=1, keepdims=True)
    return values / numpy.where(highest > 0, highest, 1)


def draw(
    runs: Sequence[Run],
    reading: Reading,
    per_flow: int,
    seed: int,
    show: Callable[[int, int], None] = lambda done, total: None,
) -> Intervals:
    """Draws intervals from every measured flow, each start as likely as any other.

    An interval in which a tap saw nothing of its flow is left out, as nothing can be told of it.
    """
    pieces, found = [], Intervals(numpy.empty((0, reading.slots, len(reading.inputs)), "float32"))
    for number, run in enumerate(runs):
        chance = random.Random(f"{seed} {run.path.name}")
        for flow in run.flows(slot=reading.slot, share=reading.share, seed=seed):
            starts = _starts(flow, reading, per_flow, chance)
            if not starts:
                continue
            seen = windows(
                flow.before, flow.after, starts, reading.slots,
                inputs=reading.inputs, **reading.rules(),  # type: ignore[arg-type]
            )  # fmt: skip
            kept = [at for at, missing in enumerate(seen.missing) if missing is None]
            pieces.append(numpy.asarray(seen.values)[kept])
            found.controls += [flow.control] * len(kept)
            found.runs += [number] * len(kept)
            found.background += [run.background] * len(kept)
        show(number + 1, len(runs))
    if pieces:
        found.values = numpy.concatenate(pieces)
    return found


def _starts(flow: Flow, reading: Reading, count: int, chance: random.Random) -> list[int]:
    slots_per_s = _slots_per_second(reading.slot)
    first = flow.before.first_slot + round(SETTLED_S * slots_per_s)
    last = flow.before.last_slot - reading.slots
    if last < first:
        # A flow that is as long as the interval has one start to choose.
        first = flow.before.first_slot
        count = 1
    if last < first:
        return []
    return [chance.randint(first, last) for _ in range(count)]


def _slots_per_second(slot: str) -> float:
    from wirelens.classify.typed import time_us

    return 1e6 / time_us(slot)
