"""A model as `wirelens packetlog` reads it: two forests, and how the features they read are made."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from wirelens import sealed, written
from wirelens.errors import ModelError, OptionError, OutputExistsError
from wirelens.learn.metrics import Array
from wirelens.packetlog.forest import Forest
from wirelens.packetlog.snapshots import SnapshotOptions, state_columns
from wirelens.shipped import model_folder

FORMAT = "wirelens-packetlog 1"
MODEL_FILE = "model.json"
CARD_FILE = "card.md"
_MADE_BY = "wirelens train packetlog"
# As the specification of models has them.
REUSE_FLOWS_MIN = 1 << 10
REUSE_FLOWS_MAX = 1 << 24
# What lost least for what it saves: docs/decisions/0062-verdict-reuse.md.
REUSE_RULE = {"growth_percent": 12}


@dataclass
class Model:
    """What judges packets."""

    classes: list[str]
    options: SnapshotOptions
    columns: list[str]
    # Judges packets of whose flow anything is kept.
    flow_forest: Forest
    # Judges the others.
    packet_forest: Forest
    # Flows whose last verdict is used again, and when: as the file has it. Nothing: every packet is
    # classified for itself.
    verdict_reuse: dict[str, int] | None = None
    # How it was made; nobody looks at it to judge.
    training: dict[str, Any] = field(default_factory=dict)

    def probabilities(self, values: Array, holds_flow: Array) -> Array:
        """Of snapshots the probability of each class."""
        found = numpy.empty((len(values), len(self.classes)))
        found[holds_flow] = self.flow_forest.probabilities(values[holds_flow])
        found[~holds_flow] = self.packet_forest.probabilities(values[~holds_flow])
        return found

    def judge(self, values: Array, holds_flow: Array) -> Array:
        """Of snapshots the class: of several that are as probable, the first."""
        return numpy.argmax(self.probabilities(values, holds_flow), axis=1)

    def to_json(self) -> dict[str, Any]:
        """What its file says."""
        reuse = {"verdict_reuse": self.verdict_reuse} if self.verdict_reuse else {}
        return {
            "format": FORMAT,
            "classes": self.classes,
            "features": self.options.to_json(),
            "columns": self.columns,
            "schema": self.options.hash(self.columns),
            "flow_forest": {"trees": self.flow_forest.to_json()},
            "packet_forest": {"trees": self.packet_forest.to_json()},
            **reuse,
            "training": self.training,
        }


def verdict_reuse(flows: int) -> dict[str, int] | None:
    """The rule by which verdicts of so many flows are used again; nothing of none.

    Raises
    ------
    OptionError
        If there can be no such number of flows.
    """
    if flows == 0:
        return None
    if flows & (flows - 1) or not REUSE_FLOWS_MIN <= flows <= REUSE_FLOWS_MAX:
        raise OptionError(
            f"--reuse-flows {flows}; wanted: 0, or a power of two from {REUSE_FLOWS_MIN} to "
            f"{REUSE_FLOWS_MAX}"
        )
    return {"flows": flows, **REUSE_RULE}


def sifted(
    classes: list[str],
    options: SnapshotOptions,
    columns: Sequence[str],
    forests: tuple[Forest, Forest],
    training: dict[str, Any],
    reuse_flows: int = 0,
) -> Model:
    """A model with only the columns that a node of its forests reads.

    What no column asks for is not kept at run time, and costs nothing.
    """
    read = sorted({index for one in forests for index in one.columns}) or [0]
    names = [columns[index] for index in read]
    flow_forest, packet_forest = (one.with_columns(read) for one in forests)
    kept = [key for key in options.keys if any(name.startswith(f"{key}_") for name in names)]
    # Sums of hosts that count flows need those of flows; and the flow says which forest judges.
    keys = ["flow", *[key for key in kept if key != "flow"]] if "flow" in options.keys else kept
    states = options.states if not state_columns().isdisjoint(names) else 0
    options = options.replace(keys=keys, states=states)
    reuse = verdict_reuse(reuse_flows)
    return Model(classes, options, names, flow_forest, packet_forest, reuse, training)


def file_of(folder: str | os.PathLike[str]) -> Path:
    """The file of a model in a folder, or of the one of this name that ships."""
    return model_folder(folder, MODEL_FILE, _MADE_BY) / MODEL_FILE


def read(folder: str | os.PathLike[str]) -> Model:
    """The model of a folder; also one that ships, by its name."""
    path = file_of(folder)
    sums = sealed.read_sums(path.parent, _MADE_BY)
    data = sealed.checked(path.parent, MODEL_FILE, sums)
    try:
        told = json.loads(data)
        features = told["features"]
        options = SnapshotOptions(
            source=features["source"],
            window=_text(features["window_ns"]),
            layers=features["layers"],
            buckets=features["buckets"],
            keys=features["keys"],
            idle_timeout=_text(features["idle_timeout_ns"]),
            max_flows=features["flow_count_max"],
            states=features.get("states", 0),
        )
        found = Model(
            told["classes"],
            options,
            told["columns"],
            Forest.of_json(told["flow_forest"]["trees"]),
            Forest.of_json(told["packet_forest"]["trees"]),
            told.get("verdict_reuse"),
            told.get("training", {}),
        )
        schema = told["schema"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: {error}; wanted: a model of the packet log") from error
    if schema != options.hash(found.columns):
        raise ModelError(
            f"{path}: its columns have another meaning in this version; train it with this one"
        )
    return found


def _text(span_ns: int) -> str:
    return f"{span_ns}ns" if span_ns else "0"


def check_free(folder: Path, force: bool) -> None:
    """Refuses to write over anything but, if asked, a model."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not force or not (folder / MODEL_FILE).is_file():
        raise OutputExistsError(
            f"{folder}: exists; give another name, or --force to replace a model"
        )


def write(model: Model, card: str, folder: Path) -> None:
    """Writes the model, its card and its seal: all of them, or nothing is changed.

    Raises
    ------
    OutputError
        If they cannot be written.
    """
    # A line a field, so that what changed between two models can be seen.
    fields = [
        f"{json.dumps(name)}:{json.dumps(told, ensure_ascii=False, separators=(',', ':'))}"
        for name, told in model.to_json().items()
    ]
    text = "{" + ",\n".join(fields) + "}"
    data = (text + "\n").encode()
    listed = sealed.line(MODEL_FILE, data)
    contents = {CARD_FILE: card, sealed.SUMS_FILE: listed}
    # The model comes last: a folder without it is none.
    told = {name: content.encode() for name, content in contents.items()}
    written.files(folder, told | {MODEL_FILE: data})
