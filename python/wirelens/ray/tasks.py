"""What one task does: it reads captures of one set, in a process of its own, and writes one file.

A task may run twice: a machine that the others take for lost may go on with it. So each attempt
writes a file of its own, which gets the name of the task's when it is complete; whichever comes
last, the rows are the same.
"""

import hashlib
import hmac
import json
import os
import resource
import subprocess
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from wirelens import _wirelens, compat, questions
from wirelens.__main__ import PROGRAM
from wirelens.errors import (
    ApplicationError,
    CaptureWarning,
    ModelError,
    OptionError,
    WirelensError,
)
from wirelens.questions import Source
from wirelens.ray.sets import CaptureSet
from wirelens.results import Stream
from wirelens.sealed import identity, identity_of
from wirelens.shipped import is_name
from wirelens.written import data

# Exit status of the command: rows are complete, but a capture ends early.
_DAMAGED = 3
_MODEL_FILE = "cascade.json"

UNFINISHED = "_unfinished-"
"""What the names of files begin with that attempts have not finished."""


@dataclass(frozen=True)
class Task:
    """Captures, what is asked of them, and the file for its rows."""

    question: str
    arguments: Mapping[str, Any]
    captures: CaptureSet
    source: Source
    """All captures of the set, or one of them."""
    share: tuple[int, int] | None
    threads: int
    part: str
    version: str
    model_id: str | None = None
    """Of a model in a folder; one that ships is that of the version."""
    key_id: str | None = None
    """Of the key in the file of `hash_names`."""


@dataclass(frozen=True)
class Report:
    """The outcome of a task."""

    part: str
    sensor: str | None
    share: tuple[int, int] | None
    rows: int
    counts: dict[str, Any]
    damages: list[str]
    seconds: float
    peak_bytes: int
    """Largest memory of the process that ran it, by then."""
    process: int

    @property
    def path(self) -> Path:
        """Where it is kept, next to its rows: a run that is resumed reads it."""
        return report_path(Path(self.part))

    def save(self) -> None:
        """Keeps it. What it is about is complete."""
        own = _own(self.path)
        data(own, json.dumps(asdict(self)).encode())
        own.replace(self.path)

    @classmethod
    def load(cls, part: Path) -> "Report | None":
        """That of a part that is complete, wherever the folder is now."""
        path = report_path(part)
        if not (part.exists() and path.exists()):
            return None
        kept = cls(**json.loads(path.read_text()))
        share = None if kept.share is None else (kept.share[0], kept.share[1])
        return replace(kept, part=str(part), share=share)


def report_path(part: Path) -> Path:
    """Readers of folders of Parquet pass over names that begin so."""
    return part.with_name(f"_{part.stem}.json")


def _own(path: Path) -> Path:
    """What the file is called while this attempt fills it."""
    return path.with_name(f"{UNFINISHED}{uuid4().hex}-{path.name}")


def run(task: Task) -> Report:
    """Runs a task, in a worker.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError
        If captures vanish or change before all rows are written: then there are none.
    ModelError
        If the model is another one than when the run was planned.
    OptionError
        If the key of `hash_names` is another one.
    """
    if task.version != _wirelens.__version__:
        raise OptionError(
            f"wirelens {_wirelens.__version__} on this worker, {task.version} in the program that "
            "asks; install the same version on every machine"
        )
    begun = time.monotonic()
    task.captures.check()
    _check_plan(task)
    part = Path(task.part)
    part.parent.mkdir(parents=True, exist_ok=True)
    own = _own(part)
    attempt = replace(task, part=str(own))
    try:
        counts, damages = _nprint(attempt) if task.question == "nprint" else _ask(attempt)
    except WirelensError:
        # That captures are gone explains more than what it led to.
        task.captures.check()
        raise
    try:
        task.captures.check()
        _check_plan(task)
    except (OSError, WirelensError):
        own.unlink(missing_ok=True)
        raise
    own.replace(part)
    report = Report(
        part=task.part,
        sensor=task.captures.sensor,
        share=task.share,
        rows=compat.need("pyarrow.parquet", "wirelens.ray").read_metadata(part).num_rows,
        counts=counts,
        damages=damages,
        seconds=time.monotonic() - begun,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        process=os.getpid(),
    )
    report.save()
    return report


def model_id(model: str | os.PathLike[str] | None) -> str | None:
    """The id of a model in a folder, by every file that its answers depend on; none where it ships.

    A head that is no cascade's has an id of its own: what is wrong with it, whatever classifies
    with it says.

    Raises
    ------
    ModelError
        If a file cannot be read.
    """
    if model is None or is_name(model):
        return None
    folder = Path(model)
    head = _content(folder, _MODEL_FILE)
    try:
        return identity_of(head, json.loads(head), lambda file: _content(folder, file))
    except ModelError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        return identity(folder.name, [(_MODEL_FILE, head)])


def key_id(path: str | os.PathLike[str] | None) -> str | None:
    """What a key of pseudonyms is known by, from which it cannot be found; none without a key.

    Raises
    ------
    OptionError
        If the file cannot be read.
    """
    if path is None:
        return None
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise OptionError(
            f"hash_names: {path}: {error.strerror}; wanted: the key under this path on every "
            "machine until all rows are there"
        ) from error
    return hmac.new(key, b"wirelens.ray", hashlib.sha256).hexdigest()[:12]


def _content(folder: Path, file: str) -> bytes:
    place = folder / file
    try:
        return place.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{place}: {error.strerror}; wanted: the model's folder under this path on every "
            "machine until all rows are there"
        ) from error


def _check_plan(task: Task) -> None:
    """Refuses a model or a key that is no longer that of the plan: rows of two models would be
    mixed, and a name would have two pseudonyms."""
    model, key = task.arguments.get("model"), task.arguments.get("hash_names")
    wanted = (
        "than when the run began; wanted: the same for all tasks, on every machine; run again with "
        "another output, or with overwrite=True"
    )
    if task.model_id is not None and model_id(model) != task.model_id:
        raise ModelError(f"{model}: another model {wanted}")
    if task.key_id is not None and key_id(key) != task.key_id:
        raise OptionError(f"hash_names: {key}: another key {wanted}")


def _ask(task: Task) -> tuple[dict[str, Any], list[str]]:
    arguments = dict(task.arguments)
    if task.question in ("flows", "top"):
        arguments["threads"] = task.threads
    if task.share is not None:
        arguments["share"] = task.share
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = getattr(questions, task.question)(task.source, **arguments)
        result.to_parquet(task.part)
    if isinstance(result, Stream):
        return dict(result.counts or {}), result.damages
    found = [str(one.message) for one in caught if issubclass(one.category, CaptureWarning)]
    return result.counts, found


def _nprint(task: Task) -> tuple[dict[str, Any], list[str]]:
    source = task.source
    names = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    command: list[str] = [str(PROGRAM), "nprint", "--quiet", "--output", task.part]
    for name in names:
        command += ["-r", os.fspath(name)]
    done = subprocess.run(
        [*command, *task.arguments["options"]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
    )
    lines = [line.removeprefix("wirelens: ") for line in done.stderr.strip().splitlines()]
    if done.returncode not in (0, _DAMAGED):
        raise ApplicationError("\n".join(lines) or f"nprint: status {done.returncode}")
    return {}, lines if done.returncode == _DAMAGED else []
