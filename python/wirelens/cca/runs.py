"""Runs of the testbed's congestion scenarios, as flows at two taps with the control that each ran."""

import csv
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelens.cca import packed
from wirelens.cca.packed import Member, PackedRun
from wirelens.cca.slots import FlowWay, TapFlow, tap_slots
from wirelens.errors import OptionError
from wirelens.learn.testbed_runs import is_complete

PACKED = ".xz"
BEFORE, AFTER = "before.pcapng", "after.pcapng"
# Captures that ship are compressed.
_SUFFIXES = ("", ".gz", ".zst")
_COLUMNS = ("src_ip", "src_port", "dst_ip", "dst_port", "label", "role", "rtt_ms")


@dataclass(frozen=True)
class Flow:
    """A flow whose control is known."""

    member: Member
    before: TapFlow
    after: TapFlow

    @property
    def is_background(self) -> bool:
        """It is there for others to compete with."""
        return self.member.is_background


@dataclass(frozen=True)
class Run:
    """What is known of a run, without its packets."""

    path: Path
    rate_mbit: float
    buffer_bytes: int
    members: Sequence[Member]

    @property
    def background(self) -> int:
        """Flows that are there for others to compete with."""
        return sum(member.is_background for member in self.members)

    def flows(
        self, *, with_background: bool = False, slot: str = "1ms", share: float = 1.0, seed: int = 0
    ) -> list[Flow]:
        """Its flows, cut into slots.

        Parameters
        ----------
        with_background
            Also those that are there for others to compete with.
        slot, share, seed
            As `wirelens.cca.tap_slots` has them.
        """
        taps = [_capture(self.path, name) for name in (BEFORE, AFTER)]
        before, after = tap_slots(taps, slot=slot, share=share, seed=seed)
        found = []
        for row, member in zip(_rows(self.path / "flows.tsv"), self.members, strict=True):
            source, destination = row["src_ip"], row["dst_ip"]
            way = FlowWay(source, int(row["src_port"]), destination, int(row["dst_port"]))
            # A flow all of whose packets were not sampled, or lost, tells nothing.
            if way in before and way in after:
                found.append(Flow(member, before[way], after[way]))
        return [flow for flow in found if with_background or not flow.is_background]


AnyRun = Run | PackedRun
"""With packets, or without."""


def find_runs(places: Sequence[Path]) -> list[AnyRun]:
    """Runs in folders, or folders of runs, in the order of their names; and those of slot files, or
    of folders of slot files.

    Raises
    ------
    OptionError
        If there is none, or a file is damaged.
    """
    found: list[AnyRun] = []
    for place in places:
        files = [place] if place.is_file() else sorted(_inside(place, f"*{PACKED}"))
        if files:
            found += [run for file in files for run in packed.read(file)]
            continue
        folders = [place] if _is_run(place) else sorted(filter(_is_run, _inside(place, "*")))
        if not folders:
            raise OptionError(
                f"{place}: not a run of a congestion scenario; wanted: the output of "
                "`wirelens testbed run testbed/scenarios/congestion.toml` leaves"
            )
        found += [_read(folder) for folder in folders]
    return found


def range_of(runs: Sequence[AnyRun]) -> dict[str, Sequence[float]]:
    """From what to what runs go, as a model says it: flows, rate, queue and round trips."""
    found: dict[str, list[float]] = {
        "flows": [len(run.members) for run in runs],
        "rate_bit": [run.rate_mbit * 1e6 for run in runs],
        "queue_s": [run.buffer_bytes * 8 / (run.rate_mbit * 1e6) for run in runs],
        "rtt_s": [member.rtt_ms / 1e3 for run in runs for member in run.members],
    }
    return {name: [min(numbers), max(numbers)] for name, numbers in found.items()}


def confidence_max(runs: Sequence[AnyRun]) -> float:
    """How sure one may be who was judged by these: by the rule of succession, right for all of
    their measured flows, and never above 0.99."""
    count = sum(member.role == "measured" for run in runs for member in run.members)
    return min(0.99, (count + 1) / (count + 2))


def _inside(place: Path, named: str) -> Iterator[Path]:
    return place.glob(named) if place.is_dir() else iter(())


def _is_run(folder: Path) -> bool:
    scenario = folder / "scenario.toml"
    if not is_complete(folder) or not scenario.is_file():
        return False
    return _scenario(scenario).get("kind") == "congestion"


def _read(folder: Path) -> Run:
    path = folder / "scenario.toml"
    try:
        link = _scenario(path)["link"]
        rate_mbit, buffer_bytes = float(link["rate_mbit"]), int(link["buffer_bytes"])
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(
            f"{path}: {error}; wanted: a drawn scenario, with link.rate_mbit and link.buffer_bytes"
        ) from error
    path = folder / "flows.tsv"
    try:
        members = [
            Member(row["label"], row["role"], float(row["rtt_ms"])) for row in _rows(path)
        ]
    except (TypeError, ValueError) as error:
        raise OptionError(f"{path}: {error}; wanted: numbers in rtt_ms") from error
    return Run(folder, rate_mbit, buffer_bytes, members)


def _scenario(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OptionError(f"{path}: no TOML: {error}") from error


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        reader = csv.DictReader(file, delimiter="\t")
        missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise OptionError(f"{path}: no column {missing[0]}; wanted: {', '.join(_COLUMNS)}")
        return list(reader)


def _capture(folder: Path, name: str) -> Path:
    for suffix in _SUFFIXES:
        path = folder / (name + suffix)
        if path.exists():
            return path
    raise OptionError(f"{folder}: no {name}; wanted: a run with its captures")
