"""Trained trees as files that Wirelens scores: from scikit-learn, LightGBM and XGBoost.

A model is trained on header bits, −1, 0 or 1, as `wirelens nprint` gives them, and on numbers
beside them, such as sizes, as `wirelens.classify.features` gives these, with whatever columns were
found worth keeping. `to_forest` makes of it the file that `docs/specs/trees.md` describes; `load`
scores it as the command does, on compact records and numbers.

>>> features = HeaderBits(packets=1)
>>> len(features.row_columns()), features.row_columns()[-1]
(1024, 'pkt0_udp_cksum_15')

The libraries are not imported here: whoever has a model has its library.
"""

import hashlib
import json
import math
import os
import struct
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wirelens import _wirelens, written
from wirelens._wirelens import Forest
from wirelens.errors import ModelError, OptionError
from wirelens.views import rows_of

_BLOCKS = ("ipv4", "ipv6", "tcp", "udp", "icmp", "payload")
_SKLEARN_TREES = {"DecisionTreeClassifier", "ExtraTreeClassifier"}
_SKLEARN_FORESTS = {"RandomForestClassifier", "ExtraTreesClassifier"}

# What a node is: the index of a column, the threshold and the children; or a leaf's value.
Split = tuple[int, float, Any, Any]
Leaf = float | list[float]


@dataclass(frozen=True)
class HeaderBits:
    """What was extracted of packets: the schema that a model carries.

    Packets are those of a flow; None means that each row is a packet by itself. Numbers stand
    behind the bits of all packets. With `window_ns`, rows are of flows in windows of this length.
    With `identity` "masked", what tells units and networks is absent.
    """

    columns: Sequence[str] = field(
        default_factory=lambda: _wirelens.header_columns(["ipv4", "tcp", "udp"], 0)
    )
    packets: int | None = None
    headers: str = "innermost"
    numbers: Sequence[str] = ()
    window_ns: int | None = None
    identity: str = "kept"

    def __post_init__(self) -> None:
        if self.headers not in ("innermost", "outermost"):
            raise ModelError(f"headers: {self.headers!r}; wanted: innermost or outermost")

    def hash(self) -> str:
        """The SHA-256 of the schema."""
        is_innermost = self.headers == "innermost"
        columns, numbers = list(self.columns), list(self.numbers)
        return _wirelens.schema_hash(
            columns, self.packets, is_innermost, numbers, self.window_ns, self.identity
        )

    def told(self) -> dict[str, Any]:
        """What the first line of a file of trees says of them."""
        return {
            "schema": self.hash(),
            "headers": self.headers,
            # Files from before there was a choice are the same as ever.
            **({} if self.identity == "kept" else {"identity": self.identity}),
            "blocks": self.blocks(),
            "payload_bytes": self.payload_bytes(),
            "packets": self.packets or 1,
            "numbers": list(self.numbers),
        }

    def row_columns(self) -> list[str]:
        """Names of a row's columns: of packets, with the packet's number before each; numbers."""
        if self.packets is None:
            return [*self.columns, *self.numbers]
        bits = [f"pkt{packet}_{name}" for packet in range(self.packets) for name in self.columns]
        return [*bits, *self.numbers]

    def blocks(self) -> list[str]:
        """The blocks that a record has, in order, without the payload."""
        seen = {name.partition("_")[0] for name in self.columns}
        unknown = sorted(seen.difference(_BLOCKS))
        if unknown:
            raise ModelError(f"{unknown[0]}_…: no column of header bits; wanted: {_BLOCKS}")
        return [block for block in _BLOCKS[:-1] if block in seen]

    def payload_bytes(self) -> int:
        """How many bytes of payload a record has."""
        prefix = "payload_bit_"
        bits = [int(n.removeprefix(prefix)) for n in self.columns if n.startswith(prefix)]
        return max(bits) // 8 + 1 if bits else 0


@dataclass(frozen=True)
class Trees:
    """Trees as they will be written."""

    head: dict[str, Any]
    tests: list[str]
    trees: list[dict[str, Any]]

    def with_read_numbers(self, features: HeaderBits) -> "Trees":
        """The same without the numbers of `features` that no split compares: whoever serves it does
        not extract them.
        """
        read = {test.partition(" ")[0] for test in self.tests}
        own = replace(features, numbers=[name for name in features.numbers if name in read])
        return replace(self, head={**self.head, **own.told()})

    def text(self) -> str:
        """The whole file, sealed."""
        head = {**self.head, "trees": len(self.trees)}
        lines = [_json(head), _json({"tests": self.tests}), *map(_json, self.trees)]
        content = "".join(f"{line}\n" for line in lines)
        seal = hashlib.sha256(content.encode()).hexdigest()
        return f'{content}{{"sha256":"{seal}"}}\n'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file; it has its name once it is complete."""
        written.text(Path(path), self.text())


class _Writer:
    """Trees of one model, node by node; tests that are met again have one name."""

    def __init__(
        self, columns: Sequence[str], numbers: Collection[str], goes_left_below: bool
    ) -> None:
        self.columns = list(columns)
        self.numbers = set(numbers)
        self.goes_left_below = goes_left_below
        self.tests: dict[str, int] = {}
        self.trees: list[dict[str, Any]] = []

    def add(
        self, root: Any, expand: Callable[[Any], Split | Leaf], class_index: int | None = None
    ) -> None:
        """Adds a tree breadth first; `expand` tells of a node what it is."""
        nodes: list[int] = []
        leaves: list[Leaf] = []
        waiting = deque([root])
        while waiting:
            node = expand(waiting.popleft())
            if isinstance(node, tuple):
                column, threshold, left, right = node
                test = self.test(column, threshold)
                nodes.append(self.tests.setdefault(test, len(self.tests)))
                waiting += (left, right)
            else:
                nodes.append(-1)
                leaves.append(node)
        tree = {} if class_index is None else {"class": class_index}
        self.trees.append({**tree, "nodes": nodes, "leaves": leaves})

    def test(self, column: int, threshold: float) -> str:
        """What tells left from right: of a value that is −1, 0 or 1, a bit."""
        if not 0 <= column < len(self.columns):
            raise ModelError(
                f"the model splits on column {column}, and {len(self.columns)} were named; "
                "name all columns that it was trained on, in order"
            )
        name = self.columns[column]
        if name in self.numbers:
            return self.comparison(name, threshold)
        if not name.startswith("pkt"):
            name = f"pkt0_{name}"
        if self.goes_left_below:
            asks_there, asks_one = -1 < threshold <= 0, 0 < threshold <= 1
        else:
            asks_there, asks_one = -1 <= threshold < 0, 0 <= threshold < 1
        if asks_there:
            return f"{name} is there"
        if asks_one:
            return f"{name} is 1"
        sign = "<" if self.goes_left_below else "<="
        raise ModelError(
            f"a split {name} {sign} {threshold!r}, which does not separate the values −1, 0 "
            "and 1; train on the unscaled values of `wirelens nprint`"
        )

    def comparison(self, name: str, threshold: float) -> str:
        """The comparison that tells left from right.

        Rows hold numbers that 32 bits have room for, so a library that casts them to that compares
        the same ones, with the threshold as it is: all three take 64 bits of it or, XGBoost, 32.
        """
        if not math.isfinite(threshold):
            raise ModelError(f"a split {name} at {threshold!r}; wanted: a finite number")
        sign = ">=" if self.goes_left_below else ">"
        return f"{name} {sign} {threshold!r}"


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise ModelError(f"a leaf that is not a finite number ({error}); train again") from error


def to_forest(
    model: Any, columns: Sequence[str], classes: Iterable[object], features: HeaderBits
) -> Trees:
    """A trained model as trees of header bits.

    `model` is scikit-learn's DecisionTreeClassifier or RandomForestClassifier (or their extra
    trees), LightGBM's Booster or LGBMClassifier, XGBoost's Booster or XGBClassifier. `columns`
    names what it was trained on, in order, and `classes` what it tells apart, in the order of its
    scores. `features` is what was extracted, of which `columns` may be a part. XGBoost must not
    have been told that −1 means missing. Where training stopped early, trees end at the best round.
    """
    names = [str(name) for name in classes]
    known = set(features.row_columns())
    strange = next((name for name in columns if name not in known), None)
    if strange is not None:
        example = features.row_columns()[0]
        raise ModelError(f"{strange}: no column of the features; wanted: such as {example}")
    if len(names) < 2 or len(set(names)) < len(names):
        raise ModelError(f"classes: {names}; wanted: two or more, each once")
    kind = {base.__name__ for base in type(model).__mro__}
    package = type(model).__module__.partition(".")[0]
    if package == "sklearn" and kind & (_SKLEARN_TREES | _SKLEARN_FORESTS):
        writer = _Writer(columns, features.numbers, goes_left_below=False)
        head = _from_sklearn(model, writer, names)
    elif package == "lightgbm":
        writer = _Writer(columns, features.numbers, goes_left_below=False)
        head = _from_lightgbm(getattr(model, "booster_", model), writer, names)
    elif package == "xgboost":
        writer = _Writer(columns, features.numbers, goes_left_below=True)
        head = _from_xgboost(model, writer, names)
    else:
        raise ModelError(
            f"{type(model).__module__}.{type(model).__name__}: not trees that can be exported; "
            "wanted: a decision tree or random forest of scikit-learn, LightGBM or XGBoost"
        )
    return Trees(
        {
            "format": "wirelens trees",
            "version": 1,
            "source": package,
            **head,
            "classes": names,
            **features.told(),
        },
        list(writer.tests),
        writer.trees,
    )


def load(path: str | os.PathLike[str]) -> Forest:
    """Reads a file of trees, to score with."""
    return Forest.load(path)


def score(
    forest: Forest,
    records: bytes,
    packet_count: int | None = None,
    numbers: Any = None,
) -> "memoryview[float]":
    """A probability for each class of each row, as rows of 64-bit numbers.

    `records` are compact records of flows, each of `packet_count` packets, all that the forest
    reads unless told. `numbers` are those that stand beside them, `forest.numbers` for each row, as
    anything with memory of 64-bit floating point: a NumPy array or a ``memoryview``. NumPy takes
    the result as it is: `numpy.asarray(score(forest, records))`.
    """
    beside = None
    if numbers is not None:
        view = memoryview(numbers)
        if view.format != "d":
            raise OptionError(f"numbers: of type {view.format!r}; wanted: 64-bit floating point")
        beside = view.tobytes()
    scores = forest.score(records, packet_count or forest.packet_count, beside)
    return rows_of(scores, "d", len(forest.classes))


def _same_count(what: str, seen: int, wanted: int) -> None:
    if seen != wanted:
        raise ModelError(f"{what}: {wanted} were named, and the model has {seen}; name all of them")


def _from_sklearn(model: Any, writer: _Writer, classes: list[str]) -> dict[str, Any]:
    if getattr(model, "n_outputs_", 1) != 1:
        raise ModelError(f"{model.n_outputs_} outputs; wanted: a classifier with one")
    _same_count("columns", model.n_features_in_, len(writer.columns))
    _same_count("classes", model.n_classes_, len(classes))
    for estimator in getattr(model, "estimators_", [model]):
        tree = estimator.tree_
        features, thresholds = tree.feature.tolist(), tree.threshold.tolist()
        lefts, rights = tree.children_left.tolist(), tree.children_right.tolist()
        values = tree.value[:, 0, :].tolist()

        def expand(
            node: int,
            features: list[int] = features,
            thresholds: list[float] = thresholds,
            lefts: list[int] = lefts,
            rights: list[int] = rights,
            values: list[list[float]] = values,
        ) -> Split | Leaf:
            if lefts[node] >= 0:
                return features[node], thresholds[node], lefts[node], rights[node]
            # Counts until scikit-learn 1.2, fractions since.
            total = sum(values[node])
            is_fraction = abs(total - 1) < 1e-9
            leaf = values[node] if is_fraction else [value / total for value in values[node]]
            return [value or 0 for value in leaf]

        writer.add(0, expand)
    return {"kind": "mean"}


def _from_lightgbm(booster: Any, writer: _Writer, classes: list[str]) -> dict[str, Any]:
    dump = booster.dump_model()
    objective, *parameters = dump.get("objective", "none").split()
    settings = dict(parameter.partition(":")[::2] for parameter in parameters)
    _same_count("columns", dump["max_feature_idx"] + 1, len(writer.columns))
    if dump.get("average_output"):
        raise ModelError("boosting=rf: averaged trees; wanted: boosted ones, or scikit-learn's")
    tree_classes = dump["num_tree_per_iteration"]
    if objective == "multiclass":
        _same_count("classes", dump["num_class"], len(classes))
        head: dict[str, Any] = {"kind": "softmax"}
    elif objective == "binary":
        _same_count("classes", 2, len(classes))
        head = {"kind": "sigmoid", "slope": float(settings.get("sigmoid", 1))}
    else:
        raise ModelError(f"objective {objective}; wanted: multiclass or binary")

    def expand(node: dict[str, Any]) -> Split | Leaf:
        if "leaf_value" in node:
            if node.get("leaf_coeff"):
                raise ModelError("linear_tree: leaves that are not constants; wanted: without it")
            return float(node["leaf_value"])
        if node["decision_type"] != "<=":
            name = writer.columns[node["split_feature"]]
            raise ModelError(f"{name}: a categorical split; train with header bits as numbers")
        if node["missing_type"] == "Zero":
            raise ModelError("zero_as_missing: 0 is a value of a bit; train without it")
        children = node["left_child"], node["right_child"]
        return node["split_feature"], float(node["threshold"]), *children

    for index, tree in enumerate(dump["tree_info"]):
        class_index = index % tree_classes if objective == "multiclass" else 1
        writer.add(tree["tree_structure"], expand, class_index)
    return {**head, "start": [0.0] * len(classes)}


def _single(value: float) -> float:
    """The 32-bit number that XGBoost wrote with fewer digits."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _xgboost_model(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A booster's own description, cut where early stopping found the best round."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    best = booster.attr("best_iteration") if booster is not model else None
    if best is not None:
        booster = booster[: int(best) + 1]
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    name = learner["gradient_booster"]["name"]
    if name != "gbtree":
        raise ModelError(f"booster {name}; wanted: gbtree")
    return learner, learner["gradient_booster"]["model"]


def _from_xgboost(model: Any, writer: _Writer, classes: list[str]) -> dict[str, Any]:
    missing = getattr(model, "missing", math.nan)
    if missing is not None and not math.isnan(missing):
        raise ModelError(f"missing={missing}: a value of a bit or number; train without it")
    learner, trees = _xgboost_model(model)
    parameters, objective = learner["learner_model_param"], learner["objective"]["name"]
    _same_count("columns", int(parameters["num_feature"]), len(writer.columns))
    base = json.loads(parameters["base_score"])
    bases = [_single(value) for value in (base if isinstance(base, list) else [base])]
    if objective in ("multi:softprob", "multi:softmax"):
        _same_count("classes", int(parameters["num_class"]), len(classes))
        start = bases if len(bases) == len(classes) else bases[:1] * len(classes)
        head: dict[str, Any] = {"kind": "softmax", "start": start}
    elif objective == "binary:logistic":
        _same_count("classes", 2, len(classes))
        margin = math.log(bases[0] / (1 - bases[0]))
        head = {"kind": "sigmoid", "slope": 1.0, "start": [0.0, margin]}
    else:
        raise ModelError(f"objective {objective}; wanted: multi:softprob or binary:logistic")
    for tree, class_index in zip(trees["trees"], trees["tree_info"], strict=True):
        if int(tree["tree_param"]["size_leaf_vector"]) > 1:
            raise ModelError("multi_output_tree: leaves of vectors; wanted: one_output_per_tree")
        if tree["categories_nodes"]:
            raise ModelError("categorical splits; train with header bits as numbers")

        def expand(node: int, tree: dict[str, Any] = tree) -> Split | Leaf:
            left, right = tree["left_children"][node], tree["right_children"][node]
            # Of a leaf, its value.
            condition = _single(tree["split_conditions"][node])
            if left < 0:
                return condition
            return tree["split_indices"][node], condition, left, right

        writer.add(0, expand, class_index if objective.startswith("multi") else 1)
    return head
