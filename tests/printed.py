"""The command lines that pages and `--help` print, as people would copy them.

A command line stands in a block of `console` behind `$ `, is the second cell of a row of
docs/reproduction.md, in the last cell of one of docs/guide/coming-from.md, an example of `--help`,
or a line of `make demo`. Text behind ` # ` is for the
reader. What is not run by a test says so where it is printed, and how long it takes: behind the
command, `# needs root; 4 minutes`, for a block in a line of its own above it,
`*Needs root; about an hour.*`, or for all lines of one program in the table `What commands need`
of the page; for the examples of `--help`, in a line `Time: …` below them.
"""

import re
import shlex
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from command import ROOT

HELP_PAGE = "docs/reference/commands.md"
# Provenance and history: lines that were typed, not lines to type.
LEFT_OUT = ("CHANGELOG.md", "bench/results/", "docs/decisions/", "testdata/golden/")

_DURATION = r"(second|minute|hour|until)s?\b"
_TABLE_HEADING = "What commands need"


@dataclass(frozen=True)
class PrintedCommand:
    """One command line: where it stands, what is typed, what is said of it and shown after it."""

    page: str
    line: int
    text: str
    said: str = ""
    shown: tuple[str, ...] = ()
    words: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        try:
            words = tuple(shlex.split(self.text))
        except ValueError:
            words = tuple(self.text.split())
        object.__setattr__(self, "words", words)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def is_marked(self) -> bool:
        """Whether the reader is told how long it takes, so that no test has to run it."""
        return re.search(_DURATION, self.said) is not None

    @property
    def is_live(self) -> bool:
        """Whether it listens on an interface."""
        return any(word in ("-i", "--interface") for word in self.words)

    @property
    def option_names(self) -> list[str]:
        """Flags as they are typed, without their values."""
        return [word.partition("=")[0] for word in self.words if re.match(r"--[a-z]", word)]


def pages() -> list[str]:
    """Every page that is for readers."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    kept = (page for page in listed if page and not page.startswith(LEFT_OUT))
    return sorted(page for page in kept if (ROOT / page).is_file())


@dataclass(frozen=True)
class Block:
    """What stands between two fences, and the paragraph above."""

    page: str
    line: int
    language: str
    lines: tuple[str, ...]
    above: str


def blocks(page: str, text: str | None = None) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    begun: tuple[int, str, str] | None = None
    inside: list[str] = []
    above = ""
    text = (ROOT / page).read_text() if text is None else text
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            if begun is None:
                begun, inside = (number, line.strip().strip("`"), above), []
            else:
                found.append(Block(page, begun[0], begun[1], tuple(inside), begun[2]))
                begun = None
        elif begun is not None:
            inside.append(line)
        elif line.strip():
            above = line.strip()
    return found


def console(block: Block) -> list[PrintedCommand]:
    """The commands of a block, each with what is shown below it."""
    found: list[PrintedCommand] = []
    mark = re.fullmatch(r"\*Needs (.+)\.\*", block.above)
    shown: list[str] = []
    lines = iter(enumerate(block.lines, block.line + 1))
    for number, line in lines:
        if not line.startswith("$ "):
            shown.append(line)
            continue
        text = line[2:]
        while text.endswith("\\"):
            text = text[:-1].rstrip() + " " + next(lines, (0, ""))[1].strip()
        text, _, said = text.partition(" # ")
        if found:
            found[-1] = replace(found[-1], shown=_trimmed(shown))
        shown = []
        said = "; ".join(part for part in (said.strip(), mark and mark.group(1)) if part)
        found.append(PrintedCommand(block.page, number, text.strip(), said))
    if found:
        found[-1] = replace(found[-1], shown=_trimmed(shown))
    return found


def _trimmed(shown: list[str]) -> tuple[str, ...]:
    return tuple("\n".join(shown).strip("\n").splitlines())


def examples() -> list[PrintedCommand]:
    """The examples of every `--help`, from the page that a test holds to be the same."""
    found: list[PrintedCommand] = []
    is_example, first = False, 0
    for number, line in enumerate((ROOT / HELP_PAGE).read_text().splitlines(), 1):
        if line == "Examples:":
            is_example, first = True, len(found)
        elif line.startswith("Time: "):
            found[first:] = [replace(one, said=f"{one.said}; {line}") for one in found[first:]]
        elif not line.startswith("  "):
            is_example = False
        elif is_example:
            text, _, said = line.strip().partition("  ")
            found.append(PrintedCommand(HELP_PAGE, number, text, said.strip()))
    return found


def rows(page: str) -> list[list[str]]:
    """The cells of all tables of a page."""
    lines = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def needs(page: str) -> dict[str, str]:
    """The table `What commands need` of a page: how commands begin, and what is said of them."""
    section = (ROOT / page).read_text().partition(f"## {_TABLE_HEADING}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): "; ".join(row[1:]) for row in cells}


def reproduction() -> list[PrintedCommand]:
    """The commands by which docs/reproduction.md repeats a paper's figures, each once."""
    page = "docs/reproduction.md"
    marks = needs(page)
    found: dict[str, PrintedCommand] = {}
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 5 or not cells[1].startswith("`"):
            continue
        text = cells[1].strip("`")
        begins = [begin for begin in marks if text.startswith(begin)]
        said = marks[max(begins, key=len)] if begins else ""
        found.setdefault(text, PrintedCommand(page, number, text, said))
    return list(found.values())


def equivalents() -> list[PrintedCommand]:
    """Our commands in the third column of the tables of docs/guide/coming-from.md, each once."""
    page = "docs/guide/coming-from.md"
    found: dict[str, PrintedCommand] = {}
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        cells = line.strip("|").split(" | ")
        if not line.startswith("| ") or len(cells) != 3:
            continue
        for text in re.findall(r"`((?:sudo )?wirelens [^`]+)`", cells[2]):
            found.setdefault(text, PrintedCommand(page, number, text))
    return list(found.values())


def demo() -> list[PrintedCommand]:
    """What `make demo` runs of us, and what it prints for people to type."""
    makefile = (ROOT / "Makefile").read_text()
    names = dict(re.findall(r"^([A-Z_]+) := (.*)$", makefile, flags=re.MULTILINE))
    recipe = makefile.partition("\ndemo:")[2].partition("\n\n")[0]
    found = []
    for line in recipe.splitlines():
        match = re.search(r"\$\(WIRELENS\).*", line)
        if match:
            text = re.sub(r"\$\(([A-Z_]+)\)", lambda name: names[name.group(1)], match.group())
            text = text.rstrip("'\\ ").partition("  ")[0].rstrip("'")
            found.append(PrintedCommand("Makefile", 0, text))
    return found


def all_commands() -> list[PrintedCommand]:
    """Every command line that is printed, page by page."""
    found = [
        command
        for page in pages()
        for block in blocks(page)
        if block.language == "console" and page != HELP_PAGE
        for command in console(block)
    ]
    return [*found, *examples(), *reproduction(), *equivalents(), *demo()]


def path_of(command: PrintedCommand) -> Path:
    """The page of a command."""
    return ROOT / command.page
