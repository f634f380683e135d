"""Rows of flows of labelled runs, and the compact file that keeps them.

A file is xz: a line of JSON, then the numbers of all rows, input after input, as steps of 2 %. That
is finer than what is learned of them, and about a tenth of the bytes of 32-bit floats.
"""

import json
import lzma
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.cca.intervals import Array
from wirelens.errors import OptionError

FORMAT = "wirelens-cca-rows 1"
INPUTS = ("flight_max_bytes", "sent_bytes", "acked_bytes", "resent_packets", "path_rtt_s")
"""What a model of one tap reads of each row, in this order."""
ROWS_PER_RTT = 4
ROWS_MIN, ROWS_MAX = 256, 768
"""Of a flow at a tap: a shorter one is left out, of a longer one a part is kept."""
STEP = 1.02
SCALE = numpy.array([1e9 if name.endswith("_s") else 1 for name in INPUTS])


@dataclass(frozen=True)
class Series:
    """Rows of a flow at a tap that follow each other."""

    control: str
    place: str
    """The tap: the name of its capture."""
    flow: int
    """Its flow, counted from 0 in the run."""
    row_s: float
    values: Array
    """Rows × inputs, 32-bit floats."""


@dataclass(frozen=True)
class Run:
    """Flows over one path at one time. A run trains, or is held out, as a unit."""

    name: str
    path: dict[str, Any]
    """What else is known of it, such as the rate of its bottleneck; training does not read it."""
    series: Sequence[Series]


def write(path: Path, runs: Sequence[Run]) -> None:
    """Keeps runs in a file.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    about: list[dict[str, Any]] = []
    pieces = [numpy.zeros((0, len(INPUTS)))]
    for run in runs:
        flows = []
        for series in run.series:
            known = {name: value for name, value in asdict(series).items() if name != "values"}
            flows.append(known | {"rows": len(series.values)})
            pieces.append(series.values)
        about.append({"name": run.name, "path": run.path, "flows": flows})
    rows = numpy.maximum(numpy.concatenate(pieces) * SCALE, 0)
    # 0 stays 0.
    steps = numpy.rint(numpy.log1p(rows) / math.log(STEP)).astype("<u2")
    head = {"format": FORMAT, "inputs": INPUTS, "step": STEP, "rows_per_rtt": ROWS_PER_RTT}
    line = json.dumps(head | {"runs": about}, separators=(",", ":")).encode() + b"\n"
    # The high bytes apart: they hardly change.
    planes = steps.T.copy().view(numpy.uint8).reshape(len(INPUTS), -1, 2).transpose(0, 2, 1)
    written.files(path.parent, {path.name: lzma.compress(line + planes.tobytes(), preset=9)})


def read(path: Path) -> list[Run]:
    """The runs of a file.

    Raises
    ------
    OptionError
        If it is none, or damaged.
    """
    try:
        line, codes = lzma.decompress(path.read_bytes()).split(b"\n", 1)
        head = json.loads(line)
        if not isinstance(head, dict):
            raise ValueError("its first line is no object")
        if head.get("format") != FORMAT or tuple(head["inputs"]) != INPUTS:
            raise OptionError(
                f"{path}: format {head.get('format')!r}, inputs {head.get('inputs')}; wanted: "
                f"{FORMAT!r} with {', '.join(INPUTS)}"
            )
        planes = numpy.frombuffer(codes, numpy.uint8).reshape(len(INPUTS), 2, -1)
        steps = planes.transpose(0, 2, 1).copy().view("<u2")[:, :, 0].T.astype(float)
        if len(steps) != sum(flow["rows"] for run in head["runs"] for flow in run["flows"]):
            raise ValueError(f"{len(steps)} rows, of which the first line says another number")
        rows = (numpy.expm1(steps * math.log(head["step"])) / SCALE).astype(numpy.float32)
        return _runs(head["runs"], rows)
    except OptionError:
        raise
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError, OSError) as error:
        raise OptionError(
            f"{path}: {error}; wanted: a row file of models/onetap_traces.py"
        ) from error


def _runs(about: Sequence[dict[str, Any]], rows: Array) -> list[Run]:
    found, at = [], 0
    for run in about:
        series = []
        for flow in run["flows"]:
            known = {name: value for name, value in flow.items() if name != "rows"}
            series.append(Series(**known, values=rows[at : at + flow["rows"]]))
            at += flow["rows"]
        found.append(Run(run["name"], run["path"], series))
    return found
