"""Prints tables of the OUT/rows.jsonl of `bench/evaluation/cca/onetap.py` in Markdown.

F1 is the mean over controls, of all folds of a split put together; with ± its standard deviation
over seeds, which draw intervals, weights and the combinations by which training ends.
"""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
SPLITS = {"combination": "rate and RTT", "rate": "rate", "rtt": "RTT"}


def f1_of(counts: Any) -> Any:
    """F1 by control."""
    right = np.diag(counts)
    sums = counts.sum(axis=0) + counts.sum(axis=1)
    return 2 * right / np.maximum(sums, 1)


def by_seed(rows: Iterable[Row], what: str) -> list[Any]:
    """Of each seed all folds in one confusion."""
    sums: dict[int, Any] = defaultdict(int)
    folds: dict[int, int] = defaultdict(int)
    for row in rows:
        sums[row["seed"]] = sums[row["seed"]] + np.array(row[what])
        folds[row["seed"]] += 1
    # A run that was ended early may have left a seed without some of its folds.
    return [sums[seed] for seed in sorted(sums) if folds[seed] == max(folds.values())]


def spread(values: list[float]) -> str:
    """Mean and standard deviation; of one seed there is none."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def name(row: Row) -> str:
    """Model and inputs."""
    if row["model"] == "network":
        return "network, " + " + ".join(f"`{one}`" for one in row["inputs"])
    return {"forest": "forest of hand-made features", "frequent": "always the same"}[row["model"]]


def main() -> None:
    """Prints."""
    rows = [json.loads(line) for line in Path(sys.argv[1], "rows.jsonl").read_text().splitlines()]
    print("## By split\n")
    print("| rows | held out | model | seeds | F1 of intervals | F1 of whole traces |")
    print("|---|---|---|---:|---:|---:|")
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[f"{row['rows']} × {row['row']}", row["split"], name(row)].append(row)
    for (rows_of, split, model), group in groups.items():
        each = [[float(f1_of(one).mean()) for one in by_seed(group, what)]
                for what in ("confusion", "confusion_flows")]  # fmt: skip
        cells = f"{model} | {len(each[0])} | {spread(each[0])} | {spread(each[1])}"
        print(f"| {rows_of} | {SPLITS[split]} | {cells} |")
    main_rows = [row for row in rows if row["split"] == "combination"]
    folds(main_rows)
    controls(main_rows)


def folds(rows: list[Row]) -> None:
    """What each combination that was held out came to."""
    print("\n## By what was held out: F1 of intervals\n")
    groups: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["fold"]][f"{name(row)}, {row['rows']} × {row['row']}"].append(row["f1"])
    models = sorted({model for group in groups.values() for model in group})
    print("| rate, delay |" + "".join(f" {model} |" for model in models))
    print("|---|" + "---:|" * len(models))
    for fold, group in sorted(groups.items()):
        print(f"| {fold} |" + "".join(f" {spread(group[model])} |" for model in models))


def controls(rows: list[Row]) -> None:
    """F1 of each control."""
    print("\n## By control: F1 of intervals, rate and RTT held out\n")
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[f"{name(row)}, {row['rows']} × {row['row']}"].append(row)
    each = {
        model: [f1_of(one) for one in by_seed(group, "confusion")]
        for model, group in sorted(groups.items())
    }
    print("| control |" + "".join(f" {model} |" for model in each))
    print("|---|" + "---:|" * len(each))
    for at, control in enumerate(rows[0]["controls"]):
        cells = "".join(f" {spread([float(one[at]) for one in f1])} |" for f1 in each.values())
        print(f"| {control} |{cells}")


if __name__ == "__main__":
    main()
