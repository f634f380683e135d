"""What can be typed after `wirelens train cca` and `wirelens eval cca`."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wirelens.cca import slots
from wirelens.errors import OptionError
from wirelens.learn.typed import Parser, part, time_us, whole
from wirelens.shipped import model_folder

if TYPE_CHECKING:
    # What trains needs PyTorch; what can be typed is told without.
    from wirelens.cca import evaluate, train
    from wirelens.cca.model import Model
    from wirelens.cca.onetap import evaluate as onetap_evaluate
    from wirelens.cca.onetap import train as onetap_train

_DURATIONS = "10ms,100ms,1s,10s"

_TRAIN_EXAMPLES = """Examples:
  wirelens train cca -r testbed-runs/congestion -o models/queue
  wirelens train cca -r testbed-runs/congestion -o queue --durations 100ms --recipe paper
  wirelens train cca -r testbed/data/congestion/train -o queue --levels \\
      --inputs cbiq_bytes,ingress_bytes,egress_bytes --evaluate testbed/data/congestion/heldout
  wirelens train cca --taps 1 -r testbed/data/onetap/ns3 -o models/mine

The guide is docs/guide/cca-train.md."""

_EVAL_EXAMPLES = """Examples:
  wirelens eval cca --model models/queue -r testbed-runs/other
  wirelens eval cca --model models/queue -r testbed-runs/other --share 10%
  wirelens eval cca --model cca-onetap -r testbed/data/onetap/ns3 --held-out"""


def parser() -> argparse.ArgumentParser:
    """The parser of both commands."""
    top = Parser(prog="wirelens", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="train|eval")
    training = commands.add_parser(
        "train", prog="wirelens train cca", epilog=_TRAIN_EXAMPLES,
        description="Train a model that identifies congestion controls, for `wirelens cca`.",
        allow_abbrev=False,
    )  # fmt: skip
    judging = commands.add_parser(
        "eval", prog="wirelens eval cca", epilog=_EVAL_EXAMPLES,
        description="Evaluate a model of congestion controls on testbed runs.", allow_abbrev=False,
    )  # fmt: skip
    for command, per_flow in ((training, 60), (judging, 20)):
        add = command.add_argument
        add("-r", "--read", metavar="DIR", type=Path, action="append", required=True,
            help="Runs of the testbed's congestion scenarios, or folders of runs; for one tap "
                 "folders with captures and flows.tsv, or row files; may be given several "
                 "times, then also the same again, to count more in training")  # fmt: skip
        add("--per-flow", metavar="N", type=whole(1), default=per_flow,
            help="Intervals sampled from each flow, with two taps [default: %(default)s]",
            )  # fmt: skip
        add("--seed", metavar="N", type=whole(0), default=1,
            help="Seed of all random choices [default: 1]")  # fmt: skip
        add("-q", "--quiet", action="store_true", help="No progress")
    _add_training(training)
    judging.add_argument("--model", metavar="DIR|NAME", required=True, help="The model, or the "
        "name of a shipped model")  # fmt: skip
    judging.add_argument("--share", metavar="PART", type=part, default=1.0,
        help="Fraction of packets to use, with two taps [default: all]")  # fmt: skip
    judging.add_argument("--held-out", action="store_true", help="With one tap: only the fifth of "
        "runs that training holds out, by their names")  # fmt: skip
    judging.add_argument("-o", "--output", metavar="FILE.md", type=Path, help="Write to this "
        "file [default: standard output]")  # fmt: skip
    return top


def _add_training(training: argparse.ArgumentParser) -> None:
    add = training.add_argument
    add("-o", "--output", metavar="DIR", type=Path, required=True, help="Folder of the model to "
        "write")  # fmt: skip
    add("--taps", type=int, choices=(1, 2), default=2, help="Taps of a flow: 2 around its queue, "
        "or 1 that sees data and acknowledgements [default: 2]")  # fmt: skip
    add("--filters", metavar="N", type=whole(1), default=96, help="With one tap: filters of the "
        "network [default: 96]")  # fmt: skip
    add("--epochs", metavar="N", type=whole(1), default=40, help="With one tap: times that all "
        "flows are trained on [default: 40]")  # fmt: skip
    add("--controls", metavar="LIST", type=_listed, default=[], help="With two taps: congestion "
        "controls to identify; flows of all others are of the class `other`, which gets no name "
        "[default: each in the runs]")  # fmt: skip
    add("--durations", metavar="LIST", default=_DURATIONS, type=_times, help="Lengths of "
        "intervals, one network each; if one is longer than 1000 slots, its slots are summed into "
        "rows, and it must be a multiple of the longest of the others [default: %(default)s]",
        )  # fmt: skip
    add("--inputs", metavar="LIST", default=",".join(slots.DEFAULT_INPUTS),
        help=f"Inputs per slot: {', '.join(slots.inputs())} [default: %(default)s]",
        )  # fmt: skip
    add("--levels", action="store_true", help="Networks read, in addition to the shape of each "
        "input, its level")  # fmt: skip
    add("--queue-shares", action="store_true", help="With --levels: and the flow's share of the "
        "sum of each input over all flows")  # fmt: skip
    add("--intervals", metavar="N", type=whole(1), default=24_000, help="Maximum number of "
        "training intervals of each length [default: 24000]")  # fmt: skip
    add("--background", metavar="N", type=whole(0), default=6, help="Competing background flows "
        "of each run to train on as well [default: 6]")  # fmt: skip
    add("--votes", metavar="N", type=whole(1), default=60, help="Maximum number of consecutive "
        "intervals, of the longest duration of 1000 slots or less, that vote together [default: "
        "60]")  # fmt: skip
    add("--slot", metavar="TIME", default="1ms", type=_time, help="Length of a slot [default: 1ms]")
    add("--passed", choices=("first", "highest"), default="highest", help="Which bytes count as "
        "having passed a tap: all before the first packet of the next slot, as in the paper, or "
        "up to the highest byte seen [default: highest]")  # fmt: skip
    add("--shares", metavar="LIST", type=_shares, default=(1.0,), help="Fractions of packets to "
        "train on, with as many intervals of each: 100%%,10%%,1%% for `wirelens cca --sample` "
        "[default: all]")  # fmt: skip
    add("--recipe", choices=("paper", "faster"), default="faster", help="Training schedule: 100 "
        "epochs as in the paper, or a higher rate until held-out runs stop improving [default: "
        "faster]")  # fmt: skip
    add("--unknown-below", metavar="PART", type=part, default=0.5, help="Report no congestion "
        "control if its probability is below this [default: 0.5]")  # fmt: skip
    add("--evaluate", metavar="DIR", type=Path, action="append", default=[], help="With two taps: "
        "held-out runs, whose F1 the model card gives; may be given several times")  # fmt: skip
    add("--threads", metavar="N", type=whole(1), default=2, help="Threads to train on [default: 2]")
    add("--note", metavar="TEXT", default="", help="A paragraph for the model card")
    add("--force", action="store_true", help="Replace the model in DIR")


def _shares(text: str) -> list[float]:
    return [part(one) for one in text.split(",")]


def _time(text: str) -> str:
    time_us(text)
    return text


def _times(text: str) -> list[str]:
    return [_time(one) for one in _listed(text)]


def _listed(text: str) -> list[str]:
    """What stands between commas; of nothing the empty name, which is refused."""
    return [one for one in text.split(",") if one] or [""]


def _input_names(text: str) -> list[str]:
    names = _listed(text)
    for at, name in enumerate(names):
        if name not in slots.inputs():
            raise OptionError(f"--inputs {name!r}; wanted: some of {', '.join(slots.inputs())}")
        if name in names[:at]:
            raise OptionError(f"--inputs: {name} twice; wanted: each input once")
    return names


_OF_TWO_TAPS = (
    "durations", "inputs", "intervals", "background", "votes", "slot", "passed", "shares",
    "recipe", "unknown_below", "per_flow", "levels", "queue_shares", "evaluate", "controls",
)  # fmt: skip
_OF_ONE_TAP = ("filters", "epochs")


def _refuse(asked: argparse.Namespace, names: Sequence[str], taps: str) -> None:
    """Refuses options that have no effect: those that are not as they are unless typed."""
    known = parser().parse_args([asked.command, "-r", "DIR", *_REQUIRED[asked.command]])
    for name in names:
        if getattr(asked, name) != getattr(known, name):
            raise OptionError(f"--{name.replace('_', '-')}: has no effect on a model of {taps}")


_REQUIRED = {"train": ("-o", "DIR"), "eval": ("--model", "DIR")}


def onetap_request(asked: argparse.Namespace, typed: Sequence[str]) -> "onetap_train.Request":
    """What was typed as what is asked of training for one tap."""
    from wirelens.cca.onetap import fitting, train

    _refuse(asked, _OF_TWO_TAPS, "one tap")
    return train.Request(
        places=asked.read,
        output=asked.output,
        recipe=fitting.Recipe(
            filters=asked.filters, epochs=asked.epochs, seed=asked.seed, threads=asked.threads
        ),
        force=asked.force,
        command=f"wirelens train cca {shlex.join(_without_note(typed))}",
        note=asked.note,
    )


def _without_note(typed: Sequence[str]) -> list[str]:
    """The card has the note above the command."""
    words = list(typed)
    while "--note" in words:
        at = words.index("--note")
        del words[at : at + 2]
    return words


def train_request(asked: argparse.Namespace, typed: Sequence[str]) -> "train.Request":
    """What was typed as what is asked of training."""
    from wirelens.cca import train

    _refuse(asked, _OF_ONE_TAP, "two taps")
    return train.Request(
        places=asked.read,
        output=asked.output,
        durations=asked.durations,
        inputs=_input_names(asked.inputs),
        levels=asked.levels,
        queue_shares=asked.queue_shares,
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
        command=f"wirelens train cca {shlex.join(_without_note(typed))}",
        note=asked.note,
        controls=asked.controls,
        background_max=asked.background,
        intervals_max=asked.intervals,
        evaluated_on=asked.evaluate,
    )


def eval_model(asked: argparse.Namespace) -> "Model":
    """The model that is to be evaluated."""
    from wirelens.cca.model import MODEL_FILE
    from wirelens.cca.reading import load

    return load(model_folder(asked.model, MODEL_FILE, "wirelens train cca"))


def onetap_eval_request(asked: argparse.Namespace, model: "Model") -> "onetap_evaluate.Request":
    """What was typed as what is asked of an evaluation for one tap."""
    from wirelens.cca.onetap import evaluate
    from wirelens.cca.onetap.rows import INPUTS, ROWS_PER_RTT

    _refuse(asked, ("per_flow", "share", "seed"), "one tap")
    if tuple(model.inputs) != INPUTS or model.rows_per_rtt != ROWS_PER_RTT or not model.levels:
        raise OptionError(
            f"--model {asked.model}: inputs {', '.join(model.inputs)}, rows_per_rtt "
            f"{model.rows_per_rtt}, levels {model.levels}; wanted: a model of "
            "`wirelens train cca --taps 1`"
        )
    return evaluate.Request(model, asked.read, asked.held_out, asked.output)


def eval_request(asked: argparse.Namespace, model: "Model") -> "evaluate.Request":
    """What was typed as what is asked of an evaluation."""
    from wirelens.cca import evaluate

    _refuse(asked, ("held_out",), "two taps")
    return evaluate.Request(
        model=model,
        places=asked.read,
        per_flow=asked.per_flow,
        share=asked.share,
        seed=asked.seed,
        output=asked.output,
    )
