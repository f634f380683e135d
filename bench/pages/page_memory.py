"""Tables of docs/evaluation/memory.md, from rows of `bench/evaluation/classify/memory.py`."""

from statistics import mean

from page_rows import Missing, Row, chosen, read
from page_services import grid

FOLDER = "2026-11-25-devices-memory"
SPLITS = (
    ("flow", "first packet", "first packet, folds of flows (leaky)"),
    ("capture", "first packet", "first packet, folds of captures"),
    ("capture", "ten packets", "ten packets, folds of captures"),
    ("capture", "port table", "table of ports, folds of captures"),
    ("capture", "majority class", "majority class"),
)
KEYS = ("macro_f1", "right", "decided", "right_of_decided")


def rows(**where: object) -> list[Row]:
    found = chosen(read(f"{FOLDER}/rows.jsonl"), where)
    if not found:
        raise Missing(f"{FOLDER}/rows.jsonl: no row of {where}")
    return found


def spread(found: list[Row], name: str) -> str:
    """The mean over seeds, and the lowest and the highest seed."""
    values = [float(row[name]) for row in found if row.get(name) is not None]
    if not values:
        return "–"
    text = f"{mean(values):.3f}"
    ends = [f"{value:.3f}" for value in (min(values), max(values))]
    return text if ends[0] == ends[1] else f"{text} ({ends[0]}–{ends[1]})"


def splits() -> str:
    """What a first packet tells, by how flows are divided."""
    lines = []
    for split, system, title in SPLITS:
        found = rows(split=split, system=system)
        lines.append([title, f"{found[0]['flows']:,}", *(spread(found, key) for key in KEYS)])
    return grid(["", "flows", "macro-F1", "right", "decided", "right of decided"], lines)


def units() -> str:
    """The share right of units that trained nothing."""
    names = dict.fromkeys(row["unit"] for row in rows(split="unit"))
    lines = []
    for unit in names:
        found = rows(split="unit", unit=unit)
        lines.append([str(unit), str(found[0]["flows"]), spread(found, "right")])
    return grid(["held-out unit", "flows", "right at the first packet"], lines)


BEHIND = {0: "own address", 1: "1", 2: "2", 4: "4", 8: "8"}
KINDS = {"sums": "sums of log-odds", "shares": "shares of verdicts"}


def memory() -> str:
    """With memory, by what is remembered and how many devices are behind one address."""
    none = rows(split="capture", system="first packet")
    lines = [["none", "–", "–", *(spread(none, key) for key in KEYS), "–"]]
    for kind, title in KINDS.items():
        for verdicts in ("first packet", "ten packets"):
            for behind, hosts in BEHIND.items():
                found = rows(memory=kind, verdicts=verdicts, behind=behind, changed="")
                told = "–" if behind else spread(found, "hosts_right")
                lines.append([title, verdicts, hosts, *(spread(found, key) for key in KEYS),
                              told])  # fmt: skip
    return grid(["memory", "of verdicts of", "captures behind one address", "macro-F1", "right",
                 "decided", "right of decided", "hosts right in the end"], lines,
                texts=2)  # fmt: skip


def changed() -> str:
    """With other numbers, for one device behind an address and for four."""
    lines = []
    for kind, title in KINDS.items():
        every = rows(memory=kind, verdicts="first packet")
        for change in dict.fromkeys(str(row["changed"]) for row in every):
            cells = [title, change.strip("{}").replace('"', "") or "as above"]
            for behind in (0, 4):
                found = rows(memory=kind, verdicts="first packet", behind=behind, changed=change)
                cells += [spread(found, key) for key in ("macro_f1", "decided")]
            lines.append(cells)
    return grid(["memory", "changed", "macro-F1, own address", "decided", "macro-F1, 4 captures",
                 "decided"], lines, texts=2)  # fmt: skip


SERVED = "2026-11-25-devices-served/served.jsonl"


def served() -> str:
    """The model that ships, by the command, on captures that trained nothing."""
    lines = []
    for row in chosen(read(SERVED), {"kind": "flows"}):
        f1 = f"{row['macro_f1']:.3f} [{row['macro_f1_low']:.3f}, {row['macro_f1_high']:.3f}]"
        names = ("right", "at_first_packet", "named", "right_of_named")
        figures = [f"{row[name]:.3f}" for name in names]
        lines.append([str(row["system"]), f"{row['flows']:,}", f1, *figures])
    head = ["", "flows", "macro-F1 [95 %]", "right", "decided at the first packet", "named",
            "right of named"]  # fmt: skip
    return grid(head, lines)


def served_hosts() -> str:
    """Verdicts on hosts of the same captures."""
    (row,) = chosen(read(SERVED), {"kind": "hosts"})
    cells = [f"{row['hosts']:,}", *(f"{row[n]:.3f}" for n in ("right", "named", "right_of_named"))]
    head = ["hosts of three flows or more", "right", "named", "right of named"]
    return grid(head, [cells], texts=0)
