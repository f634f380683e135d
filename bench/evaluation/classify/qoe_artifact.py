"""The cascade that ships as `video-rate`: trained on all calls, its card from folds of them."""

import hashlib
import importlib.metadata
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from qoe import COUNTS, FEATURES
from qoe_card import card
from qoe_data import Call
from qoe_foreign import Foreign, captures_of, read
from qoe_gated import NAMES, STAGES, Answers, Choice, FittedStage, Stage, choose, cross_validated
from qoe_rows import OTHER_CALLS, Figures, write_rows
from wirelens import _wirelens
from wirelens.classify.families import family, library_version
from wirelens.classify.window_cascade import WindowCascade, WindowStage
from wirelens.classify.windows import WindowFeatures
from wirelens.trees import Trees, load, score

sys.path.append(str(Path(__file__).resolve().parents[2]))
import environment  # noqa: E402

Array = Any


@dataclass(frozen=True)
class Cascade:
    """Stages of all calls, and when each decides."""

    stages: list[Stage]
    fitted: list[FittedStage]
    chosen: Choice

    def answers(self, numbers: Array) -> Answers:
        """What it says of windows."""
        found = Answers.empty(len(numbers))
        scores = [s.said(f, numbers) for s, f in zip(self.stages, self.fitted, strict=True)]
        found.put(numpy.arange(len(numbers)), self.chosen, scores)
        return found


def trained(calls: list[Call], foreign: Foreign) -> Cascade:
    """On all calls and windows; thresholds by stages of the other calls."""
    stages = [Stage(calls, foreign, *stage) for stage in STAGES]
    learner = stages[0].learner
    own, others = numpy.arange(len(learner.labels)), numpy.arange(len(foreign.numbers))
    held = [stage.held_out(own, others) for stage in stages]
    chosen = choose(learner.labels, learner.call_of, held)
    return Cascade(stages, [stage.fit(own, others) for stage in stages], chosen)


def trees_of(stage: Stage, fitted: FittedStage) -> Trees:
    """What is served of a stage: no header bit is read, and all stages have the same layout."""
    numbers = [*fitted.columns, *(n for n in stage.gate.numbers if n not in fitted.columns)]
    read_of = WindowFeatures(blocks=FEATURES.blocks, packets=1, numbers=numbers).header_bits()
    own = stage.learner.kind.trees(fitted.model, fitted.columns, NAMES[:-1], read_of)
    return stage.gate.trees(fitted.gate, own, read_of)


def difference(file: Path, stage: Stage, fitted: FittedStage, numbers: Array) -> float:
    """How far the runtime's probabilities are from the library's, at most."""
    forest = load(file)
    places = [list(FEATURES.numbers).index(name) for name in forest.numbers]
    record_len = len(_wirelens.header_columns(list(FEATURES.blocks), 0)) // 8
    record_len += -(-record_len // 8)
    seen = numpy.ascontiguousarray(numbers[:, places].astype(numpy.float64))
    said = numpy.asarray(score(forest, bytes(record_len * len(numbers)), numbers=seen))
    return float(abs(said - stage.said(fitted, numbers)).max())


def fingerprint(calls: list[Call], foreign: Foreign) -> str:
    """Of calls, their labels and the other captures: the same ones have the same."""
    parts = [call.numbers.tobytes() + call.fps.tobytes() for call in calls]
    return hashlib.sha256(b"".join([*parts, *map(str.encode, sorted(foreign.hashes))])).hexdigest()


def training_of(calls: list[Call], foreign: Foreign, truth: Array) -> dict[str, Any]:
    """For readers of `cascade.json`."""
    seconds = numpy.bincount(truth, minlength=len(NAMES)).tolist()
    seconds[-1] = len(foreign.numbers)
    return {
        "fingerprint": f"sha256:{fingerprint(calls, foreign)}",
        "captures": len(calls) + len(foreign.names),
        "families": len(calls) + len(set(foreign.families)),
        "windows": sum(seconds),
        "windows_by_class": dict(zip(NAMES, seconds, strict=True)),
        "seeds": {call.name: call.seed for call in calls},
        "seed": 1,
        "split": "all calls train; thresholds by models of other calls",
        "libraries": {"lightgbm": library_version(family("lightgbm"))},
        "wirelens": importlib.metadata.version("wirelens"),
    }


def artifact(
    calls: list[Call], captures: Path, folder: Path, results: Path, *elsewhere: Path
) -> None:
    """Judges by folds, trains on everything, and writes the folder and the rows.

    Captures of the folders `elsewhere` train nothing: the rows say what the cascade makes of them.
    """
    foreign = read(captures_of(captures), FEATURES)
    others = read(captures_of(captures, real_time=True), FEATURES, known=foreign.hashes)
    judged = cross_validated(calls, foreign)
    cascade = trained(calls, foreign)
    made = []
    for index, place in enumerate(cascade.chosen.kept):
        stage, fitted = cascade.stages[place], cascade.fitted[place]
        is_last = index == len(cascade.chosen.kept) - 1
        rule = None if is_last else cascade.chosen.operation.rules[index]
        made.append(
            WindowStage(
                stage.name, COUNTS, trees_of(stage, fitted),
                None if rule is None else rule.measure,
                () if is_last else cascade.chosen.thresholds[index],
                cascade.chosen.lines[index],
            )
        )  # fmt: skip
    of_others = cascade.answers(others.numbers)
    profile = {
        "judged_on": "held-out calls, five folds",
        "operating_point": {"why": cascade.chosen.operation.why},
        "placement": cascade.chosen.reasons,
        "macro_f1": round(Figures(judged, "this model").macro_f1.value, 4),
    }
    head = WindowCascade(
        folder.name, NAMES, made, profile=profile,
        training=training_of(calls, foreign, judged.truth),
    )  # fmt: skip
    head.write(folder, card(folder.name, judged, cascade.chosen, others, of_others, head.training))
    known = {*foreign.hashes, *others.hashes}
    strangers = {place.name: read(captures_of(place), FEATURES, known) for place in elsewhere}
    write_rows(
        results,
        judged,
        [
            (OTHER_CALLS, others, of_others),
            *((n, one, cascade.answers(one.numbers)) for n, one in strangers.items()),
        ],
    )
    facts = environment.facts([], 1) | {"lightgbm": head.training["libraries"]["lightgbm"]}
    facts["fingerprint"] = head.training["fingerprint"]
    (results / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    everything = numpy.concatenate([*(call.numbers for call in calls), foreign.numbers])
    for one, place in zip(made, cascade.chosen.kept, strict=True):
        file = folder / f"{one.name}.trees.jsonl"
        gap = difference(file, cascade.stages[place], cascade.fitted[place], everything)
        print(f"{one.name}: library and runtime differ by at most {gap:.2g}")
