"""The captures that files and folders come to, and why some of them cannot be read."""

import os
import warnings
from collections.abc import Sequence

from wirelens import _wirelens
from wirelens.errors import DamagedCaptureWarning


def found_captures(names: Sequence[str | os.PathLike[str]]) -> tuple[list[str], list[str]]:
    """Captures by path, and why others in folders are left out, a line each."""
    captures, refused = _wirelens.found_captures(names)
    return [os.fspath(path) for path in captures], refused


def readable_captures(names: Sequence[str | os.PathLike[str]], stacklevel: int) -> list[str]:
    """Captures by path; warns of those in folders that cannot be read.

    `stacklevel` is that of `warnings.warn`, for who calls this.
    """
    captures, refused = found_captures(names)
    for line in refused:
        warnings.warn(line, DamagedCaptureWarning, stacklevel=stacklevel + 1)
    return captures
