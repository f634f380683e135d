"""SSH and SFTP: OpenSSH's own server and clients, with drawn ciphers, keys and sizes."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
from pathlib import Path

from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import PROGRAM_PATH
from wirelens_testbed.services.service import (
    NOBODY_ID,
    Host,
    Server,
    Visit,
    draw_log,
    draw_text,
    give_to_nobody,
    with_own_run,
)

USER = "demo"
CIPHERS = (
    "chacha20-poly1305@openssh.com", "aes128-ctr", "aes256-ctr", "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
)  # fmt: skip
KEY_EXCHANGES = (
    "sntrup761x25519-sha512@openssh.com", "curve25519-sha256", "ecdh-sha2-nistp256",
    "diffie-hellman-group14-sha256",
)  # fmt: skip
MACS = ("umac-64-etm@openssh.com", "hmac-sha2-256-etm@openssh.com", "hmac-sha2-512")
HOST_KEYS = {
    "ed25519": ("-t", "ed25519"),
    "rsa": ("-t", "rsa", "-b", "2048"),
    "ecdsa": ("-t", "ecdsa"),
}
TYPED_LINES = ("uptime\n", "df -h /srv\n", "tail -n 20 access.log\n", "ps aux\n", "exit\n")
FILE_MIN_BYTES, FILE_MAX_BYTES = 300, 1_000_000
# The separated half of sshd faces the network as this user.
SSHD_USER_ID = 65533


class SshServer(Server):
    """sshd with one account, which exists for the programs of its namespace only."""

    PROGRAMS = {
        "sshd": "openssh-server",
        "ssh": "openssh-client",
        "ssh-keygen": "openssh-client",
        "openssl": "openssl",
    }
    STANDARD_PORT = 22

    def start(self) -> None:
        self.home = self.folder / "home"
        self.home.mkdir()
        (self.home / "access.log").write_text(draw_text(self.rng, 60_000))
        give_to_nobody(self.home, self.home / "access.log")
        self.key_kind = self.rng.choice(list(HOST_KEYS))
        keys = {"host_key": HOST_KEYS[self.key_kind], "user_key": HOST_KEYS["ed25519"]}
        for name, kind in keys.items():
            self.lab.run(
                self.host.name, "ssh-keygen", "-q", *kind, "-N", "", "-C", USER,
                "-f", self.folder / name,
            )  # fmt: skip
        names = [self.host.ipv4, self.host.ipv6, self.host.domain_name]
        entries = [name if self.port == 22 else f"[{name}]:{self.port}" for name in names if name]
        key = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text(f"{','.join(entries)} {key}")
        self._add_accounts()
        settings = self.folder / "sshd_config"
        settings.write_text(self._settings())
        (self.folder / "run" / "sshd").mkdir(parents=True, mode=0o755)
        # sshd re-executes itself for each connection and therefore insists on its full path.
        sshd = shutil.which("sshd", path=PROGRAM_PATH) or "sshd"
        command = with_own_run(self.lab, self.folder, sshd, "-D", "-e", "-f", settings)
        self.lab.start(self.host.name, *command, log_name=self.host.name)
        self.lab.wait_for_listener(self.host.name, self.port)

    def _add_accounts(self) -> None:
        # Nobody here logs in by it; who tries passwords from a list may find it there.
        self.password = (
            f"{self.rng.choice(('sunshine', 'dragon', 'letmein'))}{self.rng.randrange(99)}"
        )
        salt = f"{self.rng.getrandbits(48):x}"
        hashed = self.lab.run(
            self.host.name, "openssl", "passwd", "-6", "-salt", salt, self.password
        )
        self.lab.overlay_etc(
            self.host.name, "passwd",
            "root:x:0:0::/root:/bin/sh\n"
            f"sshd:x:{SSHD_USER_ID}:{SSHD_USER_ID}::/run/sshd:/usr/sbin/nologin\n"
            f"{USER}:x:{NOBODY_ID}:{NOBODY_ID}::{self.home}:/bin/sh\n",
        )  # fmt: skip
        self.lab.overlay_etc(
            self.host.name, "shadow",
            f"{USER}:{hashed.decode().strip()}:19000:0:99999:7:::\n", mode=0o600,
        )  # fmt: skip

    def _settings(self) -> str:
        return (
            f"Port {self.port}\n"
            f"HostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/user_key.pub\n"
            f"AllowUsers {USER}\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication yes\nPidFile none\nUseDNS no\n"
            "MaxStartups 100\n"
            "Subsystem sftp internal-sftp\n"
        )

    def options(self, rng: random.Random) -> tuple[list[str | Path], str]:
        """What each client of OpenSSH is told, ciphers and the like drawn, and the cipher."""
        settings: dict[str, object] = {
            "UserKnownHostsFile": self.folder / "known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "Port": self.port,
            "Compression": rng.choice(("yes", "no", "no")),
        }
        if rng.random() < 0.7:  # the others offer what the program offers by itself
            settings["Ciphers"] = rng.choice(CIPHERS)
            settings["KexAlgorithms"] = rng.choice(KEY_EXCHANGES)
            settings["MACs"] = rng.choice(MACS)
        pairs = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        cipher = str(settings.get("Ciphers", "default")).partition("@")[0]
        return ["-F", "/dev/null", "-i", self.folder / "user_key", *pairs], cipher


class Ssh(SshServer):
    """Work at a distance: commands, typing, and their output."""

    NAME = "ssh"

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        options, cipher = self.options(rng)
        command = ["ssh", f"-{family}", *options, f"{USER}@{self.target(family)}"]
        kind = rng.choice(("command", "command", "typing", "stream"))
        bytes_asked = 0
        if kind == "typing":
            self._type_slowly(client, rng, command)
        elif kind == "stream":
            bytes_asked = draw_log(rng, FILE_MIN_BYTES, FILE_MAX_BYTES)
            self.lab.run(client.name, *command, f"head -c {bytes_asked} /dev/urandom")
        else:
            asked = rng.choice(("id -un", "ls -l", "wc -c access.log", "tail -n 50 access.log"))
            self.lab.run(client.name, *command, asked)
        return Visit(f"{cipher} {kind}", "ssh", bytes_asked)

    def _type_slowly(self, client: Host, rng: random.Random, command: list[str | Path]) -> None:
        # `cat` echoes each key as a terminal would; a terminal, though, would write to the
        # machine's login records.
        session = self.lab.start(
            client.name, *command, "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert session.stdin and session.stdout
        typed = "".join(rng.choices(TYPED_LINES, k=rng.randrange(1, 4))).encode()
        with contextlib.suppress(BrokenPipeError):  # the session ended early, as the check says
            for key in typed:
                session.stdin.write(bytes([key]))
                session.stdin.flush()
                self.lab.pause(rng.uniform(0.03, 0.15))
            session.stdin.close()
        echoed = session.stdout.read()
        if session.wait() != 0 or echoed != typed:
            raise LabError(
                f"ssh: the typing session ended with status {session.returncode}, wanted 0; "
                f"{len(echoed)} keys of {len(typed)} were echoed: {echoed!r}"
            )


class Sftp(SshServer):
    """Files over SSH; scp speaks the same protocol since OpenSSH 9."""

    NAME = "sftp"
    PROGRAMS = SshServer.PROGRAMS | {"sftp": "openssh-client", "scp": "openssh-client"}

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        options, cipher = self.options(rng)
        options = [f"-{family}", *options]
        size_bytes = draw_log(rng, FILE_MIN_BYTES, FILE_MAX_BYTES)
        target = self.target(family)
        place = f"{USER}@[{target}]" if ":" in target else f"{USER}@{target}"
        with self.scratch() as folder:
            file, name = folder / "file", f"{folder.name}.bin"
            file.write_bytes(rng.randbytes(size_bytes))
            if rng.random() < 0.4:
                program, kind = "scp", "put"
                self.lab.run(client.name, "scp", "-q", *options, file, f"{place}:{name}")
            else:
                program, kind = "sftp", rng.choice(("put", "get", "list"))
                lines = {
                    "put": [f"put {file} {name}"],
                    "get": [f"put {file} {name}", f"get {name} {file}.back"],
                    "list": ["ls -l", "pwd", "ls -la /etc"],
                }[kind]
                batch = "\n".join(lines) + "\n"
                self.lab.run(
                    client.name, "sftp", "-q", "-b", "-", *options, place, data_in=batch.encode()
                )
            (self.home / name).unlink(missing_ok=True)
        return Visit(f"{cipher} {kind}", program, 0 if kind == "list" else size_bytes)
