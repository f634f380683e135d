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
_NAMES_PACKETS = 10
T = TypeVar("T")

_TRAIN_EXAMPLES = """Examples:
  wirelens train classify -r captures/ --flows flows.tsv --label app -o models/apps
  wirelens train classify --folders by-device/ -o models/devices --depths 1-10
  wirelens train classify --testbed testbed-runs/services -o models/services --plots plots
  wirelens train classify -r captures/ --flows flows.tsv -o fast --latency 5ms --force
  wirelens train classify -r captures/ --flows flows.tsv -o m --families lightgbm,port-table \\
      --set lightgbm.num_boost_round=400 --class-weights root --folds 5

Run again, it continues where it stopped: trained models are kept in DIR.work. The guide is
docs/guide/train.md."""

_EVAL_EXAMPLES = """Examples:
  wirelens eval classify --model models/apps -r new-captures/ --flows new.tsv --label app
  wirelens eval classify --model models/services --testbed testbed-runs/other -o services.md"""


def _add_source(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "Labelled flows", "Captures with a table of labels, or --folders, or --testbed"
    )
    add = group.add_argument
    add("-r", "--read", metavar="FILE|DIR", type=Path, action="append", default=[],
        help="Captures to read: files or folders; may be given several times")  # fmt: skip
    add("--flows", metavar="TABLE", type=Path, action="append", default=[], help="Flow labels: "
        "TSV, CSV or Parquet with the columns protocol, src_ip, src_port, dst_ip, dst_port, the "
        "label and, optionally, file, first_ns and last_ns; either direction matches. With only "
        "file and label, every flow of a capture has its label; with mac and label, every flow of "
        "this device. May be given several times, such as with a table of `wirelens "
        "feedback`")  # fmt: skip
    add("--labels-by-mac", metavar="TABLE", type=Path, help="Device labels, instead of --flows: "
        "a table with mac, the label and, optionally, file; the MAC address finds the label and "
        "is not a feature")  # fmt: skip
    add("--label", metavar="COLUMN", default="label", help="Column with the classes [default: "
        "label]")  # fmt: skip
    add("--folders", metavar="DIR", type=Path, help="Folder with one subfolder per class, whose "
        "captures contain only flows of that class")  # fmt: skip
    add("--testbed", metavar="DIR", type=Path, help="A testbed run, or a folder of runs; each "
        "run is a family")  # fmt: skip
    add("--family", metavar="COLUMN", help="Column of TABLE, or of --manifest, that names "
        "families: captures made together, which are never on two sides of a split [default: "
        "each capture is one]")  # fmt: skip
    add("--classes", metavar="TABLE", type=Path, help="Map labels to classes: a table with label "
        "and class. A label A.B that is not in it is looked up as A, and is unknown if A is not "
        "in it either; the class - leaves flows out")  # fmt: skip
    add("--sealed", metavar="PART", type=part, default=0.0, help="Set aside this fraction of "
        "capture families, by a hash of their names: they are not used for training or model "
        "selection and replace the test set. For eval: evaluate only these")  # fmt: skip
    add("--known-ports", metavar="TABLE", type=Path, help="Prior knowledge of ports, for "
        "port-prior and boosted-ports, and as a baseline: a table with protocol, port and "
        "class")  # fmt: skip
    add("--manifest", metavar="TABLE", type=Path, help="Table with the columns file and --family "
        "[default: family], or with family=NAME in the column note")  # fmt: skip


def _add_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("Features").add_argument
    add("--blocks", metavar="LIST", default="ipv4,tcp,udp", help="Headers to use as features: "
        "some of ipv4, ipv6, tcp, udp, icmp [default: ipv4,tcp,udp]")  # fmt: skip
    add("--payload-bytes", metavar="N", type=whole(0, 65_535), default=0, help="Use the bits of "
        "the first N bytes of payload [default: 0]")  # fmt: skip
    add("--numbers", metavar="LIST", default=",".join(Recipe().numbers), help="Numeric features "
        "in addition to the bits: protocol, server_port, client_port; of each packet size_bytes, "
        "direction, gap_ns, payload_bytes, byte:N for the first N of payload, byte:34-63@0-2 for "
        "these of the first three packets; or single ones such as pkt1_gap_ns; none for none "
        "[default: %(default)s]")  # fmt: skip
    add("--rare", metavar="N", type=whole(0), default=0, help="Exclude columns in which at most "
        "N training flows differ from all others [default: 0]")  # fmt: skip
    add("--no-ports", action="store_true", help="Exclude all bits and numbers of ports")
    add("--drop", metavar="PATTERN", action="append", default=[], help="Also exclude these "
        "columns, such as 'tcp_opt_*'; may be given several times")  # fmt: skip
    add(
        "--keep",
        metavar="PATTERN",
        action="append",
        default=[],
        choices=None,
        help="Keep columns that are excluded by default: " + ", ".join(DROPPED),
    )
    add("--identity", choices=("kept", "masked"), default="kept", help="With masked, read only "
        "fields that every device of a product fills in alike; addresses, names, IDs, random "
        "numbers and timestamps are absent, in headers and payload [default: kept]")  # fmt: skip
    add("--name-protocols", action="store_true", help="Label flows that are neither TCP nor UDP "
        "by their IP protocol, such as icmp: no model is trained on them or used for "
        "them")  # fmt: skip
    add("--names", metavar="TABLE", type=Path, help="Use names in packets as evidence, by this "
        "list: a table with kind (protocol, label, suffix or query), value and class")  # fmt: skip
    add("--names-packets", metavar="N", type=whole(2, 255), help="Wait for names for "
        "up to this many packets of a flow; models of one packet do not wait [default: "
        "10]")  # fmt: skip
    add("--memory", action="store_true", help="Remember the previous flows of each host: the "
        "probabilities of a flow are multiplied by the class shares of its source's "
        "verdicts")  # fmt: skip
    add("--memory-half-life", metavar="SECONDS", type=positive,
        help="Half-life of the host memory [default: 600]")  # fmt: skip
    add("--outermost", action="store_true", help="Use the outermost headers of tunnels, not the "
        "decapsulated ones")  # fmt: skip
    add("--wait", metavar="SECONDS", type=positive, default=10.0, help="Decide an undecided flow "
        "after this time with the packets received so far [default: 10]")  # fmt: skip


def _add_pool(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("Model pool").add_argument
    add(
        "--families",
        metavar="LIST",
        default=",".join(DEFAULT_FAMILIES),
        help="Model families: " + ", ".join(FAMILY_NAMES) + "; lightgbm/3 reads only 3 packets "
        "[default: %(default)s]",
    )
    add("--depths", metavar="LIST", default=_DEPTHS, help="Numbers of packets, such as 1,2,5 or "
        "1-20 [default: %(default)s]")  # fmt: skip
    add("--set", metavar="FAMILY.NAME=VALUE", action="append", default=[], help="Set another "
        "parameter of a family, such as lightgbm.num_boost_round=400")  # fmt: skip
    add("--class-weights", choices=WEIGHTINGS, default="none", help="With balanced, all classes "
        "have the same weight; root is half way [default: none]")  # fmt: skip
    add("--group-flows", metavar="N", type=whole(0), default=0, help="Train on at most N flows, "
        "sampled at random, of one family of captures, class, protocol and server port [default: "
        "all]")  # fmt: skip
    add("--group-weights", choices=GROUPINGS, default="none", help="With once, such flows "
        "together have the weight of one; root is half way [default: none]")  # fmt: skip
    add("--split", metavar="A/B/C", default="50/10/40", help="Shares for training, validation "
        "and test, by family [default: 50/10/40]")  # fmt: skip
    add("--folds", metavar="N", type=whole(0), default=0, help="Select models by "
        "cross-validation with N folds of training and validation flows, and train the selected "
        "ones on all of these [default: by validation]")  # fmt: skip
    add("--flows-min", metavar="N", type=whole(1), default=20, help="Exclude classes with fewer "
        "flows [default: 20]")  # fmt: skip
    add("--seed", metavar="N", type=whole(0), default=1, help="Seed of all random choices "
        "[default: 1]")  # fmt: skip
    add("--threads", metavar="N", type=whole(1, 1024), default=1, help="Threads of the training "
        "libraries [default: 1]")  # fmt: skip
    add("--work", metavar="DIR", type=Path, help="Folder for trained models, reused by the next "
        "run [default: DIR.work]")  # fmt: skip


def _add_choice(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("Placement and operating point").add_argument
    add("--latency", metavar="TIME", type=time_us, help="Maximise F1 with at most this mean "
        "latency, such as 5ms or 800us")  # fmt: skip
    add("--service-rate", metavar="N", type=positive, help="Maximise F1 with at least this many "
        "flows per second and core")  # fmt: skip
    add("--assigned", metavar="PART", type=part, help="Maximise F1 with at most this fraction of "
        "flows at the last stage, such as 0.2 or 20%%")  # fmt: skip
    add("--f1", metavar="F1", type=part, help="Minimise the flows passed to the next stage, with "
        "this macro-F1")  # fmt: skip
    add("--f1-margin", metavar="F1", type=difference, default=Aim().f1_margin,
        help="Without any of these: minimise the flows passed to the next stage, with a macro-F1 "
        "at most this much below that of the best single model [default: %(default)s]")  # fmt: skip
    add("--sure", metavar="PART", type=difference, default=Aim().sure, help="... in this "
        "fraction of random samples of capture families [default: %(default)s]")  # fmt: skip
    add("--uncertainty", choices=UNCERTAINTIES, action="append", help="Measure of uncertainty "
        "[default: whichever assigns better]")  # fmt: skip
    add("--thresholds", choices=ALGORITHMS, action="append", help="One threshold for all "
        "classes, or one per class [default: whichever assigns better]")  # fmt: skip
    add("--place", metavar="STAGE=FAMILY/DEPTH", action="append", default=[],
        help="Place a stage by hand, such as fastest=decision-tree/1; may be given several "
        "times")  # fmt: skip
    _add_unknown(add)
    _add_margins(add)


def _add_unknown(add: Callable[..., argparse.Action]) -> None:
    settings = Settings()
    add("--unknown-below", metavar="P", type=part, help="Label a flow unknown if the probability "
        "of its likeliest class is below P [default: the smallest from 0.5 that satisfies the "
        "next two options, on the flows that selected the models]")  # fmt: skip
    add("--foreign-max", metavar="PART", type=part, default=settings.foreign_max,
        help="Maximum fraction of flows of the class unknown that get a label [default: "
        "%(default)s]")  # fmt: skip
    add("--named-right", metavar="PART", type=part, default=settings.right_min,
        help="Minimum precision of the labels of all other flows [default: "
        "%(default)s]")  # fmt: skip


def _add_margins(add: Callable[..., argparse.Action]) -> None:
    margins = Margins()
    add("--fastest-part", metavar="PART", type=part, default=margins.fastest_part,
        help="Minimum F1 of the fastest model, as a fraction of the best one-packet F1 [default: "
        "%(default)s]")  # fmt: skip
    add("--fastest-time", metavar="PART", type=part, default=margins.fastest_time,
        help="... and its maximum time, as a fraction of the fast model's [default: "
        "%(default)s]")  # fmt: skip
    add("--gain", metavar="F1", type=difference, default=margins.gain, help="Minimum F1 gain of "
        "waiting for packets [default: %(default)s]")  # fmt: skip
    add("--depth-gain", metavar="F1", type=difference, default=margins.depth_gain,
        help="Do not wait for further packets that gain less F1 than this [default: "
        "%(default)s]")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The parser of both commands."""
    top = Parser(prog="wirelens", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="train|eval")
    training = commands.add_parser(
        "train", prog="wirelens train classify", epilog=_TRAIN_EXAMPLES,
        description="Train a cascade of models on labelled flows, for `wirelens classify`.",
        allow_abbrev=False,
    )  # fmt: skip
    _add_source(training)
    training.add_argument("-o", "--output", metavar="DIR", type=Path, required=True,
        help="Folder of the cascade to write")  # fmt: skip
    training.add_argument("--name", help="Name of the cascade in verdicts [default: from DIR]")
    training.add_argument("--recipe", metavar="FILE.toml", type=Path, help="Read options from "
        "this file; options on the command line override them")  # fmt: skip
    training.add_argument("--note", metavar="TEXT", default="", help="A paragraph for the model "
        "card")  # fmt: skip
    training.add_argument("--force", action="store_true", help="Replace DIR if it is a cascade")
    training.add_argument("--report", metavar="FILE.md", type=Path, help="Write all figures to "
        "this file")  # fmt: skip
    training.add_argument("--cross-validate", metavar="N", type=whole(0), default=0,
        help="Evaluate this training procedure by cross-validation instead, with N folds of "
        "families: each is classified by a cascade trained on the others; writes the report and "
        "no cascade, and takes the time of N trainings")  # fmt: skip
    training.add_argument("--plots", metavar="DIR", type=Path, help="Draw plots into DIR")
    _add_model(training)
    _add_pool(training)
    _add_choice(training)
    judging = commands.add_parser(
        "eval", prog="wirelens eval classify", epilog=_EVAL_EXAMPLES,
        description="Evaluate a cascade on labelled flows, compared with its single models and "
                    "a table of ports.",
        allow_abbrev=False,
    )  # fmt: skip
    _add_source(judging)
    judging.add_argument("--model", metavar="DIR|NAME", required=True, help="The cascade, or the "
        "name of a shipped model")  # fmt: skip
    judging.add_argument("-o", "--output", metavar="FILE.md", type=Path, help="Write to this "
        "file [default: standard output]")  # fmt: skip
    judging.add_argument("--rows", metavar="FILE.jsonl", type=Path, help="Write figures as JSON "
        "lines")  # fmt: skip
    judging.add_argument("--plots", metavar="DIR", type=Path, help="Draw plots into DIR")
    for command in (training, judging):
        command.add_argument("-q", "--quiet", action="store_true", help="No progress")
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


def _check_dependents(asked: argparse.Namespace) -> None:
    """Refuses options that have no effect without another one."""
    if asked.memory_half_life is not None and not asked.memory:
        raise OptionError("--memory-half-life: hosts are not in memory; wanted: --memory with it")
    if asked.names_packets is not None and asked.names is None:
        raise OptionError("--names-packets: names are not read; wanted: --names TABLE with it")


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
    _check_dependents(asked)
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
            NameList(asked.names, asked.names_packets or _NAMES_PACKETS) if asked.names else None,
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
        memory=MemoryRule(asked.memory_half_life or MemoryRule.half_life_s)
        if asked.memory
        else None,
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
