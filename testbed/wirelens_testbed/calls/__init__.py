"""Calls: two browsers talk over a link that varies, and tell each second how well it goes."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from wirelens_testbed import browser
from wirelens_testbed.calls import media, rtp
from wirelens_testbed.calls.plan import KEEPS, Plan, parse
from wirelens_testbed.calls.statistics import TIER_COUNT, Statistics, tier
from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import Program
from wirelens_testbed.processor import BusyShare
from wirelens_testbed.run import Run
from wirelens_testbed.taps import Tap
from wirelens_testbed.varying_link import HOST_DEVICE, End, VaryingLink

__all__ = ["NAME", "PROGRAMS", "parse", "perform", "programs"]

NAME = "calls"
PROGRAMS = browser.PROGRAMS | media.PROGRAMS

CALLER, CALLEE = End("caller", "10.1.0"), End("callee", "10.2.0")
PAGES = Path(__file__).resolve().parent / "page"
CONNECT_TIME_MAX_S = 40.0
# What is on its way when the call ends, and the statistics of its last second.
SETTLE_S = 1.2

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


def programs(plan: Plan) -> dict[str, str]:
    """The browser, and what makes the pictures its camera sees."""
    return PROGRAMS


def perform(plan: Plan, run: Run) -> None:
    """Connects two browsers over the link, follows the schedule, and states what was seen."""
    lab = run.lab
    run.progress("building caller, link and callee")
    link = VaryingLink(run, plan.link, CALLER, CALLEE)
    cameras = {
        end.host: media.make_camera_file(lab, end.host, plan.camera, run.rng)
        for end in _senders(plan)
    }
    exchange = Exchange(plan)
    recorder = run.record(
        [
            Tap(CALLER.host, HOST_DEVICE, "both", "sender.pcapng"),
            Tap(CALLEE.host, HOST_DEVICE, "both", "receiver.pcapng"),
        ],
        plan.snaplen,
    )
    start_ns = time.time_ns()
    hosts = [CALLER.host, CALLEE.host]
    with browser.PageServer(lab, hosts, PAGES, exchange.answers()):
        browsers = [_start_browser(run, host, cameras.get(host)) for host in hosts]
        lab.wait_until(exchange.is_settled, "the call connecting", CONNECT_TIME_MAX_S)
        exchange.raise_failure()
        run.event("connected")
        run.progress(f"a call of {plan.duration_s:g} s over {len(plan.link.steps)} steps of link")
        busy = BusyShare()
        link.follow(plan.duration_s)
        run.event("hung-up")
        run.note(cpu_busy_share=round(busy.until_now(), 3))
        lab.pause(SETTLE_S)
        # Before the browsers end: what arrives at a closed port is answered by ICMP.
        run.recorded(recorder)
        end_ns = time.time_ns()
        lab.stop(*browsers)
    run.note(queue_drops=link.queue_drops())
    run.relayed(link.relay)
    exchange.statistics.write(run.folder)
    _state_truth(plan, run, start_ns, end_ns)
    _check(plan, run, exchange)


def _senders(plan: Plan) -> list[End]:
    return [CALLER, CALLEE] if plan.is_two_way else [CALLER]


def _start_browser(run: Run, host: str, camera: Path | None) -> Program:
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    if camera:
        flags.append(f"--use-file-for-fake-video-capture={camera}")
    return browser.start_browser(run.lab, host, browser.url_of("call.html"), *flags)


class Exchange:
    """What the pages ask and tell: settings, offer, answer, states and statistics."""

    def __init__(self, plan: Plan) -> None:
        self.statistics = Statistics(plan.warm_up_s)
        self.states: dict[str, list[str]] = {CALLER.host: [], CALLEE.host: []}
        self._plan = plan
        self._lock = threading.Lock()
        self._descriptions: dict[str, Any] = {}
        self._failures: list[str] = []

    def answers(self) -> dict[str, browser.Answer]:
        return {
            "settings": self._settings,
            "offer": lambda host, sent: self._description("offer", sent),
            "answer": lambda host, sent: self._description("answer", sent),
            "state": self._take_state,
            "statistics": self._take_statistics,
            "failure": self._take_failure,
        }

    def is_settled(self) -> bool:
        """Whether both ends are connected, or one has told why it cannot."""
        connected = all("connected" in states for states in self.states.values())
        return connected or bool(self._failures)

    def raise_failure(self) -> None:
        if self._failures:
            raise LabError(f"the call's page failed: {'; '.join(self._failures)}")

    def _settings(self, host: str, _: Any) -> dict[str, Any]:
        plan, camera = self._plan, self._plan.camera
        content_hint, preference = KEEPS[plan.keeps]
        return {
            "calls": host == CALLER.host,
            "sends": host in {end.host for end in _senders(plan)},
            "audio": plan.audio,
            "codec": plan.codec,
            "width": camera.width,
            "height": camera.height,
            "frames_per_second": camera.frames_per_second,
            "content_hint": content_hint,
            "degradation_preference": preference,
            "bits_per_s_max": plan.bits_per_s_max,
        }

    def _description(self, name: str, sent: Any) -> Any:
        with self._lock:
            if sent is not None:
                self._descriptions[name] = sent
            if name not in self._descriptions:
                raise browser.NothingYet
            return self._descriptions[name]

    def _take_state(self, host: str, sent: Any) -> None:
        self.states[host].append(sent["state"])

    def _take_statistics(self, host: str, sent: Any) -> None:
        with self._lock:
            self.statistics.take(host, sent)

    def _take_failure(self, host: str, sent: Any) -> None:
        self._failures.append(f"{host}: {sent['message']}")


def _state_truth(plan: Plan, run: Run, start_ns: int, end_ns: int) -> None:
    run.truth.add(
        label="call",
        protocol="udp",
        client=(CALLER.address, None),
        server=(CALLEE.address, None),
        start_ns=start_ns,
        end_ns=end_ns,
        media="video+audio" if plan.audio else "video",
        codec=plan.codec,
        ways=2 if plan.is_two_way else 1,
    )
    counts = run.truth.finish(run.folder / "receiver.pcapng")
    run.note(flows=counts)
    run.check(
        "truth", set(counts) == {"call"}, f"flows by label {counts}", "flows of the call alone"
    )


def _check(plan: Plan, run: Run, exchange: Exchange) -> None:
    exchange.raise_failure()
    statistics = exchange.statistics
    for host, states in exchange.states.items():
        run.check(
            f"{host}: connection",
            "failed" not in states,
            " → ".join(states),
            "connected, not failed",
        )
    receivers = [CALLEE, CALLER] if plan.is_two_way else [CALLEE]
    for end in receivers:
        rows = [row for row in statistics.receiver if row["host"] == end.host]
        _check_rows(plan, run, end.host, rows)
        capture = "receiver.pcapng" if end is CALLEE else "sender.pcapng"
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
