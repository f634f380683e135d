"""The taps of `wirelens cca` where something is out of the ordinary: departures taken on the router
itself, packets not sampled, lists of flows that change, and what cannot be tapped.

Links are of the tests' own, in network namespaces; without root they are skipped.
"""

import socket
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import ENVIRONMENT, PROGRAM, Ran, wirelens
from lab import Link, Listening, bring_up, ip, new_link
from test_cca_live import BEFORE, BEHIND, PORTS, RUN, finished, frames, replay, told

TAPS = ("cca", "-i", BEFORE[0], "--egress", BEHIND[0])
XMIT = ("cca", "-i", BEFORE[0], "--egress", f"xmit:{BEHIND[1]}")
CAPABILITIES = ("bpf", "net_admin", "net_raw", "perfmon")
HIDDEN_TYPES = "mount -t tmpfs none /sys/kernel/btf && exec "


@pytest.fixture
def links() -> Iterator[Link]:
    with new_link() as made:
        ip(f"link add {BEHIND[0]} type veth peer name {BEHIND[1]}")
        bring_up(*BEHIND)
        yield made


def sums(rows: list[dict[str, Any]], column: str) -> Counter[int]:
    found: Counter[int] = Counter()
    for row in rows:
        found[row["src_port"]] += row[column]
    return found


def told_by_all(*paths: Path) -> list[list[dict[str, Any]]]:
    """The rows of periods that every run told whole: each chooses its flows in its own time, and
    is ended in its own."""
    of = [told(path) for path in paths]
    second = [
        sorted({row["start_ns"] for row in rows if row["src_port"] == port})[1]
        for rows in of
        for port in PORTS
    ]
    begin, last = max(second), min(max(row["start_ns"] for row in rows) for rows in of)
    return [[row for row in rows if begin <= row["start_ns"] < last] for rows in of]


def test_departures_are_taken_on_the_router_itself(tmp_path: Path, links: Link) -> None:
    plain, xmit = tmp_path / "plain.jsonl", tmp_path / "xmit.jsonl"
    with (
        Listening(tmp_path, *TAPS, "--every", "100ms", "-o", plain) as one,
        Listening(tmp_path, *XMIT, "--every", "100ms", "-o", xmit) as other,
    ):
        replay(tmp_path)
        time.sleep(0.3)
        assert "departures" not in finished(one.end())
        summary = finished(other.end())
    assert {row["departures"] for row in told(plain)} == {None}
    assert {row["departures"] for row in told(xmit)} == {"xmit"}
    # Of these frames, which no queueing discipline sends, the driver is told one by one.
    assert "departures: by net_dev_start_xmit, which does not see every packet: 0 bytes" in summary
    assert max(row["unseen_bytes"] for row in told(xmit)) == 0
    both = told_by_all(plain, xmit)
    for rows in both:
        assert {row["src_port"] for row in rows} == set(PORTS)
        assert len({row["start_ns"] for row in rows}) >= 5
    of = [sums(rows, "egress_bytes") for rows in both]
    for port in PORTS:
        assert of[0][port] == pytest.approx(of[1][port], rel=0.1), port


def test_what_sequence_numbers_show_to_be_missing_is_told(tmp_path: Path, links: Link) -> None:
    live = tmp_path / "live.jsonl"
    missed = 10

    def without_some() -> list[tuple[int, bytes]]:
        """What left the queue but for ten packets in a row of one flow, when all is steady."""
        kept, left_out = [], 0
        begin = None
        for time_ns, frame in frames(RUN / "after.pcapng.gz", tmp_path):
            begin = begin or time_ns
            port, sequence = struct.unpack_from(">HxxI", frame, 34)
            is_one = port == PORTS[1] and len(frame) > 1000 and time_ns > begin + 2_200_000_000
            if is_one and left_out < missed and sequence not in seen:
                left_out += 1
                continue
            seen.add(sequence)
            kept.append((time_ns, frame))
        return kept

    seen: set[int] = set()
    with Listening(tmp_path, *XMIT, "--every", "100ms", "-o", live) as watching:
        replay(tmp_path, slower=1.5, behind=without_some())
        time.sleep(0.3)
        summary = finished(watching.end())
    unseen = sums_of_last(live)
    assert unseen[PORTS[1]] == pytest.approx(missed * 1448, abs=2 * 1448), summary
    assert not unseen[PORTS[0]] and not unseen[PORTS[2]]
    assert f"about {round(unseen[PORTS[1]] / 1448)} packets" in summary


def sums_of_last(path: Path) -> dict[int, int]:
    return {row["src_port"]: row["unseen_bytes"] for row in told(path)}


def test_packets_told_one_by_one_are_the_same(tmp_path: Path, links: Link) -> None:
    slots, packets = tmp_path / "slots.jsonl", tmp_path / "packets.jsonl"
    with (
        Listening(tmp_path, *TAPS, "--every", "100ms", "-o", slots) as one,
        Listening(tmp_path, *TAPS, "--every", "100ms", "--each-packet", "-o", packets) as other,
    ):
        replay(tmp_path)
        time.sleep(0.3)
        finished(one.end())
        finished(other.end())
    of = [
        {(row["start_ns"], row["src_port"]): row for row in told(path)} for path in (slots, packets)
    ]
    # Each chooses its flows in its own time.
    begin = min(start for start, _ in of[1]) + 1_000_000_000
    compared = [key for key in of[0] if key[0] >= begin and key in of[1]]
    assert len(compared) > 30
    differ = {start for start, port in compared if of[0][start, port] != of[1][start, port]}
    # A busy machine may handle a packet after the period was told by whose time it is stamped.
    assert len(differ) <= 1, differ


def test_packets_are_left_out_by_chance_in_the_kernel(tmp_path: Path, links: Link) -> None:
    whole, half = tmp_path / "whole.jsonl", tmp_path / "half.jsonl"
    with (
        Listening(tmp_path, *TAPS, "--every", "100ms", "-o", whole) as one,
        Listening(tmp_path, *TAPS, "--every", "100ms", "--sample", "0.5", "-o", half) as other,
    ):
        replay(tmp_path)
        time.sleep(0.3)
        assert "left out" not in finished(one.end())
        summary = finished(other.end())
    for line in summary.splitlines()[-2:]:
        taken = int(line.split(" of tracked flows")[0].split()[-1])
        left_out = int(line.split(" not sampled")[0].split()[-1])
        assert taken > 1000 and 0.8 < taken / left_out < 1.25, line
    of = [{(row["start_ns"], row["src_port"]): row for row in told(path)} for path in (whole, half)]
    both = [key for key in of[0] if key in of[1] and key[0] > min(of[1])[0] + 1_000_000_000]
    both = [
        key for key in both if of[0][key]["cbiq_bytes"] and of[1][key]["cbiq_bytes"] is not None
    ]
    means = [sum(found[key]["cbiq_bytes"] for key in both) / len(both) for found in of]
    assert means[0] == pytest.approx(means[1], rel=0.1)


def segment(port: int, sequence: int, length: int) -> bytes:
    ethernet = bytes.fromhex("020000000002 020000000001") + b"\x08\x00"
    ipv4 = struct.pack(">BBHHHBBH", 0x45, 0, 40 + length, 0, 0x4000, 64, 6, 0)
    ipv4 += socket.inet_aton("198.18.0.1") + socket.inet_aton("198.19.0.1")
    tcp = struct.pack(">HHIIBBHHH", port, 80, sequence, 0, 0x50, 0x10, 8192, 0, 0)
    return ethernet + ipv4 + tcp + bytes(length)


def test_the_list_of_flows_changes_while_it_runs(tmp_path: Path, links: Link) -> None:
    live = tmp_path / "live.jsonl"
    with Listening(tmp_path, *TAPS, "-n", "1", "--every", "200ms", "-o", live) as watching:
        sockets = []
        for _, name in (BEFORE, BEHIND):
            out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            out.bind((name, 0))
            sockets.append(out)
        # One flow is heavy and then the other; neither ever ends. The first flow that is followed
        # is told of by chance, one packet of 16, so that the heavy one begins alone.
        for at in range(1200):
            heavy, light = (1, 2) if at < 600 else (2, 1)
            for out in sockets:
                out.send(segment(heavy, at * 1000, 1000))
                if at % 4 == 0 and at >= 200:
                    out.send(segment(light, at * 1000, 100))
            time.sleep(0.0025)
        for out in sockets:
            out.close()
        finished(watching.end())
    heaviest = [row["src_port"] for row in told(live)]
    assert heaviest == sorted(heaviest) and set(heaviest) == {1, 2}, heaviest
    assert all(row["cbiq_bytes"] is not None for row in told(live)[1:4])
    # Nothing of the flow that had its place before is taken for its own.
    assert all(row["ingress_bytes"] % 1000 == 0 for row in told(live) if row["src_port"] == 2)


def refused(*command: str | Path) -> str:
    """What a command says that cannot do what it was asked for: one line."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=20, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 1 and not done.stdout, done
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_kernel_that_does_not_tell_its_types_is_named(links: Link) -> None:
    def hidden(*words: str) -> list[str | Path]:
        return ["unshare", "-m", "sh", "-c", f'{HIDDEN_TYPES}"$@"', "sh", PROGRAM, *words]

    line = refused(*hidden(*XMIT))
    assert "/sys/kernel/btf/vmlinux" in line and "CONFIG_DEBUG_INFO_BTF" in line, line
    assert "--egress NETNS:DEV" in line
    # Nothing else takes them.
    done = subprocess.run(hidden(*TAPS, "--check"), timeout=20, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def with_only(*capabilities: str) -> list[str]:
    """Before a command that is to be root in name and to have nothing else of it."""
    return ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{one}" for one in capabilities)])]


def test_who_may_not_is_told_what_is_wanted(links: Link) -> None:
    for words in (TAPS, XMIT):
        line = refused(*with_only(), PROGRAM, *words)
        assert "not permitted; wanted CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and" in line, line
        assert "root" in line
    line = refused(*with_only(*CAPABILITIES[1:]), PROGRAM, *TAPS)
    assert "CAP_BPF" in line, line


def test_root_is_not_needed(links: Link) -> None:
    for words in (TAPS, XMIT):
        done = subprocess.run(
            [*with_only(*CAPABILITIES), PROGRAM, *words, "--check"],
            timeout=20, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stderr)


@pytest.mark.parametrize("words", [TAPS, XMIT])
def test_a_device_that_goes_ends_it_and_what_was_told_is_whole(
    tmp_path: Path, links: Link, words: tuple[str, ...]
) -> None:
    live = tmp_path / "live.jsonl"
    with Listening(tmp_path, *words, "--every", "100ms", "-o", live) as watching:
        replay(tmp_path, slower=0.25)
        ip(f"link del {BEHIND[0]}")
        ran: Ran = watching.wait()
    tapped = words[-1].removeprefix("xmit:")
    assert ran.status == 1
    assert f"{tapped}: cannot be tapped by eBPF: the device is gone" in ran.stderr, ran.stderr
    assert "packets passed" in ran.stderr
    assert len(told(live)) >= 3


def test_what_is_not_there_is_named(links: Link) -> None:
    for wanted, egress in {
        "wl9: cannot be tapped by eBPF: no such device; wanted one that `ip link` shows": "wl9",
        "/run/netns/no-such-namespace: ": "no-such-namespace:eth0",
    }.items():
        for kind in ("", "xmit:"):
            ran = wirelens("cca", "-i", BEFORE[0], "--egress", kind + egress)
            assert ran.status == 1 and wanted in ran.stderr, ran.stderr
    for words, arguments in {
        "cannot be a device": ("--egress", "xmit:router:"),
        "more than 0 and at most 1": ("--egress", BEHIND[0], "--sample", "0"),
    }.items():
        ran = wirelens("cca", "-i", BEFORE[0], *arguments)
        assert ran.status == 2 and words in ran.stderr, ran.stderr
