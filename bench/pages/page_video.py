"""Tables of the page on the frame rate of video calls."""

import csv
from collections.abc import Sequence

from page_rows import RESULTS, Missing

SHIPPED = "2026-11-25-video-rate"
# Of the others, without anything that looks like RTP, next to none get a tier: the card has them.
SHOWN = ("all", "with packets that look like RTP")


def _rows(name: str) -> Sequence[dict[str, str]]:
    file = RESULTS / SHIPPED / name
    if not file.exists():
        raise Missing(f"no file bench/results/{SHIPPED}/{name}")
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def _interval(row: dict[str, str], name: str, digits: int = 3, scale: float = 1.0) -> str:
    """A figure with its interval."""
    value, low, high = (scale * float(row[f"{name}{side}"]) for side in ("", "_low", "_high"))
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def models() -> str:
    """What ships and its baselines, on held-out calls."""
    text = "| | accuracy | macro-F1 | within one tier, % | error, frames/s | `unknown` |\n"
    text += "|---|---:|---:|---:|---:|---:|\n"
    for row in _rows("models.tsv"):
        cells = [
            row["model"],
            f"{float(row['accuracy']):.3f}",
            _interval(row, "macro_f1"),
            _interval(row, "within_one", 1, 100),
            _interval(row, "error_fps", 2),
            f"{100 * float(row['unknown']):.1f} %",
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text


def foreign() -> str:
    """How many windows of other traffic get a tier."""
    text = "| traffic | which windows | captures | windows | with a tier, % |\n"
    text += "|---|---|---:|---:|---:|\n"
    for row in _rows("foreign.tsv"):
        if row["windows_of"] not in SHOWN:
            continue
        found = [100 * float(row[name]) for name in ("with_tier", "low", "high")]
        cells = [
            row["traffic"],
            row["windows_of"],
            f"{int(row['captures']):,}",
            f"{int(row['windows']):,}",
            f"{found[0]:.1f} [{found[1]:.1f}, {found[2]:.1f}]",
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text
