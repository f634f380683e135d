"""What a cascade is worth on traffic of others: names, right ones, foreign flows, calibration.

The same tables stand in the card and in what `wirelens eval classify` writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from wirelens.classify import calibration
from wirelens.classify.calibration import UNKNOWN
from wirelens.classify.dataset import Sample
from wirelens.classify.port_table import read_known_ports
from wirelens.classify.unknown import Answers
from wirelens.learn.metrics import Array, Interval, confusion, macro_f1
from wirelens.learn.report import table

_DRAWS = 1000
# A port from here on is one that hosts draw, not that of a service.
_DRAWN_PORT = 10_000
# Of a system that leaves a flow without a name.
_NO_NAME = -1


@dataclass(frozen=True)
class Names:
    """What a system calls some flows: a class, or none where it has no name for it."""

    system: str
    named: Array


def known_port_names(path: Path, sample: Sample, classes: Sequence[str]) -> Names:
    """What a table of generally known ports says, without any model: the server's port, else the
    client's, since of many flows the first packet that was captured is an answer.
    """
    known = read_known_ports(path, classes)
    protocols, servers, clients = (
        sample.numbers(["protocol", "server_port", "client_port"]).astype(int).T.tolist()
    )
    found = []
    for protocol, server, client in zip(protocols, servers, clients, strict=True):
        weights = known.get((protocol, server))
        if weights is None and server >= _DRAWN_PORT:
            weights = known.get((protocol, client))
        found.append(_NO_NAME if weights is None else int(weights.argmax()))
    return Names(f"table of known ports ({path.name})", numpy.array(found))


@dataclass(frozen=True)
class OpenSet:
    """Flows of known classes and foreign ones, and what is said of them."""

    truth: Array
    families: Array
    classes: list[str]
    answers: Answers

    @property
    def is_foreign(self) -> Array:
        """Flows that are of no class of the model."""
        return numpy.array([name == UNKNOWN for name in self.classes])[self.truth]

    def names(self, below: float | None = None) -> Array:
        """Classes that are told; of the best guess wherever it is at least this likely."""
        said = self.answers
        is_told = ~said.is_unknown if below is None else said.confidences >= below
        return numpy.where(is_told, said.guesses, _NO_NAME)


def _interval(families: Array, hit: Array, out_of: Array) -> Interval | None:
    """A share of flows, with its 95 % interval over families drawn with replacement; None of no
    flows.
    """
    if not out_of.any():
        return None
    _, index = numpy.unique(families, return_inverse=True)
    hits = numpy.bincount(index, weights=(hit & out_of).astype(float))
    totals = numpy.bincount(index, weights=out_of.astype(float))
    dice = numpy.random.default_rng(1)
    draws = dice.multinomial(len(hits), numpy.full(len(hits), 1 / len(hits)), size=_DRAWS)
    # A draw in which none of the flows are says nothing of them.
    draws = draws[draws @ totals > 0]
    shares = (draws @ hits) / (draws @ totals)
    low, high = numpy.percentile(shares, [2.5, 97.5])
    return Interval(float(hits.sum() / totals.sum()), float(low), float(high))


@dataclass(frozen=True)
class Worth:
    """What a system's names are worth: shares with their intervals, None where no flow counts."""

    system: str
    named: Interval | None
    right_of_named: Interval | None
    right_of_all: Interval | None
    macro_f1: float
    foreign_named: Interval | None


@dataclass(frozen=True)
class Figures:
    """How a system does on the flows of known classes, and on the others."""

    named: float
    right_of_named: float
    right_of_all: float
    foreign_named: float


def figures(one: OpenSet, named: Array) -> Figures:
    """Shares of flows."""
    own, foreign = ~one.is_foreign, one.is_foreign
    told, right = named != _NO_NAME, named == one.truth

    def share(what: Array, of: Array) -> float:
        return float((what & of).sum() / max(int(of.sum()), 1))

    return Figures(
        share(told, own), share(right, own & told), share(right, own), share(told, foreign)
    )


def _worth(one: OpenSet, names: Names) -> Worth:
    own, foreign = ~one.is_foreign, one.is_foreign
    told, right = names.named != _NO_NAME, names.named == one.truth
    return Worth(
        names.system,
        _interval(one.families, told, own),
        _interval(one.families, right, own & told),
        _interval(one.families, right, own),
        _named_f1(one, names.named),
        _interval(one.families, told, foreign),
    )


def _cells(worth: Worth) -> list[str]:
    shares = (worth.named, worth.right_of_named, worth.right_of_all, worth.foreign_named)
    named, of_named, of_all, foreign = ("–" if one is None else str(one) for one in shares)
    return [worth.system, named, of_named, of_all, f"{worth.macro_f1:.3f}", foreign]


def _named_f1(one: OpenSet, named: Array) -> float:
    """Macro-F1 over the classes that known flows have; a flow without a name is missed."""
    own, extra = ~one.is_foreign, len(one.classes)
    guessed = numpy.where(named == _NO_NAME, extra, named)[own]
    return macro_f1(confusion(one.truth[own], guessed, extra + 1))


def at_coverage(one: OpenSet, other: Array) -> tuple[float, Array]:
    """The threshold with which as many known flows get a name as `other` names, and the names."""
    own = ~one.is_foreign
    wanted = int(((other != _NO_NAME) & own).sum())
    ranked = numpy.sort(one.answers.confidences[own])[::-1]
    below = float(ranked[min(wanted, len(ranked)) - 1]) if wanted else 2.0
    return below, one.names(below)


def worths(one: OpenSet, known: Names | None) -> list[Worth]:
    """The cascade and what it is compared with."""
    found = [_worth(one, Names("this cascade", one.names()))]
    if known is not None:
        found.append(_worth(one, known))
        _, same = at_coverage(one, known.named)
        found.append(_worth(one, Names("this cascade, as many names as that table", same)))
    counts = numpy.bincount(one.truth[~one.is_foreign], minlength=len(one.classes))
    most = numpy.full(len(one.truth), int(counts.argmax()))
    found.append(_worth(one, Names(f"majority class ({one.classes[int(counts.argmax())]})", most)))
    return found


def section(one: OpenSet, below: float, why: str, judged_on: str, known: Names | None) -> str:
    """All that is said of strangers' traffic, in Markdown."""
    own = ~one.is_foreign
    rows = [_cells(worth) for worth in worths(one, known)]
    header = [
        "",
        "named [95 %]",
        "right of named",
        "right of all",
        "macro-F1",
        "foreign flows named",
    ]
    told = one.answers.confidences[own & ~one.answers.is_unknown]
    foreign_count = int(one.is_foreign.sum())
    families = len(numpy.unique(one.families))
    foreign = (
        f"{foreign_count} of them are foreign: of no class in training"
        if foreign_count
        else "None of them is foreign, that is, of no class in training, so foreign flows were not "
        "measured"
    )
    text = (
        f"## Held-out traffic\n\nOn {len(one.truth)} {judged_on}, of {families} families of "
        f"captures. {foreign}. A flow is\n`unknown` if the probability of its likeliest class is "
        f"below {below:.2f}: {why}.\nA flow of a trained class without a label counts as missed in "
        f"macro-F1 and in *right of all*.\n\n{table(header, rows)}"
    )
    if not len(told):
        return text
    return text + _calibration_text(one)


@dataclass(frozen=True)
class Calibration:
    """How far confidence can be believed: expected calibration errors, None where no flow counts,
    and how often answers of each confidence are right.
    """

    of_all: float | None
    of_names: float | None
    of_own_names: float | None
    bins: list[calibration.Bin]


def calibrated(one: OpenSet) -> Calibration:
    """Of all guesses, of the names that are shown, and of those without foreign flows."""
    is_right = one.answers.guesses == one.truth
    named = ~one.answers.is_unknown

    def error(chosen: Array) -> float | None:
        if not chosen.any():
            return None
        return calibration.expected_error(one.answers.confidences[chosen], is_right[chosen])

    return Calibration(
        error(numpy.ones(len(named), dtype=bool)),
        error(named),
        error(named & ~one.is_foreign),
        calibration.reliability(one.answers.confidences, is_right),
    )


def _calibration_text(one: OpenSet) -> str:
    found = calibrated(one)
    rows = [
        [f"{b.low:.2f} to {b.high:.2f}", str(b.flows), f"{b.confidence:.3f}", f"{b.right:.3f}"]
        for b in found.bins
    ]
    errors = (found.of_all, found.of_names, found.of_own_names)
    everything, names, own = ("–" if error is None else f"{error:.3f}" for error in errors)
    header = ["confidence of the guess", "flows", "mean", "right"]
    return (
        "\nCalibration, foreign flows counted as wrong. Expected calibration "
        f"error (ECE): {everything}\nof all guesses, {names} of the labels that are "
        f"shown, {own} of these without foreign flows.\n\n{table(header, rows)}"
    )
