"""Server names, ALPN and DNS names, compared with tshark; the whole comparison is kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import ROOT

DATA = ROOT.parent / "shared/data"
KEPT = ROOT / "bench/results/2026-11-25-names-tshark/differences.jsonl"


def rows(path: Path) -> list[dict[str, str | int]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.wide
def test_names_differ_from_those_of_tshark_only_where_that_is_known(tmp_path: Path) -> None:
    script = ROOT / "bench/evaluation/names/tshark.py"
    output = tmp_path / "differences.jsonl"
    subprocess.run([sys.executable, script, DATA, output, "--every", "8"], check=True)
    known = {(row["capture"], row["what"], row["flow"]) for row in rows(KEPT) if "flow" in row}
    found = rows(output)
    new = [
        row for row in found
        if "flow" in row and (row["capture"], row["what"], row["flow"]) not in known
    ]  # fmt: skip
    assert new == []
    agree = {row["total"]: int(row["agree"]) for row in found if "total" in row}
    assert agree["server_name"] > 50 and agree["dns_query"] > 200, agree
