"""`feedback.md`: what was collected, how it was chosen, and what to do with it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wirelens.feedback.choice import Candidates
from wirelens.feedback.excerpt import Excerpt
from wirelens.feedback.model import ModelNeeds
from wirelens.feedback.request import FULL, Request
from wirelens.feedback.verdicts import Reading, Verdict

_GROUPS_SHOWN = 20


@dataclass(frozen=True)
class Evidence:
    """What the card is about."""

    request: Request
    needs: ModelNeeds
    reading: Reading
    candidates: Candidates
    chosen: Sequence[Verdict]
    # None where no packets were written.
    packets: Excerpt | None
    training: Sequence[str]


def text(about: Evidence) -> str:
    """The card."""
    parts = (_head(about), _next(about), _counts(about), _choice(about), _privacy(about))
    return "\n".join("\n".join(part) + "\n" for part in parts)


def _head(about: Evidence) -> list[str]:
    return [
        "# Flows to label",
        "",
        f"{len(about.chosen)} flows on which `{about.needs.identity}` is uncertain, of "
        f"{about.candidates.group_count} groups. Written by:",
        "",
        f"    {about.request.command}",
    ]


def _next(about: Evidence) -> list[str]:
    request = about.request
    lines = [
        "## What to do next",
        "",
        f"1. Fill in the column `{request.label}` of `flows.tsv`: the class of each flow. Leave it "
        "empty where you do not know; training counts such rows and leaves them out.",
    ]
    if about.packets is not None:
        lines.append(
            "   `flows.pcapng` has the first packets of each flow; the comment of the first one "
            "has the row (`frame.comment` in Wireshark)."
        )
    return [
        *lines,
        "2. Train, alone or together with flows that you labelled before:",
        "",
        *(f"       {line}" for line in about.training),
        "",
        "   A class needs as many flows as `--flows-min` says, 20 by default.",
    ]


def _counts(about: Evidence) -> list[str]:
    reading, candidates = about.reading, about.candidates
    lines = [
        "## Counts",
        "",
        "| | |",
        "|---|---:|",
        f"| verdicts read | {reading.seen} |",
        f"| of other models, left out | {reading.foreign} |",
        f"| named by their IP protocol, left out | {reading.by_protocol} |",
        f"| labelled `unknown` | {reading.unknown} |",
        f"| decided by an earlier stage, since no worker answered | {reading.unanswered} |",
        f"| with a guess that is right with a probability below {about.request.below:g} | "
        f"{candidates.seen} |",
        f"| chosen | {len(about.chosen)} |",
    ]
    if about.packets is not None:
        lines += [
            f"| flows in `flows.pcapng` | {about.packets.flows} |",
            f"| packets in it | {about.packets.packets} |",
            f"| packets left out, since their IP header was not captured | "
            f"{about.packets.headless} |",
        ]
    by_guess = Counter(verdict.guess for verdict in about.chosen)
    lines += ["", "| guess | chosen |", "|---|---:|"]
    lines += [f"| {guess} | {count} |" for guess, count in by_guess.most_common(_GROUPS_SHOWN)]
    others = len(by_guess) - _GROUPS_SHOWN
    return lines + ([f"| {others} others | |"] if others > 0 else [])


def _choice(about: Evidence) -> list[str]:
    request = about.request
    lines = [
        "## How they were chosen",
        "",
        "Flows are grouped by guess, protocol, server port (10,000 and more are one) and, where "
        "the verdicts have it, the domain of the server's name. Groups take turns, the group with "
        "the least certain flow first, each with its least certain flow. At most "
        f"{request.alike} flows have the same server address, protocol, port and guess; the column "
        "`alike` has how many such uncertain flows there were. Equally uncertain flows are drawn "
        f"by the seed {request.seed}.",
        "",
        f"At most {request.candidates} candidates were in memory, which does not change the "
        "choice.",
    ]
    if about.candidates.uncounted:
        lines.append(
            f"{about.candidates.uncounted} flows were of kinds that found no room to be counted: "
            "`alike` is then the least that it may be."
        )
    return lines


def _privacy(about: Evidence) -> list[str]:
    request, needs = about.request, about.needs
    lines = ["## Privacy", "", "Addresses, ports and times are those of the captures."]
    if about.packets is None:
        return [*lines, "There are no packets in this folder."]
    count = f"the first {needs.packets} packets" if needs.packets > 1 else "the first packet"
    lines.append(
        f"`flows.pcapng` has {count} of each flow from the IP header on, without link headers and "
        "tunnels (and so without hardware addresses)."
    )
    if request.privacy == FULL:
        return [*lines, "It has all of their payload (`--privacy full`)."]
    if needs.payload_bytes:
        lines.append(
            f"Of the payload it has the first {needs.payload_bytes} bytes of each packet, since "
            "the model reads them. They may hold names, such as of a DNS query."
        )
    else:
        lines.append("It has no payload: the model reads none.")
    if needs.reads_names:
        lines.append(
            "The model also reads names, which are further inside the payload: its verdicts on "
            "`flows.pcapng` may differ. `--privacy full` keeps them."
        )
    if needs.remembers_hosts:
        lines.append(
            "The model remembers hosts: with few flows of each, its verdicts on `flows.pcapng` may "
            "differ."
        )
    return lines
