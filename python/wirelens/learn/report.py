"""Tables in Markdown, for model cards and evaluations."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table; the first columns are texts and the rest are figures."""
    rules = ["---"] * texts + ["---:"] * (len(header) - texts)
    lines = [header, rules, *rows]
    # Classes have any name.
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in lines)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)
