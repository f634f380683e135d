"""Captures of places that trained nothing of the packet log's model, by MANIFEST.tsv.

Chosen are captures whose source is not in the card's table of training data, and whose content is
not in a training capture either: those of places without benign captures, and those that
`wirelens train packetlog --sealed` set aside.
"""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "models/packetlog"
KINDS = ("attacks", "latency", "services", "devices")


def trained_on() -> set[str]:
    """Owners of the repositories that training captures are from, as the card names them."""
    section = (MODEL / "card.md").read_text().partition("\n## Data\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return {line.strip("|").split("|")[0].strip() for line in lines}


def listed(folder: Path) -> list[dict[str, str]]:
    with (folder / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def chosen(data: Path) -> list[dict[str, str]]:
    """Captures of places that trained nothing."""
    known = trained_on()
    kinds = [kind for kind in KINDS if (data / kind / "MANIFEST.tsv").exists()]
    table = {kind: listed(data / kind) for kind in kinds}
    def owner(row: dict[str, str]) -> str:
        return row["source_repo"].partition("/")[0]

    learned = {row["sha1_blob"] for rows in table.values() for row in rows if owner(row) in known}
    found = []
    for kind, rows in table.items():
        for row in rows:
            if owner(row) not in known and row["sha1_blob"] not in learned:
                learned.add(row["sha1_blob"])
                label = row["label"] if kind == "attacks" else "benign"
                path = data / kind / row["file"]
                found.append({**row, "label": label, "path": str(path), "kind": kind})
    return found
