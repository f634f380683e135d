"""Workers of a test, what pretends to be one, and the bytes that sensors and workers exchange."""

import json
import re
import signal
import struct
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from broker import Broker, Client, Message, free_port
from command import DEMO, ENVIRONMENT, PROGRAM, wirelens
from lab import wait_until
from scraped import Run, Scrape

MODEL = "services"
# Of subjects and bytes.
VERSION = 2
ANSWERED, REFUSED, LATE, BUSY = range(4)
HEAD, ROW_HEAD, ROW_ANSWER = struct.Struct("<BBHI"), struct.Struct("<IHBB"), struct.Struct("<HHdd")
HAS_EVIDENCE, EVIDENCE_LEN = 1, 40

Flow = dict[str, object]


def settings(folder: Path, servers: str = "", more: str = "", read: Path | str = DEMO) -> Path:
    """Settings of a sensor that escalates to this broker, or of one that computes everything."""
    path = folder / "wirelens.toml"
    workers = f"workers = true\n{more}" if servers else ""
    nats = f'[nats]\nservers = ["{servers}"]\nsensor = "a"\n' if servers else ""
    source = f'interface = "{read}"' if isinstance(read, str) else f'read = "{read}"'
    path.write_text(
        f'[input]\n{source}\n[classify]\nmodel = "{MODEL}"\n'
        f'output = "{folder}/classify.jsonl"\nforce = true\n{workers}{nats}'
    )
    return path


def rows_of(folder: Path) -> list[Flow]:
    """Verdicts without the time that they took."""
    rows = [json.loads(line) for line in (folder / "classify.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "latency_ns"} for row in rows]


def local_rows(folder: Path, read: Path = DEMO) -> list[Flow]:
    """What a sensor without workers says of a capture."""
    ran = wirelens("classify", "-q", "-r", read, "--model", MODEL, "-o", folder / "classify.jsonl")
    assert ran.status == 0, ran.stderr
    return rows_of(folder)


def escalated(rows: list[Flow]) -> list[Flow]:
    return [row for row in rows if row["stage"] == "slow"]


def unanswered(rows: list[Flow]) -> list[Flow]:
    return [row for row in rows if row["cause"] == "unanswered"]


def check_each_flow_once(rows: list[Flow], local: list[Flow]) -> None:
    """Each flow has one row; what was answered says what the sensor itself would have said."""

    def flows(of: list[Flow]) -> Counter[object]:
        return Counter((row["community_id"], row["first_ns"]) for row in of)

    assert flows(rows) == flows(local)
    expected = {json.dumps(row) for row in local}
    assert all(json.dumps(row) in expected for row in rows if row["cause"] != "unanswered")
    assert {row["stage"] for row in unanswered(rows)} <= {"fast"}


class Server(Broker):
    """A broker that lists its subscriptions."""

    def __init__(self, folder: Path, more: str = "", host: str = "127.0.0.1") -> None:
        self.monitor = free_port()
        super().__init__(folder, f'http: "127.0.0.1:{self.monitor}"\n{more}', host=host)

    def subscribers(self, subjects: int = 1) -> int:
        """Connections that take escalations of so many subjects."""
        address = f"http://127.0.0.1:{self.monitor}/connz?subs=1"
        with urllib.request.urlopen(address, timeout=10) as answer:
            connections = json.load(answer)["connections"]
        lists = [one.get("subscriptions_list", []) for one in connections]
        counts = [sum(".escalations." in subject for subject in one) for one in lists]
        return sum(found >= subjects for found in counts)

    def wait_for_workers(self, count: int, subjects: int = 1) -> None:
        wait_until(lambda: self.subscribers(subjects) == count, f"{count} workers")


@contextmanager
def server_in(folder: Path, more: str = "") -> Iterator[Server]:
    started = Server(folder, more)
    started.start()
    try:
        yield started
    finally:
        started.kill()


class Worker:
    """`wirelens worker`, which is ended at the latest by leaving its block."""

    def __init__(
        self, folder: Path, servers: str, *arguments: str | Path, model: str | Path = MODEL
    ) -> None:
        self._err = folder / f"worker-{len(list(folder.glob('worker-*.err')))}.err"
        command = [PROGRAM, "worker", "--model", model, "--server", servers, *arguments]
        with self._err.open("wb") as err:
            self.process = subprocess.Popen(command, stderr=err, env=ENVIRONMENT)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._err.read_text()

    def end(self) -> "Summary":
        """Ends it as a service manager would."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(10) == 0, self.said
        answered = re.search(
            r"^worker: (\d+) rows in (\d+) messages answered(?:, in \d+ batches)?$", self.said, re.M
        )
        assert answered, self.said

        def count(what: str) -> int:
            found = re.search(rf"^worker: (\d+) messages {what}", self.said, re.M)
            return int(found[1]) if found else 0

        return Summary(
            int(answered[1]), int(answered[2]), count("came too late"), count("were damaged")
        )


@dataclass(frozen=True)
class Summary:
    """What a worker says in the end."""

    rows: int
    messages: int
    late: int
    refused: int


@dataclass(frozen=True)
class EscalatedRow:
    """What a stage looks at of a flow."""

    records: bytes
    numbers: tuple[float, ...]
    stage: int
    flags: int
    evidence: bytes


@dataclass(frozen=True)
class Escalation:
    """A message of a sensor."""

    time_to_live_us: int
    rows: list[EscalatedRow]

    @classmethod
    def read(cls, data: bytes) -> "Escalation":
        """Checked against the specification: there is nothing but what it says."""
        version, zero, count, time_to_live_us = HEAD.unpack_from(data)
        assert (version, zero) == (VERSION, 0) and count <= 256
        at, rows = HEAD.size, []
        for _ in range(count):
            record_len, number_count, stage, flags = ROW_HEAD.unpack_from(data, at)
            at += ROW_HEAD.size
            records, at = data[at : at + record_len], at + record_len
            numbers = struct.unpack_from(f"<{number_count}f", data, at)
            at += 4 * number_count
            evidence_len = EVIDENCE_LEN if flags & HAS_EVIDENCE else 0
            rows.append(EscalatedRow(records, numbers, stage, flags, data[at : at + evidence_len]))
            at += evidence_len
        assert at == len(data)
        return cls(time_to_live_us, rows)

    def bytes(self) -> bytes:
        data = HEAD.pack(VERSION, 0, len(self.rows), self.time_to_live_us)
        for row in self.rows:
            head = len(row.records), len(row.numbers), row.stage, row.flags
            numbers = struct.pack(f"<{len(row.numbers)}f", *row.numbers)
            data += ROW_HEAD.pack(*head) + row.records + numbers + row.evidence
        return data

    def with_row(self, **changes: object) -> bytes:
        """With another first row."""
        return Escalation(
            self.time_to_live_us, [replace(self.rows[0], **changes), *self.rows[1:]]
        ).bytes()


def row_count(data: bytes) -> int:
    return HEAD.unpack_from(data)[2]


def answer_of(status: int, rows: list[tuple[int, int, float, float]], spent_us: int = 10) -> bytes:
    """What a worker would answer; a row is label, guess, confidence and uncertainty."""
    head = HEAD.pack(VERSION, status, len(rows), spent_us)
    return head + b"".join(ROW_ANSWER.pack(*row) for row in rows)


class FakeWorker:
    """Takes what sensors send and answers as a test has it: with any number of messages."""

    # Workers of a group share what is sent.
    GROUP = "workers"

    def __init__(self, port: int, answers: Callable[[Message], list[bytes]]) -> None:
        self.seen: list[Message] = []
        self._answers = answers
        self._client = Client(port)
        self._client.socket.settimeout(None)
        self._client.subscribe(f"wirelens.v{VERSION}.escalations.> {self.GROUP}".strip())
        self._client.send(b"PING\r\n")
        for _ in ("the connection", "the subscription"):
            while self._client.file.readline() != b"PONG\r\n":
                pass
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        try:
            while True:
                message = self._client.next()
                self.seen.append(message)
                for answer in self._answers(message):
                    self._client.publish(message.reply, answer)
        except (EOFError, OSError):
            return

    def __enter__(self) -> "FakeWorker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.socket.shutdown(2)
        self._thread.join(5)
        self._client.file.close()
        self._client.socket.close()


def outcomes(scrape: Scrape) -> dict[str, int]:
    """Rows by outcome, without those that no row has."""
    name = "wirelens_escalations_rows_total"
    found = {dict(of)["outcome"]: int(count) for (is_, of), count in scrape.samples.items()
             if is_ == name}  # fmt: skip
    return {outcome: count for outcome, count in found.items() if count}


def count(scrape: Scrape, name: str) -> int:
    return int(scrape.sum(f"wirelens_escalations_{name}"))


def wait_for_end(run: Run, folder: Path) -> Scrape:
    """Waits until the capture is read; its counts then."""
    wait_until((folder / "classify.jsonl").exists, "the capture is read", 20)
    return run.scrape()
