"""Repeats rows of docs/reproduction.md and compares them with the kept ones.

Without an ID it lists the rows. With IDs, or papers, it prints first how many minutes and how much
disk that takes; it then installs what is missing, makes the data where it can, runs the commands
and compares. What is made goes to target/reproduce/; kept rows under bench/results are never
changed.
"""

import argparse
import difflib
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence

import compare
from compare import Comparison, page_rows
from jobs import (
    Job,
    Plan,
    data,
    each_once,
    environment,
    imports_package,
    is_possible,
    jobs_of,
    partial,
    plan,
    total,
)
from jobs import jobs as all_jobs
from paper_rows import ROOT, PaperFigure, Row, rows

EXAMPLES = """\
examples:
  make reproduce                                 list the rows: minutes, disk, what they need
  make reproduce FIGURE=serveflow/figure-10      run one, compare it with the kept rows
  make reproduce FIGURE="swiftqueue/figure-1 dragonfly/table-i"
  make reproduce FIGURE=dragonfly                all rows of a paper
  make reproduce FIGURE=titanlog PLAN=1          say what would run, and run nothing
  make reproduce FIGURE=dragonfly/figure-4 FULL=1   train networks again, where the short way
                                                 recomputes figures from kept rows
  make reproduce FIGURE=swiftqueue/figure-9 ONLY=marking-queue   one of the commands of a row
  make reproduce FIGURE=serveflow COMPARE=1      compare what earlier runs have left
  sudo -E make reproduce FIGURE=titanlog/figure-3 HELDOUT=/data/services-heldout

exit status (make itself ends with 2 for 1 and 2):
  0  all figures are within what is allowed
  1  a figure is not, or a command failed
  2  something could not run here, or is not known
"""
WIDTH = 100


def say(text: str = "", indent: str = "") -> None:
    print(textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent), flush=True)


def amount(minutes: float) -> str:
    """Minutes as they are said: a row takes hours or seconds as well."""
    if minutes < 1:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.0f} h"


# --- What is asked for ----------------------------------------------------------------------


class UnknownRow(Exception):
    """No row and no paper has this name."""


def chosen(asked: Sequence[str], known: Sequence[Row]) -> list[Row]:
    """The rows of ids and papers, each once."""
    found: dict[str, Row] = {}
    for word in asked:
        mine = [row for row in known if word in (row.id, row.paper)]
        if not mine:
            raise UnknownRow(unknown(word, known))
        found |= {row.id: row for row in mine}
    return list(found.values())


def unknown(word: str, known: Sequence[Row]) -> str:
    """What was seen, and what is near it."""
    names = [row.id for row in known] + list(dict.fromkeys(row.paper for row in known))
    near = difflib.get_close_matches(word.lower(), names, n=4, cutoff=0.5)
    tail = [name for name in names if name.endswith(f"/{word.lower().replace(' ', '-')}")]
    hint = ", ".join(dict.fromkeys(near + tail)) or "`make reproduce` lists all rows"
    return f"no row {word!r} in docs/reproduction.md; near it: {hint}"


def limited(of: dict[str, list[Job]], only: str) -> dict[str, list[Job]]:
    """The jobs of rows, of which `only` may name some."""
    names = [name for name in only.split(",") if name]
    there = dict.fromkeys(job.name for jobs in of.values() for job in jobs)
    for name in names:
        if name not in there:
            raise UnknownRow(f"no command {name!r} repeats these rows; wanted: {', '.join(there)}")
    return {
        row: [job for job in jobs if not names or job.name in names] for row, jobs in of.items()
    }


def state(row: Row, full: bool) -> str:
    """Whether a row can run here, in a few words."""
    if not is_possible(row):
        return "nothing to run"
    plans = [plan(job) for job in jobs_of(row, full=full)]
    missing = [reason for one in plans for reason in one.missing]
    if not missing:
        return "yes"
    can = sum(not one.missing for one in plans)
    return f"{'in part' if can else 'no'}: {missing[0].partition(';')[0].partition(':')[0]}"


def listing(known: Sequence[Row], full: bool) -> str:
    """All rows: id, minutes, disk, what they need, whether they can run here, title."""
    lines = [("id", "time", "disk", "can run here", "needs", "in the paper")]
    for row in known:
        jobs = jobs_of(row, full=full) if is_possible(row) else []
        plans = [plan(job) for job in jobs]
        needs = dict.fromkeys(
            [kind for job in jobs for kind in job.setup if kind != "test"]
            + ["root" for job in jobs if "root" in job.needs]
            + [name for job in jobs for name in job.data]
        )
        minutes, disk_gb = total(plans)
        time_text, disk = (amount(minutes), f"{disk_gb:.1f} GB") if plans else ("-", "-")
        title = row.title if len(row.title) <= 44 else f"{row.title[:43]}…"
        lines.append((row.id, time_text, disk, state(row, full), ", ".join(needs) or "-", title))
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    return "\n".join(f"{one[: columns - 1]}…" if 0 < columns < len(one) else one for one in text)


# --- Running --------------------------------------------------------------------------------


def preview(plans: Sequence[Plan]) -> None:
    """Minutes, disk and prerequisites, before anything starts."""
    for one in plans:
        job, (minutes, disk_gb) = one.job, total([one])
        root = ", root" if "root" in job.needs else ""
        say(f"{job.name}: about {amount(minutes)} on two cores, {disk_gb:.1f} GB of disk{root}")
        for line in (*(step.line for step in one.steps), *job.run):
            print(f"    {line}")
        if job.says:
            say(job.says, "  ")
        for name in job.data:
            say(f"{name} is {data()[name].path()}: {data()[name].says}", "  ")
        for reason in one.missing:
            say(f"cannot run: {reason}", "  ")
    able = [one for one in plans if not one.missing]
    if not able:
        say("nothing can run here")
        return
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        say(f"{load:.0f} processes want the {cores} cores: times and rates will be off")
    minutes, disk_gb = total(able)
    say(f"together: about {amount(minutes)}, {disk_gb:.1f} GB; results in target/reproduce/")
    print(flush=True)


def typed(line: str, job: Job) -> tuple[int, str]:
    """Runs a line; its output is shown as it comes, and its standard output kept."""
    print(f"$ {line}", flush=True)
    kept: list[str] = []
    command = ["bash", "-euo", "pipefail", "-c", line]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(job), stdout=subprocess.PIPE, text=True,
        errors="replace",
    ) as run:  # fmt: skip
        assert run.stdout
        for text in run.stdout:
            kept.append(text)
            print(text, end="", flush=True)
    return run.returncode, "".join(kept)


def prepared(job: Job, one: Plan) -> str:
    """Installs, builds and makes data; what went wrong."""
    missing = [data()[name] for name in job.data if not data()[name].is_there()]
    for step in one.steps:
        made = next((folder for folder in missing if folder.make == step.line), None)
        if made:
            made.path().parent.mkdir(parents=True, exist_ok=True)
            partial(made.path()).touch()
        status, _ = typed(step.line, job)
        if status:
            return f"{step.line}: exit status {status}"
        if made:
            partial(made.path()).unlink()
    imports_package.cache_clear()
    return ""


def ran(job: Job, one: Plan) -> str:
    """Runs a job; what went wrong, empty where nothing did."""
    began = time.monotonic()
    if failure := prepared(job, one):
        return failure
    shutil.rmtree(job.out, ignore_errors=True)
    job.out.mkdir(parents=True)
    with (job.out / "printed.md").open("w", encoding="utf-8") as printed:
        for line in job.run:
            status, text = typed(line, job)
            printed.write(text)
            if status:
                return f"{line}: exit status {status}"
    (job.out / FINISHED).touch()
    print(f"{job.name}: done in {amount((time.monotonic() - began) / 60)}\n", flush=True)
    return ""


# --- Comparing ------------------------------------------------------------------------------


def figures_of(row: Row, jobs: Sequence[Job]) -> list[Comparison]:
    """The figures of a row, as its jobs have them now."""
    more = [query for job in jobs for query in job.figures.get(row.id, [])]
    asked = [*row.figures, *(PaperFigure(query, written(query)) for query in more)]
    if jobs and all(job.printed for job in jobs):
        text = "".join((job.out / "printed.md").read_text(encoding="utf-8") for job in jobs)
        return [compare.printed(figure, text) for figure in asked]
    return [compare.compared(figure, jobs) for figure in asked]


def written(query: str) -> str:
    """A kept value as a page would have it: three digits, or all before the point."""
    value = page_rows.asked(query)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def report(row: Row, jobs: Sequence[Job], failures: dict[str, str]) -> int:
    """Says what came out of a row; its exit status."""
    print(f"{row.id}  {row.title}")
    say(f"paper: {row.theirs}", "  ")
    mine = jobs if is_possible(row) else []
    if not is_possible(row):
        say(f"nothing to run: {row.remarks}", "  ")
        print()
        return 2
    for job in mine:
        if job.name in failures:
            say(f"{job.name}: {failures[job.name]}", "  ")
    done = [job for job in mine if job.name not in failures]
    has_failed = any(failures.get(job.name, "").endswith(FAILED) for job in mine)
    found = figures_of(row, done) if done else []
    status = verdict(found, len(done) == len(mine), has_failed)
    if found:
        print(textwrap.indent(compare.table(found), "  "))
        for reason in dict.fromkeys(one.rule.shown for one in found if one.rule.shown):
            say(f"not judged: {reason}", "  ")
    elif done:
        say(f"kept: {row.ours}", "  ")
    say(conclusion(found, done, status), "  ")
    print(flush=True)
    return status


FAILED = "(failed)"
FINISHED = "finished"
"""A file in a job's folder: all its lines have run."""


def verdict(found: Sequence[Comparison], is_all: bool, has_failed: bool) -> int:
    if has_failed or any(one.is_within is False for one in found):
        return 1
    has_all = all(one.now is not None or one.rule.shown for one in found)
    return 0 if is_all and has_all else 2


def conclusion(found: Sequence[Comparison], done: Sequence[Job], status: int) -> str:
    """What the table comes to."""
    if not done:
        return "→ not measured"
    if not found:
        return "→ ran to its end; the row has no figures to compare" if not status else "→ in part"
    judged = [one for one in found if one.is_within is not None]
    outside = sum(one.is_within is False for one in judged)
    absent = sum(one.now is None and not one.rule.shown for one in found)
    longer = any(one.name in job.instead for job in all_jobs() for one in done)
    text = f"→ {len(judged) - outside} of {len(judged)} figures within what is allowed"
    if not judged:
        text = "→ no figure was judged"
    if absent:
        text += f"; {absent} not measured by what ran{', FULL=1 measures more' if longer else ''}"
    if all(job.printed for job in done):
        text += "; recomputed from kept rows, nothing was measured again (FULL=1 says how)"
    return text


def attempted(jobs: Sequence[Job], plans: Sequence[Plan]) -> dict[str, str]:
    """Runs jobs one after the other; by name what went wrong."""
    failures: dict[str, str] = {}
    for job, one in zip(jobs, plans, strict=True):
        if one.missing:
            failures[job.name] = f"could not run: {'; '.join(one.missing)}"
        # Planned again: what an earlier job has installed or made is there now.
        elif failure := ran(job, plan(job)):
            failures[job.name] = f"{failure} {FAILED}"
            print(f"{job.name}: {failures[job.name]}", file=sys.stderr)
    return failures


def repeated(
    of: dict[str, list[Job]], asked: Sequence[Row], *, only_plan: bool = False, run: bool = True
) -> int:
    """Runs the jobs of rows and compares; the exit status of the whole."""
    jobs = each_once(job for row in asked for job in of[row.id])
    if run:
        plans = [plan(job) for job in jobs]
        preview(plans)
        if only_plan:
            return 2 if any(one.missing for one in plans) else 0
        failures = attempted(jobs, plans)
    else:
        has_run = [job.name for job in jobs if (job.out / FINISHED).exists()]
        failures = {job.name: "has not run to its end" for job in jobs if job.name not in has_run}
    found = [report(row, of[row.id], failures) for row in asked]
    counts = [found.count(status) for status in (0, 1, 2)]
    if len(found) > 1:
        say(f"rows: {counts[0]} within, {counts[1]} not within, {counts[2]} not measured in full")
    return 1 if counts[1] else 2 if counts[2] else 0


def main() -> int:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="make reproduce FIGURE=", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("id", nargs="*", help="PAPER/NUMBER such as serveflow/table-6, or PAPER")
    parser.add_argument("--full", action="store_true", help="take the long way (FULL=1)")
    parser.add_argument("--plan", action="store_true", help="run nothing (PLAN=1)")
    parser.add_argument(
        "--compare", action="store_true", help="run nothing, compare an earlier run (COMPARE=1)"
    )
    parser.add_argument("--only", default="", help="of the commands these alone: JOB,… (ONLY=…)")
    asked = parser.parse_args()
    known = rows()
    os.chdir(ROOT)
    if not asked.id:
        print(listing(known, asked.full))
        print("\nTime and disk are of two cores, with what is missing here to be built or made.")
        print("make reproduce FIGURE=ID runs a row; bench/reproduce/reproduce.py --help has more.")
        return 0
    try:
        mine = chosen(asked.id, known)
        of = {row.id: jobs_of(row, full=asked.full) if is_possible(row) else [] for row in mine}
        of = limited(of, asked.only)
        return repeated(of, mine, only_plan=asked.plan, run=not asked.compare)
    except UnknownRow as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
