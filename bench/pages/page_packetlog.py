"""Tables of docs/evaluation/packetlog.md that put several kept reports side by side."""

import re
import sys
from collections.abc import Sequence
from statistics import mean
from typing import Any

from page_rows import RESULTS, ROOT, Missing, Row, number, read, table_rows

FOLDER = "2026-11-22-amd-epyc-2-cores-packetlog"
STRANGERS = "2026-11-26-amd-epyc-2-cores-packetlog-ships/strangers"
NETBEACON = "2026-11-27-amd-epyc-2-cores-packetlog-netbeacon"
VOLUME = "2026-11-27-amd-epyc-2-cores-packetlog-volume-strangers"
CALIBRATE = "2026-11-27-amd-epyc-2-cores-packetlog-calibrate"
JUDGED = "s1 and 2 other"
DEVICES = ("andypitcher", "sprout-uci", "tj-oconnor")
"""Of the benign captures those of devices."""


def report(name: str, section: str) -> list[Row]:
    """Rows under a heading of a report of `wirelens eval packetlog`."""
    found = [row for row in read(f"{FOLDER}/{name}.md") if row["section"] == section]
    if not found:
        raise Missing(f"{FOLDER}/{name}.md: no table under {section!r}")
    return found


def grid(head: Sequence[str], lines: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Markdown; the first columns are texts and the rest are figures."""
    rules = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rules, *lines))


def by_tool() -> Any:
    """`bench/evaluation/packetlog/by_tool.py`, which knows what training has of each attack's tool."""
    folder = str(ROOT / "bench" / "evaluation" / "packetlog")
    if folder not in sys.path:
        sys.path.append(folder)
    import by_tool as module

    return module


def attacks() -> str:
    """The held-out attacks with their tools, and who finds how much of them."""
    known = by_tool()
    tools, kinds = known.tools("attacks-heldout"), known.kinds()
    order = list(known.KINDS)
    found = report("heldout", "Attacks")
    names = [name for name in found[0] if name not in ("attack", "section", "table", "row")]
    lines = [
        [attack, tools[attack], kinds[attack], *(str(row[name]) for name in names)]
        for row in found
        for attack in [str(row["attack"])]
    ]
    lines.sort(key=lambda cells: (order.index(cells[2]), cells[0]))
    return grid(["attack", "tool", "in training", *names], lines, texts=3)


def kinds() -> str:
    """Mean recall by what training has of the tool, of two models."""
    known = by_tool()
    of_attack = known.kinds()
    recalls = [
        {str(row["attack"]): number(row["recall"]) for row in report(name, "Attacks")}
        for name in ("heldout", "wide")
    ]
    lines = []
    for kind, meaning in known.KINDS.items():
        mine = [attack for attack, of in of_attack.items() if of == kind]
        cells = [meaning, str(len(mine))]
        for found in recalls:
            values = [found[attack] for attack in mine]
            reached = sum(value >= known.WANTED for value in values)
            cells.append(f"{mean(values):.3f} ({reached})")
        lines.append(cells)
    head = ["held-out attacks", "count", "heldout: mean recall (to 0.85)",
            "wide: mean recall (to 0.85)"]  # fmt: skip
    return grid(head, lines)


def strangers() -> str:
    """All that `bench/evaluation/packetlog/strangers.py` prints of places that trained nothing."""
    return _printed(STRANGERS)


def by_capture() -> str:
    """All that `bench/evaluation/packetlog/strangers_netbeacon.py` prints of the same captures."""
    return _printed(NETBEACON)


def calibration() -> str:
    """All that `bench/evaluation/packetlog/calibrate.py` prints of the same places."""
    return _printed(CALIBRATE)


def _printed(folder: str) -> str:
    text = (RESULTS / folder / "table.md").read_text(encoding="utf-8")
    return text.partition("\n\n")[2].rstrip("\n") + "\n"


def _of_volume(part: int) -> str:
    """A table that `bench/evaluation/packetlog/volume.py` prints."""
    text = (RESULTS / VOLUME / "table.md").read_text(encoding="utf-8")
    return text.rstrip("\n").split("\n\n")[part + 1] + "\n"


def volume_captures() -> str:
    """What was recorded."""
    return _of_volume(0)


def volume_modes() -> str:
    """Bytes on disk by group, encoding and mode."""
    return _of_volume(1)


def volume_blocks() -> str:
    """The same for short blocks."""
    return _of_volume(2)


def first(name: str, section: str, row: str) -> Row:
    """The row of a judge, in the first table of a report or under a heading."""
    rows = read(f"{FOLDER}/{name}.md") if not section else report(name, section)
    found = [one for one in rows if one["row"] == row]
    if not found:
        raise Missing(f"{FOLDER}/{name}.md: no row {row!r}")
    return found[0]


def _marked(rows: Sequence[Row], column: str, *, devices: bool) -> str:
    """Of the benign packets of other places the share marked, in percent."""
    mine = [row for row in rows if devices or row["row"] not in DEVICES]
    packets = [number(row["packets"]) for row in mine]
    marked = [number(row[column]) * count for row, count in zip(mine, packets, strict=True)]
    return f"{sum(marked) / sum(packets):.0f} %"


def _of_20(row: Row) -> str:
    """Mean recall, and how many attacks are found to 0.85, of each seed where there are several."""
    recall, reached = str(row["mean recall of attacks"]), str(row["attacks ≥ 0.85"])
    return f"{recall.split()[0]} ({reached})"


def compared() -> str:
    """The models of the testbed alone and one that was trained on other places as well."""
    card = (RESULTS / FOLDER / "packetlog-card.md").read_text(encoding="utf-8")
    places = {row["row"] for row in report("others-s1", "Benign captures")}
    judged = [
        row
        for row in table_rows(card)
        if row["section"] == "Data" and row["row"] in places and "benign marked" in row
    ]
    if len(judged) != len(places):
        raise Missing(f"{FOLDER}/packetlog-card.md: other places than those of others-s1.md")
    alone = report("others-s1", "Benign captures")
    heldout, wide = first("heldout", "", JUDGED), first("wide", "", "packetlog")
    kept = [
        [row for row in report(name, "What is kept") if row["part of"] == "bytes"][0]
        for name in ("heldout", "wide")
    ]

    def costs(row: Row, bytes_kept: Row) -> str:
        cells = (row["precision"], bytes_kept["default"], bytes_kept["log-minimum"])
        return ", ".join(str(cell).split()[0].replace("%", " %") for cell in cells)

    def benign(row: Row) -> str:
        return f"{number(row['benign marked']):.1f} %"

    lines = [
        ["trained on", "testbed", f"testbed, benign captures of {len(places)} other places"],
        [f"benign packets of these {len(places)} places marked, `packetlog` by folds, no place on "
         "two sides",
         f"{_marked(alone, 'marked', devices=True)} (`s1`; none was trained on)",
         _marked(judged, "benign marked", devices=True)],
        ["the same without captures of devices, which are seven tenths of it",
         _marked(alone, "marked", devices=False), _marked(judged, "benign marked", devices=False)],
        ["held-out attacks, mean recall (to 0.85)", _of_20(heldout), _of_20(wide)],
        ["benign packets of held-out runs marked", benign(heldout), benign(wide)],
        ["precision there, bytes kept by default and in log-minimum mode",
         costs(heldout, kept[0]), costs(wide, kept[1])],
    ]  # fmt: skip
    return grid(["", "`s1` to `s3`", "`packetlog`"], lines)


def tried() -> str:
    """Three models from before there was a threshold."""
    text = (RESULTS / FOLDER / "others.txt").read_text(encoding="utf-8")

    def others(heading: str, shape: str) -> str:
        part = text.partition(f"{heading}\n")[2]
        found = re.search(rf"^{shape} others ([\d.]+)%", part, re.MULTILINE)
        if found is None:
            raise Missing(f"{FOLDER}/others.txt: no line {shape!r} under {heading!r}")
        return f"{number(found[1]):.0f} %"

    def chosen(name: str) -> str:
        (row,) = (one for one in report(f"{name}-card", "Quality")
                  if one["row"] == "1" and "weight" in one)  # fmt: skip
        return f"{number(row['benign marked']):.1f} %"

    lines = []
    for label, name, row, folds, elsewhere in (
        ("testbed alone, three seeds", "heldout-3", JUDGED, "",
         _marked(report("real-3", "Benign captures"), "marked", devices=True)
         + " (one seed; none was trained on)"),
        ("and benign captures of other places (`wide-5`)", "wide-5", "packetlog",
         chosen("wide-5"), others("with benign captures alone", "7 1")),
        ("and attacks of other places, 3 × 10 (`mixed-10`)", "mixed-10", "packetlog",
         chosen("mixed-10"), others("with benign captures and attacks", "10 1")),
    ):  # fmt: skip
        found = first(name, "", row)
        benign = f"{number(found['benign marked']):.1f} %"
        lines.append([label, folds, elsewhere, _of_20(found), benign])
    head = ["trained on", "chosen to mark, by folds", "benign of other places, by folds",
            "held-out attacks, mean (to 0.85)", "benign of held-out runs"]  # fmt: skip
    return grid(head, lines)


def unknown() -> str:
    """Models whose other class is whatever is unknown."""
    lines = []
    for label, name in (
        ("benign, known attacks, drawn packets", "unknown"),
        ("benign of the services runs and drawn packets alone", "unknown-services"),
    ):
        row = first(name, "", name)
        kept = [one for one in report(name, "What is kept") if one["part of"] == "bytes"][0]
        lines.append([
            label, f"{number(row['benign marked']):.1f} %", str(row["mean recall of attacks"]),
            str(row["attacks ≥ 0.85"]), str(kept["default"]).replace("%", " %"),
            str(kept["log-minimum"]).replace("%", " %"),
        ])  # fmt: skip
    head = ["trained on", "benign packets marked", "held-out attacks kept, mean", "to 0.85",
            "bytes kept, default mode", "log-minimum"]  # fmt: skip
    return grid(head, lines)
