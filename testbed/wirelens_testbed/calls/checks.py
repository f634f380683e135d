"""Whether a call can be believed: it was connected, it was seen whole, and it had the machine."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from wirelens_testbed.calls import rtp
from wirelens_testbed.calls.exchange import Exchange
from wirelens_testbed.calls.plan import CALLEE, RECEIVER_FILE, SENDER_FILE, Plan
from wirelens_testbed.calls.statistics import TIER_COUNT, Statistics, tier
from wirelens_testbed.run import Run

GAP_MAX_S = 2.0
# Frames of a second as counted from the capture and by the browser: a frame may be complete for one
# just before, and for the other just after, the second's end.
FRAMES_OFF_MAX = 2
FRAMES_AGREE_SHARE_MIN = 0.9
# A browser counts a frame when all it refers to is there, so a repair delays what follows as well.
REPAIR_S = 3
STARVED_SHARE_MAX = 0.05
CAMERA_FPS_SHARE_MIN = 0.8
LATE_MS_MAX = 33
NS_PER_S = 1_000_000_000


def check(plan: Plan, run: Run, exchange: Exchange) -> None:
    """States all checks of a call, and how its seconds spread over the tiers of frame rates."""
    statistics = exchange.statistics
    for host, states in exchange.states.items():
        run.check(
            f"{host}: connection",
            "failed" not in states,
            " → ".join(states),
            "connected, not failed",
        )
    for end in plan.receivers:
        rows = [row for row in statistics.receiver if row["host"] == end.host]
        _check_rows(plan, run, end.host, rows)
        capture = RECEIVER_FILE if end is CALLEE else SENDER_FILE
        _check_frames(run, end.host, rows, run.folder / capture)
    _check_processor(plan, run, statistics)
    tiers = [0] * TIER_COUNT
    for row in statistics.receiver:
        tiers[tier(row["frames_per_second"])] += not row["warm_up"]
    run.note(seconds_by_tier=tiers)


def _check_processor(plan: Plan, run: Run, statistics: Statistics) -> None:
    """Frames must be missing for the link's sake, not because the machine had too much to do."""
    rows = statistics.sender
    limited = sum(row["limited_by"] == "cpu" for row in rows) / max(len(rows), 1)
    run.check(
        "processor", limited <= STARVED_SHARE_MAX,
        f"encoders short of processor time in {limited:.1%} of the seconds",
        f"at most {STARVED_SHARE_MAX:.0%}",
    )  # fmt: skip
    fps_min = CAMERA_FPS_SHARE_MIN * plan.camera.frames_per_second
    steady = [row for row in rows if not row["warm_up"]]
    received = [row for row in statistics.receiver if not row["warm_up"]]
    starved = sum(row["camera_frames_per_second"] < fps_min for row in steady)
    run.check(
        "camera", starved <= STARVED_SHARE_MAX * len(steady),
        f"below {fps_min:.0f} frames per second in {starved} of {len(steady)} s",
        f"at most {STARVED_SHARE_MAX:.0%} of them",
    )  # fmt: skip
    # The pages' clocks strike on the second; a page that comes late to that comes late to its
    # frames.
    late_ms = sorted(row["time_ns"] % NS_PER_S / 1e6 for row in [*steady, *received])
    seen_ms = late_ms[int(len(late_ms) * (1 - STARVED_SHARE_MAX))] if late_ms else 0.0
    run.check(
        "punctuality", seen_ms <= LATE_MS_MAX,
        f"{seen_ms:.0f} ms late at p{100 * (1 - STARVED_SHARE_MAX):.0f}",
        f"at most {LATE_MS_MAX} ms, the time of a frame",
    )  # fmt: skip


def _check_rows(plan: Plan, run: Run, host: str, rows: list[dict[str, Any]]) -> None:
    gaps_s = [(b["time_ns"] - a["time_ns"]) / 1e9 for a, b in pairwise(rows)]
    gap_max_s = max(gaps_s, default=float("inf"))
    run.check(
        f"{host}: statistics", len(rows) >= plan.duration_s - 1 and gap_max_s <= GAP_MAX_S,
        f"{len(rows)} rows, up to {gap_max_s:.2f} s apart",
        f"one a second for {plan.duration_s:g} s, none over {GAP_MAX_S} s after the one before",
    )  # fmt: skip


def _check_frames(run: Run, host: str, rows: list[dict[str, Any]], capture: Path) -> None:
    """Holds the browser's counts against the capture, in seconds in which nothing was repaired."""
    if not rows:
        return
    ends_ns = [row["time_ns"] for row in rows]
    counted = rtp.frames_per_interval(rtp.read_rtp(capture), rows[-1]["ssrc"], ends_ns)
    agree = [
        abs(frames - row["frames_received"]) <= FRAMES_OFF_MAX
        for index, (frames, row) in enumerate(zip(counted, rows[1:], strict=True), start=1)
        if not row["warm_up"]
        and not any(map(_is_repaired, rows[max(index - REPAIR_S, 0) : index + 1]))
    ]
    share = sum(agree) / max(len(agree), 1)
    run.check(
        f"{host}: frames", share >= FRAMES_AGREE_SHARE_MIN or not agree,
        f"capture and browser within {FRAMES_OFF_MAX} frames in {share:.1%} of {len(agree)} s",
        f"at least {FRAMES_AGREE_SHARE_MIN:.0%} of the seconds without repair",
    )  # fmt: skip


def _is_repaired(row: dict[str, Any]) -> bool:
    return bool(row["packets_lost"] or row["nacks_sent"] or row["freezes"])
