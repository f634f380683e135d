"""Pictures of the tables that paper_tables.py wrote: Figures 9, 10, 12 and 3 of ServeFlow.

    python bench/evaluation/classify/paper_plots.py RESULTS IMAGES

RESULTS is a folder of such tables, a folder a task; IMAGES is where the two pictures go.
"""

import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from wirelens.learn.plots import STYLE

# Which pairs are shown: folder, title, from, to.
PAIRS = (
    ("services", "services of many places\nboosted trees with ports, 1 to 3 packets",
     "boosted-ports/1", "boosted-ports/3"),
    ("devices", "devices\nLightGBM, 1 to 10 packets", "lightgbm/1", "lightgbm/10"),
    ("testbed", "services of the testbed\nLightGBM, 1 to 10 packets", "lightgbm/1", "lightgbm/10"),
)  # fmt: skip
WAITED = (
    ("headers-services", "services of many places"),
    ("headers-devices", "devices"),
    ("headers-testbed", "services of the testbed"),
)
_STYLES = {
    "oracle": ("black", "--"),
    "least-confidence, universal": ("#0072B2", "-"),
    "least-confidence, per-class": ("#E69F00", "-"),
    "entropy, universal": ("#009E73", "-"),
    "entropy, per-class": ("#CC79A7", "-"),
    "random": ("#777777", ":"),
}
_NAMES = {
    "oracle": "oracle: hands on the errors first",
    "least-confidence, universal": "least confident first, one threshold",
    "least-confidence, per-class": "least confident first, a threshold for each class",
    "entropy, universal": "highest entropy first, one threshold",
    "entropy, per-class": "highest entropy first, a threshold for each class",
    "random": "at random",
}
_DPI = 110


def rows_of(path: Path) -> list[dict[str, str]]:
    """A table's rows."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def draw_assignment(results: Path, path: Path) -> None:
    """A column a task: above errors that are caught, below macro-F1."""
    figure, axes = plt.subplots(2, len(PAIRS), figsize=(10, 5.6), layout="constrained", sharex=True)
    for column, (folder, title, first, second) in enumerate(PAIRS):
        rows = [
            row
            for row in rows_of(results / folder / "curves.tsv")
            if (row["from"], row["to"]) == (first, second)
        ]
        for name, (colour, line) in _STYLES.items():
            mine = [row for row in rows if row["way"] == name]
            portions = [float(row["assigned"]) for row in mine]
            for place, what in zip(axes[:, column], ("caught", "macro_f1"), strict=True):
                values = [float(row[what]) for row in mine]
                place.plot(
                    portions, values, color=colour, linestyle=line, label=_NAMES[name], lw=1.4
                )
        axes[0, column].set_title(title, fontsize=9)
        axes[1, column].set_xlabel("handed on (share of flows)")
        axes[1, column].set_xlim(0, 1)
    axes[0, 0].set_ylabel("errors that are caught (share)")
    axes[1, 0].set_ylabel("macro-F1 of both models")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=_DPI)


def draw_waiting(results: Path, path: Path) -> None:
    """When the n-th packet comes after the first: a part of flows by time, a picture a task."""
    figure, axes = plt.subplots(
        1, len(WAITED), figsize=(10, 4.2), layout="constrained", sharey=True
    )
    colours = ("#0072B2", "#009E73", "#E69F00", "#CC79A7")
    for place, (folder, title) in zip(axes, WAITED, strict=True):
        for row, colour in zip(rows_of(results / folder / "waiting.tsv"), colours, strict=False):
            _draw_wait(place, row, colour)
        place.set_xscale("log")
        place.set_xlim(0.01, 100_000)
        place.set_xlabel("ms after the first packet")
        place.set_title(title, fontsize=9)
        place.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    axes[0].set_ylabel("share of all flows")
    axes[0].set_ylim(0, 1.03)
    figure.savefig(path, dpi=_DPI)


def _draw_wait(place: Axes, row: dict[str, str], colour: str) -> None:
    part = float(row["part_of_flows"])
    quantiles = [(int(n[1:-3]), float(row[n])) for n in row if n.endswith("_ms")]
    place.plot(
        [time for _, time in quantiles],
        [part * quantile / 100 for quantile, _ in quantiles],
        color=colour,
        marker=".",
        lw=1.4,
        label=f"packet {row['packets']} ({part:.0%} of flows have it)",
    )


def main() -> None:
    """Draws both."""
    results, images = map(Path, sys.argv[1:])
    with plt.rc_context(STYLE):
        draw_assignment(results, images / "classify-assignment.png")
        draw_waiting(results, images / "classify-waiting.png")


if __name__ == "__main__":
    main()
