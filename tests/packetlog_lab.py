"""A recorder on an interface of a test's own: started, asked, and held to its own counts."""

import json
import re
import subprocess
from pathlib import Path

from command import Ran, wirelens
from lab import Listening, datagram, wait_until
from packetlog_model import PORT

BENIGN, ANOMALOUS = 80, PORT
HEADERS, PAYLOAD = 42, 400


def frames(count: int, port: int = BENIGN, payload: int = PAYLOAD) -> list[bytes]:
    ends = (("198.18.0.1", 40_000 + number % 500) for number in range(count))
    return [datagram(end, ("198.19.0.1", port), payload) for end in ends]


def recording(folder: Path, log: Path, model: Path, *arguments: str) -> Listening:
    words = ("packetlog", "record", "-i", "wl0", "-o", log, "--model", model)
    return Listening(folder, *words, "--latency", "low", "-s", "2048", *arguments)


def status(log: Path) -> dict:
    ran = wirelens("packetlog", "status", "--log", log, "--format", "json")
    assert ran.status == 0, ran.stderr
    return json.loads(ran.stdout)


def events(log: Path) -> list[dict]:
    """Of a log's folder, or of a file."""
    path = log / "events.jsonl" if log.is_dir() else log
    return [json.loads(line) for line in path.read_text().splitlines()]


def switches(log: Path) -> list[tuple[str, str, str]]:
    of_modes = (event for event in events(log) if event["event"] == "mode")
    return [(event["from"], event["to"], event["cause"]) for event in of_modes]


def query(log: Path, *arguments: str | Path) -> int:
    ran = wirelens("packetlog", "query", "--log", log, *arguments)
    assert ran.status == 0, ran.stderr
    return int(re.search(r"^(\d+) packets", ran.stderr, re.MULTILINE)[1])


def accounted(ran: Ran) -> dict[str, int]:
    """What became of packets; that it adds up is asserted."""
    names = ("seen", "stored", "skipped by the mode", "lost")
    numbers = [int(re.search(rf"(\d+) {name}", ran.stderr)[1]) for name in names]
    assert numbers[0] == sum(numbers[1:]), ran.stderr
    return dict(zip(("seen", "kept", "passed over", "lost"), numbers, strict=True))


def seen(log: Path, count: int) -> None:
    wait_until(lambda: status(log)["packets"]["seen"] >= count, f"{count} packets are seen")


def shown(capture: Path, *fields: str) -> list[str]:
    """Fields of each packet, as tshark prints them: a line each, with tabs."""
    asked = [word for field in fields for word in ("-e", field)]
    ran = subprocess.run(
        ["tshark", "-r", capture, "-T", "fields", *asked],
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.splitlines()
