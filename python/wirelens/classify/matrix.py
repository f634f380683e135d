"""The matrix that models are trained on: columns worth keeping, of all depths at once."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from wirelens.classify.dataset import Sample
from wirelens.classify.recipe import Recipe, Sifter, packet_of
from wirelens.errors import OptionError
from wirelens.learn.metrics import Array


@dataclass(frozen=True)
class Matrix:
    """Bits and numbers of all flows. A depth has the columns of its packets."""

    bit_columns: list[str]
    number_columns: list[str]
    bits: Array
    numbers: Array
    # Columns that were left out because they are constant, or the same as another.
    constant: int
    duplicate: int

    def columns(self, packets: int) -> list[str]:
        """Names of the columns of a depth: bits, then numbers."""
        names = [*self.bit_columns, *self.number_columns]
        return [name for name in names if packet_of(name) < packets]

    def numbers_of(self, packets: int) -> list[str]:
        """The numbers among them."""
        return [name for name in self.number_columns if packet_of(name) < packets]

    def values(self, packets: int, rows: Array) -> Array:
        """Values as 32-bit floats by row and column, as `columns` has them."""
        of_bits = [i for i, name in enumerate(self.bit_columns) if packet_of(name) < packets]
        of_numbers = [i for i, name in enumerate(self.number_columns) if packet_of(name) < packets]
        found = numpy.empty((len(rows), len(of_bits) + len(of_numbers)), dtype=numpy.float32)
        found[:, : len(of_bits)] = self.bits[numpy.ix_(rows, of_bits)]
        found[:, len(of_bits) :] = self.numbers[numpy.ix_(rows, of_numbers)]
        return found

    def hash(self, packets: int) -> str:
        """A name for the columns of a depth."""
        return hashlib.sha256("\n".join(self.columns(packets)).encode()).hexdigest()


def build(sample: Sample, recipe: Recipe, packets: int, training: Array) -> Matrix:
    """Sifts columns on the training flows and takes those that are left of all flows.

    Neither validation nor test flows are looked at to choose columns.
    """
    learned = sample.of(training)
    by_packet: dict[int, list[str]] = {}
    offered = recipe.bit_column_count() * packets
    for name in learned.varying_bits():
        if not recipe.is_dropped(name):
            by_packet.setdefault(packet_of(name), []).append(name)
    numbers = recipe.number_names(packets)
    sifter = Sifter(recipe.rare_max)
    flow_numbers = [name for name in numbers if not name.startswith("pkt")]
    kept_numbers = sifter.keep(learned.numbers(flow_numbers), flow_numbers)
    kept_bits: list[str] = []
    for packet in range(packets):
        names = by_packet.get(packet, [])
        kept_bits += sifter.keep(learned.bits(names), names)
        names = [n for n in numbers if n.startswith("pkt") and packet_of(n) == packet]
        kept_numbers += sifter.keep(learned.numbers(names), names)
    if not kept_bits and not kept_numbers:
        raise OptionError("no column differs between the training flows; give other captures")
    never_varied = offered - sum(map(len, by_packet.values()))
    return Matrix(
        kept_bits,
        kept_numbers,
        sample.bits(kept_bits),
        sample.numbers(kept_numbers).astype(numpy.float32),
        sifter.constant + never_varied,
        sifter.duplicate,
    )


def first_numbers(sample: Sample, names: Sequence[str]) -> Array:
    """Numbers that are no part of the matrix, such as a port table's, as 32-bit floats."""
    return sample.numbers(names).astype(numpy.float32)
