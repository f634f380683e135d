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
MODEL = ROOT / "models/devices"
# What the guide promises of each flow that is known, and of each that waits: 300 bytes and its
# records, in lists that have room for twice what is in them.
BYTES_PER_FLOW = 200
RECORD_BYTES = 144
PACKETS = 10
BYTES_PER_WAITING = 2 * (300 + RECORD_BYTES * PACKETS)
# The program, its model of 5.5 MB as trees, pages of the capture, and a piece of rows.
FIXED_BYTES = 48 << 20


@pytest.mark.parametrize(("flows_max", "waiting_max"), [(20_000, 2_000), (100_000, 20_000)])
def test_a_flood_takes_what_the_limits_allow(
    tmp_path: Path, flows_max: int, waiting_max: int
) -> None:
    flood, verdicts = tmp_path / "flood.pcap", tmp_path / "verdicts.csv"
    write_flood(flood, FLOWS, with_established=False)
    command = [
        PROGRAM, "classify", "-q", "-r", flood, "--model", MODEL, "-o", verdicts,
        "--max-flows", str(flows_max), "--waiting-max", str(waiting_max),
    ]  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-c", PARENT, *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENVIRONMENT, check=True,
    )  # fmt: skip
    taken = int(run.stdout) * 1024
    bound = flows_max * BYTES_PER_FLOW + waiting_max * BYTES_PER_WAITING + FIXED_BYTES
    assert taken <= bound, (taken, bound)
    with verdicts.open() as file:
        causes = Counter(row["cause"] for row in csv.DictReader(file))
    assert causes.total() == FLOWS
    # Those that find no room to wait are told, and decided by what there is.
    assert causes["full"] > 0
