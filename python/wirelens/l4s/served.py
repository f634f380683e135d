"""Models of `wirelens train l4s`, read and used without what trains them."""

import os

from wirelens import sealed
from wirelens.shipped import model_folder

FORMAT = "wirelens-l4s 1"
MODEL_FILE, CARD_FILE = "model.safetensors", "card.md"
MADE_BY = "wirelens train l4s"


def read_model(model: str | os.PathLike[str]) -> bytes:
    """The file of a model, by its folder or the name of one that ships.

    Raises `ModelError` where it is not there, or is not as it was written.
    """
    folder = model_folder(model, MODEL_FILE, MADE_BY)
    return sealed.checked(folder, MODEL_FILE, sealed.read_sums(folder, MADE_BY))
