"""What is told of judges of packets: tables in Markdown."""

from collections.abc import Sequence
from typing import Any

import numpy

from wirelens.learn.report import table
from wirelens.packetlog import measure
from wirelens.packetlog.measure import MODES, RARE, Part
from wirelens.packetlog.model import Model
from wirelens.packetlog.truth import BENIGN

WANTED = 0.85


def text(
    command: str,
    made: Sequence[Part],
    models: dict[str, Model],
    judges: Sequence[str],
    told: dict[str, Any],
) -> str:
    """All of it."""
    names = list(models)
    found = [f"# {', '.join(names)}\n"]
    if command:
        found.append(f"```console\n$ {command}\n```\n")
    found.append(_about(made))
    found.append(_judges(made, names, judges))
    for name, facts in told.items():
        shown = ", ".join(f"{key} {_short(value)}" for key, value in facts.items())
        found.append(f"{name}: {shown}.\n")
    if any(part.label != BENIGN for part in made):
        found.append(f"## Attacks\n\n{_attacks(made, names, judges)}")
        found.append(f"## Families of attacks\n\n{_families(made, names, judges)}")
    found.append(f"## What is kept\n\n{_kept(made, names, judges)}")
    found.append(f"## Benign captures\n\n{_benign(made, names, judges)}")
    return "\n".join(found)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _about(made: Sequence[Part]) -> str:
    packets = sum(part.packets for part in made)
    size = sum(part.bytes for part in made)
    anomalous = sum(part.packets for part in made if part.label != BENIGN)
    anomalous_size = sum(part.bytes for part in made if part.label != BENIGN)
    captures = len({part.capture for part in made})
    return (
        f"{packets} packets of {captures} captures, {size / 1e6:.1f} MB; {anomalous / packets:.1%} "
        f"of packets and {anomalous_size / max(size, 1):.1%} of bytes are anomalous. Precision is "
        f"of these; beside it what it were if {RARE:.0%} of packets were anomalous. A recall is the "
        "part of an attack's packets, both directions, that is marked. Intercepted packets are left "
        "out.\n"
    )


def _spread(values: Sequence[float], form: str = ".3f") -> str:
    middle = f"{numpy.mean(values):{form}}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):{form}}–{max(values):{form}})"


def _lines(names: Sequence[str], judges: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Rows of tables: models together where there are several, then each other judge."""
    first = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} other"
    return [(first, list(names)), *((name, [name]) for name in judges if name not in names)]


def _judges(made: Sequence[Part], names: Sequence[str], judges: Sequence[str]) -> str:
    lines = []
    for shown, some in _lines(names, judges):
        found = [measure.quality(made, name) for name in some]
        attacks = len(found[0].recalls)
        lines.append([
            shown,
            _spread([one.mean_recall for one in found]),
            "/".join(str(one.found(WANTED)) for one in found) + f" of {attacks}",
            _spread([one.recall for one in found]),
            _spread([one.precision for one in found]),
            _spread([one.precision_if_rare for one in found]),
            _spread([one.accuracy for one in found]),
            _spread([one.false_alarms for one in found], ".2%"),
            _spread([one.false_alarms_by_family for one in found], ".2%"),
        ])  # fmt: skip
    header = ["", "mean recall of attacks", f"attacks ≥ {WANTED}", "recall of packets", "precision",
              f"precision at {RARE:.0%}", "accuracy", "benign marked",
              "mean over families"]  # fmt: skip
    return table(header, lines)


def _attacks(made: Sequence[Part], names: Sequence[str], judges: Sequence[str]) -> str:
    attacks = [part for part in made if part.label != BENIGN]
    others = [name for name in judges if name not in names and name != "everything"]
    roles = sorted({part.role for part in attacks})
    lines = []
    for label, mine in measure.by(attacks, lambda part: part.label).items():
        found = [measure.quality(mine, name).recalls[label] for name in names]
        line = [label, str(sum(part.packets for part in mine)), _spread(found)]
        for role in roles if len(roles) > 1 else []:
            of_role = [part for part in mine if part.role == role]
            line.append(
                _spread([measure.quality(of_role, name).recall for name in names[:1]])
                if of_role else ""
            )  # fmt: skip
        line += [f"{measure.quality(mine, name).recall:.3f}" for name in others]
        lines.append(line)
    header = ["attack", "packets", "recall"]
    header += [f"of {role}" for role in roles] if len(roles) > 1 else []
    return table(header + others, lines)


def _families(made: Sequence[Part], names: Sequence[str], judges: Sequence[str]) -> str:
    """Each family amid all benign packets: precision, recall and accuracy as the paper has them."""
    benign = [part for part in made if part.label == BENIGN]
    kinds = measure.by([part for part in made if part.label != BENIGN], lambda part: part.kind)
    shown = [line for line in _lines(names, judges) if line[0] != "everything"]
    lines = []
    for kind, mine in kinds.items():
        line = [kind]
        share = sum(part.packets for part in mine) / sum(part.packets for part in benign + mine)
        line.append(f"{share:.1%}")
        for _, some in shown:
            found = [measure.quality([*benign, *mine], name) for name in some]
            line.append(
                " / ".join(
                    f"{numpy.mean([getattr(one, what) for one in found]):.3f}"
                    for what in ("precision", "recall", "accuracy")
                )
            )
        lines.append(line)
    return (
        table(["family", "anomalous", *(name for name, _ in shown)], lines)
        + "\nPrecision / recall / accuracy of packets, of one family and all benign packets.\n"
    )


def _kept(made: Sequence[Part], names: Sequence[str], judges: Sequence[str]) -> str:
    lines = []
    for shown, some in _lines(names, judges):
        for unit, which in (("packets", 0), ("bytes", 1)):
            line = [shown, unit]
            for mode in MODES:
                line.append(
                    _spread([measure.kept(made, name, mode)[which] for name in some], ".1%")
                )
            lines.append(line)
    return (
        table(["", "part of", *MODES], lines, 2)
        + "\nBytes of packets; what a file adds to each packet is not counted.\n"
    )


def _benign(made: Sequence[Part], names: Sequence[str], judges: Sequence[str]) -> str:
    benign = measure.by([part for part in made if part.label == BENIGN], _group)
    others = [name for name in judges if name not in names and name != "everything"]
    lines = [
        [group, str(len(mine)), str(sum(part.packets for part in mine)),
         _spread([measure.quality(mine, name).false_alarms for name in names], ".2%"),
         *(f"{measure.quality(mine, name).false_alarms:.2%}" for name in others)]
        for group, mine in benign.items()
    ]  # fmt: skip
    return table(["captures of", "captures", "packets", "marked", *others], lines)


def _group(part: Part) -> str:
    return part.family.partition("/")[0]
