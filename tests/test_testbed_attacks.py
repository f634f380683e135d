"""Attacks of the testbed: the rules that label packets, the bounds, and a run of all families.

The run takes root; the rules are tried on frames made here.
"""

import json
import random
import socket
import subprocess
from collections import Counter
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from testbed_runs import SCENARIOS, TestbedRun, read_by_tshark, run_scenario
from wirelens_testbed.attacks import (
    amplification,
    conduct,
    frame_sender,
    frames,
    logins,
    network,
    plan,
    time_server,
    victims,
)
from wirelens_testbed.attacks.attack import Bounds
from wirelens_testbed.attacks.labels import Labeller, Mark, Reflection
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.scenario import Table, draw, read_toml

SMALL = SCENARIOS / "attacks-small.toml"

ATTACKER, FLOODER, MIDDLE, REFLECTING = (f"10.66.0.{number}" for number in range(131, 135))
CLIENT, SERVER, RESOLVER, GATEWAY = "10.66.0.11", "10.66.0.51", "10.66.0.53", "10.66.0.1"
MADE_UP = "198.18.4.7"
VICTIM_PORT, BENIGN_PORT = 20_200, 40_000
NOBODY_YET = bytes(6)


def mac(address: str) -> bytes:
    return frames.mac_bytes(network.Machine("", int(address.rpartition(".")[2])).mac)


def mark(number: int, label: str, address: str, **more: Any) -> Mark:
    return Mark(
        attack=number,
        label=label,
        macs=frozenset({mac(address)}),
        addresses=frozenset({socket.inet_aton(address)}),
        **more,
    )


MARKS = (
    mark(1, "scan", ATTACKER),
    mark(2, "flood", FLOODER, spoofed=IPv4Network("198.18.4.0/22")),
    mark(3, "spoof", MIDDLE, intercepts=True),
    mark(
        4,
        "amplify",
        REFLECTING,
        reflection=Reflection(
            reflectors=frozenset({(socket.inet_aton(RESOLVER), 53)}),
            victim=socket.inet_aton(CLIENT),
            victim_ports=range(20_192, 20_256),
        ),
    ),
)


def ip_frame(link: tuple[str, str], ends: tuple[str, str], protocol: int, data: bytes) -> bytes:
    packet = frames.ipv4(*ends, protocol, data, ident=7)
    return frames.ethernet(mac(link[0]), mac(link[1]), frames.ETHER_TYPE_IPV4, packet)


def tcp_frame(link: tuple[str, str], ends: tuple[str, str], ports: tuple[int, int]) -> bytes:
    segment = frames.tcp(*ends, ports, flags=frames.TCP_SYN, sequence=1)
    return ip_frame(link, ends, frames.PROTOCOL_TCP, segment)


def udp_frame(ends: tuple[str, str], ports: tuple[int, int], sender: str = "") -> bytes:
    datagram = frames.udp(*ends, ports, b"x" * 20)
    return ip_frame((sender or ends[0], ends[1]), ends, frames.PROTOCOL_UDP, datagram)


def unreachable(quoted: bytes, ends: tuple[str, str]) -> bytes:
    body = bytes([3, 3, 0, 0, 0, 0, 0, 0]) + quoted[frames.ETHER_HEADER_SIZE_BYTES :][:28]
    return ip_frame(ends, ends, frames.PROTOCOL_ICMP, body)


def arp_frame(sender: str, told: bytes, asked: tuple[str, str], operation: int) -> bytes:
    speaker, target = asked
    body = frames.arp(operation, (mac(sender), speaker), (NOBODY_YET, target))
    return frames.ethernet(mac(sender), told, frames.ETHER_TYPE_ARP, body)


ANSWER = udp_frame((RESOLVER, CLIENT), (53, VICTIM_PORT))
CASES = {
    "a probe": (tcp_frame((ATTACKER, SERVER), (ATTACKER, SERVER), (5000, 80)), "scan attacker 1"),
    "its answer": (
        tcp_frame((SERVER, ATTACKER), (SERVER, ATTACKER), (80, 5000)),
        "scan response 1",
    ),
    "the attacker asks for a server": (
        arp_frame(ATTACKER, frames.BROADCAST_MAC, (ATTACKER, SERVER), frames.ARP_REQUEST),
        "scan attacker 1",
    ),
    "a server asks for the attacker": (
        arp_frame(SERVER, frames.BROADCAST_MAC, (SERVER, ATTACKER), frames.ARP_REQUEST),
        "scan response 1",
    ),
    "a flood's packet": (
        tcp_frame((FLOODER, SERVER), (MADE_UP, SERVER), (5000, 80)),
        "flood attacker 2",
    ),
    "its answer to nobody": (
        tcp_frame((SERVER, GATEWAY), (SERVER, MADE_UP), (80, 5000)),
        "flood response 2",
    ),
    "an error to nobody": (
        unreachable(udp_frame((MADE_UP, SERVER), (9, 9), FLOODER), (SERVER, MADE_UP)),
        "flood response 2",
    ),
    "an address that another made up": (
        tcp_frame((SERVER, GATEWAY), (SERVER, "198.18.8.1"), (80, 5000)),
        "benign benign 0",
    ),
    "a forged answer": (
        arp_frame(MIDDLE, mac(CLIENT), (SERVER, CLIENT), frames.ARP_REPLY),
        "spoof attacker 3",
    ),
    "a question to who is in the middle": (
        arp_frame(CLIENT, mac(MIDDLE), (CLIENT, SERVER), frames.ARP_REQUEST),
        "spoof response 3",
    ),
    "a packet on its way to the middle": (
        tcp_frame((CLIENT, MIDDLE), (CLIENT, SERVER), (BENIGN_PORT, 80)),
        "spoof intercepted 3",
    ),
    "the same on its way on": (
        tcp_frame((MIDDLE, SERVER), (CLIENT, SERVER), (BENIGN_PORT, 80)),
        "spoof intercepted 3",
    ),
    "the middle's own packet": (
        tcp_frame((MIDDLE, SERVER), (MIDDLE, SERVER), (BENIGN_PORT, 80)),
        "spoof attacker 3",
    ),
    "a forged question": (
        udp_frame((CLIENT, RESOLVER), (VICTIM_PORT, 53), REFLECTING),
        "amplify attacker 4",
    ),
    "a reflected answer": (ANSWER, "amplify reflected 4"),
    "the victim refuses it": (unreachable(ANSWER, (CLIENT, RESOLVER)), "amplify response 4"),
    "the reflector refuses": (
        unreachable(udp_frame((CLIENT, RESOLVER), (VICTIM_PORT, 53)), (RESOLVER, CLIENT)),
        "amplify reflected 4",
    ),
    "an answer that was asked for": (
        udp_frame((RESOLVER, CLIENT), (53, BENIGN_PORT)),
        "benign benign 0",
    ),
    "a client and a server": (
        tcp_frame((CLIENT, SERVER), (CLIENT, SERVER), (BENIGN_PORT, 80)),
        "benign benign 0",
    ),
    "a frame cut to nothing": (b"", "benign benign 0"),
    "a frame cut in its header": (
        tcp_frame((ATTACKER, SERVER), (ATTACKER, SERVER), (5000, 80))[:20],
        "scan attacker 1",
    ),
}


def verdict_on(labeller: Labeller, data: bytes) -> str:
    verdict = labeller.label(frames.read_frame(data))
    return f"{verdict.label} {verdict.role} {verdict.attack}"


@pytest.mark.parametrize("case", CASES)
def test_a_frame_is_labelled_by_the_addresses_that_one_attack_alone_uses(case: str) -> None:
    data, wanted = CASES[case]
    assert verdict_on(Labeller(MARKS), data) == wanted


def test_a_later_fragment_has_the_label_of_the_first() -> None:
    def fragment(flags_and_offset: int, answer: bytes) -> bytes:
        start = frames.ETHER_HEADER_SIZE_BYTES + 6
        return answer[:start] + flags_and_offset.to_bytes(2, "big") + answer[start + 2 :]

    labeller = Labeller(MARKS)
    benign = udp_frame((RESOLVER, "10.66.0.12"), (53, VICTIM_PORT))
    for answer, wanted in ((ANSWER, "amplify reflected 4"), (benign, "benign benign 0")):
        assert verdict_on(labeller, fragment(0x2000, answer)) == wanted
        assert verdict_on(labeller, fragment(0x2003, answer)) == wanted
        assert verdict_on(labeller, fragment(0x0006, answer)) == wanted
    # Without its first, nobody can know.
    assert verdict_on(Labeller(MARKS), fragment(0x0006, ANSWER)) == "benign benign 0"


def test_two_attacks_with_one_address_are_refused() -> None:
    with pytest.raises(ValueError, match="attacks 1 and 2 share the MAC address 02:57:4c:66:00:83"):
        Labeller((mark(1, "scan", ATTACKER), mark(2, "flood", ATTACKER)))


def test_what_attacks_may_make_up_is_theirs_alone() -> None:
    numbers = range(1, plan.ATTACKS_MAX + 1)
    ranges = [network.spoofed_by(number) for number in numbers]
    assert all(each.subnet_of(network.SPOOFED) for each in ranges)
    assert len(set(ranges)) == len(ranges)
    ports = [port for number in numbers for port in network.victim_ports_of(number)]
    assert len(set(ports)) == len(ports)
    assert max(ports) < int(network.CLIENT_PORTS.split()[0])


def test_sweeps_and_benign_hosts_end_where_attackers_begin() -> None:
    swept = IPv4Network((network.NETWORK.network_address, network.SWEPT_PREFIX_LENGTH_MIN))
    assert swept.num_addresses <= network.FIRST_ATTACKER
    assert network.FIRST_CLIENT + network.CLIENTS_MAX < network.FIRST_VICTIM
    assert network.FIRST_VICTIM + len(network.VICTIMS) < network.FIRST_OTHER
    assert network.FIRST_OTHER + network.OTHERS_MAX < network.FIRST_ATTACKER
    assert network.FIRST_ATTACKER + network.ATTACKERS_MAX < network.NETWORK.num_addresses


def test_a_frame_that_is_built_is_read_as_it_was_meant() -> None:
    read = frames.read_frame(tcp_frame((CLIENT, SERVER), (CLIENT, SERVER), (1, 65_535))).packet
    assert (read.source, read.destination) == (socket.inet_aton(CLIENT), socket.inet_aton(SERVER))
    assert (read.protocol, read.source_port, read.destination_port) == (6, 1, 65_535)
    packet = frames.ipv4(CLIENT, SERVER, 17, frames.udp(CLIENT, SERVER, (1, 2), b"odd"), ident=1)
    # A sum over what holds its own checksum is zero (RFC 1071).
    assert frames.checksum(packet[:20]) == 0
    pseudo_header = packet[12:20] + bytes([0, 17, 0, 11])
    assert frames.checksum(pseudo_header + packet[20:]) == 0


def table(**values: Any) -> Table:
    return Table(values)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"attack": [{"name": "nmap"}]}, "attack[0].name is 'nmap', wanted one of amplify_dns"),
        (
            {"attack": [{"name": "iodine", "start_s": 99.0}]},
            "starts at 99 s, wanted within the 60 s",
        ),
        ({"attack": [{"name": "nmap_syn", "port": 9}]}, "attack[0].port is not known here"),
        (
            {"attack": [{"name": "nmap_syn", "timing": 0}]},
            "attack[0].timing is 0, wanted at least 2",
        ),
        ({"attack": [{"name": "hping_syn_flood"}] * 101}, "101 attacks by 101 machines"),
        (
            {"attack": [{"name": "nmap_syn", "targets": ["x"]}]},
            "1, nmap_syn: targets has 'x', wanted",
        ),
        ({"benign": {"services": ["gopher"]}}, "benign.services has 'gopher', wanted one of"),
        ({"snaplen": 60}, "snaplen is 60, wanted at least 96"),
    ],
)
def test_a_scenario_that_cannot_be_done_is_refused(values: Any, complaint: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        plan.parse(table(**values))
    assert complaint in str(raised.value)


def test_only_the_packages_of_what_is_planned_are_required() -> None:
    planned = plan.parse(
        table(attack=[{"name": "hping_udp_flood"}, {"name": "forged_arp_replies"}])
    )
    assert set(planned.programs) == {"hping3", "nginx", "openssl", "curl", "wget"}
    absent = plan.parse(table(attack=[{"name": "hydra_ftp", "present": False}]))
    assert not absent.planned and "vsftpd" not in absent.programs


@pytest.mark.parametrize("name", sorted(n for m in plan.MODULES for n in m.ATTACKS))
def test_every_attack_has_bounds_and_victims_that_exist(name: str) -> None:
    (planned,) = plan.parse(table(attack=[{"name": name}])).planned
    assert 0 < planned.attack.bounds.packets_max < 1_000_000
    assert 0 < planned.attack.bounds.time_max_s < 1000
    assert planned.attack.needs <= set(network.VICTIMS)


def test_a_guess_that_is_to_succeed_stands_in_the_last_quarter() -> None:
    right = (victims.USER, victims.PASSWORD)
    for seed in range(50):
        guesses = logins.draw_guesses(random.Random(seed), 20, right)
        assert len(guesses) == 20 and guesses.count(right) == 1 and guesses.index(right) >= 15
        assert right not in logins.draw_guesses(random.Random(seed), 20, None)


def test_questions_are_much_smaller_than_what_they_ask_for() -> None:
    rng = random.Random(1)
    assert len(amplification.dns_question(rng)) < 60
    assert len(amplification.snmp_question(rng)) < 60
    assert len(amplification.memcached_question(rng)) < 30
    answers = time_server.answers_to(amplification.ntp_question(rng), 0.0)
    assert len(answers) == 10 and {len(answer) for answer in answers} == {440}
    # Only the last says that no more follow.
    assert [bool(answer[0] & 0x40) for answer in answers] == [True] * 9 + [False]
    assert time_server.answers_to(b"", 0.0) == []


def test_forged_frames_are_refused_outside_a_lab() -> None:
    done = subprocess.run(
        frame_sender.command(),
        input=frame_sender.pack("lo", 1.0, []),
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == 1
    assert b"may send only in one of a lab" in done.stderr


def test_prepared_frames_arrive_as_they_were_packed() -> None:
    due = frame_sender.evenly([b"one", b"second"], rate_per_s=4)
    head, _, rest = frame_sender.pack("eth0", 5.0, due).partition(b"\n")
    assert json.loads(head) == {"device": "eth0", "time_max_s": 5.0, "count": 2}
    assert frame_sender.unpack(rest) == due
    assert [frame.due_ns for frame in due] == [0, 250_000_000]


def test_an_attacker_that_exceeds_its_bounds_is_unplugged(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    lab = SimpleNamespace(ip=lambda host, *lines: commands.extend(lines))
    run: Any = SimpleNamespace(lab=lab, event=lambda name, **facts: None)
    scene: Any = SimpleNamespace(
        number=1,
        attackers=[network.Machine("a1x", 128)],
        bounds=Bounds(100, 5),
        ends_s=float("inf"),
    )
    planned: Any = SimpleNamespace(number=1, attack=SimpleNamespace(name="flood"))
    attempt = conduct.Attempt(planned, scene, start_ns=1)
    guard = conduct.Guard(run, [attempt])
    for sent, is_cut_off in ((100, False), (101, True)):
        monkeypatch.setattr(guard, "_sent_counts", lambda sent=sent: {"p-a1x": sent})
        guard.look()
        assert bool(attempt.cut_off) == is_cut_off
    assert attempt.cut_off == "101 frames sent, wanted at most 100"
    assert commands == ["link set p-a1x down"]


@pytest.mark.testbed
def test_a_run_of_all_families_knows_the_attack_of_every_packet(tmp_path: Path) -> None:
    run = run_scenario(SMALL, tmp_path)
    assert run.failed_checks() == []
    attacks = {row["name"]: row for row in run.table("attacks.tsv")}
    drawn = draw(read_toml(SMALL), run.report["seed"])
    assert set(attacks) == {each["name"] for each in drawn["attack"]}
    packets = run.table("packets.tsv.gz")
    seen = read_by_tshark(run.folder / "lan.pcapng")
    assert [row["number"] for row in packets] == [row["frame.number"] for row in seen]
    rows = [truth | shark for truth, shark in zip(packets, seen, strict=True)]
    check_machines(rows, attacks)
    check_scan(rows, attacks)
    check_floods(rows, attacks)
    check_reflection(rows, attacks)
    check_spoofing(rows, attacks)
    check_flows(run, rows)
    counts = Counter((row["label"], row["role"]) for row in packets)
    for name, row in attacks.items():
        told = {
            role: int(row[role]) for role in ("attacker", "response", "reflected", "intercepted")
        }
        assert told == {role: counts[name, role] for role in told}
        assert 0 < told["attacker"] <= int(row["packets_max"])
    assert counts["benign", "benign"] > 300


Rows = list[dict[str, str]]
Attacks = dict[str, dict[str, str]]


def of(rows: Rows, name: str, role: str) -> Rows:
    return [row for row in rows if row["label"] == name and row["role"] == role]


def check_machines(rows: Rows, attacks: Attacks) -> None:
    """What attackers' machines send, and it alone, is an attack's."""
    machines = {mac: name for name, row in attacks.items() for mac in row["macs"].split()}
    for row in rows:
        sender, target = machines.get(row["eth.src"]), machines.get(row["eth.dst"])
        if row["role"] == "benign":
            assert not sender and not target
            assert not row["ip.src"].startswith("198.18.") and not row["ip.dst"].startswith(
                "198.18."
            )
        elif row["role"] == "attacker":
            assert sender == row["label"]
        elif row["role"] == "intercepted":
            assert row["label"] in (sender, target)
        elif sender or target:
            assert row["label"] == target


def check_scan(rows: Rows, attacks: Attacks) -> None:
    """Of a SYN scan each port is probed, and each probe and answer is TCP or finds addresses."""
    own = attacks["nmap_syn"]["machines"]
    probes = [row for row in of(rows, "nmap_syn", "attacker") if row["tcp.flags"] == "0x0002"]
    assert len({row["tcp.dstport"] for row in probes}) == 50
    assert {row["ip.src"] for row in probes} == {own}
    syn_ack, rst_ack = "0x0012", "0x0014"
    for row in of(rows, "nmap_syn", "response"):
        is_answer = row["ip.dst"] == own and row["tcp.flags"] in (syn_ack, rst_ack)
        assert is_answer or row["arp.opcode"]


def check_floods(rows: Rows, attacks: Attacks) -> None:
    """As many packets as the tool says it sent, from addresses that it made up."""
    for name, protocol in (("hping_syn_flood", "6"), ("forged_udp_flood", "17")):
        sent = [row for row in of(rows, name, "attacker") if row["ip.proto"] == protocol]
        assert len(sent) == json.loads(attacks[name]["facts"])["tool_sent"] == 300
        assert all(row["ip.src"].startswith("198.18.") for row in sent)
        answers = of(rows, name, "response")
        assert answers and all(
            row["ip.dst"].startswith("198.18.") or row["arp.opcode"] for row in answers
        )
    assert len({row["ip.src"] for row in of(rows, "hping_syn_flood", "attacker")} - {""}) == 2


def check_reflection(rows: Rows, attacks: Attacks) -> None:
    facts = json.loads(attacks["amplify_dns"]["facts"])
    sent = [row for row in of(rows, "amplify_dns", "attacker") if row["udp.dstport"] == "53"]
    assert len(sent) == facts["tool_sent"] == 20
    assert {row["ip.src"] for row in sent} == {facts["victim"]}
    reflected = of(rows, "amplify_dns", "reflected")
    # Each answer is larger than a frame: fragments, of which the first alone has ports.
    assert len(reflected) > 2 * len(sent)
    ends = {(row["ip.src"], row["ip.dst"]) for row in reflected}
    assert ends == {(facts["reflector"], facts["victim"])}


def check_spoofing(rows: Rows, attacks: Attacks) -> None:
    facts = json.loads(attacks["forged_arp_replies"]["facts"])
    forged = [row for row in of(rows, "forged_arp_replies", "attacker") if row["arp.opcode"] == "2"]
    told = Counter(row["arp.src.proto_ipv4"] for row in forged)
    assert told[facts["client"]] == told[facts["server"]] == 8 + 3  # a second apart, and restored
    through = of(rows, "forged_arp_replies", "intercepted")
    ends = {frozenset((row["ip.src"], row["ip.dst"])) for row in through}
    assert ends <= {frozenset((facts["client"], facts["server"]))}
    to_middle = sum(row["eth.dst"] in attacks["forged_arp_replies"]["macs"] for row in through)
    assert len(through) - to_middle <= to_middle  # it forwards what it got, and nothing else


def check_flows(run: TestbedRun, rows: Rows) -> None:
    flows = run.table("flows.tsv")
    labels = Counter(flow["label"] for flow in flows)
    assert labels["hping_syn_flood"] == 300 and labels["nmap_syn"] == 50
    assert labels["benign"] > 10 and "unexplained" not in labels
    intercepted = sum(int(flow["intercepted_packets"]) for flow in flows)
    assert intercepted == sum(row["role"] == "intercepted" for row in rows)
