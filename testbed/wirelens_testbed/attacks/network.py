"""The network of an attacks run: one switch with all hosts, recorded where each packet passes once.

    clients ---+                 +--- victims (servers that attacks aim at)
               |                 |
    gateway ---+--- [ switch ] --+--- others (servers of `services`)
                         ^       |
                     recorded    +--- attackers, one or two machines for each attack

Each attack has machines of its own, and with them MAC and IP addresses that no other host uses. It
has a range of addresses that it alone may forge, and a block of ports of its victim. The gateway
has the route to all forged addresses and drops packets to them. There is no route out of the
switch.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wirelens_testbed.attacks import victims
from wirelens_testbed.lab import Lab
from wirelens_testbed.services.registry import SERVICES
from wirelens_testbed.services.service import Host, Server, Shares
from wirelens_testbed.services.ssh import USER as SERVICES_USER
from wirelens_testbed.services.web import WebServer
from wirelens_testbed.switch import add_switch, plug_in

NETWORK = ipaddress.IPv4Network("10.66.0.0/24")
NETWORK_V6 = "fd66::"
# The range set aside for measuring devices (RFC 2544): nobody benign has an address in it.
SPOOFED = ipaddress.IPv4Network("198.18.0.0/15")
SPOOFED_PREFIX_LENGTH = 22

SWITCH, SWITCH_DEVICE, DEVICE = "switch", "lan0", "eth0"
GATEWAY = 1
FIRST_CLIENT, CLIENTS_MAX = 11, 30
FIRST_VICTIM, FIRST_OTHER, OTHERS_MAX = 51, 71, 30
# The lower half of the network is what sweeps look through. Attackers live above it: one that
# answered another's sweep would have sent a frame that both could claim.
FIRST_ATTACKER, ATTACKERS_MAX = 128, 100
SWEPT_PREFIX_LENGTH_MIN = 25

# Below the ports that kernels give to clients by themselves.
FIRST_VICTIM_PORT, VICTIM_PORTS = 20_000, 64
CLIENT_PORTS = "32768 60999"

# Victims are where one looks for them, and speak the protocol that is attacked.
VICTIM_SHARES = Shares(ipv6=0.0, other_port=0.0)
OTHERS_SHARES = Shares(other_port=0.0)
VICTIMS: Mapping[str, type[Server]] = {
    "web": SERVICES["http"],
    "shell": SERVICES["ssh"],
    "intranet": victims.Intranet,
    "files": victims.Files,
    "names": victims.Names,
    "devices": victims.Devices,
    "cache": victims.Cache,
    "time": victims.TimeServer,
    "mail": SERVICES["imap"],
    "secure": SERVICES["https"],
    "phones": SERVICES["sip"],
    "database": SERVICES["postgresql"],
    "shop": victims.Shop,
}


@dataclass(frozen=True)
class Machine:
    """A host on the switch."""

    name: str
    number: int  # last part of each address

    @property
    def address(self) -> str:
        return str(NETWORK[self.number])

    @property
    def address_v6(self) -> str:
        # Written with the digits of the IPv4 address, so that the two are seen to belong together.
        return f"{NETWORK_V6}{self.number}"

    @property
    def mac(self) -> str:
        return f"02:57:4c:66:00:{self.number:02x}"

    @property
    def host(self) -> Host:
        return Host(self.name, self.address, self.address_v6)


@dataclass(frozen=True)
class Victim:
    """A server that attacks may aim at."""

    machine: Machine
    server: Server

    @property
    def address(self) -> str:
        return self.machine.address

    @property
    def mac(self) -> str:
        return self.machine.mac

    @property
    def login(self) -> tuple[str, str]:
        """The user and password that open it."""
        if password := getattr(self.server, "password", None):
            return SERVICES_USER, password
        return victims.USER, victims.PASSWORD

    @property
    def large_path(self) -> str:
        """The largest file of a web server."""
        return f"/{max(self._sizes, key=self._sizes.__getitem__)}"

    @property
    def small_path(self) -> str:
        """The smallest file of a web server."""
        return f"/{min(self._sizes, key=self._sizes.__getitem__)}"

    @property
    def _sizes(self) -> dict[str, int]:
        assert isinstance(self.server, WebServer)
        return self.server.sizes


@dataclass
class Network:
    """All machines of a run."""

    clients: list[Machine] = field(default_factory=list)
    victims: dict[str, Victim] = field(default_factory=dict)
    others: list[Victim] = field(default_factory=list)
    attackers: dict[int, list[Machine]] = field(default_factory=dict)  # by the attack's number

    @property
    def servers(self) -> list[Victim]:
        return [*self.victims.values(), *self.others]


def spoofed_by(attack: int) -> ipaddress.IPv4Network:
    """The addresses that one attack may make up."""
    size = 1 << (32 - SPOOFED_PREFIX_LENGTH)
    first = SPOOFED.network_address + (attack - 1) * size
    return ipaddress.IPv4Network((first, SPOOFED_PREFIX_LENGTH))


def victim_ports_of(attack: int) -> range:
    """The ports of its victim that one attack may name in forged questions."""
    first = FIRST_VICTIM_PORT + (attack - 1) * VICTIM_PORTS
    return range(first, first + VICTIM_PORTS)


def tunnel_domain(attack: int) -> str:
    """The domain whose questions the resolver hands on to an attack's server."""
    return f"t{attack}.tunnel.example"


def build(
    lab: Lab,
    rng: random.Random,
    *,
    client_count: int,
    victim_names: Sequence[str],
    service_names: Sequence[str],
    machines_of: Mapping[int, int],
) -> Network:
    """Builds the switch and plugs all in; `machines_of` tells how many an attack needs."""
    lab.add_host(SWITCH, ipv6=False)
    add_switch(lab, SWITCH, SWITCH_DEVICE, mac="02:57:4c:66:00:00")
    # A bridge shows its own device every frame that it forwards, once, if that is promiscuous.
    lab.ip(SWITCH, f"link set {SWITCH_DEVICE} promisc on")
    gateway = Machine("gateway", GATEWAY)
    lab.add_host(gateway.name, forwarding=True, ipv6=False)
    plug_in(
        lab, gateway.name, (SWITCH, SWITCH_DEVICE), addresses=[f"{gateway.address}/24"],
        mac=gateway.mac,
    )  # fmt: skip
    lab.ip(gateway.name, f"route add blackhole {SPOOFED}")
    network = Network()
    for index in range(client_count):
        network.clients.append(_add(lab, f"c{index + 1}", FIRST_CLIENT + index))
    number = FIRST_ATTACKER
    for attack, machine_count in machines_of.items():
        network.attackers[attack] = []
        for index in range(machine_count):
            # They speak by their tools alone: no IPv6, whose kernels announce themselves.
            machine = _add(lab, f"a{attack}{'xy'[index]}", number, ipv6=False)
            network.attackers[attack].append(machine)
            number += 1
    for index, name in enumerate(victim_names):
        machine = _add(lab, name, FIRST_VICTIM + index)
        server = VICTIMS[name](lab, machine.host, random.Random(rng.random()), VICTIM_SHARES)
        network.victims[name] = Victim(machine, server)
    for index, name in enumerate(service_names):
        machine = _add(lab, f"s{index + 1}", FIRST_OTHER + index)
        server = SERVICES[name](lab, machine.host, random.Random(rng.random()), OTHERS_SHARES)
        network.others.append(Victim(machine, server))
    return network


def start_servers(network: Network) -> None:
    """Starts all servers; the resolver is told of the attackers' own first."""
    resolver = network.victims.get("names")
    if resolver and isinstance(resolver.server, victims.Names):
        resolver.server.forwarded = [
            (tunnel_domain(attack), machines[1].address)
            for attack, machines in network.attackers.items()
            if len(machines) > 1
        ]
    for each in network.servers:
        each.server.start()


def _add(lab: Lab, name: str, number: int, *, ipv6: bool = True) -> Machine:
    machine = Machine(name, number)
    lab.add_host(name, ipv6=ipv6)
    lab.sysctl(
        name,
        {
            "net/ipv4/ip_local_port_range": CLIENT_PORTS,
            # An answer to a made-up address is repeated for 7 seconds, not for a minute.
            "net/ipv4/tcp_synack_retries": "2",
        },
    )
    addresses = [f"{machine.address}/{NETWORK.prefixlen}"]
    if ipv6:
        addresses.append(f"{machine.address_v6}/64")
    plug_in(
        lab, name, (SWITCH, SWITCH_DEVICE), addresses=addresses,
        gateways=[str(NETWORK[GATEWAY])], mac=machine.mac, device=DEVICE,
    )  # fmt: skip
    return machine
