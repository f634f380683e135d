"""Families that begin with what ports tell: a prior by itself, and trees boosted from it.

In captures from many places a port's frequencies are mostly those of whoever recorded most
flows of it. The prior counts a family of captures once for each class and port, however many flows
it has, and adds what is known of ports beforehand (`--known-ports`). Boosted trees then start from
its logarithm and learn what else there is to see, instead of learning ports by heart once more.

Of many flows the first packet that was captured is an answer. So what is known of ports is asked of
the client's, too, where `client_port` is among the numbers and the server's is one that hosts draw:
what it says is added, as one more tree for each class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from wirelens import compat
from wirelens.classify.boosted_prior import FOLDS, Model, starts
from wirelens.classify.families import Rows, Training, lightgbm_task, port_numbers
from wirelens.classify.port_table import KnownPorts, PortTable, shared_weights, table_head
from wirelens.learn.metrics import Array, softmax
from wirelens.trees import HeaderBits, Trees

# Ports from here on are drawn by hosts and tell a group of flows nothing.
_DRAWN_PORT = 10_000


@dataclass(frozen=True)
class Prior:
    """Scores of classes by ports: logarithms of what tables say, added up."""

    table: PortTable
    # By protocol and client port, what is added; empty where that is not looked at.
    clients: dict[int, dict[int, Array]]
    floor: float

    def scores(self, rows: Rows) -> Array:
        """Scores by row and class, whose softmax is the prior."""
        protocols, ports = port_numbers(rows)
        found = _logarithm(self.table.predict(protocols, ports), self.floor)
        if self.clients:
            values = rows.values[:, list(rows.columns).index("client_port")].astype(numpy.int64)
            for row in numpy.flatnonzero(ports >= _DRAWN_PORT).tolist():
                added = self.clients.get(int(protocols[row]), {}).get(int(values[row]))
                if added is not None:
                    found[row] += added
        return found

    def trees(self, classes: Sequence[str], tests: dict[str, int]) -> list[dict[str, Any]]:
        """A tree for each class, or two; what they ask is added to `tests`."""
        shape = self.table.shape()
        nodes = shape.numbered(tests)
        scores = [_logarithm(leaf, self.floor) for leaf in shape.leaves]
        found = [
            {"class": index, "nodes": nodes, "leaves": [float(leaf[index]) for leaf in scores]}
            for index in range(len(classes))
        ]
        if not self.clients:
            return found
        nothing = numpy.zeros(len(classes))
        added = PortTable(self.clients, dict.fromkeys(self.clients, nothing), nothing)
        shape = added.shape("client_port")
        # Left of the first comparison is a leaf, which stands before all that is on the right.
        first = tests.setdefault(f"server_port > {_DRAWN_PORT - 0.5}", len(tests))
        nodes = [first, -1, *shape.numbered(tests)]
        for index in range(len(classes)):
            leaves = [0.0, *(float(leaf[index]) for leaf in shape.leaves)]
            found.append({"class": index, "nodes": nodes, "leaves": leaves})
        return found


def _prior(
    rows: Rows, chosen: Array, settings: dict[str, Any], known: KnownPorts, class_count: int
) -> Prior:
    """The prior of some rows."""
    protocols, ports = (values[chosen] for values in port_numbers(rows))
    labels, smoothing = rows.labels[chosen], float(settings["smoothing"])
    parts = [_groups(rows)[chosen], labels, protocols, ports]
    weighted = {key: float(settings["known"]) * value for key, value in known.items()}
    table = PortTable.fit(
        protocols,
        ports,
        labels,
        class_count,
        weights=shared_weights(parts, float(settings["once"])),
        smoothing=smoothing,
        flows_min=1,
        known=weighted,
    )
    floor = float(settings["floor"])
    clients: dict[int, dict[int, Array]] = {}
    for (protocol, port), counts in weighted.items():
        if "client_port" in rows.columns and port >= 0:
            others = table.others[protocol]
            said = (counts + smoothing * others) / (counts.sum() + smoothing)
            gain = _logarithm(said, floor) - _logarithm(others, floor)
            clients.setdefault(protocol, {})[port] = gain
    return Prior(table, clients, floor)


def _seen(columns: Sequence[str]) -> list[int]:
    """Columns that the trees see: ports are the prior's."""
    return [i for i, name in enumerate(columns) if name not in ("server_port", "client_port")]


def _groups(rows: Rows) -> Array:
    return numpy.arange(len(rows.labels)) if rows.groups is None else numpy.asarray(rows.groups)


class PortPrior:
    """The prior alone: a table of ports in which each family of captures counts once."""

    name = "port-prior"
    library = None
    suffix = ".trees.jsonl"

    def __init__(self) -> None:
        # `once`: 1 for each family of captures once, 0 for every flow. `known`: how many flows
        # what is known of a port weighs.
        self.parameters: dict[str, Any] = {
            "once": 1.0, "known": 1.0, "smoothing": 1.0, "floor": 0.003,
        }  # fmt: skip

    def fit(self, rows: Rows, training: Training) -> Prior:
        """Counts flows."""
        settings = {**self.parameters, **training.changed}
        chosen = numpy.arange(len(rows.labels))
        return _prior(rows, chosen, settings, training.known_ports, len(training.classes))

    def predict(self, model: Prior, rows: Rows) -> Array:
        """Looks up."""
        return softmax(model.scores(rows))

    def save(self, model: Prior, path: Path, rows: Rows, training: Training, f: HeaderBits) -> None:
        """Writes a tree for each class, or two."""
        tests: dict[str, int] = {}
        trees = model.trees(training.classes, tests)
        head = table_head(training.classes, f)
        head |= {"kind": "softmax", "start": [0.0] * len(training.classes)}
        Trees(head, list(tests), trees).save(path)


def _logarithm(frequencies: Array, floor: float) -> Array:
    """Logarithms of frequencies of which none is less than the floor."""
    class_count = numpy.shape(frequencies)[-1]
    return numpy.log(numpy.asarray(frequencies) * (1 - floor * class_count) + floor)


class BoostedPorts:
    """LightGBM's trees on top of the prior, small ones: the prior has told most already."""

    name = "boosted-ports"
    library = "lightgbm"
    suffix = ".trees.jsonl"

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {
            "num_boost_round": 40,
            "learning_rate": 0.1,
            "num_leaves": 7,
            "feature_fraction": 0.3,
            "min_data_in_leaf": 8,
            "min_sum_hessian_in_leaf": 1.0,
            "lambda_l2": 5.0,
            # Of the prior, as above.
            "once": 1.0,
            "known": 1.0,
            "smoothing": 1.0,
            # No class is less probable to begin with.
            "floor": 0.003,
            # Of each family, class, protocol and port so many flows train at most, and share
            # their weight to this power.
            "flows_max": 16,
            "shared": 0.5,
        }

    def fit(self, rows: Rows, training: Training) -> Model[Prior]:
        """Trains trees from a prior that did not see the families of the flows it is told for."""
        lightgbm = compat.need("lightgbm", self.name)
        settings = {**self.parameters, **training.changed}
        own = {name: settings.pop(name) for name in ("once", "known", "smoothing", "floor")}
        class_count = len(training.classes)
        flows_max, shared = int(settings.pop("flows_max")), float(settings.pop("shared"))
        rounds = int(settings.pop("num_boost_round"))
        protocols, ports = port_numbers(rows)
        everything = numpy.arange(len(rows.labels))
        dice = numpy.random.default_rng(training.seed)
        _, groups = numpy.unique(_groups(rows), return_inverse=True)
        fold_of = dice.integers(0, FOLDS, int(groups.max()) + 1)[groups]

        def fit(chosen: Array) -> Prior:
            return _prior(rows, everything[chosen], own, training.known_ports, class_count)

        start = starts(rows, fold_of, class_count, fit)
        alike = [groups, rows.labels, protocols, numpy.minimum(ports, _DRAWN_PORT)]
        chosen = _some_of_each(alike, flows_max, dice)
        weights = shared_weights([part[chosen] for part in alike], shared) * rows.weights[chosen]
        seen = _seen(rows.columns)
        data = lightgbm.Dataset(
            rows.values[numpy.ix_(chosen, seen)],
            rows.labels[chosen],
            weight=weights,
            init_score=start[chosen].ravel(order="F"),
        )
        settings |= lightgbm_task(training)
        booster = lightgbm.train(settings, data, num_boost_round=rounds)
        return Model(fit(numpy.ones(len(everything), dtype=bool)), booster)

    def predict(self, model: Model[Prior], rows: Rows) -> Array:
        """The prior's logarithm and the trees' scores, as probabilities."""
        return model.predict(rows, rows.values[:, _seen(rows.columns)])

    def save(
        self, model: Model[Prior], path: Path, rows: Rows, training: Training, f: HeaderBits
    ) -> None:
        """Writes a tree of the prior for each class, then the booster's."""
        columns = [rows.columns[index] for index in _seen(rows.columns)]

        def of_prior(tests: dict[str, int]) -> list[dict[str, Any]]:
            return model.prior.trees(training.classes, tests)

        source = "wirelens port prior, lightgbm"
        model.trees(source, of_prior, columns, training.classes, f).save(path)


def _some_of_each(parts: list[Array], count: int, dice: numpy.random.Generator) -> Array:
    """Rows of which at most so many are alike in all parts, drawn by chance; in order."""
    order = dice.permutation(len(parts[0]))
    keys = zip(*(numpy.asarray(part)[order].tolist() for part in parts), strict=True)
    seen: dict[tuple[Any, ...], int] = {}
    chosen = []
    for row, key in zip(order.tolist(), keys, strict=True):
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= count:
            chosen.append(row)
    return numpy.sort(numpy.array(chosen, dtype=numpy.int64))


def family(name: str) -> PortPrior | BoostedPorts:
    """The family of this name, for `families.family`."""
    return PortPrior() if name == PortPrior.name else BoostedPorts()
