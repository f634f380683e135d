"""Trees that begin with a count: for classes that are intervals of what the count estimates.

Tiers of frames a second are such classes, and the frames whose end a second's packets show are
such a count. Trees that only see classes have to learn each tier's bounds from that tier's rows,
and lose to the count itself where a tier has few. So a prior comes first: how far off the count was
where it was about as great, which every row tells, and from which the probability of each class
follows. Small trees of LightGBM start from its logarithm and learn the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from wirelens import compat
from wirelens.classify.boosted_prior import FOLDS, Model, starts
from wirelens.classify.families import Rows, Training, lightgbm_task
from wirelens.learn.metrics import Array
from wirelens.trees import HeaderBits, Trees

# So much weighs a row whose count is another one altogether: where no count is near, all are.
_FAR = 1e-6


@dataclass(frozen=True)
class CountPrior:
    """Probabilities of classes by a count, from 0 to the greatest that was seen."""

    number: str
    frequencies: Array

    @classmethod
    def fit(
        cls,
        number: str,
        counts: Array,
        values: Array,
        bounds: Sequence[float],
        *,
        width: float = 3.0,
        floor: float = 0.003,
    ) -> "CountPrior":
        """What rows tell whose count and true value are known.

        `bounds` divide values into classes: the first is below the first bound. Rows weigh by a
        bell of this width around the count that is asked for; no class is less probable than
        `floor`.
        """
        counts = numpy.maximum(numpy.asarray(counts, dtype=numpy.float64), 0)
        errors, size = numpy.asarray(values) - counts, len(bounds) + 1
        rows = []
        for count in range(int(counts.max()) + 1):
            weights = numpy.exp(-0.5 * ((counts - count) / width) ** 2) + _FAR
            classes = numpy.searchsorted(bounds, numpy.maximum(count + errors, 0), side="right")
            shares = numpy.bincount(classes, weights, minlength=size) / weights.sum()
            rows.append(shares * (1 - floor * size) + floor)
        return cls(number, numpy.array(rows))

    def scores(self, rows: Rows) -> Array:
        """Logarithms of the probabilities, a row a row."""
        counts = rows.values[:, list(rows.columns).index(self.number)].astype(numpy.int64)
        return numpy.log(self.frequencies[numpy.clip(counts, 0, len(self.frequencies) - 1)])

    def trees(self, tests: dict[str, int]) -> list[dict[str, Any]]:
        """A tree for each class, breadth first; what they ask is added to `tests`."""
        nodes: list[int] = []
        leaves: list[int] = []
        waiting = [(0, len(self.frequencies))]
        for first, end in waiting:
            if end - first == 1:
                nodes.append(-1)
                leaves.append(first)
                continue
            middle = (first + end) // 2
            nodes.append(tests.setdefault(f"{self.number} > {middle - 0.5}", len(tests)))
            waiting += [(first, middle), (middle, end)]
        scores = numpy.log(self.frequencies[leaves])
        return [
            {"class": index, "nodes": nodes, "leaves": scores[:, index].tolist()}
            for index in range(scores.shape[1])
        ]


@dataclass(frozen=True)
class BoostedCounts:
    """How such a model is trained: the count's name, and the bounds of the classes."""

    number: str
    bounds: Sequence[float]
    parameters: dict[str, Any] = field(
        default_factory=lambda: {
            "num_boost_round": 60,
            "learning_rate": 0.1,
            "num_leaves": 7,
            "feature_fraction": 0.3,
            "min_data_in_leaf": 20,
            "lambda_l2": 5.0,
        }
    )

    def fit(self, rows: Rows, values: Array, training: Training) -> Model[CountPrior]:
        """Trains trees from a prior that did not see the groups of the rows it is told for.

        `values` are what classes are intervals of, one for each row.
        """
        lightgbm = compat.need("lightgbm", "boosted-counts")
        settings = {**self.parameters, **training.changed}
        rounds = int(settings.pop("num_boost_round"))
        groups = numpy.arange(len(rows.labels)) if rows.groups is None else rows.groups
        _, group_of = numpy.unique(groups, return_inverse=True)
        # Groups in an order that the seed draws, dealt out.
        dealt = numpy.random.default_rng(training.seed).permutation(int(group_of.max()) + 1)
        fold_of = dealt[group_of] % FOLDS

        def fit(chosen: Array) -> CountPrior:
            counts = rows.values[chosen, list(rows.columns).index(self.number)]
            return CountPrior.fit(self.number, counts, numpy.asarray(values)[chosen], self.bounds)

        start = starts(rows, fold_of, len(training.classes), fit)
        data = lightgbm.Dataset(
            rows.values, rows.labels, weight=rows.weights, init_score=start.ravel(order="F")
        )
        settings |= lightgbm_task(training)
        booster = lightgbm.train(settings, data, num_boost_round=rounds)
        return Model(fit(numpy.ones(len(rows.labels), dtype=bool)), booster)

    def predict(self, model: Model[CountPrior], rows: Rows) -> Array:
        """The library's own probabilities."""
        return model.predict(rows, rows.values)

    def trees(
        self,
        model: Model[CountPrior],
        columns: Sequence[str],
        classes: Sequence[str],
        f: HeaderBits,
    ) -> Trees:
        """What is served: the prior's trees, then the booster's."""
        return model.trees("wirelens counts, lightgbm", model.prior.trees, columns, classes, f)
