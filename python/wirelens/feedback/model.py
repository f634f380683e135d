"""What a model reads of a flow, as its folder declares it.

Its files are checked by what classifies with it; here they are only read.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelens.errors import ModelError
from wirelens.sealed import identity_of
from wirelens.shipped import model_folder

_CASCADE_FILE = "cascade.json"
_MADE_BY = "wirelens train classify"


@dataclass(frozen=True)
class ModelNeeds:
    """A model, and what it reads."""

    # As verdicts have it.
    identity: str
    # First packets of a flow.
    packets: int
    # First bytes of the payload of each.
    payload_bytes: int
    # Whether it reads names, which are anywhere in the payload.
    reads_names: bool
    # Whether a verdict depends on the host's flows before.
    remembers_hosts: bool
    idle_timeout_ns: int


def read_needs(model: str) -> ModelNeeds:
    """Reads what a model needs.

    Raises
    ------
    ModelError
        If there is no such model, or it is none of flows.
    """
    folder = model_folder(model, _CASCADE_FILE, _MADE_BY)
    place = folder / _CASCADE_FILE
    if not place.is_file():
        raise ModelError(
            f"{folder}: no {_CASCADE_FILE}; give the folder that `{_MADE_BY}` wrote, or the name "
            "of a shipped model"
        )
    text = place.read_bytes()
    try:
        head = json.loads(text)
        if head.get("kind") == "windows":
            raise ModelError(f"{folder}: a model of windows; wanted: one of flows")
        declared = [_declared(folder, stage) for stage in head["stages"]]
        return ModelNeeds(
            identity=identity_of(text, head, lambda name: (folder / name).read_bytes()),
            packets=max(int(stage["packets"]) for stage in head["stages"]),
            payload_bytes=max(int(one["payload_bytes"]) for one in declared),
            reads_names="names" in head,
            remembers_hosts="memory" in head,
            idle_timeout_ns=int(head["flows"]["idle_timeout_ns"]),
        )
    except OSError as error:
        raise ModelError(
            f"{error.filename}: {error.strerror}; wanted: the whole folder of the model"
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"{place}: {type(error).__name__} {error}; wanted: what docs/specs/cascade.md "
            "describes; train again"
        ) from error


def _declared(folder: Path, stage: dict[str, Any]) -> dict[str, Any]:
    """What a stage declares of its features: in `cascade.json`, else in its trees' first line."""
    if "features" in stage:
        features: dict[str, Any] = stage["features"]
        return features
    with (folder / stage["file"]).open(encoding="utf-8") as trees:
        head: dict[str, Any] = json.loads(trees.readline())
    return head
