"""Networks as the program reads them, as `docs/specs/l4s-model.md` says: causal ones as
safetensors, others as ONNX.
"""

import json
from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.compat import install_line
from wirelens.errors import MissingPackageError
from wirelens.l4s.networks import HEADS, HIDDEN, LAYERS, WIDTH, Causal
from wirelens.l4s.packets import QUERY_NAMES, TOKEN_NAMES, Batching
from wirelens.l4s.served import (
    CARD_FILE,
    FORMAT,
    MODEL_FILE,
    ONNX_FILE,
    ONNX_FORMAT,
    SAID_FILE,
)
from wirelens.learn.networks import array
from wirelens.sealed import SUMS_FILE, line

FILES = (MODEL_FILE, ONNX_FILE, SAID_FILE)


def data(network: Causal, batching: Batching, training: dict[str, Any]) -> bytes:
    """The bytes of the file.

    Raises `MissingPackageError` where safetensors is not installed.
    """
    try:
        from safetensors.numpy import save
    except ImportError as error:
        raise MissingPackageError(
            f"models of l4s need safetensors; {install_line('train')}", name="safetensors"
        ) from error
    said = {
        "format": FORMAT, "heads": HEADS, "layers": LAYERS, "width": WIDTH, "hidden": HIDDEN,
        **_said(network, batching, training),
    }  # fmt: skip
    tensors = {
        _renamed(name): numpy.ascontiguousarray(array(values), "<f4")
        for name, values in network.state_dict().items()
    }
    content: bytes = save(tensors, {"wirelens": json.dumps(said)})
    return content


def files(
    kind: str, network: Any, batching: Batching, training: dict[str, Any]
) -> dict[str, bytes]:
    """The files of a model of `learn.KINDS`, by their names.

    Raises `MissingPackageError` where what writes them is not installed.
    """
    if kind == "causal":
        return {MODEL_FILE: data(network, batching, training)}
    from wirelens.l4s import exported

    said = {
        "format": ONNX_FORMAT, "network": kind, **_said(network, batching, training)
    }  # fmt: skip
    text = json.dumps(said, indent=1) + "\n"
    return {ONNX_FILE: exported.data(network), SAID_FILE: text.encode()}


def _said(network: Any, batching: Batching, training: dict[str, Any]) -> dict[str, Any]:
    return {
        "window": network.window, "batch_packets": batching.packets,
        "batch_span_ns": round(batching.span_ms * 1e6), "token": TOKEN_NAMES,
        "query": QUERY_NAMES, "floor_ns": training.get("floor_ns"), "training": training,
    }  # fmt: skip


def _renamed(name: str) -> str:
    """The name in the file of a tensor in PyTorch."""
    return name.replace("head.layers.", "head.").replace("coding.", "head.")


def check_free(folder: Path, force: bool) -> None:
    """Refuses to write over a model, unless that is asked for.

    Raises `OutputExistsError`.
    """
    for name in FILES:
        written.check_free(folder / name, force)


def write(folder: Path, contents: dict[str, bytes], card: str, *, force: bool) -> None:
    """Writes model, card and seal.

    Raises `OutputExistsError` where there is one, and `force` is not given; `OutputError` where
    they cannot be written, and a model that was there stays.
    """
    check_free(folder, force)
    sums = "".join(line(name, content) for name, content in contents.items())
    beside = {CARD_FILE: card.encode(), SUMS_FILE: sums.encode()}
    written.files(folder, beside | contents)
    for name in FILES:
        if name not in contents:
            # Of a model of another kind that was written over.
            (folder / name).unlink(missing_ok=True)
