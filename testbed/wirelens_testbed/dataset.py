"""Data sets: many runs of one scenario, several in parallel, continued where they stopped.

A data set is a TOML file: a scenario, how often to run it, and values that replace the
scenario's. Each run is a process of its own, with a seed that follows from the data set's seed and
the run's name. A run that its checks reject is repeated with the same seed, so that no
random draw is lost to a busy moment of the machine. As rejections mean that the machine was
overloaded, one fewer are parallel then, until so many have been accepted that it may have been
that moment alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirelens_testbed import outputs
from wirelens_testbed.failure import ScenarioError, TestbedError
from wirelens_testbed.lab import LIBRARY_ENVIRONMENT, PROGRAM_ENVIRONMENT
from wirelens_testbed.run import REPORT_NAME, STATUS_REJECTED
from wirelens_testbed.scenario import Table, merged, read_toml

COPY_NAME, TABLE_NAME = "dataset.toml", "runs.tsv"
PARALLEL_MAX = 64
RUNS_MAX = 100_000
POLL_INTERVAL_S = 0.1
AUTOGROUP_NICE = "-15"
MORE_AFTER = 10
"""Runs accepted one after another before one more is parallel, doubled each time that runs are
rejected, the first included."""


@dataclass(frozen=True)
class Variant:
    """Some runs of a data set that share their values."""

    name: str
    scenario: Path
    runs: int
    values: dict[str, Any]


@dataclass(frozen=True)
class DataSet:
    name: str
    seed: int
    parallel: int
    attempts: int
    variants: tuple[Variant, ...]
    text: str


@dataclass
class Job:
    """One run that is to be there in the end."""

    name: str
    variant: Variant
    seed: int
    attempts: int = 0
    # Runs that went on at once with it, itself among them, at most.
    together: int = 0
    program: subprocess.Popen[str] | None = None
    last_words: str = ""


@dataclass
class Tally:
    """How far the making is."""

    total: int
    done: int = 0
    rejected: int = 0
    given_up: list[str] = field(default_factory=list)


def read(path: Path) -> DataSet:
    """Reads a data set's file; paths in it are relative to it."""
    table = Table(read_toml(path))
    scenario = table.take("scenario", str)
    values = table.take_table("set").rest()
    runs = table.take("runs", int, 1, minimum=1, maximum=RUNS_MAX)
    variants: list[Variant] = []
    for each in table.take_tables("variants"):
        own = path.parent / each.take("scenario", str, scenario)
        name = each.take("name", str)
        count = each.take("runs", int, runs, minimum=1, maximum=RUNS_MAX)
        variants.append(Variant(name, own, count, merged(values, each.take_table("set").rest())))
        each.finish()
    data_set = DataSet(
        name=table.take("name", str, path.stem),
        seed=table.take("seed", int, 1),
        parallel=table.take("parallel", int, 1, minimum=1, maximum=PARALLEL_MAX),
        attempts=table.take("attempts", int, 3, minimum=1, maximum=100),
        variants=tuple(variants) or (Variant("", path.parent / scenario, runs, values),),
        text=path.read_text(encoding="utf-8-sig"),
    )
    table.finish()
    return data_set


def make(
    data_set: DataSet,
    output: Path,
    wirelens: Path,
    *,
    runs: int | None,
    variants: Sequence[str] = (),
    parallel: int | None,
    quiet: bool,
) -> list[str]:
    """Makes the missing runs of a data set; returns the names of runs that failed for good.

    `runs` stops each variant after so many, `variants` are those to make, all if none is named;
    `parallel` bounds the number of parallel runs.
    """
    _check_variants(data_set, variants)
    folder = output / data_set.name
    _claim(folder, data_set)
    jobs = [
        job for job in _jobs(data_set, runs) if not variants or job.variant.name in variants
    ]
    missing = deque(job for job in jobs if not (folder / job.name / REPORT_NAME).exists())
    tally = Tally(total=len(jobs), done=len(jobs) - len(missing))
    maker = _Maker(data_set, folder, wirelens, parallel or data_set.parallel, tally, quiet)
    try:
        maker.make(missing)
    finally:
        maker.stop()
        _write_table(folder, _jobs(data_set, None))
    return tally.given_up


class _Maker:
    """Keeps some runs going until none is missing."""

    def __init__(
        self,
        data_set: DataSet,
        folder: Path,
        wirelens: Path,
        parallel: int,
        tally: Tally,
        quiet: bool,
    ) -> None:
        self._quiet = quiet
        self._data_set = data_set
        self._folder = folder
        self._wirelens = wirelens
        self._parallel = self._parallel_max = parallel
        self._more_after, self._accepted = MORE_AFTER, 0
        self._tally = tally
        self._running: list[Job] = []
        self._started_s = time.monotonic()
        self._done_before = tally.done

    def make(self, missing: deque[Job]) -> None:
        self._tell()
        while missing or self._running:
            while missing and len(self._running) < self._parallel:
                self._start(missing.popleft())
                self._tell()
            time.sleep(POLL_INTERVAL_S)
            for job in [
                job for job in self._running if job.program and job.program.poll() is not None
            ]:
                self._running.remove(job)
                self._end(job, missing)
                self._tell()

    def stop(self) -> None:
        """Ends what still runs; each cleans up after itself when its input ends."""
        for job in self._running:
            if job.program:
                job.program.communicate()

    def _start(self, job: Job) -> None:
        values = merged(read_toml(job.variant.scenario), job.variant.values)
        request = {
            "command": "run", "values": values, "name": job.name, "seed": job.seed,
            "output": str(self._folder), "wirelens": str(self._wirelens),
            "quiet": True, "ends_with_input": True,
        }  # fmt: skip
        job.attempts += 1
        job.together = 0
        job.program = subprocess.Popen(
            [sys.executable, "-B", "-m", "wirelens_testbed", json.dumps(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=PROGRAM_ENVIRONMENT | LIBRARY_ENVIRONMENT,
            start_new_session=True,
        )
        _prefer(job.program.pid)
        self._running.append(job)
        for each in self._running:
            each.together = max(each.together, len(self._running))

    def _end(self, job: Job, missing: deque[Job]) -> None:
        assert job.program is not None and job.program.stderr is not None
        job.last_words = job.program.stderr.read().strip()
        if job.program.returncode == 0:
            self._tally.done += 1
            self._on_accepted()
            shutil.rmtree(self._folder / f"{job.name}.rejected", ignore_errors=True)
            return
        if not self._tally.done and job.program.returncode != STATUS_REJECTED:
            # Not one has worked: whatever is wrong will be wrong with the others as well.
            raise TestbedError(job.last_words.removeprefix("wirelens: testbed: "))
        self._tally.rejected += 1
        print(f"\n{job.name}, attempt {job.attempts}: {job.last_words}", file=sys.stderr)
        self._on_rejected(job)
        if job.attempts < self._data_set.attempts:
            missing.append(job)
        else:
            self._tally.given_up.append(job.name)

    def _on_accepted(self) -> None:
        self._accepted += 1
        if self._accepted >= self._more_after and self._parallel < self._parallel_max:
            self._parallel += 1
            self._accepted = 0

    def _on_rejected(self, job: Job) -> None:
        fewer = max(1, min(self._parallel, job.together - 1))
        # By one for all that were rejected together.
        if fewer < self._parallel:
            self._parallel = fewer
            self._more_after *= 2
        self._accepted = 0

    def _tell(self) -> None:
        if self._quiet:
            return
        tally, made = self._tally, self._tally.done - self._done_before
        left = ""
        if made:
            each_s = (time.monotonic() - self._started_s) / made
            left = f", {each_s * (tally.total - tally.done) / 60:.0f} min left"
        text = (
            f"{self._data_set.name}: {tally.done} of {tally.total} runs, "
            f"{len(self._running)} running, {tally.rejected} rejected{left}"
        )
        is_terminal = sys.stderr.isatty()
        print(f"\r{text:<78}" if is_terminal else text, end="" if is_terminal else "\n",
              file=sys.stderr, flush=True)  # fmt: skip


def _check_variants(data_set: DataSet, wanted: Sequence[str]) -> None:
    names = [variant.name for variant in data_set.variants if variant.name]
    for name in wanted:
        if name not in names:
            some = f"some of {', '.join(names)}" if names else "none, as it has no variants"
            raise ScenarioError(f"{data_set.name}: --variant {name!r}; wanted: {some}")


def _prefer(pid: int) -> None:
    """Has a run go before other work of the machine, where the kernel groups processes by session
    (`autogroup` in sched(7)): the priority of a process counts only inside of its group."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(AUTOGROUP_NICE, encoding="ascii")


def _claim(folder: Path, data_set: DataSet) -> None:
    """A folder holds the runs of one data set; another's would be mistaken for its own."""
    outputs.make_folder(folder)
    copy = folder / COPY_NAME
    if not copy.exists():
        outputs.write(copy, data_set.text)
    elif copy.read_text(encoding="utf-8") != data_set.text:
        raise ScenarioError(
            f"{folder}: made from another text of this data set (see its {COPY_NAME}); give -o "
            "another folder, or remove this one"
        )


def _jobs(data_set: DataSet, runs: int | None) -> list[Job]:
    jobs = []
    for variant in data_set.variants:
        for index in range(min(variant.runs, runs or variant.runs)):
            name = f"{variant.name}-{index:04d}".lstrip("-")
            digest = hashlib.sha256(f"{data_set.seed}/{name}".encode()).digest()
            jobs.append(Job(name, variant, int.from_bytes(digest[:4], "big")))
    return jobs


def _write_table(folder: Path, jobs: list[Job]) -> None:
    """One row a run that is there: what it is, and how it went."""
    rows: list[tuple[object, ...]] = [
        ("run", "variant", "seed", "wall_s", "cpu_s", "flows", "packets")
    ]
    for job in jobs:
        path = folder / job.name / REPORT_NAME
        if path.exists():
            report = json.loads(path.read_text())
            flows = sum(report.get("flows", {}).values())
            packets = max(
                (tap["packets"] for tap in report.get("taps", [])),
                default=report.get("packets", 0),
            )
            rows.append((
                job.name, job.variant.name, job.seed, report["wall_s"], report["cpu_s"], flows,
                packets,
            ))  # fmt: skip
    table = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    outputs.write(folder / TABLE_NAME, table)
