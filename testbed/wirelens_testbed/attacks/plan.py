"""An attacks scenario as it was read: who attacks when, and amid what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from wirelens_testbed.attacks import (
    amplification,
    arp_spoof,
    covert_tunnels,
    dns_tunnel,
    floods,
    guessers,
    logins,
    network,
    remote_control,
    scanners,
    scans,
    slow_http,
    web_discovery,
)
from wirelens_testbed.attacks.attack import Attack, Parser
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.scenario import Table
from wirelens_testbed.services.registry import SERVICES

FAMILIES: Mapping[str, Sequence[ModuleType]] = {
    "scan": (scans, scanners),
    "flood": (floods,),
    "slow_http": (slow_http,),
    "login": (logins, guessers),
    "dns_tunnel": (dns_tunnel,),
    "amplification": (amplification,),
    "arp_spoof": (arp_spoof,),
    "web_discovery": (web_discovery,),
    "remote_control": (remote_control,),
    "covert_tunnel": (covert_tunnels,),
}
MODULES = [module for modules in FAMILIES.values() for module in modules]
ATTACKS_MAX = 100
DURATION_MAX_S = 3600.0
# Enough for every header that a label is decided by, the one that an ICMP error quotes included.
SNAPLEN_MIN_BYTES, SNAPLEN_DEFAULT_BYTES = 96, 128


@dataclass(frozen=True)
class PlannedAttack:
    """An attack and when it begins."""

    number: int  # from 1; labels and addresses follow from it
    family: str
    attack: Attack
    start_s: float


@dataclass(frozen=True)
class Plan:
    duration_s: float
    snaplen: int
    client_count: int
    services: Sequence[str]
    victims: Sequence[str]
    visits_per_s: float
    planned: Sequence[PlannedAttack]

    @property
    def programs(self) -> dict[str, str]:
        """What this plan runs, and no more, each with its Debian package."""
        programs: dict[str, str] = {}
        for planned in self.planned:
            programs.update(planned.attack.programs)
        for name in self.victims:
            programs.update(network.VICTIMS[name].PROGRAMS)
        for name in self.services:
            programs.update(SERVICES[name].PROGRAMS)
        return programs


def parse(table: Table) -> Plan:
    """Reads a scenario; what cannot be done is refused before anything is built."""
    duration_s = table.take("duration_s", float, 60.0, minimum=1, maximum=DURATION_MAX_S)
    snaplen = table.take(
        "snaplen", int, SNAPLEN_DEFAULT_BYTES, minimum=SNAPLEN_MIN_BYTES, maximum=262_144
    )
    benign = table.take_table("benign")
    client_count = benign.take("clients", int, 3, minimum=1, maximum=network.CLIENTS_MAX)
    visits_per_s = benign.take("visits_per_s", float, 1.0, minimum=0, maximum=50)
    services = benign.take_list("services", str)
    victims = benign.take_list("victims", str, ["web"])
    _check_names(services, SERVICES, "benign.services")
    _check_names(victims, network.VICTIMS, "benign.victims")
    if len(services) > network.OTHERS_MAX:
        raise ScenarioError(
            f"benign.services names {len(services)}, wanted at most {network.OTHERS_MAX}"
        )
    benign.finish()
    planned = _parse_attacks(table.take_tables("attack"))
    for each in planned:
        place = f"attack {each.number}, {each.attack.name}: targets"
        _check_names(sorted(each.attack.needs), network.VICTIMS, place)
    needed = set(victims).union(*(each.attack.needs for each in planned))
    for each in planned:
        if each.start_s > duration_s:
            raise ScenarioError(
                f"attack {each.number}, {each.attack.name}, starts at {each.start_s:g} s, wanted "
                f"within the {duration_s:g} s of the run"
            )
    return Plan(
        duration_s=duration_s,
        snaplen=snaplen,
        client_count=client_count,
        services=services,
        victims=[name for name in network.VICTIMS if name in needed],
        visits_per_s=visits_per_s,
        planned=planned,
    )


def _parse_attacks(tables: Sequence[Table]) -> list[PlannedAttack]:
    parsers = _parsers()
    planned: list[PlannedAttack] = []
    for table in tables:
        name = table.take("name", str)
        if name not in parsers:
            raise ScenarioError(
                f"{table.place}.name is {name!r}, wanted one of {', '.join(sorted(parsers))}"
            )
        is_present = table.take("present", bool, True)
        start_s = table.take("start_s", float, 0.0, minimum=0)
        family, parser = parsers[name]
        attack = parser(name, table)
        table.finish()
        if is_present:
            planned.append(PlannedAttack(len(planned) + 1, family, attack, start_s))
    machine_count = sum(each.attack.machine_count for each in planned)
    if len(planned) > ATTACKS_MAX or machine_count > network.ATTACKERS_MAX:
        raise ScenarioError(
            f"{len(planned)} attacks by {machine_count} machines, wanted at most {ATTACKS_MAX} by "
            f"{network.ATTACKERS_MAX}"
        )
    return planned


def tools(scenario: Mapping[str, object]) -> dict[str, str]:
    """Of each attack that a scenario names, drawn or not, the tool that makes its packets.

    That is the first of its programs. Frames of our own have none: there it is the code that
    builds them, which is one for each family.
    """
    parsers = _parsers()
    found = {}
    named = scenario.get("attack", [])
    for name in [table["name"] for table in named] if isinstance(named, list) else []:
        family, parser = parsers[name]
        programs = parser(name, Table({"name": name})).programs
        found[name] = next(iter(programs), f"frames of our own ({family})")
    return found


def _parsers() -> dict[str, tuple[str, Parser]]:
    """Of each attack its family, and who reads its values."""
    return {
        name: (family, parser)
        for family, modules in FAMILIES.items()
        for module in modules
        for name, parser in module.ATTACKS.items()
    }


def _check_names(names: Sequence[str], known: Mapping[str, object], place: str) -> None:
    for name in names:
        if name not in known:
            raise ScenarioError(f"{place} has {name!r}, wanted one of {', '.join(known)}")
