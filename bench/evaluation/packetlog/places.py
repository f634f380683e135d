"""Captures of places that trained nothing of the packet log's model, by MANIFEST.tsv.

Chosen are captures of `attacks` and `latency` whose source is not in the card's table of training
data, and whose content is not in a training capture either.
"""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "models/packetlog"


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
    places = (data / "services", data / "devices")
    learned = {row["sha1_blob"] for place in places if (place / "MANIFEST.tsv").exists()
               for row in listed(place)}  # fmt: skip
    found = []
    for kind in ("attacks", "latency"):
        for row in listed(data / kind):
            is_known = row["source_repo"].partition("/")[0] in known
            if not is_known and row["sha1_blob"] not in learned:
                learned.add(row["sha1_blob"])
                label = row["label"] if kind == "attacks" else "benign"
                path = data / kind / row["file"]
                found.append({**row, "label": label, "path": str(path), "kind": kind})
    return found
