"""Verdicts of the packet log's classifier, computed by the code of `wirelens packetlog`.

`PacketModel` scores snapshots that are there; `judgements` reads captures.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wirelens import _wirelens
from wirelens.errors import OptionError
from wirelens.found import readable_captures
from wirelens.questions import Path, Source, _inputs
from wirelens.results import warn_of
from wirelens.views import rows_of

if TYPE_CHECKING:
    from wirelens._wirelens import Batch

__all__ = ["JudgedBatch", "PacketModel", "judgements"]


class PacketModel:
    """A model of the packet log: two forests, and how what they read is made.

    Parameters
    ----------
    path
        Its file, ``model.json``.

    Raises
    ------
    ModelError
        If it is missing or invalid, or not as ``SHA256SUMS`` of its folder lists it.
    """

    def __init__(self, path: Path) -> None:
        self._forests = _wirelens.PacketForests.load(path)
        self.classes = self._forests.classes
        """Names of the classes, in the order of the scores."""
        self.columns = self._forests.columns
        """Names of the columns of a row, in order."""
        self.schema = self._forests.schema
        """The hash of what these mean."""
        self.features: dict[str, Any] = self._forests.features
        """How snapshots are made, as the file has it."""

    def score(self, values: Any, by_flow: bool) -> "memoryview[float]":
        """A probability for each class of each row, rows × classes, 64-bit floats.

        Parameters
        ----------
        values
            Snapshots, rows × columns, 32-bit floats end to end: whatever has a buffer.
        by_flow
            Whether the flow forest is used, or the packet forest.

        Raises
        ------
        OptionError
            If values are not 32-bit floats, or not whole rows.
        """
        given = memoryview(values)
        if given.format not in ("f", "B", "b", "c"):
            raise OptionError(
                f"values: of format {given.format!r}; wanted: 32-bit floats, 'f', or their bytes; "
                "convert them, such as with .astype('float32') of NumPy"
            )
        return rows_of(self._forests.score(given.tobytes(), by_flow), "d", len(self.classes))


class JudgedBatch:
    """What was found of some packets, in order; everything is a ``memoryview``."""

    def __init__(self, batch: "Batch", files: list[str]) -> None:
        self.files = tuple(files)
        """The captures; `file` counts in them, from 0."""
        self.file: memoryview[int] = memoryview(batch.memory("file")[0]).cast("I")
        """Of each packet its capture, counted from 0."""
        self.packet: memoryview[int] = memoryview(batch.memory("packet")[0]).cast("Q")
        """Of each packet its number in its capture, counted from 0."""
        self.timestamps_ns: memoryview[int] = memoryview(batch.memory("time_ns")[0]).cast("q")
        """Of each packet its timestamp, in nanoseconds since the epoch; 0 if there is none."""
        self.classes: memoryview[int] = memoryview(batch.memory("class_index")[0]).cast("H")
        """Of each packet its class, counted from 0 as the model has them."""
        self.confidence: memoryview[float] = memoryview(batch.memory("confidence")[0]).cast("d")
        """Of each packet the probability of that class."""
        self.by_flow: memoryview[int] = memoryview(batch.memory("by_flow")[0]).cast("b")
        """Of each packet whether the flow forest classified it, 0 or 1."""

    def __len__(self) -> int:
        return len(self.packet)


def judgements(
    source: Source,
    model: Path,
    *,
    filter: str | None = None,
    count: int | None = None,
    snaplen: int | None = None,
    seed: int | None = None,
    calibration: Path | None = None,
) -> Iterator[JudgedBatch]:
    """Classifies every packet as `wirelens packetlog` does, in batches of at most 65,536.

    Captures are read one after the other; flows do not continue across them.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them.
    model
        The model's file.
    filter
        Read only frames that match this filter (pcap-filter(7)); needs libpcap.
    count
        Stop after this many frames of each capture.
    snaplen
        Use only this many bytes of each frame, as if captured with this snapshot length.
    seed
        Seed of the hash that places flows in a sketch, random by default.
    calibration
        A file of `wirelens packetlog calibrate` for this model: its thresholds are used.

    Yields
    ------
    JudgedBatch

    Raises
    ------
    ModelError
        If `model` or `calibration` is missing or invalid, or `calibration` of another model.
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If `source` cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        At the end, if a capture cannot be read to its end.
    """
    inputs = _inputs(source, filter, None, True, count, snaplen)
    found = readable_captures(inputs["names"], stacklevel=2)
    reader = _wirelens.judgements({**inputs, "names": found}, model, seed, calibration)
    try:
        for batch in reader:
            yield JudgedBatch(batch, found)
        warn_of(reader, stacklevel=2)
    finally:
        reader.close()
