"""Evaluates a finished model on the sealed attacks, and records that it was done.

    .venv/bin/python bench/evaluation/packetlog/sealed.py --model models/packetlog \
        -r testbed-runs/attacks-sealed --asked-by NAME --purpose TEXT -o OUT.md

A row of `readings.tsv`, next to this file, is written before the first packet is read, so that a
reading that fails or is stopped is recorded as well. What follows `--` is passed to
`wirelens eval packetlog`. docs/guide/testbed-attacks.md (Sealed runs) says what a reading is for.
"""

import argparse
import csv
import hashlib
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "testbed"))

from wirelens_testbed.attacks import plan  # noqa: E402

SCENARIOS = ROOT / "testbed/scenarios"
SEALED = SCENARIOS / "attacks-sealed.toml"
READINGS = Path(__file__).with_name("readings.tsv")
COLUMNS = ("time_utc", "model", "model_sha256", "runs", "runs_sha256", "asked_by", "purpose")
PYTHON = ROOT / ".venv/bin/python"


class Refusal(Exception):
    """A reading that is not made, and why."""


def attack_names(scenario: Path) -> set[str]:
    """The attacks that a scenario names, drawn or not."""
    return {table["name"] for table in tomllib.loads(scenario.read_text()).get("attack", [])}


def shared_tools(sealed: Iterable[str], others: Iterable[str]) -> set[str]:
    """The tools that attacks of both have, by the names of the attacks."""
    one, other = (
        set(plan.tools({"attack": [{"name": name} for name in names]}).values())
        for names in (sealed, others)
    )
    return one & other


def runs_of(place: Path) -> list[Path]:
    """The runs of a data set; one with any other attack than the sealed ones is refused."""
    runs = sorted(found.parent for found in place.glob("*/run.json")) or [
        found.parent for found in place.glob("run.json")
    ]
    if not runs:
        raise Refusal(f"{place}: no run of the testbed; wanted runs of {SEALED.name}")
    sealed = attack_names(SEALED)
    for run in runs:
        if others := attack_names(run / "scenario.toml") - sealed:
            raise Refusal(
                f"{run}: has {', '.join(sorted(others))}, wanted attacks of {SEALED.name} alone; "
                "for other runs try `wirelens eval packetlog`"
            )
    return runs


def model_of(place: Path) -> Path:
    model = place if place.is_file() else place / "model.json"
    if not model.is_file():
        raise Refusal(f"{place}: no model of the packet log; wanted a folder with model.json")
    return model


def digest(files: Iterable[Path]) -> str:
    """One SHA-256 over the contents of files, in their order."""
    total = hashlib.sha256()
    for file in files:
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def record(model: Path, runs: Sequence[Path], asked_by: str, purpose: str) -> None:
    """Appends the row of one reading of runs or captures; who asked and for what must be said."""
    for name, text in (("--asked-by", asked_by), ("--purpose", purpose)):
        if not text.strip() or any(mark in text for mark in "\t\n\r"):
            raise Refusal(f"{name} is {text!r}, wanted some words on one line")
    row = (
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        model.parent.name,
        hashlib.sha256(model.read_bytes()).hexdigest(),
        len(runs),
        digest(run / "run.json" if run.is_dir() else run for run in runs),
        asked_by.strip(),
        purpose.strip(),
    )
    with READINGS.open("a", newline="") as table:
        writer = csv.writer(table, delimiter="\t", lineterminator="\n")
        writer.writerow(row)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("-r", "--read", type=Path, required=True)
    parser.add_argument("--asked-by", required=True)
    parser.add_argument("--purpose", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("more", nargs="*", metavar="-- OPTION")
    asked = parser.parse_args(arguments)
    try:
        model, runs = model_of(asked.model), runs_of(asked.read)
        record(model, runs, asked.asked_by, asked.purpose)
    except Refusal as refusal:
        print(f"sealed.py: {refusal}", file=sys.stderr)
        return 2
    command = [
        PYTHON, "-m", "wirelens.packetlog", "eval", "--model", model.parent, "-r", asked.read,
        "-o", asked.output, *asked.more,
    ]  # fmt: skip
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
