"""Pictures of `docs/evaluation/l4s.md`, from rows that `predict.sh` and `example.py` kept.

    .venv/bin/python bench/evaluation/l4s/pictures.py bench/results/FOLDER docs/guide/images

Writes `l4s-example.png` (SwiftQueue's Figures 14 and 3) and `l4s-predicted.png` (its Figures 13,
16 and 17). Needs matplotlib.
"""

import json
import sys
from pathlib import Path
from typing import Any

from wirelens.learn.plots import COLOURS, STYLE, need_library, save

Row = dict[str, Any]
OURS = "causal"
NAMES = {"latency_ms": "measured", OURS: "causal", "bilstm": "LSTM"}


def read(folder: Path, name: str) -> list[Row]:
    """Rows, none where they were not made."""
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def f1(row: Row) -> float:
    return float(row["f1"]["flow"])


def example(folder: Path, images: Path) -> None:
    """Predictions along some packets, and features of packets."""
    drawing, figures = need_library()
    packets, features = read(folder, "example"), read(folder, "features")
    with drawing.rc_context(STYLE):
        figure = figures.Figure(figsize=(9, 3), layout="constrained")
        line, cloud = figure.subplots(1, 2, width_ratios=[2.4, 1])
        for (key, name), colour in zip(NAMES.items(), ["#000000", *COLOURS[:2]], strict=True):
            values = [row[key] for row in packets]
            line.plot(values, color=colour, label=name, linewidth=1.6 if key == OURS else 1.0)
        line.set_xlabel(f"packets of one flow, {packets[0]['trace']}")
        line.set_ylabel("latency, ms")
        line.set_ylim(bottom=0)
        line.legend(loc="upper right", ncols=3)
        for latency, colour in (("low", COLOURS[0]), ("high", COLOURS[5])):
            some = [row for row in features if row["latency"] == latency]
            cloud.plot([row["x"] for row in some], [row["y"] for row in some], "o", color=colour,
                       markersize=3, alpha=0.6, markeredgewidth=0,
                       label=f"{latency} latency")  # fmt: skip
        cloud.set_xlabel("first main direction")
        cloud.set_ylabel("second")
        cloud.legend(loc="best")
        save(figure, images, "l4s-example.png")


def by(axes: Any, rows: list[Row], key: str, label: str) -> None:
    """F1 of our network along an axis, by trace: each seed, and a line through their means."""
    values = sorted({row[key] for row in rows})
    for number, trace in enumerate(dict.fromkeys(row["trace"] for row in rows)):
        mine = [[f1(row) for row in rows if (row["trace"], row[key]) == (trace, value)]
                for value in values]  # fmt: skip
        colour = COLOURS[number]
        for at, some in enumerate(mine):
            axes.plot([at] * len(some), some, "o", color=colour, markersize=3, alpha=0.5)
        axes.plot([sum(some) / len(some) for some in mine], color=colour, label=trace)
    shown = [f"{value:g}" if value else "never" for value in values]
    axes.set_xticks(range(len(values)), shown)
    axes.set_xlabel(label)
    axes.set_ylim(0, 1)
    axes.legend(loc="upper right")


def predicted(folder: Path, images: Path) -> None:
    """F1 by loss, by interval of fine-tuning and by size of the batch."""
    drawing, figures = need_library()
    main = read(folder, "predict")
    ours = [row for row in main if row["predictor"] == OURS]
    with drawing.rc_context(STYLE):
        figure = figures.Figure(figsize=(9, 3), layout="constrained")
        batched = read(folder, "batch")
        panels = figure.subplots(1, 3 if batched else 2, sharey=True)
        losses, intervals = panels[:2]
        traces = list(
            dict.fromkeys(row["trace"] for row in main if row["predictor"] == f"{OURS}-mse")
        )
        shown: set[str] = set()
        for number, (name, label) in enumerate(
            [(f"{OURS}-mse", "mean squared error"), (OURS, "ours")]
        ):
            for at, trace in enumerate(traces):
                mine = [row for row in main if row["trace"] == trace]
                some = [f1(row) for row in mine if row["predictor"] == name]
                if not some:
                    continue
                place = at + 0.36 * (number - 0.5)
                losses.bar(place, sum(some) / len(some), 0.34, color=COLOURS[number],
                           label=None if label in shown else label)  # fmt: skip
                shown.add(label)
                losses.plot([place] * len(some), some, "o", color="#000000", markersize=2.5)
        losses.set_xticks(range(len(traces)), [trace.replace("-", "-\n") for trace in traces])
        losses.set_ylabel("F1 of sharp changes")
        losses.legend(loc="upper left")
        swept = {row["trace"] for row in read(folder, "every")}
        both = [row for row in ours if row["trace"] in swept]
        by(intervals, both + read(folder, "every"), "tuned_every_s", "s between fine-tunings")
        if batched:
            by(panels[2], both + batched, "batch", "packets that share a prediction")
        save(figure, images, "l4s-predicted.png")


if __name__ == "__main__":
    example(Path(sys.argv[1]), Path(sys.argv[2]))
    predicted(Path(sys.argv[1]), Path(sys.argv[2]))
