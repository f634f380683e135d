"""Collects the flows that are most worth a label, and writes them into a folder."""

import contextlib
import shlex
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from wirelens import written
from wirelens.errors import CaptureWarning, OptionError, OutputExistsError
from wirelens.feedback import card, excerpt
from wirelens.feedback.choice import Candidates
from wirelens.feedback.excerpt import Excerpt
from wirelens.feedback.model import ModelNeeds, read_needs
from wirelens.feedback.request import FULL, Request
from wirelens.feedback.table import sources_of, table
from wirelens.feedback.verdicts import Reading, Verdict, of_captures, of_tables
from wirelens.found import readable_captures
from wirelens.learn.progress import Progress

TABLE_FILE, CARD_FILE, PACKETS_FILE = "flows.tsv", "feedback.md", "flows.pcapng"
_SHOWN_EVERY = 4096


def collect(request: Request, progress: Progress) -> str:
    """Writes the folder; a line about it."""
    check_free(request.output, request.force)
    written.check(request.output)
    needs = read_needs(request.model)
    with _warnings_shown(progress):
        captures = _captures(request)
        reading, candidates = _read(request, needs, captures, progress)
        chosen = candidates.chosen(request.count)
        _check_read(request, needs, reading)
        if len(chosen) < request.count:
            progress.tell(
                f"{len(chosen)} of {request.count} flows: there are no more whose guess is right "
                f"with a probability below {request.below:g}, {request.alike} of a kind"
            )
        if not chosen:
            progress.finish()
            return f"no uncertain flow in {reading.seen}; nothing was written"
        with written.folder(request.output, 0o700) as partial:
            found = None
            if request.read:
                found = _write_packets(request, needs, chosen, partial / PACKETS_FILE, progress)
            evidence = card.Evidence(
                request, needs, reading, candidates, chosen, found, training_lines(request)
            )
            known = captures or list({verdict.capture or "" for verdict in chosen} - {""})
            rows = table(chosen, candidates, sources_of(known), request.label)
            for name, text in ((TABLE_FILE, rows), (CARD_FILE, card.text(evidence))):
                with written.private(partial / name) as file:
                    file.write(text.encode("utf-8", "surrogateescape"))
    progress.finish()
    return (
        f"{request.output}: {len(chosen)} flows of {candidates.group_count} groups, out of "
        f"{candidates.seen} uncertain ones of {reading.seen}"
    )


def _captures(request: Request) -> list[str]:
    """The captures that are read."""
    if not request.read:
        return []
    return readable_captures(request.read, stacklevel=2)


def check_free(folder: Path, force: bool) -> None:
    """Refuses a folder that is there, which may hold labels."""
    if not folder.exists():
        return
    if not (folder / CARD_FILE).is_file():
        raise OutputExistsError(
            f"{folder}: exists and was not written by `wirelens feedback`; wanted: a new name"
        )
    if not force:
        raise OutputExistsError(
            f"{folder}: exists; give another name, or --force to replace it with its labels"
        )


def training_lines(request: Request) -> list[str]:
    """The commands that train with the labels."""
    captures = "".join(f" -r {shlex.quote(str(path))}" for path in request.read) or " -r CAPTURES"
    label = "" if request.label == "label" else f" --label {shlex.quote(request.label)}"
    labels = f"--flows {shlex.quote(str(request.output / TABLE_FILE))}{label}"
    return [
        f"wirelens train classify{captures} {labels} -o MODEL",
        f"wirelens train classify -r YOURS{captures} --flows YOURS.tsv {labels} -o MODEL",
    ]


@contextlib.contextmanager
def _warnings_shown(progress: Progress) -> Iterator[None]:
    """Warnings of captures become lines of the command's, each once."""
    shown = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            progress.warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", CaptureWarning)
        warnings.showwarning = show
        yield


def _read(
    request: Request, needs: ModelNeeds, captures: Sequence[str], progress: Progress
) -> tuple[Reading, Candidates]:
    """Reads all verdicts, of which the candidates are kept."""
    candidates = Candidates(request.candidates, request.alike, request.seed)
    if request.read:
        progress.tell(f"classifying {_listed(captures, 'captures')} with {needs.identity}")
        reading = Reading(of_captures(request.read, request.model))
    else:
        reading = Reading(of_tables(request.verdicts))
        progress.tell(f"reading {_listed(request.verdicts, 'tables of verdicts')}")
    # A single capture is not named in its verdicts.
    alone = captures[0] if len(captures) == 1 else None
    for verdict in reading.asked(None if request.read else needs.identity):
        if verdict.guess_confidence < request.below:
            candidates.add(verdict if alone is None else verdict._replace(capture=alone))
        if reading.seen % _SHOWN_EVERY == 0:
            kept = min(len(candidates), request.count)
            progress.show(kept, request.count, f"flows, {reading.seen} verdicts read")
    return reading, candidates


def _listed(paths: Sequence[str | Path], what: str) -> str:
    """One by its name, more by their number."""
    return str(paths[0]) if len(paths) == 1 else f"{len(paths)} {what}"


def _check_read(request: Request, needs: ModelNeeds, reading: Reading) -> None:
    """Refuses inputs in which there is nothing that the model was asked about."""
    where = ", ".join(str(path) for path in request.read or request.verdicts)
    if reading.seen == 0:
        raise OptionError(f"{where}: no flows; wanted: flows on which the model gave verdicts")
    if reading.foreign == reading.seen:
        raise OptionError(
            f"{where}: no verdict of {needs.identity} ({reading.foreign} of other models or other "
            "versions of it); give the --model that wrote the table"
        )


def _write_packets(
    request: Request,
    needs: ModelNeeds,
    chosen: Sequence[Verdict],
    path: Path,
    progress: Progress,
) -> Excerpt:
    progress.tell(f"reading packets of {len(chosen)} flows")
    found = Excerpt()
    payload_bytes = None if request.privacy == FULL else needs.payload_bytes
    for found in excerpt.write(path, request.read, chosen, needs, payload_bytes):
        progress.show(found.flows, len(chosen), "flows found")
    return found
