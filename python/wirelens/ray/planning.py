"""How a question about capture sets is divided into tasks, whose rows are those of one run."""

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wirelens import _wirelens, questions
from wirelens.errors import OptionError
from wirelens.ray.parts import Folder
from wirelens.ray.sets import CaptureSet
from wirelens.ray.tasks import Task

# As many as there are partitions.
SHARES_MAX = 64
_SEEDS = 1 << 64


@dataclass(frozen=True)
class Division:
    """How each set is divided."""

    shares: int
    threads: int
    by_capture: bool


def refuse(arguments: Mapping[str, Any]) -> None:
    """Refuses what has no meaning for several processes.

    Raises
    ------
    OptionError
        Naming the argument.
    """
    for name in ("interface", "duration"):
        if arguments.get(name) is not None:
            raise OptionError(f"{name}: Ray reads captures; leave it out")
    if arguments.get("count") is not None:
        raise OptionError("count: tasks that run side by side have no first frames; leave it out")
    if arguments.get("share") is not None:
        raise OptionError("share: chosen for each task; give shares, their number")


def has_shares(question: str, captures: CaptureSet, arguments: Mapping[str, Any]) -> bool:
    """Whether each of several tasks may keep some of the flows of a set.

    The question is begun, so whatever is wrong with it is said here.
    """
    if question not in ("flows", "classify_flows", "latency"):
        return False
    ask = getattr(questions, question)
    try:
        ask(captures.source, share=(0, 2), **arguments).close()
    except OptionError as error:
        if not str(error).startswith("share:"):
            raise
        ask(captures.source, **arguments).close()
        return False
    return True


def divide(
    set_count: int,
    cpus: int,
    node_cpus: int,
    *,
    shareable: bool,
    threaded: bool,
    by_capture: bool,
    shares: int | None,
    threads: int | None,
) -> Division:
    """Divides sets so that every processor has work, and reads captures as rarely as possible.

    Each share of a set reads all of its captures, and each thread of a task does not: so a set that
    has several processors gets threads first, and shares where threads do not reach, which is on
    other machines.
    """
    if shares is not None and not 1 <= shares <= SHARES_MAX:
        raise OptionError(f"shares: `{shares}`: wanted 1 to {SHARES_MAX}")
    if shares is not None and shares > 1 and not shareable:
        raise OptionError(
            "shares: these rows depend on several flows at a time, so a set is one task; leave it "
            "out"
        )
    if threads is not None and not 1 <= threads <= node_cpus:
        raise OptionError(f"threads: `{threads}`: wanted 1 to {node_cpus}, those of a machine")
    if threads is not None and threads > 1 and not threaded:
        raise OptionError("threads: a task of this question uses one; leave it out")
    budget = 1 if by_capture else max(1, cpus // set_count)
    if threads is None:
        threads = 1
        if threaded:
            threads = min(budget if shares is None else max(1, budget // shares), node_cpus)
    if shares is None:
        shares = min(max(1, budget // threads), SHARES_MAX) if shareable else 1
    return Division(shares, threads, by_capture)


def chosen_seed(arguments: Mapping[str, Any], kept: Any) -> int:
    """One seed for all tasks: shares are of the same partitions, also those of a repeated task."""
    seed = arguments.get("seed")
    if seed is not None:
        return int(seed)
    return random.SystemRandom().randrange(_SEEDS) if kept is None else int(kept)


def tasks_of(
    question: str,
    arguments: Mapping[str, Any],
    sets: list[CaptureSet],
    division: Division,
    folder: Folder,
) -> Iterator[Task]:
    """The tasks, those of one set after those of the other."""
    for captures in sets:
        pieces: list[tuple[Any, Any]]
        if division.by_capture:
            pieces = [(capture.path, None) for capture in captures.captures]
        elif division.shares > 1:
            pieces = [(captures.source, (at, division.shares)) for at in range(division.shares)]
        else:
            pieces = [(captures.source, None)]
        for at, (source, share) in zip(itertools.count(), pieces, strict=False):
            yield Task(
                question=question,
                arguments=arguments,
                captures=captures,
                source=source,
                share=share,
                threads=division.threads,
                part=str(folder.part(captures.sensor, at, len(pieces))),
                version=_wirelens.__version__,
            )
