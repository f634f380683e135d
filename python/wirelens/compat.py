"""Optional packages: looked for here and nowhere else, when they are first needed."""

import importlib
import sys
from typing import Any

from wirelens.errors import MissingPackageError

# Package and the extra of ours that installs it.
_EXTRAS = {
    "pandas": "pandas",
    "polars": "polars",
    "pyarrow": "arrow",
    "numpy": "train",
    "sklearn": "train",
    "lightgbm": "train",
    "xgboost": "train",
    "matplotlib": "train",
    "onnxruntime": "onnx",
    "ray": "ray",
}


def install_line(extra: str) -> str:
    """How to install the package with an extra, as errors say it; `wirelens` itself says the same.

    From a clone alone: the name on the index of Python packages is not ours.
    """
    return (
        "install it from a clone of Wirelens, in its folder: "
        f"{sys.executable} -m pip install '.[{extra}]'"
    )


def find(name: str) -> Any | None:
    """The package, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def need(name: str, wanted_by: str) -> Any:
    """The package, which `wanted_by` cannot do without."""
    module = find(name)
    if module is None:
        package = name.partition(".")[0]
        raise MissingPackageError(
            f"{wanted_by} needs {package}, which is not installed; "
            f"{install_line(_EXTRAS[package])}",
            name=package,
        )
    return module
