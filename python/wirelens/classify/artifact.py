"""Writes a cascade's artifact: the folder that `docs/specs/cascade.md` describes."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirelens import __version__, written
from wirelens.classify.cascade import (
    BESIDE_VERSION,
    CARD_FILE,
    CASCADE_FILE,
    FORMAT,
    VERSION,
)
from wirelens.classify.dataset import ACTIVE_TIMEOUT_NS, IDLE_TIMEOUT_NS, Dataset
from wirelens.classify.memory import MemoryRule
from wirelens.classify.names import LIST_FILE
from wirelens.classify.operate import Operation, settled
from wirelens.classify.pool import PORT_TABLE, PoolModel
from wirelens.classify.served import told_features
from wirelens.classify.unknown import UnknownCalibration
from wirelens.errors import OptionError, OutputExistsError
from wirelens.learn.progress import Progress
from wirelens.sealed import SUMS_FILE, sums

_NAME = "abcdefghijklmnopqrstuvwxyz0123456789-"
_NAME_LEN_MAX = 40


def check_name(name: str) -> str:
    """A cascade's name, if it is one."""
    if not 1 <= len(name) <= _NAME_LEN_MAX or set(name) - set(_NAME):
        raise OptionError(f"name {name!r}; wanted: 1 to {_NAME_LEN_MAX} of a-z, 0-9 and -")
    return name


@dataclass(frozen=True)
class Parts:
    """What an artifact is made of."""

    name: str
    dataset: Dataset
    # Stages in order, by their names.
    stages: list[tuple[str, PoolModel]]
    operation: Operation
    # The table of ports as a reference, if there is one and it is no stage.
    ports: PoolModel | None
    profile: dict[str, Any]
    training: dict[str, Any]
    card: str
    calibrated: UnknownCalibration = field(default_factory=UnknownCalibration)
    names_protocols: bool = False
    # The list of names, where they are evidence.
    names_list: Path | None = None
    # How hosts are in memory, if they are.
    memory: MemoryRule | None = None

    @property
    def version(self) -> int:
        """The first version that has what it has."""
        is_plain = self.names_list is None and self.memory is None
        return VERSION if is_plain else BESIDE_VERSION


def stage_file(stage: str, model: PoolModel) -> str:
    """What a stage's file is called."""
    return stage + ("".join(model.file.suffixes[-2:]) if model.file.suffix != ".onnx" else ".onnx")


def _stage(parts: Parts, index: int) -> dict[str, Any]:
    stage, model = parts.stages[index]
    told: dict[str, Any] = {
        "stage": stage,
        "family": model.profile.family,
        "file": stage_file(stage, model),
        "packets": model.profile.packets,
    }
    if index < len(parts.operation.points):
        rule, point = parts.operation.rules[index], parts.operation.points[index]
        written = settled(point, rule.unsure, rule.predicted)
        told["uncertainty"] = rule.measure
        if point.is_universal:
            told["threshold"] = written[0]
        else:
            told["thresholds"] = dict(zip(parts.dataset.classes, written, strict=True))
    lines = parts.calibrated.lines
    if index < len(lines) and lines[index]:
        told["calibration"] = [list(point) for point in lines[index]]
    if model.names is not None:
        told["names"] = model.names.told(parts.dataset.classes)
    if model.file.suffix == ".onnx":
        told["features"] = told_features(model.features)
        told |= {"columns": model.columns, **model.details}
    return told


def head(parts: Parts) -> dict[str, Any]:
    """What `cascade.json` says."""
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": parts.version,
        "name": check_name(parts.name),
        "kind": "flows",
        "classes": parts.dataset.classes,
        "flows": {"idle_timeout_ns": IDLE_TIMEOUT_NS, "active_timeout_ns": ACTIVE_TIMEOUT_NS},
        "wait_ns": parts.dataset.sample.wait_ns,
        "segmentation": parts.dataset.segmentation,
        "unknown_below": parts.calibrated.choice.below,
        "portless": "named" if parts.names_protocols else "asked",
        "stages": [_stage(parts, index) for index in range(len(parts.stages))],
    }
    if parts.names_list is not None:
        found["names"] = LIST_FILE
    if parts.memory is not None:
        found["memory"] = parts.memory.told()
    if parts.ports is not None:
        found["reference"] = {"family": PORT_TABLE, "file": f"{PORT_TABLE}.trees.jsonl"}
    return {
        **found,
        "profile": parts.profile,
        "training": {**parts.training, "wirelens": __version__},
    }


def write(parts: Parts, folder: Path, *, force: bool = False, progress: Progress) -> None:
    """Writes the folder; it has its name once it is complete.

    One that is there already is replaced only where that is asked for, and only if it is an
    artifact.
    """
    check_free(folder, force)
    told = head(parts)
    text = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False)
    with written.folder(folder) as partial:
        (partial / CASCADE_FILE).write_text(text + "\n", encoding="utf-8")
        (partial / CARD_FILE).write_text(parts.card, encoding="utf-8")
        for stage, model in parts.stages:
            shutil.copyfile(model.file, partial / stage_file(stage, model))
        if parts.names_list is not None:
            shutil.copyfile(parts.names_list, partial / LIST_FILE)
        if parts.ports is not None:
            shutil.copyfile(parts.ports.file, partial / told["reference"]["file"])
        (partial / SUMS_FILE).write_text(sums(sorted(partial.iterdir())), encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.iterdir())
    progress.tell(f"wrote {folder} ({size / 1e6:.1f} MB)")


def check_free(folder: Path, force: bool) -> None:
    """Refuses a folder that is there, before hours of training."""
    if not folder.exists():
        return
    if not (folder / CASCADE_FILE).is_file():
        raise OutputExistsError(
            f"{folder}: exists and is not a cascade; wanted: a new name for the model's folder"
        )
    if not force:
        raise OutputExistsError(
            f"{folder}: exists; give another name, or --force to replace it"
        )
