"""The helper of a run that acts: what it and the run can still do, as the kernel shows it, and what
is left when either is killed. In network namespaces of the tests' own, which needs root."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command import ENVIRONMENT, PROGRAM, wirelens
from l4s_live import write_model
from lab import Link, Listening, ip, link_facts, new_link, wait_until
from test_cca_act import kinds, qdiscs, tc
from test_jail import SYS_NICE, are_filtered, threads

NET_ADMIN = 1 << 12
RATE = ("--act-rate", "20mbit")


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Link]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "controls").write_text("192.0.2.1 bbr\n")
    with new_link() as made:
        yield made


CCA = ["cca", "-i", "wl0", "--egress", "wl1", "--every", "200ms", "-o", "cca.csv"]
# The words of each run that acts or taps, the capabilities that it keeps, and its helper's.
RUNS: dict[str, tuple[list[str], int, int | None]] = {
    "taps": (CCA, 0, None),
    "dry run": ([*CCA, "--act", "wl0", *RATE, "--act-by", "controls", "--act-dry-run"], 0, None),
    "queue": ([*CCA, "--act", "wl0", *RATE, "--act-by", "controls"], 0, NET_ADMIN),
    "offloads": (
        ["l4s", "-i", "wl0", "-m", "./model", "--to", "192.0.2.1", "--act", "-o", "l4s.csv"],
        SYS_NICE, NET_ADMIN,
    ),
}  # fmt: skip


def running(folder: Path, name: str) -> Listening:
    if name == "offloads":
        if not (folder / "model").exists():
            write_model(folder / "model", 1_000.0)
        (folder / "l4s.csv").unlink(missing_ok=True)
    (folder / "cca.csv").unlink(missing_ok=True)
    return Listening(folder, *RUNS[name][0])


def helpers(pid: int) -> list[int]:
    """The children of all threads of a process."""
    texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for text in texts for child in text.split()]


def helper_of(run: Listening) -> int:
    (helper,) = helpers(run.process.pid)
    return helper


def check_jail(pid: int, held: int) -> None:
    found = threads(pid)
    assert found
    for facts in found:
        assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2"), facts
        sets = [int(facts[f"Cap{which}"], 16) for which in ("Eff", "Prm", "Bnd")]
        assert sets == [held] * 3, facts
        assert int(facts["CapInh"], 16) == int(facts["CapAmb"], 16) == 0


def segments_max() -> int:
    return int(str(link_facts("wl0")["gso_max_segs"]))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_acts_gives_up_what_its_helper_keeps(
    link: Link, tmp_path: Path, name: str
) -> None:
    _, held, helper_held = RUNS[name]
    before = qdiscs("wl0"), segments_max()
    with running(tmp_path, name) as run:
        wait_until(lambda: are_filtered(run), "all threads are in the jail")
        check_jail(run.process.pid, held)
        # It is said once all are in it.
        run.wait_for(r"jail: kept .*\n")
        kept = [line for line in run.stderr.splitlines() if "jail: kept" in line]
        assert ["maps of BPF programs" in line for line in kept] == [True], run.stderr
        assert not any(word in kept[0] for word in ("NET_ADMIN", "starting")), kept
        if helper_held is None:
            assert not helpers(run.process.pid)
        else:
            helper = helper_of(run)
            check_jail(helper, helper_held)
            assert (kinds("wl0").count("htb"), segments_max()) in ((1, before[1]), (0, 1))
            # It opens nothing that it was not handed.
            files = [os.readlink(one) for one in Path(f"/proc/{helper}/fd").iterdir()]
            assert not [name for name in files if name.startswith("/") and name != "/dev/null"]
        ran = run.end()
    assert ran.status == 0, ran.stderr
    assert (qdiscs("wl0"), segments_max()) == before


@pytest.mark.parametrize("name", ["queue", "offloads"])
def test_a_run_that_is_killed_leaves_nothing_behind(link: Link, tmp_path: Path, name: str) -> None:
    before = qdiscs("wl0"), segments_max()
    with running(tmp_path, name) as run:
        helper = helper_of(run)
        # Neither a terminal nor a service manager ends it before its run.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(helper, number)
        run.signal(signal.SIGKILL)
        run.process.wait()
        wait_until(lambda: (qdiscs("wl0"), segments_max()) == before, "all is as it was")
    wait_until(lambda: not Path(f"/proc/{helper}/exe").exists(), "the helper has ended")


def test_a_helper_of_a_queue_that_is_killed_is_reported(link: Link, tmp_path: Path) -> None:
    before = qdiscs("wl0")
    with running(tmp_path, "queue") as run:
        os.kill(helper_of(run), signal.SIGKILL)
        run.wait_for(r"wl0: the process that changes its queue .* has ended \(signal: 9")
        said = run.stderr
        assert "counting continues" in said and '"event":"lost"' in said, said
        # The run goes on, and another may put the queue back already.
        time.sleep(0.5)
        assert run.process.poll() is None and run.stderr == said
        assert "htb" in kinds("wl0")
        ran = wirelens("cca", "--act-undo", "wl0")
        assert ran.status == 0 and qdiscs("wl0") == before, ran.stderr
        ran = run.end()
    assert ran.status == 1 and "restore it: tc qdisc del dev wl0" in ran.stderr, ran.stderr


def test_a_helper_of_offloads_that_is_killed_is_reported(link: Link, tmp_path: Path) -> None:
    before = segments_max()
    with running(tmp_path, "offloads") as run:
        os.kill(helper_of(run), signal.SIGKILL)
        run.wait_for("nothing is re-marked any more, and counting continues")
        assert run.process.poll() is None
        ran = run.end()
    assert ran.status == 1 and "has ended (signal: 9" in ran.stderr, ran.stderr
    by_hand = f"ip link set dev wl0 gso_max_segs {before}"
    assert f"restore them: {by_hand}" in ran.stderr, ran.stderr
    assert segments_max() == 1
    ip(by_hand.removeprefix("ip "))
    assert segments_max() == before


class Helper:
    """A helper without its run."""

    def __init__(self, chore: str, task: Any) -> None:
        self.stream, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [PROGRAM, "helper-of-a-run", chore],
                stdin=theirs, stdout=subprocess.DEVNULL, env=ENVIRONMENT,
            )  # fmt: skip
        self.stream.settimeout(10)
        self.answers = self.stream.makefile("r")
        assert self.ask(task) in ({"Ok": ""}, None) or chore == "offloads"

    def ask(self, message: Any) -> Any:
        try:
            self.stream.sendall(json.dumps(message).encode() + b"\n")
            line = self.answers.readline()
        except ConnectionError:
            # It ended before it had read all.
            return None
        return json.loads(line) if line else None

    def close(self) -> int:
        self.answers.close()
        self.stream.close()
        return self.process.wait(10)


@contextmanager
def helper_of_queue() -> Iterator[Helper]:
    queue = {"device": "wl0", "under": None, "rate_bit": 20_000_000, "buffer_bytes": 200_000}
    helper = Helper("queue", {"tc": shutil.which("tc"), "queue": queue})
    try:
        yield helper
    finally:
        helper.process.kill()
        helper.process.wait()
        helper.answers.close()
        helper.stream.close()


def classes() -> list[str]:
    return sorted(re.findall(r"class htb (\S+)", tc("class show dev wl0")))


def test_a_helper_carries_out_few_orders_and_refuses_others(link: Link) -> None:
    before = qdiscs("wl0")
    with helper_of_queue() as helper:
        assert classes() == ["cca:1", "cca:2"]
        assert helper.ask({"Do": [[2, 1], [0x10, 3], [0x4F, 1]]}) == {"Ok": ""}
        assert classes() == ["cca:1", "cca:10", "cca:2", "cca:4f"]
        for sizes in ([], [[1, 1]], [[2, 1], [0x50, 1]], [[2, 1], [0x10, 1 << 20]]):
            assert "wanted" in helper.ask({"Do": sizes})["Err"], sizes
        assert classes() == ["cca:1", "cca:10", "cca:2", "cca:4f"]
        shown = helper.ask("End")["Ok"]
        assert "cca:" in shown and qdiscs("wl0") == before
        assert helper.close() == 0
    # Anything else ends it, and puts the queue back, as the end of the run does.
    for message in ({"Do": [[2, "rate 1gbit; x"]]}, {"Run": "id"}, "x" * 20_000, {"Do": [[-1, 1]]}):
        with helper_of_queue() as helper:
            assert "htb" in kinds("wl0")
            assert helper.ask(message) is None
            assert helper.process.wait(10) == 0 and qdiscs("wl0") == before
    with helper_of_queue() as helper:
        assert helper.close() == 0 and qdiscs("wl0") == before


def test_words_of_a_helper_without_its_run_change_nothing(link: Link) -> None:
    before = qdiscs("wl0")
    for chore in ("queue", "offloads"):
        command = [PROGRAM, "helper-of-a-run", chore]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, env=ENVIRONMENT, timeout=10)
        assert ran.returncode == 1
    ran = wirelens("helper-of-a-run", "other")
    assert ran.status == 2 and "unrecognized subcommand" in ran.stderr, ran.stderr
    assert qdiscs("wl0") == before
