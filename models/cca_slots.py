"""Slots of the testbed's congestion runs, kept so that networks of two taps can be trained and
evaluated without making the runs again.

    .venv/bin/python models/cca_slots.py testbed-runs/congestion/train-* \\
        --pack testbed/data/congestion/train --stretches 3 --length 10s --background 6
    .venv/bin/python models/cca_slots.py testbed-runs/congestion/heldout-* \\
        --pack testbed/data/congestion/heldout --stretches 1 --length 60s

Of each run so many stretches are drawn, each from its own part of the run's time, and of them the
slots of measured flows and of some background flows, and the sums over all flows. `wirelens train
cca` and `wirelens eval cca` read the files. They are of 16 runs each, in the order in which runs
are given; those that are there are not made again.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

import numpy
from wirelens.cca import packed, windows
from wirelens.cca.intervals import SETTLED_S, Array
from wirelens.cca.packed import INPUTS, PASSED, SLOT, PackedRun, Stretch
from wirelens.cca.runs import Flow, Run, find_runs
from wirelens.learn.progress import Progress
from wirelens.learn.typed import time_us, whole

RUNS_PER_FILE = 16
SETTLED_SLOTS = round(SETTLED_S * 1e6 / time_us(SLOT))


def values(flow: Flow, begin: int, slots: int) -> Array:
    """Of a flow the slots of a stretch, rounded to whole numbers, which they are."""
    found = windows(
        flow.before, flow.after, [begin], slots, inputs=INPUTS,
        passed=PASSED,  # type: ignore[arg-type]
        empty="next", throughput="counted",
    )  # fmt: skip
    return numpy.rint(numpy.asarray(found.values)[0].astype(float)).astype(numpy.int64)


def span(flow: Flow, begin: int, slots: int) -> tuple[int, int]:
    """The slots of a stretch in which a flow is past its start and before its end."""
    first, last = flow.before.first_slot + SETTLED_SLOTS, flow.before.last_slot
    return min(slots, max(0, first - begin)), min(slots, max(0, last - begin))


def begins(flows: Sequence[Flow], stretches: int, slots: int, chance: random.Random) -> list[int]:
    """Where stretches begin: each in a part of its own of the time in which all measured flows are
    past their start."""
    measured = [flow for flow in flows if not flow.is_background]
    first = max(flow.before.first_slot for flow in measured) + SETTLED_SLOTS
    last = min(flow.before.last_slot for flow in measured)
    part = (last - first) // stretches
    free = max(0, part - slots)
    return [first + number * part + chance.randint(0, free) for number in range(stretches)]


def pack(run: Run, stretches: int, slots: int, background_max: int) -> PackedRun:
    """The slots of a run."""
    chance = random.Random(run.path.name)
    present = run.flows(with_background=True, slot=SLOT)
    background = [flow for flow in present if flow.is_background]
    chance.shuffle(background)
    kept = [flow for flow in present if not flow.is_background] + background[:background_max]
    found = []
    for begin in begins(present, stretches, slots, chance):
        own = numpy.stack([values(flow, begin, slots) for flow in kept])
        sums = sum(values(flow, begin, slots) for flow in present)
        found.append(Stretch(own, sums, [span(flow, begin, slots) for flow in kept]))
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
    asked = parser.parse_args()
    slots = round(time_us(asked.length) / time_us(SLOT))
    progress = Progress()
    for number, at in enumerate(range(0, len(asked.runs), RUNS_PER_FILE)):
        path = asked.pack / f"slots-{number:02}.xz"
        if path.exists():
            continue
        of_file = []
        for done, run in enumerate(find_runs(asked.runs[at : at + RUNS_PER_FILE])):
            if isinstance(run, PackedRun):
                parser.error(f"{run.path.parent}: has slots already; wanted: runs with captures")
            progress.show(at + done, len(asked.runs), f"slots of {path.name}")
            of_file.append(pack(run, asked.stretches, slots, asked.background))
        packed.write(path, of_file)
    progress.finish()


if __name__ == "__main__":
    main()
