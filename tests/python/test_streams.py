"""Streams under the circumstances of real programs: large captures, interrupts, forks, exits."""

import os
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import wirelens
from command import DEMO
from programs import PATIENCE_S, program, reader_threads, wait_until

LARGE_BYTES = 300 << 20
# The interpreter with the package takes about 17 MB. A tenth of the capture would be too much.
RESIDENT_MAX_KB = 64 << 10
ANONYMOUS_MAX_KB = 40 << 10


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The demo's packets over and over, as the end of one section."""
    data = DEMO.read_bytes()
    head, packets, at = b"", b"", 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 6:
            packets += data[at : at + size]
        elif kind in (0x0A0D0D0A, 1):
            head += data[at : at + size]
        at += size
    path = tmp_path_factory.mktemp("large") / "large.pcapng"
    with path.open("wb") as file:
        file.write(head)
        for _ in range(LARGE_BYTES // len(packets)):
            file.write(packets)
    yield path
    path.unlink()


@pytest.mark.parametrize(
    "consume",
    [
        "for batch in stream.batches(): count += len(batch)",
        "stream.to_parquet(sys.argv[2]); count = -1",
    ],
)
def test_memory_is_flat(large: Path, tmp_path: Path, consume: str) -> None:
    text = f"""
import sys, wirelens
def status():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return [int(lines[name].split()[0]) for name in ("VmHWM", "RssAnon")]
count, before = 0, status()
stream = wirelens.packets(sys.argv[1], frame=64)
{consume}
print(count, *(after - b for after, b in zip(status(), before)))
"""
    command = program(text, large, tmp_path / "large.parquet")
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    count, peak_kb, anonymous_kb = map(int, done.stdout.split())
    # A row group is held back until it is full.
    factor = 2 if count < 0 else 1
    assert peak_kb < RESIDENT_MAX_KB * factor
    assert anonymous_kb < ANONYMOUS_MAX_KB * factor
    assert count == -1 or count > 100 * 4944, "the capture is not large"


def test_a_limit_of_memory_may_be_smaller_than_the_capture(large: Path) -> None:
    text = """
import resource, sys, wirelens
resource.setrlimit(resource.RLIMIT_DATA, (100 << 20, 100 << 20))
print(sum(len(batch) for batch in wirelens.packets(sys.argv[1], payload=100).batches()))
"""
    done = subprocess.run(program(text, large), check=True, capture_output=True, text=True)
    assert int(done.stdout) > 500_000


def test_leaving_a_loop_stops_the_reader(large: Path) -> None:
    before = reader_threads()
    for _packet in wirelens.packets(large):
        break
    wait_until(lambda: reader_threads() <= before, "the reader goes on")
    stream = wirelens.packets(large)
    batches = stream.batches()
    next(batches)
    stream.close()
    wait_until(lambda: reader_threads() <= before, "close() does not stop the reader")
    del stream, batches
    wirelens.packets(large)
    wait_until(lambda: reader_threads() <= before, "a stream nobody reads goes on")
    stream = wirelens.packets(large)
    stream.head(10)
    wait_until(lambda: reader_threads() <= before, "head() reads on")


def test_other_threads_run_while_one_waits(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    opened: list[wirelens.Stream[wirelens.Packet]] = []
    waiting = threading.Thread(target=lambda: opened.append(wirelens.packets(fifo)))
    waiting.start()
    with fifo.open("wb") as file:
        file.write(DEMO.read_bytes())
    waiting.join(PATIENCE_S)
    assert len(list(opened[0])) == 4944


INTERRUPTED = """
import sys, wirelens
try:
    print("ready", flush=True)
    for packet in wirelens.packets(sys.argv[1]):
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

INTERRUPTED_FLOWS = INTERRUPTED.replace("wirelens.packets", "wirelens.flows")

INTERRUPTED_TOP = """
import sys, wirelens
try:
    print("ready", flush=True)
    wirelens.top(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("text", [INTERRUPTED, INTERRUPTED_FLOWS, INTERRUPTED_TOP])
@pytest.mark.parametrize("has_writer", [False, True])
def test_an_interrupt_is_seen_while_nothing_comes(
    tmp_path: Path, text: str, has_writer: bool
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(program(text, fifo), stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        # Whether the pipe is waited for, or what comes through it.
        writer = fifo.open("wb") if has_writer else None
        if writer:
            writer.write(DEMO.read_bytes()[:100_000])
            writer.flush()
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=PATIENCE_S)[0] == "interrupted\n"
        assert child.returncode == 0
        if writer:
            writer.close()


def test_a_process_ends_while_a_reader_runs(large: Path) -> None:
    for ending in ("sys.exit(3)", "os._exit(3)", "raise SystemExit(3)"):
        text = f"""
import os, sys, wirelens
kept = wirelens.packets(sys.argv[1])
batches = kept.batches()
next(batches)
{ending}
"""
        done = subprocess.run(program(text, large), timeout=PATIENCE_S, check=False)
        assert done.returncode == 3


FORKED = """
import os, sys, warnings, wirelens
warnings.simplefilter("ignore", DeprecationWarning)
stream = wirelens.packets(sys.argv[1])
begun = stream.batches()
next(begun)
other = wirelens.packets(sys.argv[1], count=10)
child = os.fork()
if child == 0:
    try:
        next(begun)
        os._exit(1)
    except wirelens.ForkedError:
        pass
    # One that was not begun, and one that is begun anew, are read as ever.
    assert len(list(other)) == 10
    assert len(next(stream.batches())) > 0
    del begun, stream, other
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert len(next(begun)) > 0
"""


def test_a_fork_neither_hangs_nor_takes_batches_away(large: Path) -> None:
    subprocess.run(program(FORKED, large), timeout=PATIENCE_S, check=True)


def test_several_streams_at_once(large: Path) -> None:
    streams = [iter(wirelens.packets(large, count=20_000)) for _ in range(8)]
    for packets in zip(*streams, strict=True):
        assert len(set(packets)) == 1
