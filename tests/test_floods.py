"""Floods: memory stays below what the settings allow in every command, flows that began before a
flood live through it, every packet is accounted for, and what was refused or evicted is counted as
that.

`bench/speed/floods/measure.py` does the same with ten million packets and the default settings.
"""

import os
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
FIXED_MIB = 160
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


class Run:
    """A run, its memory at its highest, and what it said."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        with (folder / "rows").open("wb") as out, (folder / "said").open("wb") as said:
            child = subprocess.Popen(
                ["timeout", str(TIME_MAX_S), PROGRAM, *words],
                stdout=out, stderr=said, cwd=folder, env=ENVIRONMENT,
            )  # fmt: skip
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.said = (folder / "said").read_text()
        assert child.returncode == 0, self.said
        self.rss_mib = usage.ru_maxrss / 1024
        self.rows = folder / "rows"


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
