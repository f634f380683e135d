"""What seals the files of a model: ``SHA256SUMS`` beside them, as `sha256sum` writes it."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from wirelens.errors import ModelError

SUMS_FILE = "SHA256SUMS"
_CASCADE_FILE = "cascade.json"
_ID_DIGITS = 12


def sums(files: Sequence[Path]) -> str:
    """Hashes as `sha256sum` writes and checks them."""
    return "".join(line(path.name, path.read_bytes()) for path in files)


def line(name: str, content: bytes) -> str:
    """The line of one file."""
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"


def identity(name: str, files: Iterable[tuple[str, bytes]]) -> str:
    """A model's name and the start of a hash of its files, as the runtime has it: `name@1f00…`.

    `files` are those that answers depend on, of a cascade `cascade.json` and `files_of` it.
    """
    lines = "".join(
        f"{hashlib.sha256(content).hexdigest()} {len(content)} {file}\n" for file, content in files
    )
    return f"{name}@{hashlib.sha256(lines.encode()).hexdigest()[:_ID_DIGITS]}"


def identity_of(head: bytes, cascade: dict[str, Any], content: Callable[[str], bytes]) -> str:
    """The id of a cascade: by `cascade.json`, of which `cascade` is the content, and every file
    that it names, as `content` reads it.
    """
    others = [(name, content(name)) for name in files_of(cascade)]
    return identity(cascade["name"], [(_CASCADE_FILE, head), *others])


def files_of(cascade: dict[str, Any]) -> list[str]:
    """The files that `cascade.json` names, in the order of docs/specs/cascade.md."""
    listed = cascade.get("names")
    names = [] if listed is None else [listed]
    return names + [stage["file"] for stage in cascade["stages"]]


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
