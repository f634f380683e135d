"""Questions about more captures than one process should read, over Ray: here or on a cluster.

The rows are those of the functions of the same names in `wirelens`, for any number of tasks,
threads and machines. Each function takes one capture set, which is what those functions take, or a
dictionary from sensor to capture set: packets of a set are one stream, so flows that continue in
the next capture are one flow, and sets have nothing to do with each other.

>>> import wirelens.ray
>>> rows = wirelens.ray.flows("captures/", output="rows")  # doctest: +SKIP
>>> rows.to_dataset().count()  # doctest: +SKIP

Every function takes these arguments, besides those of the question itself:

output
    Folder for the rows, as Parquet files; a temporary one by default. On a cluster it is one that
    all machines see, as captures are.
resume
    Keep what a run of the same question has left in `output`, and run the rest.
overwrite
    Replace an `output` of an earlier run.
address
    A Ray cluster, such as ``"ray://head:10001"`` or ``"auto"``; by default processes on this
    machine. If the program has called ``ray.init()`` already, that cluster is used.
cpus
    Processors to use; by default all of them.
shares
    Tasks of each set, at most 64: each reads the whole set and keeps some of the 64 partitions of
    flows. By default as many as there are machines for a set, so that each reads it once.
threads
    Threads of each task of `flows`; by default as many as a machine has for it.
retries
    How often a task is repeated whose worker was lost.
memory_bytes
    Memory that Ray keeps free for each task; it counts what is promised, and takes no more.
progress
    Called after each task with the number of tasks done, their total, and the report of the task.
"""

import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, Unpack

from wirelens.errors import WorkerLostError
from wirelens.ray import totals
from wirelens.ray.asking import RunArguments, ask
from wirelens.ray.parts import Rows
from wirelens.ray.sets import Paths, sensors
from wirelens.ray.tasks import Report

__all__ = [
    "Report",
    "Rows",
    "WorkerLostError",
    "classify_flows",
    "flows",
    "latency",
    "nprint",
    "sensors",
    "top",
]

Header: TypeAlias = Literal["ipv4", "ipv6", "tcp", "udp", "icmp"]


def flows(paths: Paths, **arguments: Any) -> Rows:
    """Flows, with the rows of `wirelens.flows` and its arguments.

    Flows of a set may be divided among tasks, each with threads.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError
        If captures are missing, vanish or change before all rows are written.
    OptionError
        If an argument is invalid, or has no meaning for several tasks.
    OutputExistsError
        If `output` exists.
    WorkerLostError
        If workers of a task were lost more often than it may be repeated.
    """
    names_are_read = bool(arguments.get("read_names"))
    threaded = not names_are_read and arguments.get("drop_duplicates") is None
    return ask("flows", paths, arguments, threaded=threaded)


def classify_flows(paths: Paths, model: str | os.PathLike[str], **arguments: Any) -> Rows:
    """Verdicts, with the rows of `wirelens.classify_flows` and its arguments.

    Flows of a set may be divided among tasks, unless the model reads names or has a memory of
    hosts: then each set is one task.

    Raises
    ------
    ModelError
        If the model cannot be used.
    WirelensError
        As `flows`.
    """
    model = model if isinstance(model, str) else os.path.abspath(model)
    return ask("classify_flows", paths, {"model": model, **arguments})


def latency(paths: Paths, **arguments: Any) -> Rows:
    """Latencies, with the rows of `wirelens.latency` and its arguments.

    Flows of a set may be divided among tasks. With ``by="destination"``, ``by="packet"`` or
    `egress` each set is one task.

    Raises
    ------
    WirelensError
        As `flows`.
    """
    return ask("latency", paths, arguments)


def top(paths: Paths, **arguments: Any) -> Rows:
    """Totals, with the rows of `wirelens.top` and its arguments, for each sensor.

    Captures of a set are tasks of their own, added up in the end. With `window`,
    `drop_duplicates`, ``by="flow"`` or ``by="name"`` each set is one task.

    Raises
    ------
    WirelensError
        As `flows`.
    """
    is_summed = (
        arguments.get("by", "source") in totals.SUMMED
        and arguments.get("window") is None
        and arguments.get("drop_duplicates") is None
    )
    return ask("top", paths, arguments, threaded=not is_summed, by_capture=is_summed)


def nprint(
    paths: Paths,
    *,
    headers: Sequence[Header] = ("ipv4", "tcp", "udp"),
    payload: int = 0,
    depth: int | None = None,
    sequences: bool = False,
    fill: int = -1,
    addresses: bool = True,
    ports: bool = True,
    exclude: Sequence[str] = (),
    all_ip: bool = False,
    filter: str | None = None,
    **run: Unpack[RunArguments],
) -> Rows:
    """Header bits, with the rows of the command `wirelens nprint`.

    Without `depth` a row is a packet, and captures of a set are tasks of their own; with it a row
    is a flow, and each set is one task.

    Parameters
    ----------
    paths
        A capture set, or a dictionary from sensor to capture set.
    headers, payload, fill, exclude
        Which bits, as ``-4 -6 -t -u --icmp``, ``-p``, ``-F`` and ``-x``.
    depth, sequences
        One row per flow, with the bits or the sizes, directions and gaps of its first packets.
    addresses, ports
        Whether columns of addresses and ports are there.
    all_ip
        A row for every IP packet.
    filter
        Read only frames that match this filter (pcap-filter(7)).

    Raises
    ------
    WirelensError
        As `flows`.
    """
    options = [] if sequences else [f"--{header}" for header in headers]
    options += ["--payload", str(payload)] if payload else []
    options += ["--fill", str(fill)] if fill != -1 else []
    options += [word for one in exclude for word in ("--exclude", one)]
    options += [] if addresses else ["--no-addresses"]
    options += [] if ports else ["--no-ports"]
    options += ["--all-ip"] if all_ip else []
    options += ["--depth", str(depth)] if depth is not None else []
    options += ["--sequences"] if sequences else []
    options += [] if filter is None else ["--", filter]
    return ask("nprint", paths, {"options": options, **run}, by_capture=depth is None)
