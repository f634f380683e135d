"""Figures 2 and 4 to 8 of the paper's kind, from rows of `bench/cca/quality.py`.

    .venv/bin/python bench/cca/quality_plots.py FOLDER docs/guide/images

FOLDER holds `rows.jsonl`, and `equal.jsonl` and `seven.jsonl` of those data sets.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from drawn import SINGLE
from matplotlib.axes import Axes
from quality import BOTH, SAMPLED, Row, read_rows, row_name
from wirelens.classify.typed import time_us

OURS, PEER, ALONE, GUESSING = "#0b7a75", "#b5483a", "#d9a441", "#8d99ae"
ALONE_AT = "100ms"
SHORTER = ("10ms", "100ms", "1s")
"""Lengths at which one network tells alone, whatever votes later."""
MIXED = "trained on 100%, 10%, 1% of packets"
BOTH_VOTE = f"votes of {BOTH}"
STYLES = {
    f"dragonfly, {BOTH_VOTE}": (OURS, "-", "Dragonfly's network, 1 s and 10 s vote"),
    "dragonfly, votes of 1s": (OURS, "--", "Dragonfly's network, 1 s votes"),
    "dragonfly": (OURS, ":", "Dragonfly's network for each length"),
    f"deepcci, {BOTH_VOTE}": (PEER, "-", "DeePCCI, 1 s and 10 s vote"),
    "deepcci, votes of 1s": (PEER, "--", "DeePCCI, 1 s votes"),
    "deepcci": (PEER, ":", "DeePCCI for each length"),
    "cbiq_bytes alone": (ALONE, "-", "Dragonfly's network, CBIQ alone"),
    f"dragonfly, {BOTH_VOTE}, {MIXED}": (ALONE, "-", "Dragonfly's, 1 s and 10 s vote, trained on fewer"),
    f"dragonfly, {MIXED}": (ALONE, ":", "Dragonfly's for each length, trained on fewer"),
}
PLAIN = [name for name in STYLES if MIXED not in name]
# What the papers' text says; their curves are not to be had.
PAPER = {
    "heldout": {"dragonfly": {"60s": 0.97}, "deepcci": {"60s": 0.75}},
    "equal": {"dragonfly": {"10ms": 0.70}},
    "transfer": {"dragonfly": {"100ms": 0.58, "60s": 0.85},
                 "deepcci": {"100ms": 0.2, "60s": 0.62}},
    "by background": {"dragonfly": {0: 0.90, 75: 0.74}, "deepcci": {0: 0.77, 75: 0.56}},
}  # fmt: skip


def curve(axes: Axes, rows: list[Row], name: str, xs: list[Any], key: str) -> None:
    """Mean over seeds, and every seed as a dot. Votes begin where there is one."""
    colour, line, label = STYLES[name]
    whole, _, voters = name.partition(", votes of ")

    def belongs(row: Row) -> bool:
        is_shorter = key == "duration" and bool(voters) and row["duration"] in SHORTER
        return row_name(row) == name or (is_shorter and row_name(row) == whole)

    points = {x: [row["f1"] for row in rows if row[key] == x and belongs(row)] for x in xs}
    there = [at for at, x in enumerate(xs) if points[x]]
    if not there:
        return
    means = [sum(points[xs[at]]) / len(points[xs[at]]) for at in there]
    axes.plot(there, means, line, marker="o", color=colour, markersize=4, label=label, zorder=3)
    for at in there:
        values = points[xs[at]]
        axes.plot([at] * len(values), values, ".", color=colour, markersize=3, alpha=0.6)


def guessing(axes: Axes, rows: list[Row], xs: list[Any], key: str) -> None:
    """What whoever always tells the most frequent control reaches."""
    found = [[row["f1_of_guessing"] for row in rows if row[key] == x] for x in xs]
    there = [at for at, values in enumerate(found) if values]
    means = [sum(found[at]) / len(found[at]) for at in there]
    axes.plot(there, means, ":", color=GUESSING, label="always the same")


def said(axes: Axes, what: str, xs: list[Any]) -> None:
    """The paper's figures, as crosses: of its own data."""
    for name, values in PAPER[what].items():
        there = [(xs.index(x), f1) for x, f1 in values.items() if x in xs and f1 is not None]
        of = {"dragonfly": "Dragonfly", "deepcci": "DeePCCI"}[name]
        axes.plot(
            *zip(*there, strict=True), "x", color=STYLES[name][0], markersize=8,
            label=f"{of}, the paper's own data",
        )  # fmt: skip


def finish(axes: Axes, xs: list[str], label: str, title: str, path: Path) -> None:
    axes.set_xticks(range(len(xs)), xs)
    axes.set_xlabel(label)
    axes.set_ylabel("F1, mean of controls")
    axes.set_ylim(0, 1)
    axes.grid(axis="y", color="#e3e6ea", zorder=0)
    axes.set_title(title, fontsize=10, loc="left")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure = axes.figure
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def new() -> Axes:
    return plt.subplots(figsize=(6.4, 3.8))[1]


def by_duration(rows: list[Row], test: str, title: str, path: Path) -> None:
    whole = [
        row for row in rows
        if (row["test"], row["background"], row["share"]) == (test, "any", 1)
    ]  # fmt: skip
    durations = sorted({row["duration"] for row in whole}, key=time_us)
    axes = new()
    for name in PLAIN:
        curve(axes, whole, name, durations, "duration")
    guessing(axes, whole, durations, "duration")
    said(axes, test, durations)
    finish(axes, durations, "length of the interval", title, path)


def by_background(rows: list[Row], title: str, path: Path) -> None:
    some = [
        row for row in rows
        if (row["duration"], row["share"]) == (SAMPLED, 1)
        and row["background"] != "any"
    ]  # fmt: skip
    counts = sorted({row["background"] for row in some})
    axes = new()
    for name in PLAIN:
        curve(axes, some, name, counts, "background")
    said(axes, "by background", counts)
    finish(axes, [str(count) for count in counts], "flows beside", title, path)


def by_share(rows: list[Row], path: Path) -> None:
    some = [row for row in rows if (row["duration"], row["background"]) == (SAMPLED, 0)]
    shares = sorted({row["share"] for row in some}, reverse=True)
    axes = new()
    for name in STYLES:
        if "votes of 1s" not in name or BOTH_VOTE in name:
            curve(axes, some, name, shares, "share")
    title = "Intervals of 10 s, no flow beside, packets left out by chance (Figure 7)"
    left_out = [f"{1 - share:.0%}" for share in shares]
    finish(axes, left_out, "packets left out", title, path)


def by_control(rows: list[Row], path: Path) -> None:
    some = [
        row for row in rows
        if row["network"] == "dragonfly" and row["background"] == "any"
        and (row["duration"] in SHORTER or row["votes_of"] == BOTH)
    ]  # fmt: skip
    durations = sorted({row["duration"] for row in some}, key=time_us)
    axes = new()
    for control in sorted(some[0]["f1_each"]):
        of_control = [
            [row["f1_each"][control] for row in some if row["duration"] == duration]
            for duration in durations
        ]
        means = [sum(values) / len(values) for values in of_control]
        axes.plot(range(len(durations)), means, "-", marker="o", markersize=4, label=control)
    title = "Seven controls beside each other, each F1, runs never seen"
    finish(axes, durations, "length of the interval", title, path)


def by_input(rows: list[Row], path: Path) -> None:
    names = [f"{name} alone" for name in SINGLE]
    found = [
        [
            row["f1"] for row in rows
            if (row_name(row), row["test"], row["duration"]) == (name, "heldout", ALONE_AT)
            and (row["background"], row["share"]) == ("any", 1)
        ]
        for name in names
    ]  # fmt: skip
    axes = new()
    heights = [sum(values) / len(values) if values else 0 for values in found]
    label = f"intervals of {ALONE_AT}"
    axes.bar(range(len(names)), heights, 0.6, zorder=2, color=OURS, label=label)
    title = "Each of the six inputs alone, runs never seen (Figure 2)"
    ticks = ["\n".join(name.split("_")[:-1] or [name]) for name in SINGLE]
    finish(axes, ticks, "input", title, path)


def main() -> None:
    """The command line above."""
    data, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rows, equal, seven = (read_rows(data / f"{name}.jsonl") for name in ("rows", "equal", "seven"))
    by_duration(rows, "heldout", "Runs never seen, by length of the interval (Figure 4)",
                folder / "cca-by-duration.png")  # fmt: skip
    by_duration(rows, "transfer", "Another link, shaper and delays, never trained on (Figure 8)",
                folder / "cca-transfer.png")  # fmt: skip
    by_duration(equal, "equal", "Equal round trips, by length of the interval (Figure 5)",
                folder / "cca-equal-by-duration.png")  # fmt: skip
    beside = "by flows beside (Figure 6)"
    by_background([row for row in rows if row["test"] == "heldout"],
                  f"Intervals of 10 s of runs never seen, {beside}",
                  folder / "cca-by-background.png")  # fmt: skip
    by_background(equal, f"Intervals of 10 s, equal round trips, {beside}",
                  folder / "cca-equal-by-background.png")  # fmt: skip
    by_share(equal, folder / "cca-by-share.png")
    by_input(rows, folder / "cca-by-input.png")
    by_control(seven, folder / "cca-by-control.png")


if __name__ == "__main__":
    main()
