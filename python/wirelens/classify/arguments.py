"""What can be typed after `wirelens train classify` and `wirelens eval classify`."""

import argparse
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from wirelens.classify import evaluate, steps
from wirelens.classify.cascade import meant
from wirelens.classify.families import (
    DEFAULT_FAMILIES,
    FAMILY_NAMES,
    PORT_FAMILIES,
    family,
)
from wirelens.classify.memory import MemoryRule
from wirelens.classify.names import NameList
from wirelens.classify.operate import Aim
from wirelens.classify.place import STAGES, Margins
from wirelens.classify.pool import PoolSettings
from wirelens.classify.recipe import DROPPED, PORTS, Recipe
from wirelens.classify.sources import source_of
from wirelens.classify.split import parse_shares
from wirelens.classify.thresholds import ALGORITHMS, UNCERTAINTIES
from wirelens.classify.unknown import Settings
from wirelens.classify.weights import GROUPINGS, WEIGHTINGS, Groups
from wirelens.errors import OptionError
from wirelens.learn.typed import Parser, difference, part, positive, time_us, whole

# Families that look ports up.
NEED_PORTS = (*PORT_FAMILIES, "boosted-ports")
_DEPTHS = "1,2,3,5,10"
_DEPTH_MAX = 255
T = TypeVar("T")

_TRAIN_EXAMPLES = """Examples:
  wirelens train classify -r captures/ --flows flows.tsv --label app -o models/apps
  wirelens train classify --folders by-device/ -o models/devices --depths 1-10
  wirelens train classify --testbed testbed-runs/services -o models/services --plots plots
  wirelens train classify -r captures/ --flows flows.tsv -o fast --latency 5ms --force
  wirelens train classify -r captures/ --flows flows.tsv -o m --families lightgbm,port-table \\
      --set lightgbm.num_boost_round=400 --class-weights root --folds 5

Run again, it goes on where it stopped: trained models are kept in DIR.work. The guide is
docs/guide/train.md."""

_EVAL_EXAMPLES = """Examples:
  wirelens eval classify --model models/apps -r new-captures/ --flows new.tsv --label app
  wirelens eval classify --model models/services --testbed testbed-runs/other -o services.md"""


def _add_source(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "Labelled flows", "captures with a table of labels, or --folders, or --testbed"
    )
    add = group.add_argument
    add(
        "-r",
        "--read",
        metavar="FILE|DIR",
        type=Path,
        action="append",
        default=[],
        help="captures to read: files or folders; may be given several times",
    )
    add(
        "--flows",
        metavar="TABLE",
        type=Path,
        help="labels of flows: TSV, CSV or Parquet with the columns protocol, src_ip, "
        "src_port, dst_ip, dst_port, the label, and perhaps file, first_ns and last_ns; either "
        "direction matches. "
        "With file and label alone, every flow of a capture has its label; with mac and label, "
        "every flow of this unit",
    )
    add(
        "--labels-by-mac",
        metavar="TABLE",
        type=Path,
        help="labels of units, instead of --flows: a table with mac, the label, and perhaps file; "
        "the address finds the label and is no feature",
    )
    add(
        "--label",
        metavar="COLUMN",
        default="label",
        help="the column with the classes [default: label]",
    )
    add(
        "--folders",
        metavar="DIR",
        type=Path,
        help="a folder for each class, whose captures hold flows of that class alone",
    )
    add(
        "--testbed",
        metavar="DIR",
        type=Path,
        help="a run of the testbed, or a folder of runs; each run is a family",
    )
    add(
        "--family",
        metavar="COLUMN",
        help="column of TABLE, or of --manifest, that names families: captures that were made "
        "together and are never on two sides of a split [default: each capture is one]",
    )
    add(
        "--classes",
        metavar="TABLE",
        type=Path,
        help="what labels are called as classes: a table with label and class. A label A.B that "
        "is not in it is looked up as A, and is unknown if that is not in it either; the class - "
        "leaves flows out",
    )
    add("--sealed", metavar="PART", type=part, default=0.0,
        help="this part of the families of captures, by a hash of their names, trains nothing and "
        "chooses nothing; they judge in place of a test side. For eval: judge these alone")
    add("--known-ports", metavar="TABLE", type=Path,
        help="what is known of ports beforehand, for port-prior and boosted-ports, and to compare "
        "with: a table with protocol, port and class")
    add("--manifest", metavar="TABLE", type=Path,
        help="table with the column file and that of --family [default: family], or with "
        "family=NAME in the column note")  # fmt: skip


def _add_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("What models see").add_argument
    add(
        "--blocks",
        metavar="LIST",
        default="ipv4,tcp,udp",
        help="headers, out of ipv4, ipv6, tcp, udp, icmp [default: ipv4,tcp,udp]",
    )
    add(
        "--payload-bytes",
        metavar="N",
        type=whole(0, 65_535),
        default=0,
        help="bits of the first N bytes of payload [default: 0]",
    )
    add(
        "--numbers",
        metavar="LIST",
        default=",".join(Recipe().numbers),
        help="numbers beside the bits: protocol, server_port, client_port; of each packet "
        "size_bytes, direction, gap_ns, payload_bytes, byte:N for the first N of payload, "
        "byte:34-63@0-2 for these of the first three packets; or single ones such as "
        "pkt1_gap_ns; none for none [default: %(default)s]",
    )
    add("--rare", metavar="N", type=whole(0), default=0,
        help="leave out columns in which at most N training flows differ from all others "
        "[default: 0]")  # fmt: skip
    add("--no-ports", action="store_true", help="leave out all bits and numbers of ports")
    add(
        "--drop",
        metavar="PATTERN",
        action="append",
        default=[],
        help="leave out these columns as well, such as 'tcp_opt_*'; may be given several times",
    )
    add(
        "--keep",
        metavar="PATTERN",
        action="append",
        default=[],
        choices=None,
        help="keep what is left out by default: " + ", ".join(DROPPED),
    )
    add("--identity", choices=("kept", "masked"), default="kept",
        help="masked: read only fields that every unit of a product fills in alike; addresses, "
        "names, ids, random numbers and stamps are absent, in headers and payload "
        "[default: kept]")  # fmt: skip
    add("--name-protocols", action="store_true",
        help="flows that are neither TCP nor UDP are named by their IP protocol, such as icmp: no "
        "model is trained on them or asked about them")
    add("--names", metavar="TABLE", type=Path,
        help="read names that packets carry as evidence, by this list: a table with kind "
        "(protocol, label, suffix or query), value and class")
    add("--names-packets", metavar="N", type=whole(2, 255), default=10,
        help="await names for so many packets of a flow; models of one packet do not wait "
        "[default: 10]")
    add("--memory", action="store_true",
        help="remember what a host's flows were before: each flow's probabilities are multiplied "
        "by the shares of its source's verdicts")
    add("--memory-half-life", metavar="SECONDS", type=positive, default=600.0,
        help="half of what is remembered is forgotten in this time [default: 600]")  # fmt: skip
    add("--outermost", action="store_true", help="headers of tunnels, not of what is in them")
    add("--wait", metavar="SECONDS", type=positive, default=10.0,
        help="decide an undecided flow by what there is after so long [default: 10]")  # fmt: skip


def _add_pool(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("The pool").add_argument
    add(
        "--families",
        metavar="LIST",
        default=",".join(DEFAULT_FAMILIES),
        help="out of " + ", ".join(FAMILY_NAMES) + "; lightgbm/3 is of 3 packets alone "
        "[default: %(default)s]",
    )
    add("--depths", metavar="LIST", default=_DEPTHS,
        help="numbers of packets, such as 1,2,5 or 1-20 [default: %(default)s]")  # fmt: skip
    add(
        "--set",
        metavar="FAMILY.NAME=VALUE",
        action="append",
        default=[],
        help="another parameter of a family, such as lightgbm.num_boost_round=400",
    )
    add(
        "--class-weights",
        choices=WEIGHTINGS,
        default="none",
        help="none; balanced: classes weigh the same; root: half way [default: none]",
    )
    add("--group-flows", metavar="N", type=whole(0), default=0,
        help="train on at most N flows of one family of captures, class, protocol and server port, "
        "drawn [default: all]")  # fmt: skip
    add("--group-weights", choices=GROUPINGS, default="none",
        help="once: such flows weigh one together; root: half way [default: none]")  # fmt: skip
    add(
        "--split",
        metavar="A/B/C",
        default="50/10/40",
        help="parts for training, validation and test, by family [default: 50/10/40]",
    )
    add(
        "--folds",
        metavar="N",
        type=whole(0),
        default=0,
        help="choose models by N folds of training and validation flows, each scored by models "
        "of the others, and train the ones that serve on all of these [default: by validation]",
    )
    add(
        "--flows-min",
        metavar="N",
        type=whole(1),
        default=20,
        help="leave out classes with fewer flows [default: 20]",
    )
    add("--seed", metavar="N", type=whole(0), default=1,
        help="seed of all that is drawn [default: 1]")  # fmt: skip
    add("--threads", metavar="N", type=whole(1, 1024), default=1,
        help="threads of the training libraries [default: 1]")  # fmt: skip
    add("--work", metavar="DIR", type=Path,
        help="where trained models are kept for the next run [default: DIR.work]")  # fmt: skip


def _add_choice(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("Placement and operating point").add_argument
    add(
        "--latency",
        metavar="TIME",
        type=time_us,
        help="best F1 with at most this mean latency, such as 5ms or 800us",
    )
    add(
        "--service-rate",
        metavar="N",
        type=positive,
        help="best F1 with so many flows a second and core",
    )
    add("--assigned", metavar="PART", type=part,
        help="best F1 with at most this part of flows at the last stage, such as 0.2 or 20%%",
    )  # fmt: skip
    add("--f1", metavar="F1", type=part, help="fewest flows handed on with this macro-F1")
    add("--f1-margin", metavar="F1", type=difference, default=Aim().f1_margin,
        help="without any of these: fewest flows handed on with a macro-F1 at most this much "
        "below the best single model's [default: %(default)s]")  # fmt: skip
    add("--sure", metavar="PART", type=difference, default=Aim().sure,
        help="... in this part of draws of families of captures [default: %(default)s]",
    )  # fmt: skip
    add(
        "--uncertainty",
        choices=UNCERTAINTIES,
        action="append",
        help="measure of uncertainty [default: whichever assigns better]",
    )
    add(
        "--thresholds",
        choices=ALGORITHMS,
        action="append",
        help="one for all classes, or one for each [default: whichever assigns better]",
    )
    add(
        "--place",
        metavar="STAGE=FAMILY/DEPTH",
        action="append",
        default=[],
        help="stages by hand, such as fastest=decision-tree/1; may be given several times",
    )
    _add_unknown(add)
    _add_margins(add)


def _add_unknown(add: Callable[..., argparse.Action]) -> None:
    settings = Settings()
    add("--unknown-below", metavar="P", type=part,
        help="call a flow unknown where its best guess is less likely right than P [default: the "
        "least from 0.5 on that keeps the next two, on flows that chose the models]")
    add("--foreign-max", metavar="PART", type=part, default=settings.foreign_max,
        help="of flows of the class unknown, at most this part gets a name [default: %(default)s]")
    add("--named-right", metavar="PART", type=part, default=settings.right_min,
        help="of names that flows of other classes get, so many are right [default: %(default)s]")


def _add_margins(add: Callable[..., argparse.Action]) -> None:
    margins = Margins()
    add(
        "--fastest-part",
        metavar="PART",
        type=part,
        default=margins.fastest_part,
        help="the fastest model has this part of the best one-packet F1 [default: %(default)s]",
    )
    add(
        "--fastest-time",
        metavar="PART",
        type=part,
        default=margins.fastest_time,
        help="... and takes at most this part of the fast model's time [default: %(default)s]",
    )
    add(
        "--gain",
        metavar="F1",
        type=difference,
        default=margins.gain,
        help="what waiting for packets must gain [default: %(default)s]",
    )
    add("--depth-gain", metavar="F1", type=difference, default=margins.depth_gain,
        help="more packets that add less are not waited for [default: %(default)s]")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The parser of both commands."""
    raw = argparse.RawDescriptionHelpFormatter
    top = Parser(prog="wirelens", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="train|eval")
    training = commands.add_parser(
        "train", prog="wirelens train classify", epilog=_TRAIN_EXAMPLES, formatter_class=raw,
        description="Trains a cascade of models on labelled flows, for `wirelens classify`.",
        allow_abbrev=False,
    )  # fmt: skip
    _add_source(training)
    training.add_argument("-o", "--output", metavar="DIR", type=Path, required=True,
                          help="folder of the cascade to write")  # fmt: skip
    training.add_argument("--name", help="its name in verdicts [default: from DIR]")
    training.add_argument("--recipe", metavar="FILE.toml", type=Path,
                          help="options from a file; what is typed replaces them")  # fmt: skip
    training.add_argument("--note", metavar="TEXT", default="", help="a paragraph for the card")
    training.add_argument("--force", action="store_true", help="replace DIR if it is a cascade")
    training.add_argument("--report", metavar="FILE.md", type=Path, help="write all figures")
    training.add_argument("--cross-validate", metavar="N", type=whole(0), default=0,
                          help="judge this way of training instead, by N folds of families: "
                          "each is classified by a cascade trained on the others; writes the "
                          "report and no cascade, and needs the work of N trainings")  # fmt: skip
    training.add_argument("--plots", metavar="DIR", type=Path, help="draw pictures into DIR")
    _add_model(training)
    _add_pool(training)
    _add_choice(training)
    judging = commands.add_parser(
        "eval", prog="wirelens eval classify", epilog=_EVAL_EXAMPLES, formatter_class=raw,
        description="Judges a cascade on labelled flows, beside its models and a table of ports.",
        allow_abbrev=False,
    )  # fmt: skip
    _add_source(judging)
    judging.add_argument("--model", metavar="DIR|NAME", required=True,
                         help="the cascade, or the name of one that ships")  # fmt: skip
    judging.add_argument("-o", "--output", metavar="FILE.md", type=Path,
                         help="write to this file [default: standard output]")  # fmt: skip
    judging.add_argument("--rows", metavar="FILE.jsonl", type=Path, help="write figures as rows")
    judging.add_argument("--plots", metavar="DIR", type=Path, help="draw pictures into DIR")
    for command in (training, judging):
        command.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return top


def parse_depths(text: str) -> list[int]:
    """Numbers of packets: 1,2,5 or 1-20."""
    depths: set[int] = set()
    for word in text.split(","):
        first, _, last = word.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            raise OptionError(f"depths {text!r}; wanted: such as 1,2,5 or 1-20")
        depths.update(range(int(first), int(last or first) + 1))
    if not depths or min(depths) < 1 or max(depths) > _DEPTH_MAX:
        raise OptionError(f"depths {text!r}; wanted: 1 to {_DEPTH_MAX} packets")
    return sorted(depths)


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word and word != "none"]


def parse_changes(changes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parameters by family, from FAMILY.NAME=VALUE."""
    found: dict[str, dict[str, Any]] = {}
    for text in changes:
        name, equals, value = text.partition("=")
        kind, dot, parameter = name.partition(".")
        if not (equals and dot and parameter) or kind not in FAMILY_NAMES:
            raise OptionError(f"--set {text!r}; wanted: such as lightgbm.num_boost_round=400")
        found.setdefault(kind, {})[parameter] = _value(value)
    return found


def _value(text: str) -> Any:
    readers: list[Callable[[str], Any]] = [int, float]
    for read in readers:
        try:
            return read(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def parse_places(places: Sequence[str]) -> list[tuple[str, str, int]]:
    """Stages by hand, in order, from STAGE=FAMILY/DEPTH."""
    found = []
    for text in places:
        stage, _, model = text.partition("=")
        kind, _, depth = model.partition("/")
        if stage not in STAGES or kind not in FAMILY_NAMES or not depth.isdigit():
            raise OptionError(f"--place {text!r}; wanted: such as fastest=decision-tree/1")
        found.append((stage, kind, int(depth)))
    found.sort(key=lambda item: STAGES.index(item[0]))
    depths = [depth for _, _, depth in found]
    if len({stage for stage, _, _ in found}) < len(found) or depths != sorted(depths):
        raise OptionError("--place: wanted: each stage once, none with fewer packets than before")
    return found


def train_request(asked: argparse.Namespace, typed: Sequence[str]) -> steps.Request:
    """What was typed as what is asked of training."""
    kinds = _words(asked.families)
    for kind in kinds:
        name, slash, depth = kind.partition("/")
        if name not in FAMILY_NAMES:
            family(name)
        if slash and (not depth.isdigit() or int(depth) not in parse_depths(asked.depths)):
            raise OptionError(f"--families {kind}; wanted: a family, or one with one of --depths")
    kept = set(asked.keep)
    unknown = sorted(kept - set(DROPPED))
    if unknown:
        raise OptionError(f"--keep {unknown[0]!r}; wanted: one of {', '.join(DROPPED)}")
    dropped = [pattern for pattern in DROPPED if pattern not in kept] + asked.drop
    if asked.no_ports:
        dropped += PORTS
        kinds = [kind for kind in kinds if kind.partition("/")[0] not in NEED_PORTS]
    if not kinds:
        raise OptionError(f"--families: none; wanted: some of {', '.join(FAMILY_NAMES)}")
    if asked.folds == 1:
        raise OptionError("--folds 1; wanted: 2 or more")
    return steps.Request(
        source=source_of(asked),
        output=asked.output,
        name=asked.name or asked.output.resolve().name.lower().replace("_", "-"),
        pool=PoolSettings(
            kinds,
            parse_depths(asked.depths),
            asked.seed,
            asked.threads,
            asked.class_weights,
            parse_changes(asked.set),
            asked.known_ports,
            Groups(asked.group_flows, asked.group_weights),
            NameList(asked.names, asked.names_packets) if asked.names else None,
        ),
        recipe=Recipe(
            tuple(_words(asked.blocks)),
            asked.payload_bytes,
            tuple(_words(asked.numbers)),
            tuple(dropped),
            "outermost" if asked.outermost else "innermost",
            asked.rare,
            asked.identity,
        ),
        margins=Margins(asked.fastest_part, asked.fastest_time, asked.gain, asked.depth_gain),
        aim=Aim(
            asked.latency, asked.service_rate, asked.assigned, asked.f1, asked.f1_margin, asked.sure
        ),
        shares=parse_shares(asked.split),
        folds=asked.folds,
        sealed=asked.sealed,
        names_protocols=asked.name_protocols,
        unknown=Settings(asked.unknown_below, asked.foreign_max, asked.named_right),
        flows_min=asked.flows_min,
        wait_ns=round(asked.wait * 1e9),
        memory=MemoryRule(asked.memory_half_life) if asked.memory else None,
        measures=asked.uncertainty or UNCERTAINTIES,
        algorithms=asked.thresholds or ALGORITHMS,
        placed=parse_places(asked.place),
        work=asked.work,
        plots=asked.plots,
        report=asked.report,
        force=asked.force,
        command=f"wirelens train classify {shlex.join(typed)}",
        note=asked.note,
    )


def eval_request(asked: argparse.Namespace, typed: Sequence[str]) -> evaluate.Request:
    """What was typed as what is asked of an evaluation."""
    return evaluate.Request(
        source=source_of(asked),
        model=meant(asked.model),
        output=asked.output,
        rows=asked.rows,
        plots=asked.plots,
        sealed=asked.sealed,
        known_ports=asked.known_ports,
        command=f"wirelens eval classify {shlex.join(typed)}",
    )
