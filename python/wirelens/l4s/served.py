"""Models of `wirelens train l4s`, read and used without what trains them."""

import os

from wirelens import sealed
from wirelens.shipped import model_folder

FORMAT, ONNX_FORMAT = "wirelens-l4s 1", "wirelens-l4s-onnx 1"
MODEL_FILE, CARD_FILE = "model.safetensors", "card.md"
# A network in ONNX, and what it says of itself.
ONNX_FILE, SAID_FILE = "model.onnx", "model.json"
MADE_BY = "wirelens train l4s"


def read_model(model: str | os.PathLike[str]) -> bytes | tuple[bytes, bytes]:
    """The file of a model, by its folder or the name of one that ships; of a network in ONNX what
    it says of itself, and the network.

    Raises `ModelError` where it is not there, or is not as it was written.
    """
    folder = model_folder(model, MODEL_FILE, MADE_BY)
    sums = sealed.read_sums(folder, MADE_BY)
    if (folder / ONNX_FILE).is_file():
        return sealed.checked(folder, SAID_FILE, sums), sealed.checked(folder, ONNX_FILE, sums)
    return sealed.checked(folder, MODEL_FILE, sums)
