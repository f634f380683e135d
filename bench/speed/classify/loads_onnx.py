"""Cascades in ONNX: the same trees as a cascade of ours has, and single models made elsewhere.

What is written is an artifact as docs/specs/cascade.md has it, which `wirelens classify` serves.
"""

import json
from pathlib import Path
from typing import Any

from wirelens.classify import matrix, steps
from wirelens.classify.dataset import Dataset
from wirelens.classify.families import Training, family
from wirelens.classify.features import FlowFeatures
from wirelens.classify.pool import Plan, Pool
from wirelens.classify.served import told_features
from wirelens.learn import networks
from wirelens.learn.progress import Progress
from wirelens.sealed import sums

_INPUT, _OUTPUT = "row", "probabilities"
_CONVERTED = ("decision-tree", "random-forest", "lightgbm")


class ModelPool:
    """Models as the pool of a training run trains them, and the columns that they see."""

    def __init__(self, request: steps.Request, dataset: Dataset, plan: Plan) -> None:
        self.recipe = request.recipe
        depth = max(request.pool.depths)
        self.matrix = matrix.build(dataset.sample, request.recipe, depth, plan.training)
        # Nothing is kept: only its flows and weights are wanted.
        work = request.work or request.output
        progress = Progress(False)
        self._pool = Pool(dataset, request.recipe, self.matrix, plan, request.pool, work, progress)
        self._plan = plan

    def fitted(self, name: str, packets: int) -> Any:
        """The model, trained anew, which gives the same trees."""
        kind, pool = family(name), self._pool
        rows = pool._rows(kind, packets, pool._trained_on(kind, self._plan.training))
        changed = pool.settings.changed.get(name, {})
        return kind.fit(rows, Training(pool.dataset.classes, pool.settings.seed, 1, changed))


def write(ours: Path, place: Path, learned: ModelPool) -> None:
    """The cascade at `ours` with its trees in ONNX."""
    head = json.loads((ours / "cascade.json").read_text(encoding="utf-8"))
    files: dict[str, bytes] = {}
    for stage in head["stages"]:
        if stage["family"] not in _CONVERTED:
            files[stage["file"]] = (ours / stage["file"]).read_bytes()
            continue
        columns = learned.matrix.columns(stage["packets"])
        wanted = learned.recipe.number_names(stage["packets"])
        numbers = [name for name in wanted if name in set(columns)]
        features = learned.recipe.features(stage["packets"], numbers)
        stage |= _wired(stage["stage"], features, columns, _INPUT, _OUTPUT)
        files[stage["file"]] = converted(stage["family"], stage["packets"], learned)
    _write(place, head, files)


def write_single(like: Path, place: Path, model: Path, kind: str, features: FlowFeatures) -> None:
    """A network on numbers as the only stage; classes and times are those of a cascade of ours."""
    head = json.loads((like / "cascade.json").read_text(encoding="utf-8"))
    stage = {"stage": "slow", "family": kind, "packets": features.packets}
    columns = list(features.numbers)
    stage |= _wired("slow", features, columns, networks.INPUT, networks.OUTPUT)
    head["stages"] = [stage]
    _write(place, head, {"slow.onnx": model.read_bytes()})


def _wired(
    stage: str, features: FlowFeatures, columns: list[str], into: str, out: str
) -> dict[str, Any]:
    wiring = {"columns": columns, "input": into, "output": out}
    return {"file": f"{stage}.onnx", "features": told_features(features), **wiring}


def _write(place: Path, head: dict[str, Any], files: dict[str, bytes]) -> None:
    """An artifact without card and profile, which nobody is to use."""
    for told in ("reference", "profile", "training"):
        head.pop(told, None)
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(content)
    (place / "cascade.json").write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
    sealed = [place / "cascade.json", *(place / name for name in files)]
    (place / "SHA256SUMS").write_text(sums(sealed), encoding="utf-8")


def converted(kind: str, packets: int, learned: ModelPool) -> bytes:
    """The pool's model in ONNX."""
    model = learned.fitted(kind, packets)
    shape = [None, len(learned.matrix.columns(packets))]
    if kind == "lightgbm":
        from onnxmltools import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType

        inputs = [(_INPUT, FloatTensorType(shape))]
        made = convert_lightgbm(model, initial_types=inputs, zipmap=False)
    else:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType as SklearnTensorType

        inputs = [(_INPUT, SklearnTensorType(shape))]
        made = to_onnx(model, initial_types=inputs, options={"zipmap": False})
    return bytes(made.SerializeToString())
