"""Names controls from one tap, on traces of 17 of them: OUT/rows.jsonl, a line a fold and model.

    python bench/evaluation/cca/onetap.py TRACES OUT --slot 10ms --rows-per-rtt 4
    python bench/evaluation/cca/onetap.py TRACES OUT --slot 100ms --splits combination

Folds are rates and RTTs on which nothing was trained. Beside Dragonfly's network stand whoever
always tells the most frequent control and a forest on features of the curve made by hand, whose
settings are chosen on combinations held out of the training side.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import curve
import numpy as np
import traces
from wirelens.cca import FlightFlow, flight_slots, flight_windows, learn, row_slots
from wirelens.cca.intervals import Intervals
from wirelens.cca.intervals import normalised as divided
from wirelens.cca.model import Model
from wirelens.learn import networks as learning
from wirelens.learn.metrics import class_f1, confusion, macro_f1, softmax
from wirelens.learn.typed import time_us

ALL_INPUTS = (
    "flight_bytes",
    "sent_bytes",
    "flight_max_bytes",
    "acked_bytes",
    "resent_packets",
    "rtt_s",
)
PER_FLOW = 8
SETTLED_S = 2.0
SCHEDULE = learning.Schedule(
    epochs=40, batch_rows=64, learning_rate=3e-3, weight_decay=1e-4, patience=10, decay_every=10,
    decay=0.5,
)  # fmt: skip
FOREST_SETTINGS = [
    {"min_samples_leaf": leaf, "max_features": part}
    for leaf, part in ((1, "sqrt"), (1, 0.3), (3, 0.3))
]


@dataclass(frozen=True)
class Cut:
    """How time is cut."""

    slot: str
    rows_per_rtt: int | None
    rows: int
    """Of an interval."""

    @property
    def slot_s(self) -> float:
        """A slot."""
        return time_us(self.slot) / 1e6

    def row_slots(self, flow: FlightFlow, end: int) -> int:
        """Slots of a row of an interval that ends there, as `wirelens cca` has it."""
        if self.rows_per_rtt is None:
            return 1
        found = row_slots(flow, end, slot=self.slot, rows_per_rtt=self.rows_per_rtt)
        assert found is not None, "every trace is acknowledged"
        return found

    def __str__(self) -> str:
        return self.slot if self.rows_per_rtt is None else f"RTT / {self.rows_per_rtt}"


def read(found: Sequence[traces.Trace], slot: str, folder: Path) -> list[FlightFlow]:
    """Of each trace its flow, through a capture."""
    captures = [folder / f"{trace.path.name}.pcap" for trace in found]
    for trace, capture in zip(found, captures, strict=True):
        if not capture.exists():
            traces.write(trace.path, capture)
    return [max(tap.values(), key=len) for tap in flight_slots(captures, slot=slot)]


def draw(
    found: Sequence[traces.Trace], flows: Sequence[FlightFlow], cut: Cut, seed: int
) -> tuple[Intervals, Any]:
    """Intervals of every trace at any moment, `runs` being the numbers of traces, and of each the
    features of its curve."""
    pieces, features, controls, runs = [], [], [], []
    for number, (trace, flow) in enumerate(zip(found, flows, strict=True)):
        chance = random.Random(f"{seed} {trace.path.name}")
        # Not told by how it began, where it is long enough.
        about = cut.rows * cut.row_slots(flow, flow.last_slot)
        first = flow.first_slot + round(SETTLED_S / cut.slot_s) + about
        for _ in range(PER_FLOW):
            end = chance.randint(min(first, flow.last_slot), flow.last_slot)
            row = cut.row_slots(flow, end)
            seen = flight_windows(
                flow, [end - cut.rows * row], cut.rows, row_slots=row, inputs=ALL_INPUTS
            )
            assert seen.missing == (None,), trace.path
            pieces.append(np.asarray(seen.values))
            features.append(curve.features(pieces[-1], cut.slot_s * row))
        controls += [trace.control] * PER_FLOW
        runs += [number] * PER_FLOW
    nothing = [0] * len(runs)
    intervals = Intervals(np.concatenate(pieces), controls, runs, nothing, nothing)
    return intervals, np.concatenate(features)


def folds(found: Sequence[traces.Trace], split: str) -> Iterator[tuple[str, list[int], list[int]]]:
    """Name of a fold, numbers of traces to train on and of those to judge on."""
    key = {
        "combination": lambda trace: trace.combination,
        "rate": lambda trace: trace.rate,
        "rtt": lambda trace: trace.rtt,
    }[split]
    for name in sorted({key(trace) for trace in found}):
        test = [at for at, trace in enumerate(found) if key(trace) == name]
        yield name, sorted(set(range(len(found))) - set(test)), test


def watched(found: Sequence[traces.Trace], train: Sequence[int], seed: int) -> list[int]:
    """Traces of the training side by which training ends: two whole combinations."""
    names = sorted({found[at].combination for at in train})
    held = set(random.Random(seed).sample(names, 2))
    return [at for at in train if found[at].combination in held]


class Judge:
    """A fold's sides, and what each model makes of them."""

    def __init__(self, found: Sequence[traces.Trace], controls: list[str]) -> None:
        self.found, self.controls = found, controls

    def network(self, intervals: Intervals, sides: tuple[list[int], list[int]], seed: int,
                columns: Sequence[int]) -> Any:  # fmt: skip
        """Probabilities by Dragonfly's network."""
        train, test = sides
        held = watched(self.found, train, seed)
        rest = sorted(set(train) - set(held))
        trained = learn.dragonfly(
            intervals.of_runs(rest), intervals.of_runs(held), self.controls, schedule=SCHEDULE,
            reads=lambda values: divided(values[:, :, columns]), seed=seed, threads=1,
        )  # fmt: skip
        return softmax(trained.scores(intervals.of_runs(test)).astype(float))

    def forest(self, features: Any, intervals: Intervals, sides: tuple[list[int], list[int]],
               seed: int) -> tuple[Any, dict[str, Any]]:  # fmt: skip
        """Probabilities by a forest, and its settings, chosen on combinations held out of those
        to train on."""
        from sklearn.ensemble import ExtraTreesClassifier

        train, test = sides
        runs, truth = np.array(intervals.runs), learn.labels(intervals, self.controls)
        inner = watched(self.found, train, seed)

        def fitted(fit: Sequence[int], settings: dict[str, Any], trees: int) -> Any:
            inside = np.isin(runs, list(fit))
            model = ExtraTreesClassifier(trees, random_state=seed, n_jobs=1, **settings)
            return model.fit(features[inside], truth[inside])

        def f1(settings: dict[str, Any]) -> float:
            model = fitted(sorted(set(train) - set(inner)), settings, 60)
            inside = np.isin(runs, inner)
            told = model.predict(features[inside])
            return macro_f1(confusion(truth[inside], told, len(self.controls)))

        best = max(FOREST_SETTINGS, key=f1)
        model = fitted(train, best, 200)
        assert list(model.classes_) == list(range(len(self.controls)))
        return model.predict_proba(features[np.isin(runs, test)]), best

    def told(self, probabilities: Any, part: Intervals) -> dict[str, Any]:
        """What came out, of intervals and of whole traces, whose probabilities are added up."""
        truth, n = learn.labels(part, self.controls), len(self.controls)
        counts = confusion(truth, probabilities.argmax(axis=1), n)
        runs = np.array(part.runs)
        sums = np.stack([probabilities[runs == run].sum(axis=0) for run in sorted(set(part.runs))])
        of_runs = np.array([truth[runs == run][0] for run in sorted(set(part.runs))])
        flows = confusion(of_runs, sums.argmax(axis=1), n)
        return {
            "f1": macro_f1(counts), "f1_flows": macro_f1(flows),
            "each": class_f1(counts).tolist(), "confusion": counts.tolist(),
            "confusion_flows": flows.tolist(),
        }  # fmt: skip


def write(
    folder: Path, judge: Judge, intervals: Intervals, inputs: Sequence[str], cut: Cut
) -> None:
    """Trains on all traces but two combinations, by which training ends, and writes the model."""
    found = judge.found
    held = watched(found, range(len(found)), 1)
    rest = sorted(set(range(len(found))) - set(held))
    columns = [ALL_INPUTS.index(name) for name in inputs]
    trained = learn.dragonfly(
        intervals.of_runs(rest), intervals.of_runs(held), judge.controls, schedule=SCHEDULE,
        reads=lambda values: divided(values[:, :, columns]), seed=1, threads=1,
    )  # fmt: skip
    part = intervals.of_runs(held)
    f1 = trained.f1(part)
    part.values = part.values[:, :, columns]
    trained = learn.TrainedNetwork(trained.network, judge.controls, divided)
    network = learn.calibrated(trained, part, 0.5)
    training = {
        "command": "bench/evaluation/cca/onetap.py",
        "f1_of_runs_that_ended_training": {str(cut): f1},
    }
    slot_ns = round(time_us(cut.slot) * 1000)
    model = Model(judge.controls, inputs, slot_ns, "highest", [network], training, cut.rows_per_rtt)
    model.save(
        folder, f"# 17 controls at one tap\n\nF1 of what was held out: {f1:.3f}.\n", force=True
    )
    print(f"{folder}: F1 of what was held out {f1:.3f}")


def main() -> None:
    """Judges, and appends rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("traces", type=Path)
    add("output", type=Path)
    add("--captures", type=Path, help="where the traces' captures are kept from run to run")
    add("--splits", default="combination,rate,rtt")
    add("--slot", default="100ms")
    add("--rows-per-rtt", type=int, help="rows are parts of the RTT, and not slots")
    add("--rows", type=int, default=100, help="rows of an interval")
    add("--seeds", default="1,2,3")
    add("--models", default="network,forest,frequent")
    add("--inputs", default="flight_bytes,sent_bytes")
    add("--write", type=Path, help="judge nothing, and write a model of all traces to this folder")
    asked = parser.parse_args()
    found = traces.find(asked.traces)
    controls = sorted({trace.control for trace in found})
    with tempfile.TemporaryDirectory() as folder:
        flows = read(found, asked.slot, asked.captures or Path(folder))
    cut = Cut(asked.slot, asked.rows_per_rtt, asked.rows)
    judge = Judge(found, controls)
    inputs = asked.inputs.split(",")
    columns = [ALL_INPUTS.index(name) for name in inputs]
    if asked.write:
        write(asked.write, judge, *draw(found, flows, cut, 1)[:1], inputs, cut)
        return
    asked.output.mkdir(parents=True, exist_ok=True)
    with (asked.output / "rows.jsonl").open("a") as rows:
        for seed in map(int, asked.seeds.split(",")):
            intervals, features = draw(found, flows, cut, seed)
            sides = [
                (split, *fold) for split in asked.splits.split(",") for fold in folds(found, split)
            ]
            for split, fold, train, test in sides:
                part = intervals.of_runs(test)
                for model in asked.models.split(","):
                    row: dict[str, Any] = {
                        "split": split, "fold": fold, "row": str(cut), "rows": cut.rows,
                        "seed": seed, "model": model, "controls": controls,
                    }  # fmt: skip
                    if model == "network":
                        row["inputs"] = inputs
                        told = judge.network(intervals, (train, test), seed, columns)
                    elif model == "forest":
                        told, row["settings"] = judge.forest(
                            features, intervals, (train, test), seed
                        )
                    else:
                        told = np.tile(np.eye(len(controls))[0], (len(part), 1))
                    row |= judge.told(told, part)
                    print(json.dumps(row), file=rows, flush=True)
                    print(
                        split,
                        fold,
                        seed,
                        model,
                        f"{row['f1']:.3f}",
                        f"{row['f1_flows']:.3f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
