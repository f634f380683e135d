"""The curves of docs/evaluation/packetlog.md by hindsight, from kept rows.

.venv/bin/python bench/pages/hindsight_plot.py docs/guide/images
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from page_rows import RESULTS, ROOT

sys.path.append(str(ROOT / "bench" / "evaluation" / "packetlog"))

import hindsight
from hindsight import Outcome, Setting

ROWS = RESULTS / "2026-11-26-amd-epyc-2-cores-packetlog-hindsight-recall" / "rows.jsonl"
ATTACKS, BENIGN, STORED = "#0b7a75", "#b5483a", "#777f8c"


def curves(axes: Axes, xs: Sequence[float], found: Sequence[Outcome], line: str, of: str) -> None:
    for name, colour, values in (
        (
            "attack packets with payload in full, mean of attacks",
            ATTACKS,
            [one.attacks_long_full for one in found],
        ),
        ("benign packets with payload in full", BENIGN, [one.benign_long_full for one in found]),
        ("bytes stored, of all bytes", STORED, [one.all_bytes for one in found]),
    ):
        axes.plot(xs, values, line, color=colour, label=f"{name}{of}", markersize=4)


def finished(axes: Axes, label: str) -> None:
    axes.set_xlabel(label)
    axes.set_ylim(0, 1.02)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
    places = range(len(hindsight.SECONDS))
    none = hindsight.outcome(rows, Setting(0.0))
    for reach, line, of in (("flow", "o-", ""), ("host", "s:", ", hosts marked too")):
        found = [hindsight.outcome(rows, Setting(seconds, reach=reach))
                 for seconds in hindsight.SECONDS[1:]]  # fmt: skip
        curves(left, places, [none, *found], line, of)
    left.set_xticks(places, [f"{seconds:g}" for seconds in hindsight.SECONDS])
    left.set_ylabel("fraction")
    finished(left, "hindsight, s (0: none)")
    places = range(len(hindsight.MEMORIES_MIB) + 1)
    found = [hindsight.outcome(rows, Setting(hindsight.LONGEST_S, mib))
             for mib in hindsight.MEMORIES_MIB]  # fmt: skip
    curves(right, places, [none, *found], "o-", "")
    right.set_xticks(places, ["0", *map(str, hindsight.MEMORIES_MIB)])
    finished(right, f"memory, MiB, hindsight of {hindsight.LONGEST_S:g} s")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False, fontsize=8,
                  bbox_to_anchor=(0.5, -0.2))  # fmt: skip
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    """Draws them into the folder that the command line names."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    draw(rows, Path(sys.argv[1]) / "packetlog-hindsight.png")


if __name__ == "__main__":
    main()
