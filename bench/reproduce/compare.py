"""Compares figures with the kept ones, by the rules of `rules.toml`."""

import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pages"))

import page_rows  # noqa: E402
from jobs import Job  # noqa: E402
from page_rows import Missing  # noqa: E402
from page_rows import Row as Kept  # noqa: E402
from pages import like  # noqa: E402
from paper_rows import PaperFigure  # noqa: E402

Reader = Callable[[str], list[Kept]]


@dataclass(frozen=True)
class Rule:
    """How a figure is compared. One of the three is given."""

    within: float | None = None
    """The difference may be so much, in the figure's unit."""
    ratio: float | None = None
    """One may be so many times the other."""
    shown: str = ""
    """Why it is shown and not judged."""
    against: str = ""
    """A figure of the same run: what is compared is the ratio to it, so that a slower machine
    changes nothing."""

    def text(self) -> str:
        if self.within is not None:
            return f"± {self.within:g}"
        if self.ratio is None:
            return "not judged"
        return f"× {self.ratio:g}" + (", relative" if self.against else "")


@dataclass(frozen=True)
class Comparison:
    """A figure, kept and now."""

    query: str
    kept: float
    now: float | None
    """None where no command that ran has it."""
    written: str
    rule: Rule
    change: float | None = None
    """Difference, or ratio, as the rule has it."""
    is_within: bool | None = None
    """None where it is not judged."""

    def cells(self) -> list[str]:
        if self.now is None:
            return [self.query, self.written, "not measured", "", self.rule.text(), ""]
        change = ""
        if self.change is not None:
            is_ratio = self.rule.ratio is not None
            change = f"× {self.change:.2f}" if is_ratio else f"{self.change:+.3g}"
        verdict = {True: "yes", False: "NO", None: ""}[self.is_within]
        return [
            self.query, self.written, like(self.now, self.written), change, self.rule.text(),
            verdict,
        ]  # fmt: skip


@cache
def rules() -> dict[str, Rule]:
    text = Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
    return {name: Rule(**said) for name, said in tomllib.loads(text).items()}


def rule_of(query: str) -> Rule:
    """`NAME.FIELD`, `NAME AGGREGATE` or `NAME` of the rules, the first that is there."""
    name, *words = shlex.split(query)
    fields = [f"{name}{word}" for word in words if re.match(r"\.[a-z_A-Z]", word)]
    aggregates = [f"{name} {word}" for word in words if word in page_rows.AGGREGATES]
    for key in (*fields, *aggregates, name):
        if key in rules():
            return rules()[key]
    raise Missing(f"no rule for {query!r} in bench/reproduce/rules.toml")


def reader(jobs: Sequence[Job]) -> Reader:
    """Rows of what jobs have made, by the name of the kept file."""

    def read(path: str) -> list[Kept]:
        for job in jobs:
            for kept, made in job.files.items():
                if path == kept or path.startswith(f"{kept}/"):
                    return page_rows.rows_of(job.out / (made + path.removeprefix(kept)))
        raise Missing(f"no command that ran makes {path}")

    return read


def ratio(one: float, other: float) -> float:
    if one == other:
        return 1.0
    return one / other if other else float("inf")


def judged(rule: Rule, kept: float, now: float) -> tuple[float | None, bool | None]:
    """The change, and whether it is within the rule."""
    if rule.within is not None:
        return now - kept, abs(now - kept) <= rule.within + 1e-9
    if rule.ratio is not None:
        change = ratio(now, kept)
        return change, 1 / rule.ratio <= change <= rule.ratio
    return None, None


def renamed(query: str, jobs: Sequence[Job]) -> str:
    """The query as new rows answer it."""
    for job in jobs:
        for old, new in job.renamed.items():
            query = query.replace(old, new)
    return query


def compared(figure: PaperFigure, jobs: Sequence[Job]) -> Comparison:
    """A figure of the page, with what the commands have now."""
    rule, read = rule_of(figure.query), reader(jobs)
    kept = page_rows.asked(figure.query)
    try:
        now = page_rows.asked(renamed(figure.query, jobs), read)
        if not rule.against:
            change, is_within = judged(rule, kept, now)
        elif rule.against == figure.query:
            change, is_within = None, None
        else:
            before = kept / page_rows.asked(rule.against)
            after = now / page_rows.asked(renamed(rule.against, jobs), read)
            change, is_within = judged(rule, before, after)
    except Missing:
        return Comparison(figure.query, kept, None, figure.written, rule)
    return Comparison(figure.query, kept, now, figure.written, rule, change, is_within)


def printed(figure: PaperFigure, text: str) -> Comparison:
    """A figure that a command prints from the kept rows: it is there with three digits, or not."""
    kept = page_rows.asked(figure.query)
    rule = Rule(within=0.0005)
    if f"{kept:.3f}" not in text:
        return Comparison(figure.query, kept, None, figure.written, rule, None, False)
    return Comparison(figure.query, kept, kept, figure.written, rule, 0.0, True)


def table(found: Sequence[Comparison]) -> str:
    """Columns of text, the figures of the right one aligned."""
    lines = [["figure", "kept", "now", "change", "allowed", "within"]]
    lines += [one.cells() for one in found]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    text = []
    for line in lines:
        cells = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)
