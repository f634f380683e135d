"""Floods: memory stays below what the settings allow in every command, flows that began before a
flood live through it, every packet is accounted for, and packets and flows that were refused or
evicted are counted as such.

`bench/speed/floods/measure.py` does the same with ten million packets and the default settings.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import ENVIRONMENT, PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "bench/speed/floods"))
import hostile

PACKETS = 100_000
LIMIT = 6_400
# Of a run that keeps nothing: program, models, pieces of rows, and pages of the capture.
FIXED_MIB = 120
# What a flow, a key or a name takes at most in any of the commands.
BYTES_EACH = 4_096
TIME_MAX_S = 120

FLOWS = ["--max-flows", str(LIMIT)]
COMMANDS = {
    "top": ["top", "-n", "0", "--by", "flow", "--max-keys", str(LIMIT)],
    "top --window": ["top", "-n", "0", "--by", "flow", "--window", "1ms", "--max-keys", str(LIMIT)],
    "top --by name": ["top", "-n", "0", "--by", "name", "--max-keys", str(LIMIT)],
    "flows": ["flows", *FLOWS],
    "flows --read-names": ["flows", "--stats", "--read-names", *FLOWS],
    "classify": ["classify", "-m", "services", *FLOWS],
    "latency": ["latency", *FLOWS],
    "cca": ["cca", *FLOWS],
    "packetlog": ["packetlog", "record", "-o", "log"],
}
KINDS = [kind for kind in hostile.KINDS if kind != "normal"]


# A process is charged with what its parent had when it was made, so the parent is a small one.
PARENT = """
import pathlib, resource, subprocess, sys
ran = subprocess.run(sys.argv[2:])
pathlib.Path(sys.argv[1]).write_text(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(ran.returncode)
"""


class Run:
    """A run, its memory at its highest, and what it said."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        rows, said, peak = (folder / name for name in ("rows", "said", "peak"))
        with rows.open("wb") as out, said.open("wb") as messages:
            ran = subprocess.run(
                [sys.executable, "-c", PARENT, peak, "timeout", str(TIME_MAX_S), PROGRAM, *words],
                stdout=out, stderr=messages, cwd=folder, env=ENVIRONMENT, check=False,
            )  # fmt: skip
        self.said = said.read_text()
        assert ran.returncode == 0, self.said
        self.rss_mib = int(peak.read_text()) / 1024
        self.rows = rows


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("floods")
    made = {}
    for kind in KINDS:
        made[kind] = folder / f"{kind}.pcap"
        with made[kind].open("wb") as file:
            hostile.write(kind, PACKETS, 1, file)
    return made


def received(said: str) -> int:
    """The packets of the account, which has to hold."""
    [(count, terms)] = re.findall(r"^[a-z0-9]+: (\d+) (?:received|seen) = (.*)$", said, re.M)
    assert int(count) == sum(int(term) for term in re.findall(r"(\d+) [a-z]+", terms)), said
    return int(count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_memory_is_bounded_and_every_packet_is_accounted_for(
    tmp_path: Path, captures: dict[str, Path], name: str, kind: str
) -> None:
    words = [*COMMANDS[name], "-r", str(captures[kind])]
    words += [] if name == "packetlog" else ["--format", "csv"]
    run = Run(tmp_path, words)
    assert received(run.said) == PACKETS + hostile.long_packets(PACKETS)
    assert run.rss_mib < FIXED_MIB + LIMIT * BYTES_EACH / 2**20


BEYOND = r"^[a-z]+: (\d+) packets are of (?:keys|flows) beyond the maximum"
# The kind of flood, what is counted in it, and how often the limit may be used in it at most: a
# name has two packets, and 100 ms are 65 windows that are open together and 35 after them.
BEYOND_LIMIT = {
    "top": ("data", BEYOND, 1),
    "top --window": ("data", BEYOND, 2),
    "top --by name": ("names", BEYOND, 2),
    "flows": ("data", r"(\d+) evicted", 1),
    "flows --read-names": ("data", r"(\d+) evicted", 1),
    "classify": ("data", r"(\d+) evicted", 1),
    "latency": ("data", BEYOND, 1),
    "cca": ("data", BEYOND, 1),
}


@pytest.mark.parametrize("name", BEYOND_LIMIT)
def test_what_exceeds_a_limit_is_counted(
    tmp_path: Path, captures: dict[str, Path], name: str
) -> None:
    kind, pattern, times = BEYOND_LIMIT[name]
    run = Run(tmp_path, [*COMMANDS[name], "-r", str(captures[kind]), "--format", "csv"])
    [counted] = re.findall(pattern, run.said, re.M)
    assert int(counted) >= PACKETS - times * LIMIT


@pytest.mark.parametrize("name", ["top", "top --window", "latency", "cca"])
def test_a_lower_limit_takes_less_memory(
    tmp_path: Path, captures: dict[str, Path], name: str
) -> None:
    words = [*COMMANDS[name], "-r", str(captures["data"]), "--format", "csv"]
    at = words.index(str(LIMIT))
    limited, unlimited = Run(tmp_path, words), Run(tmp_path, words[: at - 1] + words[at + 1 :])
    assert limited.rss_mib < 0.75 * unlimited.rss_mib


@pytest.mark.parametrize("kind", ["tuples", "handshakes", "fragments", "tunnels", "hellos"])
def test_long_flows_live_through_a_flood(
    tmp_path: Path, captures: dict[str, Path], kind: str
) -> None:
    run = Run(tmp_path, ["flows", *FLOWS, "-r", str(captures[kind]), "--format", "csv"])
    header, *rows = run.rows.read_text().splitlines()
    port = header.split(",").index("dst_port")
    packets = header.split(",").index("src_packets")
    long = [row.split(",") for row in rows if row.split(",")[port] == str(hostile.LONG_PORT)]
    assert len(long) == hostile.LONG_FLOWS
    assert {int(row[packets]) for row in long} == {hostile.long_packets(PACKETS) // 200}
    assert re.search(r"[1-9]\d* (flows )?.*(evicted|emergency)", run.said), run.said


def test_flows_that_cca_refuses_are_counted_as_refused(
    tmp_path: Path, captures: dict[str, Path]
) -> None:
    run = Run(tmp_path, [*COMMANDS["cca"], "-r", str(captures["data"]), "--format", "csv"])
    beyond = re.search(r"cca: (\d+) packets are of keys beyond the maximum", run.said)
    without = re.search(r"(\d+) counted \+ (\d+) without", run.said)
    assert beyond and int(beyond[1]) >= PACKETS - LIMIT
    assert without and int(without[2]) == 0
