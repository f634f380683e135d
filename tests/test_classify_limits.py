"""`wirelens classify` in a flood of one-packet flows: memory is bounded, every flow has a verdict.

The flood is one SYN for each of 300,000 5-tuples, none of which is answered; each has to wait
where the model wants more packets, and not all of them may.
"""

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from command import ENVIRONMENT, PROGRAM, ROOT
from test_flows_limits import PARENT, write_flood

FLOWS = 300_000
MODEL = ROOT / "models/categories"
# What the guide promises of each flow that is known, and of each that waits: 300 bytes and its
# records, in lists that have room for twice what is in them.
BYTES_PER_FLOW = 200
RECORD_BYTES = 144
PACKETS = 10
BYTES_PER_WAITING = 2 * (300 + RECORD_BYTES * PACKETS)
# What is kept of a host, of 17 classes, in lists and tables that have room for more.
BYTES_PER_HOST = 700
# The program, its model of 5.5 MB as trees, pages of the capture, and a piece of rows.
# Pages of files count as well, of which kernels with large folios map more where a file is new: one
# program took 54 to 61 MiB in the same flood, and 64 to 77 MiB where it waits for packets.
FIXED_BYTES = 64 << 20


def taken_by(flood: Path, model: Path, verdicts: Path, *options: object) -> int:
    """Bytes that a run takes."""
    command = [PROGRAM, "classify", "-q", "-r", flood, "--model", model, "-o", verdicts]
    run = subprocess.run(
        [sys.executable, "-c", PARENT, *command, *map(str, options)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENVIRONMENT, check=True,
    )  # fmt: skip
    return int(run.stdout) * 1024


@pytest.mark.parametrize("hosts_max", [1_024, 65_536])
def test_a_flood_of_hosts_takes_what_their_limit_allows(tmp_path: Path, hosts_max: int) -> None:
    flood = tmp_path / "flood.pcap"
    write_flood(flood, FLOWS, with_established=False)
    taken = taken_by(
        flood, ROOT / "models/devices", tmp_path / "v.csv", "--max-flows", 20_000,
        "--waiting-max", 2_000, "--hosts-max", hosts_max,
    )  # fmt: skip
    # Its trees are larger.
    bound = 20_000 * BYTES_PER_FLOW + 2_000 * BYTES_PER_WAITING + FIXED_BYTES + (8 << 20)
    assert taken <= bound + hosts_max * BYTES_PER_HOST, (taken, bound)


@pytest.mark.parametrize(("flows_max", "waiting_max"), [(20_000, 2_000), (100_000, 20_000)])
def test_a_flood_takes_what_the_limits_allow(
    tmp_path: Path, flows_max: int, waiting_max: int
) -> None:
    flood, verdicts = tmp_path / "flood.pcap", tmp_path / "verdicts.csv"
    write_flood(flood, FLOWS, with_established=False)
    taken = taken_by(
        flood, MODEL, verdicts, "--max-flows", flows_max, "--waiting-max", waiting_max
    )
    bound = flows_max * BYTES_PER_FLOW + waiting_max * BYTES_PER_WAITING + FIXED_BYTES
    assert taken <= bound, (taken, bound)
    with verdicts.open() as file:
        causes = Counter(row["cause"] for row in csv.DictReader(file))
    assert causes.total() == FLOWS
    # Those that find no room to wait are told, and decided by what there is.
    assert causes["full"] > 0
