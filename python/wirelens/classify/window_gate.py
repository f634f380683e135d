"""A gate for a model of windows: is a window of the traffic that the model was trained on at all?

A model of windows gives a class to whatever flow it is asked about. A gate learns from windows of
the model's own traffic and windows of other traffic, and its score becomes one more class beside
the model's, `unknown`. Its trees are monotone: a greater count never makes a window look less like
the model's traffic, so that traffic with more of everything than training had still passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from wirelens import compat
from wirelens.classify.calibration import UNKNOWN
from wirelens.classify.families import Training, lightgbm_task
from wirelens.learn.metrics import Array, softmax
from wirelens.trees import HeaderBits, Trees, to_forest

_SIDES = ("own", UNKNOWN)


@dataclass(frozen=True)
class WindowGate:
    """How a gate is trained: the counts that it reads, all of them monotone."""

    numbers: Sequence[str]
    parameters: dict[str, Any] = field(
        default_factory=lambda: {
            "num_boost_round": 60,
            "learning_rate": 0.1,
            "num_leaves": 7,
            "min_data_in_leaf": 20,
            "lambda_l2": 5.0,
        }
    )

    def fit(self, values: Array, is_foreign: Array, weights: Array, training: Training) -> Any:
        """Trains a gate; columns of `values` are `numbers`."""
        lightgbm = compat.need("lightgbm", "window gates")
        settings = {**self.parameters, **lightgbm_task(training), **training.changed}
        settings.pop("num_class", None)
        settings |= {"objective": "binary", "monotone_constraints": [-1] * len(self.numbers)}
        rounds = int(settings.pop("num_boost_round"))
        data = lightgbm.Dataset(values, numpy.asarray(is_foreign, dtype=float), weight=weights)
        return lightgbm.train(settings, data, num_boost_round=rounds)

    def scores(self, model: Any, values: Array) -> Array:
        """The logarithm of the odds that a window is of other traffic, one for each row."""
        return model.predict(values, raw_score=True, num_threads=1)

    def trees(self, model: Any, own: Trees, f: HeaderBits) -> Trees:
        """A model's trees with the gate's behind them, as the class `unknown`.

        `own` are boosted trees whose scores are logarithms of probabilities; `f`, what is extracted
        for both, is what `own` was written with.
        """
        gate = to_forest(model, self.numbers, _SIDES, f)
        tests = {test: index for index, test in enumerate(own.tests)}
        places = [tests.setdefault(test, len(tests)) for test in gate.tests]
        added = [
            {
                "class": len(own.head["classes"]),
                "nodes": [node if node < 0 else places[node] for node in tree["nodes"]],
                "leaves": tree["leaves"],
            }
            for tree in gate.trees
        ]
        head = {
            **own.head,
            "source": f"{own.head['source']}, gate",
            "classes": [*own.head["classes"], UNKNOWN],
            "start": [*own.head["start"], 0.0],
        }
        return Trees(head, list(tests), [*own.trees, *added])


def gated(own: Array, gate: Array) -> Array:
    """Probabilities of the model's classes and, last, of `unknown`.

    `own` are the scores of the model, row by class, and `gate` those of `WindowGate.scores`.
    """
    return softmax(numpy.column_stack([own, gate]))
