"""Pictures of a training run: the front, what assigning flows brings, and what is confused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

from wirelens.classify.place import Candidate, Placement, pareto_front
from wirelens.classify.thresholds import Curve
from wirelens.learn.metrics import Array
from wirelens.learn.plots import COLOURS, STYLE, need_library, save

_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
_GREY = "#777777"
# Where the names of chosen models stand, so that those of one packet do not meet.
_LABELS = {"fastest": ((8, -27), "left"), "fast": ((6, 8), "left"), "slow": ((-8, 6), "right")}


def front(candidates: Sequence[Candidate], placement: Placement, folder: Path) -> Path:
    """F1 against latency, a point a model; the front as a line, the chosen models named."""
    library, figures = need_library()
    with library.rc_context(STYLE):
        figure = figures.Figure(figsize=(6.4, 4.0))
        axes = figure.add_subplot()
        families = list(dict.fromkeys(c.family for c in candidates))
        for index, family in enumerate(families):
            mine = [c for c in candidates if c.family == family]
            axes.scatter(
                [c.latency_us / 1e3 for c in mine],
                [c.macro_f1 for c in mine],
                s=[26 + 4 * c.packets for c in mine],
                color=COLOURS[index % len(COLOURS)],
                marker=_MARKERS[index % len(_MARKERS)],
                label=family,
                alpha=0.85,
                linewidth=0,
            )
        best = pareto_front(candidates)
        axes.step(
            [c.latency_us / 1e3 for c in best],
            [c.macro_f1 for c in best],
            where="post",
            color=_GREY,
            linewidth=1,
            label="Pareto front",
            zorder=0,
        )
        for stage, chosen in placement.stages:
            point = (chosen.latency_us / 1e3, chosen.macro_f1)
            place, side = _LABELS[stage]
            axes.annotate(
                f"{stage}\n{chosen.name}",
                point,
                xytext=place,
                textcoords="offset points",
                ha=side,
                fontsize=8,
                fontweight="bold",
            )
            axes.scatter(*point, s=150, facecolors="none", edgecolors="black", linewidth=1.2)
        axes.set_xscale("log")
        axes.margins(x=0.14, y=0.24)
        title = "a model's name is its family and the packets that it reads; so is a marker's size"
        axes.set_title(title, fontsize=8, loc="left")
        axes.set_xlabel("mean latency from a flow's first packet (ms): waiting and scoring alone")
        axes.set_ylabel("macro-F1, validation")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        return save(figure, folder, "front.png")


def assignment(
    title: str, curves: Sequence[Curve], chosen: float | None, folder: Path, name: str
) -> Path:
    """Assigned portion against caught errors, and against F1, with oracle and random.

    `chosen` is the portion that is in use, where one is.
    """
    library, figures = need_library()
    with library.rc_context(STYLE):
        figure = figures.Figure(figsize=(8.4, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        index = 0
        for curve in curves:
            style: dict[str, Any] = {"linewidth": 1.4, "label": curve.name}
            if curve.name == "oracle":
                style |= {"color": "black", "linestyle": "--"}
            elif curve.name == "random":
                style |= {"color": _GREY, "linestyle": ":"}
            else:
                style["color"] = COLOURS[index % len(COLOURS)]
                index += 1
            left.plot(curve.assigned, curve.caught, **style)
            right.plot(curve.assigned, curve.f1, **style)
        for axes in (left, right):
            if chosen is not None:
                axes.axvline(chosen, color="#D55E00", linewidth=0.8)
            axes.set_xlabel("assigned, if every flow came here (fraction)")
            axes.set_xlim(0, 1)
        left.set_ylim(0, 1.02)
        left.set_ylabel("errors assigned (fraction)")
        right.set_ylabel("macro-F1 of both stages")
        if chosen is not None:
            right.annotate(
                "threshold in use",
                (chosen, right.get_ylim()[0]),
                xytext=(3, 3),
                textcoords="offset points",
                fontsize=8,
                color="#D55E00",
            )
        figure.suptitle(title, fontsize=10)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return save(figure, folder, name)


def confusion(counts: Array, classes: Sequence[str], title: str, folder: Path) -> Path:
    """Shares of each true class by predicted class, with the flows in each cell."""
    library, figures = need_library()
    with library.rc_context({**STYLE, "axes.grid": False}):
        side = max(4.0, 1.6 + 0.42 * len(classes))
        figure = figures.Figure(figsize=(side + 0.8, side))
        axes = figure.add_subplot()
        totals = numpy.maximum(counts.sum(axis=1, keepdims=True), 1)
        shares = counts / totals
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        places = range(len(classes))
        axes.set_xticks(places, classes, rotation=60, ha="right", rotation_mode="anchor")
        named = [f"{name} ({int(n)})" for name, n in zip(classes, totals[:, 0], strict=True)]
        axes.set_yticks(places, named)
        for row in places:
            for column in places:
                if counts[row, column]:
                    axes.text(
                        column,
                        row,
                        f"{int(counts[row, column])}",
                        ha="center",
                        va="center",
                        fontsize=7 if len(classes) < 20 else 5,
                        color="white" if shares[row, column] > 0.55 else "black",
                    )
        axes.set_xlabel("predicted")
        axes.set_ylabel("true (flows)")
        axes.set_title(title, fontsize=10)
        figure.colorbar(image, ax=axes, label="fraction of the true class", shrink=0.7)
        return save(figure, folder, "confusion.png")
