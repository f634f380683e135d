"""Stages that workers compute over NATS: the same rows, and one for each flow whatever ends."""

import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from broker import Client, Message, free_port
from captures import Frame, write_pcap
from command import wirelens
from lab import (
    Link,
    Listening,
    bring_up,
    datagrams,
    identity,
    inside,
    ip,
    new_link,
    new_namespace,
    wait_until,
)
from scraped import Scrape, parsed, running
from workers import (
    FakeWorker,
    Flow,
    Server,
    Worker,
    check_each_flow_once,
    count,
    escalated,
    local_rows,
    outcomes,
    rows_of,
    server_in,
    settings,
    unanswered,
    wait_for_end,
)

pytestmark = pytest.mark.testbed

ESCALATED_COUNT = 49
# A service has no such port: the first stage is not sure of flows to it, and the last one looks at
# three packets of each.
PORT = 33_440
PACKETS = 3
# A machine that is busy answers later than in 200 ms.
PATIENT = 'deadline = "5s"\n'


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> list[Flow]:
    """Rows of a sensor without workers."""
    rows = local_rows(tmp_path_factory.mktemp("local"))
    assert len(escalated(rows)) == ESCALATED_COUNT
    return rows


def in_order(rows: list[Flow]) -> list[Flow]:
    return sorted(rows, key=lambda row: (str(row["community_id"]), str(row["first_ns"])))


@pytest.mark.parametrize("more", ["", 'rotate-bytes = "1G"\n'], ids=["one-file", "many-files"])
def test_a_worker_answers_what_the_sensor_would_have_said(
    tmp_path: Path, local: list[Flow], more: str
) -> None:
    with server_in(tmp_path) as server, Worker(tmp_path, server.address) as worker:
        server.wait_for_workers(1)
        ran = wirelens("run", "-c", settings(tmp_path, server.address, PATIENT + more))
        assert ran.status == 0 and "not answered" not in ran.stderr, ran.stderr
        assert rows_of(tmp_path) == local
        summary = worker.end()
        assert (summary.rows, summary.late, summary.refused) == (ESCALATED_COUNT, 0, 0)


def test_two_workers_share_the_flows_by_partition(tmp_path: Path, local: list[Flow]) -> None:
    with server_in(tmp_path) as server, ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(tmp_path, server.address, "--partitions", partitions))
            for partitions in ("0-1", "2-3")
        ]
        server.wait_for_workers(2, subjects=2)
        ran = wirelens("run", "-q", "-c", settings(tmp_path, server.address, PATIENT))
        assert ran.status == 0, ran.stderr
        assert rows_of(tmp_path) == local
        shares = [worker.end().rows for worker in workers]
        assert min(shares) > 0 and sum(shares) == ESCALATED_COUNT


def test_the_first_rows_of_a_run_are_answered(tmp_path: Path) -> None:
    """Packets are read as soon as the broker is reached: a few flows, in many short runs."""
    capture = tmp_path / "few.pcap"
    frames = flow_frames(5, PORT)
    write_pcap(capture, (Frame(10**18 + at, frame, len(frame)) for at, frame in enumerate(frames)))
    with server_in(tmp_path) as server, Worker(tmp_path, server.address):
        server.wait_for_workers(1)
        path = settings(tmp_path, server.address, PATIENT, read=capture)
        for _ in range(40):
            ran = wirelens("run", "-q", "-c", path)
            assert ran.status == 0, ran.stderr
            assert [row["stage"] for row in rows_of(tmp_path)] == ["slow"] * 5


def test_more_rows_than_may_be_under_way_are_waited_for_in_captures(tmp_path: Path) -> None:
    """All flows are asked about where the capture ends, as none has the packets before."""
    capture = tmp_path / "many.pcap"
    frames = datagrams(5_000, port=PORT)
    write_pcap(capture, (Frame(10**18 + at, frame, len(frame)) for at, frame in enumerate(frames)))
    wanted = local_rows(tmp_path, capture)
    assert len(escalated(wanted)) > 4_900
    with server_in(tmp_path) as server, Worker(tmp_path, server.address, "-q"):
        server.wait_for_workers(1)
        more = f"under-way-max = 1000\n{PATIENT}"
        path = settings(tmp_path, server.address, more, read=capture)
        ran = wirelens("run", "-q", "-c", path)
        assert ran.status == 0, ran.stderr
        rows = rows_of(tmp_path)
        assert len(unanswered(rows)) == 0
        assert in_order(rows) == in_order(wanted)


def test_an_interrupt_does_not_wait_for_workers_that_are_silent(
    tmp_path: Path, local: list[Flow]
) -> None:
    with server_in(tmp_path) as server, FakeWorker(server.port, lambda _: []) as silent:
        path = settings(tmp_path, server.address, 'deadline = "50s"\n')
        with running(tmp_path, "-q", "-c", path) as run:
            wait_until(lambda: bool(silent.seen), "rows are with the worker")
            began = time.monotonic()
            run.end()
            assert time.monotonic() - began < 10
        rows = rows_of(tmp_path)
        known = {(row["community_id"], row["first_ns"]) for row in local}
        flows = [(row["community_id"], row["first_ns"]) for row in rows]
        assert len(flows) == len(set(flows)) and set(flows) <= known and unanswered(rows)


def test_a_broker_that_is_stopped_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """It takes no bytes from the first rows on, and far more is sent than the connection holds."""
    capture = tmp_path / "many.pcap"
    frames = datagrams(60_000, port=PORT)
    write_pcap(capture, (Frame(10**18 + at, frame, len(frame)) for at, frame in enumerate(frames)))
    with server_in(tmp_path) as server:

        def stop(_: Message) -> list[bytes]:
            assert server.process is not None
            server.process.send_signal(signal.SIGSTOP)
            return []

        with FakeWorker(server.port, stop) as silent:
            path = settings(tmp_path, server.address, 'deadline = "50ms"\n', read=capture)
            # Rows of the table wait ten seconds for their acknowledgements.
            ran = wirelens("run", "-q", "-c", path, time_max_s=60)
        assert silent.seen
        # Rows of the tables were not published.
        assert ran.status == 1, ran.stderr
        assert "nats: escalations: answers come too late" in ran.stderr
        rows = rows_of(tmp_path)
        assert len(rows) == len(frames) and len(unanswered(rows)) > len(frames) // 2


def test_without_workers_the_stage_before_decides(tmp_path: Path, local: list[Flow]) -> None:
    with server_in(tmp_path) as server:
        ran = wirelens("run", "-c", settings(tmp_path, server.address))
        assert ran.status == 0
        assert "nats: escalations: no worker has services@" in ran.stderr
        assert "earlier models decide (wirelens worker --model)" in ran.stderr
        words = f"{ESCALATED_COUNT} flows were not answered by workers in time"
        assert words in ran.stderr, ran.stderr
        rows = rows_of(tmp_path)
        check_each_flow_once(rows, local)
        assert len(unanswered(rows)) == ESCALATED_COUNT


def test_without_a_broker_the_stage_before_decides(tmp_path: Path, local: list[Flow]) -> None:
    ran = wirelens("run", "-q", "-c", settings(tmp_path, f"nats://127.0.0.1:{free_port()}"))
    # Neither were rows of the tables published.
    assert ran.status == 1 and "nats: escalations: the broker is away (" in ran.stderr, ran.stderr
    rows = rows_of(tmp_path)
    check_each_flow_once(rows, local)
    assert len(unanswered(rows)) == ESCALATED_COUNT


def test_a_worker_that_is_killed_takes_no_flow_with_it(tmp_path: Path, local: list[Flow]) -> None:
    """It is stopped first, so that rows are surely with it when it is killed."""
    with (
        server_in(tmp_path) as server,
        Worker(tmp_path, server.address) as first,
        Worker(tmp_path, server.address) as second,
    ):
        server.wait_for_workers(2)
        path = settings(tmp_path, server.address, 'deadline = "12s"\n')
        with running(tmp_path, "-q", "-c", path, "--pace", "10") as run:
            first.process.send_signal(signal.SIGSTOP)
            # Answers of the other one take milliseconds.
            wait_until(lambda: stuck(run.scrape) >= 2, "rows are with the stopped worker")
            first.process.kill()
            scrape = wait_for_end(run, tmp_path)
            run.end()
        rows = rows_of(tmp_path)
        check_each_flow_once(rows, local)
        assert in_order(rows) == in_order(local)
        assert outcomes(scrape) == {"answered": ESCALATED_COUNT}
        assert count(scrape, "messages_repeated_total") > 0
        assert second.end().rows == ESCALATED_COUNT


def stuck(scrape: Callable[[], Scrape]) -> int:
    """Rows that are under way for a while."""
    counts = []
    for _ in range(4):
        counts.append(count(scrape(), "rows_under_way"))
        time.sleep(0.02)
    return min(counts)


def test_a_worker_that_joins_later_is_used(tmp_path: Path, local: list[Flow]) -> None:
    """First no one has the model; the message about it is withdrawn when someone has."""
    with server_in(tmp_path) as server:
        path = settings(tmp_path, server.address)
        with running(tmp_path, "-q", "-c", path, "--pace", "10") as run:
            run.wait_for("no worker has services@")
            with Worker(tmp_path, server.address):
                run.wait_for("nats: escalations are answered again")
                scrape = wait_for_end(run, tmp_path)
            said = run.end()
        assert said.index("no worker has") < said.index("are answered again")
        rows = rows_of(tmp_path)
        check_each_flow_once(rows, local)
        seen = outcomes(scrape)
        assert seen["no_worker"] > 0 and seen["answered"] > 0
        assert len(unanswered(rows)) == seen["no_worker"]
        assert sum(seen.values()) == ESCALATED_COUNT


def test_metrics_messages_have_the_counts(tmp_path: Path) -> None:
    """Those of the last message are those of /metrics, which alone has histograms."""
    with server_in(tmp_path) as server, Client(server.port) as client:
        client.subscribe("wirelens.v1.metrics.>")
        path = settings(tmp_path, server.address)
        path.write_text(f'{path.read_text()}metrics-every = "1s"\n')
        with running(tmp_path, "-q", "-c", path) as run:
            scrape = wait_for_end(run, tmp_path)
            # The first one may have been sent before the end.
            last = [json.loads(client.next().data) for _ in range(2)][-1]
            run.end()
    counts = [one for one in last["counts"] if one["application"] == "escalations"]
    assert {one["name"] for one in counts} == {
        "rows", "rows_under_way", "messages", "messages_repeated", "answers_unexpected",
        "connected",
    }  # fmt: skip
    rows = {one["labels"]["outcome"]: one["value"] for one in counts if one["name"] == "rows"}
    assert {outcome: value for outcome, value in rows.items() if value} == outcomes(scrape)
    assert scrape.sum("wirelens_escalations_answer_seconds_count") == 0
    assert scrape.sum("wirelens_escalations_connected") == 1


def test_a_broker_that_is_killed_is_outlived(tmp_path: Path, local: list[Flow]) -> None:
    with server_in(tmp_path) as server, Worker(tmp_path, server.address) as worker:
        server.wait_for_workers(1)
        path = settings(tmp_path, server.address)
        with running(tmp_path, "-q", "-c", path, "--pace", "5") as run:
            wait_until(lambda: "answered" in outcomes(run.scrape()), "rows are answered")
            server.kill()
            run.wait_for("nats: escalations: the broker is away")
            wait_until(lambda: "away" in outcomes(run.scrape()), "flows come meanwhile")
            server.start()
            run.wait_for("nats: escalations are answered again")
            scrape = wait_for_end(run, tmp_path)
            said = run.end()
        assert "nats: escalations connected again" in said
        rows = rows_of(tmp_path)
        check_each_flow_once(rows, local)
        seen = outcomes(scrape)
        assert sum(seen.values()) == ESCALATED_COUNT
        assert len(unanswered(rows)) == ESCALATED_COUNT - seen["answered"]
        assert worker.end().rows >= seen["answered"]


def flow_frames(count: int, port: int) -> list[bytes]:
    """So many flows with as many packets as the last stage looks at, the first of all first."""
    return datagrams(count, port=port) * PACKETS


def scrape_of(live: Listening) -> Scrape:
    found = re.search(r"http://(\S+)/", live.stderr)
    assert found, live.stderr
    with urllib.request.urlopen(f"http://{found[1]}/metrics", timeout=10) as answer:
        return parsed(answer.read().decode())


def wait_for_outcomes(live: Listening, wanted: int, *names: str) -> None:
    """Waits until so many rows have one of these outcomes."""

    def holds() -> bool:
        seen = outcomes(scrape_of(live))
        return sum(seen.get(name, 0) for name in names) >= wanted

    wait_until(holds, f"{wanted} rows are {' or '.join(names)}")


def test_no_packet_is_lost_while_the_broker_is(tmp_path: Path) -> None:
    """On an interface: flows before, while and after the broker is away."""
    with new_link() as link:
        ip("link set lo up")
        with server_in(tmp_path) as server, Worker(tmp_path, server.address):
            server.wait_for_workers(1)
            path = settings(tmp_path, server.address, read="wl0")
            with Listening(tmp_path, "run", "-c", path, "--page", "0") as live:
                live.wait_for("http://")
                link.send(flow_frames(100, PORT))
                wait_for_outcomes(live, 100, "answered")
                server.kill()
                link.send(flow_frames(100, PORT + 1))
                wait_for_outcomes(live, 100, "away", "late")
                live.wait_for("the broker is away")
                server.start()
                live.wait_for("escalations connected again")
                server.wait_for_workers(1)
                link.send(flow_frames(100, PORT + 2))
                wait_for_outcomes(live, 200, "answered")
                ran = live.end()
        assert ran.status == 0 and "escalations are answered again" in ran.stderr, ran.stderr
        packets = identity(ran)
        assert (packets["processed"], packets["dropped"]) == (900, 0)
        rows = rows_of(tmp_path)
        assert len(rows) == len({row["community_id"] for row in rows}) == 300
        of_port = [row["dst_port"] for row in unanswered(rows)]
        assert of_port == [PORT + 1] * 100
        assert len(escalated(rows)) == 200


# Addresses of the broker's machine towards the other two, and theirs.
TO_SENSOR, SENSOR = "203.0.113.1", "203.0.113.2"
TO_WORKER, WORKER = "203.0.113.5", "203.0.113.6"


def connect(name: str, here: tuple[int, str], there: tuple[int, str]) -> None:
    """A link of its own from one machine to another, each with an address."""
    with inside(here[0]):
        ip(f"link add {name} type veth peer name wl9")
        ip(f"link set wl9 netns /proc/{os.getpid()}/fd/{there[0]}")
        ip(f"addr add {here[1]}/30 dev {name}")
        ip(f"link set {name} up")
    with inside(there[0]):
        ip(f"addr add {there[1]}/30 dev wl9")
        bring_up("wl9")


@contextmanager
def three_machines(folder: Path) -> Iterator[tuple[int, Server, int]]:
    """One with a broker, one for a worker, and that of this thread: a sensor's."""
    # Where 127.0.0.1 is up, as ports are tried there.
    server = Server(folder, host="0.0.0.0")
    with ExitStack() as stack:
        of_broker, of_worker, of_sensor = (stack.enter_context(new_namespace()) for _ in range(3))
        connect("sensor", (of_broker, TO_SENSOR), (of_sensor, SENSOR))
        connect("worker", (of_broker, TO_WORKER), (of_worker, WORKER))
        stack.callback(server.kill)
        with inside(of_broker):
            ip("link set lo up")
            server.start()
        yield of_broker, server, of_worker


def test_sensor_broker_and_worker_are_three_machines(tmp_path: Path) -> None:
    """Then the link of the worker is cut, which no one is told of, and repaired."""
    with three_machines(tmp_path) as (of_broker, server, of_worker), ExitStack() as stack:
        with inside(of_worker):
            worker = Worker(tmp_path, f"nats://{TO_WORKER}:{server.port}")
            stack.enter_context(worker)
        with inside(of_broker):
            server.wait_for_workers(1)
        ip("link set lo up")
        link = Link()
        stack.callback(link.close)
        path = settings(tmp_path, f"nats://{TO_SENSOR}:{server.port}", read="wl0")
        with Listening(tmp_path, "run", "-c", path, "--page", "0") as live:
            live.wait_for("http://")
            link.send(flow_frames(100, PORT))
            wait_for_outcomes(live, 100, "answered")
            with inside(of_broker):
                ip("link set worker down")
            link.send(flow_frames(50, PORT + 1))
            wait_for_outcomes(live, 50, "late")
            with inside(of_broker):
                ip("link set worker up")
            # One more until rows come through: how long that takes is up to TCP.
            port = PORT + 2
            while outcomes(scrape_of(live))["answered"] == 100:
                link.send(flow_frames(1, port))
                time.sleep(0.3)
                port += 1
                assert port < PORT + 60, live.stderr
            link.send(flow_frames(100, PORT - 1))
            wait_for_outcomes(live, 201, "answered")
            scrape = scrape_of(live)
            ran = live.end()
        assert ran.status == 0, ran.stderr
        assert "nats: escalations: answers come too late" in ran.stderr
        assert "nats: escalations are answered again" in ran.stderr
        assert identity(ran)["dropped"] == 0
        rows = rows_of(tmp_path)
        flows = 250 + port - PORT - 2
        assert len(rows) == len({row["community_id"] for row in rows}) == flows
        seen = outcomes(scrape)
        assert len(unanswered(rows)) == flows - seen["answered"] == seen["late"]
        assert {row["dst_port"] for row in unanswered(rows)} <= set(range(PORT + 1, port))
