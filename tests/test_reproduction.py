"""docs/reproduction.md has a whole row for everything that a paper numbers."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reproduction.md"

# By heading: what each paper numbers. A paper that is begun later has its heading only.
NUMBERED = {
    "Packet-level analytics": ["Figure 1", "Figure 2", "Figure 3", "Figure 4"],
    "ServeFlow": [
        *(f"Figure {number}" for number in range(1, 14)),
        *(f"Table {number}" for number in range(1, 11)),
        *(f"Algorithm {number}" for number in (1, 2)),
    ],
    "TitanLog": [
        *(f"Figure {number}" for number in range(1, 10)),
        *(f"Table {number}" for number in "I II III IV V VI VII VIII IX X XI XII".split()),
    ],
    "Dragonfly": [
        *(f"Figure {number}" for number in range(1, 9)),
        *(f"Table {number}" for number in ("I", "II")),
    ],
    "SwiftQueue": [*(f"Figure {number}" for number in range(1, 18)), "Table 1"],
}


def sections(page: str) -> dict[str, str]:
    """The text under each heading of the second level."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(section: str) -> list[list[str]]:
    """The cells of the first table, without its two lines of head."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def complaints(page: str) -> list[str]:
    """What is missing, one line each."""
    found = sections(page)
    missing = [f"no heading: {paper}" for paper in NUMBERED if paper not in found]
    for paper, labels in NUMBERED.items():
        table = rows(found.get(paper, ""))
        for label in labels:
            same = [row for row in table if re.match(rf"{label}\b", row[0])]
            if len(same) != 1:
                missing.append(f"{paper}: {label} has {len(same)} rows")
        for row in table:
            if len(row) != 5 or not all(row):
                missing.append(f"{paper}: a row with an empty cell: {row[0]}")
    return missing


def test_every_figure_of_a_paper_has_a_whole_row() -> None:
    assert complaints(PAGE.read_text()) == []


# Figures of ours that are not written from kept rows, and why.
WITHOUT_ROWS = {
    ("Packet-level analytics", "§6"): "a quotient of a marked figure",
    ("ServeFlow", "Figure 8"): "a bound, 0.1 ms",
    ("TitanLog", "Figure 4"): "quotients of two columns of the kept table of volume",
    ("TitanLog", "Figure 6"): "quotients of the kept report of held-out runs",
    ("TitanLog", "Table III"): "a size by design",
    ("TitanLog", "Table IV"): "how much data there was",
}
MARKED = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?\**<!--= .+? -->")


def unmarked(page: str) -> list[str]:
    """Rows with a fraction in the column of ours that no comment ties to a kept row."""
    found = []
    for paper, section in sections(page).items():
        for row in rows(section) if paper in NUMBERED else []:
            label = row[0].partition(":")[0].partition(",")[0]
            has_fraction = re.search(r"\d+\.\d+", MARKED.sub("", row[3]))
            if has_fraction and (paper, label) not in WITHOUT_ROWS:
                found.append(f"{paper}: {label}: {has_fraction[0]}")
    return found


def test_figures_of_ours_are_tied_to_kept_rows() -> None:
    page = PAGE.read_text()
    assert unmarked(page) == []
    mark = MARKED.search(page)
    assert mark
    assert len(unmarked(page.replace(mark[0], "12.345", 1))) == 1


def test_commands_name_what_is_there() -> None:
    for section in sections(PAGE.read_text()).values():
        whole = [row for row in rows(section) if len(row) == 5]
        for command in (cell for row in whole for cell in row[1:2] if "`" in cell):
            words = command.strip("`").split()
            if words[0] == "make":
                assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(), command
            elif words[0] == ".venv/bin/wirelens":
                reference = (ROOT / "docs/reference/commands.md").read_text()
                heading = " ".join(words[:3]).removeprefix(".venv/bin/")
                assert f"## {heading}\n" in reference, command
            else:
                assert words[0] in ("bash", ".venv/bin/python"), command
                assert (ROOT / words[1]).exists(), command


def test_a_missing_row_and_an_empty_cell_are_found() -> None:
    page = PAGE.read_text()
    line = next(line for line in page.splitlines() if line.startswith("| Figure 3"))
    assert complaints(page.replace(line, "")) == ["Packet-level analytics: Figure 3 has 0 rows"]
    cells = line.split("|")
    cells[3] = " "
    found = complaints(page.replace(line, "|".join(cells)))
    assert len(found) == 1 and "empty cell" in found[0]
    assert complaints(page.replace("## SwiftQueue", ""))[0] == "no heading: SwiftQueue"


def test_each_row_of_each_paper_is_missed() -> None:
    page = PAGE.read_text()
    for paper, labels in NUMBERED.items():
        section = sections(page)[paper]
        for label in labels:
            row = next(line for line in section.splitlines() if line.startswith(f"| {label}:"))
            without = page.replace(section, section.replace(f"{row}\n", ""))
            assert complaints(without) == [f"{paper}: {label} has 0 rows"]
