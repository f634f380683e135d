"""Runs to a table: medians and bests, beside a reference of the same run."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

Run = dict[str, object]

TITLES = {
    "fig3": "Figure 3: 4-byte integers between two threads",
    "fig4": "Figure 4: packets and bytes by source over 40-byte records in memory",
    "crossing": "Items that cross from one core to another",
    "top": "Packets and bytes by source",
    "flows": "Flows: packets, bytes and times of both directions of every 5-tuple",
    "nprint": "Header bits of every packet",
    "trees": "Rows down trees",
    "serve": "Packets in memory to verdicts: new flows",
}

# What the others of a group are compared with.
REFERENCES = {
    "fig3": "locked",
    "fig4": "paper's design, count, r=1",
    "top": "tuned loop, 1 thread",
    "flows": "tuned loop, 1 thread",
    "trees": "ONNX Runtime from Rust",
    "serve": "plain, ONNX Runtime",
}


@dataclass(frozen=True)
class Line:
    """The runs of one name in one group, in millions of items a second."""

    figure: str
    group: str
    name: str
    run_count: int
    core_median: float
    core_best: float
    wall_median: float
    wall_best: float


def lines(runs: Iterable[Run]) -> list[Line]:
    """One line a name, in the order in which names were first met."""
    by_name: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        key = (str(run["figure"]), str(run["group"]), str(run["name"]))
        by_name.setdefault(key, []).append(run)
    found = []
    for (figure, group, name), same in by_name.items():
        core = [rate(run, "cpu_s") for run in same]
        wall = [rate(run, "wall_s") for run in same]
        rates = (median(core), max(core), median(wall), max(wall))
        found.append(Line(figure, group, name, len(same), *rates))
    return found


def rate(run: Run, clock: str) -> float:
    """Millions a second; a clock that did not move counts as one tick."""
    return float(run["items"]) / max(float(run[clock]), 1e-6) / 1e6


def find(found: list[Line], figure: str, name: str, group: str = "") -> Line | None:
    same = (line for line in found if line.figure == figure and line.name == name)
    return next((line for line in same if line.group.startswith(group)), None)


def number(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def group_table(found: list[Line], reference: str | None) -> list[str]:
    base = next((line for line in found if line.name == reference), None)
    head = "| | runs | M/core-s median | best | M/s wall median | best |"
    rule = "|---|---:|---:|---:|---:|---:|"
    if base is not None:
        head += f" × {reference} |"
        rule += "---:|"
    rows = [head, rule]
    for line in found:
        rates = (line.core_median, line.core_best, line.wall_median, line.wall_best)
        row = f"| {line.name} | {line.run_count} | {' | '.join(map(number, rates))} |"
        if base is not None:
            row += f" {number(line.core_median / base.core_median)} |"
        rows.append(row)
    return rows


def figure_tables(found: list[Line]) -> list[str]:
    out = []
    for figure, title in TITLES.items():
        of_figure = [line for line in found if line.figure == figure]
        if not of_figure:
            continue
        out += [f"## {title}", ""]
        for group in dict.fromkeys(line.group for line in of_figure):
            of_group = [line for line in of_figure if line.group == group]
            if group:
                out += [f"### {group}", ""]
            out += [*group_table(of_group, REFERENCES.get(figure)), ""]
    return out


def targets(found: list[Line]) -> list[tuple[str, float | None, float]]:
    """What was promised of this part: the claim, what was found, what is wanted."""
    ours = find(found, "fig4", "Wirelens, count, threads=1")
    # The yardstick is the paper's program as a stranger would write it in C++; ours in
    # Rust, with a cheaper hash, is the harder one to beat, so it stands beside it.
    yardstick = find(found, "fig4", "paper's design in C++, count, r=1")
    rebuilt = find(found, "fig4", "paper's design, count, r=1")
    crossed = (line for line in found if line.name.startswith("ring, 8-byte items, chunks of "))
    crossing = next(crossed, None)
    rows: list[tuple[str, float | None, float]] = [
        ("records in memory, M packets per core-second", ours and ours.core_median, 60.0),
        ("the same, × the paper's design on two cores, C++", ratio(ours, yardstick), 8.0),
        ("the same, × the paper's design on two cores, Rust", ratio(ours, rebuilt), 8.0),
    ]
    groups = dict.fromkeys(line.group for line in found if line.name.startswith("wirelens top"))
    for group in groups:
        one = find(found, "top", "wirelens top, 1 thread", group)
        two = find(found, "top", "wirelens top, 2 threads", group)
        tuned = find(found, "top", "tuned loop, 1 thread", group)
        speedup = two.wall_median / one.wall_median if one and two else None
        rows.append((f"{group}: × the tuned loop, per core-second", ratio(one, tuned), 0.85))
        rows.append((f"{group}: two threads × one, wall", speedup, 1.3))
    rows.append(("8-byte items that cross, M/s wall", crossing and crossing.wall_median, 50.0))
    return rows + model_targets(found)


def model_targets(found: list[Line]) -> list[tuple[str, float | None, float]]:
    """Header bits, and models of the paper's shape where the processor has AVX-512."""
    rows: list[tuple[str, float | None, float]] = []
    for group in dict.fromkeys(line.group for line in found if line.figure == "nprint"):
        records = find(found, "nprint", "compact records, ipv4 tcp udp", group)
        text = find(found, "nprint", "wirelens nprint", group)
        rows.append((f"{group}: M compact records", records and records.core_median, 10.0))
        rows.append((f"{group}: M packets as CSV", text and text.core_median, 2.0))
    for group, wanted in (("lightgbm, alone", 0.025), ("lightgbm, 64 together", 0.05)):
        names = ("avx512-vbmi", "avx512")
        same = (find(found, "trees", name, group) for name in names)
        ours = next((line for line in same if line), None)
        onnx = find(found, "trees", "ONNX Runtime from Rust", group)
        if ours:
            rows.append((f"{group}, M rows per core-second", ours.core_median, wanted))
            rows.append((f"{group}, × ONNX Runtime", ratio(ours, onnx), 8.0))
    for group in dict.fromkeys(line.group for line in found if line.figure == "serve"):
        is_own = group.startswith("our own")
        wanted = 0.15 if is_own else 0.05 if group.endswith("in batches") else 0.025
        ours = find(found, "serve", "wirelens", group)
        plain = find(found, "serve", "plain, our trees", group)
        onnx = find(found, "serve", "plain, ONNX Runtime", group)
        rows.append((f"{group}: M new flows per core-second", ours and ours.core_median, wanted))
        if onnx:
            rows.append((f"{group}: × ONNX Runtime", ratio(plain, onnx), 8.0))
    return rows


def ratio(ours: Line | None, theirs: Line | None) -> float | None:
    return ours.core_median / theirs.core_median if ours and theirs else None


def text(runs: list[Run], facts: dict[str, object]) -> str:
    found = lines(runs)
    before, after = facts["load_before"], facts["load_after"]
    out = [
        "# Wirelens beside its peers",
        "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
        f" {facts['memory_gib']} GiB, Linux {facts['kernel']}."
        f" Load average {before[0]:.2f} before, {after[0]:.2f} after"
        " (a run of its own adds up to 2).",
        "",
        "Millions of packets (items, records) per second of processor time, user and system, of"
        f" all threads, and per second on the wall. {facts['rounds']} rounds, in alternating"
        " order; every single run is in `runs.jsonl`. Ratios are of medians.",
        "",
        "## What was to be reached",
        "",
        "| | found | wanted | |",
        "|---|---:|---:|---|",
    ]
    is_engine = any(line.figure not in ("nprint", "trees", "serve") for line in found)
    for claim, value, wanted in targets(found) if is_engine else model_targets(found):
        if value is None:
            out.append(f"| {claim} | not measured | ≥ {wanted:g} | |")
            continue
        verdict = "reached" if value >= wanted else "**not reached**"
        out.append(f"| {claim} | {number(value)} | ≥ {wanted:g} | {verdict} |")
    out += ["", *figure_tables(found)]
    out += answer_lines(facts)
    return "\n".join(out).rstrip() + "\n"


def answer_lines(facts: dict[str, object]) -> list[str]:
    answers = facts.get("answers") or []
    if not answers:
        return []
    out = ["## Answers", "", "| input | program | sources | packets | bytes |"]
    out.append("|---|---|---:|---:|---:|")
    for answer in answers:
        for program in ("wirelens", "tuned loop"):
            told = answer[program]
            if told is not None:
                counts = " | ".join(f"{told[key]:,}" for key in ("sources", "packets", "bytes"))
                out.append(f"| {answer['input']} | {program} | {counts} |")
    return out
