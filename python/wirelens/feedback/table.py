"""`flows.tsv`: a row for each chosen flow, for a person to label and for training to read."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from wirelens.feedback.choice import Candidates
from wirelens.feedback.verdicts import Verdict

# Those before the label are what training finds a flow by. A row is for the flow that began at
# this time: both bounds are the same.
_FOUND_BY = ("protocol", "src_ip", "src_port", "dst_ip", "dst_port", "first_ns", "last_ns")
_ABOUT = (
    "guess", "probability", "verdict", "stage", "packets_used", "cause", "alike", "row", "source",
    "community_id", "model",
)  # fmt: skip
COLUMNS = (*_FOUND_BY, *_ABOUT)


def sources_of(captures: Sequence[str]) -> dict[str, str]:
    """For each capture the end of its path that no other one has."""
    paths = {capture: PurePath(capture).parts for capture in captures}
    ends: dict[tuple[str, ...], int] = {}
    for parts in paths.values():
        for length in range(1, len(parts) + 1):
            ends[parts[-length:]] = ends.get(parts[-length:], 0) + 1
    found = {}
    for capture, parts in paths.items():
        lengths = range(1, len(parts) + 1)
        length = next((one for one in lengths if ends[parts[-one:]] == 1), len(parts))
        found[capture] = str(PurePath(*parts[-length:]))
    return found


def table(
    chosen: Sequence[Verdict], candidates: Candidates, sources: Mapping[str, str], label: str
) -> str:
    """The table as text."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow([*_FOUND_BY, label, *_ABOUT])
    for row, verdict in enumerate(chosen, start=1):
        first_ns = "" if verdict.first_ns is None else verdict.first_ns
        writer.writerow(
            [
                verdict.protocol, verdict.src_ip, verdict.src_port, verdict.dst_ip,
                verdict.dst_port, first_ns, first_ns, "", verdict.guess,
                f"{verdict.guess_confidence:.4f}", verdict.label, verdict.stage,
                verdict.packets_used, verdict.cause, candidates.alike_count(verdict), row,
                sources.get(verdict.capture or "", verdict.capture or ""), verdict.community_id,
                verdict.model,
            ]
        )  # fmt: skip
    return out.getvalue()
