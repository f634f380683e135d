"""What every service is: a server on a host of its own, and visits to it by real clients."""

from __future__ import annotations

import contextlib
import json
import math
import random
import shlex
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from wirelens_testbed.lab import Lab

# Servers that refuse to run as root run as these; nobody has them as an account.
NOBODY_ID, NOGROUP_ID = 65534, 65534

# Where a server that is not at its standard port may be: at a port that belongs to another
# service, which misleads whoever goes by ports, or at one of nobody's.
BORROWED_PORTS = (21, 22, 25, 53, 80, 110, 123, 143, 443, 993, 1194, 1883, 3306, 5060, 5432, 8080)
FREE_PORT_MIN, FREE_PORT_MAX = 10_000, 40_000
BORROWED_SHARE = 0.5

FILL_WORDS = ("packet", "flow", "window", "queue", "delay", "label", "bucket", "probe")


@dataclass(frozen=True)
class Host:
    """A namespace and the addresses by which others reach it."""

    name: str
    ipv4: str
    ipv6: str
    # Clients ask for it by this name where they can; empty where nothing would resolve it.
    domain_name: str = ""

    def address(self, family: int) -> str:
        return self.ipv4 if family == 4 else self.ipv6


@dataclass(frozen=True)
class Shares:
    """How often what is drawn comes out unusual."""

    ipv6: float = 0.4
    other_port: float = 0.2


@dataclass(frozen=True)
class Endpoint:
    """Where flows of a label go to; any port where it is None."""

    label: str
    protocol: str
    port: int | None


@dataclass(frozen=True)
class Visit:
    """What one use of a service was."""

    variant: str
    program: str
    bytes_asked: int


class Server(ABC):
    """One server (or a few that belong together) on one host."""

    NAME: ClassVar[str]
    PROGRAMS: ClassVar[Mapping[str, str]]
    STANDARD_PORT: ClassVar[int]
    # How many visits of it there are for one of another service.
    WEIGHT: ClassVar[float] = 1.0
    # Seconds from a visit's start within which it ends, on a machine that is not overloaded.
    VISIT_MAX_S: ClassVar[float] = 30.0

    def __init__(
        self,
        lab: Lab,
        host: Host,
        rng: random.Random,
        shares: Shares | None = None,
        folder: Path | None = None,
    ) -> None:
        self.lab = lab
        self.host = host
        self.rng = rng
        self.shares = shares or Shares()
        self.port = self._draw_port()
        self.folder = folder or lab.run_dir / f"service-{host.name}"
        self.folder.mkdir(mode=0o755)
        # Some servers give up root's rights before they take their port, whichever was drawn.
        lab.sysctl(host.name, {"net/ipv4/ip_unprivileged_port_start": "0"})
        self._scratch_count = 0
        self._scratch_lock = threading.Lock()

    @abstractmethod
    def start(self) -> None:
        """Starts the programs, and returns when they listen."""

    @abstractmethod
    def visit(self, client: Host, rng: random.Random) -> Visit:
        """Uses the service once, in a drawn way; a use that fails is a LabError."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(self.NAME, "tcp", self.port),)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for one visit; /run is memory, and visits may be many."""
        with self._scratch_lock:
            self._scratch_count += 1
            folder = self.folder / f"visit-{self._scratch_count}"
        folder.mkdir(mode=0o755)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def draw_family(self, rng: random.Random) -> int:
        return 6 if rng.random() < self.shares.ipv6 else 4

    def target(self, family: int) -> str:
        """What a client is given that can be told which family to use."""
        return self.host.domain_name or self.host.address(family)

    def authority(self, family: int) -> str:
        """Host and port as they stand in an address of the web."""
        target = self.target(family)
        return f"[{target}]:{self.port}" if ":" in target else f"{target}:{self.port}"

    def _draw_port(self) -> int:
        if self.rng.random() >= self.shares.other_port:
            return self.STANDARD_PORT
        if self.rng.random() < BORROWED_SHARE:
            return self.rng.choice([port for port in BORROWED_PORTS if port != self.STANDARD_PORT])
        return self.rng.randrange(FREE_PORT_MIN, FREE_PORT_MAX)


def draw_log(rng: random.Random, low: float, high: float) -> int:
    """A whole number whose size, not value, is drawn evenly: as many below 1 kB as above 1 MB."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def draw_text(rng: random.Random, size_bytes: int) -> str:
    """Words in lines; it compresses about as well as a page does."""
    words = rng.choices(FILL_WORDS, k=size_bytes // 4 + 1)
    lines = (" ".join(words[start : start + 10]) for start in range(0, len(words), 10))
    return "\n".join(lines)[:size_bytes]


def give_to_nobody(*paths: Path) -> None:
    for path in paths:
        shutil.chown(path, NOBODY_ID, NOGROUP_ID)


def as_nobody(*argv: str | Path) -> list[str | Path]:
    """The command without root's rights."""
    ids = [f"--reuid={NOBODY_ID}", f"--regid={NOGROUP_ID}", "--clear-groups"]
    return ["setpriv", *ids, *argv]


def with_own_run(
    lab: Lab, folder: Path, *argv: str | Path, over: Mapping[str, Path] | None = None
) -> list[str | Path]:
    """The command with a folder of the run's as its /run, and others where `over` says.

    Some programs insist on sockets or folders in fixed places. They see their own there, and the
    machine's stay as they are: what a lab starts has a mount namespace of its own.
    """
    own_run = folder / "run"
    (own_run / lab.run_dir.name).mkdir(parents=True, exist_ok=True)
    binds = [(lab.run_dir, own_run / lab.run_dir.name), (own_run, Path("/run"))]
    binds += [(source, Path(place)) for place, source in (over or {}).items()]
    mounts = " && ".join(
        f"mount --rbind {shlex.quote(str(source))} {shlex.quote(str(place))}"
        for source, place in binds
    )
    return ["sh", "-c", f'{mounts} && exec "$@"', "sh", *argv]


def make_certificate(
    lab: Lab,
    host: Host,
    folder: Path,
    rng: random.Random,
    kinds: Sequence[str] = ("ecdsa", "ecdsa", "rsa"),
) -> None:
    """Writes tls.key and tls.crt with a kind of key that is drawn."""
    kind = rng.choice(kinds)
    options = {
        "ecdsa": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
        "rsa": ["-newkey", "rsa:2048"],
    }[kind]
    names = [f"IP:{host.ipv4}", f"IP:{host.ipv6}"]
    if host.domain_name:
        names.append(f"DNS:{host.domain_name}")
    lab.run(
        host.name, "openssl", "req", "-x509", *options, "-noenc",
        "-days", str(rng.choice((30, 90, 365))),
        "-subj", f"/O=Wirelens testbed/CN={host.domain_name or host.ipv4}",
        "-addext", f"subjectAltName={','.join(names)}",
        "-keyout", folder / "tls.key", "-out", folder / "tls.crt",
    )  # fmt: skip


def orders(**values: object) -> bytes:
    """What our own clients are given on their standard input; an argument could not be as long."""
    return json.dumps(values).encode()
