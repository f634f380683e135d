"""What a model says of flows, those of controls that it does not know included.

    .venv/bin/python bench/evaluation/cca/foreign.py OUT.jsonl [--model MODEL] RUN...
    .venv/bin/python bench/evaluation/cca/foreign.py OUT.jsonl            prints the tables

Each run is read by `wirelens cca --model MODEL`, once a second, as a user would; without --model by
the one that ships. A row is one run, one control as it was configured and one length of the
observation interval: how many answers there were, how many named a control and which, and how sure
they were.
"""

import argparse
import csv
import hashlib
import json
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
KNOWN = ("bbr", "cubic", "reno")
SURE = 0.9
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
Rows = list[dict[str, Any]]


def capture(run: Path, name: str) -> Path:
    """The tap's capture, compressed or not."""
    found = sorted(run.glob(f"{name}.pcapng*"))
    if not found:
        raise SystemExit(f"{run}: no {name}.pcapng; wanted: a run of `wirelens testbed make`")
    return found[0]


def controls(run: Path) -> dict[str, str]:
    """The control that each sender was configured with, by Community ID."""
    with (run / "flows.tsv").open(encoding="utf-8") as table:
        return {row["community_id"]: row["label"] for row in csv.DictReader(table, delimiter="\t")}


def weights(model: str) -> str:
    """SHA-256 of a model's weights: rows of another model are no rows of this one."""
    folder = Path(model) if "/" in model else ROOT / "models" / model
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def measure(run: Path, model: str, sha256: str) -> Rows:
    """Rows of one run; `sha256` is that of the model's weights."""
    command = [
        str(ROOT / "target/release/wirelens"), "cca", "-q", "--model", model, "--every", "1s",
        "-n", "100", "--format", "jsonl",
        "-r", str(capture(run, "before")), "--egress", str(capture(run, "after")),
    ]  # fmt: skip
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    truth = controls(run)
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for line in printed.splitlines():
        row = json.loads(line)
        control = truth.get(row["community_id"])
        if control is None or row.get("unnamed") == "short" or row.get("missing"):
            continue
        seconds = row.get("interval_s") or 0
        length = "10s and more" if seconds >= 10 else "1s to 10s" if seconds >= 1 else "below 1s"
        key = (control, length)
        found[key][row.get("control") or f"unnamed: {row.get('unnamed')}"] += 1
        if row.get("control"):
            is_right = row["control"] == control
            which = next(bound for bound in BINS if row["confidence"] <= bound)
            sums[key][f"named to {which}"] += 1
            sums[key][f"right to {which}"] += is_right
            sums[key][f"confidence to {which}"] += row["confidence"]
            sums[key]["sure"] += row["confidence"] >= SURE
    return [
        {"run": run.name, "model": sha256, "flows": len(truth), "control": control,
         "length": length, "answers": sum(names.values()), "names": dict(sorted(names.items())),
         **sums[control, length]}
        for (control, length), names in sorted(found.items())
    ]  # fmt: skip


def read(path: Path) -> Rows:
    """Rows of a file; none where there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def tables(rows: Rows) -> str:
    """Share named by control and length, and calibration."""
    text = "| control | interval | answers | named | sure (0.9) | mostly as |\n"
    text += "|---|---|---:|---:|---:|---|\n"
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in rows:
        groups[row["control"], row["length"]].append(row)
    for (control, length), members in sorted(groups.items()):
        names: Counter[str] = sum((Counter(row["names"]) for row in members), Counter())
        named = {name: n for name, n in names.items() if not name.startswith("unnamed")}
        answers, most = names.total(), max(named, key=lambda name: named[name], default="")
        sure = sum(row.get("sure", 0) for row in members) / answers
        share = sum(named.values()) / answers
        text += f"| {control} | {length} | {answers:,} | {share:.3f} | {sure:.3f} | {most} |\n"
    return text


def shares(rows: Rows) -> dict[str, float]:
    """Of answers: how many there are, and which part is what."""
    answers = sum(row["answers"] for row in rows)
    right = sum(row["names"].get(row["control"], 0) for row in rows)
    unnamed = sum(
        count for row in rows for name, count in row["names"].items() if name.startswith("unnamed")
    )
    sure = sum(
        row.get(f"named to {bound}", 0) - row.get(f"right to {bound}", 0)
        for row in rows for bound in BINS if bound > SURE
    )  # fmt: skip
    parts = {"right": right, "unnamed": unnamed, "wrong": answers - right - unnamed, "sure": sure}
    return {"answers": answers, **{name: part / answers for name, part in parts.items()}}


def by_flows(rows: Rows) -> str:
    """Of answers on known controls after ten seconds: how many are right, wrong, wrong and sure."""
    text = "| model | flows in the queue | control | answers | right | unnamed | wrong |"
    text += " wrong with 0.9 or more |\n|---|---:|---|---:|---:|---:|---:|---:|\n"
    groups: dict[tuple[str, str, str], Rows] = defaultdict(list)
    for row in rows:
        if row["control"] in KNOWN and row["length"] == "10s and more" and "flows" in row:
            which = row["model"][:12]
            groups[which, str(row["flows"]), row["control"]].append(row)
            groups[which, "any", row["control"]].append(row)
            groups[which, "any", "any"].append(row)
    for (model, flows, control), members in sorted(groups.items()):
        of = shares(members)
        cells = " | ".join(f"{of[name]:.3f}" for name in ("right", "unnamed", "wrong", "sure"))
        text += f"| {model} | {flows} | {control} | {of['answers']:,} | {cells} |\n"
    return text


def calibration_error(rows: Rows) -> float:
    """Expected calibration error (ECE) of the names in these rows."""
    named = {b: sum(row.get(f"named to {b}", 0) for row in rows) for b in BINS}
    gaps = [
        abs(sum(row.get(f"{what} to {b}", 0) * sign for row in rows for what, sign in
                (("confidence", 1), ("right", -1))))
        for b in BINS
    ]  # fmt: skip
    return sum(gaps) / max(1, sum(named.values()))


def main() -> None:
    """Makes rows that are not there, or prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--model", default="cca", help="name or folder")
    asked = parser.parse_intermixed_args()
    rows = read(asked.rows)
    sha256 = weights(asked.model)
    asked.rows.parent.mkdir(parents=True, exist_ok=True)
    done = {row["run"] for row in rows if row.get("model") == sha256}
    with asked.rows.open("a", encoding="utf-8") as out:
        for run in asked.runs:
            if run.name not in done:
                made = measure(run, asked.model, sha256)
                rows += made
                out.writelines(json.dumps(row) + "\n" for row in made)
    print(tables(rows))
    print(by_flows(rows))
    for name, members in (
        ("known controls", [row for row in rows if row["control"] in KNOWN]),
        ("all, other controls counted as wrong", rows),
    ):
        print(f"ECE of names, {name}: {calibration_error(members):.3f}")


if __name__ == "__main__":
    main()
