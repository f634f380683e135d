"""Rows as tuples with names, of classes that say what the columns are."""

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

Kind = TypeVar("Kind", bound="Row")


class Row(tuple[Any, ...]):
    """A row: a tuple whose columns are attributes as well."""

    __slots__ = ()

    if TYPE_CHECKING:
        _fields: tuple[str, ...]

        def _asdict(self) -> dict[str, Any]: ...

    def __reduce__(self) -> tuple[Any, ...]:
        # Its own class is made when it is needed, so that no module has it under a name.
        kinds = (one for one in type(self).__mro__ if one.__module__ == "wirelens.rows")
        kind = next(kinds, Row)
        return _again, (kind, self._fields, tuple(self))


def row_of(kind: type[Kind], columns: Sequence[str]) -> Callable[..., Kind]:
    """Makes rows of a kind with these columns, of which there may be more or fewer than usual."""
    return _row_type(kind, tuple(columns))


@functools.cache
def _row_type(kind: type[Kind], columns: tuple[str, ...]) -> type[Kind]:
    # A column whose name is none of Python, such as `class`, is an attribute by its place: `_0`.
    named = namedtuple(kind.__name__, columns, rename=True)  # type: ignore[misc]
    made = type(kind.__name__, (named, kind), {"__slots__": (), "__doc__": kind.__doc__})
    return cast(type[Kind], made)


def _again(kind: type[Row], columns: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return row_of(kind, columns)(*values)
