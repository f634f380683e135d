"""Packets classified and truncated in the kernel, by XDP: the log is that of user space.

Links are of the tests' own, in network namespaces; see lab.py. Without root they are skipped.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ROOT, wirelens
from lab import Link, Listening, datagram, link_facts, new_link, wait_until
from packetlog_lab import (
    ANOMALOUS,
    BENIGN,
    HEADERS,
    PAYLOAD,
    accounted,
    events,
    frames,
    query,
    seen,
    shown,
    status,
    switches,
)
from packetlog_model import write_model

KERNEL = ("--offload", "xdp", "--mirror")
WHOLE = HEADERS + PAYLOAD
ARP = b"\xff" * 6 + b"\x02" * 6 + b"\x08\x06" + bytes(46)


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "ports")


def recording(folder: Path, log: Path, model: Path | str, *arguments: str) -> Listening:
    words = ("packetlog", "record", "-i", "wl0", "-o", log, "--model", model)
    return Listening(folder, *words, *KERNEL, *arguments)


def tagged(frame: bytes, vlan: int) -> bytes:
    return frame[:12] + b"\x81\x00" + vlan.to_bytes(2, "big") + frame[12:]


def test_what_is_truncated_in_the_kernel_is_what_the_mode_says_and_lengths_stay_true(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    with recording(tmp_path, log, model) as run:
        assert link_facts("wl0")["xdp"]["prog"]["name"] == "cut"
        link.send(frames(800) + frames(80, ANOMALOUS))
        # What the program leaves to user space: ARP, and a frame that is too short for its header.
        link.send([ARP, ARP, frames(1)[0][:40]])
        link.send([tagged(frame, 7) for frame in frames(20)])
        seen(log, 903)
        kernel = status(log)["log"]["kernel"]
        ran = run.end()
    assert ran.status == 0, ran.stderr
    assert "wl0: packets are classified and truncated in the driver" in ran.stderr
    assert accounted(ran) == {"seen": 903, "kept": 903, "passed over": 0, "lost": 0}
    assert kernel["classified"] == kernel["received_with_class"] == 900
    assert kernel["received_whole"] == 3
    assert kernel["left_whole"]["other_network"] == 2 and kernel["left_whole"]["other_header"] == 1
    assert kernel["classified_bytes"] == 880 * WHOLE + 20 * (WHOLE + 4)
    assert kernel["truncated_bytes"] == 820 * PAYLOAD
    assert "in the kernel: 900 packets classified" in ran.stderr
    assert query(log, "-w", tmp_path / "all.pcapng") == 903
    lengths = shown(tmp_path / "all.pcapng", "frame.cap_len", "frame.len", "udp.dstport", "vlan.id")
    assert lengths.count(f"{HEADERS}\t{WHOLE}\t{BENIGN}\t") == 800
    assert lengths.count(f"{WHOLE}\t{WHOLE}\t{ANOMALOUS}\t") == 80
    assert lengths.count(f"{HEADERS + 4}\t{WHOLE + 4}\t{BENIGN}\t7") == 20
    assert "xdp" not in link_facts("wl0")


def test_a_mode_that_keeps_more_is_in_force_in_the_kernel_before_it_is_confirmed(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    with recording(tmp_path, log, model) as run:
        link.send(frames(100))
        seen(log, 100)
        told = wirelens("packetlog", "mode", "log-all", "--log", log)
        assert (told.status, told.stderr) == (0, "mode log-all\n")
        link.send(frames(100))
        seen(log, 200)
        told = wirelens("packetlog", "mode", "default", "--log", log)
        assert told.status == 0, told.stderr
        link.send(frames(100))
        seen(log, 300)
        kernel = status(log)["log"]["kernel"]
        ran = run.end()
    assert ran.status == 0, ran.stderr
    operator = [("default", "log-all", "operator"), ("log-all", "default", "operator")]
    assert switches(log) == operator
    assert all(event["took_us"] < 250_000 for event in events(log) if event["event"] == "mode")
    assert kernel["truncated_bytes"] == 200 * PAYLOAD
    assert query(log, "-w", tmp_path / "all.pcapng") == 300
    lengths = shown(tmp_path / "all.pcapng", "frame.cap_len")
    assert (lengths.count(str(HEADERS)), lengths.count(str(WHOLE))) == (200, 100)


def test_nothing_stays_attached_after_a_kill(tmp_path: Path, model: Path, link: Link) -> None:
    with recording(tmp_path, tmp_path / "log", model) as run:
        assert "xdp" in link_facts("wl0")
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait(timeout=10)
        wait_until(lambda: "xdp" not in link_facts("wl0"), "the program is gone")


def test_the_log_of_the_model_that_ships_is_that_of_user_space(tmp_path: Path, link: Link) -> None:
    """Flow by flow: both see the same packets at different times."""
    kinds = {}
    for how in ("kernel", "user"):
        log = tmp_path / how
        words = ("packetlog", "record", "-i", "wl0", "-o", log)
        more = KERNEL if how == "kernel" else ("--model", "packetlog-kernel")
        with Listening(tmp_path, *words, *more) as run:
            link.send(
                [datagram((f"198.18.0.{n}", 9_000), ("198.19.0.1", 53), 60) for n in range(50)]
            )
            seen(log, 50)
            begun = next(event for event in events(log) if event["event"] == "begin")
            ran = run.end()
        assert ran.status == 0 and begun["model"] == "packetlog-kernel", ran.stderr
        stats = wirelens("packetlog", "stats", "--log", log, "--format", "jsonl")
        assert stats.status == 0, stats.stderr
        rows = [json.loads(line) for line in stats.stdout.splitlines()]
        kinds[how] = [(row["class"], row["seen_packets"]) for row in rows if row["seen_packets"]]
        assert sum(packets for _, packets in kinds[how]) == 50
    assert kinds["kernel"] == kinds["user"]


REFUSALS = {
    "without a word that it is a mirror": (("--offload", "xdp"), "wanted: mirror as well"),
    "with packets that wait": ((*KERNEL, "--hindsight", "2s"), "--offload with hindsight"),
    "with a model of states": ((*KERNEL, "--model", "STATES"), "try packetlog-kernel"),
    "with a snaplen": ((*KERNEL, "-s", "96"), "cannot be used with"),
    "with a filter": ((*KERNEL, "-f", "udp"), "cannot be used with"),
    "with copies left out": ((*KERNEL, "--drop-duplicates"), "cannot be used with"),
    "another place": (("--offload", "tc", "--mirror"), "possible values: xdp"),
    "a mirror without an offload": (("--mirror",), "--offload"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_cannot_be_is_refused_by_name(what: str, tmp_path: Path) -> None:
    arguments, wanted = REFUSALS[what]
    given = [str(ROOT / "models/packetlog") if word == "STATES" else word for word in arguments]
    ran = wirelens("packetlog", "record", "-i", "lo", "-o", tmp_path / "log", *given)
    assert ran.status == 2 and wanted in ran.stderr, ran.stderr
    assert not (tmp_path / "log").exists()


def test_captures_are_not_classified_in_the_kernel(tmp_path: Path) -> None:
    demo = ROOT / "testdata/demo.pcapng"
    ran = wirelens("packetlog", "record", "-r", demo, "-o", tmp_path / "log", *KERNEL)
    assert ran.status == 2 and "--offload" in ran.stderr, ran.stderr


def test_an_interface_with_another_program_is_refused_with_its_reason(
    tmp_path: Path, model: Path, link: Link
) -> None:
    with recording(tmp_path, tmp_path / "one", model) as run:
        words = ("packetlog", "record", "-i", "wl0", "-o", tmp_path / "two", "--model", model)
        ran = wirelens(*words, *KERNEL)
        assert ran.status == 1 and "wl0" in ran.stderr and "--offload xdp" in ran.stderr, ran.stderr
        assert "xdp" in link_facts("wl0") and not (tmp_path / "two").exists()
        run.end()


def test_all_interfaces_at_a_time_are_refused_before_there_is_a_log(
    tmp_path: Path, model: Path, link: Link
) -> None:
    words = ("packetlog", "record", "-i", "any", "-o", tmp_path / "log", "--model", model)
    ran = wirelens(*words, *KERNEL)
    assert ran.status != 0 and "one interface by its name" in ran.stderr, ran.stderr
    assert not (tmp_path / "log").exists()
