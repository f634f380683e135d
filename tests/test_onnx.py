"""Models in ONNX score in Wirelens as they do in the libraries that trained and ran them."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_trees import CLASSES, Flows
from wirelens import ModelError, onnx
from wirelens.classify.features import FlowFeatures, first_packets
from wirelens.classify.served import read_model

pytestmark = pytest.mark.train

PACKAGES = ("numpy", "sklearn", "skl2onnx", "onnxruntime")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
)
NO_TORCH = importlib.util.find_spec("torch") is None
# Where `make test-train` could have installed it, its absence is a failure and no reason to skip.
MAY_SKIP = os.geteuid() != 0 and "CI" not in os.environ
needs_torch = pytest.mark.skipif(
    NO_TORCH and MAY_SKIP,
    reason="PyTorch is not installed: bash tools/setup.sh train says how",
)


class NumberFlows:
    """Made-up flows with numbers beside their header bits; a class shows in both."""

    def __init__(self, packets: int, count: int, seed: int) -> None:
        import numpy

        dice = numpy.random.default_rng(seed)
        flows = Flows(packets, count, len(CLASSES), seed)
        self.labels = flows.labels
        names = ["protocol", *(f"pkt{k}_size_bytes" for k in range(packets))]
        self.features = FlowFeatures(packets=packets, numbers=names)
        sizes = dice.integers(40, 1500, (count, packets)) + 300 * flows.labels[:, None]
        protocol = numpy.where(dice.random(count) < 0.5, 6, 17)
        self.table = numpy.column_stack([protocol, sizes]).astype(numpy.float64)
        # Numbers first, then bits, and not in the order of the row: names say which is which.
        self.columns = [*names[::-1], *flows.columns]
        values = [self.table[:, ::-1], flows.matrix]
        self.values = numpy.concatenate(values, axis=1).astype(numpy.float32)
        self.records = flows.records

    def scores(self, path: Path, together: int = 64, **names: str) -> Any:
        """What Wirelens says of all of them."""
        import numpy

        model = onnx.load(path, self.features, self.columns, classes=len(CLASSES), **names)
        return numpy.asarray(onnx.score(model, self.records, self.table.tobytes(), together))


def forest_file(flows: NumberFlows, path: Path, *, zipmap: bool = False) -> Any:
    """A forest of scikit-learn as somebody else would export it."""
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(20, random_state=1).fit(flows.values, flows.labels)
    model = to_onnx(forest, flows.values[:1], options={"zipmap": zipmap}, target_opset=12)
    path.write_bytes(model.SerializeToString())
    return forest


@needs_onnx
def test_a_file_of_another_exporter_scores_as_its_library(tmp_path: Path) -> None:
    flows, path = NumberFlows(2, 300, 3), tmp_path / "forest.onnx"
    forest = forest_file(flows, path)
    scores = flows.scores(path, input="X", output="probabilities")
    assert abs(scores - forest.predict_proba(flows.values)).max() < 1e-5
    # A forest's leaves are looked up; no sum is taken in another order.
    alone = flows.scores(path, together=1, input="X", output="probabilities")
    assert abs(scores - alone).max() < 1e-6


@needs_onnx
def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    flows, path = NumberFlows(1, 200, 4), tmp_path / "forest.onnx"
    forest_file(flows, path)

    def refused(
        features: Any = flows.features, columns: Any = flows.columns, **changed: Any
    ) -> str:
        known: dict[str, Any] = {
            "classes": len(CLASSES), "input": "X", "output": "probabilities", **changed
        }  # fmt: skip
        with pytest.raises(ModelError) as error:
            onnx.load(path, features, columns, **known)
        text = str(error.value)
        assert "\n" not in text
        return text

    count = len(flows.columns)
    assert f"wanted: a tensor of floats, rows of {count - 1} columns" in refused(
        columns=flows.columns[1:]
    )
    assert "wanted: a tensor of floats, a probability for each of 7 classes" in refused(classes=7)
    assert 'input: none is named "row"; the model has' in refused(input="row")
    assert 'output: none is named "p"; the model has' in refused(output="p")
    assert "wanted: a tensor of floats" in refused(output="label")
    strange = [*flows.columns[:-1], "pkt0_tcp_sin_0"]
    assert "pkt0_tcp_sin_0: no column of the features" in refused(columns=strange)
    whole = path.read_bytes()
    for bytes_ in (b"", b"no model", whole[: len(whole) // 2]):
        path.write_bytes(bytes_)
        assert "not an ONNX model that ONNX Runtime can run" in refused()
    forest_file(flows, path, zipmap=True)
    assert "zipmap off" in refused(output="output_probability")


@needs_onnx
@needs_torch
def test_a_network_scores_as_in_the_library_that_trained_it(tmp_path: Path) -> None:
    import numpy
    from wirelens.classify import cnn
    from wirelens.classify.families import Rows, Training

    flows, path = NumberFlows(2, 400, 5), tmp_path / "cnn.onnx"
    weights = numpy.ones(len(flows.labels))
    rows = Rows(flows.values, flows.columns, flows.labels, weights)
    quick = {"epochs": 8, "batch_rows": 16, "learning_rate": 3e-3}
    training = Training(CLASSES, changed=quick)
    family = cnn.family()
    model = family.fit(rows, training)
    again = cnn.family().fit(rows, training)
    own = family.predict(model, rows)
    assert (own == cnn.family().predict(again, rows)).all(), "the same seed, another network"
    assert (own.argmax(axis=1) == flows.labels).mean() > 0.6
    family.save(model, path, rows, training, flows.features.header_bits())
    assert [file.name for file in tmp_path.iterdir()] == ["cnn.onnx"]
    names = {name: family.details[name] for name in ("input", "output")}
    assert abs(flows.scores(path, **names) - own).max() < 1e-5
    assert abs(flows.scores(path, together=1, **names) - own).max() < 1e-5


@needs_torch
def test_batches_of_one_row_are_refused() -> None:
    """None of them would be trained on."""
    from wirelens import OptionError
    from wirelens.learn import networks

    assert networks.Schedule(batch_rows=2).batch_rows == 2
    with pytest.raises(OptionError, match="^batch_rows: 1; wanted: 2 or more"):
        networks.Schedule(batch_rows=1)


@needs_torch
def test_rows_cross_to_pytorch_and_back() -> None:
    import numpy
    from wirelens.learn import networks

    for values in (numpy.arange(6.0).reshape(2, 3), numpy.zeros((0, 3)), numpy.float32([1.5])):
        assert (networks.array(networks.tensor(values)) == values).all()
    assert networks.tensor(numpy.array([2, 3])).tolist() == [2, 3]


@needs_torch
def test_whole_groups_are_held_out() -> None:
    import numpy
    from wirelens.learn import networks

    dice = numpy.random.default_rng(1)
    groups = dice.integers(0, 60, 1000)
    labels = (groups % 4 + dice.integers(0, 2, 1000)) % 4
    is_held = networks.held_out(labels, groups, 0.2, seed=1)
    assert not set(groups[is_held]) & set(groups[~is_held])
    shares = [is_held[labels == label].mean() for label in range(4)]
    assert all(0.1 < share < 0.3 for share in shares), shares
    assert (is_held == networks.held_out(labels, groups, 0.2, seed=1)).all()
    # Of two groups the smaller, of one some of its rows.
    two = networks.held_out(labels, numpy.arange(1000) < 700, 0.2, seed=1)
    assert two[700:].all() and not two[:700].any()
    assert 100 < networks.held_out(labels, numpy.zeros(1000), 0.2, seed=1).sum() < 300


def cascade_of(
    folder: Path,
    model: bytes,
    features: FlowFeatures,
    columns: list[str],
    *,
    stages: int = 1,
    fast: bytes | None = None,
) -> None:
    """A cascade of one stage, as somebody would put a model of their own into one; or of two, with
    the same model in both, or another one in the first."""
    described = {
        "headers": features.headers,
        "blocks": list(features.blocks),
        "payload_bytes": features.payload_bytes,
        "packets": features.packets,
        "numbers": list(features.numbers),
        "schema": features.hash(),
    }
    stage = {
        "stage": "slow", "family": "other", "file": "slow.onnx", "packets": features.packets,
        "features": described, "columns": columns, "input": "X", "output": "probabilities",
    }  # fmt: skip
    cascade = {
        "format": "wirelens cascade", "version": 1, "name": "own", "kind": "flows",
        "classes": ["low", "high"], "wait_ns": 10**10, "segmentation": "single",
        "flows": {"idle_timeout_ns": 120 * 10**9, "active_timeout_ns": 1800 * 10**9},
        "stages": [stage],
    }  # fmt: skip
    if stages == 2:
        first = {"stage": "fast", "uncertainty": "least-confidence", "threshold": 0.1}
        first |= {"file": "fast.onnx"} if fast else {}
        cascade["stages"] = [stage | first, stage]
    files = {"cascade.json": json.dumps(cascade).encode(), "slow.onnx": model}
    files |= {"fast.onnx": fast} if fast else {}
    sums = "".join(f"{hashlib.sha256(c).hexdigest()}  {n}\n" for n, c in files.items())
    folder.mkdir()
    for name, content in {**files, "SHA256SUMS": sums.encode()}.items():
        (folder / name).write_bytes(content)


def classify(folder: Path, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs the command on the capture that ships."""
    capture = Path(__file__).parent.parent / "testdata/demo.pcapng"
    command = [sys.executable, "-m", "wirelens", "classify", "-r", capture, "--model", folder]
    command += [*options, "--format", "jsonl"]
    whole = {**os.environ, **settings}
    return subprocess.run(command, capture_output=True, text=True, env=whole, check=False)


@needs_onnx
def test_the_command_serves_a_model_of_ones_own(tmp_path: Path) -> None:
    import numpy
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier

    capture = Path(__file__).parent.parent / "testdata/demo.pcapng"
    features = FlowFeatures(packets=1, numbers=["protocol", "pkt0_size_bytes"])
    table = first_packets(capture, features)
    keys, bits = table.keys(), table.varying_bits()
    columns = ["pkt0_size_bytes", *bits, "protocol"]
    numbers = numpy.asarray(table.numbers)
    parts = [numbers[:, 1:] / 1, numpy.asarray(table.bits(bits)), numbers[:, :1]]
    values = numpy.concatenate(parts, axis=1).astype(numpy.float32)
    labels = numpy.array(keys["src_port"]) > numpy.median(keys["src_port"])
    own = MLPClassifier((8,), max_iter=50, random_state=1).fit(values, labels)
    scores = own.predict_proba(values)
    model = to_onnx(own, values[:1], options={"zipmap": False}, target_opset=12)
    cascade_of(tmp_path / "own", model.SerializeToString(), features, columns)

    done = classify(tmp_path / "own")
    assert done.returncode == 0, done.stderr
    names = ("src_ip", "src_port", "dst_ip", "dst_port", "first_ns")
    wanted = {
        key: row
        for key, row in zip(zip(*(keys[n] for n in names), strict=True), scores, strict=True)
    }
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == len(table)
    for verdict in verdicts:
        row = wanted[tuple(verdict[name] for name in names)]
        assert verdict["label"] == ["low", "high"][int(row.argmax())]
        assert abs(verdict["confidence"] - row.max()) < 1e-5
    assert verdicts == [json.loads(line) for line in classify(tmp_path / "own").stdout.splitlines()]

    # In Python an artifact's model is asked as the command asks it.
    told = json.loads((tmp_path / "own" / "cascade.json").read_text())["stages"][0]
    served = read_model(tmp_path / "own" / told["file"], told, 2)
    prepared = (bytes(table.records), numbers.tobytes(), len(table))
    assert abs(served.score(prepared, 0, len(table)) - scores).max() < 1e-5
    assert abs(served.score(prepared, 7, 9) - scores[7:9]).max() < 1e-5
    assert served.score(prepared, 3, 3).shape == (0, 2)

    absent = classify(tmp_path / "own", ORT_DYLIB_PATH="/nowhere/libonnxruntime.so")
    assert absent.returncode == 1
    assert "slow.onnx: /nowhere/libonnxruntime.so: cannot open" in absent.stderr
    assert "pip install onnxruntime" in absent.stderr

    # ONNX Runtime as it is installed here computes on processors alone, and says so.
    cascade_of(tmp_path / "two", model.SerializeToString(), features, columns, stages=2)
    command = [sys.executable, "-m", "wirelens", "worker", "--device", "cuda", "--model"]
    refused = subprocess.run(
        [*command, tmp_path / "two"], capture_output=True, text=True, check=False, timeout=60
    )
    assert refused.returncode == 1
    assert "cuda:0: ONNX Runtime has no such device (" in refused.stderr, refused.stderr
    assert "onnxruntime-gpu" in refused.stderr

    from wirelens.classify.cascade import load

    cascade_of(tmp_path / "broken", b"no model", features, columns)
    broken = classify(tmp_path / "broken")
    assert broken.returncode == 1
    assert "slow.onnx: not an ONNX model that ONNX Runtime can run" in broken.stderr
    with pytest.raises(ModelError, match="slow.onnx: not an ONNX model that ONNX Runtime can run"):
        load(tmp_path / "broken")


def gathering_model(column_count: int, *, index: int) -> bytes:
    """A model whose answers about rows of which something is there are the row `index` of a table
    of one row: it fails on all of them, or on none."""
    from onnx import TensorProto, helper

    def constant(name: str, kind: int, shape: list[int], values: list[float]) -> Any:
        return helper.make_tensor(name, kind, shape, values)

    constants = [
        constant("first", TensorProto.INT64, [1], [0]),
        constant("axes", TensorProto.INT64, [1], [1]),
        constant("zero", TensorProto.FLOAT, [1], [0.0]),
        constant("far", TensorProto.INT64, [1], [index]),
        constant("table", TensorProto.FLOAT, [1, 2], [0.25, 0.75]),
    ]
    nodes = [
        helper.make_node("Gather", ["X", "first"], ["size"], axis=1),
        helper.make_node("Squeeze", ["size", "axes"], ["sizes"]),
        helper.make_node("Greater", ["sizes", "zero"], ["is_there"]),
        helper.make_node("Cast", ["is_there"], ["bit"], to=TensorProto.INT64),
        helper.make_node("Mul", ["bit", "far"], ["index"]),
        helper.make_node("Gather", ["table", "index"], ["probabilities"], axis=0),
    ]
    rows, answers = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, width])
        for name, width in (("X", column_count), ("probabilities", 2))
    )
    graph = helper.make_graph(nodes, "gathers", [rows], [answers], constants)
    imports = [helper.make_opsetid("", 13)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    whole: bytes = made.SerializeToString()
    return whole


@needs_onnx
def test_a_model_that_fails_while_it_scores_is_reported_and_counted(tmp_path: Path) -> None:
    features = FlowFeatures(packets=1, numbers=["protocol", "pkt0_size_bytes"])
    columns = ["pkt0_size_bytes", "protocol"]
    cascade_of(tmp_path / "own", gathering_model(2, index=99), features, columns, stages=2)
    done = classify(tmp_path / "own")
    assert done.returncode == 0, done.stderr
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(row["label"], row["guess_confidence"]) for row in verdicts} == {("unknown", 0.0)}
    for stage in ("fast", "slow"):
        # Each batch fails; that is one line, and all are counted.
        assert done.stderr.count(f"the stage {stage} of own@") == 1, done.stderr
        counted = f"{len(verdicts)} rows have no answer of the stage {stage}, which failed (run)"
        assert counted in done.stderr, done.stderr
    # The library has no line for each row.
    assert done.stderr.count("indices element out of data bounds") == 4, done.stderr


@needs_onnx
def test_where_the_last_model_fails_the_one_before_decides(tmp_path: Path) -> None:
    features = FlowFeatures(packets=1, numbers=["protocol", "pkt0_size_bytes"])
    columns = ["pkt0_size_bytes", "protocol"]
    fast, slow = (gathering_model(2, index=index) for index in (0, 99))
    cascade_of(tmp_path / "own", slow, features, columns, stages=2, fast=fast)
    for consumers in ("1", "2"):
        done = classify(tmp_path / "own", "--consumers", consumers)
        assert done.returncode == 0, done.stderr
        verdicts = [json.loads(line) for line in done.stdout.splitlines()]
        found = {(row["label"], row["confidence"], row["stage"]) for row in verdicts}
        assert found == {("high", 0.75, "fast")}
        assert {row["cause"] for row in verdicts} == {"unanswered"}
        reason = "flows were not answered by workers in time, or by a model that failed"
        assert f"classify: {len(verdicts)} {reason}" in done.stderr, done.stderr
