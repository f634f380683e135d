"""Questions over Ray on two machines: each a network namespace, with a link between them.

Captures and rows are in folders that both see under one path, as the guide asks for.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import captures
import pytest
import wirelens
from command import DEMO, ENVIRONMENT
from lab import bring_up, inside, ip, new_namespace, wait_until

pytestmark = pytest.mark.ray

HEAD, NODE = "203.0.113.1", "203.0.113.2"
PORT = 6379
STARTED_WITHIN_S = 90.0
RUN_WITHIN_S = 240.0

# A machine that says nothing for four seconds is taken for lost.
WATCHED = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_grpc_client_keepalive_time_ms": "2000",
    "RAY_grpc_client_keepalive_timeout_ms": "2000",
}
# Otherwise a file of the user's decides whether the head wants a token, and members have none.
OF_TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
OF_RAY = ENVIRONMENT | WATCHED | OF_TOKEN | {"RAY_USAGE_STATS_ENABLED": "0"}

# It tells where each task ran: workers wait for more, so that they are still there.
DRIVER = """
import json, os, sys
import wirelens.ray
import wirelens.ray.running

wirelens.ray.running.SEEN_WITHIN_S = 2.0
machines = []

def seen(done, total, report):
    try:
        machines.append(os.stat(f"/proc/{report.process}/ns/net").st_ino)
    except FileNotFoundError:
        machines.append(None)

capture, output, address = sys.argv[1:]
rows = wirelens.ray.flows(
    capture, output=output, address=address, shares=60, threads=1, idle_timeout="2s",
    active_timeout="8s", progress=seen,
)
print(json.dumps({"rows": len(rows), "machines": machines}))
"""


def processes_of(namespace: int) -> list[int]:
    """Those on a machine."""
    wanted = os.fstat(namespace).st_ino
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_there = os.stat(process / "ns/net").st_ino == wanted
        except OSError:
            continue
        if is_there and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def has_open(process: int, folder: Path) -> bool:
    """Whether it has a file of the folder open."""
    try:
        links = [os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir()]
    except OSError:  # such as a file that was closed meanwhile
        return False
    return any(link.startswith(f"{folder}/") for link in links)


def power_off(namespace: int) -> None:
    """Ends all that runs on a machine, without a word to others."""
    while found := processes_of(namespace):
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def start_ray(folder: Path, *arguments: str, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """A member of the cluster, on the machine of this thread."""
    with (folder / f"ray-{'head' if '--head' in arguments else 'node'}.log").open("wb") as log:
        return subprocess.Popen(
            [
                *before, Path(sys.executable).with_name("ray"), "start", *arguments, "--num-cpus=1",
                "--object-store-memory=100000000", "--disable-usage-stats", "--block",
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=OF_RAY,
        )  # fmt: skip


@contextmanager
def two_machines(folder: Path, *, hidden: Path | None = None) -> Iterator[tuple[int, int]]:
    """The head of a cluster and one more, with a processor each; there a folder may be hidden."""
    # Sockets have names of at most 107 bytes.
    sessions = Path(tempfile.mkdtemp(prefix="wl-ray-", dir="/tmp"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, sessions, ignore_errors=True)
        head, node = (stack.enter_context(new_namespace()) for _ in range(2))
        with inside(head):
            ip("link set lo up")
            ip("link add to-node type veth peer name to-head")
            ip(f"link set to-head netns /proc/{os.getpid()}/fd/{node}")
            ip(f"addr add {HEAD}/30 dev to-node")
            ip("link set to-node up")
        with inside(node):
            ip("link set lo up")
            ip(f"addr add {NODE}/30 dev to-head")
            bring_up("to-head")
        members: list[subprocess.Popen[bytes]] = []

        def end() -> None:
            for namespace in (head, node):
                power_off(namespace)
            for member in members:
                member.wait()

        stack.callback(end)
        with inside(head):
            members.append(start_ray(
                folder, "--head", f"--node-ip-address={HEAD}", f"--port={PORT}",
                f"--temp-dir={sessions}", "--include-dashboard=false",
            ))  # fmt: skip
            wait_until(lambda: _is_there(HEAD), "the head of the cluster", STARTED_WITHIN_S)
        with inside(node):
            hide = f'mount -t tmpfs none {hidden} && exec "$@"'
            members.append(start_ray(
                folder, f"--address={HEAD}:{PORT}", f"--node-ip-address={NODE}",
                before=["unshare", "--mount", "bash", "-c", hide, "bash"] if hidden else [],
            ))  # fmt: skip
        log = folder / "ray-node.log"
        wait_until(lambda: b"Ray runtime started" in log.read_bytes(), "a node", STARTED_WITHIN_S)
        yield head, node


def _is_there(host: str) -> bool:
    return subprocess.run(
        ["bash", "-c", f"exec 3<>/dev/tcp/{host}/{PORT}"], stderr=subprocess.DEVNULL, check=False
    ).returncode == 0  # fmt: skip


def ask(folder: Path, head: int, capture: Path) -> subprocess.Popen[str]:
    """Asks, from the head's machine."""
    with inside(head):
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, capture, folder / "rows", f"{HEAD}:{PORT}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=OF_RAY,
        )  # fmt: skip


def longer(path: Path, turns: int) -> Path:
    """The demo some times, one after another."""
    frames = list(captures.read_pcapng(DEMO))
    shift = frames[-1].time_ns - frames[0].time_ns + 10**9
    captures.write_pcap(
        path,
        (
            captures.Frame(frame.time_ns + turn * shift, frame.data, frame.wire_len)
            for turn in range(turns)
            for frame in frames
        ),
    )
    return path


def rows_of(folder: Path) -> list[str]:
    import pyarrow.parquet

    tables = [pyarrow.parquet.read_table(part) for part in folder.glob("part-*.parquet")]
    return sorted(json.dumps(row, default=str) for table in tables for row in table.to_pylist())


def alone(capture: Path) -> list[str]:
    rows = wirelens.flows(capture, idle_timeout="2s", active_timeout="8s").to_arrow().to_pylist()
    return sorted(json.dumps(row, default=str) for row in rows)


def answer(asking: subprocess.Popen[str]) -> dict[str, list[int]]:
    out, err = asking.communicate(timeout=RUN_WITHIN_S)
    assert asking.returncode == 0, err
    # Ray says on the same output that a machine is lost, also after the answer.
    (line,) = (line for line in out.splitlines() if line.startswith('{"rows"'))
    return json.loads(line)


def cut_link(head: int, _node: int, writing: int) -> None:
    """And a task there goes on, with its file open."""
    os.kill(writing, signal.SIGSTOP)
    with inside(head):
        ip("link set to-node down")


def lose_power(_head: int, node: int, _writing: int) -> None:
    power_off(node)


def test_tasks_run_on_both_machines_and_rows_are_those_of_one(tmp_path: Path) -> None:
    capture = longer(tmp_path / "long.pcap", 60)
    with two_machines(tmp_path) as (head, node):
        told = answer(ask(tmp_path, head, capture))
        ran_on = {os.fstat(head).st_ino, os.fstat(node).st_ino}
    assert set(told["machines"]) == ran_on
    assert rows_of(tmp_path / "rows") == alone(capture)


@pytest.mark.parametrize("lose", [cut_link, lose_power])
def test_a_machine_that_is_lost_changes_nothing(
    tmp_path: Path, lose: Callable[[int, int, int], None]
) -> None:
    capture = longer(tmp_path / "long.pcap", 60)
    rows = tmp_path / "rows"
    with two_machines(tmp_path) as (head, node):
        asking = ask(tmp_path, head, capture)
        of_head = os.fstat(head).st_ino
        writing: list[int] = []

        def is_writing() -> bool:
            assert asking.poll() is None, asking.communicate()
            writing[:] = [process for process in processes_of(node) if has_open(process, rows)]
            return bool(writing)

        wait_until(is_writing, "a task on the second machine", RUN_WITHIN_S)
        lose(head, node, writing[0])
        told = answer(asking)
    assert of_head in told["machines"]
    assert not list(rows.glob("_unfinished-*"))
    assert rows_of(rows) == alone(capture)


def test_rows_that_only_another_machine_sees_are_an_error(tmp_path: Path) -> None:
    capture = longer(tmp_path / "long.pcap", 60)
    rows = tmp_path / "rows"
    rows.mkdir()
    with two_machines(tmp_path, hidden=rows) as (head, _):
        asking = ask(tmp_path, head, capture)
        _, err = asking.communicate(timeout=RUN_WITHIN_S)
    assert asking.returncode == 1
    assert f"OutputError: {rows}/part-" in err
    assert "written by another machine, and not seen here; wanted: output=FOLDER" in err


def test_what_a_machine_lacks_is_an_error_that_names_it(tmp_path: Path) -> None:
    hidden = tmp_path / "captures"
    hidden.mkdir()
    capture = longer(hidden / "long.pcap", 60)
    with two_machines(tmp_path, hidden=hidden) as (head, _):
        asking = ask(tmp_path, head, capture)
        _, err = asking.communicate(timeout=RUN_WITHIN_S)
    assert asking.returncode == 1
    assert f"CaptureNotFoundError: {capture}: vanished; wanted the same captures, under" in err
    assert f"(on machine {NODE})" in err
    assert not list((tmp_path / "rows").glob("_unfinished-*"))
