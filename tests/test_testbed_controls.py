"""Congestion controls in BPF: that they behave as published, and come and go without a trace.

Each runs through a bottleneck of 40 Mbit/s with a round trip of 20 ms, so that 66 packets are on
their way when the queue is empty. What is asserted is the law of a control and not its speed.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median

import pytest
from command import ROOT
from lab import wait_until
from testbed_bottleneck import DURATION_S, PACKET_BYTES, SEGMENT_BYTES, Row, watch
from testbed_runs import need_root
from wirelens_testbed import bpf, controls
from wirelens_testbed.congestion.sender import SAMPLE_INTERVAL_S
from wirelens_testbed.failure import MachineError

# Where the machine stands still, a trace is bent, and the law of a control does not show: it is
# watched again, some seconds later. A wrong law shows in no attempt.
pytestmark = [
    pytest.mark.testbed,
    pytest.mark.flaky(reruns=8, reruns_delay=4, only_rerun=["AssertionError"]),
]

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
BASE_RTT_US = 20_000
THRESHOLD_BYTES = 30_000
# Slow start and what follows from it is over.
SETTLED_S = 2.0


@pytest.fixture(autouse=True)
def as_root() -> None:
    need_root()


# --- Reading traces -------------------------------------------------------------------------


def cuts(rows: list[Row]) -> list[float]:
    """What share of the window was left after each cut, from samples on either side of it."""
    cwnd = [row["cwnd_packets"] for row in rows]
    places = [at for at in range(1, len(cwnd) - 2) if cwnd[at + 1] < 0.93 * cwnd[at]]
    # A recovery may lie under a sample; and one falling on its step shows half a cut.
    return [min(cwnd[at + 1 : at + 3]) / max(cwnd[at - 1 : at + 1]) for at in places]


def climbs(rows: list[Row]) -> Iterator[list[Row]]:
    """The parts of a trace in which the window only grows, without what borders on a cut."""
    part: list[Row] = []
    for row in rows:
        if part and row["cwnd_packets"] < part[-1]["cwnd_packets"]:
            yield part[2:-1]
            part = []
        part.append(row)
    yield part[2:]


def epochs(rows: list[Row]) -> Iterator[list[Row]]:
    """The parts of a trace from loss to loss."""
    part: list[Row] = []
    for row in rows:
        is_cut = part and row["ssthresh_packets"] != part[-1]["ssthresh_packets"]
        # Two cuts to the same size show by the window alone.
        if is_cut or (len(part) > 6 and row["cwnd_packets"] < 0.97 * part[-1]["cwnd_packets"]):
            yield part
            part = []
        part.append(row)
    yield part


def delivered_packets(first: Row, last: Row) -> float:
    return (last["acked_bytes"] - first["acked_bytes"]) / SEGMENT_BYTES


def packets_a_round(first: Row, last: Row) -> float:
    """By how much the window grew in a round trip: the alpha of Reno and its kin.

    A window w that grows by alpha / w for each packet delivered gains alpha n in w² / 2.
    """
    gained = (last["cwnd_packets"] ** 2 - first["cwnd_packets"] ** 2) / 2
    return gained / delivered_packets(first, last)


# --- DCTCP and Prague -----------------------------------------------------------------------

SCALABLE = ("wl_dctcp", "wl_prague")


@pytest.mark.parametrize("control", SCALABLE)
def test_marks_hold_the_queue_at_the_threshold_and_the_link_full(control: str) -> None:
    seen = watch([control], threshold_bytes=THRESHOLD_BYTES, buffer_bytes=200_000)
    sizes = sorted(seen.queue_bytes(SETTLED_S, DURATION_S))
    assert seen.use(SETTLED_S, DURATION_S) > 0.9
    assert 0.6 * THRESHOLD_BYTES < median(sizes) < 1.3 * THRESHOLD_BYTES
    assert sizes[len(sizes) * 9 // 10] < 1.5 * THRESHOLD_BYTES
    assert seen.dropped == 0
    # Few packets are marked, so a window is cut by little: alpha is near sqrt(2 / w) = 0.15
    # (Alizadeh et al. 2010), so a cut takes a thirteenth.
    windows = [row["cwnd_packets"] for row in seen.rows(0, SETTLED_S, DURATION_S)]
    assert min(windows) > 0.75 * max(windows)
    # Each mark is heard of, by the receiver's state machine: with delayed ACKs, yet one by one.
    assert seen.marking
    marks = seen.marking.marked
    assert marks > 100
    assert seen.ends[0]["delivered_ce"] == pytest.approx(marks, rel=0.1)
    assert marks == seen.marking.above_threshold
    assert seen.marking.seen > marks


@pytest.mark.parametrize("control", SCALABLE)
def test_flows_that_are_marked_share_fairly(control: str) -> None:
    # One of them may leave slow start with most of the queue, and marks even that out in seconds.
    seen = watch(
        [control] * 2, threshold_bytes=THRESHOLD_BYTES, buffer_bytes=200_000, duration_s=12
    )
    rates = [seen.rate(flow, 6, 12) for flow in (0, 1)]
    assert sum(rates) > 0.9 * seen.rate_mbit
    assert min(rates) > 0.25 * sum(rates)
    assert seen.dropped == 0


@pytest.mark.parametrize("control", SCALABLE)
def test_a_loss_is_answered_as_reno_does(control: str) -> None:
    seen = watch([control])
    shares = cuts(seen.rows(0, 1, DURATION_S))
    assert len(shares) >= 2
    assert median(shares) == pytest.approx(0.5, abs=0.07)
    assert seen.ends[0]["delivered_ce"] == 0


@pytest.mark.parametrize("control", SCALABLE)
def test_the_field_is_left_to_reno_where_the_peer_takes_no_part(control: str) -> None:
    seen = watch([control], threshold_bytes=THRESHOLD_BYTES, is_at_both_ends=False, duration_s=3)
    assert seen.ends[0]["control"] == "reno"
    assert seen.marking
    assert seen.marking.above_threshold > 0
    assert seen.marking.marked == 0, "a packet said ECN-capable though the ends did not agree"


def test_prague_grows_as_if_no_round_trip_were_shorter_than_25_ms() -> None:
    seen = watch(["wl_prague"], rtt_ms=8, buffer_bytes=60_000, duration_s=8)
    assert seen.use(SETTLED_S, 8) > 0.9
    ratios = [
        packets_a_round(first, last) / (fmean((first["rtt_us"], last["rtt_us"])) / 25_000) ** 2
        for part in climbs(seen.rows(0, SETTLED_S, 8))
        for first, last in zip(part[:-4], part[4:], strict=True)
    ]
    assert len(ratios) > 10
    assert median(ratios) == pytest.approx(1, abs=0.2)


# --- Vegas ----------------------------------------------------------------------------------


@pytest.mark.parametrize("flow_count", [1, 2])
def test_vegas_fills_the_link_with_few_packets_queued(flow_count: int) -> None:
    # At half the rate a packet in the queue is 0.6 ms, well above what a busy machine adds.
    seen = watch(["wl_vegas"] * flow_count, rate_mbit=20)
    assert seen.use(3, DURATION_S) > 0.9
    assert seen.retransmits(3, DURATION_S) < 10
    # Two to four packets a flow by the smallest round trip of each round; bursts come on top.
    queued = median(seen.queue_bytes(3, DURATION_S)) / PACKET_BYTES
    assert flow_count <= queued <= 8 * flow_count
    for flow in range(flow_count):
        assert seen.rate(flow, 3, DURATION_S) > 0.2 * seen.rate_mbit


def test_vegas_yields_to_reno() -> None:
    seen = watch(["wl_vegas", "reno"])
    assert seen.use(SETTLED_S, DURATION_S) > 0.9
    assert seen.rate(0, SETTLED_S, DURATION_S) < 0.3 * seen.rate_mbit


# --- Scalable, Illinois, H-TCP --------------------------------------------------------------


def test_scalable_grows_by_a_share_of_what_is_acknowledged_and_cuts_by_an_eighth() -> None:
    seen = watch(["wl_scalable"])
    rows = seen.rows(0, SETTLED_S, DURATION_S)
    assert seen.use(SETTLED_S, DURATION_S) > 0.9
    assert median(cuts(rows)) == pytest.approx(1 - 1 / 8, abs=0.03)
    gains = [
        (part[-1]["cwnd_packets"] - part[0]["cwnd_packets"]) / delivered_packets(part[0], part[-1])
        for part in climbs(rows)
        if len(part) >= 3
    ]
    assert median(gains) == pytest.approx(0.01, rel=0.2)


def test_illinois_climbs_steeply_from_a_short_queue_and_slowly_into_a_long_one() -> None:
    seen = watch(["wl_illinois"], duration_s=10)
    rows = seen.rows(0, SETTLED_S, 10)
    assert seen.use(SETTLED_S, 10) > 0.9
    assert min(cuts(rows)) == pytest.approx(0.5, abs=0.1), "a full queue costs half the window"
    longest_us = max(row["rtt_us"] for row in rows) - BASE_RTT_US
    ratios = []
    for part in climbs(rows):
        for first, last in zip(part[:-5], part[5:], strict=True):
            share = (fmean((first["rtt_us"], last["rtt_us"])) - BASE_RTT_US) / longest_us
            published = 30 * 0.99 / (3 * 0.99 + 97 * (share - 0.01))
            if share > 0.3:
                ratios.append(packets_a_round(first, last) / published)
    assert len(ratios) > 10
    assert median(ratios) == pytest.approx(1, abs=0.3)


def test_htcp_grows_as_reno_for_a_second_and_then_by_the_square_of_time() -> None:
    # A deep buffer, so that seconds pass between losses.
    seen = watch(["wl_htcp"], buffer_bytes=600_000, duration_s=12)
    assert seen.use(SETTLED_S, 12) > 0.9
    early, ratios = [], []
    for part in epochs(seen.rows(0, 0.5, 12)):
        loss_s = part[0]["time_s"] - SAMPLE_INTERVAL_S / 2
        # By the fourth sample the recovery is over, and the last may be amid the next.
        for first, last in zip(part[4:-4], part[7:-1], strict=True):
            since_s = fmean((first["time_s"], last["time_s"])) - loss_s
            alpha = packets_a_round(first, last)
            if since_s < 0.8:
                early.append(alpha)
            elif since_s > 1.2:
                past_s = since_s - 1
                ratios.append(alpha / (1 + 10 * past_s + past_s**2 / 4))
    assert len(early) >= 2
    assert len(ratios) > 10
    assert median(early) == pytest.approx(1, abs=0.35)
    assert median(ratios) == pytest.approx(1, abs=0.3)


# --- Coming and going -----------------------------------------------------------------------

HOLDER = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from wirelens_testbed import controls\n"
    "with controls.registered([sys.argv[2], 'cubic']):\n"
    "    print('ready', flush=True)\n"
    "    sys.stdin.read()\n"
)


def hold(name: str) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, ROOT / "testbed", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout
    assert holder.stdout.readline() == b"ready\n"
    return holder


def is_offered(name: str) -> bool:
    return name in AVAILABLE.read_text().split()


def test_runs_share_a_control_and_the_last_takes_it_away_even_if_killed() -> None:
    name = "wl_htcp"
    first, second = hold(name), hold(name)
    try:
        first.communicate()
        assert is_offered(name), "the other run still needs it"
        second.send_signal(signal.SIGKILL)
        second.wait()
        wait_until(lambda: not is_offered(name), f"{name} is gone", 60)
    finally:
        for holder in (first, second):
            holder.kill()
            holder.wait()


def test_controls_of_the_kernel_are_left_to_it() -> None:
    before = AVAILABLE.read_text()
    with controls.registered(["reno", "cubic", "unheard_of"]):
        assert "unheard_of" not in AVAILABLE.read_text().split()
    assert AVAILABLE.read_text().split()[:1] == before.split()[:1]


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the objects and their sources, and the script that knows what belongs together."""
    folder = tmp_path / "testbed/bpf"
    shutil.copytree(bpf.FOLDER, folder)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/bpf.sh", tmp_path / "tools")
    monkeypatch.setattr(bpf, "FOLDER", folder)
    return folder


def check(folder: Path) -> int:
    script = folder.parent.parent / "tools/bpf.sh"
    return subprocess.run(["bash", script, "check"], check=False).returncode


def refusal(name: str) -> str:
    with pytest.raises(MachineError) as raised, controls.registered([name]):
        pass
    return str(raised.value)


def test_an_object_that_is_not_of_its_sources_is_refused(objects: Path) -> None:
    assert check(objects) == 0
    with (objects / "tcp.h").open("a") as header:
        header.write("\n")
    assert check(objects) != 0
    assert refusal("wl_vegas").endswith("not as built: ./tcp.h; try: make bpf")


def test_an_object_that_was_forgotten_is_missed(objects: Path) -> None:
    shutil.copy(objects / "wl_vegas.bpf.c", objects / "wl_new.bpf.c")
    assert check(objects) != 0
    (objects / "wl_new.bpf.c").unlink()
    (objects / "wl_vegas.bpf.o").unlink()
    assert check(objects) != 0
    assert refusal("wl_vegas").endswith("wl_vegas.bpf.o: No such file or directory; try: make bpf")


def test_an_object_that_the_kernel_refuses_is_told_with_its_reason(objects: Path) -> None:
    path = objects / "wl_vegas.bpf.o"
    # A field that no kernel has, so that its place is unknown and the access invalid.
    path.write_bytes(path.read_bytes().replace(b"snd_cwnd_clamp", b"snd_cwnd_clamq"))
    names = [line.split()[1] for line in (objects / "SHA256SUMS").read_text().splitlines()]
    sums = subprocess.run(["sha256sum", *names], cwd=objects, check=True, capture_output=True)
    (objects / "SHA256SUMS").write_bytes(sums.stdout)
    said = refusal("wl_vegas")
    assert said.startswith(f"BPF object wl_vegas: Linux {os.uname().release} does not take it")
    assert "snd_cwnd_clamq" in said
