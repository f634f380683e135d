"""Drills: `wirelens run --simulate` makes real losses that are counted, alerted on and said as real
ones are, and is named wherever an operator looks. In each, and in each way packets come, what was
received is what was processed, dropped, malformed and faulted, and all places say the same numbers.

Without root the tests on interfaces are skipped."""

import csv
import json
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import DEMO, Ran, wirelens
from lab import Link, Listening, datagram, datagrams, ip, new_links, wait_until
from scraped import Scrape, parsed

SUM = re.compile(r"^(\w+): (\d+) received = (.*)$", re.M)
ALERTS = """
[[alert]]
name = "capture drops"
table = "counts"
when = "name == packets_dropped and increase > 0"
key = ["labels"]
[[alert]]
name = "rows dropped"
table = "counts"
when = "name == rows_dropped and increase > 0"
key = ["application"]
[[alert]]
name = "flows evicted"
table = "counts"
when = 'name == ended and labels == "reason=evicted" and increase > 0'
key = ["application"]
[[alert]]
name = "application failed"
table = "counts"
when = "name == faults and increase > 0"
key = ["application"]
[[alert]]
name = "drill"
table = "counts"
when = "name == drill and value == 1"
key = ["labels"]
[[notify]]
kind = "jsonl"
to = "alerts.jsonl"
"""
# How packets come from interfaces: settings of [input], and where they are sent.
MODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "ring v3": ('interface = "wl0"\n', ("wl1",)),
    "ring v2": ('interface = "wl0"\nlatency = "low"\nsnaplen = 200\n', ("wl1",)),
    "several": ('interface = ["wl0", "wl2"]\n', ("wl1", "wl3")),
    "any": ('interface = "any"\nfilter = "udp"\n', ("wl1",)),
}


@pytest.fixture
def links() -> Iterator[Link]:
    """`wl0` and `wl1`, `wl2` and `wl3`, and a loopback for the page."""
    with new_links() as made:
        ip("link set lo up")
        yield made


def sums(said: str) -> dict[str, dict[str, int]]:
    """The account of each application, which has to hold."""
    found = {}
    for name, received, rest in SUM.findall(said):
        terms = {what: int(count) for count, what in re.findall(r"(\d+) (\w+)", rest)}
        assert sum(terms.values()) == int(received), (name, received, terms)
        found[name] = {"received": int(received), **terms}
    assert found, said
    return found


@contextmanager
def sending(names: tuple[str, ...], frames: list[bytes]) -> Iterator[None]:
    """Sends the frames again and again, some thousands a second."""
    over = threading.Event()
    sockets = []
    for name in names:
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind((name, 0))
        sockets.append(out)

    def send() -> None:
        while not over.is_set():
            for frame in frames:
                for out in sockets:
                    out.send(frame)
            time.sleep(0.01)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for out in sockets:
            out.close()


class Page:
    """What a run shows."""

    def __init__(self, live: Listening) -> None:
        live.wait_for("http://")
        self.address = re.search(r"http://(\S+?)/", live.stderr)[1]

    def ask(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.address}/{path}", timeout=10) as answer:
            return answer.read().decode()

    def state(self) -> dict[str, object]:
        return json.loads(self.ask("api/v1/state"))

    def health(self) -> dict[str, dict[str, str]]:
        return {check["name"]: check for check in json.loads(self.ask("api/v1/health"))["checks"]}

    def scrape(self) -> Scrape:
        return parsed(self.ask("metrics"))


def alerts(folder: Path) -> list[str]:
    path = folder / "alerts.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["name"] for line in lines]


@contextmanager
def drilled(folder: Path, tables: str, *drills: str) -> Iterator[tuple[Listening, Page]]:
    """A run with a page and drills, on interfaces."""
    (folder / "wirelens.toml").write_text(tables + ALERTS)
    words = [word for drill in drills for word in ("--simulate", drill)]
    command = ["run", "-c", "wirelens.toml", "--page", "127.0.0.1:0", *words]
    with Listening(folder, *command, cwd=folder) as live:
        yield live, Page(live)


def check_named(folder: Path, live: Listening, page: Page, drill: str) -> None:
    """Wherever an operator looks, the drill is named."""
    assert f"wirelens: drill: simulate {drill}: " in live.stderr
    assert page.state()["drills"] == [drill]
    assert page.health()["drill"]["seen"] == drill
    assert page.scrape().sum("wirelens_drill", simulate=drill) == 1
    wait_until(lambda: "drill" in alerts(folder), "an alert names the drill")
    if (folder / "log").exists():
        events = [json.loads(line) for line in (folder / "log/events.jsonl").open()]
        assert [e["simulate"] for e in events if e["event"] == "drill"] == [drill]


def check_same(page: Page, end: Callable[[], Ran], names: tuple[str, ...]) -> dict[str, int]:
    """Counters, page and closing lines say the same; the sum of the first application."""
    wait_until(lambda: settled(page), "all packets are counted")
    scrape, state = page.scrape(), page.state()
    ran = end()
    accounts = sums(ran.stderr)
    assert set(names) <= set(accounts)
    for name in names:
        account = accounts[name]
        for what in ("processed", "faulted"):
            counted = scrape.sum(f"wirelens_{name}_packets_{what}_total")
            assert counted == account.get(what, 0), (name, what)
    account = accounts[names[0]]
    assert scrape.sum("wirelens_packets_received_total") == account["received"]
    assert scrape.sum("wirelens_packets_dropped_total", stage="capture") == account["dropped"]
    assert state["packets"]["dropped"] == account["dropped"]
    assert state["packets"]["received"] == account["received"]
    return account


def settled(page: Page) -> bool:
    """Whether no packet has come for a while."""
    before = page.scrape().sum("wirelens_packets_received_total")
    time.sleep(0.5)
    return page.scrape().sum("wirelens_packets_received_total") == before


@pytest.mark.parametrize("mode", MODES)
def test_dropped_packets_are_real_and_counted_alike_everywhere(
    links: Link, tmp_path: Path, mode: str
) -> None:
    more, names = MODES[mode]
    tables = f'[input]\n{more}buffer-size = "256K"\n[traffic]\n[flows]\n[top]\nwindow = "1s"\n'
    tables += '[packetlog]\noutput = "log"\nmode = "log-minimum"\nfixed-mode = true\n'
    with drilled(tmp_path, tables, "drop=700") as (live, page):
        frames = [datagram(("198.18.0.1", 1024 + n), ("198.19.0.1", 53), 100) for n in range(100)]
        with sending(names, frames):
            check_named(tmp_path, live, page, "drop=700")
            wait_until(
                lambda: page.scrape().sum("wirelens_packets_dropped_total") >= 700 * len(names),
                "the kernel drops packets", 40,
            )  # fmt: skip
            wait_until(lambda: "capture drops" in alerts(tmp_path), "an alert fires")
            # It reads on: what is processed grows.
            before = page.scrape().sum("wirelens_flows_packets_processed_total")
            wait_until(
                lambda: page.scrape().sum("wirelens_flows_packets_processed_total") > before,
                "reading goes on", 40,
            )  # fmt: skip
        account = check_same(page, live.end, ("traffic", "flows", "top", "packetlog"))
    assert account["dropped"] >= 700
    said = live.stderr
    assert f"drill: simulate drop=700: the kernel dropped {account['dropped']} packets" in said
    assert "packets dropped by the kernel: its ring was full" in said


def test_a_ring_that_does_not_fill_is_said(links: Link, tmp_path: Path) -> None:
    tables = '[input]\ninterface = "wl0"\n[flows]\n'
    with drilled(tmp_path, tables, "drop") as (live, page):
        links.send(datagrams(3))
        check_named(tmp_path, live, page, "drop=1000")
        # A stop does not wait for the stall, which may have begun by now.
        time.sleep(2.2)
        ran = live.end()
    assert ran.status == 0 and sums(ran.stderr)["flows"]["dropped"] == 0
    assert "the kernel dropped nothing, as the ring was not full in time" in ran.stderr


def test_a_slow_disk_costs_rows_on_an_interface(links: Link, tmp_path: Path) -> None:
    tables = '[input]\ninterface = "wl0"\n[top]\nwindow = "20ms"\noutput = "top.csv"\n[flows]\n'
    with drilled(tmp_path, tables, "slow-disk=2s") as (live, page):
        with sending(("wl1",), datagrams(20)):
            check_named(tmp_path, live, page, "slow-disk=2s")
            dropped = lambda: page.scrape().sum("wirelens_top_rows_dropped_total")  # noqa: E731
            wait_until(lambda: dropped() > 0, "rows are dropped", 30)
            wait_until(lambda: "rows dropped" in alerts(tmp_path), "an alert fires")
            assert page.health()["rows dropped on the way out"]["status"] == "error"
        ran = live.end()
    # No packet was lost to it.
    account = sums(ran.stderr)["top"]
    assert account["received"] == account["processed"]
    found = re.search(r"top: (\d+) rows were dropped, as writing was too slow", ran.stderr)
    assert ran.status == 1 and found, ran.stderr
    scraped = sum(1 for _ in csv.DictReader((tmp_path / "top.csv").open()))
    assert scraped > 0 and int(found[1]) > 0


def test_a_full_table_evicts_flows_on_an_interface(links: Link, tmp_path: Path) -> None:
    tables = '[input]\ninterface = "wl0"\n[flows]\n[unanswered]\n'
    with drilled(tmp_path, tables, "full-table=64") as (live, page):
        with sending(("wl1",), datagrams(2_000)):
            check_named(tmp_path, live, page, "full-table=64")
            wait_until(lambda: "flows evicted" in alerts(tmp_path), "an alert fires")
        assert page.scrape().sum("wirelens_flow_table_flows") <= 64
        assert page.scrape().sum("wirelens_flows_ended_total", reason="evicted") > 1_000
        account = check_same(page, live.end, ("flows", "unanswered"))
    assert account["received"] == account["processed"]


def test_a_fault_costs_a_piece_on_an_interface(links: Link, tmp_path: Path) -> None:
    (tmp_path / "wirelens-quarantine").mkdir()
    tables = '[input]\ninterface = "wl0"\n[flows]\n[top]\nwindow = "1s"\n'
    with drilled(tmp_path, tables, "fault=flows@500") as (live, page):
        with sending(("wl1",), datagrams(50)):
            check_named(tmp_path, live, page, "fault=flows@500")
            wait_until(lambda: "application failed" in alerts(tmp_path), "an alert fires")
        account = check_same(page, live.end, ("flows", "top"))
    assert 0 < account["faulted"] <= 64
    assert "flows panicked at " in live.stderr and "the run continues" in live.stderr


def read(folder: Path, way: str) -> tuple[list[str | Path], bytes | None]:
    """Arguments, and standard input, by which the capture that ships is read."""
    if way == "stdin":
        return ["-r", "-"], DEMO.read_bytes()
    if way == "several":
        for name in ("a", "b"):
            (folder / f"{name}.pcapng").write_bytes(DEMO.read_bytes())
        return ["-r", folder / "a.pcapng", "-r", folder / "b.pcapng"], None
    if way == "replay":
        return ["-r", DEMO, "--pace", "1000"], None
    return ["-r", DEMO, "--threads", way.split()[0]], None


def rows_of(folder: Path) -> list[bytes]:
    return [(folder / f"{name}.csv").read_bytes() for name in ("flows", "top")]


@pytest.mark.parametrize("way", ["1 thread", "3 threads", "several", "stdin", "replay"])
def test_captures_wait_for_a_slow_disk_and_lose_nothing(tmp_path: Path, way: str) -> None:
    tables = '[run]\nseed = 1\n[flows]\noutput = "flows.csv"\n'
    tables += '[top]\nwindow = "100ms"\noutput = "top.csv"\n[packetlog]\noutput = "log"\n'
    found = []
    for drills in ((), ("--simulate", "slow-disk=5ms", "--simulate", "fault=top@100")):
        folder = tmp_path / f"with-{len(drills)}"
        folder.mkdir()
        (folder / "wirelens.toml").write_text(tables)
        words, text = read(folder, way)
        ran = wirelens("run", "-c", "wirelens.toml", *words, *drills, stdin=text, cwd=folder)
        assert ran.status == 0, ran.stderr
        accounts = sums(ran.stderr)
        assert all(one["dropped"] == 0 for one in accounts.values())
        faulted = {name for name, one in accounts.items() if one.get("faulted", 0)}
        assert faulted == ({"top"} if drills else set())
        # The captures are in a folder of each run.
        rows = rows_of(folder)[0].replace(str(folder).encode(), b"")
        found.append((rows, accounts["flows"]["received"]))
    assert found[0] == found[1], "rows that are written slowly are the same"


def test_a_full_table_on_captures_is_in_the_rows(tmp_path: Path) -> None:
    (tmp_path / "wirelens.toml").write_text(
        '[flows]\noutput = "flows.csv"\n[cca]\noutput = "c.csv"'
    )
    command = ("run", "-c", "wirelens.toml", "-r", DEMO, "--simulate", "full-table=64")
    ran = wirelens(*command, cwd=tmp_path)
    assert ran.status == 0 and len(sums(ran.stderr)) == 2
    reasons = [row["end_reason"] for row in csv.DictReader((tmp_path / "flows.csv").open())]
    assert "evicted" in reasons


@pytest.mark.parametrize(
    ("tables", "drill", "why"),
    [
        ("[flows]", "drop", "without packets of an interface"),
        ("[flows]", "slow-disk", "nothing is written to files"),
        ("[top]", "full-table", "no application follows flows"),
        ("[flows]\nmax-flows = 64", "full-table=64", "the limit is not higher"),
        ("[flows]", "fault=top@1", "there is no table [top]"),
    ],
)
def test_a_drill_without_effect_is_refused_by_name(
    tmp_path: Path, tables: str, drill: str, why: str
) -> None:
    rows = "" if drill == "slow-disk" else 'output = "rows.csv"\n'
    head, *rest = tables.split("\n")
    text = "\n".join([head, rows, *rest])
    if drill == "slow-disk":
        text = '[flows]\noutput = "-"\nformat = "csv"\n'
    path = tmp_path / "wirelens.toml"
    path.write_text(text)
    typed = wirelens("run", "-c", path, "-r", DEMO, "--simulate", drill, "--check")
    assert typed.status == 2 and "--simulate " in typed.stderr and why in typed.stderr
    path.write_text(f'{text}\n[run]\nsimulate = ["{drill}"]\n')
    written = wirelens("run", "-c", path, "-r", DEMO, "--check")
    assert written.status == 2 and "[run] simulate " in written.stderr and why in written.stderr
    assert not list(tmp_path.glob("*.csv*"))


def test_a_slow_disk_is_refused_where_writes_must_be_direct(tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text('[packetlog]\noutput = "log"\n[packetlog.log]\ndirect = "always"\n')
    ran = wirelens("run", "-c", path, "-r", DEMO, "--simulate", "slow-disk")
    assert ran.status == 1 and "simulate slow-disk: has no effect" in ran.stderr, ran.stderr
    assert 'direct = "always"' in ran.stderr and not (tmp_path / "log").exists()


def test_words_that_are_no_drill_are_refused_with_those_that_are(tmp_path: Path) -> None:
    ran = wirelens("run", "-r", DEMO, "--page", "--simulate", "panic")
    assert ran.status == 2
    assert "wanted: drop, full-table, slow-disk or fault" in ran.stderr
    ran = wirelens("run", "--init", "--simulate", "drop")
    assert ran.status == 2 and "cannot be used with" in ran.stderr
    # Results of other runs are no packets.
    path = tmp_path / "wirelens.toml"
    path.write_text('[sensors]\n[flows]\n[page]\n[nats]\nservers = ["nats://127.0.0.1:4222"]\n')
    ran = wirelens("run", "-c", path, "--check", "--simulate", "fault")
    assert ran.status == 2 and "--simulate has no effect with [sensors]" in ran.stderr
