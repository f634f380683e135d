"""The life of a run: what it leaves, what it never leaves, and how it says no.

Without root most are skipped; root has to be able to run them.
"""

import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from command import ENVIRONMENT, PROGRAM
from testbed_runs import (
    AT_ANY_TIME,
    SCENARIOS,
    left_behind,
    need_root,
    run_scenario,
    testbed,
)
from wirelens_testbed import machine, probe
from wirelens_testbed.congestion import sender
from wirelens_testbed.pcapng import read_packets

SMALL = SCENARIOS / "congestion-small.toml"
NOBODY = 65534
# The janitor ends what still runs, first gently; that may take its time on a busy machine.
CLEAN_TIME_MAX_S = 20


def wait_until_clean() -> list[str]:
    deadline = time.monotonic() + CLEAN_TIME_MAX_S
    # The kernel lets go of programs a little after the process that held them.
    while (found := left_behind() + links_of_bpf()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def start(output: Path, *arguments: str) -> subprocess.Popen[str]:
    need_root()
    return subprocess.Popen(
        [PROGRAM, "testbed", *arguments, "-o", output],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


@pytest.mark.testbed
def test_a_congestion_run_knows_the_fate_of_every_packet(tmp_path: Path) -> None:
    run = run_scenario(SMALL, tmp_path, *AT_ANY_TIME)
    assert not left_behind()
    assert run.failed_checks() == []
    flows = run.table("flows.tsv")
    assert Counter(flow["label"] for flow in flows) == {"reno": 1, "cubic": 1, "bbr": 1}
    assert all(int(flow["acked_bytes"]) > 100_000 for flow in flows)
    # Nothing is faster than its propagation delay, which the relay adds.
    assert all(int(flow["rtt_min_us"]) >= 980 * float(flow["rtt_ms"]) for flow in flows)
    packets = run.table("packets.tsv.gz")
    queue = run.report["queue"]
    assert (
        len(packets) == queue["came"] == sum(1 for _ in read_packets(run.folder / "before.pcapng"))
    )
    dropped = sum(int(packet["dropped"]) for packet in packets)
    assert dropped == queue["dropped"] and queue["came"] == queue["left"] + dropped
    waits_ns = [
        int(packet["departed_ns"]) - int(packet["time_ns"])
        for packet in packets
        if packet["departed_ns"]
    ]
    assert min(waits_ns) >= 0
    # The buffer of 100 kB takes 40 ms at 20 Mbit/s: it was filled, and never by more than it holds.
    assert 30e6 < max(waits_ns) < 60e6
    # tshark, which shares no code with us, finds the same packets.
    counted = subprocess.run(
        ["tshark", "-r", run.folder / "after.pcapng", "-T", "fields", "-e", "tcp.srcport"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    by_port = Counter(counted)
    sent = Counter(packet["flow"] for packet in packets if packet["departed_ns"])
    assert {flow["src_port"]: sent[flow["flow"]] for flow in flows} == dict(by_port)


@pytest.mark.testbed
@pytest.mark.parametrize("setting", ["link.shaper=htb", "link.offloads=true"])
def test_the_account_holds_for_other_queues(tmp_path: Path, setting: str) -> None:
    asked = ("--set", "duration_s=2", "--set", setting)
    run = run_scenario(SMALL, tmp_path, *AT_ANY_TIME, *asked)
    assert run.failed_checks() == []
    before, after = run.report["taps"]
    assert run.report["queue"]["left"] == run.report["queue"]["sent"] == after["tc"]["segments"]
    assert (before["tc"]["segments"] > before["tc"]["packets"]) == ("offloads" in setting)


SLOW = """
kind = "congestion"
duration_s = 4
packet_truth = false
late_max_ms = 1000

[link]
rate_mbit = 10
buffer_bytes = 2_000_000

[[flows]]
count = 2
control = "reno"
rtt_ms = 100.0
"""


@pytest.mark.testbed
def test_the_queue_is_read_when_closed_sockets_have_answered(tmp_path: Path) -> None:
    scenario = tmp_path / "slow.toml"
    scenario.write_text(SLOW)
    # A full queue holds 1.6 s, and the sockets close half a second after the last byte was sent. A
    # run that its checks reject would be made again, and pass by chance.
    run = run_scenario(scenario, tmp_path, attempts=1)
    assert run.failed_checks() == []
    assert run.report["queue"]["left"] == run.report["queue"]["sent"]


GIGABIT = """
kind = "congestion"
duration_s = 1.5
packet_truth = false
# In what order packets come does not depend on how busy the machine is.
late_max_ms = 100

[link]
rate_mbit = 1000
buffer_bytes = 1_000_000

[[flows]]
count = 3
control = "cubic"
rtt_ms = 0.0
"""


@pytest.mark.testbed
def test_packets_stay_in_order_where_nothing_delays_them(tmp_path: Path) -> None:
    scenario = tmp_path / "gigabit.toml"
    scenario.write_text(GIGABIT)
    run = run_scenario(scenario, tmp_path)
    assert run.failed_checks() == []
    assert "relays" not in run.report and run.report["queue"]["came"] > 10_000
    highest: dict[bytes, int] = {}
    late = total = 0
    for packet in read_packets(run.folder / "after.pcapng"):
        source, number = packet.data[26:30], int.from_bytes(packet.data[38:42], "big")
        ahead = (number - highest.get(source, number)) % 2**32
        late += ahead >= 2**31
        total += 1
        if ahead < 2**31:
            highest[source] = number
    # What is sent again comes late, too; of packets that overtake each other it is a quarter.
    assert late < 0.05 * total, f"{late} of {total}"


def test_a_sender_looks_at_the_clock_however_fast_the_link() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reading = threading.Thread(
            target=lambda: [None for _ in iter(lambda: theirs.recv(65536), b"")]
        )
        flow = sender.Flow({"size_bytes": 0}, connection=ours)
        reading.start()
        with selectors.DefaultSelector() as selector:
            flow.pump(selector)
        ours.close()
        reading.join()
    assert flow.sent_bytes == sender.CHUNKS_A_TURN * len(sender.CHUNK)


@pytest.mark.testbed
def test_a_run_killed_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    moments = random.Random(1)
    # The second also registers congestion controls and attaches a program that marks.
    for attempt, scenario in enumerate([SMALL, SCENARIOS / "congestion-controls.toml"] * 3):
        run = start(tmp_path, "run", scenario, "--set", "duration_s=2")
        time.sleep(moments.uniform(0.1, 4.0))
        run.kill()
        run.communicate()
        assert wait_until_clean() == [], f"attempt {attempt}"
        assert links_of_bpf() == []
    # What it had written so far is no hindrance to the next.
    assert not [path for path in tmp_path.iterdir() if not path.name.endswith(".partial")]
    run = run_scenario(SMALL, tmp_path, *AT_ANY_TIME, "--set", "duration_s=2")
    assert run.folder.is_dir() and not run.folder.with_name(f"{run.folder.name}.partial").exists()


def links_of_bpf() -> list[str]:
    """Programs at devices, and congestion controls, that something still holds in the kernel."""
    listed = subprocess.run(
        ["bpftool", "--json", "link", "list"], check=True, capture_output=True, text=True
    )
    links = json.loads(listed.stdout or "[]")
    # An older bpftool knows no name for what is attached at tc by a link (BPF_LINK_TYPE_TCX).
    return [str(link) for link in links if link.get("type") in ("tcx", 11, "struct_ops")]


@pytest.mark.testbed
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_an_interrupted_run_cleans_up_before_it_ends(tmp_path: Path, number: int) -> None:
    run = start(tmp_path, "run", SMALL)
    time.sleep(2.5)
    run.send_signal(number)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "interrupted; everything was removed" in said
    assert not left_behind()
    assert not list(tmp_path.iterdir())


SHORT_RUNS = f"""
scenario = "{SMALL}"
runs = 6
parallel = 3
attempts = 5

[set]
duration_s = 5
late_max_ms = 1000
"""


@pytest.mark.testbed
def test_a_data_set_goes_on_where_it_stopped(tmp_path: Path) -> None:
    name = tmp_path / "short.toml"
    name.write_text(SHORT_RUNS)
    making = start(tmp_path, "make", name, "--runs", "3")
    folder = tmp_path / name.stem
    deadline = time.monotonic() + 60
    while not list(folder.glob("*/run.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    making.kill()
    making.communicate()
    assert wait_until_clean() == []
    there = {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("0*/run.json")}
    assert there
    done = testbed("make", name, "--runs", "3", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    for run, written_ns in there.items():
        if not run.endswith(".rejected"):
            assert (folder / run / "run.json").stat().st_mtime_ns == written_ns
    rows = (folder / "runs.tsv").read_text().splitlines()
    assert [row.split("\t")[0] for row in rows[1:]] == ["0000", "0001", "0002"]
    (folder / "dataset.toml").write_text("other")
    done = testbed("make", name, "-o", tmp_path)
    assert done.returncode == 1 and "made from another text of this data set" in done.stderr


@pytest.mark.testbed
def test_a_run_does_not_overwrite_another(tmp_path: Path) -> None:
    need_root()
    (tmp_path / "congestion-small-1").mkdir()
    done = testbed("run", SMALL, "-o", tmp_path)
    assert done.returncode == 1
    assert "is there already; try another --seed or -o" in done.stderr
    assert not left_behind()


@pytest.mark.testbed
def test_what_the_kernel_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    need_root()
    assert probe.missing_features(PROGRAM) == []
    lacking = (("fair queues", "CONFIG_NET_SCH_X", "tc", "qdisc add dev probe0 root nosuch"),)
    monkeypatch.setattr(probe, "STEPS", lacking)
    (lack,) = probe.missing_features(PROGRAM)
    assert lack.startswith("no fair queues (CONFIG_NET_SCH_X): ")
    assert not left_behind()


def test_a_user_without_rights_is_told_what_it_takes(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        # Run as somebody else, who must be able to read what we run.
        said = subprocess.run(
            [sys.executable, "-c", RUN_AS_NOBODY], check=False, capture_output=True, text=True
        )
        assert "runs as user id 65534, but network namespaces take root" in said.stdout
    else:
        done = testbed("run", SMALL, "-o", tmp_path)
        assert done.returncode == 1
        assert "but network namespaces take root; try sudo" in done.stderr


RUN_AS_NOBODY = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from wirelens_testbed import machine, probe
from wirelens_testbed.congestion import sender
os.setuid({NOBODY})
print(machine.what_is_missing({{}}))
"""


def test_missing_programs_are_named_with_their_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "PROGRAM_PATH", str(tmp_path))
    (lack,) = [
        lack for lack in machine.what_is_missing({"nmap": "nmap"}) if "programs are missing" in lack
    ]
    assert "ethtool, ip, nmap, ss, tc" in lack
    assert "apt-get install --no-install-recommends ethtool iproute2 nmap" in lack


def test_a_control_that_the_kernel_lacks_is_named() -> None:
    with pytest.raises(machine.MachineError, match="congestion control nosuch: the kernel offers"):
        machine.require_controls(["nosuch"])
