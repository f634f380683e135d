"""What can be typed after `wirelens train l4s` and `wirelens eval l4s`."""

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirelens.l4s import choices, controls
from wirelens.learn.typed import Parser, part, positive, time_us, whole

if TYPE_CHECKING:
    # What predicts needs numpy, which options can be listed without.
    from wirelens.l4s import predicted, train

_EXAMPLES = """Examples:
  wirelens eval l4s --controls
  wirelens eval l4s --controls --scenarios websearch --routers dualpi2,partitioned-20 --seeds 16
  wirelens eval l4s --controls --scenarios sensitivity --vary flows=10,50,100,200,500
  wirelens eval l4s --controls -o controls.md --rows controls.jsonl --plots plots
  wirelens eval l4s --controls --model models/router --routers dualpi2,partitioned-20
  wirelens eval l4s --predict testbed/data/latencies/*.parquet
  wirelens eval l4s --predict mine.parquet --predictors last-of-queue,causal --seeds 3

The guide is docs/guide/l4s.md."""


_TRAIN_EXAMPLES = """Examples:
  wirelens latency -r mine.pcapng --by packet -o mine.parquet
  wirelens train l4s -r mine.parquet -o models/mine
  wirelens train l4s -r testbed-runs/l4s-1/trace.l4s -o models/router --window 128
  wirelens train l4s -r mine.parquet -o models/full --network full --window 64

The guide is docs/guide/l4s-predict.md."""


def parser() -> argparse.ArgumentParser:
    """The parser of both commands."""
    top = Parser(prog="wirelens", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="train|eval")
    _add_training(commands.add_parser(
        "train", prog="wirelens train l4s", epilog=_TRAIN_EXAMPLES, allow_abbrev=False,
        description="Train a network that predicts the latency of a sender's next packets for "
                    "either queue of an L4S router.",
    ))  # fmt: skip
    judging = commands.add_parser(
        "eval", prog="wirelens eval l4s", epilog=_EXAMPLES, allow_abbrev=False,
        description="Compare rules that choose the L4S queue of each packet of a sender, in a "
                    "simulated network; or predictors of latencies, on traces.",
    )  # fmt: skip
    what = judging.add_mutually_exclusive_group(required=True)
    what.add_argument("--controls", action="store_true", help="Compare controls that learn "
        "nothing: none, one that sees both queues, the last latency of each queue, and random "
        "re-marking at the same rate")  # fmt: skip
    what.add_argument("--predict", metavar="TRACE", type=Path, nargs="+", help="Compare "
        "predictors of the latencies in traces of an L4S network, Parquet files of `wirelens "
        "latency --by packet`, or compact columns of the testbed")  # fmt: skip
    _add_controls(judging.add_argument_group("With --controls").add_argument)
    _add_predictors(judging.add_argument_group("With --predict").add_argument)
    add = judging.add_argument
    add("--seeds", metavar="N", type=whole(1, 10_000), default=None, help="Number of seeds per "
        "comparison, from --seed [default: 8 with --controls, 1 with --predict]")  # fmt: skip
    add("--seed", metavar="N", type=whole(0), default=1, help="The first seed [default: 1]")
    add("-o", "--output", metavar="FILE.md", type=Path, help="Write the table to this file "
        "[default: standard output]")  # fmt: skip
    add("--rows", metavar="FILE.jsonl", type=Path, help="Write a line of JSON per run; --predict "
        "continues where the file ends")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="No progress")
    return top


def _add_training(training: argparse.ArgumentParser) -> None:
    add = training.add_argument
    add("-r", "--read", metavar="TRACE", type=Path, action="append", required=True,
        help="Trace of an L4S network, Parquet file of `wirelens latency --by packet`, or "
        "compact columns of the testbed; may be given several times")  # fmt: skip
    add("-o", "--output", metavar="DIR", type=Path, required=True, help="Folder of the model to "
        "write")  # fmt: skip
    add("--network", choices=choices.NETWORKS, default="causal", help="With causal, which caches "
        "its results per packet, the model can be fine-tuned and needs no library; full "
        "(SwiftQueue's encoder) and bilstm are written as ONNX and need ONNX Runtime [default: "
        "causal]")  # fmt: skip
    add("--for", dest="goal", choices=choices.GOALS, default=choices.LATENCY,
        help="Optimise for latency, which chooses queues best, or for changes: more sharp "
        "changes of latency are predicted, and mean errors are larger [default: "
        "latency]")  # fmt: skip
    add("--head-steps", metavar="N", type=whole(1, 1_000_000), default=1_000,
        help="Training steps of the linear layers after the network's; use more for many traces "
        "of different networks [default: 1000]")  # fmt: skip
    add("--force", action="store_true", help="Replace an existing model")
    add("--note", metavar="TEXT", default="", help="A paragraph for the model card")
    add("--seed", metavar="N", type=whole(0), default=1, help="Seed of all random choices "
        "[default: 1]")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="No progress")
    _add_traces(add)


def _add_traces(add: Callable[..., Any]) -> None:
    """How traces are read, and how long networks train on them."""
    add("--latency", choices=("ack", "one-way"), default="ack", help="Latency until the "
        "acknowledgement, or until the receiver if the trace has it [default: ack]")  # fmt: skip
    add("--sender", metavar="N", type=whole(0), default=1, help="Sender whose packets are "
        "predicted, in a trace of an L4S network [default: 1]")  # fmt: skip
    add("--batch", metavar="N", type=whole(1, 1_000), default=8, help="Maximum number of packets "
        "that share a prediction [default: 8]")  # fmt: skip
    add("--batch-span", metavar="TIME", type=time_us, default=2_000.0, help="Maximum time from "
        "the first packet of a batch to its last [default: 2ms]")  # fmt: skip
    add("--window", metavar="N", type=whole(8, 4_096), default=None, help="Acknowledged packets "
        "that networks use [default: two bandwidth-delay products, from 64 to 512]")  # fmt: skip
    add("--steps", metavar="N", type=whole(1), default=3_000, help="Training steps of a network "
        "[default: 3000]")  # fmt: skip


def _add_controls(add: Callable[..., Any]) -> None:
    add("--scenarios", metavar="LIST", type=_names(controls.SCENARIOS), default="websearch,greedy",
        help=f"Networks: {', '.join(controls.SCENARIOS)} [default: %(default)s]")  # fmt: skip
    add("--routers", metavar="LIST", type=_names(controls.ROUTERS),
        default="dualpi2,ts-fifo,partitioned-20,partitioned-50",
        help=f"Routers: {', '.join(controls.ROUTERS)} [default: %(default)s]")  # fmt: skip
    add("--vary", metavar="AXIS=LIST", type=_settings, default=(), help="Values of one axis: "
        "queue=2,5,10,20 in bandwidth-delay products, flows=10,100,1000 of sender 1, "
        "delay=20,100,200 in ms of one direction")  # fmt: skip
    add("--duration", metavar="SECONDS", type=positive, default=20.0, help="Simulated time of "
        "each run [default: 20]")  # fmt: skip
    add("--recovery", choices=("rack", "dupacks"), default="rack", help="Loss detection of "
        "senders: as in Linux (rack) or as in ns-3 (dupacks) [default: rack]")  # fmt: skip
    add("--state", metavar="TIME", type=_time, default="1ms", help="Queueing delay at which the "
        "state-informed control leaves the L4S queue [default: 1ms]")  # fmt: skip
    add("--last", metavar="TIME", type=_time, default="1ms", help="Margin by which the last "
        "packet of the L4S queue was later than the classic queue's [default: 1ms]")  # fmt: skip
    add("--model", metavar="DIR", default=None, help="Also compare a model of `wirelens train "
        "l4s`: re-mark if it predicts the classic queue to be faster")  # fmt: skip
    add("--margin", metavar="TIME", type=_time, default="3ms", help="Margin by which it must be "
        "predicted to be faster [default: 3ms]")  # fmt: skip
    add("--share", metavar="PART", type=part, default=0.8, help="Maximum share of packets that a "
        "model may re-mark [default: 0.8]")  # fmt: skip
    add("--jobs", metavar="N", type=whole(1, 256), default=2, help="Parallel runs [default: "
        "2]")  # fmt: skip
    add("--plots", metavar="DIR", type=Path, help="Draw controls.png into this folder")


def _add_predictors(add: Callable[..., Any]) -> None:
    add("--predictors", metavar="LIST", type=_names(dict.fromkeys(choices.PREDICTORS)),
        default=",".join(choices.DEFAULT),
        help=f"Predictors: {', '.join(choices.PREDICTORS)}; those with -mse are trained with the "
             "mean squared error [default: %(default)s]")  # fmt: skip
    add("--train", metavar="SECONDS", type=positive, default=300.0, help="Train on this much of "
        "the beginning of a trace; its last fifth ends training [default: 300]")  # fmt: skip
    add("--every", metavar="SECONDS", type=_intervals, default="300", help="Length of each test "
        "before the next fine-tuning; several values, and 0 for tests without fine-tuning, share "
        "a training, such as 0,60,300 [default: %(default)s]")  # fmt: skip
    add("--tune", metavar="SECONDS", type=_or_none, default=60.0, help="Fine-tune before each "
        "test on this much; 0 for never [default: 60]")  # fmt: skip
    _add_traces(add)


def request(asked: argparse.Namespace) -> controls.Request:
    """What was typed, as a request."""
    return controls.Request(
        scenarios=asked.scenarios,
        routers=asked.routers,
        seeds=_seeds(asked, 8),
        duration_s=asked.duration,
        recovery=asked.recovery,
        varied=asked.vary,
        state=asked.state,
        last=asked.last,
        jobs=asked.jobs,
        model=asked.model,
        margin=asked.margin,
        share=asked.share,
    )


def training(asked: argparse.Namespace, typed: Sequence[str]) -> "train.Request":
    """What was typed of training, as a request."""
    from wirelens.l4s import train
    from wirelens.l4s.packets import Batching

    return train.Request(
        traces=asked.read,
        output=asked.output,
        window=asked.window,
        steps=asked.steps,
        seed=asked.seed,
        command=f"wirelens train l4s {shlex.join(typed)}",
        batching=Batching(asked.batch, asked.batch_span / 1_000),
        one_way=asked.latency == "one-way",
        sender=asked.sender,
        force=asked.force,
        note=asked.note,
        network=asked.network,
        goal=asked.goal,
        head_steps=asked.head_steps,
    )


def prediction(asked: argparse.Namespace) -> "predicted.Request":
    """What was typed of predictors, as a request."""
    from wirelens.l4s import predicted
    from wirelens.l4s.packets import Batching
    from wirelens.l4s.rhythm import Rhythm

    # Without fine-tuning, how long tests are does not matter.
    rhythms = [
        Rhythm(asked.train, asked.train / 5, every or 300.0, asked.tune if every else 0.0)
        for every in asked.every
    ]
    return predicted.Request(
        traces=asked.predict,
        predictors=asked.predictors,
        seeds=_seeds(asked, 1),
        rhythms=rhythms,
        batching=Batching(asked.batch, asked.batch_span / 1_000),
        window=asked.window,
        steps=asked.steps,
        one_way=asked.latency == "one-way",
        sender=asked.sender,
    )


def _seeds(asked: argparse.Namespace, default: int) -> Sequence[int]:
    return range(asked.seed, asked.seed + (asked.seeds or default))


def _intervals(text: str) -> Sequence[float]:
    return [_or_none(one) for one in text.split(",")]


def _or_none(text: str) -> float:
    return 0.0 if text == "0" else positive(text)


def _names(known: Mapping[str, object]) -> Callable[[str], Sequence[str]]:
    def read(text: str) -> Sequence[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r}; wanted: {', '.join(known)}")
        return names

    return read


def _settings(text: str) -> Sequence[controls.Setting]:
    axis, _, values = text.partition("=")
    if axis not in controls.AXES:
        raise argparse.ArgumentTypeError(f"{text!r}; wanted: {'=, '.join(controls.AXES)}=")
    read = whole(1, 5_000)
    return [controls.Setting(axis, read(value)) for value in values.split(",")]


def _time(text: str) -> str:
    return f"{round(time_us(text) * 1_000)}ns"
