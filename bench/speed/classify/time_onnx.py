"""What a row costs through ONNX Runtime, called from Rust as `wirelens classify` calls it.

    .venv/bin/python bench/speed/classify/time_onnx.py bench/data/classify/services-cnn.json ...

Reads what `train_references.py` wrote. Told are microseconds of this thread's processor time for a
row: making the input of header bits and numbers included; one row a call, and 64; the best of
three rounds over the task's test flows, 1,024 at most. FastTraffic's tokens are no features of
Wirelens, so it is called from Python, which is some microseconds a call, without making tokens.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evaluation" / "classify"))

import tasks
from train_references import RECIPE
from wirelens import onnx
from wirelens.classify.split import TEST

ROWS = 1024
ROUNDS = 3


def from_rust(told: dict[str, Any], path: Path, task: tasks.Task) -> Callable[[int], int]:
    """Scores records and numbers of test flows, and tells how many."""
    numbers = [name for name in task.dataset.sample.features.numbers if name in told["columns"]]
    features = RECIPE.features(told["packets"], numbers)
    sample = task.dataset.sample.of(task.sides.rows(TEST)[:ROWS])
    model = onnx.load(
        path,
        features,
        told["columns"],
        classes=len(told["classes"]),
        input=told["input"],
        output=told["output"],
    )
    records, table = sample.records(told["packets"]), sample.numbers(numbers).tobytes()

    def run(together: int) -> int:
        onnx.score(model, records, table, together)
        return len(sample)

    return run


def from_python(told: dict[str, Any], path: Path) -> Callable[[int], int]:
    """Scores the rows that were kept beside the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options)
    rows = numpy.load(path.with_suffix(".npz"))["rows"]

    def run(together: int) -> int:
        for first in range(0, len(rows), together):
            session.run([told["output"]], {told["input"]: rows[first : first + together]})
        return len(rows)

    return run


def main() -> None:
    """Times each model that is named."""
    for name in sys.argv[1:]:
        path = Path(name)
        told = json.loads(path.read_text(encoding="utf-8"))
        model = path.with_suffix(".onnx")
        is_ours = not told["columns"][0].endswith("_token_0")
        if is_ours:
            task = tasks.load_task(path.stem.partition("-")[0], RECIPE, told["packets"], 1)
            run = from_rust(told, model, task)
        else:
            run = from_python(told, model)
        best = {1: float("inf"), 64: float("inf")}
        for _ in range(ROUNDS):
            for together in best:
                began_ns = time.thread_time_ns()
                count = run(together)
                best[together] = min(best[together], (time.thread_time_ns() - began_ns) / count)
        figures = {f"together_{key}_us": round(value / 1e3, 1) for key, value in best.items()}
        by = "Rust" if is_ours else "Python"
        print(json.dumps({"model": path.stem, "from": by, **figures}), flush=True)


if __name__ == "__main__":
    main()
