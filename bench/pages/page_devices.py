"""Tables of docs/evaluation/devices.md, from rows of `devices.py` and `foreign.py` in
`bench/evaluation/classify`.

A cell that depends on a seed has the mean over seeds, the lowest and the highest in brackets.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import mean

from page_rows import Missing, Row, chosen, read

FOLDER = "2026-11-23-devices-units"
SYSTEMS = ("lightgbm/10", "port table", "majority class")
PAIRS = (
    ("EdimaxCam1", "EdimaxCam2"),
    ("EdnetCam1", "EdnetCam2"),
    ("WeMoSwitch", "WeMoSwitch2"),
    ("WeMoInsightSwitch", "WeMoInsightSwitch2"),
)
SETS = {
    "home": "a smart home of 14 devices, all types not trained",
    "home but": "… without its camera, which makes nine tenths of its flows",
    "place": "cameras, locks and hubs of another place, types not trained",
    "tests": "tests of nDPI, Suricata and others, of held-out families",
    "benign": "benign traffic of places where attacks were recorded",
}
FLOWS_MIN = 20
"""Devices of the home with fewer flows have no share worth a row."""


def rows() -> list[Row]:
    return chosen(read(f"{FOLDER}/rows.tsv"), {"features": "masked"})


def seeds() -> list[str]:
    return sorted({str(row["seed"]) for row in rows()})


def over_seeds(where: dict[str, str], take: str) -> str:
    """Mean over the seeds, and lowest and highest where they differ."""
    found = chosen(rows(), where)
    if sorted(str(row["seed"]) for row in found) != seeds():
        raise Missing(f"{FOLDER}: {len(found)} rows of {where}; wanted: one of each of {seeds()}")
    values = [float(row[take]) for row in found]
    text = f"{mean(values):.3f}"
    lowest, highest = f"{min(values):.3f}", f"{max(values):.3f}"
    return text if lowest == highest else f"{text} ({lowest}–{highest})"


def flows(where: dict[str, str]) -> str:
    (count,) = {int(row["flows"]) for row in chosen(rows(), where)}
    return f"{count:,}"


def splits() -> str:
    """Macro-F1 and the share named right, by split and system."""
    text = "| split | flows | system | macro-F1 | right |\n|---|---:|---|---:|---:|\n"
    for split in ("capture", "rewritten"):
        for system in SYSTEMS:
            where = {"split": split, "system": system}
            f1, right = over_seeds(where, "macro_f1"), over_seeds(where, "share")
            text += f"| `{split}` | {flows(where)} | {system} | {f1} | {right} |\n"
    return text


def wilson(share: float, count: int) -> str:
    """The 95 % interval of a share of so many flows (Wilson 1927), as if each were by itself."""
    z2 = 1.96**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = (z2 * (share * (1 - share) / count + z2 / (4 * count**2))) ** 0.5 / (1 + z2 / count)
    return f"[{middle - half:.2f}, {middle + half:.2f}]"


def units() -> str:
    """The share named right of each unit that trained nothing."""
    text = "| held-out `unit` | flows | right | 95 % over flows | port table | majority class |\n"
    text += "|---|---:|---:|---:|---:|---:|\n"
    for unit in (one for pair in PAIRS for one in pair):
        where = {"split": f"unit {unit}"}
        first, *others = (over_seeds({**where, "system": system}, "share") for system in SYSTEMS)
        found = chosen(rows(), {**where, "system": SYSTEMS[0]})
        mean = sum(float(row["share"]) for row in found) / len(found)
        interval = wilson(mean, int(found[0]["flows"]))
        cells = [flows(where), first, interval, *others]
        text += f"| {unit} | {' | '.join(cells)} |\n"
    return text


def without() -> str:
    """Foreign flows that models without foreign training flows name, a row a seed."""
    text = "| seed | the home's flows named | flows of tests named |\n|---|---:|---:|\n"
    for seed in seeds():
        cells = []
        for split in ("foreign home", "foreign tests"):
            (row,) = chosen(rows(), {"split": split, "seed": seed})
            cells.append(f"{float(row['share']):.3f}")
        text += f"| {seed} | {' | '.join(cells)} |\n"
    return text


def foreign_rows() -> list[Row]:
    return read(f"{FOLDER}/foreign.jsonl")


def counted(found: Sequence[Row]) -> list[int]:
    """Flows, those named, and those named with a probability of 0.9 or more."""
    return [sum(int(row[name]) for row in found) for name in ("flows", "named", "sure")]


def foreign() -> str:
    """Foreign flows that the model that ships names, by set of captures."""
    text = "| captures | flows | named | named with 0.9 or more |\n|---|---:|---:|---:|\n"
    for name, label in SETS.items():
        key = name.split()[0]
        kind = "capture" if key == name else "without"
        found = [row for row in foreign_rows() if row["set"] == key and kind in row]
        text += line(label, counted(found))
    return text


def line(label: str, counts: Sequence[int]) -> str:
    whole, named, sure = counts
    return f"| {label} | {whole:,} | {named / whole:.3f} | {sure / whole:.3f} |\n"


def home() -> str:
    """The devices of the home, by flows."""
    text = "| device of the home | flows | named | as |\n|---|---:|---:|---|\n"
    found = [row for row in foreign_rows() if row["set"] == "home" and "device" in row]
    found = [row for row in found if int(row["flows"]) >= FLOWS_MIN]
    for row in sorted(found, key=lambda row: -int(row["flows"])):
        share = int(row["named"]) / int(row["flows"])
        names = ", ".join(name for name, _ in Counter(row["names"]).most_common())
        text += f"| {row['device']} | {int(row['flows']):,} | {share:.3f} | {names} |\n"
    return text


def known() -> str:
    """Units of products that the model knows, in use in another home."""
    text = "| product | flows | named | named right | names |\n|---|---:|---:|---:|---|\n"
    for row in (row for row in foreign_rows() if row["set"] == "known"):
        whole = int(row["flows"])
        counts = Counter(row["names"]).most_common()
        names = ", ".join(f"{name} ({count})" for name, count in counts)
        named, right = int(row["named"]) / whole, int(row["right"]) / whole
        text += f"| {row['device']} | {whole:,} | {named:.3f} | {right:.3f} | {names} |\n"
    return text
