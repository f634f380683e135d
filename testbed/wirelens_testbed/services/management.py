"""NTP (chronyd, asked by itself and by ntpdig) and SNMP (snmpd and the tools of Net-SNMP)."""

from __future__ import annotations

import random

from wirelens_testbed.services.service import Endpoint, Host, Server, Visit, with_own_run


class Ntp(Server):
    """chronyd as a source of time that never touches the machine's clock."""

    NAME = "ntp"
    PROGRAMS = {"chronyd": "chrony", "ntpdig": "ntpsec-ntpdig"}
    STANDARD_PORT = 123

    def start(self) -> None:
        settings = self.folder / "chrony.conf"
        settings.write_text(
            f"local stratum {self.rng.randrange(1, 4)}\nallow all\nport {self.port}\ncmdport 0\n"
            "bindcmdaddress /\npidfile /run/chronyd.pid\n"
        )
        (self.folder / "run").mkdir()
        command = with_own_run(
            self.lab, self.folder, "chronyd", "-d", "-x", "-u", "root", "-f", settings
        )
        self.lab.start(self.host.name, *command, log_name=self.host.name)
        self.lab.wait_for_listener(self.host.name, self.port, "udp")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(self.NAME, "udp", self.port),)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        address = self.host.address(family)
        # ntpdig knows the standard port only.
        if self.port == self.STANDARD_PORT and rng.random() < 0.5:
            count = rng.choice((1, 1, 3, 5))
            options = ["-p", str(count), "-t", "3"]
            self.lab.run(client.name, "ntpdig", f"-{family}", *options, address)
            return Visit(f"ntp x{count}", "ntpdig", 0)
        version, burst = rng.choice((3, 4, 4)), rng.choice(("iburst", "iburst", "burst iburst"))
        count = rng.randrange(1, 5)
        source = f"server {address} port {self.port} version {version} {burst} maxsamples {count}"
        with self.scratch() as folder:
            command = with_own_run(
                self.lab, folder, "chronyd", "-Q", "-x", "-u", "root", "-t", "10", source,
                "pidfile /run/chronyd.pid", "cmdport 0", "bindcmdaddress /",
            )  # fmt: skip
            self.lab.run(client.name, *command)
        return Visit(f"ntp/{version} {burst}", "chronyd", 0)


class Snmp(Server):
    """snmpd, showing its own namespace's interfaces and counters, and nothing of the machine."""

    NAME = "snmp"
    PROGRAMS = {
        "snmpd": "snmpd",
        "snmpget": "snmp",
        "snmpwalk": "snmp",
        "snmpbulkwalk": "snmp",
        "snmpgetnext": "snmp",
    }
    STANDARD_PORT = 161
    USER = "operator"
    # system, interfaces, ip, icmp, tcp, udp, snmp of MIB-II; processes and disks are left out.
    SHOWN = ("1", "2", "4", "5", "6", "7", "11")
    LEAVES = ("1.1.0", "1.3.0", "1.5.0", "2.1.0", "4.3.0", "6.5.0", "7.1.0", "11.1.0")
    MIB_2 = "1.3.6.1.2.1"

    def start(self) -> None:
        self.password = f"{self.rng.getrandbits(48):012x}"
        self.hash, self.cipher = self.rng.choice(("SHA", "MD5")), self.rng.choice(("AES", "DES"))
        views = "".join(f"view shown included .{self.MIB_2}.{part}\n" for part in self.SHOWN)
        settings = self.folder / "snmpd.conf"
        settings.write_text(
            f"{views}rocommunity public default -V shown\nrocommunity6 public default -V shown\n"
            f"createUser {self.USER} {self.hash} {self.password} {self.cipher} {self.password}\n"
            f"rouser {self.USER} noauth -V shown\n"
            "sysDescr Wirelens testbed\nsysName device.example\nsysLocation nowhere\n"
        )
        self.lab.start(
            self.host.name, "snmpd", "-f", "-C", "-c", settings, "-Loe", "-I", "-smux",
            f"udp:0.0.0.0:{self.port}", f"udp6:[::]:{self.port}",
            log_name=self.host.name, environment=self._environment,
        )  # fmt: skip
        self.lab.wait_for_listener(self.host.name, self.port, "udp")

    @property
    def _environment(self) -> dict[str, str]:
        return {"SNMP_PERSISTENT_DIR": str(self.folder), "MIBS": "", "SNMPCONFPATH": "/nonexistent"}

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(self.NAME, "udp", self.port),)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        version, options = self._draw_version(rng)
        kind = rng.choice(("get", "getnext", "walk", "bulkwalk" if version != "v1" else "walk"))
        if kind in ("get", "getnext"):
            leaves = rng.choices(self.LEAVES, k=rng.randrange(1, 6))
            wanted = [f".{self.MIB_2}.{leaf}" for leaf in leaves]
        else:
            wanted = [f".{self.MIB_2}.{rng.choice(self.SHOWN)}"]
            if kind == "bulkwalk":
                options = [*options, f"-Cr{rng.choice((5, 10, 25))}"]
        address = self.host.address(family)
        place = f"udp6:[{address}]" if family == 6 else f"udp:{address}"
        self.lab.run(
            client.name, f"snmp{kind}", *options, "-t", "3", "-r", "1", f"{place}:{self.port}",
            *wanted, environment=self._environment,
        )  # fmt: skip
        return Visit(f"{version} {kind}", f"snmp{kind}", 0)

    def _draw_version(self, rng: random.Random) -> tuple[str, list[str]]:
        version = rng.choice(("v1", "v2c", "v2c", "v3", "v3", "v3"))
        if version != "v3":
            return version, [f"-{version}", "-c", "public"]
        level = rng.choice(("noAuthNoPriv", "authNoPriv", "authPriv", "authPriv"))
        options = ["-v3", "-u", self.USER, "-l", level]
        options += ["-a", self.hash, "-A", self.password, "-x", self.cipher, "-X", self.password]
        return f"v3 {level}", options
