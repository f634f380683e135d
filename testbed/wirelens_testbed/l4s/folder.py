"""What a run of any world leaves in its folder, and that its decisions replay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from wirelens_testbed.run import Run

TRACE, JOURNAL, META, FLOWS = "trace.l4s", "journal.l4s", "meta.json", "flows.tsv"
META_VERSION = 1
QUEUES = ("l4s", "classic")
REPLAY_TIME_MAX_S = 120.0


def dropped(queue: Mapping[str, Any]) -> int:
    """Packets of a queue that were dropped for any cause."""
    return sum(queue[f"dropped_{why}"] for why in ("full", "early", "late"))


def marked(queue: Mapping[str, Any]) -> int:
    """Packets of a queue that were marked for any cause."""
    return int(queue["marked_pi"] + queue["marked_threshold"])


def write_truth(run: Run, meta: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]) -> None:
    """Writes what the trace is of: `meta.json`, and its flows as a table as well."""
    whole = {"version": META_VERSION, **meta, "trace": TRACE, "journal": JOURNAL}
    ordered = sorted(flows, key=lambda row: (row["flow"] is None, row["flow"]))
    (run.folder / META).write_text(json.dumps({**whole, "flows": ordered}, indent=1) + "\n")
    lines = ("\t".join(map(str, row.values())) for row in flows)
    (run.folder / FLOWS).write_text("\n".join(["\t".join(flows[0]), *lines]) + "\n")


def check_replay(run: Run, settings: str, seed: int, start_ns: int) -> None:
    """Asks a new router what this one was asked: a run that it answers otherwise proves nothing."""
    done = subprocess.run(
        [
            run.wirelens, "testbed", "replay", run.folder / JOURNAL, "--router", settings,
            "--seed", str(seed), "--start", str(start_ns),
        ],
        check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=REPLAY_TIME_MAX_S,
    )  # fmt: skip
    run.note(replay=json.loads(done.stdout) if done.stdout else None)
    run.check("replay", done.returncode == 0, done.stderr.strip() or "the same", "the same")
