"""Runs every job of jobs.py in rounds and keeps what it took.

Called by run.sh, which builds the programs and makes the inputs. Each round
runs all jobs, every second round in reverse order, so that a change of the
machine's mood meets all of them alike. Writes runs.jsonl (every single run),
environment.json, table.md and pictures into the folder of results.
"""

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import answers
import environment
import plots
import table
from jobs import Input, Job, Part, all_jobs, missing_flow_peers

FIGURES = ["fig3", "fig4", "crossing", "top", "flows", "nprint"]
# Those whose models take minutes to train: measured where they are asked for.
MORE_FIGURES = ["trees", "serve", "own"]
# A job that takes longer hangs.
TIMEOUT_S = 900


class Failure(Exception):
    """A job that did not end well."""


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run_job(job: Job, scratch: Path) -> dict[str, float]:
    """Runs a process to its end; its times, and its output in `scratch`."""
    wall = time.perf_counter()
    with scratch.open("wb") as output, (scratch.with_suffix(".err")).open("wb") as errors:
        process = subprocess.Popen(job.command, stdout=output, stderr=errors)
        try:
            status, usage = wait(process.pid)
        except BaseException:
            process.kill()
            process.wait()
            raise
    wall = time.perf_counter() - wall
    # wait4 has taken the status that Popen would otherwise look for.
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        told = scratch.with_suffix(".err").read_text(errors="replace").strip()[-400:]
        raise Failure(f"{job.name}: exit status {process.returncode}: {told}")
    return {
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "rss_mib": usage.ru_maxrss / 1024,
    }


def wait(pid: int) -> tuple[int, resource.struct_rusage]:
    """Blocks, because looking again and again would take time from the job; an
    alarm ends the wait."""

    def late(_signal: int, _frame: object) -> None:
        raise Failure(f"no end after {TIMEOUT_S} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(TIMEOUT_S)
    try:
        _, status, usage = os.wait4(pid, 0)
        return status, usage
    finally:
        signal.alarm(0)


def measure(job: Job, round_number: int, scratch: Path) -> list[dict[str, object]]:
    """The runs of one job: one, or as many as its process tells of."""
    load = os.getloadavg()[0]
    times = run_job(job, scratch)
    parts = [Part(job.name, job.items, times["wall_s"], times["cpu_s"])]
    if job.parts is not None:
        parts = job.parts(scratch.read_text())
        if not parts:
            raise Failure(f"{job.name}: printed no time")
    return [
        {
            "round": round_number,
            "figure": part.figure or job.figure,
            "group": part.group or job.group,
            "name": part.name,
            "items": part.items,
            "wall_s": round(part.wall_s, 6),
            "cpu_s": round(part.cpu_s, 6),
            "rss_mib": round(times["rss_mib"], 1),
            "load": load,
        }
        for part in parts
    ]


def warm(inputs: list[Input], job: Job) -> None:
    """Reads what a job will read, so that each finds it in memory: some systems
    take pages back that nobody has looked at for a minute."""
    for path in (path for source in inputs for path in source.folder.iterdir()):
        if str(path) in job.command:
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass


def run_rounds(
    inputs: list[Input], jobs: list[Job], rounds: int, output: Path
) -> list[dict[str, object]]:
    """All rounds; runs are on disk as soon as they are done."""
    runs: list[dict[str, object]] = []
    left_out: set[str] = set()
    scratch = output / "scratch.out"
    with (output / "runs.jsonl").open("w") as file:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}, load average {os.getloadavg()[0]:.2f}")
            for job in jobs if number % 2 == 0 else reversed(jobs):
                key = f"{job.group} {job.name}"
                if key in left_out:
                    continue
                warm(inputs, job)
                try:
                    done = measure(job, number, scratch)
                except (Failure, OSError) as failure:
                    # One peer less is a poorer table, not a lost afternoon.
                    say(f"LEFT OUT: {key.strip()}: {failure}")
                    left_out.add(key)
                    continue
                runs += done
                file.writelines(json.dumps(run) + "\n" for run in done)
                file.flush()
    scratch.unlink(missing_ok=True)
    scratch.with_suffix(".err").unlink(missing_ok=True)
    return runs


def new_folder(parent: Path) -> Path:
    """DATE-CPU, with a number where that is taken."""
    name = f"{datetime.now(UTC):%Y-%m-%d}-{environment.cpu_slug()}"
    taken = [path.name for path in parent.glob(f"{name}*")] if parent.is_dir() else []
    numbers = [int(found[1]) for path in taken if (found := re.fullmatch(rf"{name}-(\d+)", path))]
    if name in taken or numbers:
        name = f"{name}-{max(numbers, default=1) + 1}"
    return parent / name


def parse_arguments() -> argparse.Namespace:
    known = [*FIGURES, *MORE_FIGURES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--quick", action="store_true", help="small inputs, two rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default=",".join(FIGURES), help=f"of {','.join(known)}")
    parser.add_argument("--jobs", default="", help="those whose names this expression finds")
    parser.add_argument("--output", type=Path, help="folder for the results")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(known)
    if unknown:
        parser.error(f"--only: {', '.join(sorted(unknown))}; wanted some of {','.join(known)}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    parent = Path("bench/data/quick-results" if arguments.quick else "bench/results")
    output = arguments.output or new_folder(parent)
    output.mkdir(parents=True, exist_ok=True)
    named = (text.split("=", 1) for text in arguments.input)
    inputs = [Input.open(name, Path(folder)) for name, folder in named]
    only = set(arguments.only.split(","))
    wanted = re.compile(arguments.jobs)
    jobs = [job for job in all_jobs(inputs, only, arguments.quick) if wanted.search(job.name)]
    if "flows" in only and (missing := missing_flow_peers()):
        say(f"SKIPPED: flows by {', '.join(missing)}: not installed")
    facts = environment.facts(inputs, rounds)
    say(f"{len(jobs)} jobs, {rounds} rounds; results in {output}")
    runs = run_rounds(inputs, jobs, rounds, output)
    facts["load_after"] = os.getloadavg()
    facts["answers"] = answers.answers(inputs) if "top" in only else []
    (output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    (output / "table.md").write_text(table.text(runs, facts))
    plots.draw_all(runs, facts, output)
    print((output / "table.md").read_text())
    say(f"results in {output}")


if __name__ == "__main__":
    main()
