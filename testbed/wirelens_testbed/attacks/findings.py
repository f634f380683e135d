"""What the capture of an attacks run holds: labels, counts, flows, and whether it is believed."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wirelens_testbed.attacks import network
from wirelens_testbed.attacks.conduct import Attempt
from wirelens_testbed.attacks.frames import PROTOCOL_NAMES, Frame, Packet, mac_bytes, read_frame
from wirelens_testbed.attacks.labels import BENIGN_LABEL, Labeller, Mark, Role, Verdict
from wirelens_testbed.attacks.network import Network
from wirelens_testbed.pcapng import read_packets
from wirelens_testbed.run import Run
from wirelens_testbed.truth import UNEXPLAINED, PacketTruth

CAPTURE_NAME, PACKETS_NAME, ATTACKS_NAME = "lan.pcapng", "packets.tsv.gz", "attacks.tsv"
# The kernel of a tool that has ended still closes its connections, and those that it never finished
# are repeated by the servers' kernels until they give up.
LINGER_S = 30.0
ATTACK_ROLES = (Role.ATTACKER, Role.RESPONSE, Role.REFLECTED, Role.INTERCEPTED)

FlowKey = tuple[int | None, bytes, int | None, bytes, int | None]


@dataclass
class FlowTally:
    """The packets of one flow, so far."""

    first_ns: int
    client: tuple[bytes, int | None]  # who was seen first
    server: tuple[bytes, int | None]
    last_ns: int = 0
    packets: int = 0
    intercepted: int = 0


@dataclass
class Findings:
    """What was counted while the packets were labelled."""

    packets: int = 0
    counts: Counter[tuple[int, Role]] = field(default_factory=Counter)
    first_ns: dict[int, int] = field(default_factory=dict)
    last_ns: dict[int, int] = field(default_factory=dict)
    flows: dict[tuple[FlowKey, str, int], FlowTally] = field(default_factory=dict)
    strangers: Counter[str] = field(default_factory=Counter)

    def share(self, *roles: Role) -> float:
        """The part of all packets that these roles are."""
        count = sum(count for (_, role), count in self.counts.items() if role in roles)
        return round(count / self.packets, 4) if self.packets else 0.0


def marks_of(attempts: Iterable[Attempt]) -> list[Mark]:
    """What each attack is known by in the capture."""
    return [
        Mark(
            attack=attempt.planned.number,
            label=attempt.name,
            macs=frozenset(mac_bytes(machine.mac) for machine in attempt.scene.attackers),
            addresses=frozenset(
                socket.inet_aton(machine.address) for machine in attempt.scene.attackers
            ),
            spoofed=attempt.scene.spoofed if attempt.planned.attack.spoofs else None,
            reflection=attempt.planned.attack.reflection(attempt.scene),
            intercepts=attempt.planned.attack.intercepts,
        )
        for attempt in attempts
    ]


def label_capture(folder: Path, marks: Sequence[Mark], lan: Network) -> Findings:
    """Writes the table of packets and counts what is in it."""
    labeller = Labeller(marks)
    findings = Findings()
    known = _known_addresses(lan)
    truth = PacketTruth(folder / PACKETS_NAME, ("time_ns", "label", "role", "attack"))
    try:
        for captured in read_packets(folder / CAPTURE_NAME):
            frame = read_frame(captured.data)
            verdict = labeller.label(frame)
            truth.add(captured.ts_ns, verdict.label, verdict.role.value, verdict.attack)
            _count(findings, frame, verdict, captured.ts_ns, known)
    finally:
        truth.close()
    findings.packets = truth.packet_count
    return findings


def _count(
    findings: Findings, frame: Frame, verdict: Verdict, ts_ns: int, known: frozenset[bytes]
) -> None:
    packet = frame.packet
    findings.counts[verdict.attack, verdict.role] += 1
    if verdict.attack:
        findings.first_ns.setdefault(verdict.attack, ts_ns)
        findings.last_ns[verdict.attack] = ts_ns
    elif packet.source and packet.source not in known:
        findings.strangers[_text(packet.source)] += 1
    if packet.protocol is None:
        return
    is_through = verdict.role is Role.INTERCEPTED
    # A flow that was read on its way is a benign flow all the same.
    label, attack = (BENIGN_LABEL, 0) if is_through else (verdict.label, verdict.attack)
    key = (_flow_key(packet), label, attack)
    tally = findings.flows.get(key)
    if tally is None:
        client = packet.source, packet.source_port
        server = packet.destination, packet.destination_port
        tally = findings.flows[key] = FlowTally(ts_ns, client, server)
    tally.last_ns = ts_ns
    tally.packets += 1
    tally.intercepted += is_through


def _flow_key(packet: Packet) -> FlowKey:
    """The same for both directions."""
    ends = [(packet.source, packet.source_port), (packet.destination, packet.destination_port)]
    (one, one_port), (other, other_port) = sorted(ends, key=lambda end: (end[0], end[1] or 0))
    return packet.protocol, one, one_port, other, other_port


def state_flows(run: Run, lan: Network, findings: Findings) -> None:
    """Derives the label of each flow from those of its packets, attacks last: they win."""
    services = {
        address: server.server.NAME
        for server in lan.servers
        for address in (server.address, server.machine.address_v6)
    }
    ordered = sorted(findings.flows.items(), key=lambda item: item[0][2] > 0)
    for ((protocol, *_), label, attack), tally in ordered:
        client = _text(tally.client[0]), tally.client[1]
        server = _text(tally.server[0]), tally.server[1]
        run.truth.add(
            label=label,
            protocol=PROTOCOL_NAMES.get(protocol or 0, str(protocol)),
            client=client,
            server=server,
            start_ns=tally.first_ns,
            end_ns=tally.last_ns,
            attack=attack,
            service=services.get(server[0]) or services.get(client[0], ""),
            intercepted_packets=tally.intercepted,
        )
    counts = run.truth.finish(run.folder / CAPTURE_NAME)
    unexplained = counts.get(UNEXPLAINED, 0)
    run.check("flows: explained", not unexplained, f"{unexplained} without a label", "0")
    run.note(flows=counts)


def check(run: Run, attempts: Sequence[Attempt], findings: Findings, recorded: int) -> None:
    """What must hold for the labels to be believed."""
    run.check(
        "packets: all labelled", findings.packets == recorded,
        f"{findings.packets} labelled, {recorded} recorded", "the same",
    )  # fmt: skip
    strangers = ", ".join(f"{address} ({n})" for address, n in findings.strangers.most_common(5))
    run.check(
        "packets: benign sources known", not findings.strangers, strangers or "all known",
        "addresses of the run's own machines alone",
    )  # fmt: skip
    for attempt in attempts:
        _check_attempt(run, attempt, findings)
    run.note(
        packets=findings.packets,
        attack_share=findings.share(Role.ATTACKER, Role.RESPONSE, Role.REFLECTED),
        intercepted_share=findings.share(Role.INTERCEPTED),
    )


def _check_attempt(run: Run, attempt: Attempt, findings: Findings) -> None:
    number, bounds = attempt.planned.number, attempt.scene.bounds
    title = f"attack {number} {attempt.name}"
    run.check(f"{title}: done", not attempt.complaint, attempt.complaint or "done", "no complaint")
    run.check(
        f"{title}: kept its bounds", not attempt.cut_off, attempt.cut_off or "kept", "not cut off"
    )
    sent = findings.counts[number, Role.ATTACKER]
    run.check(
        f"{title}: packets", 1 <= sent <= bounds.packets_max, f"{sent} sent",
        f"1 to {bounds.packets_max}",
    )  # fmt: skip
    if "tool_sent" in attempt.facts:
        reported = int(str(attempt.facts["tool_sent"]))
        run.check(
            f"{title}: sent as reported", sent >= reported > 0,
            f"{sent} captured, {reported} reported by the tool", "all",
        )  # fmt: skip
    if number not in findings.first_ns:
        return
    early_s = (attempt.start_ns - findings.first_ns[number]) / 1e9
    late_s = (findings.last_ns[number] - attempt.end_ns) / 1e9
    run.check(
        f"{title}: interval", early_s <= 0 and late_s <= LINGER_S,
        f"first packet {-early_s:.3f} s after its start, last {late_s:.3f} s after its end",
        f"none before, none later than {LINGER_S:g} s",
    )  # fmt: skip


def write_attacks(path: Path, attempts: Sequence[Attempt], findings: Findings) -> None:
    """One row an attack: who, when, bounds, and its packets by role."""
    columns = (
        "attack", "name", "family", "machines", "macs", "start_ns", "end_ns", "first_ns", "last_ns",
        "packets_max", "forwarded_max", "time_max_s",
        *(role.value for role in ATTACK_ROLES), "facts",
    )  # fmt: skip
    with path.open("w") as table:
        print(*columns, sep="\t", file=table)
        for attempt in attempts:
            number, scene = attempt.planned.number, attempt.scene
            print(
                number, attempt.name, attempt.planned.family,
                " ".join(machine.address for machine in scene.attackers),
                " ".join(machine.mac for machine in scene.attackers),
                attempt.start_ns, attempt.end_ns,
                findings.first_ns.get(number, ""), findings.last_ns.get(number, ""),
                scene.bounds.packets_max, scene.bounds.forwarded_max,
                round(scene.bounds.time_max_s, 3),
                *(findings.counts[number, role] for role in ATTACK_ROLES),
                json.dumps(attempt.facts), sep="\t", file=table,
            )  # fmt: skip


def _known_addresses(lan: Network) -> frozenset[bytes]:
    machines = [*lan.clients, *(server.machine for server in lan.servers)]
    machines.append(network.Machine("gateway", network.GATEWAY))
    addresses = {socket.inet_aton(machine.address) for machine in machines}
    for machine in machines:
        addresses.add(socket.inet_pton(socket.AF_INET6, machine.address_v6))
        addresses.add(_link_local(mac_bytes(machine.mac)))
    # Who has no address yet asks whether another has it.
    addresses |= {bytes(4), bytes(16)}
    return frozenset(addresses)


def _link_local(mac: bytes) -> bytes:
    """The address that a kernel makes of a MAC address (RFC 4291, appendix A)."""
    return bytes.fromhex("fe80") + bytes(6) + bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]


def _text(address: bytes) -> str:
    return str(ipaddress.ip_address(address))
