"""Flows of a run: receivers that listen, senders that receive theirs as orders, and what they saw."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wirelens_testbed import controls
from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import Program
from wirelens_testbed.run import Run

PORT_FIRST = 5001
# Controls that do part of their work where the data arrives have a listener of their own.
PORT_OF = {
    control: PORT_FIRST + index for index, control in enumerate(sorted(controls.BOTH_ENDS), start=1)
}
# From `go` to the first connection: all senders must have heard it.
LEAD_S = 0.3


def port(kernel_control: str) -> int:
    """Where flows under a control are taken in."""
    return PORT_OF.get(kernel_control, PORT_FIRST)


def start_receivers(
    run: Run, receivers: Iterable[tuple[str, str]], kernel_controls: Iterable[str]
) -> None:
    """Has each receiver, given as (host, address), take in flows under these controls."""
    used = sorted(set(kernel_controls) & PORT_OF.keys())
    listening = [str(PORT_FIRST), *(f"{PORT_OF[control]}={control}" for control in used)]
    for host, address in receivers:
        run.lab.start_module(host, "wirelens_testbed.congestion.receiver", address, *listening)
        run.lab.wait_for_listener(host, PORT_FIRST)


def send(run: Run, orders: Mapping[str, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Lets all senders run, by host, and returns what each says of its flows, by their numbers."""
    senders = {host: _start_sender(run, host, own) for host, own in orders.items()}
    begin_s = time.time() + LEAD_S
    for sender in senders.values():
        _tell(sender, f"{begin_s}\n")
    run.event("begin", begin_ns=int(begin_s * 1e9))
    ends: list[dict[str, Any]] = []
    for host, sender in senders.items():
        assert sender.stdout is not None
        line = sender.stdout.readline()
        if not line:
            raise LabError(f"{host} ended before its flows; it said: {run.lab.log_tails()}")
        ends.extend(json.loads(line))
        sender.wait()
    _gather_samples(run, list(senders))
    run.event("end")
    return sorted(ends, key=lambda end: int(end["number"]))


def _start_sender(run: Run, host: str, orders: Sequence[dict[str, Any]]) -> Program:
    sender = run.lab.start_module(
        host, "wirelens_testbed.congestion.sender", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    samples = str(_samples_path(run, host))
    _tell(sender, json.dumps({"flows": list(orders), "samples": samples}) + "\n")
    assert sender.stdout is not None
    if sender.stdout.readline().strip() != b"ready":
        raise LabError(f"{host} did not start; it said: {run.lab.log_tails()}")
    return sender


def _samples_path(run: Run, host: str) -> Path:
    return run.lab.run_dir / f"sockets-{host}.tsv"


def _gather_samples(run: Run, hosts: list[str]) -> None:
    """Makes one table, in order of time, of what the senders saw of their sockets."""
    header, rows = "", []
    for host in hosts:
        header, *own = _samples_path(run, host).read_text().splitlines(keepends=True)
        rows += own
    rows.sort(key=lambda row: int(row.split("\t", 1)[0]))
    (run.folder / "sockets.tsv").write_text(header + "".join(rows))


def _tell(program: Program, line: str) -> None:
    assert program.stdin is not None
    program.stdin.write(line.encode())
    program.stdin.flush()
