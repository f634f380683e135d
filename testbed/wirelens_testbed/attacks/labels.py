"""The truth rules: which attack a frame belongs to, and in which role.

A rule looks at addresses that one attack alone uses: the MAC addresses of its machines, a range of
made-up source addresses, or a block of the victim's ports set aside for it. Nothing is guessed from
what a packet looks like, nor from when it came, so a late answer still has its true label.

What a frame is decides, not why it was sent: when a flood's answer makes a server ask for the
gateway's MAC address, that question is benign.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from wirelens_testbed.attacks.frames import Frame, Packet

BENIGN_LABEL = "benign"

# First fragments remembered, so that the later ones, which have no ports, get their label. The
# oldest goes when it is full; fragments of one datagram follow each other, so few are ever needed.
FRAGMENTS_MAX = 4096


class Role(StrEnum):
    """The side of an attack that a frame is on."""

    ATTACKER = "attacker"  # sent by a machine of the attacker's, whatever source it names
    RESPONSE = "response"  # sent by another, to the attacker or to an address it made up
    REFLECTED = "reflected"  # sent by a reflector to the victim in whose name it was asked
    INTERCEPTED = "intercepted"  # a benign packet on its way to or from the attacker in the middle
    BENIGN = "benign"


@dataclass(frozen=True)
class Reflection:
    """Answers from these servers to these ports of the victim come of forged questions."""

    reflectors: frozenset[tuple[bytes, int]]
    victim: bytes
    victim_ports: range

    def has_answer(self, packet: Packet) -> bool:
        return (
            packet.destination == self.victim
            and packet.destination_port in self.victim_ports
            and (packet.source, packet.source_port) in self.reflectors
        )

    def has_question(self, packet: Packet) -> bool:
        return (
            packet.source == self.victim
            and packet.source_port in self.victim_ports
            and (packet.destination, packet.destination_port) in self.reflectors
        )


@dataclass(frozen=True)
class Mark:
    """What one attack is known by."""

    attack: int  # its number in the run, from 1
    label: str
    macs: frozenset[bytes]
    addresses: frozenset[bytes]  # the attacker's own, of both families
    spoofed: ipaddress.IPv4Network | None = None
    reflection: Reflection | None = None
    intercepts: bool = False  # others' packets pass through the attacker


@dataclass(frozen=True, slots=True)
class Verdict:
    label: str
    role: Role
    attack: int  # 0: none


BENIGN = Verdict(BENIGN_LABEL, Role.BENIGN, 0)


@dataclass
class Labeller:
    """Labels the frames of one capture, given in their order."""

    marks: Sequence[Mark]
    _by_mac: dict[bytes, Mark] = field(default_factory=dict)
    _by_address: dict[bytes, Mark] = field(default_factory=dict)
    _spoofing: list[tuple[int, int, Mark]] = field(default_factory=list)
    _reflecting: list[tuple[Reflection, Mark]] = field(default_factory=list)
    _fragments: OrderedDict[tuple[bytes, bytes, int], Verdict] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        for mark in self.marks:
            _claim(self._by_mac, mark.macs, mark, "MAC address")
            _claim(self._by_address, mark.addresses, mark, "address")
            if mark.spoofed:
                first = int(mark.spoofed.network_address)
                self._spoofing.append((first, first + mark.spoofed.num_addresses, mark))
            if mark.reflection:
                self._reflecting.append((mark.reflection, mark))

    def label(self, frame: Frame) -> Verdict:
        packet = frame.packet
        key = (packet.source, packet.destination, packet.ident)
        if packet.is_later_fragment and key in self._fragments:
            return self._fragments[key]
        verdict = self._by_link(frame) or self._by_packet(packet) or BENIGN
        if packet.is_first_fragment:
            self._fragments[key] = verdict
            if len(self._fragments) > FRAGMENTS_MAX:
                self._fragments.popitem(last=False)
        return verdict

    def _by_link(self, frame: Frame) -> Verdict | None:
        packet = frame.packet
        if mark := self._by_mac.get(frame.source_mac):
            passes_through = mark.intercepts and not frame.is_arp
            role = Role.ATTACKER
            if passes_through and packet.source not in mark.addresses:
                role = Role.INTERCEPTED
            return Verdict(mark.label, role, mark.attack)
        if mark := self._by_mac.get(frame.destination_mac):
            passes_through = mark.intercepts and not frame.is_arp
            role = Role.RESPONSE
            if passes_through and packet.destination not in mark.addresses:
                role = Role.INTERCEPTED
            return Verdict(mark.label, role, mark.attack)
        # Broadcast: somebody asks for the attacker's MAC address, to answer it.
        if frame.is_arp and (mark := self._by_address.get(packet.destination)):
            return Verdict(mark.label, Role.RESPONSE, mark.attack)
        return None

    def _by_packet(self, packet: Packet) -> Verdict | None:
        # An error goes with what it is about; the two then differ in who speaks to whom.
        if packet.quoted is not None:
            return self._by_error(packet, packet.quoted)
        if mark := self._spoofing_mark(packet.destination):
            return Verdict(mark.label, Role.RESPONSE, mark.attack)
        for reflection, mark in self._reflecting:
            if reflection.has_answer(packet):
                return Verdict(mark.label, Role.REFLECTED, mark.attack)
        return None

    def _by_error(self, packet: Packet, quoted: Packet) -> Verdict | None:
        mark = self._spoofing_mark(packet.destination) or self._spoofing_mark(quoted.destination)
        if mark:
            return Verdict(mark.label, Role.RESPONSE, mark.attack)
        for reflection, mark in self._reflecting:
            if reflection.has_answer(quoted):  # the victim refuses what it never asked for
                return Verdict(mark.label, Role.RESPONSE, mark.attack)
            if reflection.has_question(quoted):  # the reflector refuses, to the victim
                return Verdict(mark.label, Role.REFLECTED, mark.attack)
        return None

    def _spoofing_mark(self, address: bytes) -> Mark | None:
        if len(address) != 4:
            return None
        number = int.from_bytes(address, "big")
        for first, end, mark in self._spoofing:
            if first <= number < end:
                return mark
        return None


def _claim(owners: dict[bytes, Mark], keys: Iterable[bytes], mark: Mark, what: str) -> None:
    """Two attacks with one address cannot be distinguished: that is our fault, and not data."""
    for key in keys:
        if key in owners:
            raise ValueError(
                f"attacks {owners[key].attack} and {mark.attack} share the {what} {key.hex(':')}"
            )
        owners[key] = mark
