"""Makes the models that `wirelens-bench trees` measures, and rows for them.

    .venv/bin/python bench/speed/train_trees.py [--onnx] [NAME ...]

Models of the shape of ServeFlow's: LightGBM with a learning rate of 0.03, 128 leaves, feature
fraction 0.9 and minimum leaf data 3, for 11 classes; 200 rounds on one packet, 50 on ten; a random
forest of 100 trees and a decision tree. The traffic is made up, from a seed: half of the header
bits that are there follow their class, and one label in six is wrong, so that trees grow
as large as they may. What these models get right means nothing. Written to bench/data/trees:
NAME.trees.jsonl, NAME.records (compact records of 4,096 rows), and with --onnx NAME.onnx and
NAME.columns (the columns of the ONNX model, a number each), for which onnxmltools, skl2onnx and
onnx are needed. LightGBM takes some minutes.
"""

import sys
from pathlib import Path
from typing import Any

import numpy
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from wirelens.trees import HeaderBits, to_forest

FOLDER = Path("bench/data/trees")
CLASS_COUNT = 11
TRAINING_ROWS = 6_000
ROWS = 4_096
LIGHTGBM: dict[str, Any] = {
    "learning_rate": 0.03,
    "num_leaves": 128,
    "min_child_samples": 3,
    "max_bin": 3,
    "random_state": 1,
    "n_jobs": 1,
    "verbosity": -1,
}
# Name, packets, model. At ten packets columns are sampled, or training takes half an hour.
MODELS: list[tuple[str, int, Any]] = [
    ("tree", 1, DecisionTreeClassifier(min_samples_leaf=15, random_state=1)),
    ("forest", 1, RandomForestClassifier(100, random_state=1)),
    ("lightgbm", 1, LGBMClassifier(n_estimators=200, colsample_bytree=0.9, **LIGHTGBM)),
    ("lightgbm-10", 10, LGBMClassifier(n_estimators=50, colsample_bytree=0.1, **LIGHTGBM)),
]


def made_up(packets: int, count: int, seed: int) -> tuple[Any, Any, bytes]:
    """Values, labels and compact records of flows."""
    dice = numpy.random.default_rng(seed)
    habits = numpy.random.default_rng(7).integers(0, 2, (CLASS_COUNT, 1024), dtype=numpy.int8)
    labels = dice.integers(0, CLASS_COUNT, count)
    shape = (count, packets, 1024)
    bits = dice.integers(0, 2, shape, dtype=numpy.int8)
    follows = dice.random(shape, dtype=numpy.float32) < 0.1
    bits = numpy.where(follows, habits[labels][:, None, :], bits)
    there = numpy.zeros((count, packets, 128), dtype=bool)
    is_tcp = dice.random(count) < 0.7
    there[:, :, :20] = True
    there[:, :, 60:80] = is_tcp[:, None, None]
    there[:, :, 120:] = ~is_tcp[:, None, None]
    options = (dice.integers(0, 11, (count, packets)) + labels[:, None]) % 11 * 4
    there[:, :, 80:120] = is_tcp[:, None, None] & (numpy.arange(40) < options[:, :, None])
    lengths = dice.integers(1, packets + 1, count)
    there &= (numpy.arange(packets) < lengths[:, None])[:, :, None]
    is_there = numpy.repeat(there, 8, axis=2)
    bits = numpy.where(is_there, bits, 0).astype(numpy.uint8)
    records = numpy.concatenate(
        [numpy.packbits(bits, axis=2), numpy.packbits(there, axis=2)], axis=2
    )
    values = numpy.where(is_there, bits.astype(numpy.int8), -1).reshape(count, -1)
    wrong = dice.random(count) < 1 / 6
    labels = numpy.where(wrong, dice.integers(0, CLASS_COUNT, count), labels)
    return values, labels, records.tobytes()


def write_onnx(name: str, model: Any, kept: Any) -> None:
    """The same model for ONNX Runtime, probabilities as a matrix."""
    column_count = int(kept.sum())
    if isinstance(model, LGBMClassifier):
        from onnxmltools import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType

        inputs = [("x", FloatTensorType([None, column_count]))]
        onnx = convert_lightgbm(model, initial_types=inputs, zipmap=False)
    else:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType as SklearnTensorType

        inputs = [("x", SklearnTensorType([None, column_count]))]
        onnx = to_onnx(model, initial_types=inputs, options={"zipmap": False})
    (FOLDER / f"{name}.onnx").write_bytes(onnx.SerializeToString())
    numpy.savetxt(FOLDER / f"{name}.columns", numpy.flatnonzero(kept), fmt="%d")


def main() -> None:
    """Trains what was named, or all."""
    names = [argument for argument in sys.argv[1:] if argument != "--onnx"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, packets, model in MODELS:
        if names and name not in names:
            continue
        values, labels, _ = made_up(packets, TRAINING_ROWS, seed=1)
        kept = values.min(axis=0) < values.max(axis=0)
        model.fit(values[:, kept], labels)
        features = HeaderBits(packets=packets)
        columns = [c for c, k in zip(features.row_columns(), kept, strict=True) if k]
        classes = [f"class {index}" for index in range(CLASS_COUNT)]
        to_forest(model, columns, classes, features).save(FOLDER / f"{name}.trees.jsonl")
        (FOLDER / f"{name}.records").write_bytes(made_up(packets, ROWS, seed=2)[2])
        if "--onnx" in sys.argv:
            write_onnx(name, model, kept)
        print(f"{name}: trained on {kept.sum()} columns", flush=True)


if __name__ == "__main__":
    main()
