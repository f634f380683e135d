"""HTTP/3: the server and client of ngtcp2, as Debian has them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from wirelens_testbed.failure import LabError
from wirelens_testbed.services.service import (
    Endpoint,
    Host,
    Server,
    Visit,
    draw_log,
    draw_text,
    make_certificate,
)

FILE_COUNT = 16
FILE_MIN_BYTES, FILE_MAX_BYTES = 300, 2_000_000
UPLOAD_MIN_BYTES, UPLOAD_MAX_BYTES = 500, 500_000
CONTROLS = ("cubic", "reno", "bbr")
CIPHERS = ("AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305")


class Http3(Server):
    """A site of files of all sizes over QUIC."""

    NAME = "http3"
    PROGRAMS = {
        "gtlsserver": "ngtcp2-server",
        "gtlsclient": "ngtcp2-client",
        "openssl": "openssl",
    }
    STANDARD_PORT = 443

    def start(self) -> None:
        root = self.folder / "www"
        root.mkdir()
        self.sizes: dict[str, int] = {}
        for index in range(FILE_COUNT):
            size_bytes = draw_log(self.rng, FILE_MIN_BYTES, FILE_MAX_BYTES)
            (root / f"{index}.bin").write_bytes(self.rng.randbytes(size_bytes))
            self.sizes[f"{index}.bin"] = size_bytes
        make_certificate(self.lab, self.host, self.folder, self.rng)
        options = ["--quiet", f"--htdocs={root}", f"--cc={self.rng.choice(CONTROLS)}"]
        options += self.rng.choice(([], ["--validate-addr"]))
        self.lab.start(
            self.host.name, "gtlsserver", *options, "*", str(self.port),
            self.folder / "tls.key", self.folder / "tls.crt", log_name=self.host.name,
        )  # fmt: skip
        self.lab.wait_for_listener(self.host.name, self.port, "udp")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(self.NAME, "udp", self.port),)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        # The client cannot be told which family to use, so it is told an address.
        address = self.host.address(family)
        options = ["--quiet", "--exit-on-all-streams-close", f"--cc={rng.choice(CONTROLS)}"]
        options += [f"--sni={self.host.domain_name}"] if self.host.domain_name else []
        if rng.random() < 0.4:
            cipher = rng.choice(CIPHERS)
            options.append(f"--ciphers=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+{cipher}")
        kind = rng.choice(("page", "page", "download", "upload"))
        names = rng.sample(list(self.sizes), rng.randrange(2, 9) if kind == "page" else 1)
        asked = sum(self.sizes[name] for name in names)
        urls = [f"https://{self.authority(family)}/{name}" for name in names]
        with self.scratch() as folder:
            if kind == "upload":
                asked = draw_log(rng, UPLOAD_MIN_BYTES, UPLOAD_MAX_BYTES)
                upload = folder / "upload"
                upload.write_text(draw_text(rng, asked))
                options += ["--http-method=POST", f"--data={upload}"]
            self.lab.run(
                client.name, "gtlsclient", *options, f"--download={folder}", address,
                str(self.port), *urls, time_max_s=self.VISIT_MAX_S,
            )  # fmt: skip
            self._check(folder, names)
        return Visit(f"http/3 {kind}", "gtlsclient", asked)

    def _check(self, folder: Path, names: Sequence[str]) -> None:
        """The client's status says nothing of files that did not come."""
        for name in names:
            came = folder / name
            size_bytes = came.stat().st_size if came.exists() else 0
            if size_bytes != self.sizes[name]:
                raise LabError(
                    f"http3: {size_bytes} bytes of {name} arrived, wanted {self.sizes[name]}"
                )
