"""The card of `video-rate`: every figure is computed from what held-out calls and captures gave."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from qoe_data import TIER_MIDDLES
from qoe_foreign import Foreign
from qoe_gated import STAGES, UNKNOWN_INDEX, Answers, Choice, QoeResult
from qoe_rows import (
    SYSTEMS,
    Figures,
    call_rows,
    classes_rows,
    confidence_rows,
    foreign_rows,
    over_markers,
)
from wirelens.learn.metrics import Interval
from wirelens.learn.report import table


def card(
    name: str,
    judged: QoeResult,
    chosen: Choice,
    others: Foreign,
    of_others: Answers,
    training: Mapping[str, Any],
) -> str:
    """The whole card, in Markdown."""
    parts = [
        _about(name), _calls(judged), _other_traffic(judged, others, of_others),
        _stages(judged, chosen), _data(judged, training), _limits(judged),
    ]  # fmt: skip
    return "\n".join(parts)


def shown(found: Interval, digits: int = 3) -> str:
    """A figure with its interval."""
    return " ".join(
        (f"{found.value:.{digits}f}", f"[{found.low:.{digits}f}, {found.high:.{digits}f}]")
    )


def percent(found: Interval) -> str:
    """A share with its interval, in percent."""
    low, high = 100 * found.low, 100 * found.high
    return f"{100 * found.value:.1f} % [{low:.1f}, {high:.1f}]"


def _about(name: str) -> str:
    return f"""# {name}

Estimates, for each second of a video call over RTP, how many frames the receiving browser shows:
eleven tiers of 3 frames a second, from `0-3` to `30+`, or `unknown` where a window does not look
like such a call.

```console
$ wirelens classify -r call.pcapng --model {name} --every 1s
```

It was made by

```console
$ bash models/make.sh {name} CALLS CAPTURES
```

It reads counts, sizes, times and RTP headers of a flow's packets in a second and in the one
before; no address, no port and no payload. It needs readable RTP headers, as in WebRTC and SIP; a
call inside a VPN or in TURN over TLS is `unknown`.
"""


def _calls(judged: QoeResult) -> str:
    found = {name: Figures(judged, name) for name in SYSTEMS}
    rows = [
        [one.name, f"{one.accuracy:.3f}", shown(one.macro_f1), percent(one.within_one),
         shown(one.error, 2), f"{one.unknown:.1%}".replace("%", " %")]
        for one in found.values()
    ]  # fmt: skip
    count = len(judged.calls)
    middle = float(abs(TIER_MIDDLES[judged.truth] - judged.fps).mean())
    tiers = [
        [str(name), str(seconds), *(f"{value:.3f}" for value in values)]
        for name, seconds, *values in classes_rows(judged)
    ]
    error, bins = confidence_rows(judged)
    believed = [
        [str(name), str(seconds), f"{mean:.3f}", f"{right:.3f}"]
        for name, seconds, mean, right in bins
    ]
    header = ["", "accuracy", "macro-F1 [95 %]", "within one tier", "error, frames/s", "unknown"]
    return f"""## Held-out calls

{len(judged.truth)} labelled seconds of {count} calls, five folds by call: each call is judged by
a model that was trained and thresholded on the other folds' calls. The label is what the
receiving browser decoded, by its own statistics. Intervals are over calls.

{table(header, rows)}
*Within one tier*: the right tier or a neighbour. *Error*: mean distance to the frames shown, a
tier counting as its middle; naming the right tier every time would give {middle:.2f}. The count
of markers gives frames, not tiers. `unknown` counts as wrong, and has no error.

**On calls, counting marker bits is {_beside_markers(over_markers(judged))}**: the model's
macro-F1 minus that of the count is {_signed(over_markers(judged))}. What the model adds is a
confidence, and `unknown` on other traffic.

| confidence | seconds | mean | right |
| --- | ---: | ---: | ---: |
{_rows(believed)}
Expected calibration error: {error:.3f}.

{table(["tier", "seconds", "precision", "recall", "F1"], tiers)}"""


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _signed(found: Interval) -> str:
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _beside_markers(found: Interval) -> str:
    """What may be said of the count by this difference."""
    if found.low > 0:
        return "less good"
    return "better" if found.high < 0 else "about as good"


def _other_traffic(judged: QoeResult, others: Foreign, of_others: Answers) -> str:
    rows = [
        [str(what), f"{captures:,}", f"{windows:,}", percent(Interval(*values))]
        for _, what, captures, windows, *values in foreign_rows(
            "", judged.foreign, judged.of_foreign
        )
    ]
    real_time = [
        [str(what), f"{captures:,}", f"{windows:,}", percent(Interval(*values))]
        for _, what, captures, windows, *values in foreign_rows("", others, of_others)
    ]
    early = judged.early.sum(axis=0)
    return f"""## Other traffic

How many windows of flows that are no video call get a tier; all others are `unknown`. Captures of
other places, in five folds by family: none was judged by a gate that its family trained. Without
the gate every window would get a tier. Intervals are over families.

{table(["which windows", "captures", "windows", "with a tier"], rows)}
Captures of voice and video of other programs (Teams, Zoom, WhatsApp, Discord, SIP and others),
which trained nothing. Some of their flows are video calls, without a record of their frame rate:
what a tier is worth there was not measured. A voice call over RTP can get `0-3`.

{table(["which windows", "captures", "windows", "with a tier"], real_time)}
Of the {early[0]} seconds of the testbed's calls that show RTP but have no label, such as those of
the first 15 s, {early[1]} are `unknown`.
"""


def _stages(judged: QoeResult, chosen: Choice) -> str:
    rows = []
    for index, place in enumerate(chosen.kept):
        name, depth = STAGES[place]
        asked = "the second's first packet" if depth == 1 else "the end of the second"
        is_last = index == len(chosen.kept) - 1
        how = "" if is_last else chosen.operation.rules[index].measure
        limit = "" if is_last else f"{chosen.thresholds[index][0]:.4f}"
        if not is_last and len(set(chosen.thresholds[index][:UNKNOWN_INDEX])) > 1:
            limit = "one for each class"
        decided = float((judged.of_calls.stages == place).mean())
        rows.append([name, asked, f"{100 * decided:.1f} %", how, limit])
    reasons = "\n".join(f"- {reason}" for reason in chosen.reasons)
    reasons = f"\n{reasons}\n" if reasons else ""
    header = ["stage", "asked at", "decides of held-out calls", "uncertainty", "threshold"]
    return f"""## Stages

{table(header, rows, texts=2)}
A window goes on to the next stage where this one is less sure than its threshold, and always
where its best guess is `unknown`, since a flow's first window has no second before. The operating
point is {chosen.operation.why}.
{reasons}
Each stage is trees that start from the count of RTP markers (`wirelens.classify.boosted_counts`),
of the second or of the one before, and a gate beside them (`wirelens.classify.window_gate`):
monotone trees that read counts of RTP and bytes of payload.
"""


def _data(judged: QoeResult, training: Mapping[str, Any]) -> str:
    rows = [
        [str(call), str(seed), str(codec), str(audio), str(seconds), f"{right:.3f}",
         f"{near:.3f}"]
        for call, seed, codec, audio, seconds, right, near, *_ in call_rows(judged)
    ]  # fmt: skip
    families = len(set(judged.foreign.families))
    return f"""## Data

Calls between two Chromium on the testbed (`testbed/datasets/calls.toml`): one way, 4 minutes
after 15 s of warm-up, over a link whose rate, delay and loss change. They are our own traffic;
the captures are not here, the seeds make such calls again, if not the same packets. Accuracy and
*within one* are those of the fold in which the call was held out.

{table(["call", "seed", "codec", "audio", "seconds", "accuracy", "within one"], rows)}
Windows without a call: {len(judged.foreign.numbers):,} of {len(judged.foreign.names)} captures of
{families} families of other places (tests of nDPI, Zeek, Suricata and others), without those that
their list calls real-time communication. They are not ours and are not here.

Settings of the tiers' trees were chosen on earlier calls of the same seeds. What the gate reads
was chosen among six sets of numbers, on some of these calls and on the folds of these captures.
Both flatter the figures a little.

Fingerprint of windows and labels: `{training["fingerprint"]}`. The model that ships was trained
on all of them; thresholds and confidences come from models of other calls among these.
"""


def _limits(judged: QoeResult) -> str:
    fps = numpy.concatenate([call.fps for call in judged.calls])
    return f"""## Limits

- Trained and judged on one browser's calls, at up to {fps.max():.0f} frames/s, over one link of
  the testbed. On calls of other programs, screens shared, several videos in one flow (a
  conference) or simulcast, it was not judged.
- It judges the way of a flow that has carried more bytes: of a call with video both ways, one.
- A flow without packets in a second has no verdict for it: a stalled video without audio looks
  like a call that is over.
- Frames that a browser shows, not their size or sharpness. Neighbouring tiers are often confused:
  read runs of seconds.
"""
