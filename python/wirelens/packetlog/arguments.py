"""What can be typed after `wirelens train packetlog` and `wirelens eval packetlog`."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from wirelens.errors import OptionError
from wirelens.learn.typed import Parser, part, positive, whole
from wirelens.packetlog import evaluate, train
from wirelens.packetlog.forest import Shape
from wirelens.packetlog.model import file_of
from wirelens.packetlog.snapshots import SnapshotOptions

_KEYS = ("flow", "source", "destination")

_TRAIN_EXAMPLES = """Examples:
  wirelens train packetlog -r testbed-runs/attacks -r testbed-runs/services -o models/mine
  wirelens train packetlog -r testbed-runs/attacks -o mine --features exact --window 10s
  wirelens train packetlog -r testbed-runs/congestion -o queue --use congestion
  wirelens train packetlog -r captures/ -o unknown --use unknown --false-alarms 5%

The guide is docs/guide/packetlog-train.md."""

_EVAL_EXAMPLES = """Examples:
  wirelens eval packetlog --model models/mine -r testbed-runs/other
  wirelens eval packetlog --model ./mine -r other --trained-on testbed-runs/attacks -o mine.md"""


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-r", "--read", metavar="DIR", type=Path, action="append", default=[],
        help="Testbed runs (attacks, services, congestion), folders of runs, or a folder of "
        "captures with a MANIFEST.tsv that has the columns file, label and, optionally, "
        "source_repo; may be given several times")  # fmt: skip
    parser.add_argument("--benign", metavar="FILE|DIR", type=Path, action="append", default=[],
        help="Captures with only benign packets; may be given several times")  # fmt: skip


def _places(asked: argparse.Namespace) -> list[Path]:
    if not asked.read and not asked.benign:
        raise OptionError("-r: missing; wanted: runs of the testbed, or captures with labels")
    return list(asked.read)


def _add_features(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("Features").add_argument
    add("--features", choices=("sketch", "exact"), default="sketch", help="Where sums of packets "
        "are stored [default: sketch]")  # fmt: skip
    add("--window", metavar="TIME", default="1s", help="Reset sums at each window of this "
        "length; at most 4.29 s with a sketch [default: 1s]")  # fmt: skip
    add("--keys", metavar="LIST", default="flow,source",
        help=f"Keys of the sums: {', '.join(_KEYS)} [default: %(default)s]")  # fmt: skip
    add("--layers", metavar="N", type=whole(1), default=2, help="Layers of each sketch [default: "
        "2]")  # fmt: skip
    add("--buckets", metavar="N", type=whole(1), default=65_536, help="Buckets of each layer "
        "[default: 65536]")  # fmt: skip
    add("--states", metavar="N", type=whole(0), default=0, help="Places for states of flows, "
        "pairs of hosts, clients and servers: a power of two, such as 65536; 0 for no columns of "
        "states [default: 0]")  # fmt: skip
    add("--reuse-flows", metavar="N", type=whole(0), default=0, help="Flows whose last verdict is "
        "used again for most of their packets: a power of two, such as 65536; 0 to classify every "
        "packet [default: 0]")  # fmt: skip
    add("--ports", action="store_true", help="Let forests use ports, which show the service "
        "rather than the behaviour")  # fmt: skip


def _add_forest(parser: argparse.ArgumentParser) -> None:
    shape = Shape()
    add = parser.add_argument_group("Forests").add_argument
    add("--use", choices=train.USES, default="attacks", help="What to distinguish: attacks, "
        "congestion, or unfamiliar traffic (unknown) from surely benign traffic [default: "
        "attacks]")  # fmt: skip
    add("--classes", choices=("binary", "family"), default="binary", help="One class for all "
        "attacks, or one per family [default: binary]")  # fmt: skip
    add("--trees", metavar="N", type=whole(1, 4096), default=shape.trees, help="Trees of a "
        "forest [default: %(default)s]")  # fmt: skip
    add("--depth", metavar="N", type=whole(1, 64), default=shape.depth, help="Maximum depth of a "
        "tree [default: %(default)s]")  # fmt: skip
    add("--columns-part", metavar="PART", type=part, default=shape.columns_part,
        help="Fraction of the columns tried at each node [default: %(default)s]")  # fmt: skip
    add("--weight", metavar="N", type=positive, help="Weight of all anomalous packets together, "
        "relative to the benign ones [default: chosen by cross-validation over "
        "captures]")  # fmt: skip
    add("--false-alarms", metavar="PART", type=part, help="Maximum false-positive rate on benign "
        "packets, by cross-validation; with several classes only the weight is chosen by it "
        "[default: 3%%; for congestion 20%%, for unknown 10%%]")  # fmt: skip
    add("--rows-max", metavar="N", type=whole(100), default=400_000, help="Maximum number of "
        "training packets, sampled at random [default: 400000]")  # fmt: skip
    add("--seed", metavar="N", type=whole(0), default=1, help="Seed of all random choices "
        "[default: 1]")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The parser of both commands."""
    top = Parser(prog="wirelens", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="train|eval")
    training = commands.add_parser(
        "train", prog="wirelens train packetlog", epilog=_TRAIN_EXAMPLES,
        description="Train the classifier of `wirelens packetlog`.", allow_abbrev=False,
    )  # fmt: skip
    _add_places(training)
    training.add_argument("--sealed", metavar="PART", type=part, default=0.0, help="Set aside the "
        "captures of this fraction of the places, by a hash of their names, to evaluate on them "
        "[default: none]")  # fmt: skip
    training.add_argument("-o", "--output", metavar="DIR", type=Path, required=True,
        help="Folder of the model to write")  # fmt: skip
    training.add_argument("--note", metavar="TEXT", default="", help="A paragraph for the model "
        "card")  # fmt: skip
    training.add_argument("--force", action="store_true", help="Replace DIR if it is a model")
    training.add_argument("--report", metavar="FILE.json", type=Path, help="Write the "
        "cross-validation results")  # fmt: skip
    training.add_argument("--plots", metavar="DIR", type=Path, help="Draw plots into DIR")
    _add_features(training)
    _add_forest(training)
    judging = commands.add_parser(
        "eval", prog="wirelens eval packetlog", epilog=_EVAL_EXAMPLES,
        description="Evaluate classifiers of `wirelens packetlog` on labelled captures.",
        allow_abbrev=False,
    )  # fmt: skip
    _add_places(judging)
    judging.add_argument("--model", metavar="DIR|NAME", action="append", required=True,
        help="The model, or the name of a shipped model; with several, such as of other seeds, "
        "mean and spread are reported")  # fmt: skip
    judging.add_argument("--calibration", metavar="FILE.json", type=Path, help="Thresholds of "
        "`wirelens packetlog calibrate`, for the one model")  # fmt: skip
    judging.add_argument("--trained-on", metavar="DIR", type=Path, action="append", default=[],
        help="Captures to train baselines on, ports and NetBeacon, for comparison with the "
        "model")  # fmt: skip
    judging.add_argument("-o", "--output", metavar="FILE.md", type=Path, help="Write to this "
        "file [default: standard output]")  # fmt: skip
    judging.add_argument("--table", metavar="FILE.jsonl", type=Path, help="Write counts by "
        "capture, label and role")  # fmt: skip
    judging.add_argument("--plots", metavar="DIR", type=Path, help="Draw plots into DIR")
    judging.add_argument("--seed", metavar="N", type=whole(0), default=1, help="Seed of the "
        "baselines [default: 1]")  # fmt: skip
    for command in (training, judging):
        command.add_argument("-q", "--quiet", action="store_true", help="No progress")
    return top


def _keys(text: str) -> list[str]:
    keys = [key for key in text.split(",") if key]
    for key in keys:
        if key not in _KEYS:
            raise OptionError(f"--keys {key!r}; wanted: some of {', '.join(_KEYS)}")
    return keys


def train_request(asked: argparse.Namespace, typed: Sequence[str]) -> train.Request:
    """What was typed as what is asked of training."""
    return train.Request(
        places=_places(asked),
        benign=asked.benign,
        sealed=asked.sealed,
        output=asked.output,
        options=SnapshotOptions(
            source=asked.features,
            window=asked.window,
            layers=asked.layers,
            buckets=asked.buckets,
            keys=_keys(asked.keys),
            states=asked.states,
        ),
        has_ports=asked.ports,
        reuse_flows=asked.reuse_flows,
        shape=Shape(asked.trees, asked.depth, asked.columns_part),
        use=asked.use,
        by_family=asked.classes == "family",
        weights=train.WEIGHTS if asked.weight is None else (asked.weight,),
        false_alarms=asked.false_alarms,
        rows_max=asked.rows_max,
        seed=asked.seed,
        force=asked.force,
        plots=asked.plots,
        report=asked.report,
        command=f"wirelens train packetlog {shlex.join(typed)}",
        note=asked.note,
    )


def eval_request(asked: argparse.Namespace, typed: Sequence[str]) -> evaluate.Request:
    """What was typed as what is asked of an evaluation."""
    if asked.calibration is not None and len(asked.model) > 1:
        raise OptionError("--calibration: several models; wanted: one --model, which it is for")
    return evaluate.Request(
        places=_places(asked),
        benign=asked.benign,
        models=[file_of(model).parent for model in asked.model],
        trained_on=asked.trained_on,
        seed=asked.seed,
        output=asked.output,
        table=asked.table,
        plots=asked.plots,
        calibration=asked.calibration,
        command=f"wirelens eval packetlog {shlex.join(typed)}",
    )
