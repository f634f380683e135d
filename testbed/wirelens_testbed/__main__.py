"""What `wirelens testbed` starts: a program with one argument, a request in JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from wirelens_testbed import dataset, kinds, machine, plot, probe, run
from wirelens_testbed.failure import InterruptSignal, TestbedError
from wirelens_testbed.scenario import override, read_toml

OUTPUT_FOLDER = "testbed-runs"
STATUS_ERROR, STATUS_USAGE, STATUS_INTERRUPTED = 1, 2, 130
LIBRARY = Path(__file__).resolve().parent
SHIPPED = LIBRARY.parent


def main() -> int:
    if len(sys.argv) != 2:
        print(
            "this is part of `wirelens testbed`; try `wirelens testbed --help`", file=sys.stderr
        )
        return STATUS_USAGE
    request: dict[str, Any] = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if request.get("ends_with_input"):
        threading.Thread(target=_end_with_input, daemon=True).start()
    commands: dict[str, Callable[[dict[str, Any]], int]] = {
        "run": run_scenario, "make": make, "check": check, "clean": clean,
        "scenarios": scenarios, "plot": draw_plot,
    }  # fmt: skip
    try:
        return commands[request["command"]](request)
    except BrokenPipeError:  # whoever read the output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TestbedError as failure:
        print(f"wirelens: testbed: {failure}", file=sys.stderr)
        return STATUS_ERROR
    except InterruptSignal:
        print("wirelens: testbed: interrupted; everything was removed", file=sys.stderr)
        return STATUS_INTERRUPTED


def run_scenario(request: dict[str, Any]) -> int:
    """`wirelens testbed run`: one scenario, one folder of results."""
    path = Path(request.get("scenario") or "")
    values = request.get("values") or read_toml(path)
    for assignment in request.get("set") or []:
        override(values, assignment)
    seed = request.get("seed")
    seed = int(values.get("seed", 1)) if seed is None else int(seed)
    outcome = run.perform(
        values,
        name=request.get("name") or f"{path.stem}-{seed}",
        output=Path(request.get("output") or OUTPUT_FOLDER),
        seed=seed,
        wirelens=Path(request["wirelens"]).resolve(),
        quiet=bool(request.get("quiet")),
    )
    print(outcome.folder)
    for failed in outcome.failed:
        print(f"wirelens: testbed: rejected: {failed}", file=sys.stderr)
    return 0 if outcome.is_accepted else run.STATUS_REJECTED


def make(request: dict[str, Any]) -> int:
    """`wirelens testbed make`: the runs of a data set that are not there yet."""
    machine.require({})
    given_up = dataset.make(
        dataset.read(Path(request["dataset"])),
        Path(request.get("output") or OUTPUT_FOLDER),
        Path(request["wirelens"]).resolve(),
        runs=request.get("runs"),
        variants=request.get("variants") or (),
        parallel=request.get("parallel"),
        quiet=bool(request.get("quiet")),
    )
    for name in given_up:
        print(f"wirelens: testbed: {name}: given up, see {name}.rejected", file=sys.stderr)
    return run.STATUS_REJECTED if given_up else 0


def check(request: dict[str, Any]) -> int:
    """`wirelens testbed check`: can this machine run these kinds; what is missing."""
    names = request.get("kinds") or list(kinds.NAMES)
    programs = {name: kinds.of(name).PROGRAMS for name in names}  # type: ignore[attr-defined]
    if request.get("install"):
        wanted = {
            package for each in programs.values() for package in machine.missing_packages(each)
        }
        machine.install(sorted(wanted))
    is_ready = True
    for name, needed in programs.items():
        lacks = machine.what_is_missing(needed)
        print(f"{name:<11} {'; '.join(lacks) or 'ready'}")
        is_ready = is_ready and not lacks
    if not machine.what_is_missing({}):
        for name in programs:
            # What a kind needs of the kernel that the others do not.
            probes = getattr(kinds.of(name), "missing_features", list[str])
            if lacks := probes():
                print(f"{name:<11} {'; '.join(lacks)}")
                is_ready = False
        lacks = probe.missing_features(Path(request["wirelens"]))
        print(f"{'kernel':<11} {'; '.join(lacks) or 'ready'}")
        is_ready = is_ready and not lacks
    return 0 if is_ready else STATUS_ERROR


def clean(request: dict[str, Any]) -> int:
    """`wirelens testbed clean`: removes what killed runs left on the machine."""
    machine.require({})
    removed = run.remove_stale()
    print("\n".join(f"removed {name}" for name in removed) or "nothing to remove")
    return 0


def scenarios(request: dict[str, Any]) -> int:
    """`wirelens testbed scenarios`: those that ship, with the first comment of each."""
    here = Path.cwd()
    for folder in ("scenarios", "datasets"):
        for path in sorted((SHIPPED / folder).glob("*.toml")):
            first = path.read_text().splitlines()[0].lstrip("# ")
            near = path.relative_to(here) if path.is_relative_to(here) else path
            print(f"{near!s:<46}  {first}")
    return 0


def draw_plot(request: dict[str, Any]) -> int:
    """`wirelens testbed plot`: how each control of a congestion run filled the queue."""
    folder = Path(request["run"])
    output = Path(request.get("output") or folder / "queue.png")
    plot.plot(folder, output)
    print(output)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once: a second Ctrl-C must not end the cleaning up that the first has begun.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise InterruptSignal


def _end_with_input() -> None:
    """Runs started by `make` end when it does, even if it is killed."""
    # Not by sys.stdin: its lock, held here for ever, would be in the way of our own end.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
