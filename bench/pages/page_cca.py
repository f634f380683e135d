"""Tables of docs/evaluation/cca.md, from rows of `bench/evaluation/cca/quality.py`.

A cell has the mean over seeds, the lowest and the highest in brackets, and how many seeds where
they are not three. DeePCCI's best is the best of all ways in which it was read, whatever way
Dragonfly's network is read in that column.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean

from page_rows import Missing, Row, chosen, read

FOLDER = "2026-11-23-amd-epyc-2-cores-cca-quality"
SHORTER = ("10ms", "100ms", "1s")
LENGTHS = (*SHORTER, "10s", "60s")
BOTH = "1s and 10s"
ALL_PACKETS, FEWER_PACKETS = "1.0", "1.0,0.1,0.01"
SEEDS = 3
INPUTS = {
    "CBIQ and bytes that came": "dragonfly",
    "CBIQ": "cbiq_bytes alone",
    "bytes that came": "ingress_bytes alone",
    "bytes that left": "egress_bytes alone",
    "the sender's largest step of time stamps": "source_gap_ticks alone",
    "the longest gap between packets": "arrival_gap_ns alone",
    "packets lost": "drops alone",
}


@dataclass(frozen=True)
class Line:
    """A row of a table: whose F1, and how intervals are read."""

    label: str
    network: str
    votes_of: str = ""
    """Length of the networks that vote; empty where the network of a length decides alone."""
    lengths: Sequence[str] = LENGTHS
    more: dict[str, str] = field(default_factory=dict)


def rows(name: str) -> list[Row]:
    return read(f"{FOLDER}/{name}.jsonl")


def spread(values: Sequence[float]) -> str:
    """Mean, lowest and highest, and seeds where they are not three."""
    if not values:
        return ""
    text = f"{mean(values):.3f}"
    if len(values) > 1:
        text += f" ({min(values):.3f}–{max(values):.3f})"
    if len(values) != SEEDS:
        text += f", {len(values)} seed{'s' if len(values) > 1 else ''}"
    return text


def f1(found: Sequence[Row]) -> list[float]:
    """Of each seed."""
    seeds = [row["seed"] for row in found]
    if len(set(seeds)) != len(seeds):
        raise Missing(f"seeds {seeds}: rows of more than one network")
    return [row["f1"] for row in found]


def shares(row: Row) -> str:
    return ",".join(str(one) for one in row.get("shares", [1.0]))


def of_line(found: Sequence[Row], line: Line, length: str) -> list[float]:
    """F1 of each seed at a length."""
    if length not in line.lengths:
        return []
    votes_of = line.votes_of if line.votes_of and length not in SHORTER else length
    where = {"network": line.network, "votes_of": votes_of, "duration": length, **line.more}
    trained = where.pop("shares", ALL_PACKETS)
    return f1([row for row in chosen(list(found), where) if shares(row) == trained])


def best_deepcci(found: Sequence[Row], length: str) -> list[float]:
    """F1 of each seed, of the reading of DeePCCI whose mean is highest."""
    readings: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        if row["network"].startswith("deepcci") and row["duration"] == length:
            readings.setdefault((row["network"], row["votes_of"]), []).append(row)
    return max((f1(reading) for reading in readings.values()), key=mean, default=[])


def grid(head: Sequence[str], lines: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Markdown."""
    text = f"| | {' | '.join(head)} |\n|---|{'---:|' * len(head)}\n"
    return text + "".join(f"| {label} | {' | '.join(cells)} |\n" for label, cells in lines)


def spaced(length: str) -> str:
    """`10 ms`."""
    return length.replace("ms", " ms") if "ms" in length else length.replace("s", " s")


OURS = Line("**Dragonfly's network, 1 s and 10 s vote**", "dragonfly", BOTH)
BEST = "**DeePCCI, the best of its readings**"
PEERS = (
    Line("DeePCCI, 1 s and 10 s vote", "deepcci", BOTH, ("10s", "60s")),
    Line("DeePCCI, seconds alone vote", "deepcci", "1s", ("10s", "60s")),
    Line("DeePCCI, 10 s alone, rows of 10 ms", "deepcci", "10s", ("10s", "60s")),
    Line("DeePCCI, 10 s alone, rows of 1 ms", "deepcci, rows of 1 ms", "10s", ("10s",)),
)


def by_length(found: list[Row], lines: Sequence[Line], lengths: Sequence[str] = LENGTHS) -> str:
    """A column for each length, DeePCCI's best under the first line."""
    made = [
        (line.label, [spread(of_line(found, line, length)) for length in lengths]) for line in lines
    ]
    best = (BEST, [spread(best_deepcci(found, length)) for length in lengths])
    return grid([spaced(length) for length in lengths], [made[0], best, *made[1:]])


def whole(name: str, test: str, background: str = "any") -> list[Row]:
    return chosen(rows(name), {"test": test, "background": background, "share": 1})


def lengths(test: str) -> str:
    """F1 by length of the interval, of `heldout` or `transfer`."""
    lines = (
        OURS,
        Line("Dragonfly's network, 10 s alone, rows of 10 ms", "dragonfly", "10s", ("10s", "60s")),
        Line(
            "Dragonfly's network, 10 s alone, rows of 1 ms",
            "dragonfly, rows of 1 ms",
            "10s",
            ("10s",),
        ),
        Line("Dragonfly's network, seconds alone vote", "dragonfly", "1s", ("10s", "60s")),
        Line("Dragonfly's network, CBIQ alone, seconds vote", "cbiq_bytes alone", "1s"),
        *PEERS,
    )
    return by_length(whole("rows", test), lines)


def beside(length: str = "10s") -> str:
    """F1 by how many flows compete."""
    found = chosen(rows("rows"), {"test": "heldout", "share": 1})
    counts = sorted({row["background"] for row in found if row["background"] != "any"})
    of_count = [chosen(found, {"background": count}) for count in counts]
    lines = [OURS if length not in SHORTER else Line("**Dragonfly's network**", "dragonfly")]
    if length == "10s":
        lines += [
            Line("Dragonfly's network, 10 s alone, rows of 10 ms", "dragonfly", "10s"),
            Line("Dragonfly's network, seconds alone vote", "dragonfly", "1s"),
            *PEERS,
        ]
    made = [
        (line.label, [spread(of_line(some, line, length)) for some in of_count]) for line in lines
    ]
    best = (BEST, [spread(best_deepcci(some, length)) for some in of_count])
    return grid([str(count) for count in counts], [made[0], best, *made[1:]])


def equal() -> str:
    """Round trips that are all alike."""
    unsplit = [row for row in whole("equal", "equal") if shares(row) == ALL_PACKETS]
    alone = [row for row in whole("equal", "equal", "0") if shares(row) == ALL_PACKETS]
    made = [
        (f"{label}{which}", cells)
        for found, which in ((unsplit, ""), (alone, ", no background flows"))
        for label, cells in (
            (OURS.label, [spread(of_line(found, OURS, length)) for length in LENGTHS]),
            (BEST, [spread(best_deepcci(found, length)) for length in LENGTHS]),
        )
    ]
    return grid([spaced(length) for length in LENGTHS], made)


def gigabit() -> str:
    """1 Gbit/s; runs of 30 s hold no interval of 60 s."""
    return by_length(whole("gigabit", "gigabit"), [OURS], LENGTHS[:-1])


def seven() -> str:
    """F1 of each of seven controls, and over all."""
    found = whole("seven", "seven")
    peer = (f"{BEST}, all", [spread(best_deepcci(found, length)) for length in LENGTHS])
    return of_seven(found, "dragonfly", [peer])


def seven_levels() -> str:
    """The same of networks with levels, trained on three times as many runs."""
    found = read("2026-11-30-amd-epyc-2-cores-cca-seven/rows.jsonl")
    return of_seven(chosen(found, {"background": "any"}), "levels")


def of_seven(
    found: Sequence[Row], network: str, peers: Sequence[tuple[str, Sequence[str]]] = ()
) -> str:
    """F1 of a network."""
    of_length = {
        length: chosen(list(found), {
            "network": network, "duration": length,
            "votes_of": length if length in SHORTER else BOTH,
        })
        for length in LENGTHS
    }  # fmt: skip
    lines = [
        (control, [f"{mean(row['f1_each'][control] for row in of_length[length]):.2f}"
                   for length in LENGTHS])
        for control in sorted(found[0]["f1_each"])
    ]  # fmt: skip
    lines.append(("**all**", [spread(f1(of_length[length])) for length in LENGTHS]))
    return grid([spaced(length) for length in LENGTHS], [*lines, *peers])


def left_out() -> str:
    """Packets not sampled: intervals of 10 s without background flows."""
    found = chosen(rows("equal"), {"test": "equal", "background": "0", "duration": "10s"})
    parts = sorted({row["share"] for row in found}, reverse=True)
    of_part = [chosen(found, {"share": part}) for part in parts]
    fewer = {"shares": FEWER_PACKETS}
    lines = (
        Line(OURS.label, "dragonfly", BOTH),
        Line("Dragonfly's network, 10 s alone", "dragonfly", "10s"),
        Line("**trained on all, a tenth and a hundredth, 1 s and 10 s vote**", "dragonfly", BOTH,
             more=fewer),
        Line("trained on all, a tenth and a hundredth, 10 s alone", "dragonfly", "10s", more=fewer),
    )  # fmt: skip
    made = [
        (line.label, [spread(of_line(some, line, "10s")) for some in of_part]) for line in lines
    ]
    best = f"{BEST}, trained on all"
    made.append((best, [spread(best_deepcci(some, "10s")) for some in of_part]))
    return grid([f"{1 - part:.0%}" for part in parts], made)


def inputs(length: str = "100ms") -> str:
    """Each input alone."""
    found = whole("rows", "heldout")
    made = [
        (label, [spread(f1(chosen(found, {"network": network, "duration": length,
                                          "votes_of": length})))])
        for label, network in INPUTS.items()
    ]  # fmt: skip
    return grid(["F1"], made)


def foreign() -> str:
    """Of flows by the control that their sender had: how many are named, and how surely."""
    rows = read("2026-11-30-amd-epyc-2-cores-cca-ships/foreign.jsonl")
    text = (
        "| control | known to the model | runs | named after 1 to 10 s | with 0.9 or more |"
        " named after 10 s and more | with 0.9 or more | mostly as |\n"
        "|---|---|---:|---:|---:|---:|---:|---|\n"
    )
    known = ("bbr", "cubic", "reno")
    controls = sorted(
        {str(row["control"]) for row in rows}, key=lambda name: (name not in known, name)
    )
    for control in controls:
        cells, most = [], ""
        for length in ("1s to 10s", "10s and more"):
            members = [row for row in rows if (row["control"], row["length"]) == (control, length)]
            answers = sum(row["answers"] for row in members)
            named = Counter[str]()
            for row in members:
                named.update({n: c for n, c in row["names"].items() if not n.startswith("unnamed")})
            sure = sum(row.get("sure", 0) for row in members)
            cells += [f"{named.total() / answers:.3f}", f"{sure / answers:.3f}"]
            most = max(named, key=lambda name: named[name], default="")
        runs = len({row["run"] for row in rows if row["control"] == control})
        is_known = "yes" if control in known else "no"
        text += f"| {control} | {is_known} | {runs} | {' | '.join(cells)} | {most} |\n"
    return text
