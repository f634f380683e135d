"""WireGuard (wireguard-go) and OpenVPN: the web, seen through a tunnel."""

from __future__ import annotations

import random
import re
from pathlib import Path

from wirelens_testbed.lab import Program
from wirelens_testbed.services.service import (
    Endpoint,
    Host,
    Server,
    Shares,
    Visit,
    make_certificate,
    with_own_run,
)
from wirelens_testbed.services.web import Http

UP_TIME_MAX_S = 10.0
MTU_BYTES = 1420


class Tunnel(Server):
    """A server at the end of a tunnel, with a web site behind it."""

    INNER_IPV4: str

    def start_inner(self) -> None:
        inner = Host(self.host.name, self.INNER_IPV4, "", "")
        self.inner = Http(
            self.lab, inner, self.rng, Shares(ipv6=0.0, other_port=0.0),
            folder=self.folder / "inner",
        )  # fmt: skip
        self.inner.start()

    def use(self, client: Host, rng: random.Random) -> Visit:
        """Does inside the tunnel what a client of the web does outside."""
        self.lab.run(
            client.name, "ping", "-n", "-q", "-c", str(rng.randrange(1, 5)), "-i", "0.2", "-W", "2",
            self.INNER_IPV4,
        )  # fmt: skip
        return self.inner.visit(client, rng)


class WireGuard(Tunnel):
    """WireGuard in user space; not every kernel has it."""

    NAME = "wireguard"
    PROGRAMS = Http.PROGRAMS | {
        "wireguard-go": "wireguard-go",
        "wg": "wireguard-tools",
        "ping": "iputils-ping",
    }
    STANDARD_PORT = 51820
    INNER_IPV4 = "10.66.0.1"
    DEVICE = "wg0"

    def start(self) -> None:
        self.private, self.public = self._make_keys()
        self._start_device(self.host, self.DEVICE, self.folder)
        self._wg(
            self.host, self.folder, "set", self.DEVICE, "listen-port", str(self.port),
            "private-key", self._key_file(self.folder, self.private),
        )  # fmt: skip
        self.lab.ip(
            self.host.name,
            f"address add {self.INNER_IPV4}/16 dev {self.DEVICE}",
            f"link set {self.DEVICE} mtu {MTU_BYTES} up",
        )
        self.start_inner()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(self.NAME, "udp", self.port),)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        private, public = self._make_keys()
        own = f"10.66.{rng.randrange(1, 255)}.{rng.randrange(1, 255)}"
        device = f"wg{rng.randrange(10_000)}"
        address = self.host.address(family)
        place = f"[{address}]" if family == 6 else address
        keep_alive = rng.choice(("off", "1", "25"))
        self._wg(self.host, self.folder, "set", self.DEVICE, "peer", public, "allowed-ips", own)
        with self.scratch() as folder:
            program = self._start_device(client, device, folder)
            try:
                self._wg(
                    client, folder, "set", device, "private-key", self._key_file(folder, private),
                    "peer", self.public, "endpoint", f"{place}:{self.port}",
                    "allowed-ips", "10.66.0.0/16", "persistent-keepalive", keep_alive,
                )  # fmt: skip
                self.lab.ip(
                    client.name,
                    f"address add {own}/16 dev {device}",
                    f"link set {device} mtu {MTU_BYTES} up",
                )
                used = self.use(client, rng)
            finally:
                self.lab.stop(program)
                self._wg(self.host, self.folder, "set", self.DEVICE, "peer", public, "remove")
        return Visit(f"keepalive {keep_alive}: {used.variant}", "wireguard-go", used.bytes_asked)

    def _start_device(self, host: Host, device: str, folder: Path) -> Program:
        (folder / "run" / "wireguard").mkdir(parents=True)
        command = with_own_run(self.lab, folder, "wireguard-go", "-f", device)
        program = self.lab.start(
            host.name, *command, log_name=f"{self.host.name}-{host.name}",
            environment={"WG_PROCESS_FOREGROUND": "1", "LOG_LEVEL": "error"},
        )  # fmt: skip
        socket = folder / "run" / "wireguard" / f"{device}.sock"
        self.lab.wait_until(socket.exists, f"wireguard-go on {host.name} taking its settings")
        return program

    def _wg(self, host: Host, folder: Path, *arguments: str) -> None:
        self.lab.run(host.name, *with_own_run(self.lab, folder, "wg", *arguments))

    def _make_keys(self) -> tuple[str, str]:
        private = self.lab.run(self.host.name, "wg", "genkey")
        public = self.lab.run(self.host.name, "wg", "pubkey", data_in=private)
        return private.decode().strip(), public.decode().strip()

    def _key_file(self, folder: Path, key: str) -> str:
        path = folder / "private.key"
        path.write_text(f"{key}\n")
        path.chmod(0o600)
        return str(path)


class OpenVpn(Tunnel):
    """OpenVPN over UDP and TCP, each end knowing the other's certificate by its fingerprint."""

    NAME = "openvpn"
    PROGRAMS = Http.PROGRAMS | {"openvpn": "openvpn", "ping": "iputils-ping"}
    STANDARD_PORT = 1194
    INNER_IPV4 = "10.67.0.1"
    NETWORKS = {"udp": "10.67.0.0", "tcp": "10.68.0.0"}
    CIPHERS = ("AES-256-GCM", "AES-128-GCM", "CHACHA20-POLY1305")

    def start(self) -> None:
        make_certificate(self.lab, self.host, self.folder, self.rng)
        self.client_folder = self.folder / "client"
        self.client_folder.mkdir()
        make_certificate(self.lab, self.host, self.client_folder, self.rng)
        self.has_tls_crypt = self.rng.random() < 0.3
        if self.has_tls_crypt:
            self.lab.run(
                self.host.name, "openvpn", "--genkey", "secret", self.folder / "shared.key"
            )
        for protocol, network in self.NETWORKS.items():
            options = self._options(self.folder, self.client_folder)
            word = "udp6" if protocol == "udp" else "tcp6-server"  # takes both families
            push = ["--push", f"route {self.INNER_IPV4}"] if protocol == "tcp" else []
            self.lab.start(
                self.host.name, "openvpn", *options, "--proto", word, "--port", str(self.port),
                "--server", network, "255.255.255.0", "--topology", "subnet", "--dh", "none",
                "--duplicate-cn", "--keepalive", "10", "60", *push,
                log_name=f"{self.host.name}-{protocol}",
            )  # fmt: skip
            self.lab.wait_for_listener(self.host.name, self.port, protocol)
        self.start_inner()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(self.NAME, protocol, self.port) for protocol in self.NETWORKS)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        protocol = rng.choice(("udp", "udp", "tcp"))
        cipher = rng.choice(self.CIPHERS)
        log_name = f"{self.host.name}-{client.name}-{rng.getrandbits(48):x}"
        word = f"{protocol}{family}" if protocol == "udp" else f"tcp{family}-client"
        # Otherwise a server goes on talking to who has left without a word.
        farewell = ["--explicit-exit-notify", "1"] if protocol == "udp" else []
        program = self.lab.start(
            client.name, "openvpn", *self._options(self.client_folder, self.folder),
            "--client", "--proto", word, "--nobind", "--data-ciphers", cipher,
            "--remote", self.host.address(family), str(self.port),
            "--connect-retry-max", "2", *farewell,
            log_name=log_name,
        )  # fmt: skip
        try:
            log = self.lab.log_path(log_name)
            self.lab.wait_until(
                lambda: "Initialization Sequence Completed" in log.read_text(),
                f"the tunnel of {client.name} up", UP_TIME_MAX_S,
            )  # fmt: skip
            used = self.use(client, rng)
        finally:
            self.lab.stop(program)
        return Visit(f"{protocol} {cipher}: {used.variant}", "openvpn", used.bytes_asked)

    def _options(self, own: Path, other: Path) -> list[str | Path]:
        certificate = (other / "tls.crt").read_text()
        shown = self.lab.run(
            self.host.name, "openssl", "x509", "-noout", "-fingerprint", "-sha256",
            data_in=certificate.encode(),
        )  # fmt: skip
        match = re.search(r"=([0-9A-F:]+)", shown.decode())
        assert match
        options: list[str | Path] = [
            "--dev", "tun", "--cert", own / "tls.crt", "--key", own / "tls.key",
            "--peer-fingerprint", match[1], "--verb", "3", "--persist-tun",
        ]  # fmt: skip
        if self.has_tls_crypt:
            options += ["--tls-crypt", self.folder / "shared.key"]
        return options
