"""Families of models: what a pool is made of, and how each is trained and written.

A family trains on a matrix of the values that its model will see, bits as −1, 0 and 1 beside
numbers, and writes the file that is served. Libraries are imported when a family trains, so a
pool without LightGBM does not need it.
"""

import importlib
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy
from wirelens import __version__, compat
from wirelens.classify.metrics import Array
from wirelens.classify.port_table import PortTable
from wirelens.classify.prior import PortPrior
from wirelens.classify.recipe import PORT_NUMBERS
from wirelens.errors import OptionError
from wirelens.trees import HeaderBits, Trees, to_forest


@dataclass(frozen=True)
class Rows:
    """What a model is trained on, or asked about."""

    # 32-bit floats by row and column: exactly what the runtime compares.
    values: Array
    columns: Sequence[str]
    # Class indices; empty where a model is only asked.
    labels: Array
    # The weight of each row.
    weights: Array
    # Scores that boosting begins with, by row and class; None for none.
    start: Array | None = None
    # The family of captures of each row, for who holds rows out to see when to end.
    groups: Array | None = None


@dataclass(frozen=True)
class Training:
    """What all families are told."""

    classes: Sequence[str]
    seed: int = 1
    threads: int = 1
    # Parameters that were asked for, in place of the family's own.
    changed: dict[str, Any] = field(default_factory=dict)
    # What boosting begins with, to be served beside it.
    prior: PortPrior | None = None


class Family(Protocol):
    """A kind of model. `cnn.py` and other libraries' kinds implement the same."""

    name: str
    # Distribution on PyPI that trains it, None for ours.
    library: str | None
    # Suffix of the file that is served: `.trees.jsonl` or `.onnx`.
    suffix: str
    # What it is trained with unless changed.
    parameters: dict[str, Any]
    # Whether it can begin with a prior.
    takes_prior: bool

    def fit(self, rows: Rows, training: Training) -> Any:
        """Trains a model."""

    def predict(self, model: Any, rows: Rows) -> Array:
        """The library's own probabilities, a row a flow, to hold the runtime's against."""

    def save(self, model: Any, path: Path, rows: Rows, training: Training, f: HeaderBits) -> None:
        """Writes what is served; `rows` has the names of columns, `f` what is extracted."""


def _with_every_class(rows: Rows, class_count: int) -> Rows:
    """scikit-learn names its outputs by the labels it sees: one row of no weight for the rest."""
    absent = numpy.setdiff1d(numpy.arange(class_count), rows.labels)
    if len(absent) == 0:
        return rows
    return Rows(
        numpy.vstack([rows.values, numpy.repeat(rows.values[:1], len(absent), axis=0)]),
        rows.columns,
        numpy.concatenate([rows.labels, absent]),
        numpy.concatenate([rows.weights, numpy.zeros(len(absent))]),
    )


class _Trees:
    """What tree families share: how they are written."""

    suffix = ".trees.jsonl"
    takes_prior = False

    def save(self, model: Any, path: Path, rows: Rows, training: Training, f: HeaderBits) -> None:
        to_forest(model, rows.columns, training.classes, f).save(path)


class _Boosted(_Trees):
    """Trees whose scores add up, and may begin with a prior's."""

    takes_prior = True

    def save(self, model: Any, path: Path, rows: Rows, training: Training, f: HeaderBits) -> None:
        forest = to_forest(model, rows.columns, training.classes, f)
        if training.prior is not None:
            # Where a library is told what to begin with, its own start is left out.
            start = [0.0] * len(training.classes)
            forest = Trees({**forest.head, "start": start}, forest.tests, forest.trees)
            forest = training.prior.added_to(forest)
        forest.save(path)


def _softmax(scores: Array) -> Array:
    powers = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class DecisionTree(_Trees):
    """A tree with at least 15 training flows in a leaf, so that its leaves know doubt."""

    name = "decision-tree"
    library = "scikit-learn"

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {"min_samples_leaf": 15}

    def fit(self, rows: Rows, training: Training) -> Any:
        tree = compat.need("sklearn.tree", self.name)
        whole = _with_every_class(rows, len(training.classes))
        settings = {**self.parameters, **training.changed, "random_state": training.seed}
        model = tree.DecisionTreeClassifier(**settings)
        return model.fit(whole.values, whole.labels, sample_weight=whole.weights)

    def predict(self, model: Any, rows: Rows) -> Array:
        return model.predict_proba(rows.values)


class RandomForest(_Trees):
    """scikit-learn's, with its own defaults."""

    name = "random-forest"
    library = "scikit-learn"

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {"n_estimators": 100}

    def fit(self, rows: Rows, training: Training) -> Any:
        ensemble = compat.need("sklearn.ensemble", self.name)
        whole = _with_every_class(rows, len(training.classes))
        settings = {**self.parameters, **training.changed, "random_state": training.seed}
        model = ensemble.RandomForestClassifier(**settings, n_jobs=training.threads)
        return model.fit(whole.values, whole.labels, sample_weight=whole.weights)

    def predict(self, model: Any, rows: Rows) -> Array:
        return model.predict_proba(rows.values)


class LightGbm(_Boosted):
    """The paper's parameters; it does not tell the number of rounds, 200 are ours."""

    name = "lightgbm"
    library = "lightgbm"

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {
            "num_boost_round": 200,
            "learning_rate": 0.03,
            "num_leaves": 128,
            "feature_fraction": 0.9,
            "min_data_in_leaf": 3,
        }

    def fit(self, rows: Rows, training: Training) -> Any:
        lightgbm = compat.need("lightgbm", self.name)
        settings = {**self.parameters, **training.changed}
        rounds = int(settings.pop("num_boost_round"))
        settings |= {
            "objective": "multiclass",
            "num_class": len(training.classes),
            "num_threads": training.threads,
            "seed": training.seed,
            # The same model on every machine and with any number of threads.
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        # LightGBM takes them class by class.
        start = None if rows.start is None else rows.start.ravel(order="F")
        data = lightgbm.Dataset(rows.values, rows.labels, weight=rows.weights, init_score=start)
        return lightgbm.train(settings, data, num_boost_round=rounds)

    def predict(self, model: Any, rows: Rows) -> Array:
        if rows.start is None:
            return model.predict(rows.values, num_threads=1)
        return _softmax(rows.start + model.predict(rows.values, num_threads=1, raw_score=True))


class XgBoost(_Boosted):
    """The paper's 100 rounds, the library's defaults beside."""

    name = "xgboost"
    library = "xgboost-cpu"

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {
            "num_boost_round": 100,
            "max_depth": 6,
            "eta": 0.3,
            "tree_method": "hist",
        }

    def fit(self, rows: Rows, training: Training) -> Any:
        xgboost = compat.need("xgboost", self.name)
        settings = {**self.parameters, **training.changed}
        rounds = int(settings.pop("num_boost_round"))
        settings |= {
            "objective": "multi:softprob",
            "num_class": len(training.classes),
            "nthread": training.threads,
            "seed": training.seed,
            "verbosity": 0,
        }
        data = xgboost.DMatrix(
            rows.values, rows.labels, weight=rows.weights, base_margin=rows.start
        )
        return xgboost.train(settings, data, num_boost_round=rounds)

    def predict(self, model: Any, rows: Rows) -> Array:
        xgboost = compat.need("xgboost", self.name)
        return model.predict(xgboost.DMatrix(rows.values, base_margin=rows.start))


class Ports:
    """The table of ports; it sees two numbers of the flow and nothing else."""

    name = "port-table"
    library = None
    suffix = ".trees.jsonl"
    takes_prior = False

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {"smoothing": 1.0, "flows_min": 2}

    def _numbers(self, rows: Rows) -> list[Array]:
        columns = list(rows.columns)
        return [rows.values[:, columns.index(name)].astype(numpy.int64) for name in PORT_NUMBERS]

    def fit(self, rows: Rows, training: Training) -> PortTable:
        settings = {**self.parameters, **training.changed}
        protocols, ports = self._numbers(rows)
        return PortTable.fit(
            protocols,
            ports,
            rows.labels,
            len(training.classes),
            weights=rows.weights,
            smoothing=float(settings["smoothing"]),
            flows_min=int(settings["flows_min"]),
        )

    def predict(self, model: PortTable, rows: Rows) -> Array:
        return model.predict(*self._numbers(rows))

    def save(
        self, model: PortTable, path: Path, rows: Rows, training: Training, f: HeaderBits
    ) -> None:
        model.trees(training.classes, f).save(path)


class KnownPorts(_Trees):
    """The table of ports with what is generally known of them: a prior, alone."""

    name = "known-ports"
    library = None
    takes_prior = True

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def fit(self, rows: Rows, training: Training) -> PortPrior:
        if training.prior is None:
            raise OptionError(f"{self.name}: no table of known ports; give one in --known-ports")
        return training.prior

    def predict(self, model: PortPrior, rows: Rows) -> Array:
        return _softmax(rows.start)

    def save(
        self, model: PortPrior, path: Path, rows: Rows, training: Training, f: HeaderBits
    ) -> None:
        model.trees(f).save(path)


_FAMILIES: dict[str, type[Any]] = {
    kind.name: kind for kind in (Ports, KnownPorts, DecisionTree, RandomForest, LightGbm, XgBoost)
}
# Families in files of their own, since what they import is large.
_MODULES = {"cnn": "wirelens.classify.cnn"}
FAMILY_NAMES = (*_FAMILIES, *_MODULES)
# Those that need nothing beyond the extra `train`.
DEFAULT_FAMILIES = tuple(name for name in _FAMILIES if name != KnownPorts.name)


def family(name: str) -> Family:
    """The family of this name."""
    if name in _FAMILIES:
        made: Family = _FAMILIES[name]()
        return made
    if name in _MODULES:
        found: Family = importlib.import_module(_MODULES[name]).family()
        return found
    raise OptionError(f"family {name!r}; wanted: {', '.join(FAMILY_NAMES)}")


def library_version(kind: Family) -> str:
    """The library that trains a family, with its version."""
    if kind.library is None:
        return f"wirelens {__version__}"
    for name in (kind.library, kind.library.removesuffix("-cpu")):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return kind.library
