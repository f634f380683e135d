"""A live run whose settings are read again takes up interfaces and lets others go, in its jail. The
helper opens what the settings name, and nothing else. In network namespaces of the tests' own,
which needs root."""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from captures import read_pcapng
from command import ENVIRONMENT, PROGRAM, Ran, wirelens
from lab import (
    Link,
    Listening,
    add_second_link,
    bring_up,
    datagram,
    datagrams,
    identity,
    ip,
    new_links,
    wait_until,
)
from test_act_helper import check_jail, helper_of, helpers
from test_jail import NOBODY, SYS_NICE, are_filtered
from test_run_interfaces import Tables, put, rows, send_in_turn, tables

NET_RAW = 1 << 13


@pytest.fixture
def links() -> Iterator[Link]:
    """`wl0` and `wl1`, `wl2` and `wl3`."""
    with new_links() as made:
        yield made


def reload(live: Listening, folder: Path, asked: Tables) -> None:
    put(folder, asked)
    live.signal(signal.SIGHUP)


def count_of(live: Listening, words: str) -> int:
    return len(re.findall(words, live.stderr))


def listen_on(live: Listening, folder: Path, asked: Tables, *names: str) -> None:
    """Has the run listen on these, and waits until it does."""
    words = r"packets waited \d+\.\d{3} ms for the reload"
    before, asked["input"]["interface"] = asked["input"]["interface"], list(names)
    lines = [f"listens on {name} as well" for name in names if name not in before]
    lines += [f"no longer listens on {name}" for name in before if name not in names]
    wanted = {line: count_of(live, line) + 1 for line in lines}
    seen = count_of(live, words)
    reload(live, folder, asked)
    wait_until(lambda: count_of(live, words) > seen, "the settings are read")
    for line, count in wanted.items():
        wait_until(lambda line=line, count=count: count_of(live, line) == count, line)


def logged(folder: Path) -> list[tuple[str, bytes]]:
    """Frames of the log, each with the name of its interface, in the order of the log."""
    kept = folder / "kept.pcapng"
    ran = wirelens("packetlog", "query", "-l", folder / "log", "-w", kept)
    assert ran.status == 0, ran.stderr
    content, at = kept.read_bytes(), 0
    names: list[str] = []
    found = []
    while at + 8 <= len(content):
        kind, length = struct.unpack_from("<II", content, at)
        body = content[at + 8 : at + length - 4]
        if kind == 1:
            # The first option is the name.
            code, size = struct.unpack_from("<HH", body, 8)
            names.append(body[12 : 12 + size].decode() if code == 2 else "")
        elif kind == 6:
            number, _, _, captured = struct.unpack_from("<IIII", body)
            found.append((names[number], body[20 : 20 + captured]))
        at += length
    stamps = [frame.time_ns for frame in read_pcapng(kept)]
    assert stamps == sorted(stamps)
    return found


def in_files(folder: Path) -> list[dict[str, str]]:
    """The rows of `[top]`: a hangup begins a new file."""
    return [row for path in folder.glob("top*.csv") for row in rows(path)]


def numbered(first: int, count: int) -> list[bytes]:
    """Frames that differ by their length."""
    ends = (("198.18.0.1", 1024), ("198.19.0.1", 53))
    return [datagram(*ends, length=100 + at) for at in range(first, first + count)]


def ended(live: Listening) -> Ran:
    ran = live.end()
    assert ran.status == 0, ran.stderr
    assert "late packets" not in ran.stderr and "were late" not in ran.stderr, ran.stderr
    return ran


def test_an_interface_is_added_and_one_is_let_go(tmp_path: Path, links: Link) -> None:
    """In the jail; each frame of the log names its interface, and one that comes back is itself."""
    asked = tables(tmp_path, ["wl0"])
    asked["page"] = {"listen": "127.0.0.1:0"}
    frames = numbered(0, 60)
    ip("link set lo up")
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        wait_until(lambda: are_filtered(live), "all threads are in the jail")
        helper = helper_of(live)
        check_jail(live.process.pid, 0)
        check_jail(helper, NET_RAW)
        live.wait_for("page: http.*\n")
        address = live.stderr.split("page: ")[1].split()[0]

        def shown() -> list[str]:
            with urllib.request.urlopen(f"{address}api/v1/state", timeout=10) as answer:
                return json.load(answer)["inputs"]

        assert shown() == ["wl0"]
        send_in_turn(frames[:10], "wl1")
        # Not listened on yet.
        send_in_turn(numbered(500, 5), "wl3")
        links.settle()
        listen_on(live, tmp_path, asked, "wl0", "wl2")
        assert shown() == ["wl0", "wl2"]
        send_in_turn(frames[10:30], "wl1", "wl3")
        links.settle()
        listen_on(live, tmp_path, asked, "wl2")
        assert shown() == ["wl2"]
        send_in_turn(numbered(600, 5), "wl1")
        send_in_turn(frames[30:40], "wl3")
        links.settle()
        listen_on(live, tmp_path, asked, "wl0", "wl2")
        send_in_turn(frames[40:], "wl1", "wl3")
        links.settle()
        check_jail(live.process.pid, 0)
        # Nothing was added that the helper still holds, and the same settings change nothing.
        sockets = [os.readlink(one) for one in Path(f"/proc/{helper}/fd").iterdir()]
        assert len([name for name in sockets if name.startswith("socket:")]) <= 2, sockets
        live.signal(signal.SIGHUP)
        live.wait_for("the settings are unchanged")
        ran = ended(live)
    assert "takes effect at the next start" not in ran.stderr, ran.stderr
    assert identity(ran)["processed"] == len(frames)
    wait_until(lambda: not Path(f"/proc/{helper}/exe").exists(), "the helper has ended")
    both = ["wl0", "wl2"] * 10
    wanted = [*["wl0"] * 10, *both, *["wl2"] * 10, *both]
    assert logged(tmp_path) == list(zip(wanted, frames, strict=True))
    content = (tmp_path / "kept.pcapng").read_bytes()
    assert (content.count(b"wl0"), content.count(b"wl2")) == (1, 1), (
        "two interfaces, described once"
    )
    assert sum(int(row["packets"]) for row in in_files(tmp_path)) == len(frames)


def test_every_packet_is_accounted_for_while_interfaces_come_and_go(
    tmp_path: Path, links: Link
) -> None:
    """One interface stays: none of its packets is lost over the others, as long as its ring holds
    them. On those that come and go, what was received is what was processed."""
    asked = tables(tmp_path, ["wl0"])
    del asked["packetlog"]
    frames = datagrams(50) * 20
    is_over = threading.Event()
    sent = {"wl1": 0, "wl3": 0}

    def send(name: str) -> None:
        while not is_over.is_set():
            send_in_turn(frames[:50], name)
            sent[name] += 50
            time.sleep(0.002)

    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        # New threads are in the namespace of this one.
        senders = [threading.Thread(target=send, args=(name,)) for name in sent]
        for sender in senders:
            sender.start()
        try:
            for _ in range(5):
                listen_on(live, tmp_path, asked, "wl0", "wl2")
                time.sleep(0.1)
                listen_on(live, tmp_path, asked, "wl0")
        finally:
            is_over.set()
            for sender in senders:
                sender.join()
        links.settle()
        ran = ended(live)
    account = identity(ran)
    assert account["dropped"] == account.get("unread", 0) == 0, ran.stderr
    assert sent["wl1"] < account["processed"] < sent["wl1"] + sent["wl3"], (sent, account)
    by_flow = sum(int(row["packets"]) for row in in_files(tmp_path))
    assert by_flow == account["processed"]


def test_what_cannot_be_opened_changes_nothing(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path, ["wl0"])
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        for wrong in (["wl2", "wl9"], ["wl9"]):
            asked["input"]["interface"] = wrong
            before = count_of(live, "was not changed: wl0 stays in force")
            reload(live, tmp_path, asked)
            wait_until(
                lambda before=before: count_of(live, "was not changed: wl0 stays") > before,
                "it is refused",
            )
        assert "[input] wl9: no such interface; there are" in live.stderr, live.stderr
        send_in_turn(datagrams(20), "wl1", "wl3")
        links.settle()
        # It is there later, and is down.
        ip("link add wl9 type veth peer name wl8")
        asked["input"]["interface"] = ["wl0"]
        reload(live, tmp_path, asked)
        listen_on(live, tmp_path, asked, "wl0", "wl9")
        live.wait_for("wl9: the interface is down; waiting for it to come up")
        bring_up("wl9", "wl8")
        send_in_turn(datagrams(7), "wl8")
        links.settle()
        # A settings file with a mistake changes nothing either.
        put(tmp_path, asked).write_text('[input]\ninterface = ["wl0", "wl0"]\n[top]\n')
        live.signal(signal.SIGHUP)
        live.wait_for("stay in force")
        ran = ended(live)
    assert identity(ran)["processed"] == 10 + 7


def test_an_interface_that_vanished_is_listened_on_again(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path, ["wl0", "wl2"])
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        send_in_turn(datagrams(10), "wl1", "wl3")
        links.settle()
        ip("link del wl2")
        live.wait_for("wl2: the interface was removed; the 5 frames before it were read")
        live.signal(signal.SIGHUP)
        live.wait_for(r"\[input\] wl2: no such interface")
        add_second_link()
        live.signal(signal.SIGHUP)
        live.wait_for(r"\[input\] listens on wl2 as well")
        send_in_turn(datagrams(10), "wl1", "wl3")
        links.settle()
        ran = live.end()
    # That it was removed is still said at the end.
    assert ran.status == 3 and identity(ran)["processed"] == 20, ran.stderr
    assert [name for name, _ in logged(tmp_path)].count("wl2") == 10


@pytest.mark.parametrize("latency", ["throughput", "low"])
def test_new_interfaces_are_read_as_the_others(tmp_path: Path, links: Link, latency: str) -> None:
    """With filter, snaplen and latency; alone, `[top]` reads packets in any order otherwise."""
    table = {"by": "source", "rows": 0, "window": "1s", "output": tmp_path / "top.csv"}
    asked: Tables = {
        "input": {
            "interface": ["wl0"], "filter": "udp port 53", "latency": latency, "snaplen": 100,
            "drop-duplicates": "1ms",
        },
        "top": table,
    }  # fmt: skip
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        listen_on(live, tmp_path, asked, "wl0", "wl2")
        send_in_turn(datagrams(10) + datagrams(10, port=80), "wl1", "wl3")
        links.settle()
        listen_on(live, tmp_path, asked, "wl2")
        send_in_turn(datagrams(10) + datagrams(10, port=80), "wl1", "wl3")
        links.settle()
        kept = SYS_NICE if latency == "low" else 0
        check_jail(live.process.pid, kept)
        if kept:
            tasks = Path(f"/proc/{live.process.pid}/task").iterdir()
            classes = [os.sched_getscheduler(int(task.name)) & 0xFF for task in tasks]
            assert classes.count(os.SCHED_RR) == 1, "also after one was let go"
        ran = ended(live)
    assert identity(ran)["processed"] == 10 + 5


def test_a_run_of_another_user_and_one_without_a_jail(links: Link) -> None:
    """The helper was started before the run became that user."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    os.chown(place, NOBODY, NOBODY)
    name = pwd.getpwuid(NOBODY).pw_name
    try:
        for more, options in (({"run": {"user": name}}, []), ({}, ["--no-jail"])):
            asked = {"input": {"interface": ["wl0"]}, **more}
            asked["top"] = {"window": "1s", "output": place / f"top-{len(more)}.csv"}
            with Listening(place, "run", "-c", put(place, asked), *options, cwd=place) as live:
                listen_on(live, place, asked, "wl0", "wl2")
                check_jail(helper_of(live), NET_RAW)
                send_in_turn(datagrams(10), "wl1", "wl3")
                links.settle()
                assert identity(ended(live))["processed"] == 10
    finally:
        shutil.rmtree(place)


def test_a_run_that_is_killed_leaves_no_helper(tmp_path: Path, links: Link) -> None:
    with Listening(tmp_path, "run", "-c", put(tmp_path, tables(tmp_path, ["wl0"]))) as live:
        helper = helper_of(live)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(helper, number)
        live.signal(signal.SIGKILL)
        live.process.wait()
        wait_until(lambda: not Path(f"/proc/{helper}/exe").exists(), "the helper has ended")


def test_a_helper_that_is_killed_costs_only_what_it_would_open(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path, ["wl0"])
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        os.kill(helper_of(live), signal.SIGKILL)
        asked["input"]["interface"] = ["wl0", "wl2"]
        reload(live, tmp_path, asked)
        live.wait_for(
            r"\[input\] wl2: the helper process has ended: signal: 9 .*start the run again"
        )
        send_in_turn(datagrams(10), "wl1")
        links.settle()
        assert identity(ended(live))["processed"] == 10


@pytest.mark.parametrize(
    ("first", "later", "reason"),
    [
        ({"interface": "any"}, {"interface": "wl0"}, "any stands for all of them"),
        ({"interface": "wl0"}, {"interface": "any"}, "any stands for all of them"),
        ({"interface": "wl0"}, {"interface": []}, "a run listens on one at least"),
        ({"interface": "wl0"}, {"interface": ["wl0", "wl2"], "filter": "tcp"}, ""),
        ({"interface": "wl0"}, {"interface": "wl0", "snaplen": 200}, ""),
    ],
)
def test_what_waits_for_the_next_start_is_said(
    tmp_path: Path, links: Link, first: dict[str, Any], later: dict[str, Any], reason: str
) -> None:
    asked = tables(tmp_path, [])
    del asked["packetlog"]
    asked["input"] = first
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        assert len(helpers(live.process.pid)) == int(first["interface"] != "any")
        asked["input"] = later
        reload(live, tmp_path, asked)
        what = r"\[input\] interface was" if reason else r"\[input\] was"
        live.wait_for(f"{what} changed: takes effect at the next start.*{reason}")
        assert "as well" not in live.stderr and "no longer" not in live.stderr, live.stderr
        send_in_turn(datagrams(10), "wl1")
        links.settle()
        assert identity(ended(live))["processed"] >= 10


def test_interfaces_of_the_command_line_stay(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path, ["wl0"])
    path = put(tmp_path, asked)
    with Listening(tmp_path, "run", "-c", path, "-i", "wl2") as live:
        assert not helpers(live.process.pid)
        asked["input"]["interface"] = ["wl0", "wl2"]
        reload(live, tmp_path, asked)
        live.wait_for(
            r"\[input\] interface was changed: takes effect at the next start, as they were not named"
        )
        ended(live)


class Opener:
    """The helper without its run."""

    def __init__(self, settings: Path) -> None:
        self.stream, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [PROGRAM, "helper-of-a-run", "interfaces"],
                stdin=theirs, stdout=subprocess.DEVNULL, env=ENVIRONMENT,
            )  # fmt: skip
        self.stream.settimeout(10)
        task = {
            "settings": str(settings), "filter": None, "snaplen": 262_144,
            "ring_size_bytes": 1 << 20, "is_promiscuous": True, "is_low_latency": False,
        }  # fmt: skip
        assert self.say(task) == ({"Ok": ""}, [])

    def say(self, message: Any) -> tuple[Any, list[int]]:
        """What it answers, and what it opens."""
        opened: list[int] = []
        line = b""
        try:
            self.stream.sendall(json.dumps(message).encode() + b"\n")
            while not line.endswith(b"\n"):
                part, descriptors, _, _ = socket.recv_fds(self.stream, 65_536, 4)
                if not part:
                    break
                line += part
                opened += descriptors
        except ConnectionError:
            pass
        return (json.loads(line) if line else None), opened


@contextmanager
def new_opener(settings: Path) -> Iterator[Opener]:
    opener = Opener(settings)
    try:
        yield opener
    finally:
        opener.process.kill()
        opener.process.wait()
        opener.stream.close()


def test_a_helper_opens_what_the_settings_name_now_and_nothing_else(
    tmp_path: Path, links: Link
) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text('[input]\ninterface = "wl0"\n')
    with new_opener(path) as opener:
        wait_until(
            lambda: all(
                "Seccomp:\t2" in one.read_text()
                for one in Path(f"/proc/{opener.process.pid}/task").glob("*/status")
            ),
            "it is in its jail",
        )
        check_jail(opener.process.pid, NET_RAW)
        answer, opened = opener.say({"Do": "wl0"})
        assert "Ok" in answer and len(opened) == 1
        # It is bound to that interface, and lets nothing in before its reader does.
        with socket.socket(fileno=opened[0]) as packets:
            assert packets.getsockname()[0] == "wl0"
            send_in_turn(datagrams(3), "wl1")
            links.settle()
            assert struct.unpack("III", packets.getsockopt(263, 6, 12))[0] == 0
        for name in ("wl2", "any", "lo", "", "wl0 ", "../wl0", "x" * 10_000):
            answer, opened = opener.say({"Do": name})
            assert "not named by" in answer["Err"] and not opened, (name, answer)
        path.write_text('[input]\ninterface = ["wl2", "wl9"]\n')
        answer, opened = opener.say({"Do": "wl0"})
        assert "wanted: one of its [input] interface: wl2, wl9" in answer["Err"] and not opened
        answer, opened = opener.say({"Do": "wl9"})
        assert "wl9: no such interface" in answer["Err"] and not opened
        answer, opened = opener.say({"Do": "wl2"})
        assert "Ok" in answer and len(opened) == 1
        os.close(opened[0])
        path.write_text("[input\n")
        answer, opened = opener.say({"Do": "wl2"})
        assert "wirelens.toml" in answer["Err"] and not opened
        # Its end is that of the run.
        opener.stream.shutdown(socket.SHUT_RDWR)
        assert opener.process.wait(10) == 0
    # Anything else ends it.
    path.write_text('[input]\ninterface = "wl0"\n')
    for message in ({"Do": ["wl0"]}, {"Open": "wl0"}, "x" * 20_000, {"Do": 7}):
        with new_opener(path) as opener:
            assert opener.say(message) == (None, [])
            assert opener.process.wait(10) == 0
