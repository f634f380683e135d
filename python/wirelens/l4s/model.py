"""A causal network as the program reads it: safetensors, as `docs/specs/l4s-model.md` says."""

import json
from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.compat import install_line
from wirelens.errors import MissingPackageError
from wirelens.l4s.networks import HEADS, HIDDEN, LAYERS, WIDTH, Causal
from wirelens.l4s.packets import QUERY_NAMES, TOKEN_NAMES, Batching
from wirelens.l4s.served import CARD_FILE, FORMAT, MODEL_FILE
from wirelens.learn.networks import array
from wirelens.sealed import SUMS_FILE, line


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
        "format": FORMAT, "window": network.window, "heads": HEADS, "layers": LAYERS,
        "width": WIDTH, "hidden": HIDDEN, "batch_packets": batching.packets,
        "batch_span_ns": round(batching.span_ms * 1e6), "token": TOKEN_NAMES,
        "query": QUERY_NAMES, "training": training,
    }  # fmt: skip
    tensors = {
        name.replace("head.layers.", "head."): numpy.ascontiguousarray(array(values), "<f4")
        for name, values in network.state_dict().items()
    }
    content: bytes = save(tensors, {"wirelens": json.dumps(said)})
    return content


def write(folder: Path, content: bytes, card: str, *, force: bool) -> None:
    """Writes model, card and seal.

    Raises `OutputExistsError` where there is one, and `force` is not given; `OutputError` where
    they cannot be written, and a model that was there stays.
    """
    written.check_free(folder / MODEL_FILE, force)
    files = {CARD_FILE: card.encode(), SUMS_FILE: line(MODEL_FILE, content).encode()}
    written.files(folder, files | {MODEL_FILE: content})
