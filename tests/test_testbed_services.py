"""Services of the testbed: what is drawn, who may visit when, and a run that tshark agrees with.

The run takes root; the rest does without programs and networks.
"""

import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from testbed_runs import AT_ANY_TIME, SCENARIOS, left_behind, run_scenario
from wirelens_testbed import services
from wirelens_testbed.failure import LabError, ScenarioError
from wirelens_testbed.scenario import Table, draw, read_toml
from wirelens_testbed.services import schedule, sip
from wirelens_testbed.services.bittorrent import bencode
from wirelens_testbed.services.clients import dash_player
from wirelens_testbed.services.network import Paths, plan_hosts
from wirelens_testbed.services.registry import SERVICES
from wirelens_testbed.services.service import Host, Server, Shares, Visit, draw_log, draw_text
from wirelens_testbed.services.stores import serialize

SMALL = SCENARIOS / "services-small.toml"
CLIENTS = [
    Host(f"client{number}", f"10.20.0.{number}", f"2001:db8:20::{number}") for number in "12"
]

# What a dissector that sees the standard ports may find in flows of a label. Most mail and database
# connections begin in the clear and go on with TLS.
DISSECTED = {
    "http": {"http"},
    "https": {"tls"},
    "http2": {"tls"},
    "http3": {"quic"},
    "dns": {"dns"},
    "dot": {"tls"},
    "ssh": {"ssh"},
    "sftp": {"ssh"},
    "smtp": {"smtp", "tls"},
    "imap": {"imap", "tls"},
    "ntp": {"ntp"},
    "snmp": {"snmp"},
    "sip": {"sip"},
    "rtp": {"rtp"},
    "wireguard": {"wg"},
    "openvpn": {"openvpn"},
    "bittorrent": {"http", "bittorrent", "bt-utp"},
    "dash": {"tls"},
    "mqtt": {"mqtt", "tls"},
    "redis": {"resp", "tls"},
    "postgresql": {"pgsql", "tls"},
}
# Peers hide what they say, each pair in its own way; only the tracker is asked in the clear.
HIDDEN = {"bittorrent"}
# The handshakes of these are seen to be TLS's; that alone would not make them what they are.
CARRIED = {"openvpn": {"tls"}, "http3": {"tls"}}
PROTOCOLS = frozenset().union(*DISSECTED.values())

DESCRIPTION = b"""<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period>
  <AdaptationSet contentType="video">
    <Representation id="1" bandwidth="600000"><SegmentTemplate timescale="1000" duration="2000"
      initialization="init-$RepresentationID$.m4s" startNumber="1"
      media="chunk-$RepresentationID$-$Number%05d$.m4s"/></Representation>
    <Representation id="0" bandwidth="200000"><SegmentTemplate timescale="1000" duration="2000"
      initialization="init-$RepresentationID$.m4s" startNumber="1"
      media="chunk-$RepresentationID$-$Number%05d$.m4s"/></Representation>
  </AdaptationSet>
  <AdaptationSet contentType="audio">
    <Representation id="2" bandwidth="64000"><SegmentTemplate timescale="1000" duration="2000"
      initialization="init-$RepresentationID$.m4s"
      media="chunk-$RepresentationID$-$Number%05d$.m4s"/></Representation>
  </AdaptationSet>
</Period></MPD>"""


def parse(**values: object) -> services.Plan:
    table = Table(values)
    plan = services.parse(table)
    table.finish()
    return plan


def lab_of_nothing(folder: Path) -> SimpleNamespace:
    """What a server's draws need of a lab."""
    return SimpleNamespace(
        run_dir=folder,
        sysctl=lambda host, settings: None,
        pause=time.sleep,
        abandon=lambda: None,
    )


def test_the_scenarios_that_ship_visit_every_service() -> None:
    for path in sorted(SCENARIOS.glob("services*.toml")):
        values = draw(read_toml(path), seed=1)
        assert values.pop("kind") == services.NAME
        plan = parse(**values)
        assert set(plan.counts) == set(SERVICES)
        assert all(count > 0 for count in plan.counts.values())


def test_every_label_has_something_that_a_dissector_should_see() -> None:
    assert set(DISSECTED) == {*SERVICES, sip.Sip.RTP_LABEL}


def test_only_the_named_services_need_their_programs() -> None:
    plan = parse(services=["ssh"])
    needed = services.programs(plan)
    assert "sshd" in needed and "dnsmasq" in needed
    assert not {"nginx", "postgres", "ffmpeg"} & set(needed)
    assert set(needed) < set(services.PROGRAMS)


def test_an_unknown_service_is_refused_by_name() -> None:
    with pytest.raises(ScenarioError, match="'gopher' is not known; known: http"):
        parse(services=["gopher"])


def test_visits_of_a_service_that_is_not_wanted_are_refused() -> None:
    with pytest.raises(ScenarioError, match="visits.dash is not known here"):
        parse(services=["ssh"], visits={"dash": 3})


def test_a_range_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(ScenarioError, match="max is 5.0, wanted at least 9.0"):
        Paths.parse(Table({"down_mbit": {"min": 9.0, "max": 5.0}}))


def test_every_host_has_addresses_of_its_own() -> None:
    network = plan_hosts(50, list(SERVICES))
    hosts = [*network.clients, *network.servers.values(), network.resolver]
    for addresses in ([host.ipv4 for host in hosts], [host.ipv6 for host in hosts]):
        assert len({ip_address(address) for address in addresses}) == len(hosts)


@pytest.mark.parametrize("name", SERVICES)
def test_a_server_is_at_another_port_as_often_as_asked(name: str, tmp_path: Path) -> None:
    service, lab = SERVICES[name], lab_of_nothing(tmp_path)

    def port(seed: int, share: float) -> int:
        folder = tmp_path / f"{seed}-{share}"
        shares = Shares(other_port=share)
        return service(lab, CLIENTS[0], random.Random(seed), shares, folder=folder).port

    assert {port(seed, 0.0) for seed in range(20)} == {service.STANDARD_PORT}
    others = {port(seed, 1.0) for seed in range(20)}
    assert service.STANDARD_PORT not in others and len(others) > 5


def test_what_is_drawn_has_the_size_asked_for() -> None:
    rng = random.Random(1)
    sizes = [draw_log(rng, 100, 1_000_000) for _ in range(500)]
    assert 100 <= min(sizes) and max(sizes) <= 1_000_000
    assert 0.4 < sum(size < 10_000 for size in sizes) / len(sizes) < 0.6
    for size in (0, 1, 7, 1000):
        assert len(draw_text(rng, size)) == size


def test_visits_are_drawn_from_the_seed_in_the_order_of_time() -> None:
    def planned(seed: int) -> list[schedule.Appointment]:
        return schedule.plan_visits(random.Random(seed), {"a": 30, "b": 2}, CLIENTS, 60.0)

    visits = planned(1)
    assert visits == planned(1) != planned(2)
    assert Counter(visit.service for visit in visits) == {"a": 30, "b": 2}
    starts = [visit.start_s for visit in visits]
    assert starts == sorted(starts) and 0.0 <= starts[0] and starts[-1] < 60.0


class Counting:
    """A server that notes who is with it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.guests: Counter[str] = Counter()
        self.most = 0
        self.most_of_one = 0

    def visit(self, client: Host, rng: random.Random) -> Visit:
        with self.lock:
            self.guests[client.name] += 1
            self.most = max(self.most, self.guests.total())
            self.most_of_one = max(self.most_of_one, self.guests[client.name])
        time.sleep(0.05)
        with self.lock:
            self.guests[client.name] -= 1
        if rng.random() < 0.3:
            raise LabError("no luck\ntoday")
        return Visit("drawn", "none", 0)


def test_visits_of_one_client_to_one_server_keep_apart(tmp_path: Path) -> None:
    server = Counting()
    told: list[schedule.Outcome] = []
    visitors = schedule.Visitors(lab_of_nothing(tmp_path), {"a": server}, 4, told.append)
    visits = schedule.plan_visits(random.Random(3), {"a": 6}, CLIENTS, 0.0)
    outcomes = visitors.make(visits)
    assert outcomes == told and len(outcomes) == 6
    assert server.most == 2 and server.most_of_one == 1
    for client in CLIENTS:
        own = [each for each in outcomes if each.appointment.client == client]
        own.sort(key=lambda each: each.start_ns)
        for earlier, later in zip(own, own[1:], strict=False):
            assert later.start_ns - earlier.end_ns >= schedule.CLOCK_SLACK_NS
    failed = [each for each in outcomes if each.visit is None]
    assert failed and {each.complaint for each in failed} == {"no luck today"}


def test_what_is_no_fault_of_a_visit_ends_them_all(tmp_path: Path) -> None:
    broken = SimpleNamespace(visit=lambda client, rng: 1 / 0)
    visitors = schedule.Visitors(lab_of_nothing(tmp_path), {"a": broken}, 2, lambda outcome: None)
    with pytest.raises(ZeroDivisionError):
        visitors.make(schedule.plan_visits(random.Random(1), {"a": 1}, CLIENTS, 0.0))


def test_commands_are_written_as_redis_reads_them() -> None:
    assert serialize(["SET", "a", "é"]) == "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\né\r\n".encode()


def test_torrents_are_written_as_bep_3_says() -> None:
    assert bencode({"b": 3, "a": "xy"}) == b"d1:a2:xy1:bi3ee"
    assert bencode({"pieces": b"\x00\xff"}) == b"d6:pieces2:\x00\xffe"


def test_the_player_knows_the_encodings_of_a_clip() -> None:
    pictures, sounds = dash_player.parse(DESCRIPTION)
    assert [picture.bits_per_s for picture in pictures] == [200_000, 600_000]
    assert [picture.first for picture in pictures] == ["init-0.m4s", "init-1.m4s"]
    assert [sound.segment_s for sound in sounds] == [2.0]


@pytest.mark.parametrize(
    "bits_per_s, buffer_s, rule, wanted",
    [
        (0, 0, "throughput", 200_000),
        (740_000, 0, "throughput", 200_000),
        (760_000, 0, "throughput", 600_000),
        (0, 4, "buffer", 200_000),
        (0, 6, "buffer", 600_000),
        (0, 99, "buffer", 600_000),
        (0, 0, "fixed", 600_000),
    ],
)
def test_the_player_chooses_by_its_rule(
    bits_per_s: float, buffer_s: float, rule: str, wanted: int
) -> None:
    player = object.__new__(dash_player.Player)
    player.asked = {"rule": rule, "buffer_s": 10.0, "fixed": 1}
    player.bits_per_s, player.buffer_s = bits_per_s, buffer_s
    pictures, _ = dash_player.parse(DESCRIPTION)
    assert player.choose(pictures).bits_per_s == wanted


def test_a_player_without_a_buffer_stalls() -> None:
    player = object.__new__(dash_player.Player)
    player.report, player.buffer_s, player.is_playing = {"stalled_s": 0.0}, 0.0, False
    player.play_out(3.0, 2.0)  # nothing plays yet
    player.play_out(5.0)
    assert player.report["stalled_s"] == 3.0 and player.buffer_s == 0.0


def test_the_scripts_of_calls_are_whole() -> None:
    call = sip._call("PCMA", 8, "sound.raw,-1,8", 1500)
    for script in (sip.ANSWER, sip._request("OPTIONS"), call):
        assert ElementTree.fromstring(script.partition("?>")[2]).tag == "scenario"
    assert "a=rtpmap:8 PCMA/8000" in call and 'milliseconds="1500"' in call


def dissect(capture: Path) -> dict[tuple[str, frozenset[tuple[str, str]]], set[str]]:
    """What tshark finds in each flow, by transport and both of its ends."""
    fields = ["frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"]
    fields += [f"{protocol}.{end}port" for protocol in ("tcp", "udp") for end in ("src", "dst")]
    command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "occurrence=f"]
    command += [word for field in fields for word in ("-e", field)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found: dict[tuple[str, frozenset[tuple[str, str]]], set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        protocols, source4, target4, source6, target6, *ports = line.split("\t")
        for transport, (source_port, target_port) in (("tcp", ports[:2]), ("udp", ports[2:])):
            if source_port:
                source = (str(ip_address(source4 or source6)), source_port)
                target = (str(ip_address(target4 or target6)), target_port)
                found[transport, frozenset((source, target))] |= set(protocols.split(":"))
    return found


@pytest.mark.testbed
def test_flows_are_what_their_labels_say_by_the_word_of_tshark(tmp_path: Path) -> None:
    # At standard ports only: a dissector goes by those, and would be misled as others are.
    run = run_scenario(SMALL, tmp_path, *AT_ANY_TIME, "--set", "other_port_share=0")
    assert not left_behind()
    # A visit may fail on a slow machine, by the share that the run itself allows; its flows are
    # labelled all the same, but need not have come to speak their protocol.
    assert run.failed_checks() == []
    found = dissect(run.folder / "lan.pcapng")
    labels: Counter[str] = Counter()
    for flow in run.table("flows.tsv"):
        label = flow["label"]
        ends = frozenset(((flow["src_ip"], flow["src_port"]), (flow["dst_ip"], flow["dst_port"])))
        seen = found[flow["protocol"], ends] & PROTOCOLS - CARRIED.get(label, set())
        assert seen <= DISSECTED[label], f"{label}: tshark sees {seen} in {flow}"
        is_spoken = flow["variant"] != "failed" and label not in HIDDEN
        assert seen or not is_spoken, f"{label}: tshark sees nothing known in {flow}"
        labels[label] += bool(seen)
        assert flow["service"] and flow["variant"] or label in HIDDEN
    assert set(+labels) == set(DISSECTED)


def test_servers_are_told_apart_by_name() -> None:
    assert len({service.NAME for service in SERVICES.values()}) == len(SERVICES)
    for name, service in SERVICES.items():
        assert issubclass(service, Server) and service.NAME == name
        # A namespace's end of a pair is called after it, and the kernel takes 15 characters.
        assert len(f"p-{name}") <= 15 and name.isalnum()
