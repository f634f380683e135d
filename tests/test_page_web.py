"""The page of a real run in Chromium: real packets on a link of the test's own, seen on the screen."""

import json
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, ROOT, wirelens
from lab import Link, Listening, datagram, datagrams, ip, new_link, wait_until
from scraped import parsed
from test_page import serving

pytestmark = pytest.mark.web

REAL = ROOT / "page/tests/real.mjs"
VIEWS = (
    "overview", "talkers", "flows", "hosts", "services", "queues", "latency", "packetlog", "alerts",
    "health",
)  # fmt: skip
SETTINGS = """
[input]
interface = "wl0"
[page]
listen = "127.0.0.1:0"
[traffic]
[flows]
read-names = true
[classify]
model = "services"
[latency]
[cca]
"""


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        ip("link set lo up")
        yield made


def dns_query(*labels: bytes) -> bytes:
    """A frame that asks for the address of a name."""
    name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    query = struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + name + struct.pack(">2H", 1, 1)
    return datagram(("198.18.0.9", 4001), ("198.19.0.1", 53), len(query))[: -len(query)] + query


class Browser:
    """Chromium on a view, until a text is there."""

    def __init__(self, address: str, view: str, text: str, *more: str) -> None:
        command = ["node", REAL, address, f"#/{view}", text, *more]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        self.paint_ms: float = json.loads(self._lines.readline())["paint_ms"]

    def end(self) -> dict[str, object]:
        seen: dict[str, object] = json.loads(self._lines.readline())
        assert self._process.wait(30) == 0
        self._lines.close()
        return seen


def listening(folder: Path) -> tuple[Listening, str]:
    (folder / "wirelens.toml").write_text(SETTINGS)
    live = Listening(folder, "run", "-c", folder / "wirelens.toml")
    live.wait_for("http://")
    return live, next(word for word in live.stderr.split() if word.startswith("http://"))


def test_a_packet_comes_to_the_screen_unasked(link: Link, tmp_path: Path) -> None:
    """The limits are those of a machine busy with other tests; `bench/speed/run` has the figures."""
    live, address = listening(tmp_path)
    with live:
        link.send(datagrams(20))
        browser = Browser(address, "flows", "198.18.77.77")
        assert browser.paint_ms < 5000
        # The page has time to become quiet, as before a packet that someone waits for.
        time.sleep(1.5)
        sent_ms = time.time() * 1000
        link.send([datagram(("198.18.77.77", 4000), ("198.19.0.1", 53))])
        seen = browser.end()
        assert seen["complaints"] == []
        assert isinstance(seen["seen_ms"], int), "not seen within ten seconds"
        waited_ms = seen["seen_ms"] - sent_ms
        print(f"first paint {browser.paint_ms:.0f} ms, packet to screen {waited_ms:.0f} ms")
        assert waited_ms < 5000


def test_names_from_the_wire_are_text(link: Link, tmp_path: Path) -> None:
    """A DNS query for an image that would run a script."""
    live, address = listening(tmp_path)
    with live:
        link.send([dns_query(b"<img src=x onerror=alert(1)>", b"example")])
        seen = Browser(address, "flows", "<img src=x onerror=alert(1)>.example").end()
    assert seen["seen_ms"] and seen["complaints"] == []


def test_losses_of_a_drill_are_shown_as_they_are_counted(link: Link, tmp_path: Path) -> None:
    """The page, `/metrics` and the closing lines have the same numbers, and the drill its name."""
    settings = SETTINGS.replace('interface = "wl0"', 'interface = "wl0"\nbuffer-size = "256K"')
    (tmp_path / "wirelens.toml").write_text(settings)
    frames = [datagram(("198.18.0.1", 1024 + n), ("198.19.0.1", 53), 200) for n in range(100)]
    words = ["run", "-c", tmp_path / "wirelens.toml", "--simulate", "drop=500"]
    with Listening(tmp_path, *words) as live:
        live.wait_for("http://")
        address = next(word for word in live.stderr.split() if word.startswith("http://"))

        def counted(name: str) -> int:
            with urllib.request.urlopen(f"{address}metrics", timeout=10) as answer:
                return int(parsed(answer.read().decode()).sum(name))

        def dropped_enough() -> bool:
            link.send(frames)
            return counted("wirelens_packets_dropped_total") >= 500

        def settled() -> bool:
            names = [f"wirelens_packets_{name}_total" for name in ("dropped", "received")]
            before = [counted(name) for name in names]
            time.sleep(0.5)
            return before == [counted(name) for name in names]

        wait_until(dropped_enough, "the kernel drops", 40.0)
        link.settle()
        wait_until(lambda: counted("wirelens_flows_packets_processed_total") > 0, "it reads on")
        wait_until(settled, "nothing comes any more", 20.0)
        dropped = counted("wirelens_packets_dropped_total")
        received = counted("wirelens_packets_received_total")
        for view in ("overview", "health"):
            seen = Browser(address, view, "Drill: this run simulates faults (drop=500).").end()
            assert seen["seen_ms"] and seen["complaints"] == []
            text = f"{dropped:,} of {received:,} packets"
            assert Browser(address, view, text).end()["seen_ms"], text
        ran = live.end()
    assert (
        f"\n{received} packets received by filter\n{dropped} packets dropped by the" in ran.stderr
    )
    assert f"flows: {received} received = {received - dropped} processed + 0 filtered" in ran.stderr


@pytest.mark.parametrize("size", ["laptop", "phone"])
def test_every_view_of_a_real_run_is_drawn(size: str) -> None:
    with serving("-r", str(DEMO), "--page", "0") as address:
        for view in VIEWS:
            theme = "dark" if size == "phone" else "light"
            seen = Browser(address, view, "Wirelens" if size == "laptop" else "", size, theme).end()
            assert seen["seen_ms"] and not seen["is_wide"], (view, seen)
            assert seen["complaints"] == [], view


def test_rows_of_an_earlier_run_are_shown_with_a_range(tmp_path: Path) -> None:
    (tmp_path / "wirelens.toml").write_text("[traffic]\n[flows]\nread-names = true\n[history]\n")
    stored = wirelens("run", "-q", "-c", "wirelens.toml", "-r", str(DEMO), cwd=tmp_path)
    assert stored.status == 0, stored.stderr
    # Thirty hours after the demo.
    data = datagram(("192.0.2.1", 1), ("192.0.2.9", 53))
    later_ns = 1_795_299_096 * 10**9 + 30 * 3600 * 10**9
    write_pcap(tmp_path / "later.pcap", [Frame(later_ns, data, len(data))])
    command = ("-c", "wirelens.toml", "-r", "later.pcap", "--page", "0")
    with serving(*command, cwd=tmp_path) as address:
        for view, text in (
            ("flows?range=7d", "media.demo.example"), ("hosts?range=all", "10.20.0.11"),
            ("host/10.20.0.11?range=all", "203.0.113.80"), ("overview?range=7d", "24 h"),
        ):  # fmt: skip
            seen = Browser(address, view, text).end()
            assert seen["seen_ms"] is not None, view
            assert (seen["complaints"], seen["is_wide"]) == ([], False), view
