"""Calls: two browsers talk over a link that varies, and tell each second how well it goes."""

from __future__ import annotations

import time
from pathlib import Path

from wirelens_testbed import browser
from wirelens_testbed.calls import checks, media
from wirelens_testbed.calls.exchange import Exchange
from wirelens_testbed.calls.plan import CALLEE, CALLER, RECEIVER_FILE, SENDER_FILE, Plan, parse
from wirelens_testbed.lab import Program
from wirelens_testbed.processor import BusyShare
from wirelens_testbed.run import Run
from wirelens_testbed.taps import Tap
from wirelens_testbed.varying_link import HOST_DEVICE, VaryingLink

__all__ = ["NAME", "PROGRAMS", "parse", "perform", "programs"]

NAME = "calls"
PROGRAMS = browser.PROGRAMS | media.PROGRAMS

PAGES = Path(__file__).resolve().parent / "page"
CONNECT_TIME_MAX_S = 40.0
# What is on its way when the call ends, and the statistics of its last second.
SETTLE_S = 1.2


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
        for end in plan.senders
    }
    exchange = Exchange(plan)
    recorder = run.record(
        [
            Tap(CALLER.host, HOST_DEVICE, "both", SENDER_FILE),
            Tap(CALLEE.host, HOST_DEVICE, "both", RECEIVER_FILE),
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
        steps = len(plan.link.steps)
        run.progress(f"a call of {plan.duration_s:g} s over {steps} steps of link", plan.duration_s)
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
    run.relayed(link.relay, plan.late_max_ms)
    exchange.statistics.write(run.folder)
    _state_truth(plan, run, start_ns, end_ns)
    exchange.raise_failure()
    checks.check(plan, run, exchange)


def _start_browser(run: Run, host: str, camera: Path | None) -> Program:
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    if camera:
        flags.append(f"--use-file-for-fake-video-capture={camera}")
    return browser.start_browser(run.lab, host, browser.url_of("call.html"), *flags)


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
    counts = run.truth.finish(run.folder / RECEIVER_FILE)
    run.note(flows=counts)
    run.check(
        "truth", set(counts) == {"call"}, f"flows by label {counts}", "flows of the call alone"
    )
