"""Clients of the page that are slow: what they hold is bounded, and what is cut is counted."""

import contextlib
import json
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from lab import datagram, wait_until
from scraped import PATIENCE_S, Run, running

FLOW_COUNT = 10_000
# Bytes of answers that wait at most, of which three quarters are for large ones.
ANSWER_BYTES_MAX = 256 << 20
LARGE = "/api/v1/tables/flows?limit=10000"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run with so many flows that an answer with all of them has megabytes."""
    folder = tmp_path_factory.mktemp("slow")
    sent = (datagram(("192.0.2.1", 1024 + at), ("192.0.2.9", 53)) for at in range(FLOW_COUNT))
    start_ns = 1_795_299_096 * 10**9
    frames = [Frame(start_ns + at * 1000, data, len(data)) for at, data in enumerate(sent)]
    write_pcap(folder / "flows.pcap", frames)
    (folder / "wirelens.toml").write_text("[flows]\n")
    with running(folder, "-c", "wirelens.toml", "-r", "flows.pcap") as run:
        run.wait_for("the page stays open")
        yield run
        run.end()


def connect(run: Run) -> socket.socket:
    host, port = run.address.split(":")
    client = socket.socket()
    # The kernel takes little in the client's place.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    client.connect((host, int(port)))
    return client


def ask(run: Run, path: str) -> socket.socket:
    """A connection on which something was asked for, of which nothing is read."""
    client = connect(run)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client


def get(run: Run, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{run.address}{path}", timeout=PATIENCE_S) as answer:
        return answer.read()


def refusal(run: Run, path: str) -> str:
    """Why this is not answered; nothing where it is."""
    try:
        get(run, path)
    except urllib.error.HTTPError as error:
        assert error.code == 503
        said: str = json.load(error)["error"]
        return said
    return ""


def memory_bytes(run: Run) -> int:
    status = Path(f"/proc/{run.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def test_answers_that_slow_clients_hold_are_bounded(run: Run) -> None:
    answer_bytes = len(get(run, LARGE))
    count = ANSWER_BYTES_MAX // answer_bytes + 2
    before = memory_bytes(run)
    with contextlib.ExitStack() as slow:
        said = ""
        for number in range(count):
            slow.enter_context(ask(run, LARGE))
            # More than 64 would be refused for another reason.
            if number % 16 == 0 or number > count // 2:
                said = refusal(run, LARGE)
            if said:
                break
        wanted = r"[0-9]+ MiB of answers wait for clients that read slowly; try .* fewer rows"
        assert re.fullmatch(wanted, said), said
        held = memory_bytes(run) - before
        assert held < ANSWER_BYTES_MAX + 4 * answer_bytes, f"{held} bytes"
        # Small answers have room of their own.
        scrape = run.scrape()
        assert scrape.sum("wirelens_server_answers_refused_total", cause="bytes") >= 1
        waiting = scrape.sum("wirelens_server_answer_bytes_waiting")
        assert ANSWER_BYTES_MAX / 2 < waiting <= ANSWER_BYTES_MAX
    wait_until(lambda: refusal(run, LARGE) == "", "there is room again")


def test_a_client_that_takes_nothing_is_cut(run: Run) -> None:
    with ask(run, LARGE):
        cut = ("wirelens_server_connections_cut_total", "answer")
        before = run.scrape().sum(cut[0], cause=cut[1])
        # 20 seconds.
        wait_until(
            lambda: run.scrape().sum(cut[0], cause=cut[1]) > before, "it is cut", time_max_s=40
        )
        assert run.scrape().sum("wirelens_server_answer_bytes_waiting") < 1 << 20


def test_a_request_that_comes_slowly_is_cut(run: Run) -> None:
    before = run.scrape().sum("wirelens_server_connections_cut_total", cause="request")
    start = time.monotonic()
    with connect(run) as client, pytest.raises(ConnectionError):
        for byte in b"GET /api/v1/state HTTP/1.1\r\nHost: localhost\r\n" * 20:
            client.sendall(bytes([byte]))
            time.sleep(0.1)
            assert time.monotonic() - start < PATIENCE_S, "it is not cut"
    after = run.scrape().sum("wirelens_server_connections_cut_total", cause="request")
    assert after == before + 1
