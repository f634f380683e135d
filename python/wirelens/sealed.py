"""What seals the files of a model: ``SHA256SUMS`` beside them, as `sha256sum` writes it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from wirelens.errors import ModelError

SUMS_FILE = "SHA256SUMS"


def sums(files: Sequence[Path]) -> str:
    """Hashes as `sha256sum` writes and checks them."""
    return "".join(line(path.name, path.read_bytes()) for path in files)


def line(name: str, content: bytes) -> str:
    """The line of one file."""
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"


def read_sums(folder: Path, made_by: str) -> dict[str, str]:
    """Of each file of a model its hash.

    Raises
    ------
    ModelError
        If there is none.
    """
    try:
        lines = (folder / SUMS_FILE).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        missing = folder / SUMS_FILE if folder.is_dir() else folder
        raise ModelError(
            f"{missing}: {error.strerror}; wanted: a folder that `{made_by}` wrote"
        ) from error
    return {line[66:]: line[:64] for line in lines if len(line) > 66}


def checked(folder: Path, name: str, sums: dict[str, str]) -> bytes:
    """A file's bytes, which are those of the sums.

    Raises
    ------
    ModelError
        If it cannot be read, or was changed.
    """
    try:
        found = (folder / name).read_bytes()
    except OSError as error:
        raise ModelError(f"{folder / name}: {error.strerror}; wanted: the whole folder") from error
    if hashlib.sha256(found).hexdigest() != sums.get(name):
        raise ModelError(
            f"{folder / name}: differs from {SUMS_FILE}; wanted: the unchanged file; copy the "
            "folder again, or train again"
        )
    return found
