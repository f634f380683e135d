"""Several applications in one pass, including your own in Python: `wirelens.run`."""

import contextlib
import functools
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from wirelens import _wirelens, interrupts, rows, toml_text
from wirelens._wirelens import Batch
from wirelens._wirelens import Run as Running
from wirelens.errors import (
    CaptureWarning,
    DamagedCaptureWarning,
    LossError,
    OptionError,
    SettingsError,
    SettingsWarning,
)
from wirelens.questions import Duration, Path, Source, _duration
from wirelens.results import Field, Table
from wirelens.returned import ReturnedRows
from wirelens.row import Row, row_of

if TYPE_CHECKING:
    from wirelens._wirelens import RowBatches, RunOptions

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
# As the command has it.
_FILE_LEN_MAX = 1 << 20


class Application(Protocol):
    """An application in Python: a class with a name that is given flows as they end.

    It may also have ``settings``, a dictionary with keys of the table ``[flows]`` of settings, such
    as ``{"stats": True}``; and ``on_end(self)``, which is called once after the last flow.
    """

    @property
    def name(self) -> str:
        """Its name, and that of its table: small letters, digits, ``-`` and ``_``."""

    def on_flows(self, batch: Batch) -> Any:
        """Takes flows that have ended, with the columns of `wirelens.flows`.

        Returns None, or rows for its table: an Arrow table, or a list of dictionaries, named
        tuples or dataclasses.
        """


class Tables(dict[str, Table[Any]]):
    """Tables by name, those of known columns with the types of their rows."""

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, name: Literal["flows"], /) -> Table[rows.Flow]: ...
        @overload
        def __getitem__(self, name: Literal["classify"], /) -> Table[rows.Verdict]: ...
        @overload
        def __getitem__(self, name: Literal["unanswered"], /) -> Table[rows.UnansweredFlow]: ...
        @overload
        def __getitem__(self, name: str, /) -> Table[Any]: ...
        def __getitem__(self, name: str, /) -> Any: ...


class Run:
    """Results of a run: tables in memory, and packet counts."""

    tables: Tables
    """Rows in memory by application: of tables without ``output``, and of those in Python that
    returned rows. Of several tables of one name the second is ``"flows.2"``, and so on."""
    closings: dict[str, dict[str, Any]]
    """What each application did with packets, by the names that `Table.counts` has; and
    ``dropped_rows``, rows that were lost as writing or taking them was too slow, or memory full."""
    counts: dict[str, Any]
    """Outcome of packets before applications saw them: ``received``, ``filtered``, and so on;
    of an interface also those ``dropped`` by the kernel."""
    summary: str
    """The summary lines that the command prints at the end."""
    is_interrupted: bool
    """Whether it was stopped before the end of its input: by `duration` or Ctrl-C."""

    def __init__(self, running: Running, tables: dict[str, Table[Any]]) -> None:
        self.tables = Tables(tables)
        self.counts = running.counts
        self.closings = _numbered(running.closings)
        self.summary = running.summary
        self.is_interrupted = running.is_interrupted

    def __repr__(self) -> str:
        tables = ", ".join(f"{name}: {len(table)} rows" for name, table in self.tables.items())
        return f"<wirelens.Run of {', '.join(self.closings)}; {tables or 'no tables in memory'}>"


def run(
    settings: Path | Mapping[str, Any],
    *,
    read: Source | None = None,
    interface: str | Sequence[str] | None = None,
    applications: Sequence[Application] = (),
    duration: Duration | None = None,
    pace: float | None = None,
    threads: int | None = None,
    keep_max: int | str = "1G",
    batch_size: int = 8192,
) -> Run:
    """Runs several applications in one pass over the packets, as the command ``wirelens run`` does.

    Tables of `settings` with an ``output`` are written there; rows of all others are kept in memory
    and returned.

    Parameters
    ----------
    settings
        A file in TOML, or a dictionary with the same tables; `docs/guide/run.md` explains them.
    read
        Captures instead of those in the settings: a path, a folder, or a list of them.
    interface
        An interface, or several, to listen on instead. The run ends after `duration`, or with
        Ctrl-C: the results so far are returned.
    applications
        Applications in Python: objects with a ``name`` and a method ``on_flows(batch)``, which is
        called in this thread with flows as they end. Each flow is in one batch, and the order does
        not depend on `threads`. See `Application`.
    duration
        Stop listening after this time.
    pace
        Replay captures at this multiple of the recorded speed.
    threads
        Threads to read captures, one per core by default; rows do not depend on it.
    keep_max
        Maximum bytes of rows kept in memory, such as ``"512M"``. Rows beyond are dropped and
        counted.
    batch_size
        Maximum number of rows of a batch for applications in Python.

    Returns
    -------
    Run
        ``.tables`` with rows, ``.closings`` with the packet counts of each application.

    Raises
    ------
    SettingsError
        If the settings have mistakes: one line each.
    LossError
        If rows or packets of a log were lost. Its ``result`` is the `Run` with the remaining
        results.
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If the input cannot be opened.
    FilterError, FilterUnavailableError, OutputError, OptionError, ApplicationError
        As elsewhere; and what an application in Python raises ends the run.

    Warns
    -----
    DamagedCaptureWarning
        If a capture cannot be read to its end; rows cover the part before.
    SettingsWarning
        If the settings have ``[page]``, ``[history]``, ``[nats]``, ``[[alert]]`` or ``[[notify]]``,
        which only the command acts on.

    Examples
    --------
    >>> import wirelens
    >>> result = wirelens.run({"flows": {}, "top": {"rows": 1}}, read="testdata/demo.pcapng")
    >>> len(result.tables["flows"]), result.tables["top"][0].bytes
    (312, 1169119)
    >>> result.closings["flows"]["processed"]
    4944
    """
    if read is not None and interface is not None:
        raise OptionError("read, interface: captures and an interface cannot be read in one run")
    path, text = _text_of(settings)
    names = [] if read is None else [read] if isinstance(read, str | os.PathLike) else list(read)
    if read is not None and not names:
        raise OptionError("read: an empty list; give a capture, or a folder of captures")
    listened = (
        [] if interface is None else [interface] if isinstance(interface, str) else [*interface]
    )
    options: RunOptions = {
        "path": path,
        "text": text,
        "read": names,
        "interface": listened,
        "duration": None if duration is None else _duration(duration),
        "pace": pace,
        "threads": threads,
        "keep_max": str(keep_max),
        "batch_size": batch_size,
        "applications": [_named(application) for application in applications],
    }
    running = _wirelens.run(options)
    if running.unused:
        tables = ", ".join(running.unused)
        notice = f"{tables}: not used; only the command, wirelens run, acts on such tables"
        warnings.warn(notice, SettingsWarning, stacklevel=2)
    returned = [ReturnedRows(name, running) for name, _ in options["applications"]]
    try:
        with interrupts.stopping(running) if running.is_live else contextlib.nullcontext():
            for at, batch in running:
                returned[at].take(applications[at].on_flows(batch))
        for application, taken in zip(applications, returned, strict=True):
            on_end = getattr(application, "on_end", None)
            taken.take(on_end() if on_end is not None else None)
    finally:
        # Also where an application raises: files have their names before that is reported.
        running.close()
    return _finished(running, returned, options)


def _kind_of(columns: Sequence[str]) -> type[Row]:
    """The kind of rows with these columns; of columns that are declared nowhere, `Row` itself."""
    return _kinds().get(frozenset(columns) - rows.SOMETIMES, Row)


@functools.cache
def _kinds() -> dict[frozenset[str], type[Row]]:
    return {
        frozenset(name for one in kind.__mro__ for name in vars(one).get("__annotations__", ()))
        - rows.SOMETIMES: kind
        for kind in rows.ALL
    }


def _text_of(settings: Path | Mapping[str, Any]) -> tuple[str | None, str]:
    if isinstance(settings, Mapping):
        return None, toml_text.tables(settings)
    path = FilePath(settings)
    try:
        if path.stat().st_size > _FILE_LEN_MAX:
            raise SettingsError(f"{path}: too large; wanted: settings in TOML of at most 1 MiB")
        return os.fspath(path), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        hint = "`wirelens run --init` prints a settings file to start from"
        raise SettingsError(f"{path}: {reason}; {hint}") from error


def _named(application: Application) -> tuple[str, str]:
    """An application's name and its settings."""
    name = getattr(application, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            f"name: {name!r} of {application!r}; wanted: small letters, digits, `-` and `_`, 64 at "
            "most and a letter first"
        )
    if not callable(getattr(application, "on_flows", None)):
        raise OptionError(f"{name}: it has no method on_flows(self, batch)")
    settings = getattr(application, "settings", {})
    if not isinstance(settings, Mapping):
        raise OptionError(f"{name}: settings is not a dictionary; wanted: keys of [flows]")
    return name, toml_text.table(settings, f"[{name}]")


def _numbered(named: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """By name; of several of one name the second is `name.2`."""
    found: dict[str, Any] = {}
    for name, value in named:
        count = sum(known == name or known.startswith(f"{name}.") for known in found)
        found[f"{name}.{count + 1}" if count else name] = value
    return found


def _tables(
    running: Running, returned: Sequence[ReturnedRows], closing_count: int
) -> Iterator[tuple[int, "RowBatches", int]]:
    """Tables in memory: of which closing each is, and for how many rows there was no room."""
    yield from running.tables()
    # Applications in Python are the last of a run.
    for place, taken in enumerate(returned, closing_count - len(returned)):
        collected = taken.collected()
        if collected is not None:
            yield place, collected, taken.dropped


def _finished(running: Running, returned: Sequence[ReturnedRows], options: "RunOptions") -> Run:
    counts = running.counts
    closings = running.closings
    losses = running.losses
    tables = []
    dropped: list[tuple[int, int]] = []
    for place, collected, count in _tables(running, returned, len(closings)):
        name, closing = closings[place]
        fields = [Field(*field) for field in collected.fields]
        columns = [field.name for field in fields]
        made = row_of(_kind_of(columns), columns)
        tables.append((name, Table(collected, fields, made, counts | closing, running.summary)))
        dropped.append((place, count))
    result = Run(running, _numbered(tables))
    names = list(result.closings)
    for place, count in dropped:
        if count:
            name = closings[place][0]
            result.closings[names[place]]["dropped_rows"] += count
            losses.append(
                f"{name}: {count} rows were dropped, as those in memory reached {options['keep_max']} "
                "bytes; give a larger keep_max, or an output for the table"
            )
    for notice in running.notices:
        warnings.warn(notice, CaptureWarning, stacklevel=3)
    for damage in running.damages:
        warnings.warn(damage, DamagedCaptureWarning, stacklevel=3)
    if losses:
        raise LossError("\n".join(losses), result)
    return result
