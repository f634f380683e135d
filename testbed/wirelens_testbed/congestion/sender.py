"""Sends TCP flows from one host, each under a congestion control of its own, and watches them.

A program that runs inside a namespace: it reads its orders as JSON from standard input, prints
`ready`, and at the end the outcome of each flow. Socket states are sampled to a table.
"""

from __future__ import annotations

import contextlib
import errno
import json
import selectors
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any, TextIO

CHUNK = bytes(131_072)
# Of one turn, so that a link as fast as this program leaves time for the clock and other flows.
CHUNKS_A_TURN = 8
# Unsent bytes a socket may hold. With the kernel's default a flow would go on long after its end.
UNSENT_MAX_BYTES = 131_072
TCP_NOTSENT_LOWAT = 25  # no names for these in Python 3.11
SAMPLE_INTERVAL_S = 0.1
# A flow that has lost its last packets may wait seconds for its timer. What it has to say by then
# is of no interest: it is cut off.
DRAIN_TIME_MAX_S = 0.5

# struct tcp_info of Linux: eight bytes, then 24 words of 32 bits, then the rest as below.
INFO = struct.Struct("=8B24I4Q6I4Q2I2Q")
INFO_SIZE_BYTES = INFO.size
WORD_RTT, WORD_SSTHRESH, WORD_CWND, WORD_RETRANSMITS = 8 + 15, 8 + 17, 8 + 18, 8 + 23
WORD_ACKED_BYTES = 8 + 24 + 2
WORD_RTT_MIN = 8 + 24 + 4 + 3
WORD_DELIVERED_CE = 8 + 24 + 4 + 6 + 4 + 1

SAMPLE_COLUMNS = (
    "time_ns", "flow", "cwnd_packets", "ssthresh_packets", "rtt_us", "rtt_min_us", "retransmits",
    "acked_bytes", "delivered_ce",
)  # fmt: skip


@dataclass
class Flow:
    """One connection, from before its start to after its end."""

    order: dict[str, Any]
    connection: socket.socket | None = None
    sent_bytes: int = 0
    start_ns: int = 0
    end_ns: int = 0
    error: str = ""
    control: str = ""
    port: int = 0
    last: dict[str, int] = field(default_factory=dict)
    # Seconds and bytes of messages to come, the next one last; and the bytes of those that came.
    messages: list[tuple[float, int]] | None = None
    offered_bytes: int = 0

    def __post_init__(self) -> None:
        if "messages" in self.order:
            self.messages = sorted(map(tuple, self.order["messages"]), reverse=True)

    @property
    def limit_bytes(self) -> int:
        """Bytes that may be sent so far."""
        if self.messages is not None:
            return self.offered_bytes
        return self.order["size_bytes"] or sys.maxsize

    def offer(self, selector: selectors.BaseSelector, second: float) -> None:
        """Lets the messages go whose time has come."""
        before = self.offered_bytes
        while self.messages and self.messages[-1][0] <= second:
            self.offered_bytes += self.messages.pop()[1]
        is_idle = self.sent_bytes == before
        if self.connection and not self.control and is_idle and self.offered_bytes > before:
            selector.modify(self.connection, selectors.EVENT_WRITE, self)

    @property
    def is_over(self) -> bool:
        return self.end_ns != 0

    def open(self, selector: selectors.BaseSelector) -> None:
        """Begins to connect. The control is set before, so that the handshake is under it too."""
        self.start_ns = time.time_ns()
        connection = self.connection = socket.socket()
        connection.setblocking(False)
        try:
            control = self.order["control"].encode()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
            connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_MAX_BYTES)
            if mark := self.order.get("mark"):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
            connection.bind((self.order["source"], self.order["source_port"]))
            status = connection.connect_ex((self.order["target"], self.order["port"]))
            if status not in (0, errno.EINPROGRESS):
                raise OSError(status, "connect")
        except OSError as failure:
            self.fail(selector, failure)
            return
        self.port = connection.getsockname()[1]
        selector.register(connection, selectors.EVENT_WRITE, self)

    def pump(self, selector: selectors.BaseSelector) -> None:
        """Gives the socket as much as it takes, or its turn allows."""
        assert self.connection is not None
        limit = self.limit_bytes
        try:
            for _ in range(CHUNKS_A_TURN):
                if self.sent_bytes >= limit:
                    break
                self.sent_bytes += self.connection.send(CHUNK[: limit - self.sent_bytes])
            if self.sent_bytes < limit:
                return
        except BlockingIOError:
            return
        except OSError as failure:
            self.fail(selector, failure)
            return
        if self.messages is None:
            self.finish(selector)
        else:
            # Nothing to write until the next message; nothing is ever read before the end.
            selector.modify(self.connection, selectors.EVENT_READ, self)

    def finish(self, selector: selectors.BaseSelector) -> None:
        """Says that nothing more comes, and waits for the other side to have it all."""
        if self.connection is None or self.is_over:
            return
        name = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        self.control = name.rstrip(b"\0").decode()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        selector.modify(self.connection, selectors.EVENT_READ, self)

    def hear(self, selector: selectors.BaseSelector) -> None:
        """The receiver closes when it has all: that is the end."""
        assert self.connection is not None
        try:
            if self.connection.recv(1):
                return
        except BlockingIOError:
            return
        except OSError as failure:
            self.fail(selector, failure)
            return
        self.close(selector)

    def fail(self, selector: selectors.BaseSelector, failure: OSError) -> None:
        self.error = f"{failure.strerror or failure}"
        self.close(selector)

    def close(self, selector: selectors.BaseSelector) -> None:
        assert self.connection is not None
        self.look()
        with contextlib.suppress(KeyError):
            selector.unregister(self.connection)
        self.connection.close()
        self.end_ns = time.time_ns()

    def cut_off(self, selector: selectors.BaseSelector) -> None:
        """Ends immediately, with a reset instead of the remaining data."""
        assert self.connection is not None
        linger_not = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
        if not self.control:
            self.error = "was not connected, or had not sent all, at the end"
        self.close(selector)

    def look(self) -> None:
        """Reads the kernel's account of the connection."""
        assert self.connection is not None
        with contextlib.suppress(OSError):
            raw = self.connection.getsockopt(
                socket.IPPROTO_TCP, socket.TCP_INFO, INFO_SIZE_BYTES
            ).ljust(INFO_SIZE_BYTES, b"\0")
            words = INFO.unpack(raw)
            self.last = {
                "cwnd_packets": words[WORD_CWND],
                "ssthresh_packets": words[WORD_SSTHRESH],
                "rtt_us": words[WORD_RTT],
                "rtt_min_us": words[WORD_RTT_MIN],
                "retransmits": words[WORD_RETRANSMITS],
                "acked_bytes": words[WORD_ACKED_BYTES],
                "delivered_ce": words[WORD_DELIVERED_CE],
            }


def send_all(flows: list[Flow], begin_s: float, samples: TextIO) -> None:
    """Runs all flows by their times, counted from `begin_s` of the wall clock."""
    print(*SAMPLE_COLUMNS, sep="\t", file=samples)
    selector = selectors.DefaultSelector()
    waiting = sorted(flows, key=lambda flow: flow.order["start_s"], reverse=True)
    give_up_s = begin_s + max(flow.order["stop_s"] for flow in flows) + DRAIN_TIME_MAX_S
    sample_s = begin_s
    while not all(flow.is_over for flow in flows) and time.time() < give_up_s:
        now_s = time.time()
        while waiting and begin_s + waiting[-1].order["start_s"] <= now_s:
            waiting.pop().open(selector)
        for flow in flows:
            is_sending = flow.connection and not flow.is_over and not flow.control
            if is_sending and begin_s + flow.order["stop_s"] <= now_s:
                flow.finish(selector)
            elif is_sending:
                flow.offer(selector, now_s - begin_s)
        if now_s >= sample_s:
            sample_s = max(sample_s + SAMPLE_INTERVAL_S, now_s)
            _sample(flows, samples)
        for key, events in selector.select(_patience_s(flows, time.time() - begin_s)):
            if events & selectors.EVENT_WRITE:
                key.data.pump(selector)
            else:
                key.data.hear(selector)
    for flow in flows:
        if flow.connection and not flow.is_over:
            flow.cut_off(selector)


def _patience_s(flows: list[Flow], second: float) -> float:
    """How long nothing can have to be done but what sockets ask for."""
    nexts = [flow.messages[-1][0] for flow in flows if flow.connection and flow.messages]
    return min([0.01, *(max(0.0, next_s - second) for next_s in nexts)])


def _sample(flows: list[Flow], samples: TextIO) -> None:
    for flow in flows:
        if flow.connection and not flow.is_over:
            flow.look()
            if flow.last:
                now_ns = time.time_ns()
                print(now_ns, flow.order["number"], *flow.last.values(), sep="\t", file=samples)


def main() -> None:
    orders = json.loads(sys.stdin.readline())
    flows = [Flow(order) for order in orders["flows"]]
    print("ready", flush=True)
    begin_s = float(sys.stdin.readline())
    with open(orders["samples"], "w") as samples:
        send_all(flows, begin_s, samples)
    ends = [
        {
            "number": flow.order["number"], "control": flow.control, "port": flow.port,
            "start_ns": flow.start_ns, "end_ns": flow.end_ns, "error": flow.error,
            "sent_bytes": flow.sent_bytes, **flow.last,
        }
        for flow in flows
    ]  # fmt: skip
    print(json.dumps(ends), flush=True)


if __name__ == "__main__":
    main()
