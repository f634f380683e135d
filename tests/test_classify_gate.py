"""Gates of models of windows: `unknown` beside the model's classes."""

import numpy
import pytest
from command import ROOT, wirelens
from wirelens import _wirelens
from wirelens.classify.boosted_counts import BoostedCounts
from wirelens.classify.families import Rows, Training
from wirelens.classify.window_cascade import WindowCascade, WindowStage
from wirelens.classify.window_gate import WindowGate, gated
from wirelens.classify.windows import WindowFeatures
from wirelens.trees import Trees, load, score

BOUNDS, CLASSES = [3.0, 6.0], ["0-3", "3-6", "6+"]
NUMBERS = ["main_rtp_markers", "main_rtp_packets"]


def windows_of(seed: int, count: int = 600) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Frames a second of a call, and the counts of its windows."""
    dice = numpy.random.default_rng(seed)
    frames = dice.uniform(0, 9, count)
    counts = numpy.stack([numpy.round(frames), 10 + 5 * numpy.round(frames)], axis=1)
    return frames, counts.astype(numpy.float32)


def foreign_of(seed: int, count: int = 600) -> numpy.ndarray:
    """Counts of windows of which a few look like RTP by chance."""
    dice = numpy.random.default_rng(seed)
    packets = dice.integers(0, 3, count)
    return numpy.stack([dice.integers(0, 2, count), packets], axis=1).astype(numpy.float32)


def test_a_gate_takes_from_all_classes_alike() -> None:
    own = numpy.log(numpy.array([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]))
    said = gated(own, numpy.array([-30.0, numpy.log(3.0)]))
    assert said[0] == pytest.approx([0.2, 0.3, 0.5, 0.0])
    assert said[1] == pytest.approx([0.05, 0.075, 0.125, 0.75])


def test_windows_are_unknown_and_confidences_those_of_the_points(tmp_path):
    features = WindowFeatures(numbers=["main_rtp_packets"])
    head = {
        "format": "wirelens trees", "version": 1, "kind": "mean", "classes": ["call", "unknown"],
        "schema": features.hash(), "headers": "innermost",
        "blocks": features.header_bits().blocks(), "payload_bytes": 0, "packets": 1,
        "numbers": list(features.numbers),
    }  # fmt: skip
    tree = {"nodes": [0, -1, -1], "leaves": [[0.2, 0.8], [0.9, 0.1]]}
    trees = Trees(head, ["main_rtp_packets > 5"], [tree])
    stage = WindowStage("slow", "other", trees, calibration=[(0.5, 0.4), (1.0, 0.8)])
    WindowCascade("gate", head["classes"], [stage]).write(tmp_path / "gate", "# Gate\n")
    ran = wirelens(
        "classify", "-q", "-r", ROOT / "testdata/testbed/calls/receiver.pcapng.gz",
        "-r", ROOT / "testdata/names.pcap", "--model", tmp_path / "gate", "--every", "1s",
        "--format", "csv",
    )  # fmt: skip
    assert ran.status == 0, ran.stderr
    labels = {row["label"] for row in ran.rows}
    assert labels == {"call", "unknown"}
    for row in ran.rows:
        is_call = row["label"] == "call"
        assert row["guess"] == "call"
        assert float(row["guess_confidence"]) == pytest.approx(0.72 if is_call else 0.4)
        assert row["confidence"] == (row["guess_confidence"] if is_call else "")


@pytest.mark.train
def test_what_is_served_is_the_model_with_its_gate(tmp_path):
    frames, counts = windows_of(1)
    labels = numpy.searchsorted(BOUNDS, frames, side="right")
    rows = Rows(counts, NUMBERS, labels, numpy.ones(len(labels)), numpy.arange(len(labels)) // 60)
    kind, gate, training = BoostedCounts(NUMBERS[0], BOUNDS), WindowGate(NUMBERS), Training(CLASSES)
    model = kind.fit(rows, frames, training)
    seen = numpy.concatenate([counts, foreign_of(2)])
    is_foreign = numpy.arange(len(seen)) >= len(counts)
    odds = gate.fit(seen, is_foreign, numpy.ones(len(seen)), training)
    features = WindowFeatures(packets=1, numbers=NUMBERS).header_bits()
    trees = gate.trees(odds, kind.trees(model, NUMBERS, CLASSES, features), features)
    trees.save(tmp_path / "slow.trees.jsonl")
    forest = load(tmp_path / "slow.trees.jsonl")
    assert forest.classes == [*CLASSES, "unknown"]

    asked = numpy.concatenate([windows_of(3)[1], foreign_of(4)])
    size = len(_wirelens.header_columns(trees.head["blocks"], 0)) // 8
    records = bytes((size + -(-size // 8)) * len(asked))
    served = numpy.asarray(score(forest, records, numbers=asked.astype(numpy.float64)))
    some = Rows(asked, NUMBERS, numpy.zeros(0), numpy.zeros(0))
    own = model.prior.scores(some) + model.booster.predict(asked, raw_score=True)
    assert abs(served - gated(own, gate.scores(odds, asked))).max() < 1e-12
    is_unknown = served.argmax(axis=1) == len(CLASSES)
    assert is_unknown[600:].mean() > 0.95 and is_unknown[:600].mean() < 0.05


@pytest.mark.train
def test_more_than_training_had_passes_the_gate():
    _, counts = windows_of(1)
    gate, training = WindowGate(NUMBERS), Training(CLASSES)
    # Other traffic with more packets than any call, and without a marker.
    busy = numpy.stack([numpy.zeros(600), numpy.full(600, 500.0)], axis=1).astype(numpy.float32)
    seen = numpy.concatenate([counts, foreign_of(2), busy])
    is_foreign = numpy.arange(len(seen)) >= len(counts)
    odds = gate.fit(seen, is_foreign, numpy.ones(len(seen)), training)
    grid = numpy.array([[m, p] for m in range(0, 90, 3) for p in range(0, 900, 30)], dtype="f4")
    said = gate.scores(odds, grid).reshape(30, 30)
    assert (numpy.diff(said, axis=0) <= 1e-12).all() and (numpy.diff(said, axis=1) <= 1e-12).all()
