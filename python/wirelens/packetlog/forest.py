"""Small forests over numbers: grown by scikit-learn, written as arrays, walked with NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from wirelens import compat
from wirelens.learn.metrics import Array

# Of a leaf, as scikit-learn has it.
_NO_FEATURE = -2
# Packets of a leaf at least: fewer are an accident of one flow.
_LEAF_ROWS_MIN = 5
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class Shape:
    """How large a forest may be."""

    trees: int = 3
    depth: int = 7
    # Part of the columns that are tried at each node.
    columns_part: float = 0.5


@dataclass(frozen=True)
class Tree:
    """A tree, a row a node, the root first."""

    feature: Array
    threshold: Array
    left: Array
    right: Array
    # Of each node the probability of each class.
    value: Array


class Forest:
    """Trees whose probabilities are averaged."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.trees = list(trees)

    @classmethod
    def of_json(cls, trees: Sequence[dict[str, Any]]) -> "Forest":
        """A forest as a model's file has it."""
        return cls([
            Tree(
                numpy.array(tree["feature"], dtype=numpy.int32),
                numpy.array(tree["threshold"], dtype=numpy.float64),
                numpy.array(tree["left"], dtype=numpy.int32),
                numpy.array(tree["right"], dtype=numpy.int32),
                numpy.array(tree["value"], dtype=numpy.float64),
            )
            for tree in trees
        ])  # fmt: skip

    def to_json(self) -> list[dict[str, Any]]:
        """The trees as a model's file has them."""
        return [
            {
                "feature": tree.feature.tolist(),
                "threshold": tree.threshold.tolist(),
                "left": tree.left.tolist(),
                "right": tree.right.tolist(),
                "value": tree.value.tolist(),
            }
            for tree in self.trees
        ]

    @property
    def columns(self) -> list[int]:
        """Indexes of the columns that any node asks for."""
        asked = {int(feature) for tree in self.trees for feature in tree.feature}
        return sorted(asked - {_NO_FEATURE})

    def with_columns(self, columns: Sequence[int]) -> "Forest":
        """The same forest over rows that have only these of its columns."""
        return self._renamed({column: index for index, column in enumerate(columns)})

    def with_all(self, columns: Sequence[int]) -> "Forest":
        """The same forest over rows of which these columns were its own."""
        return self._renamed(dict(enumerate(columns)))

    def _renamed(self, index_of: dict[int, int]) -> "Forest":
        named = index_of | {_NO_FEATURE: _NO_FEATURE}
        return Forest([
            replace(
                tree,
                feature=numpy.array([named[int(feature)] for feature in tree.feature], numpy.int32),
            )
            for tree in self.trees
        ])  # fmt: skip

    def moved(self, threshold: float) -> "Forest":
        """A forest of two classes that says 0.5 where this one says `threshold` of the second.

        Who judges takes the class of the higher score. Leaves are moved and stretched alike, so
        that the mean of trees is, too, and the order of packets stays.
        """
        stretch = 0.5 / max(threshold, 1.0 - threshold)
        return Forest([
            replace(
                tree,
                value=numpy.stack(
                    [0.5 - stretch * (tree.value[:, 1] - threshold),
                     0.5 + stretch * (tree.value[:, 1] - threshold)], axis=1,
                ),
            )
            for tree in self.trees
        ])  # fmt: skip

    def probabilities(self, values: Array) -> Array:
        """Of rows of 32-bit floats the probability of each class."""
        found = [
            self._walked(values[start : start + _ROWS_AT_ONCE])
            for start in range(0, len(values), _ROWS_AT_ONCE)
        ]
        classes = self.trees[0].value.shape[1]
        return numpy.concatenate(found) if found else numpy.zeros((0, classes))

    def _walked(self, values: Array) -> Array:
        total = numpy.zeros((len(values), self.trees[0].value.shape[1]))
        each = numpy.arange(len(values))
        for tree in self.trees:
            at = numpy.zeros(len(values), dtype=numpy.int64)
            while True:
                feature = tree.feature[at]
                is_inner = feature >= 0
                if not is_inner.any():
                    break
                # Both as 64-bit floats, as scikit-learn compares them.
                goes_left = values[each, feature] <= tree.threshold[at]
                below = numpy.where(goes_left, tree.left[at], tree.right[at])
                at = numpy.where(is_inner, below, at)
            total += tree.value[at]
        return total / len(self.trees)

    def importance(self, columns: int) -> Array:
        """Of each column in how many nodes it is asked for; those near the root count more.

        A node counts as the part of all rows that comes by if every split halves them.
        """
        found = numpy.zeros(columns)
        for tree in self.trees:
            share = numpy.zeros(len(tree.feature))
            share[0] = 1.0
            for node, feature in enumerate(tree.feature):
                if feature >= 0:
                    found[feature] += share[node]
                    share[[tree.left[node], tree.right[node]]] += share[node] / 2
        return found / max(found.sum(), 1e-300)


def grow(values: Array, classes: Array, weights: Array, count: int, shape: Shape, seed: int) -> Any:
    """A forest of scikit-learn's over these rows, classes counted from 0 to below `count`."""
    ensemble = compat.need("sklearn.ensemble", "train packetlog")
    grown = ensemble.RandomForestClassifier(
        n_estimators=shape.trees,
        max_depth=shape.depth,
        max_features=shape.columns_part,
        min_samples_leaf=_LEAF_ROWS_MIN,
        random_state=seed,
    )
    # Every class has a probability, also where none of its rows are there.
    absent = numpy.setdiff1d(numpy.arange(count), classes)
    if len(absent):
        filler = numpy.zeros((len(absent), values.shape[1]), dtype=values.dtype)
        values = numpy.concatenate([values, filler])
        classes = numpy.concatenate([classes, absent])
        weights = numpy.concatenate([weights, numpy.zeros(len(absent))])
    return grown.fit(values, classes, weights)


def exported(grown: Any) -> Forest:
    """The same forest as arrays."""
    trees = []
    for estimator in grown.estimators_:
        tree = estimator.tree_
        value = tree.value[:, 0, :]
        trees.append(
            Tree(
                tree.feature.astype(numpy.int32),
                tree.threshold.astype(numpy.float64),
                tree.children_left.astype(numpy.int32),
                tree.children_right.astype(numpy.int32),
                # As `predict_proba` does it: they add up to 1 but for rounding.
                value / value.sum(axis=1, keepdims=True),
            )
        )
    return Forest(trees)
