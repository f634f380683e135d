"""Pictures of training and of evaluations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from wirelens.learn.plots import COLOURS, STYLE, need_library, save
from wirelens.packetlog import measure
from wirelens.packetlog.measure import MODES, Part
from wirelens.packetlog.report import WANTED
from wirelens.packetlog.truth import BENIGN

if TYPE_CHECKING:
    from wirelens.packetlog.train import Trial

_SHOWN_MAX = 25
_GREY = "#777777"


def importance(found: dict[str, float], folder: Path) -> Path:
    """How much the flow forest asks of each column."""
    drawing, figures = need_library()
    largest = sorted(found.items(), key=lambda item: item[1])[-_SHOWN_MAX:]
    with drawing.rc_context(STYLE):
        figure = figures.Figure(figsize=(6.4, 0.6 + 0.22 * len(largest)))
        axes = figure.add_subplot()
        axes.barh([name for name, _ in largest], [part for _, part in largest], color=COLOURS[0])
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("part of questions, were each to halve the packets")
        return save(figure, folder, "importance.png")


def weights(
    tried: Sequence["Trial"], chosen: "Trial", false_alarms_max: float, folder: Path
) -> Path:
    """Recall, precision and false alarms by the weight of anomalous packets."""
    drawing, figures = need_library()
    with drawing.rc_context(STYLE):
        figure = figures.Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.add_subplot()
        at = [one.weight for one in tried]
        lines = [
            ("recall, known attacks", [one.mean_known for one in tried], "o-"),
            ("recall, unseen attacks", [one.mean_unseen for one in tried], "s-"),
            ("precision", [one.precision for one in tried], "^-"),
            ("benign packets marked", [one.false_alarms for one in tried], "D-"),
        ]
        for index, (name, values, form) in enumerate(lines):
            axes.plot(at, values, form, color=COLOURS[index], label=name, markersize=4)
        axes.axhline(false_alarms_max, color=_GREY, linewidth=0.8, linestyle="--",
                     label="most that may be marked")  # fmt: skip
        axes.axvline(chosen.weight, color=_GREY, linewidth=0.8, label="chosen")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("weight of all anomalous packets, those of benign ones being 1")
        axes.set_ylabel("part, by folds")
        axes.set_ylim(0, 1.02)
        figure.legend(loc="outside lower center", ncols=3)
        return save(figure, folder, "weights.png")


def recalls(
    made: Sequence[Part], models: Sequence[str], others: Sequence[str], folder: Path
) -> Path | None:
    """Of each attack how much was marked, by judge."""
    attacks = measure.by([part for part in made if part.label != BENIGN], lambda part: part.label)
    if not attacks:
        return None
    drawing, figures = need_library()
    shown = [("model", list(models)), *((name, [name]) for name in others if name != "everything")]
    with drawing.rc_context(STYLE):
        figure = figures.Figure(figsize=(6.4, 1.3 + 0.26 * len(attacks)), layout="constrained")
        axes = figure.add_subplot()
        for index, (name, some) in enumerate(shown):
            values = numpy.array([
                [measure.quality(mine, judge).recall for judge in some]
                for mine in attacks.values()
            ])  # fmt: skip
            at = numpy.arange(len(values)) + 0.16 * (index - (len(shown) - 1) / 2)
            _points(axes, values, at, COLOURS[index], name)
        axes.axvline(
            WANTED, color=_GREY, linewidth=0.8, linestyle="--", label=f"wanted: {WANTED:g}"
        )
        axes.set_yticks(numpy.arange(len(attacks)), list(attacks))
        axes.invert_yaxis()
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("part of the attack's packets that is marked")
        figure.legend(loc="outside lower center", ncols=4)
        return save(figure, folder, "recalls.png")


def _points(axes: Any, values: Any, at: Any, colour: str, name: str) -> None:
    middle = values.mean(axis=1)
    axes.plot(middle, at, "o", color=colour, label=name, markersize=4)
    if values.shape[1] > 1:
        axes.hlines(at, values.min(axis=1), values.max(axis=1), color=colour, linewidth=1)


def kept(made: Sequence[Part], judges: Sequence[str], folder: Path) -> Path:
    """Of all bytes the part that each mode keeps, by judge."""
    drawing, figures = need_library()
    with drawing.rc_context(STYLE):
        figure = figures.Figure(figsize=(6.4, 3.2))
        axes = figure.add_subplot()
        width = 0.8 / len(judges)
        for index, judge in enumerate(judges):
            parts = [measure.kept(made, judge, mode)[1] for mode in MODES]
            at = numpy.arange(len(MODES)) + width * (index - (len(judges) - 1) / 2)
            axes.bar(at, parts, width, color=COLOURS[index % len(COLOURS)], label=judge)
        axes.set_xticks(numpy.arange(len(MODES)), list(MODES))
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("part of bytes that is kept")
        axes.set_xlabel("mode")
        # Beside the axes: a mode that keeps everything fills them.
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), title="marked by")
        return save(figure, folder, "kept.png")
