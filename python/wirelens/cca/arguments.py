"""What can be typed after `wirelens train cca` and `wirelens eval cca`."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wirelens.cca import slots
from wirelens.errors import OptionError
from wirelens.learn.typed import Parser, part, whole
from wirelens.shipped import model_folder

if TYPE_CHECKING:
    # What trains needs PyTorch; what can be typed is told without.
    from wirelens.cca import evaluate, train

_DURATIONS = "10ms,100ms,1s,10s"

_TRAIN_EXAMPLES = """Examples:
  wirelens train cca -r testbed-runs/congestion -o models/queue
  wirelens train cca -r testbed-runs/congestion -o queue --durations 100ms --recipe paper
  wirelens train cca -r runs -o cbiq-alone --inputs cbiq_bytes

The guide is docs/guide/cca-train.md."""

_EVAL_EXAMPLES = """Examples:
  wirelens eval cca --model models/queue -r testbed-runs/other
  wirelens eval cca --model models/queue -r testbed-runs/other --share 10%"""


def parser() -> argparse.ArgumentParser:
    """The parser of both commands."""
    raw = argparse.RawDescriptionHelpFormatter
    top = Parser(prog="wirelens", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="train|eval")
    training = commands.add_parser(
        "train", prog="wirelens train cca", epilog=_TRAIN_EXAMPLES, formatter_class=raw,
        description="Trains what `wirelens cca` names congestion controls by.", allow_abbrev=False,
    )  # fmt: skip
    judging = commands.add_parser(
        "eval", prog="wirelens eval cca", epilog=_EVAL_EXAMPLES, formatter_class=raw,
        description="Judges a model on runs of the testbed.", allow_abbrev=False,
    )  # fmt: skip
    for command in (training, judging):
        add = command.add_argument
        add("-r", "--read", metavar="DIR", type=Path, action="append", required=True,
            help="runs of the testbed's congestion scenarios, or folders of runs; may be given "
            "several times")  # fmt: skip
        add("--per-flow", metavar="N", type=whole(1), default=20,
            help="intervals drawn of each flow [default: 20]")  # fmt: skip
        add("--seed", metavar="N", type=whole(0), default=1,
            help="seed of all that is drawn [default: 1]")  # fmt: skip
        add("-q", "--quiet", action="store_true", help="no progress")
    _add_training(training)
    judging.add_argument("--model", metavar="DIR|NAME", required=True,
                         help="the model, or the name of one that ships")  # fmt: skip
    judging.add_argument("--share", metavar="PART", type=part, default=1.0,
                         help="packets that are looked at [default: all]")  # fmt: skip
    judging.add_argument("-o", "--output", metavar="FILE.md", type=Path,
                         help="write to this file [default: standard output]")  # fmt: skip
    return top


def _add_training(training: argparse.ArgumentParser) -> None:
    add = training.add_argument
    add("-o", "--output", metavar="DIR", type=Path, required=True,
        help="folder of the model to write")  # fmt: skip
    add("--durations", metavar="LIST", default=_DURATIONS,
        help="lengths of intervals, a network for each; of one of more than 1000 slots, slots are "
        "added up to rows, and it is a whole number of times as long as the longest of the others "
        "[default: %(default)s]")  # fmt: skip
    add("--inputs", metavar="LIST", default=",".join(slots.DEFAULT_INPUTS),
        help=f"what is read of each slot: {', '.join(slots.inputs())} [default: %(default)s]",
        )  # fmt: skip
    add("--intervals", metavar="N", type=whole(1), default=20_000,
        help="intervals of each length to train on at most [default: 20000]")  # fmt: skip
    add("--background", metavar="N", type=whole(0), default=6,
        help="flows of each run that are there for others to compete with and are trained on, too "
        "[default: 6]")  # fmt: skip
    add("--votes", metavar="N", type=whole(1), default=60,
        help="intervals of the longest duration of 1000 slots or less that count together at most, "
        "one after the other [default: 60]")  # fmt: skip
    add("--slot", metavar="TIME", default="1ms", help="length of a slot [default: 1ms]")
    add("--passed", choices=("first", "highest"), default="highest",
        help="what has passed a tap: all before the first packet of the next slot, as in the "
        "paper, or before the highest byte seen [default: highest]")  # fmt: skip
    add("--shares", metavar="LIST", type=_shares, default=(1.0,),
        help="packets that are looked at, as many intervals of each: 100%%,10%%,1%% for "
        "`wirelens cca --sample` [default: all]")  # fmt: skip
    add("--recipe", choices=("paper", "faster"), default="faster",
        help="how networks are trained: 100 epochs as in the paper, or at a higher rate until "
        "runs held out get no better [default: faster]")  # fmt: skip
    add("--unknown-below", metavar="PART", type=part, default=0.5,
        help="a control that is less probable is no answer [default: 0.5]")  # fmt: skip
    add("--threads", metavar="N", type=whole(1), default=2, help="threads to train on [default: 2]")
    add("--note", metavar="TEXT", default="", help="a paragraph for the card")
    add("--force", action="store_true", help="replace the model in DIR")


def _shares(text: str) -> list[float]:
    return [part(one) for one in text.split(",")]


def train_request(asked: argparse.Namespace, typed: Sequence[str]) -> "train.Request":
    """What was typed as what is asked of training."""
    from wirelens.cca import train

    inputs = [name for name in asked.inputs.split(",") if name]
    for name in inputs:
        if name not in slots.inputs():
            raise OptionError(f"--inputs {name!r}; wanted: some of {', '.join(slots.inputs())}")
    return train.Request(
        places=asked.read,
        output=asked.output,
        durations=[duration for duration in asked.durations.split(",") if duration],
        inputs=inputs,
        slot=asked.slot,
        passed=asked.passed,
        per_flow=asked.per_flow,
        recipe=asked.recipe,
        unknown_below=asked.unknown_below,
        votes=asked.votes,
        shares=asked.shares,
        seed=asked.seed,
        threads=asked.threads,
        force=asked.force,
        command=f"wirelens train cca {shlex.join(typed)}",
        note=asked.note,
        background_max=asked.background,
        intervals_max=asked.intervals,
    )


def eval_request(asked: argparse.Namespace) -> "evaluate.Request":
    """What was typed as what is asked of an evaluation."""
    from wirelens.cca import evaluate
    from wirelens.cca.model import MODEL_FILE
    from wirelens.cca.reading import load

    return evaluate.Request(
        model=load(model_folder(asked.model, MODEL_FILE, "wirelens train cca")),
        places=asked.read,
        per_flow=asked.per_flow,
        share=asked.share,
        seed=asked.seed,
        output=asked.output,
    )
