"""Tables of the page on names that packets carry."""

import json
from collections.abc import Sequence
from statistics import median

from page_rows import RESULTS, Missing

TSHARK = "2026-11-25-names-tshark/differences.jsonl"
SPEED = "2026-11-25-names-speed/runs.jsonl"
WHAT = {"server_name": "server name (SNI)", "alpn": "ALPN", "dns_query": "first DNS name"}


def _rows(path: str) -> Sequence[dict[str, str | int | float]]:
    file = RESULTS / path
    if not file.exists():
        raise Missing(f"no file bench/results/{path}")
    return [json.loads(line) for line in file.read_text().splitlines()]


def agreement() -> str:
    """Flows in which both programs see a name, or either does."""
    rows = _rows(TSHARK)
    lines = [
        "| name | flows | the same | only in tshark | only here | both, not the same |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for total in (row for row in rows if "total" in row):
        mine = [row for row in rows if row.get("what") == total["total"]]
        sides = [(bool(row["tshark"]), bool(row["wirelens"])) for row in mine]
        there, here = sides.count((True, False)), sides.count((False, True))
        same = int(total["agree"])
        cells = [f"{same + len(mine):,}", f"{same:,}", there, here, sides.count((True, True))]
        lines.append(f"| {WHAT[str(total['total'])]} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def speed() -> str:
    """Million packets per core-second, medians of rounds in one run."""
    rows = _rows(SPEED)
    names = list(dict.fromkeys(str(row["name"]) for row in rows))
    lines = [f"| capture | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    for group in dict.fromkeys(str(row["group"]) for row in rows):
        rates = []
        for name in names:
            runs = [row for row in rows if (row["group"], row["name"]) == (group, name)]
            if not runs:
                raise Missing(f"{SPEED}: no run of {name} on {group}")
            rates.append(median(float(run["items"]) / float(run["cpu_s"]) / 1e6 for run in runs))
        lines.append(f"| `{group}` | {' | '.join(f'{rate:.2f}' for rate in rates)} |")
    return "\n".join(lines) + "\n"
