"""Tasks on Ray: begun as there is room, repeated where a worker is lost, checked at their ends."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from wirelens import compat
from wirelens.errors import (
    InternalError,
    OptionError,
    OutputError,
    WirelensError,
    WorkerLostError,
)
from wirelens.ray import tasks
from wirelens.ray.tasks import Report, Task

Progress: TypeAlias = Callable[[int, int, Report], object]

# Tasks that wait in Ray's own queue for each that runs: enough that no processor is idle between.
_WAITING_PER_SLOT = 2

# A task that is cancelled ends with its process, which takes milliseconds.
_ENDED_WITHIN_S = 10.0

# A file that another machine wrote may be seen that much later: NFS keeps what a folder holds.
SEEN_WITHIN_S = 60.0

# The outcome of packets before flows are found: all shares of a set see the same ones.
_OF_PACKETS = (
    "received", "filtered", "duplicates", "processed", "malformed", "undecoded", "without_key",
    "cut", "counted", "late", "clock_steps", "clamped_stamps",
)  # fmt: skip


@dataclass(frozen=True)
class Cluster:
    """Where tasks run, and how."""

    ray: Any
    has_machines: bool
    """Whether there are several."""
    cpus: int
    node_cpus: int
    retries: int
    memory_bytes: int | None
    progress: Progress | None

    @classmethod
    def connect(
        cls,
        address: str | None,
        cpus: int | None,
        retries: int,
        memory_bytes: int | None,
        progress: Progress | None,
    ) -> "Cluster":
        """Takes the cluster that this program has joined, or joins one, or starts one here."""
        ray = compat.need("ray", "wirelens.ray")
        if cpus is not None and cpus < 1:
            raise OptionError(f"cpus: `{cpus}`: wanted at least 1")
        if not ray.is_initialized():
            _join(ray, address, cpus)
        nodes = [node for node in ray.nodes() if node["Alive"]]
        counts = [int(node["Resources"].get("CPU", 0)) for node in nodes]
        counts = [count for count in counts if count > 0]
        if not counts:
            raise OptionError("address: no machine of the cluster has a processor for tasks")
        total = sum(counts) if cpus is None else min(cpus, sum(counts))
        has_machines = len({node["NodeManagerAddress"] for node in nodes}) > 1
        node_cpus = min(*counts, total)
        return cls(ray, has_machines, total, node_cpus, retries, memory_bytes, progress)

    def run(self, planned: Iterable[Task], total: int, done: int) -> list[Report]:
        """Runs tasks to their ends. The first that fails ends the others.

        Raises
        ------
        WorkerLostError
            If workers of a task were lost more often than it may be repeated.
        OutputError
            If rows were written where they cannot be seen from here.
        WirelensError
            What a task met.
        """
        remote = self.ray.remote(_run_there if self.has_machines else tasks.run)
        left = iter(planned)
        running: dict[Any, Task] = {}
        reports: list[Report] = []
        is_over = False
        try:
            while True:
                while not is_over and len(running) < self.cpus * _WAITING_PER_SLOT:
                    task = next(left, None)
                    if task is None:
                        is_over = True
                        break
                    running[self._begin(remote, task)] = task
                if not running:
                    _await_files(reports)
                    return reports
                ready, _ = self.ray.wait(list(running), num_returns=1)
                for one in ready:
                    report = self._result(one, running.pop(one))
                    reports.append(report)
                    if self.progress is not None:
                        self.progress(done + len(reports), total, report)
        finally:
            for one in running:
                self.ray.cancel(one, force=True)
            if running:
                # Their files are theirs until they have ended: a resumed run writes the same ones.
                self.ray.wait(list(running), num_returns=len(running), timeout=_ENDED_WITHIN_S)

    def _begin(self, remote: Any, task: Task) -> Any:
        name = f"wirelens {task.question} {Path(task.part).stem}"
        options = {"num_cpus": task.threads, "max_retries": self.retries, "name": name}
        if self.memory_bytes is not None:
            options["memory"] = self.memory_bytes
        return remote.options(**options).remote(task)

    def _result(self, one: Any, task: Task) -> Report:
        lost = (
            self.ray.exceptions.WorkerCrashedError,
            self.ray.exceptions.NodeDiedError,
            self.ray.exceptions.OutOfMemoryError,
        )
        try:
            report: Report = self.ray.get(one)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, WirelensError):
                raise cause from None
            raise
        except lost as error:
            raise WorkerLostError(
                f"{Path(task.part).name}: its worker was lost {self.retries + 1} times "
                f"({type(error).__name__}); run again with resume=True, or with fewer `cpus` if "
                "memory is short"
            ) from error
        return report


def _run_there(task: Task) -> Report:
    """As `tasks.run`; errors name the machine, whose folders may be other ones."""
    try:
        return tasks.run(task)
    except WirelensError as error:
        address = compat.need("ray", "wirelens.ray").util.get_node_ip_address()
        raise type(error)(f"{error} (on machine {address})") from error


def _await_files(reports: Iterable[Report]) -> None:
    deadline = time.monotonic() + SEEN_WITHIN_S
    for report in reports:
        part = Path(report.part)
        while not part.exists():
            if time.monotonic() > deadline:
                raise OutputError(
                    f"{part}: written by another machine, and not seen here; wanted: output=FOLDER "
                    "that all machines see under one path"
                )
            time.sleep(0.1)


def _join(ray: Any, address: str | None, cpus: int | None) -> None:
    # Ray reports its use to its makers unless this is set; nothing here is to leave the machine.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is not None:
        ray.init(address=address, **quiet)
        return
    cpus = cpus or len(os.sched_getaffinity(0))
    # Workers begin with the module path of this program.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            **quiet,
        )
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def check(reports: Iterable[Report]) -> None:
    """All shares of a set have read the same packets.

    Raises
    ------
    InternalError
        If not: then rows are missing, or are there twice.
    """
    first: dict[str | None, dict[str, Any]] = {}
    for report in reports:
        if report.share is None:
            continue
        seen = {key: report.counts.get(key) for key in _OF_PACKETS}
        if first.setdefault(report.sensor, seen) != seen:
            raise InternalError(
                f"{Path(report.part).name}: has read other packets than the other shares: "
                f"{seen}, not {first[report.sensor]}; please report this"
            )
