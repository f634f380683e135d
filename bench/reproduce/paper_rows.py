"""The rows of docs/reproduction.md: what each paper numbers, the command, and the kept figures."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "pages"))

from pages import FIGURE  # noqa: E402

PAGE = ROOT / "docs" / "reproduction.md"
COLUMNS = 5
ID = re.compile(r" \(`([a-z0-9-]+/[a-z0-9-]+)`\)$")
NOTHING = "none"
"""In the column of commands: there is nothing to run."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure of ours that is written from a kept row."""

    query: str
    """As `page_rows.asked` takes it."""
    written: str
    """As the page has it, which says how precise it is."""


@dataclass(frozen=True)
class Row:
    """A row of a paper's table."""

    id: str
    """`PAPER/NUMBER`, as written in the row's first cell."""
    title: str
    command: str
    """As the page has it, without backticks; `none` where there is nothing to run."""
    theirs: str
    ours: str
    """Without the comments that name kept rows."""
    remarks: str
    figures: tuple[PaperFigure, ...]

    @property
    def paper(self) -> str:
        return self.id.partition("/")[0]


def text_of(cell: str) -> str:
    """A cell without its comments and with the words of its links alone."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"<!--.*?-->", "", cell)).strip()


def marked(cell: str) -> tuple[PaperFigure, ...]:
    """The figures of a cell, each once, in its order."""
    found = {query: PaperFigure(query, written) for written, _, query in FIGURE.findall(cell)}
    return tuple(found.values())


def cells_of(page: str) -> list[list[str]]:
    """The rows of all tables that have the columns of a paper's table, without their heads."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return [cells for cells in found if len(cells) == COLUMNS and cells[1] != "command"]


def rows(page: str | None = None) -> list[Row]:
    """The rows of the page, in its order.

    ValueError where a row has no id or two have the same: what is wanted is said.
    """
    found: list[Row] = []
    commands: dict[str, str] = {}
    for cells in cells_of(PAGE.read_text(encoding="utf-8") if page is None else page):
        title, command, theirs, ours, remarks = cells
        has_id = ID.search(title)
        if not has_id:
            wanted = "wanted: (`PAPER/NUMBER`) at the end of the first cell"
            raise ValueError(f"docs/reproduction.md: {title!r} has no id; {wanted}")
        label = title.partition(":")[0]
        same = re.fullmatch(r"as (.+)", command)
        # `as Figure 9` is of the same paper, whose rows come before those of the next.
        command = commands[same[1]] if same else command.strip("`")
        commands[label] = command
        found.append(
            Row(has_id[1], text_of(ID.sub("", title)), command, text_of(theirs), text_of(ours),
                text_of(remarks), marked(ours))
        )  # fmt: skip
    if twice := {row.id for row in found if [one.id for one in found].count(row.id) > 1}:
        raise ValueError(f"docs/reproduction.md: two rows have the id {sorted(twice)}")
    return found
