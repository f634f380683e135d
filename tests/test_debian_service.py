"""The Debian package on a machine with systemd: its service is started, watched, reloaded, upgraded
while packets come, and purged; the unit's drop-ins and instances start.

systemd is PID 1 of namespaces of the test's own (booted.py)."""

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from booted import Machine, booted, with_systemd
from command import ROOT, Ran, wirelens
from lab import datagram, identity, inside, wait_until
from roots import kept
from test_debian import QUICK, make

pytestmark = [
    pytest.mark.testbed,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and chroot take root"),
]

UNIT = ROOT / "deploy/systemd/wirelens.service"
STATE = "var/lib/wirelens"
ADDRESS = "http://127.0.0.1:9417"
# A restart adds parts, and is refused where a single file exists.
ROWS = '[traffic]\noutput = "traffic"\nformat = "csv"\npartition = "hour"\n'
SETTINGS = """
[input]
interface = "wl0"
[page]
listen = "127.0.0.1:9417"
[history]
folder = "/var/lib/wirelens/history"
[traffic]
every = "1s"
[flows]
idle-timeout = "1s"
[packetlog]
output = "/var/lib/wirelens/packetlog"
mode = "log-all"
fixed-mode = true
"""
LINKS = ("wl0", "wl1"), ("wl2", "wl3")
# Seconds between datagrams.
STEP_S = 0.002


class Sender:
    """Numbered datagrams on one end of a link, at a steady pace, until stopped."""

    def __init__(self, network: int, name: str) -> None:
        self._network, self._name = network, name
        self._is_over = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        with inside(self._network), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
            out.bind((self._name, 0))
            while not self._is_over.wait(STEP_S):
                out.send(numbered(self.sent))
                self.sent += 1

    def stop(self) -> int:
        self._is_over.set()
        self._thread.join()
        return self.sent


# A flow of its own for so many datagrams.
FLOW = 20


def numbered(number: int) -> bytes:
    source = ("198.18.0.1", 1024 + number // FLOW)
    frame = datagram(source, ("198.19.0.1", 40000))
    return frame[:-18] + number.to_bytes(8, "big") + bytes(10)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The package, and the same as the next version of it."""
    folder = tmp_path_factory.mktemp("packages")
    package = make(folder / "old", QUICK)
    contents = folder / "contents"
    subprocess.run(["dpkg-deb", "--raw-extract", package, contents], check=True)
    control = contents / "DEBIAN/control"
    control.write_text(re.sub("^(Version: .*)$", r"\1.1", control.read_text(), flags=re.MULTILINE))
    newer = folder / "newer.deb"
    build = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", contents, newer]
    subprocess.run(build, check=True, capture_output=True)
    return package, newer


@pytest.fixture(scope="module")
def machine(
    packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """One with the package installed and two links."""
    root = tmp_path_factory.mktemp("machine") / "root"
    fresh = with_systemd(kept("12"))
    subprocess.run(["cp", "--archive", "--reflink=auto", fresh, root], check=True)
    for name, package in zip(("old.deb", "new.deb"), packages, strict=True):
        shutil.copy(package, root / name)
    with booted(root) as made:
        # Nothing is sent that the test does not send.
        made.run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6")
        for near, far in LINKS:
            made.run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
            for name in (near, far):
                made.run("ip", "link", "set", name, "up")
        made.run("dpkg", "--install", "/old.deb")
        yield made
    shutil.rmtree(root)


def put(machine: Machine, text: str, name: str = "wirelens") -> None:
    (machine.root / f"etc/wirelens/{name}.toml").write_text(text)


def start(machine: Machine, settings: str, drop_in: str = "") -> str:
    """Starts the service with these settings and this drop-in; the number of its process."""
    machine.run("systemctl", "stop", "wirelens")
    machine.inside("systemctl", "reset-failed", "wirelens")
    put(machine, settings)
    folder = machine.root / "etc/systemd/system/wirelens.service.d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test.conf").write_text(drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "wirelens")
    return machine.show("wirelens", "MainPID")


def get(machine: Machine, path: str) -> bytes:
    network = machine.network()
    try:
        with inside(network), urllib.request.urlopen(ADDRESS + path, timeout=10) as answer:
            return answer.read()
    finally:
        os.close(network)


def ask(machine: Machine, path: str) -> dict[str, object]:
    return json.loads(get(machine, path))


EVERYTHING = "limit=1000&from=2020-01-01T00%3A00%3A00Z"


def flows(machine: Machine) -> dict[tuple[object, object], int]:
    """Packets of each flow that has ended, by its identity."""
    table = ask(machine, f"/api/v1/tables/flows?{EVERYTHING}")
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    rows = [row for row in rows if row["end_reason"] != "open"]
    found = {(row["community_id"], row["first_ns"]): row["src_packets"] for row in rows}
    assert len(found) == len(rows), "a row twice"
    return found


def stored_numbers(machine: Machine, folder: Path) -> list[int]:
    """The numbers of the datagrams in the packet log."""
    packets = folder / "packets.pcapng"
    log = machine.root / STATE / "packetlog"
    ran = wirelens("packetlog", "query", "-q", "-l", log, "-w", packets)
    assert ran.status == 0, ran.stderr
    shown = subprocess.run(
        ["tshark", "-r", packets, "-T", "fields", "-e", "udp.payload"],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    return sorted(int(line.replace(":", "")[:16], 16) for line in shown.splitlines())


def accounts(journal: str) -> list[dict[str, int]]:
    """What each run of a journal says at its end of the packets received."""
    runs = re.split(r"^Stopped .*$", journal, flags=re.MULTILINE)
    return [identity(Ran(0, b"", run)) for run in runs if " received = " in run]


def test_a_package_is_upgraded_while_packets_come(machine: Machine, tmp_path: Path) -> None:
    old = start(machine, SETTINGS, "[Service]\nWatchdogSec=4s\n")
    assert "packets read" in machine.run("systemctl", "status", "--no-pager", "wirelens")
    network = machine.network()
    sender = Sender(network, "wl1")
    try:
        machine.run("systemctl", "reload", "wirelens")
        answered = machine.show("wirelens", "WatchdogTimestampMonotonic")
        wait_until(
            lambda: machine.show("wirelens", "WatchdogTimestampMonotonic") != answered,
            "the watchdog is answered",
        )
        assert b"wirelens_packets" in get(machine, "/metrics")
        wait_until(lambda: len(flows(machine)) > 10, "rows of flows")
        before = flows(machine)
        assert machine.show("wirelens", "MainPID") == old, "a reload is no restart"

        machine.run("dpkg", "--install", "/new.deb")
        assert machine.show("wirelens", "MainPID") != old
        assert machine.show("wirelens", "ActiveState") == "active"
        assert machine.run("dpkg-query", "-Wf", "${Version}", "wirelens").endswith(".1")
        # The newer one has the rows of the older one, and adds its own.
        wait_until(lambda: len(flows(machine)) > len(before) + 40, "more rows of flows")
        after = flows(machine)
        is_kept = all(after.get(key) == before[key] for key in before)
        assert is_kept, (len(before), len(after))
    finally:
        sent = sender.stop()
        os.close(network)
    time.sleep(0.2)
    machine.run("systemctl", "stop", "wirelens")
    for name, wanted in (("Result", "success"), ("NRestarts", "0"), ("ExecMainStatus", "0")):
        assert machine.show("wirelens", name) == wanted
    # What was sent was captured by one of both, or came between them.
    runs = accounts(machine.journal())
    assert len(runs) == 2 and all(run["dropped"] == 0 for run in runs), runs
    captured = [run["processed"] for run in runs]
    numbers = stored_numbers(machine, tmp_path)
    print(f"{sent} sent, {captured} captured, {sent - sum(captured)} while neither ran")
    first, second = captured
    # A difference of long lists takes pytest minutes to print.
    is_whole = numbers == [*range(first), *range(sent - second, sent)]
    assert is_whole, (sent, captured, len(numbers), numbers[:3], numbers[-3:])
    # Rows of both are whole.
    machine.run("systemctl", "start", "wirelens")
    assert sum(flows(machine).values()) == sum(captured)
    machine.run("systemctl", "stop", "wirelens")


def test_a_run_that_stalls_is_ended_and_begun_again(machine: Machine) -> None:
    stalled = start(machine, SETTINGS, "[Service]\nWatchdogSec=2s\nRestartSec=100ms\n")
    machine.run("sh", "-c", f"kill -STOP {stalled}")
    wait_until(lambda: machine.show("wirelens", "NRestarts") == "1", "it is begun again", 15)
    wait_until(lambda: machine.show("wirelens", "ActiveState") == "active", "it is ready")
    assert machine.show("wirelens", "MainPID") != stalled
    machine.run("systemctl", "stop", "wirelens")


def test_settings_that_are_wrong_are_not_tried_again(machine: Machine) -> None:
    with pytest.raises(AssertionError, match="Job for wirelens.service failed"):
        start(machine, "[input]\ninterface = 7\n")
    assert machine.show("wirelens", "ExecMainStatus") == "2"
    assert (machine.show("wirelens", "NRestarts"), machine.show("wirelens", "SubState")) == (
        "0",
        "failed",
    )
    assert "/etc/wirelens/wirelens.toml:" in machine.journal()


def of_unit(word: str) -> str:
    """The drop-in among the unit's comments that has this word."""
    blocks = re.findall(r"(?:^#   .*\n)+", UNIT.read_text(), re.MULTILINE)
    (block,) = [block for block in blocks if word in block]
    return block.replace("#   ", "")


def test_the_drop_in_for_real_time(machine: Machine) -> None:
    settings = SETTINGS.replace("[page]", 'latency = "low"\n[page]')
    pid = start(machine, settings, of_unit("LimitRTPRIO"))
    assert machine.show("wirelens", "LimitRTPRIO") == "1"
    limits = machine.run("cat", f"/proc/{pid}/limits")
    if not re.search(r"Max realtime priority +1 ", limits):
        pytest.skip("root of this machine may not raise limits (CAP_SYS_RESOURCE)")
    policies = machine.run("sh", "-c", f"cat /proc/{pid}/task/*/stat").splitlines()
    # SCHED_RR in column 41, of which the second may have blanks.
    assert "2" in [line.rpartition(")")[2].split()[38] for line in policies]
    machine.run("systemctl", "stop", "wirelens")


def test_the_drop_in_for_taps_of_a_queue(machine: Machine) -> None:
    taps = '[cca]\negress = "wl2"\noutput = "/var/lib/wirelens/cca.csv"\n'
    start(machine, SETTINGS + taps, of_unit("CAP_BPF"))
    assert "downstream of the queue on wl2" in machine.journal()
    machine.run("systemctl", "stop", "wirelens")
    assert machine.show("wirelens", "Result") == "success"


def send(machine: Machine) -> None:
    """A few datagrams on each link."""
    network = machine.network()
    for _, far in LINKS:
        sender = Sender(network, far)
        wait_until(lambda sender=sender: sender.sent > 20, "some datagrams are sent")
        sender.stop()
    os.close(network)


def test_instances_run_beside_each_other(machine: Machine) -> None:
    names = ("wl0", "mirror-two")
    for (near, _), name in zip(LINKS, names, strict=True):
        put(machine, f'[input]\ninterface = "{near}"\n{ROWS}', name)
    units = [f"wirelens@{name}" for name in names]
    machine.run("systemctl", "enable", "--now", *units)
    pids = [machine.show(unit, "MainPID") for unit in units]
    send(machine)
    machine.run("dpkg", "--install", "/new.deb")
    for unit, pid in zip(units, pids, strict=True):
        assert machine.show(unit, "ActiveState") == "active"
        assert machine.show(unit, "MainPID") != pid, "an upgrade restarts each"
    send(machine)
    machine.run("systemctl", "stop", *units)
    for name in names:
        parts = (machine.root / STATE / name).rglob("part-*.csv")
        packets = sum(text.count("\n") - 1 for text in map(Path.read_text, parts))
        assert packets >= 2, name
    machine.run("systemctl", "start", *units)


def test_a_purge_leaves_nothing(machine: Machine) -> None:
    shutil.rmtree(machine.root / "etc/systemd/system/wirelens.service.d")
    machine.run("dpkg", "--purge", "wirelens")
    running = machine.run("sh", "-c", "cat /proc/[0-9]*/comm").split()
    assert "systemd" in running and "wirelens" not in running
    units = machine.run("systemctl", "list-units", "--no-legend", "--no-pager", "wirelens*")
    assert units.strip() == ""
    for name in (STATE, "etc/wirelens/wirelens.toml", "lib/systemd/system/wirelens@.service"):
        assert not (machine.root / name).exists(), name
    assert not list((machine.root / "etc/systemd/system/multi-user.target.wants").glob("wirelens*"))
    assert machine.inside("getent", "passwd", "wirelens").returncode != 0
