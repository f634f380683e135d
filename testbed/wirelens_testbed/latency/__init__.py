"""Latency: a browser fetches video or pages, and each packet's time on its way is known.

The packets are stamped at both ends by one clock, since both ends are on one machine: the one-way
delay needs no clocks to be in step.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from wirelens_testbed import browser, machine
from wirelens_testbed.failure import LabError
from wirelens_testbed.latency import content, matching, server
from wirelens_testbed.latency.plan import VIDEO, Plan, parse
from wirelens_testbed.pcapng import read_packets
from wirelens_testbed.processor import BusyShare
from wirelens_testbed.run import Run
from wirelens_testbed.taps import Tap
from wirelens_testbed.varying_link import HOST_DEVICE, NEAR, End, VaryingLink

__all__ = ["NAME", "PROGRAMS", "parse", "perform", "programs"]

NAME = "latency"
PROGRAMS = browser.PROGRAMS | content.PROGRAMS | server.PROGRAMS

SERVER, CLIENT = End("server", "10.1.0"), End("client", "10.2.0")
SENDER_FILE, RECEIVER_FILE = "sender.pcapng", "receiver.pcapng"
PAGES = Path(__file__).resolve().parent / "page"
BEGIN_TIME_MAX_S = 30.0
# For the last packet to arrive after the browser has ended; the link's delay comes on top.
SETTLE_S = 0.5
MATCHED_SHARE_MIN = 0.999
# A copy that comes second is told of by nobody, nor is what arrives after its reader has gone.
ACKNOWLEDGED_SHARE_MIN = 0.98
RELAY_DROPS = ("lost", "dropped_before", "dropped_full", "dropped_closed", "waiting")


def programs(plan: Plan) -> dict[str, str]:
    """The browser, the server, and what makes the video."""
    return PROGRAMS


def perform(plan: Plan, run: Run) -> None:
    """Lets a browser fetch over the link, records both ends, and follows each packet."""
    lab = run.lab
    machine.require_controls({plan.control})
    run.progress("building server, link and client")
    link = VaryingLink(run, plan.link, SERVER, CLIENT)
    _choose_control(plan, run)
    root = lab.run_dir / "www"
    root.mkdir()
    if plan.traffic == VIDEO:
        content.make_video(lab, SERVER.host, plan.video, root, run.rng)
    else:
        content.make_pages(plan.web, root, run.rng)
    key_hash = server.start_server(lab, SERVER.host, SERVER.address, plan, root)
    recorder = run.record(
        [
            Tap(SERVER.host, HOST_DEVICE, "both", SENDER_FILE),
            Tap(CLIENT.host, HOST_DEVICE, "both", RECEIVER_FILE),
        ],
        plan.snaplen,
    )
    start_ns = time.time_ns()
    user = User(plan, run)
    with browser.PageServer(lab, [CLIENT.host], PAGES, user.answers()):
        trust = [f"--ignore-certificate-errors-spki-list={key_hash}"] if key_hash else []
        page = browser.url_of(f"{plan.traffic}.html")
        client = browser.start_browser(lab, CLIENT.host, page, *trust)
        lab.wait_until(user.is_settled, "the browser fetching something", BEGIN_TIME_MAX_S)
        user.raise_failure()
        _check_control(plan, run)
        run.progress(f"{plan.traffic} for {plan.duration_s:g} s", plan.duration_s)
        busy = BusyShare()
        link.follow(plan.duration_s)
        run.note(cpu_busy_share=round(busy.until_now(), 3))
        lab.stop(client)
    lab.pause(SETTLE_S + 2 * max(step.delay_ms for step in plan.link.steps) / 1000)
    run.recorded(recorder)
    queue_drops = link.queue_drops()
    report = run.relayed(link.relay, plan.late_max_ms)
    user.raise_failure()
    run.check(
        "progress", user.progress_count > 0, f"{user.progress_count} segments or pages", "some"
    )
    _state_truth(plan, run, start_ns, time.time_ns())
    _follow_packets(run, queue_drops[NEAR], report["ab"])


def _choose_control(plan: Plan, run: Run) -> None:
    # By the route, which may name any control that the kernel has; a namespace's default may not.
    route = f"route replace default via {SERVER.network}.1 congctl {plan.control}"
    run.lab.ip(SERVER.host, route)


def _check_control(plan: Plan, run: Run) -> None:
    printed = run.lab.run(SERVER.host, "ss", "-Htin", f"sport = :{plan.port}").decode()
    # Each connection takes two lines, of which the second begins with the control.
    controls = {line.split()[0] for line in printed.splitlines()[1::2]}
    run.check(
        "control", controls <= {plan.control}, ", ".join(controls) or "no connection", plan.control
    )


class User:
    """What the page asks and tells: where to go next, how it went."""

    def __init__(self, plan: Plan, run: Run) -> None:
        self.progress_count = 0
        self._plan, self._run = plan, run
        self._lock = threading.Lock()
        self._failures: list[str] = []
        self._origin = f"{'https' if plan.tls else 'http'}://{SERVER.address}"

    def answers(self) -> dict[str, browser.Answer]:
        return {
            "settings": self._settings,
            "next": self._next,
            "progress": self._take_progress,
            "player": lambda host, sent: self._tell("player", sent),
            "failure": self._take_failure,
        }

    def is_settled(self) -> bool:
        return self.progress_count > 0 or bool(self._failures)

    def raise_failure(self) -> None:
        if self._failures:
            raise LabError(f"the page failed: {'; '.join(self._failures)}")

    def _settings(self, host: str, _: Any) -> dict[str, Any]:
        video = self._plan.video
        return {
            "origin": self._origin,
            "rates_kbit": video.rates_kbit,
            "segments": content.LOOP_SEGMENTS,
            "segment_s": video.segment_s,
            "buffer_s": video.buffer_s,
        }

    def _next(self, host: str, _: Any) -> dict[str, Any]:
        page = self._run.rng.randrange(self._plan.web.pages)
        return {
            "page": page,
            "url": f"{self._origin}/page{page}/index.html",
            "think_ms": round(1000 * self._run.rng.uniform(0, self._plan.web.think_s_max)),
        }

    def _take_progress(self, host: str, sent: Any) -> None:
        self.progress_count += 1
        self._tell("segment" if self._plan.traffic == VIDEO else "page", sent)

    def _tell(self, name: str, sent: Any) -> None:
        with self._lock:
            self._run.event(name, **sent)

    def _take_failure(self, host: str, sent: Any) -> None:
        self._failures.append(sent["message"])


def _state_truth(plan: Plan, run: Run, start_ns: int, end_ns: int) -> None:
    run.truth.add(
        label=plan.traffic,
        client=(CLIENT.address, None),
        server=(SERVER.address, plan.port),
        start_ns=start_ns,
        end_ns=end_ns,
        protocol="tcp",
        http=2 if plan.http2 else 1.1,
        tls=int(plan.tls),
        control=plan.control,
    )
    counts = run.truth.finish(run.folder / SENDER_FILE)
    run.note(flows=counts)
    run.check(
        "truth", set(counts) == {plan.traffic}, f"flows by label {counts}",
        f"flows of the {plan.traffic} alone",
    )  # fmt: skip


def _follow_packets(run: Run, queue_drops: int, relayed: dict[str, Any]) -> None:
    run.progress("telling of each packet when it arrived and was acknowledged")
    matcher = matching.Matcher(SERVER.address, CLIENT.address)
    matcher.run(read_packets(run.folder / SENDER_FILE), read_packets(run.folder / RECEIVER_FILE))
    packets, counts = matcher.packets, matcher.counts
    matching.write(packets, run.folder / "packets.tsv.gz")
    owd_min_us = matching.owd_min_us(packets)
    arrived = sum(map(bool, packets.received_ns))
    acknowledged = sum(map(bool, packets.ack_ns))
    run.note(
        packets={
            "data": len(packets.number), "data_arrived": arrived, "sent": counts.sent,
            "received": counts.received, "owd_min_us": owd_min_us,
            "acknowledged": acknowledged,
            "repeated": sum(copy > 1 for copy in packets.copy),
        }
    )  # fmt: skip
    matched = 1 - counts.received_unknown / max(counts.received, 1)
    run.check(
        "matched", matched >= MATCHED_SHARE_MIN and arrived > 0,
        f"{matched:.4%} of the packets received, {arrived} of them with data",
        f"at least {MATCHED_SHARE_MIN:.1%}",
    )  # fmt: skip
    run.check(
        "acknowledged", acknowledged >= ACKNOWLEDGED_SHARE_MIN * arrived,
        f"{acknowledged} of {arrived} packets that arrived", f"at least {ACKNOWLEDGED_SHARE_MIN:.0%}",
    )  # fmt: skip
    run.check("one-way delay", owd_min_us >= 0, f"{owd_min_us:.0f} µs at least", "0 or more")
    relay_drops = sum(relayed[cause] or 0 for cause in RELAY_DROPS)
    run.check(
        "losses", counts.lost == queue_drops + relay_drops,
        f"{counts.lost} packets did not arrive, the queue dropped {queue_drops} and the relay "
        f"{relay_drops}",
        "the same",
    )  # fmt: skip
