"""Messages between sensors and workers that are damaged, late, twice or a stranger's."""

import json
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from broker import Client, Message, free_port
from command import ROOT, wirelens
from lab import wait_until
from scraped import Scrape, running
from workers import (
    ANSWERED,
    BUSY,
    HEAD,
    LATE,
    MODEL,
    REFUSED,
    ROW_ANSWER,
    VERSION,
    Escalation,
    FakeWorker,
    Flow,
    Server,
    Worker,
    answer_of,
    check_each_flow_once,
    count,
    escalated,
    local_rows,
    outcomes,
    row_count,
    rows_of,
    server_in,
    settings,
    unanswered,
    wait_for_end,
)

pytestmark = pytest.mark.testbed

ESCALATED_COUNT = 49
SUBJECT = r"wirelens\.v2\.escalations\.services_[0-9a-f]{12}\.(\d+)"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> list[Flow]:
    """Rows of a sensor without workers."""
    rows = local_rows(tmp_path_factory.mktemp("local"))
    assert len(escalated(rows)) == ESCALATED_COUNT
    return rows


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> list[Message]:
    """What a sensor sends to workers, of which none answers."""
    folder = tmp_path_factory.mktemp("sent")
    with server_in(folder) as server, FakeWorker(server.port, lambda _: []) as fake:
        path = settings(folder, server.address, 'deadline = "50ms"\n')
        assert wirelens("run", "-q", "-c", path).status == 0
        return list(fake.seen)


def test_messages_of_a_sensor_are_as_specified(sent: list[Message]) -> None:
    assert all(re.fullmatch(SUBJECT, message.subject) for message in sent)
    partitions = {int(message.subject.rpartition(".")[2]) for message in sent}
    assert len(partitions) > 1 and max(partitions) <= 3
    copies: dict[str, list[bytes]] = {}
    for message in sent:
        copies.setdefault(message.reply, []).append(message.data)
    read = {reply: Escalation.read(first) for reply, [first, *_] in copies.items()}
    assert {one.time_to_live_us for one in read.values()} == {50_000}
    rows = [row for one in read.values() for row in one.rows]
    assert len(rows) == ESCALATED_COUNT
    assert {row.stage for row in rows} == {1}
    # Records of three packets at most, all of one length, and of each flow the numbers of the model
    # that are not in records.
    with (ROOT / f"models/{MODEL}/slow.trees.jsonl").open(encoding="utf-8") as trees:
        names = json.loads(trees.readline())["numbers"]
    unrecorded = [name for name in names if "_byte_" not in name]
    assert len(unrecorded) < len(names) // 2
    assert {len(row.numbers) for row in rows} == {len(unrecorded)}
    lengths = {len(row.records) for row in rows}
    assert 1 <= len(lengths) <= 3 and all(length % min(lengths) == 0 for length in lengths)
    # What was not answered was published once more, with the same reply and rows and the time that
    # was left.
    for first, second in copies.values():
        assert 0 < Escalation.read(second).time_to_live_us <= 25_000
        assert Escalation.read(second).rows == Escalation.read(first).rows


def asked(client: Client, subject: str, data: bytes) -> tuple[int, bytes]:
    """Status and rows of the answer to a message."""
    client.publish(subject, data, client.inbox)
    answer = client.next().data
    version, status, rows, _ = HEAD.unpack_from(answer)
    assert version == VERSION and len(answer) == HEAD.size + rows * ROW_ANSWER.size
    return status, answer[HEAD.size :]


def bad_messages(data: bytes) -> dict[str, bytes]:
    """By what is wrong with them."""
    draw = random.Random(7)
    good = Escalation.read(data)
    [first, *_] = good.rows
    bad = {f"cut to {length}": data[:length] for length in range(0, len(data), 7)}
    bad |= {f"random bytes {at}": draw.randbytes(draw.randrange(1, 400)) for at in range(50)}
    bad |= {
        "one byte more": data + b"\0",
        "another version": b"\1" + data[1:],
        "more rows than it has": HEAD.pack(VERSION, 0, len(good.rows) + 1, 10**6)
        + data[HEAD.size :],
        "more rows than may be": HEAD.pack(VERSION, 0, 257, 10**6) + data[HEAD.size :] * 257,
        "records without end": HEAD.pack(VERSION, 0, 1, 10**6) + b"\xff" * 8 + data[16:],
        "a stage that the model has not": good.with_row(stage=2),
        "the last stage there can be": good.with_row(stage=255),
        "more records": good.with_row(records=first.records * 100),
        "no numbers": good.with_row(numbers=()),
        "more numbers": good.with_row(numbers=(*first.numbers, 1.0)),
        "evidence that the stage does not take": good.with_row(flags=1, evidence=bytes(40)),
    }
    return bad


def first_records(data: bytes) -> bytes:
    return Escalation.read(data).rows[0].records


def test_a_worker_refuses_bad_messages_and_goes_on(tmp_path: Path, sent: list[Message]) -> None:
    good = Escalation(5_000_000, Escalation.read(sent[0].data).rows).bytes()
    subject = sent[0].subject
    with server_in(tmp_path) as server, Worker(tmp_path, server.address) as worker:
        server.wait_for_workers(1)
        with Client(server.port) as client:
            client.inbox = "_INBOX.messages"
            client.subscribe(client.inbox)
            wanted = asked(client, subject, good)
            assert wanted[0] == ANSWERED and len(wanted[1]) == row_count(good) * ROW_ANSWER.size
            bad = bad_messages(good)
            for what, data in bad.items():
                assert asked(client, subject, data) == (REFUSED, b""), what
            # Records that are missing at the end are packets that did not come.
            for length in (0, 1, 3):
                shorter = Escalation.read(good).with_row(records=first_records(good)[:length])
                assert asked(client, subject, shorter)[0] == ANSWERED
            # Any value of a number has some answer.
            for number in (float("nan"), float("inf"), -1e30):
                row = Escalation.read(good).rows[0]
                odd = Escalation.read(good).with_row(numbers=(number,) * len(row.numbers))
                assert asked(client, subject, odd)[0] == ANSWERED
            # The same subject without a reply, good or bad: there is no one to answer.
            client.publish(subject, good)
            client.publish(subject, b"")
            assert asked(client, subject, HEAD.pack(VERSION, 0, 0, 10**6)) == (ANSWERED, b"")
            late = HEAD.pack(VERSION, 0, row_count(good), 0) + good[HEAD.size :]
            assert asked(client, subject, late)[0] == LATE
            assert asked(client, subject, good) == wanted
        summary = worker.end()
        assert (summary.refused, summary.late) == (len(bad) + 2, 1)
        assert "panicked" not in worker.said


def run_with(
    folder: Path, answers: Callable[[Message], list[bytes]], deadline: str = "5s"
) -> Scrape:
    """A run over the capture with a worker that answers like this; its counts in the end."""
    with server_in(folder) as server, FakeWorker(server.port, answers) as fake:
        path = settings(folder, server.address, f'deadline = "{deadline}"\n')
        with running(folder, "-q", "-c", path) as run:
            scrape = wait_for_end(run, folder)
            said = run.end()
        assert fake.seen
        assert "panicked" not in said
    return scrape


def unknown_answer(message: Message) -> bytes:
    """Of the right form: class 0 with some confidence."""
    return answer_of(ANSWERED, [(0, 0, 0.25, 0.75)] * row_count(message.data))


BAD_ANSWERS: dict[str, tuple[Callable[[Message], list[bytes]], str]] = {
    "cut": (lambda message: [unknown_answer(message)[:-1]], "late"),
    "empty": (lambda _: [b""], "late"),
    "longer": (lambda message: [unknown_answer(message) + b"\0"], "late"),
    "of another version": (lambda message: [b"\1" + unknown_answer(message)[1:]], "late"),
    "of no status": (lambda _: [HEAD.pack(VERSION, 9, 0, 0)], "late"),
    "random": (lambda message: [random.Random(message.reply).randbytes(60)], "late"),
    "of too few rows": (lambda _: [answer_of(ANSWERED, [])], "refused"),
    "of too many rows": (
        lambda message: [
            answer_of(ANSWERED, [(0, 0, 0.25, 0.75)] * (row_count(message.data) + 1))
        ],
        "refused",
    ),
    "that refuses": (lambda _: [answer_of(REFUSED, [])], "refused"),
    "that has no time": (lambda _: [answer_of(LATE, [])], "late"),
    "that has no room": (lambda _: [answer_of(BUSY, [])], "busy"),
}  # fmt: skip


# Of these nothing can be read; the sensor waits for another until the deadline.
DAMAGED = ("cut", "empty", "longer", "of another version", "of no status", "random")


@pytest.mark.parametrize("what", BAD_ANSWERS)
def test_a_bad_answer_leaves_the_stage_before(tmp_path: Path, local: list[Flow], what: str) -> None:
    answers, outcome = BAD_ANSWERS[what]
    is_damaged = what in DAMAGED
    scrape = run_with(tmp_path, answers, "150ms" if is_damaged else "5s")
    rows = rows_of(tmp_path)
    check_each_flow_once(rows, local)
    assert len(unanswered(rows)) == ESCALATED_COUNT
    assert outcomes(scrape) == {outcome: ESCALATED_COUNT}
    # What cannot be read is an answer to nothing, each time it comes; the last ones may come when
    # the run is over.
    unexpected, messages = (
        count(scrape, f"{name}_total") for name in ("answers_unexpected", "messages")
    )
    assert (messages // 2 < unexpected <= messages) if is_damaged else unexpected == 0


UNUSABLE: dict[str, tuple[int, int, float, float]] = {
    "a label that the model has not": (53, 0, 0.9, 0.1),
    "a guess that the model has not": (0, 53, 0.9, 0.1),
    "classes that no model has": (65_535, 65_535, 0.9, 0.1),
    "a confidence that is no number": (0, 0, float("nan"), 0.1),
    "a confidence without end": (0, 0, float("inf"), 0.1),
    "a confidence below 0": (0, 0, -1.0, 0.1),
    "a confidence above 1": (0, 0, 17.0, 0.1),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_what_the_model_cannot_have_said_is_no_answer(
    tmp_path: Path, local: list[Flow], what: str
) -> None:
    def answers(message: Message) -> list[bytes]:
        return [answer_of(ANSWERED, [UNUSABLE[what]] * row_count(message.data))]

    scrape = run_with(tmp_path, answers)
    rows = rows_of(tmp_path)
    assert len(unanswered(rows)) == ESCALATED_COUNT
    check_each_flow_once(rows, local)
    assert outcomes(scrape) == {"refused": ESCALATED_COUNT}


def test_an_answer_that_comes_twice_counts_once(tmp_path: Path) -> None:
    """The first decides; the second, which says something else, is dropped."""

    def answers(message: Message) -> list[bytes]:
        second = [(1, 1, 0.9, 0.1)] * row_count(message.data)
        return [unknown_answer(message), answer_of(ANSWERED, second)]

    scrape = run_with(tmp_path, answers)
    rows = escalated(rows_of(tmp_path))
    assert len(rows) == ESCALATED_COUNT
    assert {row["guess_confidence"] for row in rows} == {0.25}
    assert outcomes(scrape) == {"answered": ESCALATED_COUNT}
    assert count(scrape, "answers_unexpected_total") > 0


def test_an_answer_after_the_deadline_is_dropped(tmp_path: Path, local: list[Flow]) -> None:
    """The sensor waits in vain, and meets the answer while it waits for others."""
    with server_in(tmp_path) as server, Client(server.port) as late, ExitStack() as stack:

        def answers(message: Message) -> list[bytes]:
            reply = message.reply, unknown_answer(message)
            timer = threading.Timer(0.15, late.publish, reply)
            stack.callback(timer.join)
            timer.start()
            return []

        with FakeWorker(server.port, answers):
            path = settings(tmp_path, server.address, 'deadline = "100ms"\n')
            with running(tmp_path, "-q", "-c", path) as run:
                scrape = wait_for_end(run, tmp_path)
                run.end()
    assert outcomes(scrape) == {"late": ESCALATED_COUNT}
    assert count(scrape, "answers_unexpected_total") > 10
    rows = rows_of(tmp_path)
    check_each_flow_once(rows, local)
    assert len(unanswered(rows)) == ESCALATED_COUNT


def test_answers_of_a_stranger_are_dropped(tmp_path: Path, local: list[Flow]) -> None:
    """To numbers, askers and words that the sensor never used, in addition to the right ones."""
    with server_in(tmp_path) as server, Worker(tmp_path, server.address, "-q"):
        server.wait_for_workers(1)
        with Stranger(server.port) as stranger:
            path = settings(tmp_path, server.address)
            with running(tmp_path, "-q", "-c", path, "--pace", "20") as run:
                scrape = wait_for_end(run, tmp_path)
                run.end()
    assert stranger.sent > 100
    assert outcomes(scrape) == {"answered": ESCALATED_COUNT}
    # The last ones may come when the run is over.
    assert stranger.sent // 2 < count(scrape, "answers_unexpected_total") <= stranger.sent
    key = json.dumps
    assert sorted(map(key, rows_of(tmp_path))) == sorted(map(key, local))


class Stranger(FakeWorker):
    """Hears what workers hear, and answers what no one asked."""

    GROUP = ""

    def __init__(self, port: int) -> None:
        self.sent = 0
        super().__init__(port, self.strangers)

    def strangers(self, message: Message) -> list[bytes]:
        inbox, asker, number = message.reply.rsplit(".", 2)
        answer = answer_of(ANSWERED, [(1, 1, 0.9, 0.1)])
        made_up = [
            f"{inbox}.{asker}.{int(number) + 10**6}", f"{inbox}.{asker}.{2**64 - 1}",
            f"{inbox}.{asker}.-1", f"{inbox}.{asker}.{2**64}", f"{inbox}.{asker}.x",
            f"{inbox}.99.{number}", f"{inbox}.x.{number}",
        ]  # fmt: skip
        for reply in made_up:
            self._client.publish(reply, answer)
        self.sent += len(made_up)
        return []


def refused(folder: Path, more: str, servers: str = "nats://127.0.0.1:1") -> str:
    """What is said of settings with which no run begins."""
    ran = wirelens("run", "-q", "-c", settings(folder, servers, more))
    assert ran.status == 2, ran.stderr
    return ran.stderr


def changed(folder: Path, *changes: tuple[str, str]) -> str:
    """The same of settings that are good without these changes."""
    path = settings(folder, "nats://127.0.0.1:1")
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    ran = wirelens("run", "-q", "-c", path)
    assert ran.status == 2, ran.stderr
    return ran.stderr


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    nats = '[nats]\nservers = ["nats://127.0.0.1:1"]\nsensor = "a"\n'
    words = "[classify] workers = true needs [nats], over which they are reached"
    assert words in changed(tmp_path, (nats, ""))
    on, off = "workers = true\n", "workers = false\n"
    for key in ('deadline = "1s"', "under-way-max = 10"):
        words = f"[classify] {key.partition(' ')[0]}: has no effect without workers = true"
        assert words in changed(tmp_path, (on, f"{off}{key}\n"))
        assert words in changed(tmp_path, (on, f"{key}\n"))
    words = "devices: its answers depend on what the sensor remembers of hosts"
    assert words in changed(tmp_path, ('"services"', '"devices"'))
    words = "video-rate: classifies windows of flows; wanted: a model of flows"
    assert words in changed(tmp_path, ('"services"', '"video-rate"'))
    for deadline in ("1us", "61s", "1h"):
        words = refused(tmp_path, f'deadline = "{deadline}"\n')
        assert "[classify] deadline: wanted 1ms to 1min" in words
    for rows in (0, 1 << 21):
        words = refused(tmp_path, f"under-way-max = {rows}\n")
        assert "[classify] under-way-max: wanted 1 to 1048576" in words


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--model", "nix"), 1, "nix: no shipped model has this name"),
        (("--model", "devices"), 1, "wanted: a model without memory"),
        (("--model", "video-rate"), 1, "wanted: a model of flows"),
        (("--model", "services", "--partitions", "4"), 2, "wanted one of 0 to 3"),
        (("--model", "services", "--partitions", "2-4"), 2, "wanted one of 0 to 3"),
        (("--model", "services", "--partitions", "3-2"), 2, "wanted one of 0 to 3"),
        (("--model", "services", "--threads", "0"), 2, "0 is not in 1..=256"),
        (("--model", "services", "--server", "ftp://x"), 1, "ftp://x: no address"),
        (("--model", "services", "-c", "nix.toml"), 1, "nix.toml: No such file"),
        ((), 2, "--model <MODEL>"),
    ],
    ids=str,
)
def test_a_worker_that_cannot_work_says_why(
    tmp_path: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    ran = wirelens("worker", *arguments, cwd=tmp_path)
    assert ran.status == status and words in ran.stderr, ran.stderr


def test_a_worker_with_wrong_credentials_ends(tmp_path: Path) -> None:
    with server_in(tmp_path, 'authorization { token: "right" }\n') as server:
        path, token = tmp_path / "worker.toml", tmp_path / "token"
        path.write_text(f'[nats]\nservers = ["{server.address}"]\ntoken-file = "{token}"\n')
        token.write_text("wrong\n")
        ran = wirelens("worker", "--model", "services", "-c", path)
        assert ran.status == 1, ran.stderr
        assert "the broker refuses these credentials" in ran.stderr
        token.write_text("right\n")
        with Worker(tmp_path, server.address, "-c", path) as worker:
            server.wait_for_workers(1)
            assert worker.end().rows == 0


def test_a_worker_waits_for_its_broker(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        with Worker(tmp_path, server.address) as worker:
            wait_until(lambda: "the broker is away" in worker.said, "it says so")
            server.start()
            server.wait_for_workers(1)
            # Once more, after they were connected; each attempt that fails is no line of its own.
            server.kill()
            time.sleep(1.5)
            server.start()
            server.wait_for_workers(1)
            assert worker.end().rows == 0
            assert worker.said.count("the broker is away") == 2, worker.said
            assert worker.said.count("nats: connected again") == 1, worker.said
    finally:
        server.kill()


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_worker_ends_soon_whatever_its_broker_does(
    tmp_path: Path, sent: list[Message], how: signal.Signals
) -> None:
    """With rows in hand, and a broker that takes no answers from then on."""
    with server_in(tmp_path) as server, Worker(tmp_path, server.address) as worker:
        server.wait_for_workers(1)
        with Client(server.port) as client:
            for _ in range(200):
                client.publish(sent[0].subject, sent[0].data, "_INBOX.nowhere")
            client.send(b"PING\r\n")
            time.sleep(0.2)
            assert server.process is not None
            server.process.send_signal(how)
            began = time.monotonic()
            worker.process.send_signal(signal.SIGTERM)
            assert worker.process.wait(10) == 0, worker.said
            assert time.monotonic() - began < 3, worker.said


def test_a_worker_ends_without_a_broker(tmp_path: Path) -> None:
    with Worker(tmp_path, f"nats://127.0.0.1:{free_port()}") as worker:
        wait_until(lambda: "the broker is away" in worker.said, "it says so")
        assert worker.end().rows == 0
