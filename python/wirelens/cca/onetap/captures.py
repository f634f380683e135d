"""Labelled runs: captures of single taps, read as `wirelens cca` reads them, or kept in row files.

A run is a folder with captures, each of one tap that sees both directions, and `flows.tsv`, which
has `src_ip`, `src_port`, `dst_ip`, `dst_port` and `label` of each flow, as the testbed writes it.
"""

import csv
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy

from wirelens.cca.flight import FlightFlow, flight_slots, flight_windows, row_slots
from wirelens.cca.intervals import SETTLED_S
from wirelens.cca.onetap import rows
from wirelens.cca.onetap.rows import INPUTS, ROWS_MAX, ROWS_MIN, ROWS_PER_RTT, Run, Series
from wirelens.cca.slots import FlowWay
from wirelens.errors import OptionError
from wirelens.learn.testbed_runs import is_complete

SLOT = "1ms"
SLOTS_PER_S = 1000
FLOWS_FILE = "flows.tsv"
COLUMNS = ("src_ip", "src_port", "dst_ip", "dst_port", "label")
CAPTURES = tuple(
    f".{kind}{packed}" for kind in ("pcap", "pcapng") for packed in ("", ".gz", ".zst")
)

Show = Callable[[int, int], None]


@dataclass(frozen=True)
class DataSet:
    """The runs of a place."""

    name: str
    runs: list[Run]
    times: int = 1
    """How often it was given: so often its runs count in training."""


def find_sets(places: Sequence[Path], show: Show = lambda done, total: None) -> list[DataSet]:
    """Runs of row files, of folders of runs, and of runs.

    Raises
    ------
    OptionError
        If a place has none, or one is damaged.
    """
    counts = Counter(place.resolve() for place in places)
    return [
        DataSet(name, _find(place, show), times)
        for name, (place, times) in zip(_names(list(counts)), counts.items(), strict=True)
    ]


def _names(places: Sequence[Path]) -> list[str]:
    """A name for each: its last part, after the folder it is in where several have the same."""
    short = [place.name.removesuffix(".xz") for place in places]
    return [
        name if short.count(name) == 1 else str(place.with_name(name))
        for name, place in zip(short, places, strict=True)
    ]


def _find(place: Path, show: Show) -> list[Run]:
    if place.is_file():
        return rows.read(place)
    inside = sorted(place.iterdir()) if place.is_dir() else []
    kept = [path for path in inside if path.suffix == ".xz"]
    folders = [place] if (place / FLOWS_FILE).is_file() else _runs_of(inside)
    if not folders and not kept:
        raise OptionError(
            f"{place}: no run; wanted: a row file, a folder with captures and {FLOWS_FILE}, or a "
            "folder of either"
        )
    found: list[Run] = []
    for number, path in enumerate([*kept, *folders]):
        found += rows.read(path) if path.is_file() else [read_run(path)]
        show(number + 1, len(kept) + len(folders))
    return found


def _runs_of(inside: Sequence[Path]) -> list[Path]:
    return [path for path in inside if is_complete(path) and (path / FLOWS_FILE).is_file()]


def read_run(folder: Path) -> Run:
    """The flows of a run at each of its taps, as far as they are long enough.

    Raises
    ------
    OptionError
        If it has no captures, or `flows.tsv` lacks a column or has a line that is no flow.
    """
    captures = [path for path in sorted(folder.iterdir()) if path.name.endswith(CAPTURES)]
    if not captures:
        raise OptionError(f"{folder}: no capture; wanted: one or more, each of one tap")
    labels = _labels(folder / FLOWS_FILE)
    dice = random.Random(f"rows {folder.name}")
    found = []
    for capture, tap in zip(captures, flight_slots(captures, slot=SLOT), strict=True):
        for number, (way, label) in enumerate(labels.items()):
            series = rows_of(tap[way], dice) if way in tap else None
            if series is not None:
                place = capture.name.split(".")[0]
                found.append(Series(label, place, number, series[1], series[0]))
    return Run(folder.name, {}, found)


def _labels(path: Path) -> dict[FlowWay, str]:
    with path.open(errors="replace") as file:
        reader = csv.DictReader(file, delimiter="\t")
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise OptionError(f"{path}: no column {missing[0]}; wanted: {', '.join(COLUMNS)}")
        found = {}
        for row in reader:
            try:
                ends = [str(ip_address(row[f"{end}_ip"])) for end in ("src", "dst")]
                ports = [int(row[f"{end}_port"]) for end in ("src", "dst")]
            except (TypeError, ValueError) as error:
                wanted = "two addresses, two ports and a label"
                text = f"{path}:{reader.line_num}: {error}; wanted: {wanted}"
                raise OptionError(text) from error
            if not row["label"]:
                raise OptionError(f"{path}:{reader.line_num}: no label; wanted: one in each line")
            found[FlowWay(ends[0], ports[0], ends[1], ports[1])] = row["label"]
        return found


def rows_of(
    flow: FlightFlow, dice: random.Random,
    inputs: Sequence[str] = INPUTS, rows_max: int = ROWS_MAX,
) -> tuple[Any, float] | None:  # fmt: skip
    """Rows × inputs from any moment on, and how long a row is, in seconds; None where the flow is
    too short, or its acknowledgements are not seen."""
    row = row_slots(flow, flow.last_slot, slot=SLOT, rows_per_rtt=ROWS_PER_RTT)
    first = flow.first_slot + round(SETTLED_S * SLOTS_PER_S)
    if row is None or flow.last_slot - first < ROWS_MIN * row:
        return None
    count = min(rows_max, (flow.last_slot - first) // row)
    start = dice.randint(first, flow.last_slot - count * row)
    seen = flight_windows(flow, [start], count, row_slots=row, inputs=inputs)
    return (numpy.asarray(seen.values)[0], row / SLOTS_PER_S) if seen.missing == (None,) else None
