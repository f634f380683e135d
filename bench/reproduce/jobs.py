"""What repeats the rows of docs/reproduction.md: `jobs.toml`, and what a job lacks here."""

import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from paper_rows import NOTHING, ROOT, Row

PYTHON = ROOT / ".venv" / "bin" / "python"
PROGRAMS = {
    "program": (ROOT / "target/release/wirelens", "make --silent build", 5.0, 1.5),
    "bench-program": (
        ROOT / "target/release/wirelens-bench",
        "cargo build --release --locked --package wirelens --package wirelens-bench",
        8.0,
        2.0,
    ),
}
"""What is compiled where it is missing: the file, the command, minutes on two cores, gigabytes.
One that is there is taken as it is."""
PACKAGE = ("make --silent python", 8.0, 1.5)
GIGABYTE = 1e9


@dataclass(frozen=True)
class Data:
    """A folder that a job reads. `NAME=FOLDER` in the environment names another."""

    name: str
    folder: str
    says: str
    make: str = ""
    """The command that makes it; empty where it can only be given."""
    minutes: float = 0.0
    disk_gb: float = 0.0
    root: bool = False

    def path(self) -> Path:
        given = os.environ.get(self.name)
        return Path(given).absolute() if given else ROOT / self.folder

    def is_given(self) -> bool:
        return bool(os.environ.get(self.name))

    def is_there(self) -> bool:
        # A data set that is being made has a name of its own until it is whole.
        return self.path().is_dir() and not partial(self.path()).exists()


@dataclass(frozen=True)
class Job:
    """Commands that run together, and where their rows are."""

    name: str
    rows: tuple[str, ...]
    """Ids of docs/reproduction.md that it serves."""
    run: tuple[str, ...]
    """Lines of bash, in the repository. OUT and the names of `data` are in the environment."""
    minutes: float
    """On two cores, after everything is installed."""
    disk_gb: float = 0.1
    setup: tuple[str, ...] = ("test",)
    """Kinds of tools/setup.sh."""
    needs: tuple[str, ...] = ()
    """Of `program`, `bench-program`, `package` and `root`."""
    data: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """By the file or folder under bench/results: the one in OUT that takes its place."""
    printed: bool = False
    """What it prints has the figures: they are recomputed from the kept rows, nothing is measured
    again."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Of the values by which a page asks for kept rows: those that new rows have instead."""
    figures: dict[str, list[str]] = field(default_factory=dict)
    """By row: figures that are compared with those of the page, where its text has none."""
    says: str = ""
    """What differs from how the kept rows were made."""
    instead: tuple[str, ...] = ()
    """The jobs whose place it takes with FULL=1; it does not run without."""

    @property
    def out(self) -> Path:
        return ROOT / "target" / "reproduce" / self.name


def partial(path: Path) -> Path:
    """Marks a data set that is being made."""
    return path.with_name(f"{path.name}.partial-set")


@cache
def config() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).with_name("jobs.toml")).read_text(encoding="utf-8"))


def tuples(said: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}


@cache
def data() -> dict[str, Data]:
    return {name: Data(name, **said) for name, said in config()["data"].items()}


@cache
def jobs() -> tuple[Job, ...]:
    return tuple(Job(name, **tuples(said)) for name, said in config()["jobs"].items())


def jobs_of(row: Row, *, full: bool) -> list[Job]:
    """The jobs that serve a row; with `full` the long ones instead of those that are shortened."""
    mine = [job for job in jobs() if row.id in job.rows]
    if not full:
        return [job for job in mine if not job.instead]
    replaced = {name for job in mine for name in job.instead}
    return [job for job in mine if job.name not in replaced]


def is_possible(row: Row) -> bool:
    return row.command != NOTHING


@cache
def imports_package() -> bool:
    """Whether the package is installed; forgotten after a command that installs."""
    probe = [str(PYTHON), "-c", "import wirelens"]
    return (
        PYTHON.exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    )


@dataclass(frozen=True)
class Step:
    """What is installed, built or made before a job's lines."""

    line: str
    minutes: float = 0.0
    disk_gb: float = 0.0


@dataclass(frozen=True)
class Plan:
    """How a job runs here."""

    job: Job
    steps: tuple[Step, ...]
    missing: tuple[str, ...]
    """Why it cannot run here, and what to do; empty where it can."""


def total(plans: Iterable[Plan]) -> tuple[float, float]:
    """Minutes and gigabytes of plans together; a step that several have is counted once."""
    plans = list(plans)
    steps = {step for one in plans for step in one.steps}
    minutes = sum(one.job.minutes for one in plans) + sum(step.minutes for step in steps)
    return minutes, sum(one.job.disk_gb for one in plans) + sum(step.disk_gb for step in steps)


def plan(job: Job) -> Plan:
    """How a job runs here."""
    steps = [Step(f"bash tools/setup.sh {kind}") for kind in job.setup]
    missing = list[str]()
    for need in job.needs:
        if need in PROGRAMS and not PROGRAMS[need][0].exists():
            steps.append(Step(*PROGRAMS[need][1:]))
        if need == "package" and not imports_package():
            steps.append(Step(*PACKAGE))
    needs_root = ["the command"] if "root" in job.needs else []
    for one in (data()[name] for name in job.data):
        if one.is_there():
            continue
        if not one.make or one.is_given():
            missing.append(f"no folder {one.path()}: {one.says}; name it with {one.name}=FOLDER")
            continue
        steps.append(Step(one.make, one.minutes, one.disk_gb))
        needs_root += [f"making {one.name}"] * one.root
    if needs_root and os.geteuid() != 0:
        missing.append(f"root is needed for {' and '.join(needs_root)}; run it with sudo -E")
    found = Plan(job, tuple(steps), ())
    disk_gb, free_gb = total([found])[1], shutil.disk_usage(ROOT).free / GIGABYTE
    if free_gb < disk_gb:
        missing.append(f"{disk_gb:.1f} GB of disk are needed, {free_gb:.1f} GB are free")
    return replace(found, missing=tuple(missing))


def environment(job: Job) -> dict[str, str]:
    """What the lines of a job see."""
    folders = {name: str(data()[name].path()) for name in job.data}
    return {**os.environ, "OUT": str(job.out), "PYTHON": str(PYTHON), **folders}


def each_once(found: Iterable[Job]) -> list[Job]:
    """In the order in which they come first."""
    return list({job.name: job for job in found}.values())
