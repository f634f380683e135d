"""Figures 2 and 4 to 8 of the paper's kind, from kept rows of `bench/evaluation/cca/quality.py`.

    .venv/bin/python bench/pages/quality_plots.py docs/guide/images

A marker is the mean over seeds, a line through it goes from the lowest to the highest seed. DeePCCI
is drawn at its best, as docs/evaluation/cca.md prints it.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import page_cca
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from page_cca import BOTH, FEWER_PACKETS, LENGTHS, Line, best_deepcci, of_line, spaced
from page_rows import Row, chosen

OURS, PEER, ALONE, GUESSING = "#0b7a75", "#b5483a", "#c58b1b", "#777f8c"
# Told apart by people who see colours differently (Okabe and Ito).
OF_CONTROLS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000"]
APART = 0.05
"""Curves stand so far beside each other that their spreads can be seen."""
# What the papers' text says; their curves are not to be had.
PAPER = {
    "heldout": {"Dragonfly": {"60s": 0.97}, "DeePCCI": {"60s": 0.75}},
    "equal": {"Dragonfly": {"10ms": 0.70}},
    "transfer": {"Dragonfly": {"100ms": 0.58, "60s": 0.85},
                 "DeePCCI": {"100ms": 0.2, "60s": 0.62}},
    "beside": {"Dragonfly": {0: 0.90, 75: 0.74}, "DeePCCI": {0: 0.77, 75: 0.56}},
}  # fmt: skip
BOTH_VOTE = Line("Dragonfly's network: 1 s and 10 s vote", "dragonfly", BOTH)
SECONDS_VOTE = Line(
    "Dragonfly's network: seconds alone vote", "dragonfly", "1s", ("1s", "10s", "60s")
)
ALONE_10S = Line("Dragonfly's network: 10 s alone", "dragonfly", "10s", ("10s",))
CBIQ = Line("Dragonfly's network, CBIQ alone", "cbiq_bytes alone", "1s")
INPUT_NAMES = ("both:\nCBIQ and\nbytes in", "CBIQ", "bytes in", "bytes out",
               "sender's\ntime\nstamps", "longest\ngap", "packets\nlost")  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """F1 of every seed, by what is drawn on the horizontal axis."""

    label: str
    colour: str
    line: str
    seeds: Sequence[Sequence[float]]

    @property
    def name(self) -> str:
        """With the number of seeds, where they are not three everywhere."""
        counts = sorted({len(values) for values in self.seeds if values})
        if counts in ([], [page_cca.SEEDS]):
            return self.label
        said = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        return f"{self.label} ({said} seed{'s' if counts[-1] > 1 else ''})"


def draw(axes: Axes, curves: Sequence[Curve]) -> None:
    for at, curve in enumerate(curves):
        shift = APART * (at - (len(curves) - 1) / 2)
        there = [(x + shift, values) for x, values in enumerate(curve.seeds) if values]
        axes.plot(
            [x for x, _ in there], [mean(values) for _, values in there], linestyle=curve.line,
            marker="o", markersize=4, color=curve.colour, label=curve.name, zorder=3,
        )  # fmt: skip
        for x, values in there:
            axes.plot([x, x], [min(values), max(values)], "-", color=curve.colour, linewidth=1.2)


def said(axes: Axes, what: str, xs: Sequence[object]) -> None:
    """The paper's figures, as crosses: of its own data."""
    for name, values in PAPER.get(what, {}).items():
        there = [(xs.index(x), f1) for x, f1 in values.items() if x in xs]
        colour = OURS if name == "Dragonfly" else PEER
        label = f"{name}: what the paper reports of its own data"
        axes.plot(*zip(*there, strict=True), "x", color=colour, markersize=8, label=label)


def guessing(axes: Axes, rows: Sequence[Row], lengths: Sequence[str]) -> None:
    """What whoever always names the most frequent control reaches."""
    means = [mean(row["f1_of_guessing"] for row in chosen(list(rows), {"duration": length}))
             for length in lengths]  # fmt: skip
    axes.plot(range(len(lengths)), means, ":", color=GUESSING, label="always the same control")


def finished(axes: Axes, ticks: Sequence[str], labels: tuple[str, str], title: str) -> Figure:
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.set_ylim(0, 1.03)
    axes.set_xlim(-0.4, len(ticks) - 0.6)
    axes.grid(axis="y", color="#e3e6ea", zorder=0)
    axes.set_title(title, fontsize=10, loc="left")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes.figure


MEAN_F1 = "F1, mean of the controls"


def by_length(rows: list[Row], what: str, title: str) -> Figure:
    lengths = [length for length in LENGTHS if chosen(rows, {"duration": length})]
    axes = plt.subplots(figsize=(6.4, 4))[1]
    lines = [(BOTH_VOTE, OURS, "-"), (SECONDS_VOTE, OURS, "--"), (ALONE_10S, OURS, ":")]
    if chosen(rows, {"network": CBIQ.network}):
        lines.append((CBIQ, ALONE, "-"))
    curves = [
        Curve(line.label, colour, form, [of_line(rows, line, length) for length in lengths])
        for line, colour, form in lines
    ]
    best = [best_deepcci(rows, length) for length in lengths]
    draw(axes, [*curves, Curve("DeePCCI, the best of its readings", PEER, "-", best)])
    guessing(axes, rows, lengths)
    said(axes, what, lengths)
    ticks = [spaced(length) for length in lengths]
    return finished(axes, ticks, ("length of the interval", MEAN_F1), title)


def by_beside(rows: list[Row], title: str) -> Figure:
    rows = [row for row in rows if row["background"] != "any"]
    counts = sorted({row["background"] for row in rows})
    of_count = [chosen(rows, {"background": count}) for count in counts]
    axes = plt.subplots(figsize=(6.4, 4))[1]
    lines = [(BOTH_VOTE, OURS, "-"), (SECONDS_VOTE, OURS, "--"), (ALONE_10S, OURS, ":")]
    curves = [
        Curve(line.label, colour, form, [of_line(some, line, "10s") for some in of_count])
        for line, colour, form in lines
    ]
    best = [best_deepcci(some, "10s") for some in of_count]
    draw(axes, [*curves, Curve("DeePCCI, the best of its readings", PEER, "-", best)])
    said(axes, "beside", counts)
    ticks = [str(count) for count in counts]
    return finished(axes, ticks, ("other flows in the queue", MEAN_F1), title)


def by_share(rows: list[Row], title: str) -> Figure:
    found = chosen(rows, {"background": "0", "duration": "10s"})
    shares = sorted({row["share"] for row in found}, reverse=True)
    of_share = [chosen(found, {"share": share}) for share in shares]
    fewer = {"shares": FEWER_PACKETS}
    lines = [
        (BOTH_VOTE, OURS, "-"),
        (ALONE_10S, OURS, ":"),
        (Line("1 s and 10 s vote, trained on fewer packets too", "dragonfly", BOTH, more=fewer),
         ALONE, "-"),
        (Line("10 s alone, trained on fewer packets too", "dragonfly", "10s", more=fewer), ALONE, ":"),
    ]  # fmt: skip
    axes = plt.subplots(figsize=(6.4, 4))[1]
    curves = [
        Curve(line.label, colour, form, [of_line(some, line, "10s") for some in of_share])
        for line, colour, form in lines
    ]
    best = [best_deepcci(some, "10s") for some in of_share]
    draw(axes, [*curves, Curve("DeePCCI, the best of its readings", PEER, "-", best)])
    ticks = [f"{1 - share:.0%}" for share in shares]
    return finished(axes, ticks, ("packets not sampled", MEAN_F1), title)


def by_control(rows: list[Row], title: str) -> Figure:
    axes = plt.subplots(figsize=(6.4, 4))[1]
    curves = []
    for control, colour in zip(sorted(rows[0]["f1_each"]), OF_CONTROLS, strict=True):
        seeds = []
        for length in LENGTHS:
            votes_of = length if length in page_cca.SHORTER else BOTH
            where = {"network": "dragonfly", "duration": length, "votes_of": votes_of}
            seeds.append([row["f1_each"][control] for row in chosen(rows, where)])
        curves.append(Curve(control, colour, "-", seeds))
    draw(axes, curves)
    ticks = [spaced(length) for length in LENGTHS]
    return finished(axes, ticks, ("length of the interval", "F1 of each control"), title)


def by_input(rows: list[Row], title: str) -> Figure:
    axes = plt.subplots(figsize=(7.4, 4))[1]
    where = {"duration": "100ms", "votes_of": "100ms"}
    seeds = [
        page_cca.f1(chosen(rows, {**where, "network": network}))
        for network in page_cca.INPUTS.values()
    ]
    single = [values if at else [] for at, values in enumerate(seeds)]
    both = [values if not at else [] for at, values in enumerate(seeds)]
    curves = [
        Curve("what ships", OURS, "none", both),
        Curve("one input alone", ALONE, "none", single),
    ]
    draw(axes, curves)
    return finished(axes, INPUT_NAMES, ("input", MEAN_F1), title)


def figures() -> dict[str, Figure]:
    """Each picture by the name of its file."""
    heldout, transfer = (page_cca.whole("rows", name) for name in ("heldout", "transfer"))
    equal = [row for row in page_cca.rows("equal") if page_cca.shares(row) == page_cca.ALL_PACKETS]
    of_all = [row for row in equal if (row["share"], row["background"]) == (1, "any")]
    beside = [row for row in page_cca.rows("rows") if (row["test"], row["share"]) == ("heldout", 1)]
    equal_beside = [row for row in equal if row["share"] == 1]
    seven = page_cca.whole("seven", "seven")
    return {
        "cca-by-duration": by_length(heldout, "heldout", "Held-out runs (the paper's Figure 4)"),
        "cca-transfer": by_length(
            transfer, "transfer", "Another link, shaper and delays (the paper's Figure 8)"
        ),
        "cca-equal-by-duration": by_length(
            of_all, "equal", "Equal round trips (the paper's Figure 5)"
        ),
        "cca-by-background": by_beside(
            beside, "Intervals of 10 s of held-out runs (the paper's Figure 6)"
        ),
        "cca-equal-by-background": by_beside(
            equal_beside, "Intervals of 10 s, equal round trips (the paper's Figure 6)"
        ),
        "cca-by-share": by_share(
            page_cca.rows("equal"), "Intervals of 10 s, no other flow (the paper's Figure 7)"
        ),
        "cca-by-input": by_input(heldout, "Intervals of 100 ms, by input (the paper's Figure 2)"),
        "cca-by-control": by_control(seven, "Seven controls in one queue, held-out runs"),
    }


def main() -> None:
    """The command line above."""
    folder = Path(sys.argv[1])
    for name, figure in figures().items():
        figure.savefig(folder / f"{name}.png", dpi=110, bbox_inches="tight")
        plt.close(figure)


if __name__ == "__main__":
    main()
