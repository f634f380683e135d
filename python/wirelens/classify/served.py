"""Models as they are served: probabilities of the files that the runtime reads, and their cost."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy

from wirelens import onnx, trees
from wirelens.classify.dataset import Sample
from wirelens.classify.features import FlowFeatures
from wirelens.errors import ModelError
from wirelens.learn.metrics import Array

BATCH = 64
_ROWS_TIMED = 1024
_REPEATS = 3


class LoadedModel(Protocol):
    """A model's file, read."""

    def prepare(self, sample: Sample) -> Any:
        """What the model reads of some flows."""

    def score(self, prepared: Any, first: int, last: int) -> Array:
        """Probabilities of these rows of them."""


class ServedTrees:
    """Trees on records and numbers, scored by the evaluator that serves."""

    def __init__(self, path: Path) -> None:
        self.forest = trees.load(path)
        with path.open(encoding="utf-8") as lines:
            # Headers, blocks and bytes of payload of the records, among other things.
            self.head: dict[str, Any] = json.loads(lines.readline())
        self.packets = self.forest.packet_count
        self.row_bytes = self.forest.record_len * self.packets

    def prepare(self, sample: Sample) -> tuple[bytes, bytes]:
        """Records and numbers of all rows, end to end."""
        return sample.records(self.packets), sample.numbers(self.forest.numbers).tobytes()

    def score(self, prepared: tuple[bytes, bytes], first: int, last: int) -> Array:
        """Probabilities of some rows."""
        records, numbers = prepared
        width = 8 * len(self.forest.numbers)
        found = self.forest.score(
            records[first * self.row_bytes : last * self.row_bytes],
            self.packets,
            numbers[first * width : last * width] if width else None,
        )
        return numpy.frombuffer(found, dtype=numpy.float64).reshape(last - first, -1)


class ServedOnnx:
    """An ONNX file on features of flows, run by the runtime: ONNX Runtime, one row at a time.

    It gives the library one row, so that a verdict is the same beside any other flows.
    """

    def __init__(self, path: Path, stage: dict[str, Any], class_count: int) -> None:
        told = stage["features"]
        features = FlowFeatures(
            told["headers"],
            told["blocks"],
            told["payload_bytes"],
            told["packets"],
            told["numbers"],
            told.get("identity", "kept"),
        )
        self.model = onnx.load(
            path,
            features,
            stage["columns"],
            classes=class_count,
            input=stage["input"],
            output=stage["output"],
        )
        self.packets, self.names = features.packets, features.numbers

    def prepare(self, sample: Sample) -> tuple[bytes, bytes, int]:
        """Records and numbers of all rows, end to end; how many rows."""
        return sample.records(self.packets), sample.numbers(self.names).tobytes(), len(sample)

    def score(self, prepared: tuple[bytes, bytes, int], first: int, last: int) -> Array:
        """Probabilities of some rows."""
        records, numbers, count = prepared
        if first >= last:
            return numpy.zeros((0, self.model.class_count))
        of_records, of_numbers = len(records) // count, len(numbers) // count
        found = onnx.score(
            self.model,
            records[first * of_records : last * of_records],
            numbers[first * of_numbers : last * of_numbers],
            1,
        )
        return numpy.asarray(found, dtype=numpy.float64)


def told_features(features: FlowFeatures) -> dict[str, Any]:
    """What an artifact tells of the features that an ONNX file reads."""
    return {
        "headers": features.headers,
        "blocks": list(features.blocks),
        "payload_bytes": features.payload_bytes,
        "packets": features.packets,
        "numbers": list(features.numbers),
        **({} if features.identity == "kept" else {"identity": features.identity}),
        "schema": features.hash(),
    }


def read_model(
    path: Path, stage: dict[str, Any] | None = None, class_count: int | None = None
) -> LoadedModel:
    """Reads a model's file; for ONNX `stage` tells what goes in and comes out, as an artifact
    does, and how many classes there are has to be told.
    """
    if path.suffix == ".onnx":
        if stage is None or class_count is None:
            raise ModelError(f"{path}: an ONNX file; wanted: its input and output")
        return ServedOnnx(path, stage, class_count)
    return ServedTrees(path)


def scores_of(model: LoadedModel, sample: Sample) -> Array:
    """Probabilities of all flows of a sample."""
    return model.score(model.prepare(sample), 0, len(sample))


@dataclass(frozen=True)
class Cost:
    """Microseconds for each row, of one core."""

    alone_us: float
    batch_us: float


def cost_of(model: LoadedModel, sample: Sample) -> Cost:
    """What scoring costs: one row a call, and 64; the best of some rounds.

    It is the processor's time of this thread and not the clock's, since a machine that trains does
    other things. A call from Python is part of it, less than a microsecond or two.
    """
    count = min(len(sample), _ROWS_TIMED)
    prepared = model.prepare(sample.of(numpy.arange(count)))
    model.score(prepared, 0, count)
    best = {1: float("inf"), BATCH: float("inf")}
    for _ in range(_REPEATS):
        for step in best:
            bounds = [(first, min(first + step, count)) for first in range(0, count, step)]
            began_ns = time.thread_time_ns()
            for first, last in bounds:
                model.score(prepared, first, last)
            spent_us = (time.thread_time_ns() - began_ns) / 1e3
            best[step] = min(best[step], spent_us / max(count, 1))
    return Cost(best[1], best[BATCH])
