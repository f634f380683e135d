"""Writes the figures of the pages from kept rows, or says where page and rows differ.

    .venv/bin/python bench/pages/pages.py            rewrites the pages
    .venv/bin/python bench/pages/pages.py --check    changes nothing; exit 1 if page and rows differ
    .venv/bin/python bench/pages/pages.py --ages     date, commit and changes since, by folder

A page marks what comes from rows; all other words are written by hand:

    F1 0.582<!--= cca heldout 10ms -->           the number before it, as precise as it is written
    <!-- table: cca-lengths heldout -->          all lines up to the next `<!-- end -->`
    <!-- end -->

Figures are named in `bench/pages/pages.toml` (see `bench/pages/page_rows.py`), tables in
`bench/pages/page_tables.py`.
"""

import argparse
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import page_ages
import page_rows
import page_tables
from page_rows import ROOT, Missing

FIGURE = re.compile(r"([-+−]?\d[\d,]*(?:\.\d+)?)(\**)<!--= (.+?) -->")
MARK = "<!--= "
TABLE = re.compile(r"<!-- table: (.+?) -->\n(.*?)<!-- end -->", re.DOTALL)


@dataclass(frozen=True)
class PageText:
    """A page as its rows have it, and what could not be had."""

    text: str
    missing: list[str]


def like(value: float, sample: str) -> str:
    """A number with as many digits behind the point as the sample has, and commas where it has."""
    digits = len(sample.partition(".")[2])
    text = f"{value:,.{digits}f}" if "," in sample or value >= 10_000 else f"{value:.{digits}f}"
    return text.replace("-", "−") if sample.startswith("−") else text


def made(text: str) -> PageText:
    """The page, with all that is marked taken from rows."""
    missing: list[str] = []

    def kept(old: str, new: Callable[[], str]) -> str:
        try:
            return new()
        except Missing as error:
            missing.append(str(error))
            return old

    def table(found: re.Match[str]) -> str:
        name, *words = shlex.split(found[1])
        return kept(
            found[0],
            lambda: (
                f"<!-- table: {found[1]} -->\n{page_tables.table(name, words, found[2])}<!-- end -->"
            ),
        )

    def figure(found: re.Match[str]) -> str:
        return kept(
            found[0],
            lambda: f"{like(page_rows.asked(found[3]), found[1])}{found[2]}{MARK}{found[3]} -->",
        )

    marks, whole = text.count(MARK), len(FIGURE.findall(text))
    if marks != whole:
        missing.append(f"{marks - whole} marks without a number before them")
    return PageText(FIGURE.sub(figure, TABLE.sub(table, text)), missing)


def pages() -> list[Path]:
    return [ROOT / page for page in page_rows.config()["pages"]]


def differences(page: Path, text: str, wanted: PageText) -> list[str]:
    """One line for each line of the page that its rows do not have."""
    name = page.relative_to(ROOT)
    found = [f"{name}: {reason}" for reason in wanted.missing]
    before, after = text.splitlines(), wanted.text.splitlines()
    if len(before) != len(after):
        found.append(f"{name}: {len(before)} lines, rows make {len(after)}")
    for at, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        if old != new:
            found.append(f"{name}:{at}: page and rows differ\n  page {old}\n  rows {new}")
            if len(found) > 5:
                break
    return found


def main() -> int:
    """The command line above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, say what differs")
    parser.add_argument("--ages", action="store_true", help="date, commit and changes since")
    asked = parser.parse_args()
    if asked.ages:
        print(page_ages.table(page_rows.config()["results"]))
        return 0
    complaints: list[str] = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        wanted = made(text)
        complaints += wanted.missing if not asked.check else differences(page, text, wanted)
        if not asked.check and wanted.text != text:
            page.write_text(wanted.text, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: written")
    for line in complaints:
        print(line, file=sys.stderr)
    if complaints and asked.check:
        print("To make pages of rows: .venv/bin/python bench/pages/pages.py", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
