"""Runs to pictures: one bar a program, medians, with every run as a dot."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from table import Line, Run, lines, number, rate

OURS, PAPER, PEER, REFERENCE = "#0b7a75", "#b5483a", "#8d99ae", "#d9a441"
WALL = "#d5dbe3"
KINDS = {"Wirelens": OURS, "the paper's design": PAPER, "tuned loop": REFERENCE, "peers": PEER}


def kind(name: str) -> str:
    lower = name.lower()
    if lower.startswith("wirelens") or "chunks of" in lower:
        return "Wirelens"
    if lower.startswith("paper") or lower == "own":
        return "the paper's design"
    if lower.startswith("tuned"):
        return "tuned loop"
    return "peers"


def bars(
    axes: Axes, found: list[Line], runs: list[Run], clock: str, span: tuple[float, float]
) -> None:
    """Horizontal bars, the first on top; a median in figures, every run a dot."""
    axes.set_xscale("log")
    medians = [line.core_median if clock == "cpu_s" else line.wall_median for line in found]
    low, high = span
    for at, (line, value) in enumerate(zip(found, medians, strict=True)):
        axes.barh(at, value - low, left=low, height=0.68, color=KINDS[kind(line.name)], zorder=2)
        same = [run for run in runs if run["name"] == line.name and run["group"] == line.group]
        rates = [rate(run, clock) for run in same if run["figure"] == line.figure]
        axes.plot(rates, [at] * len(rates), ".", color="black", markersize=3.5, zorder=3)
        end = max([value, *rates])
        axes.annotate(
            number(value), (end, at), xytext=(5, 0), textcoords="offset points", va="center",
            fontsize=8,
        )  # fmt: skip
    axes.set_xlim(low, high)
    axes.set_yticks(range(len(found)), [line.name for line in found], fontsize=8.5)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(axis="x", which="major", color="#e3e6ea", zorder=0)
    axes.tick_params(axis="x", labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def span(found: list[Line], clock: str) -> tuple[float, float]:
    """Where a log axis begins and ends: bars have no zero to stand on."""
    medians = [line.core_median if clock == "cpu_s" else line.wall_median for line in found]
    return min(medians) / 4, max(medians) * 4


def finish(
    figure: plt.Figure, found: list[Line], title: str, facts: dict[str, object], path: Path
) -> None:
    machine = f"{facts['cpu']}, {facts['cores']} cores, load {facts['load_before'][0]:.1f}"
    note = f"median of {facts['rounds']} rounds; dots are single runs; log scale; {machine}"
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    figure.text(0.01, 0.005, note, fontsize=7.5, color="#555555")
    met = {kind(line.name) for line in found}
    shown = {name: colour for name, colour in KINDS.items() if name in met}
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in shown.values()]
    figure.legend(
        handles, list(shown), loc="lower right", ncols=len(shown), fontsize=8, frameon=False
    )
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
        1, 2, figsize=(11, 1.7 + 0.32 * len(found)), sharey=True, layout="constrained"
    )
    figure.get_layout_engine().set(rect=(0, 0.06, 1, 0.94))
    clocks = (("cpu_s", "million per core-second"), ("wall_s", "million per second, wall"))
    for axes, (clock, label) in zip(panels, clocks, strict=True):
        bars(axes, found, of_figure, clock, span(found, clock))
        axes.set_xlabel(label, fontsize=9)
    panels[1].tick_params(axis="y", length=0)
    # Sharing the axis, the second inversion has undone the first.
    panels[0].set_ylim(len(found) - 0.4, -0.6)
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
        len(forms), len(inputs), figsize=(2.2 + 6 * len(inputs), 1.2 + 0.3 * sum(heights)),
        sharex=True, squeeze=False, height_ratios=heights, layout="constrained",
    )  # fmt: skip
    figure.get_layout_engine().set(rect=(0, 0.025, 1, 0.965))
    for row, form in enumerate(forms):
        for axes, name in zip(panels[row], inputs, strict=True):
            of_group = by_group.get(f"{name}, {form}")
            if of_group is None:
                axes.set_axis_off()
                continue
            bars(axes, of_group, of_figure, "cpu_s", span(found, "cpu_s"))
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
