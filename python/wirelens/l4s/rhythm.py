"""Training and testing in the rhythm of SwiftQueue (section 5): trained on the first five minutes,
tested five minutes at a time, fine-tuned before each on the last minute.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy

from wirelens.errors import OptionError
from wirelens.l4s.material import Material
from wirelens.l4s.predictors import Predictor, seconds_of
from wirelens.l4s.sharp import WITHIN, score

Array = Any


@dataclass(frozen=True)
class Rhythm:
    """When a trace trains, fine-tunes and tests, in seconds."""

    trained_s: float = 300.0
    watched_s: float = 60.0
    """The end of what trains, which says when to stop."""
    every_s: float = 300.0
    tuned_s: float = 60.0
    """The end of what was seen, on which each test is prepared; 0 for never."""

    def parts(self, end_s: float) -> list[tuple[float, float]]:
        """From when to when each test goes."""
        starts = numpy.arange(self.trained_s, end_s, self.every_s)
        return [(float(start), min(float(start) + self.every_s, end_s)) for start in starts]


@dataclass(frozen=True)
class Row:
    """How well one predictor did on one trace. `changes`, `predicted` and `right` count sharp
    changes by `WITHIN`; errors are in ms."""

    trace: str
    latency: str
    predictor: str
    seed: int
    batch: int
    tuned_every_s: float
    packets: int
    changes: dict[str, int]
    predicted: dict[str, int]
    right: dict[str, int]
    mean_error_ms: float
    root_mean_square_ms: float
    train_cpu_s: float
    tune_cpu_s: float
    asked: str = ""
    """All else that was asked, and of which packets; rows of before have none."""

    @classmethod
    def read(cls, line: str) -> Self:
        """A row as `text` wrote it."""
        found = json.loads(line)
        found.pop("f1", None)
        return cls(**found)

    def text(self) -> str:
        """One JSON object, with F1 by `WITHIN` for those who read it."""
        f1 = {within: round(self.f1(within), 4) for within in WITHIN}
        return json.dumps(asdict(self) | {"f1": f1})

    def f1(self, within: str) -> float:
        """On sharp changes."""
        right = self.right[within]
        return 2 * right / (self.changes[within] + self.predicted[within]) if right else 0.0

    def key(self) -> tuple[Any, ...]:
        """What was asked."""
        return (self.trace, self.latency, self.predictor, self.seed, self.batch, self.tuned_every_s)


def rows_in(path: Path) -> list[Row]:
    """The rows of a file, one a line as `Row.text` writes them.

    Raises
    ------
    OptionError
        If a line is none.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(Row.read(line))
        except (AttributeError, TypeError, ValueError) as error:
            raise OptionError(
                f"{path}: line {number}: {error}; wanted: a row of such a comparison; remove the "
                "line, or name another file"
            ) from error
    return rows


@dataclass(frozen=True)
class PredictionRun:
    """Predictions over the whole trace, NaN where nothing was tested, and what they took."""

    predicted_ms: Array
    train_cpu_s: float
    tune_cpu_s: float


@dataclass(frozen=True)
class FittedPredictor:
    """What was trained on the beginning of a trace, and what that took."""

    predictor: Predictor
    train_cpu_s: float

    @classmethod
    def of(cls, predictor: Predictor, material: Material, rhythm: Rhythm, seed: int) -> Self:
        """Trains. Raises `OptionError` where nothing is left to test."""
        end_s = _end_s(material)
        if end_s <= rhythm.trained_s:
            raise OptionError(
                f"{material.packets.name}: {end_s:.0f} s; wanted: more than the "
                f"{rhythm.trained_s:g} s that train"
            )
        watched = material.span(rhythm.trained_s - rhythm.watched_s, rhythm.trained_s)
        trained = material.span(0, rhythm.trained_s - rhythm.watched_s)
        _, train_s = seconds_of(lambda: predictor.fit(material, trained, watched, seed))
        return cls(predictor, train_s)


def _end_s(material: Material) -> float:
    return float(material.packets.since_s[-1]) + 1e-3 if len(material) else 0.0


def follow(fitted: FittedPredictor, material: Material, rhythm: Rhythm, seed: int) -> PredictionRun:
    """Tests and fine-tunes along a trace."""
    end_s = _end_s(material)
    predicted = numpy.full(len(material), numpy.nan, dtype="f4")
    tune_s, current = 0.0, fitted.predictor
    for start, end in rhythm.parts(end_s):
        if rhythm.tuned_s and start > rhythm.trained_s:
            span = material.span(start - rhythm.tuned_s, start)
            before = current
            current, took_s = seconds_of(lambda: before.tuned(material, span, seed))  # noqa: B023
            tune_s += took_s
        part = material.span(start, end)
        predicted[part] = current.predict(material, part)
    return PredictionRun(predicted, fitted.train_cpu_s, tune_s)


def row_of(
    predictor: str, material: Material, rhythm: Rhythm, tested: PredictionRun, *,
    seed: int, latency: str, batch: int, asked: str = "",
) -> Row:  # fmt: skip
    """What a test came to."""
    latency_ms = material.packets.latency_ms
    judged = ~numpy.isnan(tested.predicted_ms) & ~numpy.isnan(latency_ms)
    scores = {
        within: score(
            latency_ms, tested.predicted_ms, Material.places(material.packets, within), judged
        )
        for within in WITHIN
    }
    error = (tested.predicted_ms - latency_ms)[judged].astype(numpy.float64)
    return Row(
        material.packets.name,
        latency,
        predictor,
        seed,
        batch,
        rhythm.every_s if rhythm.tuned_s else 0.0,
        int(judged.sum()),
        {within: found.changes for within, found in scores.items()},
        {within: found.predicted for within, found in scores.items()},
        {within: found.right for within, found in scores.items()},
        float(abs(error).mean()),
        float((error**2).mean() ** 0.5),
        tested.train_cpu_s,
        tested.tune_cpu_s,
        asked,
    )
