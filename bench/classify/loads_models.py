"""Models that loads are put on, what each says of held-out flows, and what asking it costs.

Cascades of the shape of ServeFlow's (decision tree, LightGBM at one packet, LightGBM at N), trained
by `wirelens.classify` on the testbed's services; the same trees in ONNX; LEXNet and FastTraffic on
the same sides. Held-out flows are those of the runs that are on the test side. A cost is measured
once: this thread's processor time, row by row and in batches, of calls from Python.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify import arguments, matrix, recipe_file, steps, train
from wirelens.classify.cascade import load as load_cascade
from wirelens.classify.dataset import Dataset, Sample, load
from wirelens.classify.families import Rows, Training, family
from wirelens.classify.features import first_packets
from wirelens.classify.pool import Plan
from wirelens.classify.progress import Progress
from wirelens.classify.recipe import Recipe
from wirelens.classify.served import BATCH, read_model
from wirelens.classify.weights import class_weights

Array = Any

FOLDER = Path("bench/data/loads")
RECIPE = Path("bench/classify/loads-services.toml")
DEPTHS = (2, 4, 6, 8, 10)
# Depth of the systems that are compared, as in the paper's service recognition.
DEPTH = 10
_REPEATS = 3
_ONNX_INPUT, _ONNX_OUTPUT = "row", "probabilities"


@dataclass(frozen=True)
class Asked:
    """A model on held-out flows."""

    packets: int
    # Class index by row.
    labels: Array
    # Microseconds of each row asked alone, and for each row of a batch, batch by batch.
    alone_us: Array
    batch_us: Array


@dataclass(frozen=True)
class Chain:
    """Models in order of use; one, or a cascade."""

    stages: list[Asked]
    # Index of the stage that decides, and its class, by row.
    decided: Array
    labels: Array


@dataclass(frozen=True)
class Flows:
    """Held-out flows."""

    labels: Array
    classes: list[str]
    # Microseconds until a model of so many packets can be asked, by depth and row.
    waiting_us: dict[int, Array]
    # Packets that are there by then.
    packets: Array
    # Microseconds for each packet from the capture to its record.
    extraction_us: float


def measured(score: Callable[[int, int], Array], packets: int, count: int) -> Asked:
    """Asks a model about all rows, alone and in batches; the middle of three times of each row."""
    scores = numpy.concatenate(
        [score(first, min(first + BATCH, count)) for first in range(0, count, BATCH)]
    )
    times = {}
    for step in (1, BATCH):
        starts = range(0, count - step + 1, step)
        taken = numpy.zeros((_REPEATS, len(starts)))
        for repeat in range(_REPEATS):
            for place, first in enumerate(starts):
                began_ns = time.thread_time_ns()
                score(first, first + step)
                taken[repeat, place] = (time.thread_time_ns() - began_ns) / step / 1e3
        times[step] = numpy.median(taken, axis=0)
    return Asked(packets, scores.argmax(axis=1), times[1], times[BATCH])


def request(testbed: Path, depth: int) -> steps.Request:
    """What `wirelens train classify` is asked for a cascade whose slow model is so deep."""
    places = ("fastest=decision-tree/1", "fast=lightgbm/1", f"slow=lightgbm/{depth}")
    typed = ["train", *recipe_file.options(RECIPE), f"--testbed={testbed}"]
    typed += [f"--place={place}" for place in places]
    typed += [f"--output={FOLDER / f'services-{depth}'}", "--name=services", "--force"]
    typed += [f"--work={FOLDER / 'services.work'}"]
    return arguments.train_request(arguments.parser().parse_args(typed), typed[1:])


class Models:
    """All systems' models, trained where they are not there yet."""

    def __init__(self, testbed: Path) -> None:
        self.testbed, self.progress = testbed, Progress(False)
        self.request = request(testbed, DEPTH)
        self.dataset: Dataset = steps.read_flows(self.request, self.progress)
        self.plan: Plan
        self.plan, told = steps.plan_of(self.request, self.dataset, self.progress)
        self.progress.tell(told)
        self.sample: Sample = self.dataset.sample.of(self.plan.test)

    def flows(self) -> Flows:
        """The held-out flows."""
        depths = sorted({1, *DEPTHS})
        return Flows(
            self.dataset.labels[self.plan.test],
            self.dataset.classes,
            {depth: self.sample.waiting_us(depth) for depth in depths},
            self.sample.packet_counts,
            self._extraction_us(),
        )

    def _extraction_us(self) -> float:
        """Reads a capture for its flows' first packets, and divides by all its packets."""
        features = self.request.recipe.features(DEPTH, [])
        capture = str(self.dataset.captures[0])
        times = []
        for _ in range(_REPEATS):
            began_ns = time.process_time_ns()
            table = first_packets([capture], features)
            times.append(
                (time.process_time_ns() - began_ns) / 1e3 / sum(table.keys()["packets"])
            )
        return float(numpy.median(times))

    def cascade(self, depth: int) -> Chain:
        """Ours, by the evaluator that serves."""
        place = FOLDER / f"services-{depth}"
        if not (place / "SHA256SUMS").is_file():
            train.train(request(self.testbed, depth), self.progress)
        cascade = load_cascade(place)
        told = cascade.predict(self.sample)
        stages = []
        for stage in cascade.stages:
            prepared = stage.model.prepare(self.sample)
            score = _scorer(stage.model, prepared)
            stages.append(measured(score, stage.packets, len(self.sample)))
        return Chain(stages, told.stages, told.labels)

    def in_onnx(self, chain: Chain) -> Chain:
        """The same trees, asked through ONNX Runtime; thresholds decide as they did."""
        found = matrix.build(
            self.dataset.sample,
            self.request.recipe,
            max(self.request.pool.depths),
            self.plan.training,
        )
        stages = []
        kinds = ("decision-tree", "lightgbm", "lightgbm")
        for kind, stage in zip(kinds, chain.stages, strict=True):
            path = FOLDER / f"services-{kind}-{stage.packets}.onnx"
            columns = found.columns(stage.packets)
            if not path.is_file():
                path.write_bytes(self._converted(kind, found, stage.packets))
            model = read_model(path, _onnx(columns))
            score = _scorer(model, found.values(stage.packets, self.plan.test))
            asked = measured(score, stage.packets, len(self.sample))
            same = float((asked.labels == stage.labels).mean())
            self.progress.tell(
                f"{path.name}: says the same as ours of {same:.4f} of the flows"
            )
            stages.append(asked)
        return Chain(stages, chain.decided, chain.labels)

    def _converted(self, kind: str, found: matrix.Matrix, packets: int) -> bytes:
        """The pool's model, trained anew as the pool does it, which gives the same trees."""
        rows, classes = self.plan.training, self.dataset.classes
        labels = self.dataset.labels[rows]
        changed = self.request.pool.changed.get(kind, {})
        weights = class_weights(labels, len(classes), self.request.pool.weighting)
        values = found.values(packets, rows)
        given = Rows(
            values, found.columns(packets), labels, weights, self.dataset.families[rows]
        )
        training = Training(classes, self.request.pool.seed, 1, changed)
        model = family(kind).fit(given, training)
        shape = [None, values.shape[1]]
        if kind == "lightgbm":
            from onnxmltools import convert_lightgbm
            from onnxmltools.convert.common.data_types import FloatTensorType

            inputs = [(_ONNX_INPUT, FloatTensorType(shape))]
            made = convert_lightgbm(model, initial_types=inputs, zipmap=False)
        else:
            from skl2onnx import to_onnx
            from skl2onnx.common.data_types import FloatTensorType as SklearnTensorType

            inputs = [(_ONNX_INPUT, SklearnTensorType(shape))]
            made = to_onnx(model, initial_types=inputs, options={"zipmap": False})
        return bytes(made.SerializeToString())

    def reference(self, system: str) -> Chain:
        """LEXNet or FastTraffic: trained on the same flows, asked through ONNX Runtime."""
        stem = FOLDER / f"services-{system}"
        kept = stem.with_suffix(".npz")
        if not kept.is_file():
            self._train_reference(system, stem)
        with numpy.load(kept) as arrays:
            rows = arrays["rows"]
        told = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        model = read_model(stem.with_suffix(".onnx"), told)
        asked = measured(_scorer(model, rows), DEPTH, len(self.sample))
        return Chain([asked], numpy.zeros(len(self.sample), dtype=int), asked.labels)

    def _train_reference(self, system: str, stem: Path) -> None:
        # PyTorch is needed for these two, and for nothing else here.
        import tasks
        import train_references
        from wirelens.classify import networks
        from wirelens.classify.split import SHARES, Split

        source, given = self.request.source, train_references.RECIPE
        dataset = load(
            source, _with_records(given), DEPTH, flows_min=self.request.flows_min
        )
        if dataset.keys != self.dataset.keys:
            raise ValueError("other flows than before; wanted: the same captures")
        sides = numpy.full(len(dataset), 2)
        sides[self.plan.training] = 0
        # One of the folds tells when to end.
        sides[self.plan.checks[0][1]] = 1
        divided = Split(
            sides, SHARES, self.request.pool.seed, len(set(dataset.families))
        )
        task = tasks.Task("services", dataset, divided)
        columns, values = train_references.rows_of(system, task, DEPTH)
        # Settings that tuning found on the other services.
        tried = train_references.best("services", system)
        found = train_references.train(
            system, task, columns, values, tried, DEPTH, self.request.pool.seed
        )
        networks.export(found.network, str(stem.with_suffix(".onnx")), len(columns))
        numpy.savez_compressed(stem.with_suffix(".npz"), rows=values[self.plan.test])
        told = {"columns": columns, "input": networks.INPUT, "output": networks.OUTPUT}
        told |= {"macro_f1": found.macro_f1, "cpu_s": found.seconds}
        stem.with_suffix(".json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def _with_records(recipe: Recipe) -> Recipe:
    return replace(recipe, rare_max=0)


def _onnx(columns: list[str]) -> dict[str, Any]:
    return {"columns": columns, "input": _ONNX_INPUT, "output": _ONNX_OUTPUT}


def _scorer(model: Any, prepared: Any) -> Callable[[int, int], Array]:
    return lambda first, last: model.score(prepared, first, last)


def slow_alone(chain: Chain) -> Chain:
    """The last model of a cascade, on every flow."""
    slow = chain.stages[-1]
    return Chain([slow], numpy.zeros(len(slow.labels), dtype=int), slow.labels)
