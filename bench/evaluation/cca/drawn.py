"""Intervals of runs, drawn once and kept: reading captures takes longer than most trainings.

Of each run with captures there is a file of arrays for each share of packets, so that drawing goes
on where it stopped. Those of a run depend on its packets and on nothing else. Slot files are read
as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
from wirelens.cca import levels, packed
from wirelens.cca.intervals import Intervals, Reading, draw, in_rows, joined
from wirelens.cca.packed import PackedRun
from wirelens.cca.runs import AnyRun, Run
from wirelens.cca.train import slots_of

SINGLE = ("cbiq_bytes", "ingress_bytes", "egress_bytes", "drops", "source_gap_ticks",
          "arrival_gap_ns")  # fmt: skip
PACKETS = "ingress_packets"
INPUTS = (*SINGLE, PACKETS)
OF_ALL = {name: f"{name} of all flows" for name in levels.INPUTS}
"""Columns that are the queue's."""
COLUMNS = (*INPUTS, *OF_ALL.values())
PACKED_COLUMNS = (*packed.INPUTS, *(f"{name} of all flows" for name in packed.INPUTS))
# Of each length, intervals of a flow: of captures, and of slot files.
DURATIONS = {"10ms": 20, "100ms": 20, "1s": 12, "10s": 5, "60s": 1}
PACKED_DURATIONS = {"10ms": 60, "100ms": 60, "1s": 60, "10s": 5, "60s": 1}
BACKGROUND_MAX = 6
SEED = 1

Show = Callable[[int, int], None]


@dataclass(frozen=True)
class Place:
    """Runs of one set, and what is looked at of them."""

    name: str
    runs: Sequence[AnyRun]
    background_max: int = 0
    share: float = 1.0
    durations: Sequence[str] = tuple(DURATIONS)

    def path(self, kept: Path, run: Path) -> Path:
        """Where the intervals of a run with captures are."""
        some = "" if len(self.durations) == len(DURATIONS) else f"-{'-'.join(self.durations)}"
        kind = f"{self.background_max}-{self.share:g}{some}"
        return kept / f"{run.parent.name}-{run.name}-{kind}.npz"


def draw_missing(place: Place, kept: Path, show: Show) -> None:
    """Draws from those runs from which nothing was drawn so far."""
    missing = [
        run for run in place.runs
        if isinstance(run, Run) and not place.path(kept, run.path).exists()
    ]  # fmt: skip
    readings = [
        Reading(
            slots_of(duration, "1ms"), INPUTS, share=place.share, passed="highest",
            per_flow=DURATIONS[duration], with_sums=True,
        )
        for duration in place.durations
    ]  # fmt: skip
    for at, run in enumerate(missing):
        kept.mkdir(parents=True, exist_ok=True)
        show(at, len(missing))
        found = draw([run], readings, SEED, background_max=place.background_max)
        for intervals in found:
            of_all = [len(INPUTS) + INPUTS.index(name) for name in OF_ALL]
            intervals.values = intervals.values[:, :, [*range(len(INPUTS)), *of_all]]
        _save(place.path(kept, run.path), run, dict(zip(place.durations, found, strict=True)))


def _save(path: Path, run: Run, found: dict[str, Intervals]) -> None:
    arrays: dict[str, Any] = {"flows_beside": run.background}
    for duration, intervals in found.items():
        arrays[f"{duration}.values"] = intervals.values
        arrays[f"{duration}.controls"] = numpy.array(intervals.controls, "U16")
        arrays[f"{duration}.rtts_ms"] = numpy.array(intervals.rtts_ms)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        numpy.savez(file, **arrays)
    partial.replace(path)


def load(
    places: Sequence[Place], kept: Path, duration: str, inputs: Sequence[str], row_slots: int = 1
) -> Intervals:
    """All intervals of one length, `runs` counting those of a place: places are to have the same.

    Of slot files an interval is drawn for each call, the same ones for the same place and length.
    """
    pieces = [
        _of_packed(place, number, run, duration, inputs, row_slots)
        if isinstance(run, PackedRun)
        else _of_kept(place.path(kept, run.path), number, duration, inputs, row_slots)
        for place in places
        for number, run in enumerate(place.runs)
    ]
    return joined(pieces)


def _of_packed(
    place: Place, number: int, run: PackedRun, duration: str, inputs: Sequence[str], row_slots: int
) -> Intervals:
    reading = Reading(
        slots_of(duration, "1ms"), packed.INPUTS, passed=packed.PASSED,
        per_flow=PACKED_DURATIONS[duration], row_slots=row_slots, with_sums=True,
    )  # fmt: skip
    (found,) = draw([run], [reading], SEED, background_max=place.background_max)
    columns = [PACKED_COLUMNS.index(name) for name in inputs]
    return replace(found, values=found.values[:, :, columns], runs=[number] * len(found))


def _of_kept(
    path: Path, number: int, duration: str, inputs: Sequence[str], row_slots: int
) -> Intervals:
    columns = [COLUMNS.index(name) for name in inputs]
    with numpy.load(path) as arrays:
        values = in_rows(arrays[f"{duration}.values"][:, :, columns], row_slots)
        return Intervals(
            values,
            arrays[f"{duration}.controls"].tolist(),
            [number] * len(values),
            [int(arrays["flows_beside"])] * len(values),
            arrays[f"{duration}.rtts_ms"].tolist(),
        )
