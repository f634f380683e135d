"""What runs leave on disk: refused before traffic is made for it, and named where it cannot be."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from wirelens_testbed.failure import ScenarioError, TestbedError

# Less would fit into what is left of a block; a run writes more than this.
_PROBE_BYTES = 65_536
_NO_ROOM = "free some space, or name a folder on another disk with -o"
_NO_PERMISSION = "name a folder that you may write to with -o"
_HINTS = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EROFS: _NO_PERMISSION,
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.ENOTDIR: _NO_PERMISSION,
}


def _refusal(path: Path, error: OSError) -> str:
    hint = _HINTS.get(error.errno or 0, "name another folder with -o")
    return f"{path}: cannot be written: {error.strerror or error}; {hint}"


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Has every refusal of the system name this output: what a full disk raises names nothing.

    Refusals of other files, which have their names, and of pipes are left as they are.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None and not Path(error.filename).is_relative_to(path):
            raise
        raise TestbedError(_refusal(path, error)) from error


def make_folder(path: Path) -> None:
    """Makes a folder in which there is room to write."""
    probe = path / ".room"
    try:
        path.mkdir(parents=True, exist_ok=True)
        try:
            probe.write_bytes(bytes(_PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.rmdir()  # unless something was in it before
        raise ScenarioError(_refusal(path, error)) from error


def write(path: Path, text: str) -> None:
    """Writes a file that is whole or absent; what it was before stays where it cannot be."""
    partial = path.with_name(f"{path.name}.partial")
    with naming(path):
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
