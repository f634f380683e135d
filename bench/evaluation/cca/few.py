"""Tables of what networks say where few flows share a queue.

    .venv/bin/python bench/evaluation/cca/few.py RESULTS [--add NAME=MODEL...]

RESULTS has `answers.jsonl` of `foreign.py`, one row per run, control and interval, and gets
`few.md`. --add names a model whose answers are there, in `models.json`, and keeps the F1 that its
card has of held-out runs in `scores.jsonl`, one row per model, interval and set of runs. Several
seeds of one network have one name but for its end, ", seed N".
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from foreign import KNOWN, Rows, read, shares, weights

HEADING = re.compile(r"F1 on `(\S+)`")


def card_scores(model: str) -> Iterator[dict[str, Any]]:
    """F1 by interval and set of runs, as a card has it."""
    lines = (Path(model) / "card.md").read_text(encoding="utf-8").splitlines()
    sha256 = weights(model)
    heads: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "interval" and HEADING.fullmatch(cells[-1]):
            heads = [found[1] for cell in cells[1:] if (found := HEADING.fullmatch(cell))]
        elif heads and not line.startswith("|"):
            return
        elif heads and (interval := re.fullmatch(r"(\d+) ms", cells[0])):
            for runs, cell in zip(heads, cells[1:], strict=True):
                if score := re.match(r"[\d.]+", cell):
                    yield {"model": sha256, "interval_ms": int(interval[1]),
                           "runs": runs, "f1": float(score[0])}  # fmt: skip


def by_control(named: dict[str, Rows]) -> Iterator[str]:
    yield "| model | control | answers | right | unnamed | wrong | wrong with 0.9 or more |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for model, rows in named.items():
        for control in (*KNOWN, "all"):
            of = shares([row for row in rows if control in (row["control"], "all")])
            cells = " | ".join(f"{of[name]:.3f}" for name in ("right", "unnamed", "wrong", "sure"))
            yield f"| {model} | {control} | {of['answers']:,} | {cells} |"


def spread(values: list[float]) -> str:
    """The mean of seeds, and what they reach from and to."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{mean(values):.3f} ({min(values):.3f}–{max(values):.3f})"


def network(model: str) -> str:
    """A name without its seed."""
    return model.split(", seed ")[0]


def reno_by_flows(named: dict[str, Rows]) -> Iterator[str]:
    networks: dict[str, list[Rows]] = defaultdict(list)
    for model, rows in named.items():
        networks[network(model)].append(rows)
    numbers = {2: "two seeds", 3: "three seeds"}
    heads = [
        f"{name}, {numbers[len(of)]}" if len(of) > 1 else name for name, of in networks.items()
    ]
    yield "| flows in the queue | answers |" + "".join(
        f" {head} | wrong with 0.9 or more |" for head in heads
    )
    yield "|---|---:|" + "---:|---:|" * len(heads)
    counts = sorted({row["flows"] for rows in named.values() for row in rows})
    for flows in counts:
        cells, answers = [], 0.0
        for seeds in networks.values():
            of = [
                shares([row for row in rows if (row["control"], row["flows"]) == ("reno", flows)])
                for rows in seeds
            ]
            answers = of[0]["answers"]
            cells += [spread([seed[what] for seed in of]) for what in ("right", "sure")]
        yield f"| {flows} | {answers:,.0f} | {' | '.join(cells)} |"


def held_out(scores: Rows, names: dict[str, str]) -> Iterator[str]:
    sets = list(dict.fromkeys(row["runs"] for row in scores))
    yield "| networks | interval |" + "".join(f" F1 on `{name}` |" for name in sets)
    yield "|---|---|" + "---:|" * len(sets)
    by_network: dict[str, Rows] = defaultdict(list)
    for row in scores:
        by_network[network(names[row["model"]])].append(row)
    for of_network, rows in by_network.items():
        for interval in sorted({row["interval_ms"] for row in rows}):
            found = [
                [row["f1"] for row in rows if (row["interval_ms"], row["runs"]) == (interval, name)]
                for name in sets
            ]
            cells = [spread(of) if of else "–" for of in found]
            yield f"| {of_network} | {interval} ms | {' | '.join(cells)} |"


def tables(results: Path) -> str:
    """All of the page. Answers are those on known controls after ten seconds."""
    names: dict[str, str] = json.loads((results / "models.json").read_text(encoding="utf-8"))
    scores = read(results / "scores.jsonl")
    named: dict[str, Rows] = {name: [] for name in names.values()}
    for row in read(results / "answers.jsonl"):
        if row["control"] in KNOWN and row["length"] == "10s and more":
            named[names[row["model"]]].append(row)
    parts = {
        "by control": by_control(named),
        "reno by flows": reno_by_flows(named),
    }
    if scores:
        parts["held-out runs"] = held_out(scores, names)
    return "\n".join(f"## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in parts.items())


def main() -> None:
    """Adds models, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--add", metavar="NAME=MODEL", action="append", default=[])
    asked = parser.parse_args()
    known, path = asked.results / "models.json", asked.results / "scores.jsonl"
    names = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
    scores = read(path)
    for added in asked.add:
        name, _, model = added.partition("=")
        sha256 = weights(model)
        names[sha256] = name
        scores = [row for row in scores if row["model"] != sha256]
        # The shipped model's card is of other runs.
        scores += card_scores(model) if "/" in model else []
    known.write_text(json.dumps(names, indent=2) + "\n", encoding="utf-8")
    path.write_text("".join(json.dumps(row) + "\n" for row in scores), encoding="utf-8")
    (asked.results / "few.md").write_text(tables(asked.results), encoding="utf-8")


if __name__ == "__main__":
    main()
