"""Models that loads are put on, what each says of held-out flows, and what asking it costs.

Cascades that `wirelens.classify` trained on a task's flows: as it chooses them, as the recipe that
ships places them, and of the shape of ServeFlow's; the same trees in ONNX; LEXNet and FastTraffic
on the same sides. Held-out flows are those of the captures that are on the test side. A cost is
measured once, row by row and in batches, by `wirelens-bench asks`: Rust, as `wirelens classify`
does it.
"""

import glob
import hashlib
import importlib
import importlib.util
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import load_capture
import loads_onnx
import numpy
from loads_tasks import FOLDER, LoadTask, source_options
from wirelens.classify import arguments, recipe_file, steps, train
from wirelens.classify.cascade import Cascade
from wirelens.classify.cascade import load as load_cascade
from wirelens.classify.dataset import Dataset, Sample, load
from wirelens.classify.pool import Plan
from wirelens.classify.served import BATCH, ServedTrees
from wirelens.learn.progress import Progress

Array = Any

BENCH = Path("target/release/wirelens-bench")
DEPTHS = (2, 4, 6, 8, 10)
# Depth of the systems that are compared, as in the paper's service recognition.
DEPTH = 10
_REPEATS = 3
# Flows that are sent to know what packets cost, and for how long.
_SENT, _SECONDS = 20_000, 5.0


@dataclass(frozen=True)
class StageCost:
    """What a model costs on held-out flows."""

    packets: int
    # Microseconds of each row asked alone; for each row of a batch.
    alone_us: Array
    batch_us: float


@dataclass(frozen=True)
class Chain:
    """Models in order of use; one, or a cascade."""

    stages: list[StageCost]
    # Index of the stage that decides, and its class, by row.
    decided: Array
    labels: Array
    # What they are, for people.
    told: str


@dataclass(frozen=True)
class Flows:
    """Held-out flows."""

    labels: Array
    classes: list[str]
    # Microseconds until a model of so many packets can be asked, by depth and row.
    waiting_us: dict[int, Array]
    # Packets that are there by then.
    packets: Array
    # Microseconds for each packet, beside what models take.
    packet_us: float


def request(task: LoadTask, testbed: Path, kind: str) -> steps.Request:
    """What `wirelens train classify` is asked for a cascade."""
    typed = ["train", *recipe_file.options(task.recipe), *source_options(task, testbed)]
    typed += task.places(kind)
    typed += [f"--output={FOLDER / f'{task.name}-{kind}'}", f"--name={task.name}", "--force"]
    typed += [f"--work={FOLDER / f'{task.name}.work'}"]
    return arguments.train_request(arguments.parser().parse_args(typed), typed[1:])


class Models:
    """All systems' models of a task, trained where they are not there yet."""

    def __init__(self, task: LoadTask, testbed: Path) -> None:
        self.task, self.testbed, self.progress = task, testbed, Progress(False)
        self.request = request(task, testbed, "chosen")
        self.dataset: Dataset = steps.read_flows(self.request, self.progress)
        self.plan: Plan
        self.plan, told = steps.plan_of(self.request, self.dataset, self.progress)
        self.progress.tell(told)
        self.sample: Sample = self.dataset.sample.of(self.plan.test)
        # By the hash of a model's file: one that is in two systems costs the same in both.
        self.known: dict[str, StageCost] = {}

    def flows(self) -> Flows:
        """The held-out flows."""
        depths = sorted({1, *DEPTHS})
        return Flows(
            self.dataset.labels[self.plan.test],
            self.dataset.classes,
            {depth: self.sample.waiting_us(depth) for depth in depths},
            self.sample.packet_counts,
            self._packet_us(),
        )

    def _packet_us(self) -> float:
        """Sends a load through the classifier of `wirelens classify`, one packet at a time: what is
        left of its time without the models, by packet. Flow table, records and queues are in it.
        """
        chain = self.chain(self.folder("shipped"))
        frames = load_capture.read(self.dataset, self.plan.test, DEPTH)
        capture = FOLDER / f"{self.task.name}.pcap"
        written = load_capture.write(frames, capture, _SENT / _SECONDS, _SECONDS, 1)
        place = {row: index for index, row in enumerate(self.plan.test.tolist())}
        rows = numpy.array([place[row] for row in written.rows.tolist()])
        asked_us = sum(
            float((stage.alone_us * (chain.decided >= index))[rows].sum())
            for index, stage in enumerate(chain.stages)
        )
        typed = [BENCH, "serve", "--model", self.folder("shipped")]
        typed += ["--capture", capture, "--batch", "1"]
        times = []
        for _ in range(_REPEATS):
            done = subprocess.run(typed, check=True, capture_output=True, text=True)
            spent_us = json.loads(done.stdout.splitlines()[0])["cpu_s"] * 1e6
            times.append((spent_us - asked_us) / written.packets)
        capture.unlink()
        return max(float(numpy.median(times)), 0.0)

    def folder(self, kind: str) -> Path:
        """A cascade of ours: chosen, shipped or paper-N."""
        place = FOLDER / f"{self.task.name}-{kind}"
        if not (place / "SHA256SUMS").is_file():
            train.train(request(self.task, self.testbed, kind), self.progress)
        return place

    def chain(self, place: Path) -> Chain:
        """A cascade: what it says, and what its models cost."""
        cascade = load_cascade(place)
        told = cascade.predict(self.sample)
        names = ", ".join(f"{stage.family}/{stage.packets}" for stage in cascade.stages)
        return Chain(self._asked(place, cascade), told.stages, told.labels, names)

    def slow_alone(self, place: Path) -> Chain:
        """The last model of a cascade, on every flow."""
        cascade = load_cascade(place)
        last = len(cascade.stages) - 1
        scores = cascade.alone(self.sample, last)
        stage = cascade.stages[last]
        name = f"{stage.family}/{stage.packets}"
        return _one(self._asked(place, cascade)[last], scores.argmax(axis=1), name)

    def _asked(self, place: Path, cascade: Cascade) -> list[StageCost]:
        files = {told["stage"]: place / told["file"] for told in cascade.head["stages"]}
        hashes = [
            hashlib.sha256(files[stage.name].read_bytes()).hexdigest() for stage in cascade.stages
        ]
        if not set(hashes) <= set(self.known):
            found = self._measured(place, cascade)
            for seal, asked in zip(hashes, found, strict=True):
                self.known.setdefault(seal, asked)
        return [self.known[seal] for seal in hashes]

    def _measured(self, place: Path, cascade: Cascade) -> list[StageCost]:
        rows = FOLDER / f"{place.name}.rows"
        rows.mkdir(exist_ok=True)
        for stage in cascade.stages:
            names = cascade.declared(stage)["numbers"]
            (rows / f"{stage.name}.records").write_bytes(self.sample.records(stage.packets))
            (rows / f"{stage.name}.numbers").write_bytes(self.sample.numbers(names).tobytes())
        typed: list[str | Path] = [BENCH, "asks", "--model", place, "--rows", rows]
        if not all(isinstance(stage.model, ServedTrees) for stage in cascade.stages):
            typed += ["--onnx", onnx_library()]
        found = subprocess.run(typed, check=True, capture_output=True, text=True).stdout
        times: dict[tuple[str, int], Array] = {}
        for line in map(json.loads, found.splitlines()):
            times[line["stage"], line["together"]] = numpy.array(line["ns"]) / 1e3
        return [
            StageCost(
                stage.packets,
                times[stage.name, 1],
                float(times[stage.name, BATCH].mean()) / BATCH,
            )
            for stage in cascade.stages
        ]

    def in_onnx(self, kind: str) -> Path:
        """A cascade of ours whose trees ONNX Runtime is given; what a table says stays ours."""
        place = FOLDER / f"{self.task.name}-{kind}-onnx"
        if not (place / "SHA256SUMS").is_file():
            learned = loads_onnx.ModelPool(self.request, self.dataset, self.plan)
            loads_onnx.write(self.folder(kind), place, learned)
        return place

    def lexnet(self) -> Path:
        """LEXNet as a cascade of one stage, which the runtime serves."""
        place = FOLDER / f"{self.task.name}-lexnet"
        if not (place / "SHA256SUMS").is_file():
            stem = self._reference("lexnet")
            columns = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))["columns"]
            features = self.request.recipe.features(DEPTH, columns)
            like = self.folder("paper-10")
            loads_onnx.write_single(like, place, stem.with_suffix(".onnx"), "lexnet", features)
        return place

    def fasttraffic(self) -> Chain:
        """FastTraffic, whose tokens are no features of ours: asked from Python."""
        stem = self._reference("fasttraffic")
        with numpy.load(stem.with_suffix(".npz")) as arrays:
            rows = arrays["rows"]
        told = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        runtime: Any = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = runtime.InferenceSession(str(stem.with_suffix(".onnx")), options)

        def score(first: int, last: int) -> Array:
            return session.run([told["output"]], {told["input"]: rows[first:last]})[0]

        asked, labels = _from_python(score, len(rows))
        return _one(asked, labels, f"fasttraffic/{DEPTH}")

    def _reference(self, system: str) -> Path:
        """LEXNet or FastTraffic, trained on the same flows; the stem of its files."""
        stem = FOLDER / f"{self.task.name}-{system}"
        if not stem.with_suffix(".npz").is_file():
            self._train_reference(system, stem)
        return stem

    def _train_reference(self, system: str, stem: Path) -> None:
        # PyTorch is needed for these two, and for nothing else here.
        import tasks
        import train_references
        from wirelens.classify.split import SHARES, Split
        from wirelens.learn import networks

        given = replace(train_references.RECIPE, rare_max=0)
        flows_min = self.request.flows_min
        dataset = load(self.request.source, given, DEPTH, flows_min=flows_min)
        if dataset.keys != self.dataset.keys:
            raise ValueError("other flows than before; wanted: the same captures")
        sides = numpy.full(len(dataset), 2)
        sides[self.plan.training] = 0
        # One of the folds tells when to end.
        sides[self.plan.checks[0][1]] = 1
        divided = Split(sides, SHARES, self.request.pool.seed, len(set(dataset.families)))
        task = tasks.Task(self.task.name, dataset, divided)
        columns, values = train_references.rows_of(system, task, DEPTH)
        tried = train_references.best(self.task.tuned_on, system)
        found = train_references.train(
            system, task, columns, values, tried, DEPTH, self.request.pool.seed
        )
        networks.export(found.network, str(stem.with_suffix(".onnx")), len(columns))
        numpy.savez_compressed(stem.with_suffix(".npz"), rows=values[self.plan.test])
        told = {"columns": columns, "input": networks.INPUT, "output": networks.OUTPUT}
        told |= {"macro_f1": found.macro_f1, "cpu_s": found.seconds}
        stem.with_suffix(".json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def onnx_library() -> str:
    """The library of the package `onnxruntime`."""
    found = importlib.util.find_spec("onnxruntime")
    if found is None or found.origin is None:
        raise ImportError("no package onnxruntime; wanted: `bash tools/setup.sh onnx`")
    return glob.glob(f"{Path(found.origin).parent}/capi/libonnxruntime.so*")[0]


def _from_python(score: Callable[[int, int], Array], count: int) -> tuple[StageCost, Array]:
    """Asks a model about all rows, alone and in batches; the middle of three times of each row.

    The call from Python, of some microseconds, is counted with it.
    """
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
    return StageCost(DEPTH, times[1], float(times[BATCH].mean())), scores.argmax(axis=1)


def _one(asked: StageCost, labels: Array, told: str) -> Chain:
    return Chain([asked], numpy.zeros(len(labels), dtype=int), labels, told)
