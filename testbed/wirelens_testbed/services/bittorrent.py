"""BitTorrent: opentracker and a seed (transmission), asked by aria2 and transmission.

No two clients fetch the same file, so they have nothing to say to each other: what they would say
stays on their side of the router, and is not all recorded.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
from dataclasses import dataclass
from pathlib import Path

from wirelens_testbed.failure import LabError
from wirelens_testbed.services.service import (
    Endpoint,
    Host,
    Server,
    Visit,
    as_nobody,
    draw_log,
    give_to_nobody,
)

FILE_MIN_BYTES, FILE_MAX_BYTES = 50_000, 3_000_000
CLIENT_PORT_MIN, CLIENT_PORT_MAX = 49_152, 65_000
CONTROL_PORT = 9091
# How transmission says which connections it encrypts.
ENCRYPTION_TOLERATED, ENCRYPTION_PREFERRED, ENCRYPTION_REQUIRED = 0, 1, 2
ENCRYPTION_WORDS = {
    ENCRYPTION_TOLERATED: ("tolerated", "-et"),
    ENCRYPTION_PREFERRED: ("preferred", "-ep"),
    ENCRYPTION_REQUIRED: ("required", "-er"),
}
DOWNLOAD_TIME_MAX_S = 25.0
START_TIME_MAX_S = 30.0
TORRENT_COUNT = 32
PIECE_BYTES = 32_768


@dataclass(frozen=True)
class Torrent:
    """A file on offer."""

    file: Path
    name: str
    size_bytes: int
    digest: str


class BitTorrent(Server):
    """A tracker by HTTP, and a seed that speaks TCP and µTP."""

    NAME = "bittorrent"
    PROGRAMS = {
        "opentracker": "opentracker",
        "transmission-daemon": "transmission-daemon",
        "transmission-remote": "transmission-cli",
        "transmission-cli": "transmission-cli",
        "aria2c": "aria2",
        "setpriv": "util-linux",
    }
    STANDARD_PORT = 6969
    # A seed lets a newcomer wait up to ten seconds for its turn.
    WEIGHT = 0.4

    def start(self) -> None:
        self.seed_port = self.rng.randrange(CLIENT_PORT_MIN, CLIENT_PORT_MAX)
        self.data, state = self.folder / "data", self.folder / "seed"
        for path in (self.data, state):
            path.mkdir()
        give_to_nobody(self.folder, self.data, state)
        self._lock = threading.Lock()
        self._torrents = [self._make_torrent() for _ in range(TORRENT_COUNT)]
        self._fresh = list(self._torrents)
        self._taken: dict[str, list[Torrent]] = {}
        # Debian's tracker serves only what is on its list, which lies in the folder that it sees.
        (self.folder / "list").write_text("".join(f"{each.digest}\n" for each in self._torrents))
        port = str(self.port)
        self.lab.start(
            self.host.name, "opentracker", "-i", self.host.ipv4, "-p", port, "-P", port,
            "-d", self.folder, "-w", "list", log_name=f"{self.host.name}-tracker",
        )  # fmt: skip
        self.lab.wait_for_listener(self.host.name, self.port)
        self._write_settings(state, self.seed_port, ENCRYPTION_PREFERRED)
        self.lab.start(
            self.host.name, *as_nobody("transmission-daemon", "-f", "-g", state),
            log_name=self.host.name,
        )  # fmt: skip
        for listening in (self.seed_port, CONTROL_PORT):
            self.lab.wait_for_listener(self.host.name, listening)
        remote = ["transmission-remote", str(CONTROL_PORT)]
        additions = [word for each in self._torrents for word in ("--add", each.file)]
        self.lab.run(self.host.name, *remote, *additions)
        # A client that asks before the seed has said so hears of nobody, and asks no more for long.
        self.lab.wait_until(
            lambda: self._announced(self.lab.run(self.host.name, *remote, "-t", "all", "-it")),
            "the seed known to the tracker for all it has", START_TIME_MAX_S,
        )  # fmt: skip

    def _announced(self, shown: bytes) -> bool:
        return shown.count(b"Got a list of") == TORRENT_COUNT

    def _make_torrent(self) -> Torrent:
        size_bytes = draw_log(self.rng, FILE_MIN_BYTES, FILE_MAX_BYTES)
        name = f"{self.rng.getrandbits(64):x}.bin"
        data = self.rng.randbytes(size_bytes)
        pieces = (data[start : start + PIECE_BYTES] for start in range(0, size_bytes, PIECE_BYTES))
        info = {
            "length": size_bytes, "name": name, "piece length": PIECE_BYTES,
            "pieces": b"".join(hashlib.sha1(piece).digest() for piece in pieces),
        }  # fmt: skip
        announce = f"http://{self.host.ipv4}:{self.port}/announce"
        (self.data / name).write_bytes(data)
        give_to_nobody(self.data / name)
        file = self.folder / f"{name}.torrent"
        file.write_bytes(bencode({"announce": announce, "info": info}))
        return Torrent(file, name, size_bytes, hashlib.sha1(bencode(info)).hexdigest())

    def _write_settings(self, folder: Path, peer_port: int, encryption: int) -> None:
        settings = {
            # Nothing may be looked for but what the tracker names.
            "dht-enabled": False, "lpd-enabled": False, "pex-enabled": False,
            "port-forwarding-enabled": False, "utp-enabled": True, "peer-port": peer_port,
            "encryption": encryption, "download-dir": str(self.data), "rpc-enabled": True,
            "rpc-port": CONTROL_PORT, "rpc-bind-address": "127.0.0.1", "rpc-whitelist": "127.0.0.1",
            "watch-dir-enabled": False, "blocklist-enabled": False, "umask": 18,
        }  # fmt: skip
        (folder / "settings.json").write_text(json.dumps(settings))
        give_to_nobody(folder / "settings.json")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        # Peers call each other from ports of their own.
        return tuple(Endpoint(self.NAME, protocol, None) for protocol in ("tcp", "udp"))

    def visit(self, client: Host, rng: random.Random) -> Visit:
        torrent = self._take(client, rng)
        port = rng.randrange(CLIENT_PORT_MIN, CLIENT_PORT_MAX)
        with self.scratch() as folder:
            give_to_nobody(folder)
            if rng.random() < 0.5:
                program, kind = "aria2c", self._fetch_by_aria2(client, rng, torrent, folder, port)
            else:
                program = "transmission-cli"
                kind = self._fetch_by_transmission(client, rng, torrent, folder, port)
        return Visit(kind, program, torrent.size_bytes)

    def _take(self, client: Host, rng: random.Random) -> Torrent:
        """One that no other client has had."""
        with self._lock:
            own = self._taken.setdefault(client.name, [])
            if self._fresh:
                own.append(self._fresh.pop())
                return own[-1]
        if not own:
            raise LabError(f"bittorrent: all {TORRENT_COUNT} torrents were taken by other clients")
        return rng.choice(own)

    def _fetch_by_aria2(
        self, client: Host, rng: random.Random, torrent: Torrent, folder: Path, port: int
    ) -> str:
        encryption = rng.choice(("plain", "arc4", "either"))
        options = {
            "plain": ["--bt-min-crypto-level=plain"],
            "arc4": ["--bt-require-crypto=true", "--bt-min-crypto-level=arc4"],
            "either": [],
        }[encryption]
        self.lab.run(
            client.name, "aria2c", "--no-conf=true", "--enable-dht=false", "--enable-dht6=false",
            "--bt-enable-lpd=false", "--enable-peer-exchange=false", "--seed-time=0",
            "--file-allocation=none", "--console-log-level=error", "--summary-interval=0",
            f"--listen-port={port}", f"--dir={folder}", f"--bt-stop-timeout={DOWNLOAD_TIME_MAX_S:.0f}",
            *options, torrent.file, time_max_s=self.VISIT_MAX_S,
        )  # fmt: skip
        return f"encryption {encryption}"

    def _fetch_by_transmission(
        self,
        client: Host,
        rng: random.Random,
        torrent: Torrent,
        folder: Path,
        port: int,
    ) -> str:
        encryption = rng.choice(list(ENCRYPTION_WORDS))
        self._write_settings(folder, port, encryption)
        program = self.lab.start(
            client.name, *as_nobody(
                "transmission-cli", "-g", folder, "-w", folder, "-p", str(port), "-M",
                ENCRYPTION_WORDS[encryption][1], torrent.file,
            ),
            log_name=f"{self.host.name}-{client.name}",
        )  # fmt: skip
        try:
            came = folder / torrent.name
            # It has another name until it is whole.
            self.lab.wait_until(
                lambda: came.exists() and came.stat().st_size == torrent.size_bytes,
                f"{client.name} having all of {torrent.name}", DOWNLOAD_TIME_MAX_S,
            )  # fmt: skip
            self.lab.pause(rng.uniform(0.1, 2.0))
        finally:
            self.lab.stop(program)
        return f"encryption {ENCRYPTION_WORDS[encryption][0]}"


def bencode(value: object) -> bytes:
    """Writes texts, numbers and tables as torrent files do (BEP 3)."""
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, dict):
        rows = ((bencode(key), bencode(inner)) for key, inner in sorted(value.items()))
        return b"d" + b"".join(key + inner for key, inner in rows) + b"e"
    text = value if isinstance(value, bytes) else str(value).encode()
    return b"%d:%s" % (len(text), text)
