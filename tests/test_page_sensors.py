"""The page of a run over sensors in Chromium, with the real NATS server and real sensors."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from broker import Broker, broker
from command import DEMO
from lab import wait_until
from test_page_web import Browser
from test_sensors import View, publish, view, written

pytestmark = pytest.mark.web

VIEWS = ("overview", "talkers", "hosts", "services", "alerts")
# Both sensors publish within it, on a busy machine as well.
KEYS = 'join-wait = "8s"\n'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Broker]:
    with broker(tmp_path) as started:
        yield started


@pytest.fixture
def running(tmp_path: Path, server: Broker) -> Iterator[View]:
    """A view of all sensors, with nothing to show yet."""
    settings = written(tmp_path, server.address, keys=KEYS, with_files=False)
    with view(tmp_path, settings) as begun:
        yield begun


def address(running: View) -> str:
    return running.stderr.split("page: ")[1].split()[0]


def seen(running: View, place: str, text: str, *more: str) -> None:
    """The text is there, on a page that fits the screen and complains of nothing."""
    found = Browser(address(running), place, text, *more).end()
    assert found["seen_ms"] is not None, f"{text!r} is not seen at {place}"
    assert (found["complaints"], found["is_wide"]) == ([], False), place


def test_a_sensor_comes_to_the_screen_unasked(
    tmp_path: Path, server: Broker, running: View
) -> None:
    seen(running, "sensors", "No sensor was heard so far")
    browser = Browser(address(running), "sensors", "roof-east")
    publish(tmp_path, server.address, "roof-east")
    found = browser.end()
    assert found["seen_ms"] is not None and found["complaints"] == []


def test_a_flow_at_two_sensors_is_shown_apart(
    tmp_path: Path, server: Broker, running: View
) -> None:
    """The second sensor sees packets 5 ms later and loses the hundredth."""
    behind = tmp_path / "behind.pcap"
    command = ["editcap", "-t", "0.005", DEMO, behind, "100"]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    publish(tmp_path, server.address, "front")
    publish(tmp_path, server.address, "behind", behind)
    wait_until(lambda: len(running.rows("joined")) > 100, "flows are joined", 30)
    row = next(
        row for row in running.rows("joined") if row["packets_max"] == row["packets_min"] + 1
    )
    path = quote(row["community_id"], safe="")
    where = quote(f'community_id == "{row["community_id"]}"')
    seen(running, f"sensors?joined_where={where}", "front, behind", "phone")
    flow = f"flow/{path}?first_ns={row['first_ns']}"
    most, fewest = row["packets_max"], row["packets_min"]
    seen(running, flow, f"front\t{most}\t")
    seen(running, f"{flow}&seen_by=behind", f"behind\t{fewest}\t")
    for name in VIEWS:
        seen(running, f"{name}?sensor=behind", "Wirelens")
    count = len([row for row in running.rows("flows") if row["sensor"] == "behind"])
    seen(running, "flows?sensor=behind", f"of {count} flows")
