"""A run of each attack of the sealed, the quiet and the forged scenario, read by tshark as well.

The run takes root; what the tools are given is tried without.
"""

import json
import random
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testbed_runs import SCENARIOS, TestbedRun, read_by_tshark, run_scenario
from wirelens_testbed.attacks import plan, remote_control, web_discovery
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.scenario import Table

SMALL = SCENARIOS / "attacks-tools-small.toml"
TCP, UDP, ICMP = "6", "17", "1"
ARP = ""  # no protocol above it
# Of each attack the protocol of its packets and the port that one end has; None: any.
SIGNS: dict[str, tuple[str, str | None]] = {
    "masscan_syn": (TCP, None),
    "arp_scan_sweep": (ARP, None),
    "fping_sweep": (ICMP, None),
    "sslscan_settings": (TCP, "443"),
    "svwar_extensions": (UDP, "5060"),
    "medusa_ftp": (TCP, "21"),
    "ncrack_http": (TCP, "80"),
    "medusa_ssh": (TCP, "22"),
    "onesixtyone_communities": (UDP, "161"),
    "gobuster_paths": (TCP, "80"),
    "sqlmap_injection": (TCP, "80"),
    "ptunnel_icmp": (ICMP, None),
    "httptunnel": (TCP, "80"),
    "siege_flood": (TCP, "80"),
    "mausezahn_syn_flood": (TCP, "80"),
    "mausezahn_udp_flood": (UDP, "80"),
    "ettercap_poisoning": (ARP, None),
    "nc_shell": (TCP, "4444"),
    "gnutls_beacons": (TCP, "443"),
    "curl_beacons": (TCP, "443"),
    "ncat_shell": (TCP, "4444"),
    "dirb_paths": (TCP, "80"),
    "hydra_postgres": (TCP, "5432"),
    "dig_exfiltration": (UDP, "53"),
    "snmpwalk_discovery": (UDP, "161"),
    "forged_reset_flood": (TCP, "80"),
    "forged_query_flood": (UDP, "53"),
}
# What the tool itself, or the testbed for it, reports of its success.
FACTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "arp_scan_sweep": lambda facts: facts["alive"] >= 3,
    "fping_sweep": lambda facts: facts["alive"] >= 3,
    "sslscan_settings": lambda facts: facts["accepted"] >= 3,
    "medusa_ftp": lambda facts: facts["found"] == 1,
    "ncrack_http": lambda facts: facts["found"] == 1,
    "medusa_ssh": lambda facts: facts["found"] == 0,
    "onesixtyone_communities": lambda facts: facts["found"] == 1,
    "hydra_postgres": lambda facts: facts["found"] == 1,
    "sqlmap_injection": lambda facts: facts["rows_read"] == 12,
    "siege_flood": lambda facts: facts["answered"] == 15,
    "dig_exfiltration": lambda facts: facts["answered"] == 6,
    "curl_beacons": lambda facts: facts["beacons"] >= 3,
    "gnutls_beacons": lambda facts: facts["beacons"] >= 3,
    "snmpwalk_discovery": lambda facts: facts["rows"] >= 5,
}
Rows = list[dict[str, str]]


def names_of(scenario: Path) -> set[str]:
    return {each["name"] for each in tomllib.loads(scenario.read_text())["attack"]}


def test_the_self_check_has_each_attack_of_these_scenarios() -> None:
    wanted = {
        name
        for scenario in ("attacks-sealed", "attacks-quiet", "attacks-forged")
        for name in names_of(SCENARIOS / f"{scenario}.toml") - {"hping_syn_flood"}
    }
    assert names_of(SMALL) == wanted == set(SIGNS)


def test_paths_that_are_tried_are_different_and_some_exist() -> None:
    paths = web_discovery.draw_paths(random.Random(1), 10_000)
    assert len(paths) == len(set(paths)) > 600
    assert {"0.html", "23.pdf", "admin", "backup.zip"} <= set(paths)
    assert len(web_discovery.draw_paths(random.Random(1), 30)) == 30


def test_commands_of_a_shell_change_nothing() -> None:
    readers = {"id", "date", "pwd", "env", "uname", "ip", "ss", "ls", "df", "head", "echo", "od"}
    for seed in range(200):
        command = remote_control.draw_command(random.Random(seed))
        assert "{}" not in command and ">" not in command
        assert {part.split()[0] for part in command.split("|")} <= readers
    assert {"ip address", "ip route"} < set(remote_control.COMMANDS)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"name": "gnutls_beacons", "tls": True}, "attack[0].tls is not known here"),
        ({"name": "curl_beacons", "jitter": 1.0}, "attack[0].jitter is 1.0, wanted at most 0.9"),
        ({"name": "sqlmap_injection", "technique": "time"}, "wanted one of union, boolean"),
        ({"name": "svwar_extensions", "method": "INVITE"}, "wanted one of OPTIONS, REGISTER"),
        ({"name": "dig_exfiltration", "bytes_per_question": 94}, "wanted at most 93"),
        ({"name": "fping_sweep", "prefix_length": 24}, "wanted at least 25"),
    ],
)
def test_values_that_a_tool_cannot_use_are_refused(values: Any, complaint: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        plan.parse(Table({"attack": [values]}))
    assert complaint in str(raised.value)


def test_names_that_carry_data_are_no_longer_than_a_name_may_be() -> None:
    digits = "0" * 2 * 93
    # A length for each label, and the root; the number of a question, and the domain.
    labels = [digits[start : start + 62] for start in range(0, len(digits), 62)]
    name = ["1387", *labels, *"t100.tunnel.example".split(".")]
    assert max(map(len, name)) <= 63 and sum(len(label) + 1 for label in name) + 1 <= 255


@pytest.mark.testbed
def test_each_tool_attacks_and_its_packets_are_labelled_by_what_tshark_reads(
    tmp_path: Path,
) -> None:
    run = run_scenario(SMALL, tmp_path)
    assert run.failed_checks() == []
    attacks = {row["name"]: row for row in run.table("attacks.tsv")}
    assert set(attacks) == set(SIGNS)
    seen = read_by_tshark(run.folder / "lan.pcapng")
    packets = run.table("packets.tsv.gz")
    rows = [truth | shark for truth, shark in zip(packets, seen, strict=True)]
    for name, row in attacks.items():
        assert FACTS.get(name, bool)(json.loads(row["facts"])), (name, row["facts"])
        check_signs(name, rows, row)
    check_scans(rows)
    check_floods(rows, attacks)
    check_interception(rows, attacks)
    check_benign(rows, attacks)
    check_flows(run)


def check_signs(name: str, rows: Rows, attack: dict[str, str]) -> None:
    """All packets of an attack that are not ARP have its protocol and port, one end its machine."""
    protocol, port = SIGNS[name]
    own = set(attack["machines"].split())
    mine = [row for row in rows if row["label"] == name and row["role"] != "intercepted"]
    sent = [row for row in mine if row["role"] == "attacker" and not row["arp.opcode"]]
    assert bool(sent) == (protocol != ARP), name
    for row in mine:
        if row["arp.opcode"]:
            continue
        # An error of ICMP answers a datagram to a port that is closed.
        is_error = row["role"] == "response" and row["ip.proto"] == ICMP
        assert row["ip.proto"] == protocol or is_error, (name, row)
        ends = {row["ip.src"], row["ip.dst"]}
        assert ends & own or any(end.startswith("198.18.") for end in ends), (name, row)
        ports = {row[f"{kind}.{end}"] for kind in ("tcp", "udp") for end in ("srcport", "dstport")}
        assert port is None or port in ports, (name, row)


def check_scans(rows: Rows) -> None:
    probes = [row for row in rows if row["label"] == "masscan_syn" and row["role"] == "attacker"]
    assert len({row["tcp.dstport"] for row in probes if row["tcp.flags"] == "0x0002"}) == 60
    # All addresses of the 27 bits but its own, which is not among them, were asked for.
    asked = [row for row in rows if row["label"] == "arp_scan_sweep" and row["arp.opcode"] == "1"]
    assert len(asked) == 32


def check_floods(rows: Rows, attacks: dict[str, dict[str, str]]) -> None:
    for name in ("mausezahn_syn_flood", "mausezahn_udp_flood"):
        sent = [row for row in rows if row["label"] == name and row["role"] == "attacker"]
        assert len(sent) == json.loads(attacks[name]["facts"])["tool_sent"] == 200
        # Two bursts, an address each.
        assert len({row["ip.src"] for row in sent}) == 2
    answers = [row for row in rows if row["label"] == "mausezahn_syn_flood" and row["tcp.flags"]]
    assert any(row["role"] == "response" and row["tcp.flags"] == "0x0012" for row in answers)


def check_interception(rows: Rows, attacks: dict[str, dict[str, str]]) -> None:
    """What passes through ettercap is between the two that it deceives, in and out."""
    attack = attacks["ettercap_poisoning"]
    facts = json.loads(attack["facts"])
    through = [row for row in rows if row["role"] == "intercepted"]
    assert {row["label"] for row in through} == {"ettercap_poisoning"}
    ends = {frozenset((row["ip.src"], row["ip.dst"])) for row in through}
    assert ends == {frozenset((facts["client"], facts["server"]))}
    # ettercap begins with an echo request to each end in the name of the other, which it made.
    carried = [row for row in through if row["ip.proto"] != ICMP]
    sent_on = sum(row["eth.src"] in attack["macs"] for row in carried)
    assert 0 < sent_on <= len(carried) - sent_on
    assert len(through) - len(carried) <= 2


def check_benign(rows: Rows, attacks: dict[str, dict[str, str]]) -> None:
    """No packet that is labelled benign has an address of an attacker, and there are enough."""
    machines = {each for row in attacks.values() for each in row["machines"].split()}
    counts: Counter[str] = Counter()
    for row in rows:
        if row["label"] == "benign":
            counts["benign"] += 1
            assert not {row["ip.src"], row["ip.dst"], row["arp.src.proto_ipv4"]} & machines, row
            assert not row["ip.src"].startswith("198.18.")
    assert counts["benign"] > 200


def check_flows(run: TestbedRun) -> None:
    labels = Counter(flow["label"] for flow in run.table("flows.tsv"))
    assert "unexplained" not in labels and labels["benign"] > 10
    assert labels["masscan_syn"] == 60
