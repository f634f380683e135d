"""HTTP/1.1 with and without TLS, and HTTP/2: nginx, visited by curl and wget."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from wirelens_testbed.services.service import (
    Host,
    Server,
    Visit,
    draw_log,
    draw_text,
    make_certificate,
)

FILE_COUNT = 24
FILE_MIN_BYTES, FILE_MAX_BYTES = 200, 3_000_000
DOWNLOAD_MIN_BYTES = 50_000
TEXT_MAX_BYTES = 100_000  # what is larger is a picture or an archive, and does not compress
UPLOAD_MIN_BYTES, UPLOAD_MAX_BYTES = 1_000, 1_500_000
KINDS = {"page": 4, "download": 3, "range": 1, "upload": 2, "poll": 2, "odd": 1}
UPLOADS = "in"  # the folder of the site that takes files
USER_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/131.0 Safari/537.36",
    "curl/7.88.1",
    "testbed/1 (+https://www.example)",
)


class Nginx(Server):
    """What the nginx servers share: one worker, files in the run's folder."""

    PROGRAMS = {"nginx": "nginx-light", "openssl": "openssl", "curl": "curl", "wget": "wget"}
    TLS: ClassVar[bool]
    LISTEN_OPTIONS: ClassVar[str] = ""

    def start(self) -> None:
        self.root = self.folder / "www"
        for path in (self.root, self.root / UPLOADS):
            path.mkdir()
        (self.root / UPLOADS).chmod(0o777)
        self.fill()
        if self.TLS:
            make_certificate(self.lab, self.host, self.folder, self.rng)
        settings = self.folder / "nginx.conf"
        settings.write_text(self._settings())
        self.lab.start(
            self.host.name, "nginx", "-e", "stderr", "-c", settings, log_name=self.host.name
        )
        self.lab.wait_for_listener(self.host.name, self.port)

    def fill(self) -> None:
        """Makes what the server offers, with `root` as its folder."""
        self.sizes: dict[str, int] = {}
        for index in range(FILE_COUNT):
            size_bytes = draw_log(self.rng, FILE_MIN_BYTES, FILE_MAX_BYTES)
            if size_bytes <= TEXT_MAX_BYTES and self.rng.random() < 0.6:
                name = f"{index}.{self.rng.choice(('html', 'css', 'js', 'txt'))}"
                (self.root / name).write_text(draw_text(self.rng, size_bytes))
            else:
                name = f"{index}.{self.rng.choice(('jpg', 'bin', 'pdf'))}"
                (self.root / name).write_bytes(self.rng.randbytes(size_bytes))
            self.sizes[name] = size_bytes

    @property
    def url(self) -> str:
        return "https" if self.TLS else "http"

    def _settings(self) -> str:
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temp_paths = "\n".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in kinds)
        options = f"ssl {self.LISTEN_OPTIONS}" if self.TLS else self.LISTEN_OPTIONS
        tls = f"""
        ssl_certificate {self.folder}/tls.crt;
        ssl_certificate_key {self.folder}/tls.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_tickets {self.rng.choice(("on", "off"))};"""
        return f"""
daemon off;
user nobody nogroup;
worker_processes 1;
pid {self.folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    {temp_paths}
    types {{
        text/html html; text/css css; text/javascript js; text/plain txt;
        image/jpeg jpg; application/dash+xml mpd; video/mp4 mp4 m4s;
    }}
    gzip {self.rng.choice(("on", "off"))};
    gzip_types text/css text/javascript text/plain;
    keepalive_timeout {self.rng.choice((5, 65))};
    client_max_body_size 20m;
    server {{
        listen {self.port} {options};
        listen [::]:{self.port} {options};
        {tls if self.TLS else ""}
        root {self.root};
        location /{UPLOADS}/ {{ dav_methods PUT; }}
        location = /submit {{ return 204; }}
        location = /old {{ return 301 /0; }}
    }}
}}
"""


class WebServer(Nginx):
    """A site of files of all sizes, used as by browsers, downloaders, uploaders and pollers."""

    CURL_OPTIONS: ClassVar[Sequence[str]]

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        base = f"{self.url}://{self.authority(family)}"
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        if kind in ("page", "download") and "--http1.1" in self.CURL_OPTIONS:
            if rng.random() < 0.25:
                return self._visit_by_wget(client, rng, family, base, kind)
        tls_version, tls_options = self._draw_tls(rng)
        options = ["--silent", "--show-error", f"-{family}", *self.CURL_OPTIONS, *tls_options]
        options += ["--user-agent", rng.choice(USER_AGENTS)]
        if rng.random() < 0.5:
            options.append("--compressed")
        draws = {
            "page": self._draw_page,
            "download": self._draw_download,
            "range": self._draw_range,
            "upload": self._draw_upload,
            "poll": self._draw_poll,
            "odd": self._draw_odd,
        }
        with self.scratch() as folder:
            request, bytes_asked = draws[kind](folder, rng, base)
            self.lab.run(
                client.name, "curl", *options, *request,
                time_max_s=self.VISIT_MAX_S,
            )  # fmt: skip
            (self.root / UPLOADS / folder.name).unlink(missing_ok=True)
        version = "http/2" if "--http2" in self.CURL_OPTIONS else "http/1.1"
        return Visit(" ".join(filter(None, (version, tls_version, kind))), "curl", bytes_asked)

    def _visit_by_wget(
        self, client: Host, rng: random.Random, family: int, base: str, kind: str
    ) -> Visit:
        names = self._draw_names(rng, 1 if kind == "download" else rng.randrange(2, 8))
        options = [
            "--no-config",
            "--quiet",
            "--tries=1",
            f"-{family}",
            "--no-hsts",
            "-O",
            "/dev/null",
        ]
        if self.TLS:
            options.append(f"--ca-certificate={self.folder}/tls.crt")
        urls = [f"{base}/{name}" for name in names]
        self.lab.run(client.name, "wget", *options, *urls, time_max_s=self.VISIT_MAX_S)
        variant = f"http/1.1 {'tls ' if self.TLS else ''}{kind}"
        return Visit(variant, "wget", sum(self.sizes[name] for name in names))

    def _draw_tls(self, rng: random.Random) -> tuple[str, list[str]]:
        if not self.TLS:
            return "", []
        trust = ["--cacert", str(self.folder / "tls.crt")]
        if rng.random() < 0.35:
            return "tls1.2", [*trust, "--tls-max", "1.2"]
        return "tls1.3", [*trust, "--tlsv1.3"]

    def _draw_names(self, rng: random.Random, count: int, above_bytes: int = 0) -> list[str]:
        names = [name for name, size in self.sizes.items() if size >= above_bytes]
        return rng.choices(names or [max(self.sizes, key=self.sizes.__getitem__)], k=count)

    def _draw_page(self, folder: Path, rng: random.Random, base: str) -> tuple[list[str], int]:
        names = self._draw_names(rng, rng.randrange(3, 14))
        options = ["--parallel"] if "--http2" in self.CURL_OPTIONS else []
        return self._fetch(base, names, options)

    def _draw_download(self, folder: Path, rng: random.Random, base: str) -> tuple[list[str], int]:
        names = self._draw_names(rng, 1, DOWNLOAD_MIN_BYTES)
        options = ["--limit-rate", f"{rng.randrange(200, 900)}k"] if rng.random() < 0.3 else []
        return self._fetch(base, names, options)

    def _draw_range(self, folder: Path, rng: random.Random, base: str) -> tuple[list[str], int]:
        name = max(self.sizes, key=self.sizes.__getitem__)
        first = rng.randrange(self.sizes[name] // 2)
        last = rng.randrange(first, self.sizes[name])
        request, _ = self._fetch(base, [name], ["--range", f"{first}-{last}"])
        return request, last - first + 1

    def _draw_poll(self, folder: Path, rng: random.Random, base: str) -> tuple[list[str], int]:
        name = min(self.sizes, key=self.sizes.__getitem__)
        count = rng.randrange(3, 9)
        return self._fetch(base, [name] * count, ["--rate", f"{rng.randrange(60, 240)}/m"])

    def _draw_upload(self, folder: Path, rng: random.Random, base: str) -> tuple[list[str], int]:
        size_bytes = draw_log(rng, UPLOAD_MIN_BYTES, UPLOAD_MAX_BYTES)
        upload = folder / "upload"
        upload.write_bytes(rng.randbytes(size_bytes))
        place = f"{base}/{UPLOADS}/{folder.name}"
        return ["--fail", "--upload-file", str(upload), place], size_bytes

    def _draw_odd(self, folder: Path, rng: random.Random, base: str) -> tuple[list[str], int]:
        requests = (
            ["--head", f"{base}/{rng.choice(list(self.sizes))}"],
            ["--output", "/dev/null", f"{base}/missing-{rng.randrange(100)}"],
            ["--data", draw_text(rng, draw_log(rng, 20, 5_000)), f"{base}/submit"],
            ["--output", "/dev/null", f"{base}/old"],
        )
        return rng.choice(requests), 0

    def _fetch(self, base: str, names: list[str], options: list[str]) -> tuple[list[str], int]:
        parts = [part for name in names for part in ("--output", "/dev/null", f"{base}/{name}")]
        return ["--fail", *options, *parts], sum(self.sizes[name] for name in names)


class Http(WebServer):
    """HTTP/1.1 in the clear."""

    NAME = "http"
    STANDARD_PORT = 80
    TLS = False
    CURL_OPTIONS = ("--http1.1",)


class Https(WebServer):
    """HTTP/1.1 over TLS."""

    NAME = "https"
    STANDARD_PORT = 443
    TLS = True
    CURL_OPTIONS = ("--http1.1",)


class Http2(WebServer):
    """HTTP/2 over TLS, many files at the same time."""

    NAME = "http2"
    STANDARD_PORT = 443
    TLS = True
    LISTEN_OPTIONS = "http2"
    CURL_OPTIONS = ("--http2",)
