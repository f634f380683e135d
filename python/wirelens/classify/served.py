"""Models as they are served: probabilities of the files that the runtime reads, and their cost."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy

from wirelens import compat, trees
from wirelens.classify.dataset import Sample
from wirelens.classify.metrics import Array
from wirelens.errors import ModelError

BATCH = 64
_ROWS_TIMED = 1024
_REPEATS = 3


class Served(Protocol):
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
    """An ONNX file on columns as 32-bit floats, by ONNX Runtime on one thread."""

    def __init__(self, path: Path, columns: Sequence[str], into: str, out: str) -> None:
        runtime = compat.need("onnxruntime", path.name)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            self.session = runtime.InferenceSession(str(path), options)
        except Exception as error:
            # The runtime has a class of its own for each of its codes, and no name for all.
            why = " ".join(str(error).split())
            raise ModelError(
                f"{path}: no ONNX model that ONNX Runtime can run ({why}); export it again"
            ) from error
        self.columns, self.input, self.output = columns, into, out

    def prepare(self, sample: Sample) -> Array:
        """The matrix of columns."""
        return sample.values(self.columns)

    def score(self, prepared: Array, first: int, last: int) -> Array:
        """Probabilities of some rows."""
        found = self.session.run([self.output], {self.input: prepared[first:last]})[0]
        return numpy.asarray(found, dtype=numpy.float64)


def read_model(path: Path, stage: dict[str, Any] | None = None) -> Served:
    """Reads a model's file; for ONNX `stage` tells what goes in and comes out."""
    if path.suffix == ".onnx":
        if stage is None:
            raise ModelError(f"{path}: an ONNX file; wanted: what its input and output are")
        return ServedOnnx(path, stage["columns"], stage["input"], stage["output"])
    return ServedTrees(path)


def scores_of(model: Served, sample: Sample) -> Array:
    """Probabilities of all flows of a sample."""
    return model.score(model.prepare(sample), 0, len(sample))


@dataclass(frozen=True)
class Cost:
    """Microseconds for each row, of one core."""

    alone_us: float
    batch_us: float


def cost_of(model: Served, sample: Sample) -> Cost:
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
