"""Rows of an evaluation in a folder: measured and kept, or read again, and the table of them."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from places import ROOT

sys.path.insert(0, str(ROOT / "bench"))

Row = dict[str, Any]


def show(
    title: str,
    tables: Callable[[Sequence[Row]], str],
    measure: Callable[..., Sequence[Row]],
    rounds: int = 1,
) -> None:
    """Prints and keeps the tables of OUT, the first word of the command.

    Rows are measured with the words that follow it; without any, those of OUT are read again.
    """
    out, *folders = map(Path, sys.argv[1:])
    if folders:
        import environment

        out.mkdir(parents=True, exist_ok=True)
        rows = measure(*folders)
        (out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        facts = environment.facts([], rounds)
        (out / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    made = tables(rows)
    (out / "table.md").write_text(f"# {title}\n\n{made}")
    print(made, end="")
