"""Slots of the testbed's congestion runs, kept so that networks of two taps can be trained and
evaluated without making the runs again.

    .venv/bin/python models/cca_slots.py testbed-runs/congestion/train-* \\
        --pack testbed/data/congestion/train --stretches 3 --length 10s --background 6
    .venv/bin/python models/cca_slots.py testbed-runs/congestion/heldout-* \\
        --pack testbed/data/congestion/heldout --stretches 1 --length 60s

Of each run so many stretches are drawn, each from its own part of the run's time, and of them the
slots of measured flows and of some background flows, and the sums over all flows. `wirelens train
cca` and `wirelens eval cca` read the files. They are of 16 runs each at most, in the order in
which runs are given; those that are there are not made again.
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from wirelens.cca import packed, windows
from wirelens.cca.intervals import SETTLED_S, Array
from wirelens.cca.packed import INPUTS, PASSED, SLOT, PackedRun, Stretch
from wirelens.cca.runs import Flow, Run, find_runs
from wirelens.learn.progress import Progress
from wirelens.learn.typed import time_us, whole

SETTLED = f"{SETTLED_S:g}s"


def values(flow: Flow, begin: int, slots: int) -> Array:
    """Of a flow the slots of a stretch, rounded to whole numbers, which they are."""
    found = windows(
        flow.before, flow.after, [begin], slots, inputs=INPUTS,
        passed=PASSED,  # type: ignore[arg-type]
        empty="next", throughput="counted",
    )  # fmt: skip
    return numpy.rint(numpy.asarray(found.values)[0].astype(float)).astype(numpy.int64)


def span(flow: Flow, begin: int, slots: int, settled: int) -> tuple[int, int]:
    """The slots of a stretch in which a flow is past its start and before its end."""
    first, last = flow.before.first_slot + settled, flow.before.last_slot
    return min(slots, max(0, first - begin)), min(slots, max(0, last - begin))


@dataclass(frozen=True)
class Extent:
    """What is kept of a run."""

    stretches: int
    slots: int
    """Of each stretch."""
    background_max: int
    settled: int
    """Slots from a flow's first packet on that are its start."""


def begins(flows: Sequence[Flow], wanted: Extent, chance: random.Random) -> list[int]:
    """Where stretches begin: each in a part of its own of the time in which all measured flows are
    past their start."""
    measured = [flow for flow in flows if not flow.is_background]
    first = max(flow.before.first_slot for flow in measured) + wanted.settled
    last = min(flow.before.last_slot for flow in measured)
    part = (last - first) // wanted.stretches
    free = max(0, part - wanted.slots)
    return [first + at * part + chance.randint(0, free) for at in range(wanted.stretches)]


def pack(run: Run, wanted: Extent) -> PackedRun:
    """The slots of a run."""
    chance = random.Random(run.path.name)
    present = run.flows(with_background=True, slot=SLOT)
    background = [flow for flow in present if flow.is_background]
    chance.shuffle(background)
    measured = [flow for flow in present if not flow.is_background]
    kept = measured + background[: wanted.background_max]
    slots, found = wanted.slots, []
    for begin in begins(present, wanted, chance):
        own = numpy.stack([values(flow, begin, slots) for flow in kept])
        sums = sum(values(flow, begin, slots) for flow in present)
        spans = [span(flow, begin, slots, wanted.settled) for flow in kept]
        found.append(Stretch(own, sums, spans))
    return PackedRun(
        run.path, run.rate_mbit, run.buffer_bytes, run.members,
        [flow.member for flow in kept], found,
    )  # fmt: skip


def main() -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("runs", type=Path, nargs="+", metavar="RUN")
    add("--pack", type=Path, required=True, metavar="DIR")
    add("--stretches", type=whole(1), default=1)
    add("--length", default="60s")
    add("--background", type=whole(0), default=0)
    add("--runs-per-file", type=whole(1), default=16)
    add("--settled", default=SETTLED, help="what is left out from a flow's first packet on")
    asked = parser.parse_args()
    slots, settled = (round(time_us(one) / time_us(SLOT)) for one in (asked.length, asked.settled))
    wanted = Extent(asked.stretches, slots, asked.background, settled)
    progress = Progress()
    for number, at in enumerate(range(0, len(asked.runs), asked.runs_per_file)):
        path = asked.pack / f"slots-{number:02}.xz"
        if path.exists():
            continue
        of_file = []
        for done, run in enumerate(find_runs(asked.runs[at : at + asked.runs_per_file])):
            if isinstance(run, PackedRun):
                parser.error(f"{run.path.parent}: has slots already; wanted: runs with captures")
            progress.show(at + done, len(asked.runs), f"slots of {path.name}")
            of_file.append(pack(run, wanted))
        packed.write(path, of_file)
    progress.finish()


if __name__ == "__main__":
    main()
