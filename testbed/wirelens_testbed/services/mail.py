"""SMTP (OpenSMTPD, visited by swaks, curl and Python) and IMAP (dovecot, by curl and Python)."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from wirelens_testbed.services.service import (
    NOBODY_ID,
    NOGROUP_ID,
    Endpoint,
    Host,
    Server,
    Visit,
    as_nobody,
    draw_log,
    draw_text,
    give_to_nobody,
    make_certificate,
    orders,
    with_own_run,
)

MAIL_DOMAIN = "mail.example"
CLIENTS = Path(__file__).resolve().parent / "clients"
MESSAGE_MIN_BYTES, MESSAGE_MAX_BYTES = 200, 400_000
MAILBOX_COUNT = 30
USER = "demo"


class MailServer(Server):
    """A server with two ports: one where TLS may begin later, one where it begins at once."""

    TLS_PORT: int

    @property
    def tls_port(self) -> int:
        return self.TLS_PORT if self.port != self.TLS_PORT else self.TLS_PORT + 10_000

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(self.NAME, "tcp", port) for port in (self.port, self.tls_port))

    def draw_security(self, rng: random.Random) -> str:
        """How TLS begins, if it does."""
        return rng.choice(("plain", "plain", "starttls", "starttls", "tls"))

    def port_for(self, security: str) -> int:
        return self.tls_port if security == "tls" else self.port

    def url(self, security: str, family: int) -> str:
        target, port = self.target(family), self.port_for(security)
        place = f"[{target}]" if ":" in target else target
        return f"{self.NAME}{'s' if security == 'tls' else ''}://{place}:{port}"

    def python_client(self, client: Host, family: int, security: str, **more: object) -> None:
        """Runs our own client, which is Python's module for the protocol and little else."""
        asked = orders(
            address=self.host.address(family), port=self.port_for(security), security=security,
            trust=str(self.folder / "tls.crt"), **more,
        )  # fmt: skip
        self.lab.run(
            client.name, sys.executable, "-B", CLIENTS / f"{self.NAME}_client.py",
            data_in=asked, time_max_s=self.VISIT_MAX_S,
        )  # fmt: skip


class Smtp(MailServer):
    """Takes mail for anybody in its domain and throws it away.

    OpenSMTPD takes it in the clear. Debian 12's does not get through a TLS handshake, so where TLS
    is, at the ports of submission, aiosmtpd listens.
    """

    NAME = "smtp"
    PROGRAMS = {
        "smtpd": "opensmtpd",
        "aiosmtpd": "python3-aiosmtpd",
        "swaks": "swaks",
        "curl": "curl",
        "openssl": "openssl",
    }
    STANDARD_PORT = 25
    STARTTLS_PORT = 587
    TLS_PORT = 465

    def start(self) -> None:
        self._start_opensmtpd()
        make_certificate(self.lab, self.host, self.folder, self.rng)
        key, certificate = self.folder / "tls.key", self.folder / "tls.crt"
        (self.folder / "tls.key").chmod(0o644)  # read after root's rights are gone
        for port, kind in ((self.STARTTLS_PORT, "tls"), (self.tls_port, "smtps")):
            for address in ("0.0.0.0", "::"):
                self.lab.start(
                    self.host.name, *as_nobody(
                        "aiosmtpd", "-n", "-c", "aiosmtpd.handlers.Sink", "-l", f"{address}:{port}",
                        f"--{kind}cert", certificate, f"--{kind}key", key,
                    ),
                    log_name=f"{self.host.name}-aiosmtpd",
                )  # fmt: skip
            self.wait_for_both(port)
        self.wait_for_both(self.port)

    def wait_for_both(self, port: int) -> None:
        """Waits until the port is open in both families, which are sockets of their own."""
        command = ["ss", "-Hltn", f"sport = :{port}"]
        self.lab.wait_until(
            lambda: len(self.lab.run(self.host.name, *command).splitlines()) == 2,
            f"{self.host.name} listening on port {port} in both families",
        )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return *super().endpoints, Endpoint(self.NAME, "tcp", self.STARTTLS_PORT)

    def port_for(self, security: str) -> int:
        return self.STARTTLS_PORT if security == "starttls" else super().port_for(security)

    def _start_opensmtpd(self) -> None:
        # It greets only who has a name, or none for sure: nobody answers here, and at once.
        self.lab.overlay_etc(
            self.host.name, "resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
        )
        # Where it keeps its queue is built into it: there it gets a folder of the run's.
        spool = self.folder / "spool"
        (spool / "smtpd").mkdir(parents=True)
        (spool / "smtpd").chmod(0o711)
        settings = self.folder / "smtpd.conf"
        settings.write_text(
            "table everybody { '@' = nobody }\n"
            "smtp max-message-size 20M\n"
            f"listen on 0.0.0.0 port {self.port}\nlisten on ::0 port {self.port}\n"
            'action "sink" mda "cat >/dev/null" virtual <everybody>\n'
            f'match from any for domain "{MAIL_DOMAIN}" action "sink"\n'
        )
        command = with_own_run(
            self.lab, self.folder, "smtpd", "-d", "-f", settings, over={"/var/spool": spool}
        )
        self.lab.start(self.host.name, *command, log_name=self.host.name)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        security = self.draw_security(rng)
        size_bytes = draw_log(rng, MESSAGE_MIN_BYTES, MESSAGE_MAX_BYTES)
        sender = f"user{rng.randrange(100)}@testbed.example"
        recipients = [
            f"box{rng.randrange(100)}@{MAIL_DOMAIN}" for _ in range(rng.choice((1, 1, 2, 4)))
        ]
        # swaks as Debian installs it knows neither TLS nor IPv6.
        program = rng.choice(("curl", "python3", "swaks" if security == "plain" else "curl"))
        if program == "swaks":
            family = 4
            self._send_by_swaks(client, rng, sender, recipients, size_bytes)
        elif program == "curl":
            self._send_by_curl(client, rng, family, security, sender, recipients, size_bytes)
        else:
            count = rng.choice((1, 1, 3))
            self.python_client(
                client, family, security, sender=sender, recipients=recipients,
                messages=[self._draw_message(rng, size_bytes // count) for _ in range(count)],
            )  # fmt: skip
        return Visit(security, program, size_bytes)

    def _draw_message(self, rng: random.Random, size_bytes: int) -> str:
        subject = draw_text(rng, rng.randrange(5, 50)).replace("\n", " ")
        return f"Subject: {subject}\n\n{draw_text(rng, size_bytes)}\n"

    def _send_by_swaks(
        self, client: Host, rng: random.Random, sender: str, recipients: list[str], size_bytes: int
    ) -> None:
        with self.scratch() as folder:
            attachment = folder / "attachment"
            attachment.write_bytes(rng.randbytes(size_bytes * 3 // 4))  # base64 makes four of three
            self.lab.run(
                client.name, "swaks", "--server", self.host.ipv4, "--port", str(self.port),
                "--ehlo", f"{client.name}.testbed.example", "--from", sender,
                "--to", ",".join(recipients), "--body", draw_text(rng, 300),
                "--attach", f"@{attachment}", "--hide-all", time_max_s=self.VISIT_MAX_S,
            )  # fmt: skip

    def _send_by_curl(
        self,
        client: Host,
        rng: random.Random,
        family: int,
        security: str,
        sender: str,
        recipients: list[str],
        size_bytes: int,
    ) -> None:
        options = ["--silent", "--show-error", f"-{family}", "--cacert", f"{self.folder}/tls.crt"]
        options += ["--ssl-reqd"] if security == "starttls" else []
        options += rng.choice(([], ["--tls-max", "1.2"])) if security != "plain" else []
        options += [word for each in recipients for word in ("--mail-rcpt", each)]
        self.lab.run(
            client.name, "curl", *options, "--crlf", "--mail-from", sender, "--upload-file", "-",
            self.url(security, family),
            data_in=self._draw_message(rng, size_bytes).encode(), time_max_s=self.VISIT_MAX_S,
        )  # fmt: skip


class Imap(MailServer):
    """One account with a mailbox of messages of all sizes."""

    NAME = "imap"
    PROGRAMS = {"dovecot": "dovecot-imapd", "curl": "curl", "openssl": "openssl"}
    STANDARD_PORT = 143
    TLS_PORT = 993

    def start(self) -> None:
        make_certificate(self.lab, self.host, self.folder, self.rng)
        self.password = f"{self.rng.getrandbits(40):x}"
        (self.folder / "passwords").write_text(f"{USER}:{{PLAIN}}{self.password}\n")
        self._fill_mailbox()
        settings = self.folder / "dovecot.conf"
        settings.write_text(self._settings())
        self.lab.start(self.host.name, "dovecot", "-F", "-c", settings, log_name=self.host.name)
        for port in (self.port, self.tls_port):
            self.lab.wait_for_listener(self.host.name, port)

    def _fill_mailbox(self) -> None:
        mailbox = self.folder / "mail"
        for part in ("cur", "new", "tmp"):
            (mailbox / part).mkdir(parents=True)
        self.sizes: list[int] = []
        for number in range(MAILBOX_COUNT):
            size_bytes = draw_log(self.rng, MESSAGE_MIN_BYTES, MESSAGE_MAX_BYTES)
            text = (
                f"From: user{self.rng.randrange(100)}@{MAIL_DOMAIN}\nTo: {USER}@{MAIL_DOMAIN}\n"
                f"Subject: message {number}\n\n{draw_text(self.rng, size_bytes)}\n"
            )
            (mailbox / "new" / f"{1_700_000_000 + number}.M{number}.testbed").write_text(text)
            self.sizes.append(len(text))
        give_to_nobody(mailbox, *mailbox.rglob("*"))

    def _settings(self) -> str:
        return f"""
base_dir = {self.folder}/base
state_dir = {self.folder}/base
log_path = /dev/stderr
protocols = imap
listen = *, ::
default_internal_user = dovecot
default_login_user = dovenull
first_valid_uid = 1
disable_plaintext_auth = no
auth_mechanisms = plain login
ssl = yes
ssl_cert = <{self.folder}/tls.crt
ssl_key = <{self.folder}/tls.key
mail_location = maildir:{self.folder}/mail
passdb {{
    driver = passwd-file
    args = {self.folder}/passwords
}}
userdb {{
    driver = static
    args = uid={NOBODY_ID} gid={NOGROUP_ID} home={self.folder}/mail
}}
service imap-login {{
    inet_listener imap {{
        port = {self.port}
    }}
    inet_listener imaps {{
        port = {self.tls_port}
        ssl = yes
    }}
}}
"""

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        security = self.draw_security(rng)
        numbers = [rng.randrange(1, MAILBOX_COUNT + 1) for _ in range(rng.choice((1, 1, 3, 6)))]
        if rng.random() < 0.5:
            numbers = numbers[:1]
            options = [
                "--silent",
                "--show-error",
                f"-{family}",
                "--user",
                f"{USER}:{self.password}",
            ]
            options += ["--cacert", f"{self.folder}/tls.crt", "--output", "/dev/null"]
            options += ["--ssl-reqd"] if security == "starttls" else []
            options += rng.choice(([], ["--tls-max", "1.2"])) if security != "plain" else []
            place = f"{self.url(security, family)}/INBOX;MAILINDEX={numbers[0]}"
            self.lab.run(client.name, "curl", *options, place, time_max_s=self.VISIT_MAX_S)
            program, kind = "curl", "fetch"
        else:
            kind = rng.choice(("fetch", "headers", "append", "idle"))
            self.python_client(
                client, family, security, user=USER, password=self.password, kind=kind,
                numbers=numbers, pause_s=rng.uniform(0.5, 3.0),
                message=draw_text(rng, draw_log(rng, MESSAGE_MIN_BYTES, 50_000)),
            )  # fmt: skip
            program = "python3"
        asked = sum(self.sizes[number - 1] for number in numbers) if kind == "fetch" else 0
        return Visit(f"{security} {kind}", program, asked)
