"""Folders of runs of the testbed, by their names."""

from pathlib import Path


def is_complete(folder: Path) -> bool:
    """Whether a run is neither still being made nor failed one of its checks."""
    return folder.suffix not in (".partial", ".rejected")
