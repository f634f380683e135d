"""What can be typed after `wirelens eval l4s`."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wirelens.l4s import controls
from wirelens.learn.typed import Parser, positive, time_us, whole

_EXAMPLES = """Examples:
  wirelens eval l4s --controls
  wirelens eval l4s --controls --scenarios websearch --routers dualpi2,partitioned-20 --seeds 16
  wirelens eval l4s --controls --scenarios sensitivity --vary flows=10,50,100,200,500
  wirelens eval l4s --controls -o controls.md --rows controls.jsonl --plots plots

The guide is docs/guide/l4s.md."""


def parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    top = Parser(prog="wirelens", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="eval")
    judging = commands.add_parser(
        "eval", prog="wirelens eval l4s", epilog=_EXAMPLES, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compares rules that choose the L4S queue of each packet of a sender, in a "
        "simulated network.",
    )  # fmt: skip
    add = judging.add_argument
    add("--controls", action="store_true", required=True,
        help="compare controls that learn nothing: none, one that sees both queues, the last "
        "latency of each queue, and random re-marking at the same rate")  # fmt: skip
    add("--scenarios", metavar="LIST", type=_names(controls.SCENARIOS), default="websearch,greedy",
        help=f"networks: {', '.join(controls.SCENARIOS)} [default: %(default)s]")  # fmt: skip
    add("--routers", metavar="LIST", type=_names(controls.ROUTERS),
        default="dualpi2,ts-fifo,partitioned-20,partitioned-50",
        help=f"routers: {', '.join(controls.ROUTERS)} [default: %(default)s]")  # fmt: skip
    add("--vary", metavar="AXIS=LIST", type=_settings, default=(),
        help="values of one axis: queue=2,5,10,20 in bandwidth-delay products, flows=10,100,1000 "
        "of sender 1, delay=20,100,200 in ms of one direction")  # fmt: skip
    add("--seeds", metavar="N", type=whole(1, 10_000), default=8,
        help="seeds of each, from --seed on [default: 8]")  # fmt: skip
    add("--seed", metavar="N", type=whole(0), default=1, help="the first seed [default: 1]")
    add("--duration", metavar="SECONDS", type=positive, default=20.0,
        help="simulated time of each run [default: 20]")  # fmt: skip
    add("--recovery", choices=("rack", "dupacks"), default="rack",
        help="how senders find losses: as Linux does, or as ns-3 does [default: rack]")  # fmt: skip
    add("--state", metavar="TIME", type=_time, default="1ms",
        help="wait in the L4S queue from which the state-informed control leaves it "
        "[default: 1ms]")  # fmt: skip
    add("--last", metavar="TIME", type=_time, default="1ms",
        help="how much later than the classic queue's its last packet was [default: 1ms]",
        )  # fmt: skip
    add("--jobs", metavar="N", type=whole(1, 256), default=2,
        help="runs at the same time [default: 2]")  # fmt: skip
    add("-o", "--output", metavar="FILE.md", type=Path,
        help="write the table to this file [default: standard output]")  # fmt: skip
    add("--rows", metavar="FILE.jsonl", type=Path, help="write a line of JSON for each run")
    add("--plots", metavar="DIR", type=Path, help="draw controls.png in this folder")
    add("-q", "--quiet", action="store_true", help="no progress")
    return top


def request(asked: argparse.Namespace) -> controls.Request:
    """What was typed, as a request."""
    return controls.Request(
        scenarios=asked.scenarios,
        routers=asked.routers,
        seeds=range(asked.seed, asked.seed + asked.seeds),
        duration_s=asked.duration,
        recovery=asked.recovery,
        varied=asked.vary,
        state=asked.state,
        last=asked.last,
        jobs=asked.jobs,
    )


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
