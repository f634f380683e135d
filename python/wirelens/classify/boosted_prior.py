"""LightGBM's trees that begin with a prior, and learn what it does not tell.

A prior gives scores: logarithms of probabilities, which trees of its own say as well. Boosted trees
start from them. What is served are the prior's trees and the booster's, whose scores add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy

from wirelens.classify.families import Rows
from wirelens.learn.metrics import Array, softmax
from wirelens.trees import HeaderBits, Trees, to_forest

# Rows are told a prior that did not see the groups of their fold.
FOLDS = 5


class Scores(Protocol):
    """What a prior can do."""

    def scores(self, rows: Rows) -> Array:
        """Logarithms of the probabilities, a row a row."""
        ...


P = TypeVar("P", bound=Scores)


@dataclass(frozen=True)
class Model(Generic[P]):
    """A prior, and trees that correct it."""

    prior: P
    booster: Any

    def predict(self, rows: Rows, seen: Array) -> Array:
        """Probabilities; `seen` are the values that the trees see."""
        added = self.booster.predict(seen, raw_score=True, num_threads=1)
        return softmax(self.prior.scores(rows) + added)

    def trees(
        self,
        source: str,
        of_prior: Callable[[dict[str, int]], list[dict[str, Any]]],
        columns: Sequence[str],
        classes: Sequence[str],
        f: HeaderBits,
    ) -> Trees:
        """What is served: the prior's trees, then the booster's, on `columns`.

        `of_prior` gives the prior's, and adds what they ask to the tests that it is told.
        """
        boosted = to_forest(self.booster, columns, classes, f)
        tests = {test: index for index, test in enumerate(boosted.tests)}
        first = of_prior(tests)
        return Trees({**boosted.head, "source": source}, list(tests), [*first, *boosted.trees])


def starts(rows: Rows, fold_of: Array, class_count: int, fit: Callable[[Array], Scores]) -> Array:
    """Where the trees start: scores of each row, by a prior of the rows of other folds.

    `fit` makes a prior of the rows that are true in its argument.
    """
    found = numpy.zeros((len(rows.labels), class_count))
    for fold in numpy.unique(fold_of):
        is_held = fold_of == fold
        others = ~is_held if (~is_held).any() else is_held
        found[is_held] = fit(others).scores(replace(rows, values=rows.values[is_held]))
    return found
