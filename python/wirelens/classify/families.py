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
from wirelens.classify.port_table import KnownPorts, PortTable
from wirelens.classify.recipe import PORT_NUMBERS
from wirelens.errors import OptionError
from wirelens.learn.metrics import Array
from wirelens.trees import HeaderBits, to_forest


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
    # What is known of ports beforehand.
    known_ports: KnownPorts = field(default_factory=dict)


class Family(Protocol):
    """A kind of model. `cnn.py` and other libraries' kinds implement the same."""

    name: str
    # Distribution on PyPI that trains it, None for ours.
    library: str | None
    # Suffix of the file that is served: `.trees.jsonl` or `.onnx`.
    suffix: str
    # What it is trained with unless changed.
    parameters: dict[str, Any]

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


def port_numbers(rows: Rows) -> tuple[Array, Array]:
    """Protocol and server port of each row."""
    columns = list(rows.columns)
    missing = [name for name in PORT_NUMBERS if name not in columns]
    if missing:
        raise OptionError(
            f"{missing[0]}: not among the features, but needed to look up ports; name it in "
            "--numbers, without --no-ports, or leave this family out"
        )
    protocols, ports = (
        rows.values[:, columns.index(name)].astype(numpy.int64) for name in PORT_NUMBERS
    )
    return protocols, ports


class _Trees:
    """What tree families share: how they are written."""

    suffix = ".trees.jsonl"

    def save(self, model: Any, path: Path, rows: Rows, training: Training, f: HeaderBits) -> None:
        to_forest(model, rows.columns, training.classes, f).with_read_numbers(f).save(path)


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


def lightgbm_task(training: Training) -> dict[str, Any]:
    """What LightGBM is told besides a family's own parameters."""
    return {
        "objective": "multiclass",
        "num_class": len(training.classes),
        "num_threads": training.threads,
        "seed": training.seed,
        # The same model on every machine and with any number of threads.
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }


class LightGbm(_Trees):
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
        settings |= lightgbm_task(training)
        data = lightgbm.Dataset(rows.values, rows.labels, weight=rows.weights)
        return lightgbm.train(settings, data, num_boost_round=rounds)

    def predict(self, model: Any, rows: Rows) -> Array:
        return model.predict(rows.values, num_threads=1)


class XgBoost(_Trees):
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
        data = xgboost.DMatrix(rows.values, rows.labels, weight=rows.weights)
        return xgboost.train(settings, data, num_boost_round=rounds)

    def predict(self, model: Any, rows: Rows) -> Array:
        return model.predict(compat.need("xgboost", self.name).DMatrix(rows.values))


class Ports:
    """The table of ports; it sees two numbers of the flow and nothing else."""

    name = "port-table"
    library = None
    suffix = ".trees.jsonl"

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {"smoothing": 1.0, "flows_min": 2}

    def fit(self, rows: Rows, training: Training) -> PortTable:
        settings = {**self.parameters, **training.changed}
        protocols, ports = port_numbers(rows)
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
        return model.predict(*port_numbers(rows))

    def save(
        self, model: PortTable, path: Path, rows: Rows, training: Training, f: HeaderBits
    ) -> None:
        model.trees(training.classes, f).save(path)


_FAMILIES: dict[str, type[Any]] = {
    kind.name: kind for kind in (Ports, DecisionTree, RandomForest, LightGbm, XgBoost)
}
# Families in files of their own, since what they import is large.
_MODULES = {
    "cnn": "wirelens.classify.cnn",
    "port-prior": "wirelens.classify.boosted_ports",
    "boosted-ports": "wirelens.classify.boosted_ports",
}
FAMILY_NAMES = (*_FAMILIES, *_MODULES)
# Families that look at protocol and port alone: more packets tell them nothing.
PORT_FAMILIES = ("port-table", "port-prior")
# Those that need nothing beyond the extra `train`.
DEFAULT_FAMILIES = tuple(_FAMILIES)


def family(name: str) -> Family:
    """The family of this name."""
    if name in _FAMILIES:
        made: Family = _FAMILIES[name]()
        return made
    if name in _MODULES:
        module = importlib.import_module(_MODULES[name])
        found: Family = module.family(name) if name != "cnn" else module.family()
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
