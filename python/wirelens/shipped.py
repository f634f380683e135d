"""Which folder of a model is meant: one that ships, by its name, or a user's, by its path.

A name without a separator, such as ``"services"``, is always that of a model that ships: a folder
of the current one never goes before it, since others may write there. A folder is given with a
separator, as in ``"./services"``, or as a `pathlib.Path`.
"""

import os
from pathlib import Path

from wirelens.errors import ModelError

# Of the package; the same models as those of the repository.
SHIPPED = Path(__file__).resolve().parent / "models"


def is_name(model: str | os.PathLike[str]) -> bool:
    """Whether a model that ships is meant, by its name."""
    return isinstance(model, str) and os.sep not in model and model not in {"", ".", ".."}


def model_folder(model: str | os.PathLike[str], marker: str, made_by: str) -> Path:
    """The folder that is meant; its kind has a file named `marker`, and `made_by` writes it.

    Raises
    ------
    ModelError
        If no model of that name ships.
    """
    if not is_name(model):
        return Path(model)
    folder = SHIPPED / model
    if (folder / marker).is_file():
        return folder
    known = ", ".join(sorted(file.parent.name for file in SHIPPED.glob(f"*/{marker}")))
    hint = f"give ./NAME or another path to the folder that `{made_by}` wrote"
    if Path(model, marker).is_file():
        hint = f"for the folder of this name give ./{model}"
    raise ModelError(
        f"{model}: no shipped model has this name (they are {known or 'not installed'}); {hint}"
    )
