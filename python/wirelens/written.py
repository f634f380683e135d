"""Outputs of training and evaluation: whole or absent, and refused before hours of work.

Errors read as those of the command do, and always name the output: what Python raises where a disk
is full names nothing.
"""

import contextlib
import errno
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from wirelens.errors import OutputError, OutputExistsError, WirelensError

# Less than a block would fit where a file has no more room than its own last block.
_PROBE_BYTES = 65_536
_DESCRIPTOR = re.compile(r"/dev/(?:fd/(\d+)|(stdout)|(stderr))|/proc/self/fd/(\d+)")
_HINTS = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.EROFS: "choose a folder that you may write to",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.ENOTDIR: "choose a folder that you may write to",
    errno.EISDIR: "name a file inside it",
    errno.ENOENT: "write to a folder that stays",
}


def refused(path: Path, error: OSError) -> OutputError:
    """What is said of an output that the system refuses."""
    hint = _HINTS.get(error.errno or 0, "write to another disk")
    return OutputError(f"cannot write `{path}`: {error.strerror or error}; {hint}")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Has every refusal of the system name this output.

    Raises
    ------
    OutputError
        Instead of an `OSError`.
    """
    try:
        yield
    except WirelensError:
        raise
    except OSError as error:
        raise refused(path, error) from error


def check(*outputs: Path | None) -> None:
    """Refuses outputs for which there is no room or no permission, before work is done for them.

    Some bytes are written to the nearest folder that exists, and removed; nothing is created.

    Raises
    ------
    OutputError
        Naming the first that cannot be written.
    """
    for path in outputs:
        if path is None or descriptor(path) is not None:
            continue  # it is open
        if path.exists() and not path.is_file() and not path.is_dir():
            continue  # a pipe or device has no folder to try
        with naming(path):
            with tempfile.TemporaryFile(dir=_nearest(path)) as probe:
                probe.write(bytes(_PROBE_BYTES))


def check_free(model: Path, force: bool) -> None:
    """Refuses to write over the file of a model, unless that is asked for.

    Raises
    ------
    OutputExistsError
        Naming it.
    OutputError
        If its folder is none.
    """
    _refuse_file(model.parent)
    if model.exists() and not force:
        raise OutputExistsError(f"{model}: exists; give another folder, or --force")


def _refuse_file(folder: Path) -> None:
    if os.path.lexists(folder) and not folder.is_dir():
        raise refused(folder, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))


def private(path: Path) -> BinaryIO:
    """Makes a file that only its owner can read, as the command does: for packets and addresses.

    Raises
    ------
    OSError
        If there is something of that name, a link included.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def descriptor(path: Path) -> int | None:
    """The descriptor that a path refers to, such as 1 of `/dev/stdout`.

    Such a path is a link. Where its descriptor is a regular file, giving that name to another file
    would replace the link, for all programs of the machine.
    """
    found = _DESCRIPTOR.fullmatch(os.path.normpath(path.absolute()))
    if found is None:
        return None
    number, output, error, own = found.groups()
    return 1 if output else 2 if error else int(number or own)


def rows(path: Path, content: bytes) -> None:
    """Writes a file of rows: private, unless it is there and says otherwise.

    Raises
    ------
    OutputError
        If it cannot be written, or is a symbolic link; what stood there before stays.
    """
    if path.is_symlink() and descriptor(path) is None:
        raise OutputError(
            f"`{path}` is a symbolic link to `{path.readlink()}`, and no output goes through a "
            "link; name that file itself, or remove the link"
        )

    def fresh(partial: Path) -> BinaryIO:
        partial.unlink(missing_ok=True)
        file = private(partial)
        if path.exists() and (before := path.stat()).st_uid == os.geteuid():
            os.fchmod(file.fileno(), before.st_mode & 0o666)
        return file

    _whole(path, content, fresh)


def _nearest(path: Path) -> Path:
    """The folder that exists in which the path is, or would be once it is made."""
    at = path if path.is_dir() else path.absolute().parent
    while not at.exists() and at != at.parent:
        at = at.parent
    return at


def data(path: Path, content: bytes) -> None:
    """Writes a file, and the folders above it; a pipe or device gets it as it comes.

    Raises
    ------
    OutputError
        If it cannot be written; what stood there before stays.
    """
    _whole(path, content, lambda partial: partial.open("wb"))


def _whole(path: Path, content: bytes, begin: Callable[[Path], BinaryIO]) -> None:
    """Writes a file under a partial name that `begin` opens, and names it when it is complete."""
    with naming(path):
        if (number := descriptor(path)) is not None:
            # Opened again, a file would be written from its beginning.
            with os.fdopen(os.dup(number), "wb") as file:
                file.write(content)
            return
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        try:
            with begin(partial) as file:
                file.write(content)
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise


def files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Writes files that belong together into a folder, where others may be: all of them or none.

    Raises
    ------
    OutputError
        If they cannot be written; what was in the folder before stays.
    """
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        partials = {name: folder / f"{name}.partial" for name in contents}
        try:
            for name, partial in partials.items():
                partial.write_bytes(contents[name])
            for name, partial in partials.items():
                partial.replace(folder / name)
        except BaseException:
            for partial in partials.values():
                with contextlib.suppress(OSError):
                    partial.unlink()
            raise


def text(path: Path, content: str) -> None:
    """The same of text, in UTF-8."""
    data(path, content.encode())


@contextlib.contextmanager
def folder(path: Path, mode: int = 0o777) -> Iterator[Path]:
    """A folder to fill, which gets its name when the block ends well; otherwise nothing remains.

    One of that name is replaced: whether it may be is for the caller to know. `mode` is that of the
    folder, less the umask.

    Raises
    ------
    OutputError
        If it cannot be filled or named; what stood there before stays.
    """
    _refuse_file(path)
    partial = path.with_name(f"{path.name}.partial")
    with naming(path):
        if partial.exists():
            shutil.rmtree(partial)
        try:
            partial.mkdir(mode, parents=True)
            yield partial
            _name(partial, path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _name(partial: Path, path: Path) -> None:
    if not path.exists():
        partial.rename(path)
        return
    # Never without a folder under the name for longer than two renames. What is called `.old` may
    # be of somebody else, or of a run that was killed between them.
    names = (f"{path.name}.old{at or ''}" for at in itertools.count())
    old = next(one for one in map(path.with_name, names) if not os.path.lexists(one))
    path.rename(old)
    try:
        os.rename(partial, path)
    except OSError:
        old.rename(path)
        raise
    if old.is_symlink():
        # No output goes through a link: the folder that it named stays as it is.
        old.unlink()
    else:
        shutil.rmtree(old)
