"""From a question to its rows: planned, run, and put together."""

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypedDict

from wirelens import _wirelens
from wirelens.errors import DamagedCaptureWarning, OptionError
from wirelens.ray import planning, running, totals
from wirelens.ray.parts import Folder, Rows
from wirelens.ray.planning import Division
from wirelens.ray.running import Cluster, Progress
from wirelens.ray.sets import CaptureSet, Paths, sets_of
from wirelens.ray.tasks import Report, Task, key_id, model_id
from wirelens.shipped import is_name

_RETRIES = 3


class RunArguments(TypedDict, total=False):
    """Where and how tasks run; `wirelens.ray` describes each."""

    output: str | os.PathLike[str] | None
    resume: bool
    overwrite: bool
    address: str | None
    cpus: int | None
    shares: int | None
    threads: int | None
    retries: int
    memory_bytes: int | None
    progress: Progress | None


def ask(
    question: str,
    paths: Paths,
    arguments: Mapping[str, Any],
    *,
    threaded: bool = False,
    by_capture: bool = False,
) -> Rows:
    """Runs a question over capture sets; `by_capture` says that its rows are of captures."""
    own: RunArguments = {}
    for name in RunArguments.__annotations__:
        if name in arguments:
            own[name] = arguments[name]  # type: ignore[literal-required]
    asked = {name: value for name, value in arguments.items() if name not in own}
    planning.refuse(asked)
    sets = sets_of(paths)
    _make_absolute(asked)
    if asked.get("egress") is not None:
        if len(sets) > 1:
            raise OptionError("egress: of one sensor; ask about each sensor for itself")
        sets = [sets[0].with_egress(asked["egress"])]
    shareable = planning.has_shares(question, sets[0], asked)
    asked_model, asked_key = model_id(asked.get("model")), key_id(asked.get("hash_names"))
    output = own.get("output")
    folder = Folder(
        None if output is None else Path(output),
        own.get("resume", False),
        own.get("overwrite", False),
    )
    with folder.cleaned():
        if question != "nprint":
            asked["seed"] = planning.chosen_seed(asked, folder.kept("seed"))
        cluster = Cluster.connect(
            own.get("address"),
            own.get("cpus"),
            own.get("retries", _RETRIES),
            own.get("memory_bytes"),
            own.get("progress"),
        )
        division = planning.divide(
            len(sets),
            cluster.cpus,
            cluster.node_cpus,
            shareable=shareable,
            threaded=threaded,
            by_capture=by_capture,
            shares=own.get("shares") or folder.kept("shares"),
            threads=own.get("threads"),
        )
        about = _about(question, asked, sets, asked_model, asked_key)
        folder.begin(about, _chosen(asked, division))
        if question == "top" and by_capture:
            reports = _totals(asked, sets, division, folder, cluster)
        else:
            planned = planning.tasks_of(question, asked, sets, division, folder)
            tasks = [replace(task, model_id=asked_model, key_id=asked_key) for task in planned]
            reports = _run(tasks, cluster)
        return Rows(folder.path, reports, [line for one in sets for line in one.refused])


def _make_absolute(asked: dict[str, Any]) -> None:
    """Workers have folders of their own to start from."""
    if asked.get("model") is not None and not is_name(asked["model"]):
        asked["model"] = os.path.abspath(asked["model"])
    if asked.get("hash_names") is not None:
        asked["hash_names"] = os.path.abspath(asked["hash_names"])
    egress = asked.get("egress")
    if egress is not None:
        names = [egress] if isinstance(egress, (str, os.PathLike)) else egress
        asked["egress"] = [os.path.abspath(name) for name in names]


def _about(
    question: str,
    asked: Mapping[str, Any],
    sets: list[CaptureSet],
    asked_model: str | None,
    asked_key: str | None = None,
) -> dict[str, Any]:
    """What has to be the same where a run is resumed."""
    arguments = {name: value for name, value in asked.items() if name != "seed"}
    captures = {one.sensor or "": [asdict(capture) for capture in one.captures] for one in sets}
    version = _wirelens.__version__
    about: dict[str, Any] = {
        "question": question, "arguments": arguments, "captures": captures, "version": version,
    }  # fmt: skip
    # Only where there are such: runs of before can still be resumed.
    if egress := [asdict(capture) for one in sets for capture in one.egress]:
        about["egress captures"] = egress
    # A folder, and the list of its captures, name the captures of rows differently.
    if named := {
        one.sensor or "": one.source
        for one in sets
        if [one.source] != [capture.path for capture in one.captures]
    }:
        about["names of captures"] = named
    if asked_model is not None:
        about["model"] = asked_model
    if asked_key is not None:
        about["key of names"] = asked_key
    return about


def _chosen(asked: Mapping[str, Any], division: Division) -> dict[str, Any]:
    return {"seed": asked.get("seed"), "shares": division.shares}


def _run(tasks: list[Task], cluster: Cluster) -> list[Report]:
    kept = {task.part: Report.load(Path(task.part)) for task in tasks}
    left = [task for task in tasks if kept[task.part] is None]
    for task in tasks:
        # What a resumed run keeps is of captures that are still as they were.
        task.captures.check()
    done = {report.part: report for report in kept.values() if report is not None}
    for report in cluster.run(left, len(tasks), len(done)):
        done[report.part] = report
    reports = [done[task.part] for task in tasks]
    running.check(reports)
    refused = [line for task in tasks for line in task.captures.refused]
    damages = [damage for report in reports for damage in report.damages]
    for damage in dict.fromkeys([*refused, *damages]):
        warnings.warn(damage, DamagedCaptureWarning, stacklevel=5)
    return reports


def _totals(
    asked: dict[str, Any],
    sets: list[CaptureSet],
    division: Division,
    folder: Folder,
    cluster: Cluster,
) -> list[Report]:
    sort, n = asked.get("sort", "bytes"), asked.get("n", 10)
    max_keys = asked.get("max_keys", 3_000_000)
    apart = planning.tasks_of("top", {**asked, "n": 0}, sets, division, folder.hidden())
    found = _run(list(apart), cluster)
    reports, again = [], []
    whole = planning.tasks_of("top", asked, sets, Division(1, 1, by_capture=False), folder)
    for task in whole:
        mine = [report for report in found if report.sensor == task.captures.sensor]
        is_whole = not any(report.counts.get("beyond_max_keys") for report in mine)
        part = Path(task.part)
        part.parent.mkdir(parents=True, exist_ok=True)
        files = [Path(report.part) for report in mine]
        if is_whole and totals.add_up(files, part, sort, n, max_keys):
            report = _added(mine, task)
            report.save()
            reports.append(report)
        else:
            again.append(task)
    # With more keys than may be counted, which are is for one table to decide.
    reports += cluster.run(again, len(again), 0)
    shutil.rmtree(folder.hidden().path, ignore_errors=True)
    order = [captures.sensor for captures in sets]
    return sorted(reports, key=lambda report: order.index(report.sensor))


def _added(reports: list[Report], task: Task) -> Report:
    counts: dict[str, Any] = {}
    for report in reports:
        for name, value in _numbers(report.counts):
            counts[name] = counts.get(name, 0) + value
    return Report(
        part=task.part,
        sensor=task.captures.sensor,
        share=None,
        rows=totals.row_count(Path(task.part)),
        counts=counts,
        damages=[damage for report in reports for damage in report.damages],
        seconds=sum(report.seconds for report in reports),
        peak_bytes=max(report.peak_bytes for report in reports),
        process=os.getpid(),
    )


def _numbers(counts: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in counts.items():
        with contextlib.suppress(TypeError, ValueError):
            yield name, int(value)
