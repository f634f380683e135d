"""A picture of a congestion run: how each control fills the queue."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelens_testbed import outputs
from wirelens_testbed.failure import TestbedError

SLOT_NS = 1_000_000
# Throughput of single slots is either none or a few packets, and what acknowledgements let out in
# bursts hides the other curve; its mean over several round trips shows a shape.
THROUGHPUT_SLOTS = 500
INSTALL_HINT = (
    "plots take matplotlib: .venv/bin/python -m pip install -r tools/requirements-bench.txt"
)


@dataclass
class Series:
    """What one flow did, a value each slot of 1 ms."""

    label: str
    queued_bytes: list[int]
    arrived_bytes: list[int]


def plot(folder: Path, output: Path) -> None:
    """Draws one measured flow of each control, as Figure 1 of the Dragonfly paper does."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise TestbedError(INSTALL_HINT) from None
    by_flow = read(folder)
    labels = sorted({each.label for each in by_flow.values()})
    figure, rows = pyplot.subplots(
        len(labels) + 1, 1, figsize=(9, 2.1 * (len(labels) + 1)), sharex=True, squeeze=False
    )
    for (axis,), label in zip(rows, labels, strict=False):
        _draw_flow(axis, next(each for each in by_flow.values() if each.label == label))
    _draw_shares(rows[-1][0], by_flow, labels)
    rows[-1][0].set_xlabel("seconds")
    figure.tight_layout()
    with outputs.naming(output):
        figure.savefig(output, dpi=120)


def read(folder: Path) -> dict[int, Series]:
    """The slots of each measured flow first, then of the others, from the truth tables of a run."""
    packets, flows = folder / "packets.tsv.gz", folder / "flows.tsv"
    if not packets.exists() or not flows.exists():
        raise TestbedError(
            f"{folder}: has no packets.tsv.gz and flows.tsv; give the folder of a congestion run "
            "that was made without offloads"
        )
    with flows.open() as table:
        described = list(csv.DictReader(table, delimiter="\t"))
    described.sort(key=lambda flow: (flow["role"] != "measured", int(flow["flow"])))
    with gzip.open(packets, "rt") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    first_ns = int(rows[0]["time_ns"])
    departures = [int(row["departed_ns"]) for row in rows if row["departed_ns"]]
    slot_count = (max([*departures, int(rows[-1]["time_ns"])]) - first_ns) // SLOT_NS + 2
    changes = {int(flow["flow"]): [0] * slot_count for flow in described}
    arrivals = {int(flow["flow"]): [0] * slot_count for flow in described}
    for row in rows:
        flow, size_bytes = int(row["flow"]), int(row["bytes"])
        arrived = (int(row["time_ns"]) - first_ns) // SLOT_NS
        arrivals[flow][arrived] += size_bytes
        if row["departed_ns"]:
            changes[flow][arrived] += size_bytes
            changes[flow][(int(row["departed_ns"]) - first_ns) // SLOT_NS] -= size_bytes
    return {
        (number := int(flow["flow"])): Series(
            flow["label"], _summed(changes[number]), arrivals[number]
        )
        for flow in described
    }


def _summed(changes: list[int]) -> list[int]:
    total, sums = 0, []
    for change in changes:
        total += change
        sums.append(total)
    return sums


def _draw_flow(axis: Any, series: Series) -> None:
    seconds = [slot * SLOT_NS / 1e9 for slot in range(len(series.queued_bytes))]
    axis.plot(
        seconds,
        [size / 1000 for size in series.queued_bytes],
        color="#c0392b",
        linewidth=0.6,
        alpha=0.7,
    )
    axis.set_ylabel("kB in queue", color="#c0392b")
    axis.set_ylim(bottom=0)
    axis.set_title(f"one flow under {series.label}", loc="left", fontsize=10)
    rates = axis.twinx()
    rates.plot(seconds, _rates_mbit(series.arrived_bytes), color="#2c6fb3", linewidth=1.3)
    rates.set_ylabel(f"Mbit/s arriving,\nmean of {THROUGHPUT_SLOTS} ms", color="#2c6fb3")
    rates.set_ylim(bottom=0)


def _rates_mbit(arrived_bytes: list[int]) -> list[float]:
    window, rates, total = THROUGHPUT_SLOTS, [], 0
    for slot, size_bytes in enumerate(arrived_bytes):
        total += size_bytes - (arrived_bytes[slot - window] if slot >= window else 0)
        rates.append(total * 8 / (min(slot + 1, window) * SLOT_NS / 1e9) / 1e6)
    return rates


def _draw_shares(axis: Any, by_flow: dict[int, Series], labels: list[str]) -> None:
    slot_count = len(next(iter(by_flow.values())).queued_bytes)
    sums = []
    for label in labels:
        own = [each.queued_bytes for each in by_flow.values() if each.label == label]
        sums.append([sum(slot) / 1000 for slot in zip(*own, strict=True)])
    seconds = [slot * SLOT_NS / 1e9 for slot in range(slot_count)]
    axis.stackplot(seconds, *sums, labels=labels, alpha=0.85)
    axis.set_ylabel("kB in queue")
    axis.set_title("the whole queue, by control", loc="left", fontsize=10)
    # Above the axes, since the queue fills them.
    axis.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=len(labels), fontsize=8, frameon=False
    )
