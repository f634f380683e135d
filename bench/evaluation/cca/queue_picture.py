"""Draws docs/guide/images/cca-queue.png: what `wirelens cca` measures on the captures that ship.

    .venv/bin/python bench/evaluation/cca/queue_picture.py

Three flows share a queue of 100 kB at 20 Mbit/s for three seconds. Each curve is the number of
bytes that one flow has in the queue, measured by `wirelens cca` from two captures, upstream and
downstream of the queue. The legend names the congestion control that each sender was configured
with (flows.tsv of the run), which is the truth and no output of a model.
"""

from __future__ import annotations

import csv
import io
import subprocess
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[3]
RUN = REPOSITORY / "testdata/testbed/congestion"
PICTURE = REPOSITORY / "docs/guide/images/cca-queue.png"
BUFFER_BYTES = 100_000
PERIOD_MS = 20
COLORS = {"BBR": "#3b75af", "CUBIC": "#ee8a3c", "Reno": "#579d4d"}
NAMES = {"bbr": "BBR", "cubic": "CUBIC", "reno": "Reno"}


def measured() -> list[dict[str, str]]:
    """One row per flow and period, as the command prints them."""
    command = [
        str(REPOSITORY / "target/release/wirelens"), "cca", "-q",
        "-r", str(RUN / "before.pcapng.gz"), "--egress", str(RUN / "after.pcapng.gz"),
        "--every", f"{PERIOD_MS}ms", "--format", "csv",
    ]  # fmt: skip
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(printed)))


def controls() -> dict[str, str]:
    """The congestion control of each flow, by Community ID."""
    with (RUN / "flows.tsv").open() as table:
        flows = csv.DictReader(table, delimiter="\t")
        return {flow["community_id"]: NAMES[flow["label"]] for flow in flows}


def draw(rows: list[dict[str, str]], names: dict[str, str], picture: Path) -> None:
    """Stacks the flows' bytes in the queue over time, in kB."""
    starts = sorted({int(row["start_ns"]) for row in rows})
    place = {start: index for index, start in enumerate(starts)}
    stacked = {name: [0.0] * len(starts) for name in COLORS}
    for row in rows:
        name = names[row["community_id"]]
        stacked[name][place[int(row["start_ns"])]] = float(row["cbiq_bytes"] or 0) / 1000
    seconds = [(start - starts[0]) / 1e9 for start in starts]
    figure, axis = pyplot.subplots(figsize=(9, 2.9))
    axis.stackplot(
        seconds, *stacked.values(), labels=list(stacked), colors=list(COLORS.values()), step="post"
    )
    axis.axhline(BUFFER_BYTES / 1000, color="#555555", linewidth=0.9, linestyle="--")
    axis.annotate(
        "buffer, 100 kB", (seconds[-1], BUFFER_BYTES / 1000), xytext=(0, 3),
        textcoords="offset points", ha="right", fontsize=8, color="#555555",
    )  # fmt: skip
    axis.set(xlabel="time, seconds", ylabel="bytes in the queue, kB", ylim=(0, 118))
    axis.set_xlim(seconds[0], seconds[-1])
    axis.set_title("Queue occupancy by flow, measured by wirelens cca", loc="left", fontsize=10)
    axis.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=len(stacked), fontsize=8, frameon=False
    )
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    draw(measured(), controls(), PICTURE)
