"""Held-out macro-F1 of the shipped models without flows that are in training as well.

    python bench/evaluation/classify/shared_flows.py CAPTURES RESULTS

Several repositories ship the same packets, so flows of sealed families may also be in captures of
families that trained or selected the model. Such flows have the same ends and the same first
microsecond, which is how `train` finds families to join. CAPTURES are those of models/make.sh
services. Runs of the testbed are not read: no other place has their packets.

A row of RESULTS/rows.jsonl is a model: macro-F1 of all flows of sealed families and, as
`unshared_…`, of those that no unsealed family has, with 95 % intervals over families, and of the
majority class of the same flows. Every flow gets its likeliest class, and `unknown` is a class, as
in the table of systems of `wirelens eval classify`.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify import arguments, copies
from wirelens.classify.evaluate import Outcome, evaluate
from wirelens.classify.report import Evidence
from wirelens.learn.metrics import Array, confusion, macro_f1
from wirelens.learn.progress import Progress
from wirelens.learn.sealing import is_sealed

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
import environment  # noqa: E402

SEALED = 0.2
# As strangers.sh and categories.sh evaluate them.
LABELS = {
    "services": ("--label", "ndpi_proto", "--classes", "models/recipes/services-classes.tsv"),
    "categories": ("--label", "class"),
}
Row = dict[str, Any]


def judged(name: str) -> Outcome:
    """A model's predictions of all labelled flows, sealed or not."""
    typed = ["eval", "-q", "--model", f"models/{name}", "-r", "data", "--flows", "data/flows.tsv",
             "--manifest", "data/MANIFEST.tsv", *LABELS[name]]  # fmt: skip
    asked = arguments.parser().parse_args(typed)
    return evaluate(arguments.eval_request(asked, typed[1:]), Progress(is_quiet=True))


def is_shared(found: Outcome, sealed: Array) -> Array:
    """Which sealed flows are also in captures of unsealed families."""
    # Each flow is its own family and capture here, so those that are joined are the same packets.
    own = [str(row) for row in range(len(sealed))]
    bounds = (found.dataset.sample.bounds(name) for name in ("first_ns", "last_ns"))
    flows = copies.Flows(found.dataset.keys, own, *bounds)
    groups = numpy.array(copies.families_with_copies(flows, own))
    return sealed & numpy.isin(groups, groups[~sealed])


def figures(found: Outcome, rows: Array) -> Row:
    """Macro-F1 of some flows with its interval, and that of their majority class."""
    classes = found.evidence.classes
    truth, families = found.evidence.truth[rows], found.evidence.families[rows]
    f1 = Evidence(truth, families, classes).interval(found.predictions.labels[rows])
    most = int(numpy.bincount(truth).argmax())
    majority = confusion(truth, numpy.full_like(truth, most), len(classes))
    return {
        "flows": len(truth),
        "families": len(set(families.tolist())),
        "macro_f1": f1.value,
        "macro_f1_low": f1.low,
        "macro_f1_high": f1.high,
        "majority_class": classes[most],
        "majority_macro_f1": macro_f1(majority),
    }


def measured(name: str) -> Row:
    """A model's row."""
    found = judged(name)
    families = found.evidence.families
    sealed = numpy.array([is_sealed(family, SEALED) for family in families.tolist()])
    shared = is_shared(found, sealed)
    others = figures(found, numpy.flatnonzero(sealed & ~shared))
    return {
        "name": name,
        "model": found.cascade.id,
        **figures(found, numpy.flatnonzero(sealed)),
        "shared_flows": int(shared.sum()),
        "families_with_shared_flows": len(set(families[shared].tolist())),
        **{f"unshared_{field}": value for field, value in others.items()},
    }


def main() -> None:
    """Prints the rows, and writes them with the environment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("captures", type=Path)
    parser.add_argument("results", type=Path)
    asked = parser.parse_args()
    results = asked.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], 1)
    facts["versions"] |= {"lightgbm": environment.python_version("lightgbm")}
    with tempfile.TemporaryDirectory() as place:
        # Names of captures are those of the training, since a family is sealed by its name.
        (Path(place) / "data").symlink_to(asked.captures.resolve())
        (Path(place) / "models").symlink_to(ROOT / "models")
        with contextlib.chdir(place):
            text = "".join(json.dumps(measured(name)) + "\n" for name in LABELS)
    print(text, end="")
    (results / "rows.jsonl").write_text(text, encoding="utf-8")
    facts["data"] = "captures of many places with nDPI's labels and categories (781)"
    (results / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
