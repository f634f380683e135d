"""A new router is asked what the one of a run was asked: a run that it answers otherwise proves
nothing."""

from __future__ import annotations

import json
import subprocess

from wirelens_testbed.run import Run

TIME_MAX_S = 120.0


def check(run: Run, journal: str, settings: str, seed: int, start_ns: int) -> None:
    """Replays a journal of the run's folder, and checks that all answers are the same."""
    done = subprocess.run(
        [
            run.wirelens, "testbed", "replay", run.folder / journal, "--router", settings,
            "--seed", str(seed), "--start", str(start_ns),
        ],
        check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TIME_MAX_S,
    )  # fmt: skip
    run.note(replay=json.loads(done.stdout) if done.stdout else None)
    run.check("replay", done.returncode == 0, done.stderr.strip() or "the same", "the same")
