"""Tables of levels, shares and borders in docs/evaluation/cca.md, from rows of
`bench/evaluation/cca/quality.py` and `borders.py`."""

from statistics import mean

from page_cca import SHORTER, Line, grid, of_line, spaced, spread
from page_rows import Missing, Row, chosen, read

FOLDER = "2026-11-27-amd-epyc-2-cores-cca-levels"
EQUAL = "2026-11-30-amd-epyc-2-cores-cca-equal"
LINES = (
    Line("shapes of CBIQ and bytes that came", "dragonfly"),
    Line("with bytes that left, shapes and levels", "levels"),
    Line("with bytes that left, shapes, levels and shares", "levels and shares"),
    Line("DeePCCI", "deepcci"),
)
AXES = {
    "rounds": "round trips in the interval",
    "window_share": "the flow's window / CUBIC's border",
}


def equal(background: str = "any") -> str:
    """F1 by length of the interval, where round trips are alike."""
    return levels("equal", background, EQUAL)


def levels(name: str, background: str = "any", folder: str = FOLDER) -> str:
    """F1 by length of the interval, on held-out runs."""
    where = {"test": name, "share": 1, "background": background}
    found = chosen(read(f"{folder}/rows.jsonl"), where)
    if not found:
        raise Missing(f"{name}: no rows")
    lengths = [one for one in SHORTER if any(row["duration"] == one for row in found)]
    lines = [(line.label, [spread(of_line(found, line, one)) for one in lengths]) for line in LINES]
    return grid([spaced(one) for one in lengths], [line for line in lines if any(line[1])])


def borders(by: str) -> str:
    """F1, and how often CUBIC and Reno are distinguished, by round trips or by the border."""
    found = [row for row in read(f"{FOLDER}/borders.jsonl") if row["by"] == by]
    bins = sorted({(row["from"], row["to"]) for row in found})
    lengths = [one for one in SHORTER if any(row["duration"] == one for row in found)]
    head = [f"{spaced(one)}: {what}" for one in lengths for what in ("F1", "CUBIC or Reno")]
    lines = []
    for low, high in bins:
        cells = []
        for length in lengths:
            of_bin = [
                row for row in found if (row["from"], row["duration"]) == (low, length)
            ]  # fmt: skip
            cells += [_mean(of_bin, field) for field in ("f1", "told_apart")]
        name = f"{low:g} or more" if high >= 1e9 else f"{low:g} to {high:g}"
        lines.append((name, cells))
    return grid(head, lines).replace("| |", f"| {AXES[by]} |", 1)


def _mean(found: list[Row], field: str) -> str:
    return f"{mean(row[field] for row in found):.2f}" if found else ""
