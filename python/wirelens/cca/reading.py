"""Models from their files."""

import json
from pathlib import Path
from typing import Any

from wirelens.cca import levels
from wirelens.cca.model import FORMAT, MODEL_FILE, Model, Network, Voting
from wirelens.compat import install_line
from wirelens.errors import MissingPackageError, ModelError
from wirelens.sealed import checked, read_sums


def load(folder: Path) -> Model:
    """Reads a model.

    Raises
    ------
    ModelError
        If it is none, or was changed after training.
    MissingPackageError
        If safetensors is not installed.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingPackageError(
            f"models of cca need safetensors; {install_line('train')}",
            name="safetensors",
        ) from error
    path = folder / MODEL_FILE
    checked(folder, MODEL_FILE, read_sums(folder, "wirelens train cca"))
    try:
        with safe_open(path, "numpy") as file:
            said: dict[str, Any] = json.loads((file.metadata() or {}).get("wirelens", "{}"))
            if said.get("format") != FORMAT:
                raise ModelError(f"{path}: format {said.get('format')!r}; wanted: {FORMAT!r}")
            return Model(
                said["controls"], said["inputs"], said["slot_ns"], said["passed"],
                [_network(file, one, said) for one in said["networks"]], said["training"],
                said.get("rows_per_rtt"), Voting(**said["votes"]) if "votes" in said else None,
                said.get("shares", (1.0,)), said.get("range"), said.get("confidence_max"),
                said.get("levels", False), said.get("queue_shares", False),
            )  # fmt: skip
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: {error}; wanted: a model of `wirelens train cca`") from error


def _network(file: Any, said: dict[str, Any], of_model: dict[str, Any]) -> Network:
    # With one tap, `wirelens.cca.onetap` makes the channels: a row's length is one of them.
    has_levels = of_model.get("levels", False) and "rows_per_rtt" not in of_model
    reads = levels.read_as(has_levels, of_model.get("queue_shares", False))

    def layer(name: str) -> tuple[Any, Any]:
        begin = f"{said['slots']}.{name}"
        return file.get_tensor(f"{begin}.weight"), file.get_tensor(f"{begin}.bias")

    return Network(
        said["slots"], said["pool_len"],
        [layer(f"block{at}") for at in range(said["blocks"])], layer("head"),
        said["temperature"], said["unknown_below"], said.get("row_slots", 1),
        reads, said.get("correlation"),
    )  # fmt: skip
