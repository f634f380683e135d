"""The figures of an evaluation as rows for programs: one JSON object a line, with its `kind`.

`model` is first: the model and what it was judged on. Then come the tables of the report: `worth`
(a system on flows of known classes and on foreign ones), `foreign` (foreign flows, those named,
those named with a probability of 0.9 or more, and the names), `confidence` (a bin), `error`
(expected calibration errors), `system` (macro-F1 with its interval), `stage` and `class`. A figure
that no flow counts for is null.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.classify import report, strangers
from wirelens.classify.cascade import Cascade, Predictions
from wirelens.learn.metrics import Interval, class_results, weighted_f1

Row = dict[str, Any]

# From here on a name is said with confidence, whatever the threshold of the model.
_SURE = 0.9


def _bounds(name: str, interval: Interval | None) -> Row:
    """A figure and its bounds, as `named`, `named_low` and `named_high`."""
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def of_model(cascade: Cascade, judged: strangers.OpenSet, sealed: float) -> Row:
    """The model, the flows, and below which probability a flow is `unknown`."""
    return {
        "kind": "model",
        "model": cascade.id,
        "flows": len(judged.truth),
        "foreign": int(judged.is_foreign.sum()),
        "families": len(numpy.unique(judged.families)),
        "sealed": sealed,
        "unknown_below": float(cascade.unknown_below.max()),
    }


def of_strangers(judged: strangers.OpenSet, known: strangers.Names | None) -> Iterator[Row]:
    """What names are worth, and how far confidence can be believed."""
    for worth in strangers.worths(judged, known):
        yield {
            "kind": "worth",
            "system": worth.system,
            "macro_f1": worth.macro_f1,
            **_bounds("named", worth.named),
            **_bounds("right_of_named", worth.right_of_named),
            **_bounds("right_of_all", worth.right_of_all),
            **_bounds("foreign_named", worth.foreign_named),
        }
    named = judged.names()[judged.is_foreign]
    sure = judged.answers.confidences[judged.is_foreign][named >= 0] >= _SURE
    names, counts = numpy.unique(named[named >= 0], return_counts=True)
    yield {
        "kind": "foreign",
        "flows": len(named),
        "named": len(sure),
        "sure": int(sure.sum()),
        "names": {judged.classes[name]: int(n) for name, n in zip(names, counts, strict=True)},
    }
    found = strangers.calibrated(judged)
    for one in found.bins:
        yield {"kind": "confidence", "low": one.low, "high": one.high, "flows": one.flows,
               "mean": one.confidence, "right": one.right}  # fmt: skip
    yield {"kind": "error", "of_all": found.of_all, "of_names": found.of_names,
           "of_own_names": found.of_own_names}  # fmt: skip


def of_tables(
    evidence: report.Evidence,
    systems: Sequence[report.System],
    predictions: Predictions,
    stages: Sequence[tuple[str, str]],
) -> Iterator[Row]:
    """Systems, of which the first is the cascade, and the cascade's stages and classes."""
    for one in systems:
        counts = evidence.counts(one.predicted)
        yield {
            "kind": "system",
            "system": one.name,
            **_bounds("macro_f1", evidence.interval(one.predicted)),
            "weighted_f1": weighted_f1(counts),
            "us": one.cost_us,
        }
    is_right = predictions.labels == evidence.truth
    for index, (stage, model) in enumerate(stages):
        own = predictions.stages == index
        yield {
            "kind": "stage",
            "stage": stage,
            "model": model,
            "reached": float((predictions.stages >= index).mean()),
            "decided": float(own.mean()),
            "right_of_decided": float(is_right[own].mean()) if own.any() else None,
        }
    for result in class_results(evidence.counts(predictions.labels), evidence.classes):
        yield {"kind": "class", "class": result.name, "flows": result.flows,
               "precision": result.precision, "recall": result.recall, "f1": result.f1}  # fmt: skip


def write(rows: Sequence[Row], path: Path) -> None:
    """One JSON object a line; the same rows give the same bytes."""
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
    written.text(path, "".join(lines))
