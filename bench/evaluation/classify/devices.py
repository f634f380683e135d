"""How well devices are named where nothing but the product is the same: other captures, other
units, another home, and what comes of flows of devices that the model does not know.

  python bench/evaluation/classify/devices.py CAPTURES REWRITTEN ROWS.tsv
      [--foreign FOLDER...] [--seeds 3] [--features masked kept] [--cache FOLDER]

A seed whose rows are in ROWS.tsv is not run again, so a run that was ended goes on where it was.

CAPTURES has a folder for each device (IoT Sentinel); REWRITTEN has the same files after
`bench/evaluation/classify/rewrite.py`. Rows, one a split, features, system and seed:

- `capture`: three folds, no capture on both sides;
- `unit`: of the types that have two units one unit trains, with all other types, and the other
  one is judged, both ways; the share of its flows that are named right;
- `rewritten`: as `capture`, but judged flows are those of the rewritten captures;
- `foreign`: of flows of FOLDERs, none of them of a trained class, the share with a name whose
  probability is 0.9 or more.

Systems are LightGBM as in models/recipes/devices.toml, a table of ports and the majority class.
"""

import argparse
import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy
from sklearn.metrics import f1_score
from wirelens.classify.dataset import Source, captures_of, load
from wirelens.classify.labels import FlowLabel, LabelTable, read_table
from wirelens.classify.recipe import DROPPED, Recipe

RECIPES = Path(__file__).parents[3] / "models/recipes"
DEPTH, RARE, ROUNDS, FOLDS, SURE = 10, 40, 25, 3, 0.9
# Types of which there are two units, by the folder of the second and the first.
PAIRS = (
    ("EdimaxCam2", "EdimaxCam1"),
    ("EdnetCam2", "EdnetCam1"),
    ("WeMoSwitch2", "WeMoSwitch"),
    ("WeMoInsightSwitch2", "WeMoInsightSwitch"),
)
PARAMETERS = {
    "objective": "multiclass", "num_leaves": 15, "learning_rate": 0.2, "feature_fraction": 0.2,
    "min_data_in_leaf": 5, "min_sum_hessian_in_leaf": 0.1, "lambda_l2": 1.0, "max_bin": 63,
    "num_threads": 1, "verbosity": -1,
}  # fmt: skip
HEAD = "features\tseed\tsplit\tsystem\tflows\tmacro_f1\tshare"
NUMBERS = ("protocol", "server_port", "size_bytes", "direction", "gap_ns", "payload_bytes")
# What was left out of the payload before there was masking.
BYTES = {"masked": ("byte:0-63@0-4",), "kept": ("byte:0-27@0-4", "byte:34-63@0-4")}
Flows = dict[str, Any]


def read(
    captures: list[Path], identity: str, cache: Path | None, columns: list[str] | None
) -> Flows:
    """Features of all flows, by capture: these columns, or all that are not the same in all."""
    if cache is not None and cache.is_file():
        found: Flows = pickle.loads(cache.read_bytes())
        return found
    dropped = (*DROPPED, "payload_bit_*", "tcp_sprt_*", "tcp_dprt_*")
    recipe = Recipe(
        ("ipv4", "tcp"), 64, NUMBERS + BYTES[identity], dropped, "innermost", RARE, identity
    )
    # Classes are given later, by the captures' folders.
    rows = [FlowLabel(at, str(path), None, path.name) for at, path in enumerate(captures)]
    source = Source(captures, LabelTable("captures", rows), [str(path) for path in captures])
    data = load(source, recipe, DEPTH, flows_min=1)
    if columns is None:
        bits = [name for name in data.sample.varying_bits() if not recipe.is_dropped(name)]
        columns = bits + recipe.number_names(DEPTH)
    found = {
        "X": data.sample.values(columns),
        "cols": columns,
        "cap": numpy.array([str(captures[at]) for at in data.capture_of]),
    }
    if cache is not None:
        cache.write_bytes(pickle.dumps(found))
    return found


def folders(flows: Flows) -> numpy.ndarray:
    """The folder of each flow's capture."""
    return numpy.array([Path(path).parent.name for path in flows["cap"]])


def keys(flows: Flows) -> list[tuple[str, str]]:
    """Each flow's capture, by folder and name."""
    return [Path(path).parts[-2:] for path in flows["cap"]]


def sifted(rows: numpy.ndarray) -> list[int]:
    """Columns in which more than a few flows differ from the others."""
    most = (numpy.unique(column, return_counts=True)[1].max() for column in rows.T)
    return [at for at, count in enumerate(most) if len(rows) - count > RARE]


class System:
    """LightGBM on some flows, and what it is compared with."""

    def __init__(self, flows: Flows, labels: numpy.ndarray, rows: numpy.ndarray, seed: int) -> None:
        self.names, numbers = numpy.unique(labels[rows], return_inverse=True)
        self.port = [flows["cols"].index(name) for name in ("protocol", "server_port")]
        trained = flows["X"][rows]
        self.columns = sifted(trained)
        data = lightgbm.Dataset(trained[:, self.columns], numbers)
        settings = {**PARAMETERS, "num_class": len(self.names), "seed": seed}
        self.model = lightgbm.train(settings, data, ROUNDS)
        self.most = Counter(labels[rows].tolist()).most_common(1)[0][0]
        by_port: dict[tuple[float, ...], Counter[str]] = {}
        for port, label in zip(trained[:, self.port].tolist(), labels[rows].tolist(), strict=True):
            by_port.setdefault(tuple(port), Counter())[label] += 1
        self.table = {port: counts.most_common(1)[0][0] for port, counts in by_port.items()}

    def scores(self, rows: numpy.ndarray) -> numpy.ndarray:
        """Probabilities of each class."""
        return numpy.asarray(self.model.predict(rows[:, self.columns], num_threads=1))

    def said(self, rows: numpy.ndarray) -> dict[str, numpy.ndarray]:
        """What each system calls some flows."""
        ports = [self.table.get(tuple(port), self.most) for port in rows[:, self.port].tolist()]
        return {
            "lightgbm/10": self.names[self.scores(rows).argmax(axis=1)],
            "port table": numpy.array(ports),
            "majority class": numpy.full(len(rows), self.most),
        }


def fold_of(flows: Flows, seed: int) -> numpy.ndarray:
    """Folds of captures, of each folder as equal as can be."""
    dice, found = numpy.random.default_rng(seed), {}
    for folder in sorted(set(folders(flows))):
        captures = sorted({one for one in flows["cap"] if Path(one).parent.name == folder})
        dice.shuffle(captures)
        found |= {one: (at + seed) % FOLDS for at, one in enumerate(captures)}
    return numpy.array([found[one] for one in flows["cap"]])


def judged(truth: numpy.ndarray, said: numpy.ndarray) -> tuple[float, float]:
    """Macro-F1 over the classes that are there, and the share right."""
    f1 = f1_score(truth, said, average="macro", labels=sorted(set(truth)), zero_division=0)
    return float(f1), float((truth == said).mean())


def split_rows(
    plain: Flows, elsewhere: Flows, foreign: dict[str, Flows], labels: numpy.ndarray, seed: int
) -> Iterator[tuple[str, str, int, float, float]]:
    """Split, system, flows, macro-F1 and share right (of foreign flows, named)."""
    folds = fold_of(plain, seed)
    results: dict[tuple[str, str], list[numpy.ndarray]] = {}
    # The same captures in the same order: rows of one are those of the other.
    assert keys(plain) == keys(elsewhere)
    for fold in range(FOLDS):
        system, held_out = System(plain, labels, folds != fold, seed), folds == fold
        for split, flows in (("capture", plain), ("rewritten", elsewhere)):
            for name, said in system.said(flows["X"][held_out]).items():
                pair = numpy.stack([labels[held_out], said])
                results.setdefault((split, name), []).append(pair)
        if fold == 0:
            for name, flows in foreign.items():
                share = float((system.scores(flows["X"]).max(axis=1) >= SURE).mean())
                yield f"foreign {name}", "lightgbm/10", len(flows["X"]), float("nan"), share
    for (split, name), pairs in results.items():
        truth, said = numpy.concatenate(pairs, axis=1)
        yield split, name, len(truth), *judged(truth, said)
    mine = folders(plain)
    for way in (0, 1):
        units = [pair[way] for pair in PAIRS]
        is_judged = numpy.isin(mine, units)
        system = System(plain, labels, ~is_judged, seed)
        for name, said in system.said(plain["X"][is_judged]).items():
            for unit in units:
                of_unit = mine[is_judged] == unit
                right = float((labels[is_judged] == said)[of_unit].mean())
                yield f"unit {unit}", name, int(of_unit.sum()), float("nan"), right


def main() -> None:
    """Writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", type=Path)
    parser.add_argument("rewritten", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--foreign", type=Path, nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--features", nargs="+", choices=sorted(BYTES), default=sorted(BYTES))
    asked = parser.parse_args()
    classes = {r["label"]: r["class"] for r in read_table(RECIPES / "devices-classes.tsv")}
    if not asked.rows.exists():
        asked.rows.write_text(HEAD + "\n", encoding="utf-8")
    done = {(row["features"], row["seed"]) for row in read_table(asked.rows)}
    for identity in asked.features:

        def flows_of(
            folder: Path, columns: list[str] | None = None, identity: str = identity
        ) -> Flows:
            found = captures_of([folder])
            cache = asked.cache and asked.cache / f"{folder.name}-{identity}.pkl"
            return read(found, identity, cache, columns)

        plain = flows_of(asked.captures)
        elsewhere = flows_of(asked.rewritten, plain["cols"])
        labels = numpy.array([classes[one] for one in folders(plain)])
        # Of what no longer ships these are not asked.
        folders_asked = asked.foreign if identity == "masked" else []
        foreign = {folder.name: flows_of(folder, plain["cols"]) for folder in folders_asked}
        for seed in range(1, asked.seeds + 1):
            if (identity, str(seed)) in done:
                continue
            lines = []
            for split, system, count, f1, share in split_rows(
                plain, elsewhere, foreign, labels, seed
            ):
                f1_text = "" if f1 != f1 else f"{f1:.4f}"
                lines.append(
                    f"{identity}\t{seed}\t{split}\t{system}\t{count}\t{f1_text}\t{share:.4f}\n"
                )
            # All rows of a seed or none: half a seed would not be run again.
            with asked.rows.open("a", encoding="utf-8") as rows:
                rows.write("".join(lines))


if __name__ == "__main__":
    main()
