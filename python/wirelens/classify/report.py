"""What is told of a cascade: tables in Markdown, for its card and for `wirelens eval classify`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from wirelens.classify.curves import PairCurves, at
from wirelens.learn.metrics import (
    Array,
    Interval,
    class_results,
    confusion,
    family_interval,
    macro_f1,
    weighted_f1,
)
from wirelens.learn.report import table

# Classes up to which a confusion is a table that can be read.
_CONFUSION_MAX = 40
# Portions of flows that curves are told at.
_PORTIONS = (0.1, 0.25, 0.5)


@dataclass(frozen=True)
class System:
    """Something that classified the flows."""

    name: str
    predicted: Array
    # Microseconds of scoring a flow, where known.
    cost_us: float | None = None


@dataclass(frozen=True)
class Evidence:
    """Flows with what they are."""

    truth: Array
    families: Array
    classes: list[str]

    def counts(self, predicted: Array) -> Array:
        """The confusion of some predictions."""
        return confusion(self.truth, predicted, len(self.classes))

    def interval(self, predicted: Array, beside: Array | None = None) -> Interval:
        """Macro-F1, or its difference to others', with its 95 % interval over families."""
        return family_interval(
            self.truth, predicted, self.families, len(self.classes), beside=beside
        )


def systems_table(evidence: Evidence, systems: Sequence[System], beside: System | None) -> str:
    """How good each system is, and by how much it is better than one of them."""
    header = ["", "macro-F1 [95 %]", "weighted F1"]
    if beside is not None:
        header.append(f"macro-F1 over {beside.name} [95 %]")
    header.append("µs a flow")
    rows = []
    for system in systems:
        cells = [system.name, str(evidence.interval(system.predicted))]
        cells.append(f"{weighted_f1(evidence.counts(system.predicted)):.3f}")
        if beside is not None:
            is_same = system.name == beside.name
            gain = evidence.interval(system.predicted, beside.predicted)
            cells.append(
                "" if is_same else f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
            )
        cells.append("" if system.cost_us is None else f"{system.cost_us:.2f}")
        rows.append(cells)
    return table(header, rows)


def stages_table(
    evidence: Evidence, predicted: Array, stages: Array, names: Sequence[tuple[str, str]]
) -> str:
    """Which part of flows each stage decides, and how well it does these."""
    rows = []
    reaching = len(stages)
    for index, (stage, model) in enumerate(names):
        is_own = stages == index
        own = int(is_own.sum())
        right = float((predicted[is_own] == evidence.truth[is_own]).mean()) if own else 0.0
        handed = (reaching - own) / reaching if reaching else 0.0
        is_last = index + 1 == len(names)
        rows.append(
            [
                stage,
                model,
                f"{reaching / max(len(stages), 1):.1%}",
                f"{own / max(len(stages), 1):.1%}",
                "" if is_last else f"{handed:.1%}",
                f"{right:.1%}",
            ]
        )
        reaching -= own
    header = ["stage", "model", "flows reaching it", "decided", "handed on", "accuracy of decided"]
    return table(header, rows, texts=2)


def areas_table(pairs: Sequence[PairCurves]) -> str:
    """The normalized area of each way to assign, as in ServeFlow's Table 5; 1 is the oracle's."""
    names = [way.name for way in (pairs[0].random, *pairs[0].ways)] if pairs else []
    rows = []
    for pair in pairs:
        for is_weighted in (False, True):
            areas = [pair.area(c, is_weighted=is_weighted) for c in (pair.random, *pair.ways)]
            told = [f"{area:.3f}" if area == area else "" for area in areas]
            rows.append([pair.name, "weighted" if is_weighted else "macro", *told])
    return table(["from, to", "F1", *names], rows, texts=2)


def pair_table(pair: PairCurves) -> str:
    """What each way to assign catches, and what F1 comes of it, at some portions."""
    rows = []
    for curve in pair.curves:
        best = int(curve.f1.argmax())
        cells = [f"{at(curve, part, curve.caught):.3f}" for part in _PORTIONS]
        cells += [f"{at(curve, part, curve.f1):.3f}" for part in _PORTIONS]
        cells += [f"{at(curve, part, curve.weighted):.3f}" for part in _PORTIONS]
        cells.append(f"{curve.f1[best]:.3f} at {curve.assigned[best]:.0%}")
        rows.append([curve.name, *cells])
    whats = ("caught", "macro-F1", "weighted F1")
    header = [f"{what}, {part:.0%}" for what in whats for part in _PORTIONS]
    return table([pair.name, *header, "best macro-F1"], rows)


def assignment_section(pairs: Sequence[PairCurves], told: str) -> str:
    """What assigning more flows to the next stage brings, beside an oracle and chance."""
    parts = [
        "## Assignment\n",
        f"{told} Normalized area: that of F1's improvement over the portion that is handed on, "
        "were every flow to come to the first of two stages; the oracle's, who knows which flows "
        "are wrong, is 1.\n",
        areas_table(pairs),
    ]
    for pair in pairs:
        ends = pair.random
        parts += [
            f"{pair.first} alone has macro-F1 {ends.f1[0]:.3f} and weighted F1 "
            f"{ends.weighted[0]:.3f}, {pair.second} {ends.f1[-1]:.3f} and "
            f"{ends.weighted[-1]:.3f}. By portion: of the errors how many are caught, and F1.\n",
            pair_table(pair),
        ]
    return "\n".join(parts)


def classes_table(evidence: Evidence, predicted: Array, beside: System | None) -> str:
    """Precision, recall and F1 of each class."""
    header = ["class", "flows", "precision", "recall", "F1"]
    others = None
    if beside is not None:
        header.append(f"F1 of {beside.name}")
        others = class_results(evidence.counts(beside.predicted), evidence.classes)
    rows = []
    for index, one in enumerate(class_results(evidence.counts(predicted), evidence.classes)):
        figures = [f"{value:.3f}" for value in (one.precision, one.recall, one.f1)]
        other = [] if others is None else [f"{others[index].f1:.3f}"]
        rows.append([one.name, str(one.flows), *figures, *other])
    return table(header, rows)


def confusion_table(evidence: Evidence, predicted: Array) -> str:
    """Flows by true class (rows) and predicted class (columns)."""
    if len(evidence.classes) > _CONFUSION_MAX:
        return f"{len(evidence.classes)} classes: too many for a table; see `--plots`.\n"
    rows = [
        [name, *(str(value) if value else "·" for value in counts.tolist())]
        for name, counts in zip(evidence.classes, evidence.counts(predicted), strict=True)
    ]
    return table(["true class \\ predicted", *evidence.classes], rows)


def summary(evidence: Evidence, predicted: Array) -> str:
    """A line: macro-F1 and weighted F1."""
    counts = evidence.counts(predicted)
    return f"macro-F1 {macro_f1(counts):.3f}, weighted F1 {weighted_f1(counts):.3f}"


def _over_priors(evidence: Evidence, systems: Sequence[System]) -> list[str]:
    """How much better systems are than what is known of ports alone, if that is among them."""
    prior = next((one for one in systems if one.name.startswith("port-prior")), None)
    if prior is None:
        return []
    found = []
    for system in systems:
        gain = evidence.interval(system.predicted, prior.predicted)
        if system.name != prior.name and gain.value > 0:
            found.append(f"{system.name} {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]")
    return [f"Over {prior.name}: {'; '.join(found) or 'none is better'}.\n"]


def sections(
    evidence: Evidence,
    cascade: System,
    stages: Array,
    names: Sequence[tuple[str, str]],
    others: Sequence[System],
    beside: System | None,
) -> str:
    """All tables of an evaluation."""
    families = len(numpy.unique(evidence.families))
    parts = [
        f"{len(evidence.truth)} flows of {families} families of captures. Intervals are over "
        "families, sampled with replacement; macro-F1 is the mean over the classes present.\n",
        systems_table(evidence, [cascade, *others], beside),
        *_over_priors(evidence, [cascade, *others]),
        "## Stages\n",
        stages_table(evidence, cascade.predicted, stages, names),
        "## Classes\n",
        classes_table(evidence, cascade.predicted, beside),
        "## Confusion\n",
        "Rows are true classes, columns predicted ones.\n",
        confusion_table(evidence, cascade.predicted),
    ]
    return "\n".join(parts)
