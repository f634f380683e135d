"""Runs of the testbed's congestion scenarios, as flows at two taps with the control that each ran."""

import csv
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wirelens.cca.slots import FlowWay, TapFlow, tap_slots
from wirelens.errors import OptionError

BEFORE, AFTER = "before.pcapng", "after.pcapng"
# Captures that ship are compressed.
_SUFFIXES = ("", ".gz", ".zst")


@dataclass(frozen=True)
class Flow:
    """A flow whose control is known."""

    control: str
    rtt_ms: float
    is_background: bool
    before: TapFlow
    after: TapFlow


@dataclass(frozen=True)
class Run:
    """What is known of a run, without its packets."""

    path: Path
    rate_mbit: float
    buffer_bytes: int
    background: int
    """Flows that are there for others to compete with."""

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
        for row in _rows(self.path / "flows.tsv"):
            is_background = row["role"] == "background"
            source, destination = row["src_ip"], row["dst_ip"]
            way = FlowWay(source, int(row["src_port"]), destination, int(row["dst_port"]))
            # A flow all of whose packets were not sampled, or lost, tells nothing.
            if (is_background and not with_background) or way not in before or way not in after:
                continue
            flow = Flow(row["label"], float(row["rtt_ms"]), is_background, before[way], after[way])
            found.append(flow)
        return found


def find_runs(places: Sequence[Path]) -> list[Run]:
    """Runs in folders, or folders of runs, in the order of their names.

    Raises
    ------
    OptionError
        If there is none.
    """
    found = []
    for place in places:
        folders = [place] if _is_run(place) else sorted(filter(_is_run, _inside(place)))
        if not folders:
            raise OptionError(
                f"{place}: not a run of a congestion scenario; wanted: the output of "
                "`wirelens testbed run testbed/scenarios/congestion.toml` leaves"
            )
        found += [_read(folder) for folder in folders]
    return found


def range_of(runs: Sequence[Run]) -> dict[str, Sequence[float]]:
    """From what to what runs go, as a model says it: flows, rate, queue and round trips."""
    flows = [_rows(run.path / "flows.tsv") for run in runs]
    found: dict[str, list[float]] = {
        "flows": [len(rows) for rows in flows],
        "rate_bit": [run.rate_mbit * 1e6 for run in runs],
        "queue_s": [run.buffer_bytes * 8 / (run.rate_mbit * 1e6) for run in runs],
        "rtt_s": [float(row["rtt_ms"]) / 1e3 for rows in flows for row in rows],
    }
    return {name: [min(numbers), max(numbers)] for name, numbers in found.items()}


def confidence_max(runs: Sequence[Run]) -> float:
    """How sure one may be who was judged by these: by the rule of succession, right for all of
    their measured flows, and never above 0.99."""
    count = sum(row["role"] == "measured" for run in runs for row in _rows(run.path / "flows.tsv"))
    return min(0.99, (count + 1) / (count + 2))


def _inside(place: Path) -> Iterator[Path]:
    return place.iterdir() if place.is_dir() else iter(())


def _is_run(folder: Path) -> bool:
    scenario = folder / "scenario.toml"
    if folder.suffix in (".partial", ".rejected") or not scenario.is_file():
        return False
    return tomllib.loads(scenario.read_text()).get("kind") == "congestion"


def _read(folder: Path) -> Run:
    scenario = tomllib.loads((folder / "scenario.toml").read_text())
    link = scenario["link"]
    background = sum(row["role"] == "background" for row in _rows(folder / "flows.tsv"))
    return Run(folder, float(link["rate_mbit"]), int(link["buffer_bytes"]), background)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _capture(folder: Path, name: str) -> Path:
    for suffix in _SUFFIXES:
        path = folder / (name + suffix)
        if path.exists():
            return path
    raise OptionError(f"{folder}: no {name}; wanted: a run with its captures")
