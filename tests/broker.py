"""A NATS server of a test, and the few requests by which tests see what it has."""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import ROOT

# `bash tools/setup.sh nats` builds it.
BUILT = ROOT / "target/tools/nats-server"
STARTS_WITHIN_S = 20


def server_program() -> Path:
    """The server; as root it has to be there, since `make test-live` installs it."""
    found = BUILT if BUILT.exists() else shutil.which("nats-server")
    if found is None:
        message = "no nats-server; bash tools/setup.sh nats builds it, with Go"
        if os.geteuid() == 0:
            pytest.fail(message)
        pytest.skip(message)
    return Path(found)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass
class Broker:
    """A server with JetStream whose files outlive it."""

    folder: Path
    settings: str = ""
    port: int = field(default_factory=free_port)
    host: str = "127.0.0.1"
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        path = self.folder / "nats.conf"
        store = self.folder / "jetstream"
        path.write_text(
            f'listen: "{self.host}:{self.port}"\njetstream {{ store_dir: "{store}" }}\n'
            f"{self.settings}"
        )
        with (self.folder / "nats.log").open("ab") as log:
            self.process = subprocess.Popen(
                [server_program(), "-c", path], stdout=log, stderr=subprocess.STDOUT
            )
        ends = time.monotonic() + STARTS_WITHIN_S
        while time.monotonic() < ends:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        pytest.fail((self.folder / "nats.log").read_text())

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@contextmanager
def broker(folder: Path, settings: str = "") -> Iterator[Broker]:
    """A server that is gone in the end."""
    started = Broker(folder, settings)
    started.start()
    try:
        yield started
    finally:
        started.kill()


@dataclass
class Message:
    """What was published."""

    subject: str
    headers: dict[str, str]
    data: bytes
    reply: str = ""


class Client:
    """The text protocol of NATS, as far as tests need it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        # Two short writes make one question: without it, each waits 40 ms for the first's receipt.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        self.file.readline()
        self.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        self.number = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def subscribe(self, subject: str) -> None:
        self.number += 1
        self.send(f"SUB {subject} {self.number}\r\n".encode())

    def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        self.send(f"PUB {subject} {reply} {len(data)}\r\n".encode() + data + b"\r\n")

    def next(self) -> Message:
        """The next message of any subscription."""
        while True:
            words = self.file.readline().decode().split()
            if not words:
                raise EOFError
            if words[0] == "PING":
                self.send(b"PONG\r\n")
            if words[0] == "MSG":
                data = self.file.read(int(words[-1]) + 2)[:-2]
                return Message(words[1], {}, data, words[3] if len(words) == 5 else "")
            if words[0] == "HMSG":
                whole = self.file.read(int(words[-1]) + 2)[:-2]
                head, data = whole[: int(words[-2])], whole[int(words[-2]) :]
                reply = words[3] if len(words) == 6 else ""
                return Message(words[1], read_headers(head), data, reply)

    def ask(self, subject: str, question: object) -> dict:
        inbox = f"_INBOX.test{self.number}"
        self.subscribe(inbox)
        self.publish(subject, json.dumps(question).encode(), inbox)
        return json.loads(self.next().data)


def read_headers(head: bytes) -> dict[str, str]:
    lines = [line.partition(":") for line in head.decode().split("\r\n")[1:]]
    return {name: text.strip() for name, colon, text in lines if colon}


def stream_messages(port: int, stream: str = "WIRELENS") -> list[Message]:
    """All messages of a stream, in its order."""
    with Client(port) as client:
        info = client.ask(f"$JS.API.STREAM.INFO.{stream}", {})
        if "state" not in info:
            return []
        state, found = info["state"], []
        for number in range(state["first_seq"], state["last_seq"] + 1):
            answer = client.ask(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": number})
            if "message" in answer:
                kept = answer["message"]
                headers = read_headers(base64.b64decode(kept.get("hdrs", "")))
                data = base64.b64decode(kept.get("data", ""))
                found.append(Message(kept["subject"], headers, data))
        return found
