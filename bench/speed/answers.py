"""Whether the programs that are compared agree on the answer."""

import csv
import io
import re
import subprocess

from jobs import WIRELENS, YARDSTICKS, Input


def wirelens_answer(path: str) -> dict[str, int]:
    command = [WIRELENS, "top", "-q", "-r", path, "-n", "0", "--no-decap", "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    return {
        "sources": len(rows),
        "packets": sum(int(row["packets"]) for row in rows),
        "bytes": sum(int(row["bytes"]) for row in rows),
    }


def tuned_answer(path: str) -> dict[str, int] | None:
    if not (YARDSTICKS / "tuned").exists():
        return None
    command = [str(YARDSTICKS / "tuned"), path, "1", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"srcs (\d+) ippkts (\d+) bytes (\d+)", done.stdout)
    if found is None:
        return None
    return dict(zip(("sources", "packets", "bytes"), map(int, found.groups()), strict=True))


def answers(inputs: list[Input]) -> list[dict[str, object]]:
    """What Wirelens and the tuned loop counted. On made traffic they must be
    equal; among real packets the loop counts some whose headers are malformed
    or behind PPPoE and MPLS otherwise."""
    return [
        {
            "input": source.name,
            "wirelens": wirelens_answer(source.file("headers.pcap")),
            "tuned loop": tuned_answer(source.file("headers.pcap")),
        }
        for source in inputs
    ]
