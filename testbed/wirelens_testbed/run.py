"""The life of one run: a folder that grows, a lab that goes, checks that accept or reject."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wirelens_testbed import kinds, machine, outputs
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.lab import Lab, remove_run, stale_runs
from wirelens_testbed.progress import Progress
from wirelens_testbed.relay import End, Relay
from wirelens_testbed.scenario import Table, draw, to_toml
from wirelens_testbed.taps import Recorder, Tap
from wirelens_testbed.truth import FlowTruth

# Delays must hold within the shortest time anything is measured in: a slot of the queue's view.
SLOT_US = 1000
REPORT_NAME = "run.json"
# The exit status of a run that was made, and that its own checks reject.
STATUS_REJECTED = 3


def take_late_max_ms(table: Table) -> float:
    """How late packets may leave a relay at the 99th percentile, as a scenario has it."""
    return table.take("late_max_ms", float, SLOT_US / 1000, minimum=0.0, maximum=1000.0)


@dataclass(frozen=True)
class Check:
    """One thing a run must fulfil to be believed."""

    name: str
    holds: bool
    seen: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.name}: {self.seen}, wanted {self.wanted}"


class Run:
    """What a kind of scenario has in its hands while it performs."""

    def __init__(self, lab: Lab, folder: Path, seed: int, wirelens: Path, quiet: bool) -> None:
        self.lab = lab
        self.folder = folder
        self.seed = seed
        self.rng = random.Random(f"{seed}:run")
        self.wirelens = wirelens
        self.truth = FlowTruth(folder / "flows.tsv", wirelens)
        self.checks: list[Check] = []
        self.facts: dict[str, Any] = {}
        self._progress = Progress(quiet)
        self._relay_count = 0
        self._events = (folder / "events.tsv").open("w")
        print("time_ns", "event", "facts", sep="\t", file=self._events)

    def record(self, taps: Sequence[Tap], snaplen: int = 96) -> Recorder:
        """Starts recording; hand the recorder to `recorded` when it is to end."""
        comment = f"Wirelens testbed, seed {self.seed}"
        return Recorder(
            self.lab, self.wirelens, self.folder, taps, snaplen=snaplen, comment=comment
        )

    def recorded(self, recorder: Recorder) -> list[dict[str, Any]]:
        """Ends a recording and checks that it is whole; one report a tap, in their order."""
        report = recorder.stop()
        self.note(timer={"late_us": report["late_us"]})
        reports: list[dict[str, Any]] = report["taps"]
        for tap, report in zip(recorder.taps, reports, strict=True):
            report["file"] = tap.file_name  # the folder may be renamed, and moved
            self.check(
                f"{tap.file_name}: ring", not report["dropped"],
                f"{report['dropped']} packets dropped", "0",
            )  # fmt: skip
            if tap.direction != "both":
                counted = report["tc"]["packets"]
                self.check(
                    f"{tap.file_name}: tc", report["packets"] == counted,
                    f"{report['packets']} packets recorded, {counted} counted at tc", "the same",
                )  # fmt: skip
        self.facts.setdefault("taps", []).extend(reports)
        return reports

    def punctual(self, late_max_ms: float) -> None:
        """Checks that threads were woken in time while taps recorded, where no link has a delay."""
        late_max_us = round(late_max_ms * 1000)
        late_us = self.facts["timer"]["late_us"]["p99"]
        self.check(
            "timer: lateness", late_us < late_max_us,
            f"{late_us:.0f} µs at p99", f"below {late_max_us} µs",
        )  # fmt: skip

    def relay(self, a: End, b: End, **delays: Any) -> Relay:
        """Makes a link with delay; hand it to `relayed` when it is to end."""
        self._relay_count += 1
        seed = random.Random(f"{self.seed}:relay{self._relay_count}").getrandbits(32)
        return Relay(self.lab, self.wirelens, a, b, seed=seed, **delays)

    def relayed(self, relay: Relay, late_max_ms: float) -> dict[str, Any]:
        """Ends a link and checks that its delays can be believed."""
        late_max_us = round(late_max_ms * 1000)
        report = relay.stop()
        for direction in ("ab", "ba"):
            counts = report[direction]
            late_us = counts["late_us"]["p99"] if counts["sent"] else 0.0
            self.check(
                f"relay {direction}: lateness", late_us < late_max_us,
                f"{late_us:.0f} µs at p99", f"below {late_max_us} µs",
            )  # fmt: skip
            self.check(
                f"relay {direction}: queue", not counts["dropped_full"],
                f"{counts['dropped_full']} packets dropped because the queue was full", "0",
            )  # fmt: skip
        self.facts.setdefault("relays", []).append(report)
        return report

    def check(self, name: str, holds: bool, seen: str, wanted: str) -> None:
        """States what must be so for the run to be believed, and whether it is."""
        self.checks.append(Check(name, holds, seen, wanted))

    def event(self, name: str, **facts: object) -> None:
        """Notes that something happened, now, by the clock that stamps the packets."""
        print(time.time_ns(), name, json.dumps(facts), sep="\t", file=self._events, flush=True)

    def note(self, **facts: object) -> None:
        """Adds facts to the run's report."""
        self.facts.update(facts)

    def progress(self, text: str, duration_s: float = 0.0) -> None:
        """Shows the user the current step, and how long it takes if that is known."""
        self._progress.tell(text, duration_s)

    def close(self) -> None:
        self._progress.finish()
        self._events.close()


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    failed: list[Check]
    wall_s: float

    @property
    def is_accepted(self) -> bool:
        return not self.failed


def perform(
    values: Mapping[str, Any], *, name: str, output: Path, seed: int, wirelens: Path, quiet: bool
) -> Outcome:
    """Runs one scenario and leaves its folder: `name`, or `name.rejected` if a check failed."""
    started_s = time.monotonic()
    drawn = draw(dict(values), seed)
    kind, plan = kinds.parse(drawn)
    machine.require(kind.programs(plan))
    remove_stale()
    growing = _make_folder(output, name)
    try:
        with outputs.naming(growing):
            run, used_s = _act(kind, plan, growing, seed, wirelens, quiet)
            (growing / "scenario.toml").write_text(to_toml({"seed": seed} | drawn) + "\n")
            failed = [check for check in run.checks if not check.holds]
            report = {
                "kind": kind.NAME, "name": name, "seed": seed, "accepted": not failed,
                "wall_s": round(time.monotonic() - started_s, 3), "cpu_s": round(used_s, 3),
                "system": platform.platform(), "cores": os.cpu_count(),
                "checks": [asdict(check) for check in run.checks], **run.facts,
            }  # fmt: skip
            (growing / REPORT_NAME).write_text(json.dumps(report, indent=1) + "\n")
            final = output / (name if not failed else f"{name}.rejected")
            shutil.rmtree(final, ignore_errors=True)  # only a rejected one can be here
            growing.rename(final)
    except BaseException:
        shutil.rmtree(growing, ignore_errors=True)
        raise
    return Outcome(final, failed, time.monotonic() - started_s)


def _act(
    kind: kinds.Kind, plan: Any, folder: Path, seed: int, wirelens: Path, quiet: bool
) -> tuple[Run, float]:
    lab = Lab()
    run = None
    try:
        run = Run(lab, folder, seed, wirelens, quiet)
        before = os.times()
        kind.perform(plan, run)
        after = os.times()
        return run, sum(after[:4]) - sum(before[:4])
    finally:
        # Whatever cannot be written any more, nothing of the lab is left on the machine.
        with contextlib.ExitStack() as ending:
            ending.callback(lab.close)
            ending.callback(_keep_logs, lab, folder)
            if run:
                ending.callback(run.close)


def _keep_logs(lab: Lab, folder: Path) -> None:
    logs = folder / "logs"
    if not folder.exists() or not lab.run_dir.exists():
        return
    # That there is no room for what programs said must not hide why the run failed.
    with contextlib.suppress(OSError):
        logs.mkdir(exist_ok=True)
        for log in lab.run_dir.glob("*.log"):
            if log.stat().st_size:
                shutil.copy(log, logs)


def _make_folder(output: Path, name: str) -> Path:
    final = output / name
    if final.exists():
        raise ScenarioError(
            f"{final}: is there already; try another --seed or -o, or remove that folder"
        )
    growing = output / f"{name}.partial"
    shutil.rmtree(growing, ignore_errors=True)  # left by a run that was killed
    outputs.make_folder(growing)
    return growing


def remove_stale() -> list[str]:
    """Removes what killed runs left on the machine; returns what that was."""
    removed = stale_runs()
    for prefix in removed:
        remove_run(prefix)
    return removed
