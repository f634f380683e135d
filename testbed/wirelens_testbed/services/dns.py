"""DNS over UDP and TCP, and DNS over TLS: unbound, asked by dig and kdig."""

from __future__ import annotations

import random
from typing import ClassVar

from wirelens_testbed.failure import LabError
from wirelens_testbed.services.service import Endpoint, Host, Server, Visit, make_certificate

ZONE = "zone.example"
NAME_COUNT = 40
# One answer that fits no datagram, so that the client has to ask again over TCP.
LONG_TEXT_COUNT, LONG_TEXT_BYTES = 14, 200
KINDS = {"A": 8, "AAAA": 5, "MX": 1, "TXT": 1, "SRV": 1, "PTR": 1, "SOA": 1, "NS": 1, "HTTPS": 2}
# What Debian's tools print of an answer that came; a name that is not there is an answer, too.
ANSWERED = (b"status: NOERROR", b"status: NXDOMAIN", b"status: REFUSED")


class NameServer(Server):
    """unbound with a zone of its own, and no way out to the real root."""

    PROGRAMS = {"unbound": "unbound", "dig": "bind9-dnsutils", "kdig": "knot-dnsutils"}
    TLS: ClassVar[bool] = False
    WEIGHT = 2.0

    def start(self) -> None:
        names = {f"host{index}" for index in range(NAME_COUNT // 2)}
        while len(names) < NAME_COUNT:
            names.add(f"{self.rng.choice(('www', 'api', 'cdn', 'mail'))}{self.rng.randrange(9999)}")
        self.names = sorted(names)
        if self.TLS:
            make_certificate(self.lab, self.host, self.folder, self.rng)
        settings = self.folder / "unbound.conf"
        settings.write_text(self._settings())
        self.lab.start(
            self.host.name, "unbound", "-d", "-p", "-c", settings, log_name=self.host.name
        )
        self.lab.wait_for_listener(self.host.name, self.port)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        count = rng.choice((1, 1, 1, 2, 3, 6))
        program, transport = self._draw_way(rng)
        options = [f"@{self.host.address(family)}", "-p", str(self.port)]
        options += self._draw_options(rng, program, transport)
        # kdig sends the queries of one line over one connection, if told to keep it open.
        questions = [word for _ in range(count) for word in self._draw_question(rng)]
        said = self.lab.run(client.name, program, *options, *questions, time_max_s=20.0)
        if not any(status in said for status in ANSWERED):
            raise LabError(
                f"{self.NAME}: wanted an answer from {program} {' '.join(options + questions)}, "
                f"saw: {said.decode(errors='replace')[-300:]}"
            )
        return Visit(f"{transport} x{count}", program, 0)

    def _draw_way(self, rng: random.Random) -> tuple[str, str]:
        if self.TLS:
            return "kdig", "tls"
        return rng.choice(("dig", "kdig")), "tcp" if rng.random() < 0.2 else "udp"

    def _draw_options(self, rng: random.Random, program: str, transport: str) -> list[str]:
        retry = "retry" if program == "kdig" else "tries"
        options = ["+time=5" if program == "dig" else "+timeout=5", f"+{retry}=2"]
        if transport == "tls":
            options += ["+tls", f"+tls-ca={self.folder}/tls.crt"]
            options += [f"+tls-hostname={self.host.domain_name}"] if self.host.domain_name else []
            options += rng.choice(([], ["+padding=128"]))
        elif transport == "tcp":
            options.append("+tcp")
        if transport != "udp" and rng.random() < 0.7:
            options.append("+keepopen")
        options += rng.choice(([], ["+dnssec"], ["+bufsize=1232"], ["+bufsize=512"]))
        options += rng.choice(([], ["+norecurse"], ["+nocookie"])) if program == "dig" else []
        return options

    def _draw_question(self, rng: random.Random) -> list[str]:
        luck = rng.random()
        if luck < 0.08:
            return [f"no{rng.randrange(10_000)}.{ZONE}", rng.choice(("A", "AAAA"))]
        if luck < 0.13:
            return ["www.other.example", "A"]
        if luck < 0.2:
            return [f"long.{ZONE}", "TXT"]
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        if kind in ("A", "AAAA", "HTTPS"):
            return [f"{rng.choice(self.names)}.{ZONE}", kind]
        if kind == "SRV":
            return [f"_sip._udp.{ZONE}", "SRV"]
        if kind == "PTR":
            return ["-x", f"192.0.2.{rng.randrange(1, NAME_COUNT)}"]
        return [ZONE, kind]

    def _settings(self) -> str:
        records = [
            f"{ZONE}. 3600 SOA ns.{ZONE}. admin.{ZONE}. 1 7200 900 1209600 300",
            f"{ZONE}. 3600 NS ns.{ZONE}.",
            f"{ZONE}. 300 MX 10 mail.{ZONE}.",
            f"{ZONE}. 300 TXT v=spf1 -all",
            f"_sip._udp.{ZONE}. 300 SRV 10 5 5060 host1.{ZONE}.",
        ]
        for number, name in enumerate(self.names, start=1):
            seconds = self.rng.choice((60, 300, 3600))
            records.append(f"{name}.{ZONE}. {seconds} A 192.0.2.{number}")
            records.append(f"{name}.{ZONE}. {seconds} AAAA 2001:db8:2::{number}")
            records.append(f"{number}.2.0.192.in-addr.arpa. {seconds} PTR {name}.{ZONE}.")
        long_text = "".join(self.rng.choices("abcdefghijklmnop", k=LONG_TEXT_BYTES))
        records += [f"long.{ZONE}. 60 TXT {index}{long_text}" for index in range(LONG_TEXT_COUNT)]
        data = "\n".join(f"    local-data: '{record}'" for record in records)
        tls = f"""
    tls-port: {self.port}
    tls-service-key: "{self.folder}/tls.key"
    tls-service-pem: "{self.folder}/tls.crt" """
        return f"""
server:
    interface: 0.0.0.0@{self.port}
    interface: ::0@{self.port}
    {tls if self.TLS else ""}
    access-control: 0.0.0.0/0 allow
    access-control: ::/0 allow
    username: ""
    chroot: ""
    directory: "{self.folder}"
    pidfile: ""
    use-syslog: no
    do-daemonize: no
    num-threads: 1
    module-config: "iterator"
    local-zone: "." refuse
    local-zone: "{ZONE}." static
    local-zone: "2.0.192.in-addr.arpa." static
    minimal-responses: {self.rng.choice(("yes", "no"))}
{data}
remote-control:
    control-enable: no
"""


class Dns(NameServer):
    """Over UDP and TCP."""

    NAME = "dns"
    STANDARD_PORT = 53

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(self.NAME, protocol, self.port) for protocol in ("udp", "tcp"))


class Dot(NameServer):
    """Over TLS (RFC 7858)."""

    NAME = "dot"
    STANDARD_PORT = 853
    TLS = True
    WEIGHT = 1.0
    PROGRAMS = {"unbound": "unbound", "kdig": "knot-dnsutils", "openssl": "openssl"}
