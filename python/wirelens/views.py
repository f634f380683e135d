"""Memory as views of several dimensions, which NumPy takes without a copy."""

import math
from typing import Any

__all__ = ["rows_of"]


def rows_of(memory: "bytes | memoryview[Any]", code: Any, *row: int) -> "memoryview[Any]":
    """Values end to end as rows, each of the dimensions `row`.

    A ``memoryview`` of no rows cannot be given several dimensions, so that one has a single
    dimension, of length 0.

    Parameters
    ----------
    memory
        The values.
    code
        Their type, as ``struct`` has it, such as ``"d"``.
    row
        Dimensions of a row: one for a table, two for windows of slots.

    >>> rows_of(bytes(6), "b", 3).shape, rows_of(b"", "b", 3).shape
    ((2, 3), (0,))
    """
    view = memoryview(memory)
    values = view.cast(code)
    return view.cast(code, [len(values) // math.prod(row), *row]) if values else values
