"""What is told of a cascade: tables in Markdown, for its card and for `wirelens eval classify`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from wirelens.classify.metrics import (
    Array,
    Interval,
    class_results,
    confusion,
    family_interval,
    macro_f1,
    weighted_f1,
)

# Classes up to which a confusion is a table that can be read.
_CONFUSION_MAX = 40


@dataclass(frozen=True)
class Judged:
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


def table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table; the first columns are texts and the rest are figures."""
    rules = ["---"] * texts + ["---:"] * (len(header) - texts)
    lines = [header, rules, *rows]
    # Classes have any name.
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in lines)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)


def systems_table(evidence: Evidence, systems: Sequence[Judged], beside: Judged | None) -> str:
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
    header = ["stage", "model", "flows that reach it", "decided", "handed on", "right of decided"]
    return table(header, rows, texts=2)


def areas_table(pairs: Sequence[str], areas: Sequence[dict[str, float]]) -> str:
    """The normalized area of each way to assign, as in ServeFlow's Table 5; 1 is the oracle's."""
    names = sorted({name for one in areas for name in one}, key=lambda n: (n != "random", n))
    rows = [
        [pair, *(f"{one[name]:.3f}" if one[name] == one[name] else "" for name in names)]
        for pair, one in zip(pairs, areas, strict=True)
    ]
    return table(["from, to", *names], rows)


def classes_table(evidence: Evidence, predicted: Array, beside: Judged | None) -> str:
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


def _over_priors(evidence: Evidence, systems: Sequence[Judged]) -> list[str]:
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
    cascade: Judged,
    stages: Array,
    names: Sequence[tuple[str, str]],
    others: Sequence[Judged],
    beside: Judged | None,
) -> str:
    """All tables of an evaluation."""
    families = len(numpy.unique(evidence.families))
    parts = [
        f"{len(evidence.truth)} flows of {families} families of captures. Intervals are over "
        "families, drawn with replacement; macro-F1 is the mean over the classes that are there.\n",
        systems_table(evidence, [cascade, *others], beside),
        *_over_priors(evidence, [cascade, *others]),
        "## Stages\n",
        stages_table(evidence, cascade.predicted, stages, names),
        "## Classes\n",
        classes_table(evidence, cascade.predicted, beside),
        "## Confusion\n",
        "Rows are what flows are, columns what the cascade says.\n",
        confusion_table(evidence, cascade.predicted),
    ]
    return "\n".join(parts)
