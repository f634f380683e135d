"""Runs to pictures: every run a dot, quartiles a line, the median a stroke.

Rates span orders of magnitude, so axes are logarithmic. There are no bars: one on such an axis has
no zero to stand on, and its length means nothing.
"""

import re
from pathlib import Path
from statistics import quantiles

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter
from table import Line, Run, lines, number, rate

OURS, PAPER, PEER, REFERENCE = "#0b7a75", "#b5483a", "#8d99ae", "#d9a441"
KINDS = {"Wirelens": OURS, "the paper's design": PAPER, "tuned loop": REFERENCE, "peers": PEER}

IN_LEGEND = {"tuned loop": "tuned loop (C++, made for this task alone)"}
NARROW = 100
"""An axis of less than two orders of magnitude has figures at 2 and 5, too."""


def kind(name: str) -> str:
    lower = name.lower()
    if lower.startswith("wirelens") or "chunks of" in lower:
        return "Wirelens"
    if lower.startswith("paper") or lower == "own":
        return "the paper's design"
    if lower.startswith("tuned"):
        return "tuned loop"
    return "peers"


def spreads(
    axes: Axes, found: list[Line], runs: list[Run], clock: str, span: tuple[float, float]
) -> None:
    """A row a program, the first on top; median, lowest and highest in figures."""
    axes.set_xscale("log")
    for at, line in enumerate(found):
        rates = rates_of(line, runs, clock)
        colour = KINDS[kind(line.name)]
        low, middle, high = quartiles(rates)
        axes.plot([low, high], [at, at], color=colour, linewidth=7, alpha=0.35, zorder=2,
                  solid_capstyle="butt")  # fmt: skip
        axes.plot(rates, [at] * len(rates), ".", color=colour, markersize=4, zorder=3)
        axes.plot([middle], [at], "|", color="black", markersize=12, zorder=4)
        axes.annotate(
            in_figures(rates), (max(rates), at), xytext=(6, 0), textcoords="offset points",
            va="center", fontsize=8,
        )  # fmt: skip
    axes.set_xlim(*span)
    axes.set_yticks(range(len(found)), [explained(line.name) for line in found], fontsize=8.5)
    axes.set_ylim(len(found) - 0.4, -0.6)
    if span[1] / span[0] > NARROW:
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.xaxis.set_minor_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(axis="x", which="major", color="#e3e6ea", zorder=0)
    axes.tick_params(axis="x", which="both", labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def rates_of(line: Line, runs: list[Run], clock: str) -> list[float]:
    """Of every run of a line, millions a second."""
    key = (line.figure, line.group, line.name)
    return [rate(run, clock) for run in runs if (run["figure"], run["group"], run["name"]) == key]


def quartiles(rates: list[float]) -> tuple[float, float, float]:
    if len(rates) < 2:
        return rates[0], rates[0], rates[0]
    low, middle, high = quantiles(rates, n=4, method="inclusive")
    return low, middle, high


def in_figures(rates: list[float]) -> str:
    """`13.2 (2.29–23.4)`: the median alone says little where runs lie far apart."""
    middle = quartiles(rates)[1]
    return f"{number(middle)} ({number(min(rates))}–{number(max(rates))})"


def explained(name: str) -> str:
    """What a row's name leaves to guess: r is the paper's letter."""
    name = re.sub(r"\br=(\d)", lambda found: f"{found[1]} replica{'s' * (found[1] != '1')}", name)
    name = re.sub(
        r"threads=(\d)", lambda found: f"{found[1]} thread{'s' * (found[1] != '1')}", name
    )
    return {"own": "own (the paper's description)"}.get(name, name)


def span(found: list[Line], runs: list[Run], clock: str) -> tuple[float, float]:
    """Where a log axis begins and ends: all runs, and room for figures on the right."""
    rates = [one for line in found for one in rates_of(line, runs, clock)]
    return min(rates) / 1.6, max(rates) * (max(rates) / min(rates)) ** 0.42 * 1.8


def finish(
    figure: plt.Figure, found: list[Line], title: str, facts: dict[str, object], path: Path
) -> None:
    machine = f"{facts['cpu']}, {facts['cores']} cores, load {facts['load_before'][0]:.1f}"
    note = (
        f"{facts['rounds']} rounds; dots: single runs; line: quartiles; stroke and first figure: median "
        f"(lowest–highest); log scale; {machine}"
    )
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    figure.text(0.01, 0.005, note, fontsize=7.5, color="#555555")
    met = {kind(line.name) for line in found}
    shown = {name: colour for name, colour in KINDS.items() if name in met}
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in shown.values()]
    figure.legend(
        handles, [IN_LEGEND.get(name, name) for name in shown], loc="lower right",
        ncols=len(shown), fontsize=8, frameon=False,
        bbox_to_anchor=(1, 0.22 / figure.get_size_inches()[1]),
    )  # fmt: skip
    figure.savefig(path, dpi=140)
    plt.close(figure)


def both_clocks(figure_name: str, title: str, runs: list[Run], facts: dict[str, object],
                path: Path) -> None:  # fmt: skip
    """Two panels: per second of processor time, and on the wall."""
    of_figure = [run for run in runs if run["figure"] == figure_name]
    found = lines(of_figure)
    if not found:
        return
    figure, panels = plt.subplots(
        1, 2, figsize=(12.5, 1.9 + 0.32 * len(found)), sharey=True, layout="constrained"
    )
    below = 0.6 / (1.9 + 0.32 * len(found))
    figure.get_layout_engine().set(rect=(0, below, 1, 1 - below))
    clocks = (("cpu_s", "million per core-second"), ("wall_s", "million per second, wall"))
    for axes, (clock, label) in zip(panels, clocks, strict=True):
        spreads(axes, found, of_figure, clock, span(found, of_figure, clock))
        axes.set_xlabel(label, fontsize=9)
    panels[1].tick_params(axis="y", length=0)
    finish(figure, found, title, facts, path)


def by_input(figure_name: str, title: str, runs: list[Run], facts: dict[str, object],
             path: Path) -> None:  # fmt: skip
    """A row of panels for each form of the input, a column for each input."""
    of_figure = [run for run in runs if run["figure"] == figure_name]
    found = lines(of_figure)
    if not found:
        return
    by_group: dict[str, list[Line]] = {}
    for line in found:
        by_group.setdefault(line.group, []).append(line)
    inputs, forms = (list(dict.fromkeys(part)) for part in zip(*map(split, by_group), strict=True))
    heights = [max(len(by_group.get(f"{name}, {form}", [])) for name in inputs) for form in forms]
    heights = [height + 1.2 for height in heights]
    figure, panels = plt.subplots(
        len(forms), len(inputs), figsize=(2.2 + 6.5 * len(inputs), 1.5 + 0.3 * sum(heights)),
        sharex=True, squeeze=False, height_ratios=heights, layout="constrained",
    )  # fmt: skip
    below = 0.6 / (1.5 + 0.3 * sum(heights))
    figure.get_layout_engine().set(rect=(0, below, 1, 1 - below))
    for row, form in enumerate(forms):
        for axes, name in zip(panels[row], inputs, strict=True):
            of_group = by_group.get(f"{name}, {form}")
            if of_group is None:
                axes.set_axis_off()
                continue
            spreads(axes, of_group, of_figure, "cpu_s", span(found, of_figure, "cpu_s"))
            axes.set_title(f"{name}, {form}", fontsize=9.5, loc="left")
    for axes in panels[-1]:
        axes.set_xlabel("million packets per core-second", fontsize=9)
    finish(figure, found, title, facts, path)


def split(group: str) -> tuple[str, str]:
    name, form = group.split(", ", 1)
    return name, form


def draw_all(runs: list[Run], facts: dict[str, object], folder: Path) -> None:
    title = "Integers through one queue, two threads (Figure 3)"
    both_clocks("fig3", title, runs, facts, folder / "fig3.png")
    title = "Packets and bytes by source over records in memory (Figure 4)"
    both_clocks("fig4", title, runs, facts, folder / "fig4.png")
    title = "Packets and bytes by source, whole programs and engines on parsed columns"
    by_input("top", title, runs, facts, folder / "top.png")
    by_input("flows", "Flows from a capture, whole programs", runs, facts, folder / "flows.png")
