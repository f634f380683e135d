"""What wrong names cost: `act_picture.py RESULTS IMAGES` draws rows of `act.py`.

Jain's index of flows, throughput together and queueing delay after `--act`, against the share of
flows that are given another control than theirs; beside them nobody acting, a class for each flow,
names drawn at random and a model. Points are runs, lines their means.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from act import WRONG
from wirelens.learn import plots

ARMS = {"none": "nobody acts", "each": "a class for each flow", "random": "random names",
        "model": "a model's names"}  # fmt: skip
PANELS = (
    ("Jain's index of flows", lambda row: row["jain_after"]),
    ("Mbit/s together", lambda row: row["mbit_sum_after"]),
    ("queueing delay, ms", lambda row: statistics.mean(row["wait_ms_after"])),
)


def draw(rows: list[dict[str, Any]], folder: Path) -> Path:
    """Writes the figure; its path."""
    library, figures = plots.need_library()
    with library.rc_context(plots.STYLE):
        figure = figures.Figure(figsize=(9.5, 3.0))
        for at, (title, value) in enumerate(PANELS):
            axes = figure.add_subplot(1, len(PANELS), at + 1)
            parts = {0: "known"} | {part: f"wrong-{part}" for part in WRONG}
            means = []
            for part, arm in parts.items():
                found = [value(row) for row in rows if row["arm"] == arm]
                axes.plot([part] * len(found), found, ".", color=plots.COLOURS[0], alpha=0.5)
                means.append(statistics.mean(found))
            axes.plot(list(parts), means, color=plots.COLOURS[0], label="by file")
            for number, (arm, label) in enumerate(ARMS.items()):
                found = [value(row) for row in rows if row["arm"] == arm]
                if found:
                    axes.axhline(
                        statistics.mean(found), color=plots.COLOURS[number + 1],
                        linestyle="--", linewidth=1, label=label,
                    )  # fmt: skip
            axes.set_title(title, loc="left", fontsize=9)
            axes.set_xlabel("wrong names, %")
            axes.set_ylim(bottom=0)
            if not at:
                axes.legend(fontsize=7, loc="lower left")
        figure.tight_layout()
        return plots.save(figure, folder, "cca-act-wrong-names.png")


if __name__ == "__main__":
    kept = Path(sys.argv[1]) / "act.jsonl"
    print(draw([json.loads(line) for line in kept.read_text().splitlines()], Path(sys.argv[2])))
