"""A cascade of all calls for `wirelens classify --every 1s`."""

import hashlib
import importlib.metadata
from pathlib import Path
from typing import Any

import numpy
from qoe import COUNTS, FEATURES, STAGES, Learner
from qoe_data import CLASSES, Call
from qoe_report import stage_scores
from wirelens import _wirelens
from wirelens.classify.families import family, library_version
from wirelens.classify.steps import written
from wirelens.classify.window_cascade import (
    STAGE_NAMES,
    WindowCascade,
    WindowStage,
    where_it_works,
)
from wirelens.classify.windows import WindowFeatures
from wirelens.trees import Trees, load, score, to_forest

Array = Any
CARD = """# {name}

Tells, for each second of a flow, how many frames of video a browser shows of it: eleven tiers of 3
frames a second, 0-3 to 30+. Give it video calls over RTP: of other flows it says something as well,
and means nothing by it.

- Trained on {seconds} s of {calls} calls of the testbed between two Chromium (VP8, VP9 and H264;
  one way; links of 0.1 to 3 Mbit/s); thresholds by models of other calls among these. Calls of
  other programs, screens shared, and several videos in one flow were not among them.
- It judges the way of a flow that has carried more bytes: of a call with video both ways, one.
- Models, in order: {models}.
- How good it is on calls that it has not seen: docs/guide/video-frame-rate.md.

    wirelens classify -r call.pcapng --model {name} --every 1s
"""


def _scored(file: Path, tree: Trees, calls: list[Call], rows: Array) -> Array:
    """What the runtime says of some seconds; no header bit is read."""
    places = [list(FEATURES.numbers).index(name) for name in tree.head["numbers"]]
    numbers = numpy.concatenate([call.numbers for call in calls])[rows][:, places]
    forest = load(file)
    record_len = len(_wirelens.header_columns(tree.head["blocks"], 0)) // 8
    record_len += -(-record_len // 8)
    records = bytes(record_len * len(rows))
    return numpy.asarray(score(forest, records, numbers=numbers.astype(numpy.float64)))


def artifact(calls: list[Call], folder: Path) -> None:
    """Trains the stages, sets their thresholds and writes the folder."""
    learners = [Learner(calls, *stage) for stage in STAGES]
    truth, everything = learners[0].labels, numpy.arange(len(learners[0].labels))
    stages = stage_scores([learner.held_out(everything) for learner in learners])
    kept, chosen, reasons = where_it_works(truth, learners[0].call_of, stages, len(CLASSES))
    trees, scores, made = [], [], []
    for index, place in enumerate(kept):
        learner, name = learners[place], STAGES[place][2]
        model, columns = learner.fit(everything)
        # All stages have the same layout; no header bit is read.
        read = WindowFeatures(blocks=FEATURES.blocks, packets=1, numbers=columns).header_bits()
        tree = learner.kind.trees(model, columns, CLASSES, read) if name == COUNTS else to_forest(
            model, columns, CLASSES, read
        )  # fmt: skip
        scores.append(learner.kind.predict(model, learner.rows(everything, columns)))
        trees.append(tree)
        if index < len(chosen.rules):
            measure, thresholds = chosen.rules[index].measure, written(chosen)[index]
            made.append(WindowStage(STAGE_NAMES[place], name, tree, measure, thresholds))
        else:
            made.append(WindowStage(STAGE_NAMES[place], name, tree))
    fingerprint = hashlib.sha256(
        b"".join(call.numbers.tobytes() + call.fps.tobytes() for call in calls)
    ).hexdigest()
    seconds = numpy.bincount(truth, minlength=len(CLASSES)).tolist()
    cascade = WindowCascade(
        name=folder.name,
        classes=CLASSES,
        stages=made,
        profile={
            "operating_point": chosen.why,
            "decided": {
                stage.name: float(part) for stage, part in zip(made, chosen.decided, strict=True)
            },
            "reasons": reasons,
            "macro_f1_choosing": chosen.macro_f1,
        },
        training={
            "fingerprint": f"sha256:{fingerprint}",
            "captures": len(calls),
            "windows": len(truth),
            "windows_by_class": dict(zip(CLASSES, seconds, strict=True)),
            "seed": 1,
            "split": "all calls train; thresholds by models of other calls",
            "libraries": {
                name: library_version(family("lightgbm" if name == COUNTS else name))
                for _, _, name in (STAGES[place] for place in kept)
            },
            "wirelens": importlib.metadata.version("wirelens"),
        },
    )
    models = ", ".join(
        f"{name} ({what}, packets {depth})" for what, depth, name in (STAGES[p] for p in kept)
    )
    card = CARD.format(name=folder.name, seconds=len(truth), calls=len(calls), models=models)
    cascade.write(folder, card)
    for stage, tree, told in zip(made, trees, scores, strict=True):
        difference = abs(
            told - _scored(folder / f"{stage.name}.trees.jsonl", tree, calls, everything)
        )
        print(f"{stage.name}: library and runtime differ by at most {difference.max():.2g}")
    print(chosen.why, chosen.decided, chosen.macro_f1, reasons)
