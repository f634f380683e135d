"""Rows of a run over several processes: a folder of Parquet files, one for each task."""

import atexit
import contextlib
import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from wirelens import compat
from wirelens.errors import OptionError, OutputExistsError
from wirelens.ray.tasks import UNFINISHED, Report
from wirelens.written import data, naming

_PLAN = "_wirelens.json"
_WANTED_BY = "wirelens.ray"


class Rows:
    """Rows, as a folder of Parquet files.

    With several sensors there is a folder for each, ``sensor=NAME``, and the column ``sensor``.
    Rows of one file are in the order of `wirelens`; the order of files has no meaning.
    """

    def __init__(self, folder: Path, reports: list[Report], refused: Sequence[str] = ()) -> None:
        self.folder = folder
        """Where they are."""
        self.tasks = reports
        """One report for each file: rows, seconds, memory and process."""
        self._refused = refused

    @property
    def files(self) -> list[Path]:
        """The Parquet files."""
        return [Path(report.part) for report in self.tasks]

    @property
    def damages(self) -> list[str]:
        """Why captures could not be read, or not to their ends."""
        damages = [damage for report in self.tasks for damage in report.damages]
        return list(dict.fromkeys([*self._refused, *damages]))

    def __len__(self) -> int:
        return sum(report.rows for report in self.tasks)

    def to_dataset(self) -> Any:
        """A Ray Dataset that reads these files, in blocks and when it is used."""
        ray_data = compat.need("ray.data", _WANTED_BY)
        paths = [str(path) for path in self.files]
        partitioning = ray_data.datasource.Partitioning("hive", base_dir=str(self.folder))
        return ray_data.read_parquet(paths, partitioning=partitioning)

    def to_arrow(self) -> Any:
        """One `pyarrow.Table`."""
        arrow = compat.need("pyarrow", _WANTED_BY)
        dataset = compat.need("pyarrow.dataset", _WANTED_BY)
        files = [str(path) for path in self.files]
        schema, partitioning = _schema_of(files), None
        if any(report.sensor is not None for report in self.tasks):
            # Names are text, also those that look like numbers.
            sensor = arrow.schema([("sensor", arrow.string())])
            partitioning = dataset.partitioning(sensor, flavor="hive")
            schema = arrow.unify_schemas([schema, sensor])
        read = dataset.dataset(
            files,
            schema=schema,
            format="parquet",
            partitioning=partitioning,
            partition_base_dir=str(self.folder),
        )
        return read.to_table()

    def to_pandas(self) -> Any:
        """One `pandas.DataFrame`."""
        compat.need("pandas", _WANTED_BY)
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """One `polars.DataFrame`."""
        return compat.need("polars", _WANTED_BY).from_arrow(self.to_arrow())

    def __repr__(self) -> str:
        return (
            f"<wirelens.ray.Rows {self.folder}: {len(self)} rows in {len(self.tasks)} files; "
            "try .to_dataset(), .to_polars() or .tasks>"
        )


def _schema_of(files: Sequence[str]) -> Any:
    """The columns of all files: those of a folder name captures, and those of one capture do not."""
    arrow = compat.need("pyarrow", _WANTED_BY)
    parquet = compat.need("pyarrow.parquet", _WANTED_BY)
    schemas = [parquet.read_schema(file) for file in files]
    whole = arrow.unify_schemas(schemas)
    for at, field in enumerate(whole):
        if not all(field.name in schema.names for schema in schemas):
            whole = whole.set(at, field.with_nullable(True))
    return whole


class Folder:
    """The folder in which a run puts its rows."""

    _claim: BinaryIO | None = None
    """Its plan, locked as long as the run fills it."""

    def __init__(self, output: Path | None, resume: bool, overwrite: bool) -> None:
        self._replaces = False
        if output is None:
            if resume:
                raise OptionError("resume: there is nothing to resume without output; give both")
            self.path = Path(tempfile.mkdtemp(prefix="wirelens-ray-"))
            # Rows are read from it as long as the program runs.
            atexit.register(shutil.rmtree, self.path, ignore_errors=True)
            self._kept: dict[str, Any] | None = None
            self._is_own = True
            return
        self.path, self._is_own = output.absolute(), False
        plan = self.path / _PLAN
        self._kept = json.loads(plan.read_text()) if plan.exists() else None
        if not self.path.exists() or not any(self.path.iterdir()):
            return
        if resume and self._kept is not None:
            return
        if not overwrite or self._kept is None:
            hint = "give another name, or overwrite=True" if self._kept else "give another name"
            if self._kept is not None:
                hint += ", or resume=True where a run of the same question was cut off"
            raise OutputExistsError(f"{output}: exists; {hint}")
        self._kept, self._replaces = None, True

    @contextlib.contextmanager
    def cleaned(self) -> Iterator[None]:
        """Removes what attempts leave that were lost. A temporary folder is of no use to anyone
        after an error; another may be resumed."""
        try:
            yield
        except BaseException:
            if self._is_own:
                shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            if self._claim is not None:
                self._remove_unfinished()
                self._claim.close()

    def _take(self) -> None:
        """Two runs that fill it would remove each other's files."""
        # To be written, as NFS asks of a file that is locked.
        plan = (self.path / _PLAN).open("r+b")
        try:
            fcntl.flock(plan, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            plan.close()
            raise OutputExistsError(
                f"{self.path}: another run fills it; wait for its end, or give another name"
            ) from None
        except OSError:
            # Of a file system without locks: runs are the caller's to keep apart.
            pass
        self._claim = plan

    def _remove_unfinished(self) -> None:
        for left in self.path.rglob(f"{UNFINISHED}*"):
            left.unlink(missing_ok=True)

    def hidden(self) -> "Folder":
        """A folder in it for rows that are not yet those of the run."""
        folder = Folder.__new__(Folder)
        folder.path, folder._kept, folder._is_own = self.path / "_captures", None, False
        folder._replaces = False
        return folder

    def kept(self, name: str) -> Any:
        """What the run that is resumed had chosen; nothing where none is."""
        return None if self._kept is None else self._kept["chosen"].get(name)

    def begin(self, asked: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
        """Notes what its rows are of.

        Raises
        ------
        OutputExistsError
            If a run is to be resumed that asked something else, or of other captures, or another
            run fills the folder.
        """
        plan = json.loads(json.dumps({"asked": asked, "chosen": chosen}, default=str))
        if self._kept is not None:
            if self._kept != plan:
                now, then = plan["asked"], self._kept["asked"]
                keys = [key for key in {**now, **then} if now.get(key) != then.get(key)]
                what = ", ".join(keys) or "shares or seed"
                raise OutputExistsError(
                    f"{self.path}: cannot be resumed, as this differs from its run: {what}; give "
                    "another name, or overwrite=True"
                )
            self._take()
            # Of a program that was killed.
            self._remove_unfinished()
            return
        if self._replaces:
            self._take()
            # Not before: until here the run could be refused, and the rows be wanted still.
            with naming(self.path):
                shutil.rmtree(self.path)
        data(self.path / _PLAN, json.dumps(plan, indent=1).encode())
        self._take()

    def part(self, sensor: str | None, index: int, count: int) -> Path:
        """The file for the rows of a task of a set."""
        folder = self.path if sensor is None else self.path / f"sensor={sensor}"
        return folder / f"part-{index:05}-of-{count:05}.parquet"
