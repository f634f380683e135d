"""Servers that attacks need and `services` has none of, or none that can be attacked so.

Each is a server like those of `services`, so that benign clients use it meanwhile.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

from wirelens_testbed.attacks import shop_server
from wirelens_testbed.lab import ETC_OVERLAY_ROOT
from wirelens_testbed.services.service import (
    NOBODY_ID,
    Endpoint,
    Host,
    Server,
    Visit,
    as_nobody,
    draw_text,
    give_to_nobody,
    with_own_run,
)

USER, PASSWORD = "operator", "sunflower42"
PRIVATE_PATH = "/private/"

LARGE_DNS_NAME = "all.lab.example"
LARGE_DNS_TEXTS = 12  # 250 bytes each: an answer of 3 kB, in fragments
NAMES_COUNT = 40
SNMP_COMMUNITY = "public"
MEMCACHED_KEY = "page"
MEMCACHED_VALUE_SIZE_BYTES = 20_000
PLAIN_FILE_SIZE_BYTES = 30_000


class Intranet(Server):
    """A web site behind basic authentication."""

    NAME = "intranet"
    PROGRAMS = {"nginx": "nginx-light", "curl": "curl"}
    STANDARD_PORT = 80

    def start(self) -> None:
        private = self.folder / "www" / "private"
        private.mkdir(parents=True)
        (private / "index.html").write_text(draw_text(self.rng, 8_000))
        (self.folder / "accounts").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n")
        settings = self.folder / "nginx.conf"
        settings.write_text(self._settings())
        self.lab.start(
            self.host.name, "nginx", "-e", "stderr", "-c", settings, log_name=self.host.name
        )
        self.lab.wait_for_listener(self.host.name, self.port)

    def _settings(self) -> str:
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temp_paths = "\n".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in kinds)
        return f"""
daemon off;
user nobody nogroup;
worker_processes 1;
pid {self.folder}/nginx.pid;
error_log stderr crit;
events {{}}
http {{
    access_log off;
    {temp_paths}
    server {{
        listen {self.port};
        root {self.folder}/www;
        location {PRIVATE_PATH} {{
            auth_basic "Staff";
            auth_basic_user_file {self.folder}/accounts;
        }}
    }}
}}
"""

    def visit(self, client: Host, rng: random.Random) -> Visit:
        knows = rng.random() < 0.9  # people mistype
        login = f"{USER}:{PASSWORD if knows else PASSWORD[:-1]}"
        self.lab.run(
            client.name, "curl", "-q", "--silent", "--output", "/dev/null", "--user", login,
            f"http://{self.host.ipv4}{PRIVATE_PATH}",
        )  # fmt: skip
        return Visit("log-in" if knows else "log-in mistyped", "curl", 8_000)


class Files(Server):
    """FTP with one account, which exists for the programs of its namespace only."""

    NAME = "files"
    PROGRAMS = {"vsftpd": "vsftpd", "curl": "curl", "openssl": "openssl"}
    STANDARD_PORT = 21

    def start(self) -> None:
        home = self.folder / "home"
        home.mkdir(mode=0o755)
        (home / "report.txt").write_text(draw_text(self.rng, PLAIN_FILE_SIZE_BYTES))
        empty = self.folder / "empty"
        empty.mkdir(mode=0o555)
        self._add_account(home)
        settings = self.folder / "vsftpd.conf"
        settings.write_text(
            "listen=YES\nlisten_ipv6=NO\nbackground=NO\nlocal_enable=YES\nanonymous_enable=NO\n"
            "write_enable=NO\npam_service_name=vsftpd\nnopriv_user=nobody\nseccomp_sandbox=NO\n"
            f"listen_port={self.port}\nsecure_chroot_dir={empty}\nxferlog_enable=NO\n"
            # A second's pause for each failure is its default, which would be most of the attack.
            "max_login_fails=3\ndelay_failed_login=0\n"
        )
        self.lab.start(self.host.name, "vsftpd", settings, log_name=self.host.name)
        self.lab.wait_for_listener(self.host.name, self.port)

    def _add_account(self, home: Path) -> None:
        hashed = self.lab.run(
            self.host.name, "openssl", "passwd", "-6", "-salt", "lab", PASSWORD
        ).decode()
        accounts = (
            "root:x:0:0::/root:/bin/sh\n"
            "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
            f"{USER}:x:{NOBODY_ID - 1}:{NOBODY_ID - 1}::{home}:/bin/sh\n"
        )
        self.lab.overlay_etc(self.host.name, "passwd", accounts)
        shadow = f"{USER}:{hashed.strip()}:19000:0:99999:7:::\n"
        self.lab.overlay_etc(self.host.name, "shadow", shadow, mode=0o600)
        rules = ETC_OVERLAY_ROOT / self.lab.namespace(self.host.name) / "pam.d"
        rules.mkdir()
        (rules / "vsftpd").write_text(
            "auth required pam_unix.so nodelay\naccount required pam_permit.so\n"
            "session required pam_permit.so\n"
        )

    def visit(self, client: Host, rng: random.Random) -> Visit:
        self.lab.run(
            client.name, "curl", "-q", "--silent", "--output", "/dev/null",
            "--user", f"{USER}:{PASSWORD}", f"ftp://{self.host.ipv4}/report.txt",
        )  # fmt: skip
        return Visit("download", "curl", PLAIN_FILE_SIZE_BYTES)


class Names(Server):
    """The resolver: knows some names, one with much to say, and asks others' servers for theirs."""

    NAME = "names"
    PROGRAMS = {"dnsmasq": "dnsmasq-base", "dig": "bind9-dnsutils"}
    STANDARD_PORT = 53
    WEIGHT = 3.0

    # Domain → the server that is asked about it; set before the start.
    forwarded: Sequence[tuple[str, str]] = ()

    def start(self) -> None:
        words = [f"--server=/{domain}/{address}" for domain, address in self.forwarded]
        for index in range(NAMES_COUNT):
            address = f"192.0.2.{index + 1}"
            words.append(f"--host-record={_host_name(index)},{address}")
        for _ in range(LARGE_DNS_TEXTS):
            words.append(f"--txt-record={LARGE_DNS_NAME},{self.rng.randbytes(125).hex()}")
        self.lab.start(
            self.host.name, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null",
            "--pid-file=", "--user=nobody", "--log-facility=-", "--no-resolv", "--no-hosts",
            "--edns-packet-max=4096", "--dns-forward-max=1000", f"--port={self.port}", *words,
            log_name=self.host.name,
        )  # fmt: skip
        self.lab.wait_for_listener(self.host.name, self.port, "udp")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(self.NAME, protocol, self.port) for protocol in ("udp", "tcp"))

    def visit(self, client: Host, rng: random.Random) -> Visit:
        name, kind = _host_name(rng.randrange(NAMES_COUNT * 5 // 4)), rng.choice(("A", "AAAA"))
        if rng.random() < 0.05:
            name, kind = LARGE_DNS_NAME, "TXT"  # the same question, from who wants the answer
        self.lab.run(
            client.name, "dig", "+tries=1", "+time=3", f"@{self.host.ipv4}", name, kind,
            statuses_wanted=(0, 9),
        )  # fmt: skip
        return Visit(kind, "dig", 0)


class Devices(Server):
    """An SNMP agent with the community that nobody changed."""

    NAME = "devices"
    PROGRAMS = {"snmpd": "snmpd", "snmpget": "snmp", "snmpbulkwalk": "snmp"}
    STANDARD_PORT = 161

    def start(self) -> None:
        settings = self.folder / "snmpd.conf"
        settings.write_text(
            f"agentAddress udp:{self.host.ipv4}:{self.port}\nrocommunity {SNMP_COMMUNITY}\n"
            f"sysDescr {draw_text(self.rng, 120).splitlines()[0]}\nsysLocation rack 7\n"
        )
        command = ["snmpd", "-f", "-Lo", "-C", "-c", str(settings), "-I", "-smux"]
        environment = {"SNMP_PERSISTENT_DIR": str(self.folder), "MIBS": ""}
        self.lab.start(
            self.host.name, *with_own_run(self.lab, self.folder, *command),
            log_name=self.host.name, environment=environment,
        )  # fmt: skip
        self.lab.wait_for_listener(self.host.name, self.port, "udp")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(self.NAME, "udp", self.port),)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        program = rng.choice(("snmpget", "snmpget", "snmpbulkwalk"))
        name = ".1.3.6.1.2.1.1.3.0" if program == "snmpget" else ".1.3.6.1.2.1.1"
        self.lab.run(
            client.name, program, "-v2c", "-c", SNMP_COMMUNITY, self.host.ipv4, name,
            environment={"MIBS": "", "SNMP_PERSISTENT_DIR": str(self.folder)},
        )  # fmt: skip
        return Visit(program, program, 0)


class Cache(Server):
    """memcached that answers over UDP as well, as it did by default until 2018."""

    NAME = "cache"
    PROGRAMS = {"memcached": "memcached", "socat": "socat"}
    STANDARD_PORT = 11211

    def start(self) -> None:
        port = str(self.port)
        self.lab.start(
            self.host.name,
            *as_nobody("memcached", "-l", self.host.ipv4, "-p", port, "-U", port),
            log_name=self.host.name,
        )
        self.lab.wait_for_listener(self.host.name, self.port)
        value = draw_text(self.rng, MEMCACHED_VALUE_SIZE_BYTES)
        self._ask(self.host, f"set {MEMCACHED_KEY} 0 0 {len(value)}\r\n{value}\r\nquit\r\n")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(self.NAME, protocol, self.port) for protocol in ("tcp", "udp"))

    def visit(self, client: Host, rng: random.Random) -> Visit:
        if rng.random() < 0.5:
            self._ask(client, f"get {MEMCACHED_KEY}\r\nquit\r\n")
            return Visit("get", "socat", MEMCACHED_VALUE_SIZE_BYTES)
        value = draw_text(rng, rng.randrange(10, 5_000))
        key = f"k{rng.randrange(100)}"
        self._ask(client, f"set {key} 0 60 {len(value)}\r\n{value}\r\nquit\r\n")
        return Visit("set", "socat", len(value))

    def _ask(self, client: Host, text: str) -> None:
        self.lab.run(
            client.name, "socat", "-t", "3", "-", f"TCP:{self.host.ipv4}:{self.port}",
            data_in=text.encode(),
        )  # fmt: skip


class TimeServer(Server):
    """A time server with the list of its clients open to all; see `time_server`."""

    NAME = "time"
    PROGRAMS = {"socat": "socat"}
    STANDARD_PORT = 123

    def start(self) -> None:
        script = Path(__file__).with_name("time_server.py")
        self.lab.start(
            self.host.name, sys.executable, "-B", script, self.host.ipv4, str(self.port),
            log_name=self.host.name,
        )  # fmt: skip
        self.lab.wait_for_listener(self.host.name, self.port, "udp")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(self.NAME, "udp", self.port),)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        question = bytes([0b00_100_011]) + bytes(39) + rng.randbytes(8)  # version 4, a client's
        self.lab.run(
            client.name, "socat", "-t", "0.3", "-", f"UDP4:{self.host.ipv4}:{self.port}",
            data_in=question,
        )  # fmt: skip
        return Visit("time", "socat", 0)


class Shop(Server):
    """A web shop whose search can be injected; see `shop_server`."""

    NAME = "shop"
    PROGRAMS = {"curl": "curl"}
    STANDARD_PORT = 80

    def start(self) -> None:
        give_to_nobody(self.folder)
        script = Path(__file__).with_name("shop_server.py")
        place = self.host.ipv4, str(self.port), self.folder
        command = as_nobody(sys.executable, "-B", script, *place)
        self.lab.start(self.host.name, *command, log_name=self.host.name)
        self.lab.wait_for_listener(self.host.name, self.port)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        categories = [rng.randrange(shop_server.CATEGORIES) for _ in range(rng.randrange(1, 6))]
        self.lab.run(
            client.name, "curl", "-q", "--silent", "--fail", "--output", "/dev/null",
            *(f"http://{self.host.ipv4}/search?category={each}" for each in categories),
        )  # fmt: skip
        return Visit("search", "curl", 0)


def _host_name(index: int) -> str:
    return f"host{index}.lab.example"
