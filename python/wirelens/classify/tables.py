"""What rows of flows and rows of windows have in common: names of header bits, and their tables."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from wirelens import _wirelens
from wirelens.found import readable_captures
from wirelens.questions import Duration, Source, _duration, _inputs
from wirelens.results import warn_of
from wirelens.views import rows_of

if TYPE_CHECKING:
    from wirelens._wirelens import FeatureOptions, FirstOptions, InputOptions, Reader, RowBatches

__all__ = ["CaptureTable", "HeaderFields", "read_captures"]


class HeaderFields:
    """The fields that features have which read header bits of first packets."""

    headers: str
    blocks: Sequence[str]
    payload_bytes: int
    packets: int
    numbers: Sequence[str]
    identity: str = "kept"

    def _keep_tuples(self) -> None:
        # Equal features are equal whatever sequence they were given as.
        object.__setattr__(self, "blocks", tuple(self.blocks))
        object.__setattr__(self, "numbers", tuple(self.numbers))

    def bit_columns(self, packets: Iterable[int] | None = None) -> list[str]:
        """Names of the header bits, of all packets or of these: `pkt0_ipv4_ver_0` and so on."""
        names = self._packet_columns()
        chosen = range(self.packets) if packets is None else packets
        return [f"pkt{packet}_{name}" for packet in chosen for name in names]

    def _packet_columns(self) -> list[str]:
        return _wirelens.header_columns(self.blocks, self.payload_bytes)

    def _options(self) -> "FeatureOptions":
        return {
            "headers": self.headers,
            "blocks": list(self.blocks),
            "payload_bytes": self.payload_bytes,
            "packets": self.packets,
            "numbers": list(self.numbers),
            "identity": self.identity,
        }


class _Rows(Protocol):
    """Rows that were read, and what their columns are."""

    @property
    def keys(self) -> list[str]: ...
    def bits(self, columns: Sequence[str]) -> bytes: ...


class CaptureTable:
    """Rows of captures, in the order of these.

    What it gives as a matrix is a ``memoryview`` of rows and columns, which NumPy takes as it
    is: ``numpy.asarray(table.numbers)``. It is made when it is asked for: keep it.
    """

    # Rows with the columns of the features; whoever makes such a table sets it.
    _rows: _Rows

    def __init__(
        self, rows: "RowBatches", files: list[str], counts: dict[str, Any], summary: str
    ) -> None:
        self.files = files
        """The captures; the column `file` counts in them, from 0."""
        self.counts = counts
        """Packets by outcome, as in `wirelens.flows`."""
        self.summary = summary
        """The summary lines that the command prints at the end."""
        self._collected = rows

    def __len__(self) -> int:
        return len(self._collected)

    def keys(self) -> dict[str, list[Any]]:
        """What names each row, column by column."""
        batches = self._collected.batches()
        return {
            name: [value for batch in batches for value in batch.column(name)]
            for name in self._rows.keys
        }

    def bits(self, columns: Iterable[str]) -> "memoryview[int]":
        """Header bits by name, rows × columns: −1, 0 or 1 in 8 bits each.

        Parameters
        ----------
        columns
            Names such as ``pkt0_tcp_syn_0``, in the order that is wanted.

        Raises
        ------
        OptionError
            If a name is none of the features'.
        """
        names = list(columns)
        return rows_of(self._rows.bits(names), "b", len(names))


def read_captures(
    start: Callable[["InputOptions", "FeatureOptions", "FirstOptions"], "Reader"],
    source: Source,
    features: HeaderFields,
    *,
    filter: str | None,
    idle_timeout: Duration,
    active_timeout: Duration,
    max_flows: int,
    snaplen: int | None,
    seed: int | None,
) -> tuple["RowBatches", list[str], dict[str, Any], str]:
    """Reads captures one after the other: rows, names of captures, counts, closing lines.

    The arguments are those of `wirelens.classify.features.first_packets`, whose caller is warned.
    """
    inputs = _inputs(source, filter, None, features.headers == "innermost", None, snaplen)
    found = readable_captures(inputs["names"], 3)
    options: FirstOptions = {
        "idle_timeout": _duration(idle_timeout),
        "active_timeout": _duration(active_timeout),
        "max_flows": max_flows,
        "seed": seed,
    }
    reader = start({**inputs, "names": found}, features._options(), options)
    collected = reader.collect()
    warn_of(reader, stacklevel=4)
    return collected, found, reader.counts or {}, reader.summary or ""
