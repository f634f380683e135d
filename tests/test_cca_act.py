"""Acting on a queue: classes by control while it runs, and what was there before when it ended.

In network namespaces of the tests' own; without root they are skipped.
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cca_queue import SharedQueue, jain, shared_queue
from command import Ran, wirelens
from lab import Listening, ip, link_facts, new_link, wait_until
from terminals import Terminal
from testbed_runs import need_root

CONTROLS, RTTS_MS = ("reno", "cubic", "bbr"), (25.0, 25.0, 15.0)
LIMIT_BYTES = 100_000


def tc(words: str) -> str:
    done = subprocess.run(["tc", *shlex.split(words)], check=True, capture_output=True, text=True)
    return done.stdout


def qdiscs(device: str) -> list[dict[str, Any]]:
    return json.loads(tc(f"-j -r qdisc show dev {device} invisible"))


def kinds(device: str) -> list[str]:
    return [qdisc["kind"] for qdisc in qdiscs(device)]


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_kind(path: Path, kind: str) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [event for event in events(path) if event["event"] == kind]


@pytest.fixture
def by(tmp_path: Path) -> Path:
    path = tmp_path / "controls"
    path.write_text("192.0.2.1 bbr\n")
    return path


@pytest.fixture
def link() -> Iterator[None]:
    with new_link():
        yield


def acting(tmp_path: Path, by: Path, *more: str, device: str = "wl0") -> tuple[str | Path, ...]:
    return (
        "cca", "-i", "wl0", "--egress", "wl1", "--every", "200ms", "--act", device,
        "--act-by", by, "--act-events", tmp_path / "events.jsonl", *more,
    )  # fmt: skip


def queue_words(queue: SharedQueue, tmp_path: Path, *more: str | Path) -> tuple[str | Path, ...]:
    (tmp_path / "controls").write_text(queue.controls_text())
    return (
        "cca", "-i", queue.before, "--egress", queue.behind, "--every", "200ms", "-n", "20",
        "--act", queue.device, "--act-by", tmp_path / "controls", "-o", tmp_path / "told.jsonl",
        "--act-events", tmp_path / "events.jsonl", "--act-after", "2", *more,
    )  # fmt: skip


def classes(queue: SharedQueue) -> dict[str, dict[str, Any]]:
    """What waits in each class, by its number."""
    return {
        qdisc["parent"]: qdisc
        for qdisc in queue.shown()
        if qdisc.get("parent", "").startswith("cca:")
    }


@pytest.mark.testbed
def test_controls_share_the_link_and_the_queue_is_put_back(tmp_path: Path) -> None:
    need_root()
    log = tmp_path / "events.jsonl"
    with shared_queue(CONTROLS, RTTS_MS, duration_s=19.0, buffer_bytes=LIMIT_BYTES) as queue:
        queue.start()
        queue.wait_until(8.0)
        with Listening(tmp_path, *queue_words(queue, tmp_path)) as running:
            wait_until(lambda: len(of_kind(log, "move")) == 3, "all flows move")
            queue.wait_until(12.0)
            first = classes(queue)
            queue.wait_until(17.0)
            last = classes(queue)
            ran = running.end()
        assert ran.status == 0, ran.stderr
        queue.finish()
        before, after = queue.rates(2.0, 8.0), queue.rates(12.0, 17.0)
        assert [qdisc["kind"] for qdisc in queue.shown()] == ["tbf", "bfifo"]
        assert queue.shown()[1]["options"]["limit"] == LIMIT_BYTES
    moves = {event["flow"].split(":")[0]: event["to"] for event in of_kind(log, "move")}
    assert moves == {flow.source: flow.control for flow in queue.plan.flows}
    # The last was told when all had moved.
    share = of_kind(log, "share")[-1]
    ids = {one["class"]: one["id"] for one in share["classes"]}
    assert sorted(ids) == ["bbr", "cubic", "reno", "rest"]
    sent = {name: last[id]["bytes"] - first[id]["bytes"] for name, id in ids.items()}
    # One flow each, so a third of the link each; what is in no class lends its part.
    total = sum(sent.values())
    for control in CONTROLS:
        assert 0.22 < sent[control] / total < 0.45, sent
    assert sent["rest"] < 0.02 * total, sent
    assert jain(after) > jain(before) - 0.02 and jain(after) > 0.9, (before, after)
    # The link is as full as it was.
    assert sum(after) > 0.9 * sum(before), (before, after)
    (end,) = of_kind(log, "end")
    assert {one["class"] for one in end["classes"]} == set(ids)


def kill_without_helper(running: Listening) -> None:
    """As a machine would that ends all processes of a service at once."""
    # The process is that of prlimit, which became wirelens.
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
    helpers = [int(pid) for pid in children.read_text().split()]
    assert helpers
    for pid in [*helpers, running.process.pid]:
        os.kill(pid, signal.SIGKILL)
    running.process.wait()
    for pid in helpers:
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}/stat").exists() or is_zombie(pid), "gone")


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("has_tbf", [False, True])
def test_nothing_stays_however_it_ends(tmp_path: Path, by: Path, link: None, has_tbf: bool) -> None:
    rate = () if has_tbf else ("--act-rate", "20mbit")
    if has_tbf:
        tc("qdisc add dev wl0 root handle 7: tbf rate 10mbit burst 4000 limit 60000")
    before = qdiscs("wl0")
    log = tmp_path / "events.jsonl"

    def is_back() -> bool:
        now = qdiscs("wl0")
        of = [(one["kind"], one["options"].get("limit")) for one in now]
        return of == [(one["kind"], one["options"].get("limit")) for one in before]

    with Listening(tmp_path, *acting(tmp_path, by, *rate)) as running:
        assert kinds("wl0").count("htb") == 1
        assert running.end().status == 0
    assert is_back(), qdiscs("wl0")
    # Killed: its helper puts it back.
    with Listening(tmp_path, *acting(tmp_path, by, *rate)) as running:
        running.signal(signal.SIGKILL)
        running.process.wait()
        wait_until(is_back, "the helper puts the queue back")
    # Killed with its helper: the next run names it, and does it.
    with Listening(tmp_path, *acting(tmp_path, by, *rate)) as running:
        kill_without_helper(running)
    assert "htb" in kinds("wl0")
    assert not of_kind(log, "undo")
    with Listening(tmp_path, *acting(tmp_path, by, *rate)) as running:
        (undo,) = of_kind(log, "undo")
        assert "killed" in undo["cause"], undo
        kill_without_helper(running)
    # Or --act-undo does.
    ran = wirelens("cca", "--act-undo", "wl0")
    assert ran.status == 0 and "restored: tc qdisc" in ran.stderr, ran.stderr
    assert is_back(), qdiscs("wl0")
    ran = wirelens("cca", "--act-undo", "wl0")
    assert ran.status == 0 and "nothing left by --act" in ran.stderr, ran.stderr


def refused(tmp_path: Path, by: Path, *more: str, device: str = "wl0") -> Ran:
    return wirelens(*acting(tmp_path, by, *more, device=device))


def test_what_cannot_be_acted_on_is_named(tmp_path: Path, by: Path, link: None) -> None:
    ran = refused(tmp_path, by)
    assert ran.status == 2 and "give --act-rate" in ran.stderr, ran.stderr
    tc("qdisc add dev wl0 root handle 7: tbf rate 10mbit burst 4000 limit 60000")
    ran = refused(tmp_path, by, "--act-rate", "5mbit")
    assert ran.status == 2 and "tbf of 10000000bit" in ran.stderr, ran.stderr
    tc("qdisc replace dev wl0 root handle 8: htb default 1")
    ran = refused(tmp_path, by, "--act-rate", "5mbit")
    assert ran.status == 1 and "htb 8:" in ran.stderr and "tc qdisc del" in ran.stderr, ran.stderr
    assert kinds("wl0") == ["htb"]
    tc("qdisc del dev wl0 root")
    with Listening(tmp_path, *acting(tmp_path, by, "--act-rate", "5mbit")):
        ran = refused(tmp_path, by, "--act-rate", "5mbit")
        assert ran.status == 1 and "another wirelens acts" in ran.stderr, ran.stderr
    by.write_text("192.0.2.1 bbr reno\n")
    ran = refused(tmp_path, by, "--act-rate", "5mbit")
    assert ran.status == 2 and ":1: 3 words" in ran.stderr, ran.stderr
    ran = wirelens("cca", "-i", "wl0", "--egress", "wl1", "--act", "wl0")
    assert ran.status == 2 and "nothing identifies congestion controls" in ran.stderr, ran.stderr
    ran = refused(tmp_path, by, "--act-rate", "5mb")
    assert ran.status == 2 and "not a unit of rates" in ran.stderr, ran.stderr


def test_what_would_not_be_restored_is_refused(tmp_path: Path, by: Path, link: None) -> None:
    ip("link set wl0 txqueuelen 0")
    ran = refused(tmp_path, by, "--act-rate", "5mbit")
    assert ran.status == 1 and "ip link set dev wl0 txqueuelen 1000" in ran.stderr, ran.stderr
    assert kinds("wl0") == ["noqueue"] and link_facts("wl0").get("txqlen", 0) == 0
    ip("link set wl0 txqueuelen 1000")
    with Listening(tmp_path, *acting(tmp_path, by, "--act-rate", "5mbit")) as running:
        assert running.end().status == 0
    assert kinds("wl0") == ["noqueue"] and link_facts("wl0")["txqlen"] == 1000
    for child in ("bfifo limit 50000", "handle 10: bfifo limit 60000", "pfifo limit 60"):
        tc("qdisc replace dev wl0 root handle 7: tbf rate 10mbit burst 4000 limit 60000")
        tc(f"qdisc replace dev wl0 parent 7:1 {child}")
        before = qdiscs("wl0")
        ran = refused(tmp_path, by)
        assert ran.status == 1 and "a plain queue of the tbf's limit" in ran.stderr, ran.stderr
        assert qdiscs("wl0") == before
        tc("qdisc del dev wl0 root")


def test_queues_and_filters_of_a_device_come_back(tmp_path: Path, by: Path, link: None) -> None:
    """As those of a network card with several hardware queues, which has a default for each."""
    ip("link add cards numtxqueues 4 type ifb")
    ip("link set cards up")
    tc("qdisc add dev cards clsact")
    tc('filter add dev cards egress bpf direct-action bytecode "1,6 0 0 0"')
    before, filters = qdiscs("cards"), tc("filter show dev cards egress")
    assert kinds("cards").count("mq") == 1 and len(before) == 1 + 4 + 1, before
    words = acting(tmp_path, by, "--act-rate", "5mbit", device="cards")
    with Listening(tmp_path, *words) as running:
        assert "mq" not in kinds("cards") and "htb" in kinds("cards")
        assert running.end().status == 0
    assert sorted(map(str, qdiscs("cards"))) == sorted(map(str, before))
    assert tc("filter show dev cards egress") == filters
    # A default of an operator's own for one of them is not the kernel's.
    tc("qdisc replace dev cards root handle 5: mq")
    ran = refused(tmp_path, by, "--act-rate", "5mbit", device="cards")
    assert ran.status == 1 and "mq 5:" in ran.stderr, ran.stderr


def test_a_dry_run_tells_and_changes_nothing(tmp_path: Path, by: Path, link: None) -> None:
    words = acting(tmp_path, by, "--act-rate", "5mbit", "--act-dry-run")
    with Listening(tmp_path, *words) as running:
        assert kinds("wl0") == ["noqueue"]
        assert running.end().status == 0
    (begin,) = of_kind(tmp_path / "events.jsonl", "begin")
    assert begin["dry_run"] is True and begin["found"] == "noqueue"
    assert "qdisc replace dev wl0 root handle cca: htb" in begin["commands"][0]
    assert not of_kind(tmp_path / "events.jsonl", "end")


def test_a_terminal_gets_a_screen_that_leaves_it_as_it_was(tmp_path: Path, link: None) -> None:
    words = ("cca", "-i", "wl0", "--egress", "wl1", "--every", "100ms")
    with Terminal(*words) as terminal:
        screen = terminal.wait_for("no rows yet")
        assert screen.startswith("wirelens cca wl0") and "5 Queues" in screen
        terminal.wait_for("Flow .*CBIQ")
        terminal.end()
    refused = wirelens(*words, "--view", "always", "--duration", "250ms")
    assert refused.status == 2 and "not a terminal" in refused.stderr
    ran = wirelens(*words, "--duration", "250ms")
    assert ran.status == 0 and ran.stdout == b""
    ran = wirelens(*words, "--view", "always", "--format", "csv")
    assert ran.status == 2 and "--view always" in ran.stderr
    with Terminal(*words, "--view", "never", "--duration", "250ms") as terminal:
        terminal.end("")
        assert "\x1b" not in terminal.seen


def test_what_is_done_to_a_queue_is_told_below_the_screen(
    tmp_path: Path, by: Path, link: None
) -> None:
    words = acting(tmp_path, by, "--act-rate", "5mbit", "--act-dry-run")
    with Terminal(*words) as terminal:
        terminal.wait_for(r"\nbegin: ")
        terminal.end()
