"""Trained trees score in Wirelens as they do in the libraries that trained them."""

import functools
import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import ROOT
from wirelens import ModelError, OptionError, trees
from wirelens.classify.features import FirstPacketsTable, FlowFeatures, first_packets
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


class TreeReader:
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
    from xgboost import XGBClassifier

    flows = Flows(1, 300, 2, seed=3)
    matrix, columns, features = flows.matrix, flows.columns, flows.features

    def refused(model: Any, matrix: Any = matrix, columns: list[str] = columns) -> str:
        with pytest.raises(ModelError) as refusal:
            to_forest(model.fit(matrix, flows.labels), columns, CLASSES[:2], features)
        return str(refusal.value)

    assert "missing=-1: a value of a bit" in refused(XGBClassifier(n_estimators=2, missing=-1))
    few = {"n_estimators": 2, "verbosity": -1}
    assert "unscaled" in refused(DecisionTreeClassifier(), matrix * 3.0)
    assert "not trees that can be exported" in refused(LogisticRegression())
    assert "objective regression; wanted: multiclass" in refused(LGBMRegressor(**few))
    dump = LGBMClassifier(**few).fit(matrix, flows.labels).booster_.dump_model()
    for key, value, wanted in [
        ("missing_type", "Zero", "zero_as_missing: 0 is a value"),
        ("decision_type", "==", "a categorical split"),
        ("leaf_value", 0.5, "linear_tree"),
    ]:
        root = {**dump["tree_info"][0]["tree_structure"], "leaf_coeff": [1.0], key: value}
        told = TreeReader({**dump, "tree_info": [{"tree_structure": root}]})
        with pytest.raises(ModelError, match=wanted):
            to_forest(told, columns, CLASSES[:2], features)
    assert "columns: 7 were named" in refused(DecisionTreeClassifier(), columns=columns[:7])
    strange = [*columns[:-1], "pkt0_tcp_sin_0"]
    assert refused(DecisionTreeClassifier(), columns=strange).startswith("pkt0_tcp_sin_0: no col")


def test_numbers_that_no_split_compares_can_be_left_out():
    features = HeaderBits(packets=1, numbers=["server_port", "protocol", "pkt0_size_bytes"])
    tests = ["pkt0_size_bytes > 99.5", "pkt0_tcp_syn_0 is 1", "protocol > 6.5"]
    written = trees.Trees(features.told(), tests, []).with_read_numbers(features)
    own = HeaderBits(packets=1, numbers=["protocol", "pkt0_size_bytes"])
    assert written.head == own.told()
    assert (written.tests, written.trees) == (tests, [])


def stopped_early(x: Any, y: Any, _: int) -> Any:
    from xgboost import XGBClassifier

    settings: dict[str, Any] = {"max_depth": 3, "learning_rate": 0.5, "n_jobs": 1}
    model = XGBClassifier(n_estimators=200, early_stopping_rounds=2, **settings)
    model.fit(x[::2], y[::2], eval_set=[(x[1::2], y[1::2])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds() < 200
    return model


def lightgbm_stopped_early(x: Any, y: Any, _: int) -> Any:
    from lightgbm import LGBMClassifier, early_stopping

    model = LGBMClassifier(n_estimators=200, n_jobs=1, verbosity=-1, min_child_samples=3)
    stop = [early_stopping(2, verbose=False)]
    model.fit(x[::2], y[::2], eval_set=[(x[1::2], y[1::2])], callbacks=stop)
    assert 0 < model.best_iteration_ < 198
    return model


PACKETS = 4
OF_PACKET = ("size_bytes", "direction", "gap_ns", "payload_bytes", "byte_0", "byte_5")


@functools.cache
def real_rows() -> tuple[FirstPacketsTable, list[str], Any]:
    """Flows of the captures that ship; which of their bits vary; four classes by all bytes."""
    import numpy

    numbers = ["protocol", "client_port", "server_port"]
    numbers += [f"pkt{packet}_{name}" for packet in range(PACKETS) for name in OF_PACKET]
    blocks = ("ipv4", "ipv6", "tcp", "udp", "icmp")
    features = FlowFeatures(blocks=blocks, payload_bytes=6, packets=PACKETS, numbers=numbers)
    table = first_packets([ROOT / "testdata/demo.pcapng", ROOT / "testdata/testbed"], features)
    sizes = numpy.array(table.keys()["bytes"])
    labels = numpy.searchsorted(numpy.quantile(sizes, [0.25, 0.5, 0.75]), sizes)
    return table, table.varying_bits(), labels


def numbers_at_thresholds(written: trees.Trees, numbers: Any, names: list[str]) -> Any:
    """The rows with numbers that lie on what splits compare with, and right beside it."""
    import numpy

    dice = numpy.random.default_rng(8)
    changed = numbers.copy()
    comparisons = [test.split(" ") for test in written.tests if " is " not in test]
    for name in {name for name, _, _ in comparisons}:
        at = numpy.float32([float(t) for n, _, t in comparisons if n == name])
        near = [numpy.nextafter(at, numpy.float32(side)) for side in (-numpy.inf, numpy.inf)]
        values = numpy.concatenate([at, *near])
        # What is no further from 0 than that is 0 for LightGBM; no number of a flow is.
        values = numpy.where(numpy.abs(values) < 1e-30, numpy.float32(0), values)
        column = changed[:, names.index(name)]
        is_kept = dice.random(len(column)) < 0.5
        column[:] = numpy.where(is_kept, column, dice.choice(values, len(column)))
    return changed


@pytest.mark.train
@needs_trainers
@pytest.mark.parametrize("class_count", [4, 2])
@pytest.mark.parametrize(
    ("train", "bound"),
    [
        (decision_tree, 0.0),
        (random_forest, 0.0),
        (extra_trees, 0.0),
        (lightgbm, 1e-12),
        (lightgbm_stopped_early, 1e-12),
        (xgboost, 1e-5),
        (stopped_early, 1e-5),
    ],
)
def test_real_rows_of_bits_and_numbers_score_the_same(
    train: Train, bound: float, class_count: int, tmp_path: Path
) -> None:
    import numpy

    table, bits, labels = real_rows()
    labels = labels % class_count
    numbers, names = numpy.asarray(table.numbers), list(table.features.numbers)
    matrix = numpy.concatenate([numpy.asarray(table.bits(bits)), numbers], axis=1)
    # Numbers stand among the bits, as any choice of columns may have them.
    order = numpy.random.default_rng(2).permutation(matrix.shape[1])
    columns = [[*bits, *names][place] for place in order]
    model = train(matrix[:, order], labels, class_count)
    classes = CLASSES[:class_count]
    written = to_forest(model, columns, classes, table.features.header_bits())
    asked = {" is " in test for test in written.tests}
    assert asked == {True, False}, "no tests of bits, or none of numbers"
    path = tmp_path / "model.trees.jsonl"
    written.save(path)
    forest = trees.load(path)
    assert forest.numbers == names and forest.schema == table.features.hash()
    worst = 0.0
    at_thresholds = numbers_at_thresholds(written, numbers, names)
    for beside in (numbers, at_thresholds):
        matrix[:, len(bits) :] = beside
        wanted = model.predict_proba(matrix[:, order])
        scores = numpy.asarray(trees.score(forest, table.records, numbers=beside))
        worst = max(worst, float(numpy.abs(scores - wanted).max()))
    print(f"{train.__name__}, {class_count} classes, {len(table)} rows: {worst:.3g}")
    assert worst <= bound
    assert (at_thresholds != numbers).mean() > 0.05
    ours = numpy.asarray(table.score(forest))
    assert (ours == numpy.asarray(trees.score(forest, table.records, numbers=numbers))).all()
    assert (ours.argmax(axis=1) == labels).mean() > 1.2 / class_count


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


def test_rows_may_have_numbers(tmp_path: Path) -> None:
    features = FlowFeatures(packets=2, numbers=["server_port", "pkt1_size_bytes"])
    numbers = list(features.numbers)
    head = {**small().head, "numbers": numbers, "packets": 2, "schema": features.hash()}
    tree = {"nodes": [0, -1, 1, -1, -1], "leaves": [[1, 0], [0.5, 0.5], [0, 1]]}
    path = tmp_path / "numbers.trees.jsonl"
    trees.Trees(head, ["server_port >= 443", "pkt1_size_bytes > 59.5"], [tree]).save(path)
    forest = trees.load(path)
    demo = ROOT / "testdata/demo.pcapng"
    table = first_packets(demo, features)
    scores = table.score(forest).tolist()
    for row, (port, size) in zip(scores, table.numbers.tolist(), strict=True):
        assert row == (([0.5, 0.5] if size <= 59.5 else [0, 1]) if port >= 443 else [1, 0])
    assert len({tuple(row) for row in scores}) == 3
    for beside, wanted in (
        (memoryview(bytes(8)).cast("d"), "numbers: 8 bytes; wanted: 16, 2 for each row, 64 bits"),
        (memoryview(bytes(8)).cast("f"), "numbers: of type 'f'; wanted: 64-bit floating point"),
        (None, "numbers: 0 bytes; wanted: 16"),
    ):
        with pytest.raises(OptionError, match=wanted):
            trees.score(forest, bytes(288), numbers=beside)
    udp = FlowFeatures(blocks=["udp"], packets=3, numbers=numbers)
    for other in (FlowFeatures(packets=2), features.first(1), udp):
        with pytest.raises(ModelError, match="of 2 packets and 2 numbers; wanted: that of the row"):
            first_packets(demo, other).score(forest)


def test_the_schema_is_that_of_the_crate() -> None:
    # The hashes that `model::schema` keeps for ever.
    assert HeaderBits().hash().startswith("501a6b5e71d3add2")
    assert HeaderBits(packets=3).hash().startswith("2093523afca95c79")
    payload = HeaderBits(["udp_len_3", "payload_bit_9"], packets=2)
    assert (payload.blocks(), payload.payload_bytes()) == (["udp"], 2)
    assert payload.row_columns()[2:] == ["pkt1_udp_len_3", "pkt1_payload_bit_9"]
