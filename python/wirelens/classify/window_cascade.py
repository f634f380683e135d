"""Writes a cascade that is asked about windows: `wirelens classify --every` serves it.

The folder is that of `docs/specs/cascade.md`, with the kind `windows`. Models are trained by
whoever has the labels, on rows of `wirelens.classify.windows`; `bench/evaluation/classify/qoe.py`
does so for the frame rate of video calls.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirelens import written
from wirelens.classify.artifact import check_name
from wirelens.classify.cascade import CARD_FILE, CASCADE_FILE, FORMAT, VERSION
from wirelens.classify.dataset import ACTIVE_TIMEOUT_NS, IDLE_TIMEOUT_NS
from wirelens.classify.operate import Aim, Operation, StageScores, operate, rules_of
from wirelens.classify.promise import Promise
from wirelens.classify.windows import SECOND_NS
from wirelens.classify.worth import stages_worth
from wirelens.errors import OutputExistsError
from wirelens.learn.metrics import Array, confusion, macro_f1
from wirelens.sealed import SUMS_FILE, sums
from wirelens.trees import Trees

STAGE_NAMES = ("fastest", "fast", "slow")


def where_it_works(
    truth: Array,
    captures: Array,
    stages: Sequence[tuple[str, StageScores]],
    class_count: int,
    aim: Aim | None = None,
) -> tuple[list[int], Operation, list[str]]:
    """Places of the stages that are worth it, where they work, and why others went.

    As `wirelens train classify` chooses for flows. Scores are of windows that a stage's model was
    not trained on; `captures` tells which windows are no evidence of each other.
    """
    wanted = Aim() if aim is None else aim

    def alone(stage: StageScores) -> float:
        return macro_f1(confusion(truth, stage.predicted, class_count))

    best = max((stage for _, stage in stages), key=alone)
    promise = Promise(truth, best.predicted, class_count, captures, wanted.sure)

    def together(some: list[int]) -> Operation:
        chosen = [stages[place][1] for place in some]
        rules = [
            rules_of(truth, first, second, class_count, aim=wanted, families=captures)[0]
            for first, second in zip(chosen, chosen[1:], strict=False)
        ]
        return operate(truth, chosen, rules, promise, wanted, class_count)

    return stages_worth([(name, stage.name) for name, stage in stages], together)


@dataclass(frozen=True)
class WindowStage:
    """A model of a cascade, and when its answer is enough."""

    # `fastest`, `fast` or `slow`.
    name: str
    family: str
    trees: Trees
    # How its uncertainty is measured, and the threshold of each class; none of the last stage.
    uncertainty: str | None = None
    thresholds: Sequence[float] = ()
    # Points (probability, share right), as `wirelens.classify.calibration` settles them.
    calibration: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class WindowCascade:
    """What `cascade.json` says."""

    name: str
    classes: Sequence[str]
    stages: Sequence[WindowStage]
    every_ns: int = SECOND_NS
    segmentation: str = "single"
    profile: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def head(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": check_name(self.name),
            "kind": "windows",
            "window_ns": self.every_ns,
            "classes": list(self.classes),
            "flows": {"idle_timeout_ns": IDLE_TIMEOUT_NS, "active_timeout_ns": ACTIVE_TIMEOUT_NS},
            # No flow waits for longer than its window.
            "wait_ns": self.every_ns,
            "segmentation": self.segmentation,
            "stages": [self._stage(stage) for stage in self.stages],
            "profile": dict(self.profile),
            "training": dict(self.training),
        }

    def _stage(self, stage: WindowStage) -> dict[str, Any]:
        told = {
            "stage": stage.name,
            "family": stage.family,
            "file": f"{stage.name}.trees.jsonl",
            "packets": stage.trees.head["packets"],
        }
        if stage.calibration:
            told["calibration"] = [list(point) for point in stage.calibration]
        if stage is self.stages[-1]:
            return told
        thresholds = [float(value) for value in stage.thresholds]
        told["uncertainty"] = stage.uncertainty
        if len(set(thresholds)) == 1:
            return {**told, "threshold": thresholds[0]}
        return {**told, "thresholds": dict(zip(self.classes, thresholds, strict=True))}

    def write(self, folder: Path, card: str) -> None:
        """Writes the folder; it has its name once it is complete.

        Raises
        ------
        OutputExistsError
            If there is something of that name.
        OutputError
            If it cannot be written; nothing of it remains.
        """
        if folder.exists():
            raise OutputExistsError(f"{folder}: exists; give another folder, or remove it")
        text = json.dumps(self.head(), indent=1, ensure_ascii=False, allow_nan=False)
        with written.folder(folder) as partial:
            (partial / CASCADE_FILE).write_text(text + "\n", encoding="utf-8")
            (partial / CARD_FILE).write_text(card, encoding="utf-8")
            for stage in self.stages:
                stage.trees.save(partial / f"{stage.name}.trees.jsonl")
            (partial / SUMS_FILE).write_text(sums(sorted(partial.iterdir())), encoding="utf-8")
