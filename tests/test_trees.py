"""Trained trees score in Wirelens as they do in the libraries that trained them."""

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wirelens import ModelError, trees
from wirelens.trees import HeaderBits, to_forest

LIBRARIES = ("numpy", "sklearn", "lightgbm", "xgboost")
MISSING = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
needs_trainers = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
)
CLASSES = ["web", "mail", "voice", "games"]


class Flows:
    """Made-up flows: half of their headers' bits follow the class, others are noise."""

    def __init__(self, packets: int, count: int, class_count: int, seed: int) -> None:
        import numpy

        dice = numpy.random.default_rng(seed)
        self.features = HeaderBits(packets=packets)
        names = list(self.features.columns)
        habits = numpy.random.default_rng(99).integers(0, 2, (len(CLASSES), len(names)))
        self.labels = dice.integers(0, class_count, count)
        shape = (count, packets, len(names))
        bits = dice.integers(0, 2, shape)
        follows = dice.random(shape) < 0.3
        of_class = numpy.repeat(habits[self.labels][:, None, :], packets, axis=1)
        bits = numpy.where(follows, of_class, bits)
        # Bytes that are there: either of the transports, fewer options than could be, and of a
        # short flow only the first packets.
        there = numpy.ones((count, packets, 128), dtype=bool)
        is_tcp = dice.random(count) < 0.5 + 0.1 * self.labels
        there[:, :, 20:60] = False
        there[:, :, 60:120] = is_tcp[:, None, None]
        there[:, :, 120:] = ~is_tcp[:, None, None]
        options = dice.integers(0, 11, (count, packets)) * 4
        there[:, :, 80:120] &= numpy.arange(40) < options[:, :, None]
        lengths = dice.integers(1, packets + 1, count)
        there &= (numpy.arange(packets) < lengths[:, None])[:, :, None]
        is_there = numpy.repeat(there, 8, axis=2)
        values = numpy.where(is_there, bits, -1).astype(numpy.int8)
        data = numpy.packbits(numpy.where(is_there, bits, 0).astype(numpy.uint8), axis=2)
        records = numpy.concatenate([data, numpy.packbits(there, axis=2)], axis=2)
        self.records = records.tobytes()
        matrix = values.reshape(count, -1)
        # As training does it: columns that say nothing are removed.
        kept = matrix.min(axis=0) < matrix.max(axis=0)
        self.kept = kept
        self.columns = [n for n, k in zip(self.features.row_columns(), kept, strict=True) if k]
        self.matrix = matrix[:, kept]


def decision_tree(x: Any, y: Any, _: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(min_samples_leaf=15, random_state=1).fit(x, y)


def random_forest(x: Any, y: Any, _: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(30, random_state=1).fit(x, y)


def extra_trees(x: Any, y: Any, _: int) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(30, random_state=1).fit(x, y)


def lightgbm(x: Any, y: Any, class_count: int) -> Any:
    from lightgbm import LGBMClassifier

    settings: dict[str, Any] = {"num_leaves": 31, "learning_rate": 0.1, "min_child_samples": 3}
    return LGBMClassifier(n_estimators=20, n_jobs=1, verbosity=-1, **settings).fit(x, y)


def xgboost(x: Any, y: Any, class_count: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=20, n_jobs=1, max_depth=6).fit(x, y)


class Told:
    """A booster that tells this of itself."""

    __module__ = "lightgbm.basic"

    def __init__(self, dump: dict[str, Any]) -> None:
        self.dump = dump

    def dump_model(self) -> dict[str, Any]:
        return self.dump


Train = Callable[[Any, Any, int], Any]


@pytest.mark.train
@needs_trainers
@pytest.mark.parametrize(("packets", "class_count"), [(1, 4), (1, 2), (5, 4)])
@pytest.mark.parametrize(
    ("train", "bound"),
    [
        (decision_tree, 0.0),
        (random_forest, 0.0),
        (extra_trees, 0.0),
        (lightgbm, 1e-12),
        (xgboost, 1e-5),
    ],
)
def test_scores_are_those_of_the_library(
    train: Train, bound: float, packets: int, class_count: int, tmp_path: Path
) -> None:
    import numpy

    flows = Flows(packets, 1500, class_count, seed=packets)
    model = train(flows.matrix, flows.labels, class_count)
    path = tmp_path / "model.trees.jsonl"
    to_forest(model, flows.columns, CLASSES[:class_count], flows.features).save(path)
    forest = trees.load(path)
    assert forest.classes == CLASSES[:class_count]
    assert (forest.schema, forest.packet_count) == (flows.features.hash(), packets)
    # Flows that the model has not seen.
    other = Flows(packets, 3000, class_count, seed=77)
    columns = {n: i for i, n in enumerate(other.features.row_columns())}
    whole = numpy.full((3000, len(columns)), -1, dtype=numpy.int8)
    whole[:, other.kept] = other.matrix
    wanted = model.predict_proba(whole[:, [columns[name] for name in flows.columns]])
    scores = numpy.asarray(trees.score(forest, other.records))
    difference = float(numpy.abs(scores - wanted).max())
    print(f"{train.__name__}, {packets} packets, {class_count} classes: {difference:.3g}")
    assert difference <= bound
    assert (scores.argmax(axis=1) == wanted.argmax(axis=1)).all()
    # The model is none that always says the same.
    assert (scores.argmax(axis=1) == other.labels).mean() > 1.3 / class_count
    row_len = forest.record_len * packets
    for row in random.Random(5).sample(range(3000), 20):
        alone = trees.score(forest, other.records[row * row_len : (row + 1) * row_len])
        assert alone.tolist() == [scores[row].tolist()]
    # Packets that are not there may be left out.
    assert packets == 1 or trees.score(forest, other.records[:144], 1).nbytes == 8 * class_count


@pytest.mark.train
@needs_trainers
def test_what_cannot_be_exported_is_named() -> None:
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    flows = Flows(1, 300, 2, seed=3)
    matrix, columns, features = flows.matrix, flows.columns, flows.features

    def refused(model: Any, matrix: Any = matrix, columns: list[str] = columns) -> str:
        with pytest.raises(ModelError) as refusal:
            to_forest(model.fit(matrix, flows.labels), columns, CLASSES[:2], features)
        return str(refusal.value)

    few = {"n_estimators": 2, "verbosity": -1}
    assert "unscaled" in refused(DecisionTreeClassifier(), matrix * 3.0)
    assert "no trees that can be exported" in refused(LogisticRegression())
    assert "objective regression; wanted: multiclass" in refused(LGBMRegressor(**few))
    dump = LGBMClassifier(**few).fit(matrix, flows.labels).booster_.dump_model()
    for key, value, wanted in [
        ("missing_type", "Zero", "zero_as_missing: 0 is a value"),
        ("decision_type", "==", "a categorical split"),
        ("leaf_value", 0.5, "linear_tree"),
    ]:
        root = {**dump["tree_info"][0]["tree_structure"], "leaf_coeff": [1.0], key: value}
        told = Told({**dump, "tree_info": [{"tree_structure": root}]})
        with pytest.raises(ModelError, match=wanted):
            to_forest(told, columns, CLASSES[:2], features)
    assert "columns: 7 were named" in refused(DecisionTreeClassifier(), columns=columns[:7])
    strange = [*columns[:-1], "pkt0_tcp_sin_0"]
    assert refused(DecisionTreeClassifier(), columns=strange).startswith("pkt0_tcp_sin_0: no col")


def small() -> trees.Trees:
    features = HeaderBits()
    head = {
        "format": "wirelens trees", "version": 1, "kind": "mean", "classes": ["a", "b"],
        "schema": features.hash(), "headers": "innermost", "blocks": features.blocks(),
        "payload_bytes": 0, "packets": 1, "numbers": [],
    }  # fmt: skip
    tree = {"nodes": [0, -1, -1], "leaves": [[1, 0], [0.25, 0.75]]}
    return trees.Trees(head, ["pkt0_tcp_syn_0 is 1"], [tree])


def test_a_file_is_scored_and_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "small.trees.jsonl"
    small().save(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    forest = trees.load(path)
    syn = bytearray(144)
    syn[73] = 2
    assert trees.score(forest, bytes(144) + syn).tolist() == [[1.0, 0.0], [0.25, 0.75]]
    assert trees.score(forest, b"").tolist() == []
    with pytest.raises(ValueError, match="145 bytes; wanted: a multiple of 144"):
        forest.score(bytes(145), 1)
    with pytest.raises(ValueError, match="packet_count: 2; wanted: from 1 to 1"):
        forest.score(bytes(288), 2)
    path.write_text(small().text().replace("0.75", "0.76"))
    with pytest.raises(ModelError, match="the file was changed after it was written"):
        trees.load(path)
    with pytest.raises(ModelError, match="nothing.trees.jsonl: No such file"):
        trees.load(tmp_path / "nothing.trees.jsonl")


def test_the_schema_is_that_of_the_crate() -> None:
    # The hashes that `model::schema` keeps for ever.
    assert HeaderBits().hash().startswith("501a6b5e71d3add2")
    assert HeaderBits(packets=3).hash().startswith("2093523afca95c79")
    payload = HeaderBits(["udp_len_3", "payload_bit_9"], packets=2)
    assert (payload.blocks(), payload.payload_bytes()) == (["udp"], 2)
    assert payload.row_columns()[2:] == ["pkt1_udp_len_3", "pkt1_payload_bit_9"]
