"""Capture sets: the captures of each sensor, as they are when a run is planned."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from wirelens.errors import CaptureNotFoundError, CaptureUnreadableError, OptionError
from wirelens.found import found_captures
from wirelens.questions import Source

Paths: TypeAlias = Source | Mapping[str, Source]

# What a folder of results may be called by every tool that reads such folders.
_SENSOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Capture:
    """A capture, and by what a change of it is seen."""

    path: str
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True)
class CaptureSet:
    """The captures of one sensor: packets of all of them are one stream, merged by time."""

    sensor: str | None
    names: tuple[str, ...]
    """As they were given: a folder and the list of its captures name rows differently."""
    is_list: bool
    captures: tuple[Capture, ...]
    egress: tuple[Capture, ...] = ()
    """Those of a second tap."""
    refused: tuple[str, ...] = ()
    """Why others in folders are left out, a line each."""

    @property
    def source(self) -> Source:
        """What a question takes."""
        return list(self.names) if self.is_list else self.names[0]

    def with_egress(self, names: Sequence[str]) -> "CaptureSet":
        """The same with captures of a second tap."""
        egress, refused = captures_of(names)
        return replace(self, egress=egress, refused=(*self.refused, *refused))

    def check(self) -> None:
        """Refuses captures that are no longer those of the plan.

        Raises
        ------
        CaptureNotFoundError
            If one has vanished.
        CaptureUnreadableError
            If one has changed, or if a folder has others.
        """
        for capture in (*self.captures, *self.egress):
            if _stat(capture.path) != capture:
                raise CaptureUnreadableError(
                    f"{capture.path}: changed while Ray read it; run again when it is complete"
                )
        if found_captures(self.names)[0] != [capture.path for capture in self.captures]:
            raise CaptureUnreadableError(
                f"{', '.join(self.names)}: captures were added while Ray read them; run again"
            )


def sensors(folder: str | os.PathLike[str]) -> dict[str, str]:
    """A folder that has a folder of captures for each sensor, as the functions here take it.

    Raises
    ------
    CaptureNotFoundError
        If there is no such folder, or if it has no folders.
    """
    path = Path(folder)
    if not path.is_dir():
        raise CaptureNotFoundError(f"{path}: no such folder; wanted one that has a folder a sensor")
    found = {entry.name: str(entry) for entry in sorted(path.iterdir()) if entry.is_dir()}
    if not found:
        raise CaptureNotFoundError(f"{path}: it has no folders; wanted one for each sensor")
    return found


def sets_of(paths: Paths) -> list[CaptureSet]:
    """The capture sets that are named.

    Raises
    ------
    OptionError
        If a sensor's name cannot be that of a folder, or nothing is named.
    CaptureNotFoundError
        If a capture does not exist.
    """
    if not isinstance(paths, Mapping):
        return [_set_of(None, paths)]
    if not paths:
        raise OptionError(
            "paths: no sensor; give captures, or a dictionary from sensor to captures"
        )
    for sensor in paths:
        if not _SENSOR.fullmatch(sensor):
            raise OptionError(
                f"paths: sensor `{sensor}`: wanted letters, digits, `.`, `_` and `-`, since "
                "a folder of results is called so"
            )
    return [_set_of(sensor, source) for sensor, source in paths.items()]


def _set_of(sensor: str | None, source: Source) -> CaptureSet:
    is_list = not isinstance(source, (str, os.PathLike))
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    # Workers have folders of their own to start from.
    names = tuple("-" if name == "-" else os.path.abspath(name) for name in given)
    if not names:
        raise OptionError("paths: an empty list; give a capture, or a folder of captures")
    if "-" in names:
        raise OptionError("paths: standard input cannot be read by several processes; give files")
    captures, refused = captures_of(names)
    return CaptureSet(sensor, names, is_list, captures, refused=refused)


def captures_of(names: Sequence[str]) -> tuple[tuple[Capture, ...], tuple[str, ...]]:
    """The captures that these names come to, folders looked through; and why others in them are
    left out.
    """
    found, refused = found_captures(names)
    return tuple(_stat(path) for path in found), tuple(refused)


def _stat(path: str) -> Capture:
    try:
        state = os.stat(path)
    except FileNotFoundError:
        raise CaptureNotFoundError(
            f"{path}: vanished; wanted the same captures, under one path on every machine, until "
            "all rows are there"
        ) from None
    return Capture(path, state.st_size, state.st_mtime_ns)
