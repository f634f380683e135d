"""Runs of `measure.py` to a table: medians, and what was to be reached.

python bench/speed/run/report.py FOLDER     writes its table.md again
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from cases import BEFORE, FIVE

Run = dict[str, object]
ONE, TWO = "all five, 1 thread", "all five, 2 threads"


class Medians:
    """Of CPU time, wall time and memory, by group and name."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
        for run in runs:
            self.runs[str(run["group"]), str(run["name"])].append(run)

    def of(self, group: str, name: str, key: str) -> float | None:
        same = self.runs.get((group, name))
        return median(float(str(run[key])) for run in same) if same else None

    def cpu(self, group: str, name: str) -> float | None:
        return self.of(group, name, "cpu_s")

    def rate(self, group: str, name: str) -> float | None:
        """Packets per core-second."""
        same = self.runs.get((group, name))
        cpu = self.cpu(group, name)
        return float(str(same[0]["items"])) / cpu if same and cpu else None


def ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


Target = tuple[str, float | None, str, float]


def targets(medians: Medians) -> list[Target]:
    """What is compared, what was found, whether at most or at least, and what is wanted."""
    rows: list[Target] = []
    for group, of_sum, of_ndpi in (("wide", 0.90, 0.8), ("bulk", 0.55, 3.0)):
        alone = [medians.cpu(group, name) for name in FIVE]
        costs = sorted(cost for cost in alone if cost is not None)
        whole = medians.cpu(group, ONE)
        if len(costs) == len(FIVE):
            rows.append(
                (
                    f"{group}: CPU of all five ÷ the two dearest alone",
                    ratio(whole, sum(costs[-2:])),
                    "≤",
                    1.10,
                )
            )
            rows.append(
                (
                    f"{group}: CPU of all five ÷ five commands one after the other",
                    ratio(whole, sum(costs)),
                    "≤",
                    of_sum,
                )
            )
        earlier = [medians.cpu(group, f"{BEFORE}: {name}") for name in FIVE]
        before = sorted(cost for cost in earlier if cost is not None)
        if len(before) == len(FIVE):
            # The commands have become faster, too: what a user of the five had gains.
            two, five = ratio(whole, sum(before[-2:])), ratio(whole, sum(before))
            rows.append((f"{group}: CPU of all five ÷ the two dearest before", two, "≤", 1.10))
            rows.append((f"{group}: CPU of all five ÷ five commands before", five, "≤", of_sum))
        rows.append(
            (
                f"{group}: two threads, times as fast as one",
                ratio(medians.of(group, ONE, "wall_s"), medians.of(group, TWO, "wall_s")),
                "≥",
                1.5,
            )
        )
        rows.append(
            (
                f"{group}: packets per core-second, all five ÷ ndpiReader",
                ratio(medians.rate(group, ONE), medians.rate(group, "ndpiReader")),
                "≥",
                of_ndpi,
            )
        )
        for name in FIVE:
            same = medians.cpu(group, f"{BEFORE}: {name}")
            if same is not None:
                rows.append(
                    (
                        f"{group}: CPU of `{name}` ÷ before",
                        ratio(medians.cpu(group, name), same),
                        "≤",
                        1.0,
                    )
                )
    rows.append(
        (
            "mix: CPU of `flows -o FILE.parquet` ÷ the table alone",
            ratio(medians.cpu("mix", "flows, Parquet"), medians.cpu("mix", "flows, table")),
            "≤",
            1.3,
        )
    )
    return rows


def verdict(found: float, sign: str, wanted: float) -> str:
    # Two runs of one program differ by as much.
    slack = 0.02 if wanted == 1.0 else 0.0
    is_met = found <= wanted + slack if sign == "≤" else found >= wanted
    return "reached" if is_met else "**not reached**"


def table(runs: list[Run], facts: dict[str, object]) -> str:
    medians = Medians(runs)
    before, after = facts["load_before"], facts["load_after"]
    assert isinstance(before, list | tuple) and isinstance(after, list | tuple)
    out = [
        "# `wirelens run` on captures", "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
        f" {facts['memory_gib']} GiB, Linux {facts['kernel']}. Load average {before[0]:.2f} before,"
        f" {after[0]:.2f} after.", "",
        f"{facts['rounds']} rounds in which programs take turns; medians. CPU time is that of whole"
        " processes, user and system. Memory below 35 MiB shows as that of the process that starts"
        " them. Wall times, and so what two threads gain, mean something on a machine without other"
        " work only: see the load average.", "",
        "| | found | wanted | |", "|---|---:|---:|---|",
    ]  # fmt: skip
    for claim, found, sign, wanted in targets(medians):
        if found is None:
            out.append(f"| {claim} | not measured | {sign} {wanted:g} | |")
        else:
            out.append(
                f"| {claim} | {found:.2f} | {sign} {wanted:g} | {verdict(found, sign, wanted)} |"
            )
    for group in dict.fromkeys(group for group, _ in medians.runs):
        out += ["", f"## {group}", ""]
        out += [
            "| | CPU s | wall s | M packets per core-second | peak RSS MiB |",
            "|---|---:|---:|---:|---:|",
        ]
        for name in (name for of, name in medians.runs if of == group):
            cpu, wall = medians.cpu(group, name) or 0, medians.of(group, name, "wall_s") or 0
            rate, rss = medians.rate(group, name) or 0, medians.of(group, name, "rss_mib") or 0
            out.append(f"| {name} | {cpu:.2f} | {wall:.2f} | {rate / 1e6:.2f} | {rss:.0f} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    kept = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    facts = json.loads((folder / "environment.json").read_text())
    (folder / "table.md").write_text(table(kept, facts))
