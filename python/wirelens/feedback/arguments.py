"""What can be typed after `wirelens feedback`."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from wirelens.errors import OptionError
from wirelens.feedback.request import PRIVACIES, Request
from wirelens.feedback.table import COLUMNS
from wirelens.learn.typed import Parser, part, whole

FLOWS, ALIKE, CANDIDATES, BELOW = 200, 3, 100_000, 0.95
_FLOWS_MAX, _CANDIDATES_MAX = 100_000, 10_000_000
_STANDARD_INPUT = Path("-")

_EXAMPLES = """Examples:
  wirelens feedback -r captures/ --model services -n 200 -o feedback
  wirelens feedback --verdicts verdicts.parquet --model services -o feedback
  wirelens feedback -r day.pcap --model models/apps --label app --privacy full -o feedback

Fill in the column `label` of feedback/flows.tsv, then:
  wirelens train classify -r captures/ --flows feedback/flows.tsv -o models/mine

The guide is docs/guide/feedback.md."""


def parser() -> argparse.ArgumentParser:
    """The parser."""
    top = Parser(
        prog="wirelens feedback", epilog=_EXAMPLES, allow_abbrev=False,
        description="Collect the flows on which a model is least certain, of as many kinds as "
                    "possible, for labelling and training.",
    )  # fmt: skip
    add = top.add_argument_group("Verdicts", "Captures, or verdicts on flows").add_argument
    add("-r", "--read", metavar="FILE|DIR", type=Path, action="append", default=[],
        help="Captures to classify: files or folders; may be given several times")  # fmt: skip
    add("--verdicts", metavar="TABLE", type=Path, action="append", default=[], help="Verdicts "
        "that `wirelens classify` or `wirelens run` wrote, as JSON lines, CSV or Parquet; may be "
        "given several times. No packets are written then")  # fmt: skip
    add("-m", "--model", metavar="DIR|NAME", required=True, help="The model: its folder, or the "
        "name of a shipped one. Of --verdicts, rows of other models are left out")  # fmt: skip
    add = top.add_argument_group("Choice").add_argument
    add("-n", "--count", metavar="FLOWS", type=whole(1, _FLOWS_MAX), default=FLOWS,
        help="Flows to collect at most [default: %(default)s]")  # fmt: skip
    add("--below", metavar="P", type=part, default=BELOW, help="Only flows whose likeliest class "
        "is right with a probability below this [default: %(default)s]")  # fmt: skip
    add("--alike", metavar="FLOWS", type=whole(1, _FLOWS_MAX), default=ALIKE, help="At most this "
        "many flows of the same server address, protocol, port and guess [default: "
        "%(default)s]")  # fmt: skip
    add("--candidates", metavar="FLOWS", type=whole(2, _CANDIDATES_MAX), default=CANDIDATES,
        help="Flows in memory at most, about 1 kB each; at least twice --count [default: "
        "%(default)s]")  # fmt: skip
    add("--seed", metavar="N", type=whole(0), default=1, help="Seed of the choice among equally "
        "uncertain flows [default: %(default)s]")  # fmt: skip
    add = top.add_argument_group("Output").add_argument
    add("-o", "--output", metavar="DIR", type=Path, required=True, help="Folder to write: "
        "flows.tsv, feedback.md and, of captures, flows.pcapng")  # fmt: skip
    add("--privacy", choices=PRIVACIES, default=PRIVACIES[0], help="Payload in flows.pcapng: "
        "with headers, only the first bytes that the model reads, if any; with full, all of it "
        "[default: %(default)s]")  # fmt: skip
    add("--label", metavar="COLUMN", default="label", help="Name of the empty column for your "
        "labels [default: %(default)s]")  # fmt: skip
    add("--force", action="store_true", help="Replace DIR if this command wrote it, with the "
        "labels in it")  # fmt: skip
    top.add_argument("-q", "--quiet", action="store_true", help="No progress")
    return top


def request(asked: argparse.Namespace, typed: Sequence[str]) -> Request:
    """What was typed as what is asked."""
    if bool(asked.read) == bool(asked.verdicts):
        seen = "both" if asked.read else "neither"
        raise OptionError(f"-r CAPTURES, --verdicts TABLE: {seen}; wanted: one of them")
    if _STANDARD_INPUT in asked.read:
        raise OptionError("-r -: captures are read twice; wanted: files; write the input to one")
    if asked.candidates < 2 * asked.count:
        raise OptionError(
            f"--candidates {asked.candidates}; wanted: at least {2 * asked.count}, twice --count"
        )
    if not asked.label.strip() or asked.label in COLUMNS:
        raise OptionError(
            f"--label {asked.label!r}; wanted: a name that no other column has "
            f"({', '.join(COLUMNS)})"
        )
    return Request(
        read=asked.read,
        verdicts=asked.verdicts,
        model=asked.model,
        output=asked.output,
        count=asked.count,
        below=asked.below,
        alike=asked.alike,
        candidates=asked.candidates,
        seed=asked.seed,
        privacy=asked.privacy,
        label=asked.label,
        force=asked.force,
        command=f"wirelens feedback {shlex.join(typed)}",
    )
