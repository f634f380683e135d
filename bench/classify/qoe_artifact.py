"""A cascade of all calls for `wirelens classify --every 1s`."""

import hashlib
import importlib.metadata
from pathlib import Path
from typing import Any

import numpy
from qoe import CHANGED, FEATURES, matrix
from qoe_data import CLASSES, Call, tier
from qoe_report import STAGES
from wirelens import _wirelens
from wirelens.classify.families import Rows, Training, family, library_version
from wirelens.classify.metrics import confusion, macro_f1
from wirelens.classify.operate import Aim, StageScores, operate, rules_of, settled
from wirelens.classify.recipe import Sifter
from wirelens.classify.window_cascade import STAGE_NAMES, WindowCascade, WindowStage
from wirelens.classify.windows import WindowFeatures
from wirelens.trees import Trees, load, score, to_forest

Array = Any
# Every fifth call chooses thresholds, the others train.
CHOOSING_EVERY = 5

CARD = """# {name}

Tells, for each second of a flow, how many frames of video a browser shows of it: eleven tiers of 3
frames a second, 0-3 to 30+. Give it video calls over RTP: of other flows it says something as well,
and means nothing by it.

- Trained on {train} s, thresholds chosen on {choose} s, of {calls} calls of the testbed between two
  Chromium (VP8, VP9 and H264; one way; links of 0.1 to 3 Mbit/s). Calls of other programs, screens
  shared, and several videos in one flow were not among them.
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
    labels = numpy.concatenate([tier(call.fps) for call in calls])
    call_of = numpy.concatenate([[i] * len(call.fps) for i, call in enumerate(calls)])
    is_choosing = call_of % CHOOSING_EVERY == CHOOSING_EVERY - 1
    rest, chooses = numpy.flatnonzero(~is_choosing), numpy.flatnonzero(is_choosing)
    count, truth = len(CLASSES), labels[chooses]
    trees, scores = [], []
    for what, depth, name in STAGES:
        values, columns = matrix(calls, what, depth)
        kept = Sifter().keep(values[rest], columns)
        values = values[:, [columns.index(column) for column in kept]]
        kind = family(name)
        training = Training(CLASSES, seed=1, threads=1, changed=CHANGED.get(name, {}))
        model = kind.fit(Rows(values[rest], kept, labels[rest], numpy.ones(len(rest))), training)
        rows = Rows(values[chooses], kept, truth, numpy.ones(len(truth)))
        scores.append(kind.predict(model, rows))
        # All stages have the same layout; no header bit is read.
        packets = 1
        read = WindowFeatures(blocks=FEATURES.blocks, packets=packets, numbers=kept)
        trees.append(to_forest(model, kept, CLASSES, read.header_bits()))
    stages = [StageScores(n, s, 1.0, 1.0) for n, s in zip(STAGE_NAMES, scores, strict=True)]
    rules = [
        rules_of(truth, first, second, count)[0]
        for first, second in zip(stages, stages[1:], strict=False)
    ]
    best = max(macro_f1(confusion(truth, stage.predicted, count)) for stage in stages)
    chosen = operate(truth, stages, rules, best, Aim(), count)
    made = []
    for index, (stage, (_, _, name)) in enumerate(zip(STAGE_NAMES, STAGES, strict=True)):
        if index < len(rules):
            rule = chosen.rules[index]
            thresholds = settled(chosen.points[index], rule.unsure, rule.predicted)
            made.append(WindowStage(stage, name, trees[index], rule.measure, thresholds))
        else:
            made.append(WindowStage(stage, name, trees[index]))
    fingerprint = hashlib.sha256(
        b"".join(call.numbers.tobytes() + call.fps.tobytes() for call in calls)
    ).hexdigest()
    seconds = numpy.bincount(labels, minlength=count).tolist()
    cascade = WindowCascade(
        name=folder.name,
        classes=CLASSES,
        stages=made,
        profile={
            "operating_point": chosen.why,
            "decided": dict(zip(STAGE_NAMES, map(float, chosen.decided), strict=True)),
            "macro_f1_choosing": chosen.macro_f1,
        },
        training={
            "fingerprint": f"sha256:{fingerprint}",
            "captures": len(calls),
            "windows": len(labels),
            "windows_by_class": dict(zip(CLASSES, seconds, strict=True)),
            "seed": 1,
            "split": f"{len(rest)} s train, {len(chooses)} s of other calls choose thresholds",
            "libraries": {name: library_version(family(name)) for _, _, name in STAGES},
            "wirelens": importlib.metadata.version("wirelens"),
        },
    )
    models = ", ".join(f"{name} ({what}, packets {depth})" for what, depth, name in STAGES)
    card = CARD.format(
        name=folder.name, train=len(rest), choose=len(chooses), calls=len(calls), models=models
    )
    cascade.write(folder, card)
    for stage, tree, told in zip(made, trees, scores, strict=True):
        difference = abs(told - _scored(folder / f"{stage.name}.trees.jsonl", tree, calls, chooses))
        print(f"{stage.name}: library and runtime differ by at most {difference.max():.2g}")
    print(chosen.why, chosen.decided, chosen.macro_f1, chosen.rules[0].measure)
