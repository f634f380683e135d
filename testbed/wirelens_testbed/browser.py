"""Chromium without a screen in a namespace, and the loopback server that tells it what to do.

The server listens on loopback inside each namespace, but runs in our own process: a socket stays
in the namespace it was made in. So pages load in what browsers call a secure context, both ends of
a call share one exchange of messages, and nothing of this is ever on the link.
"""

from __future__ import annotations

import ctypes
import json
import mimetypes
import os
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import Lab, Program

PROGRAMS = {"chromium": "chromium"}

PORT = 8080
CLONE_NEWNET = 0x40000000
REQUEST_SIZE_MAX_BYTES = 4 << 20

# Features that speak on the network by themselves, or hide the addresses a call needs.
FEATURES_OFF = (
    "WebRtcHideLocalIpsWithMdns",
    "MediaRouter",
    "DialMediaRouteProvider",
    "OptimizationHints",
    "Translate",
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it runs as root; all it ever loads are our own pages
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--metrics-recording-only",
    "--autoplay-policy=no-user-gesture-required",
    # A page without a screen counts as hidden, and the timers of hidden pages are slowed down.
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    f"--disable-features={','.join(FEATURES_OFF)}",
)

Answer = Callable[[str, Any], Any]  # (host, what the page sent or None) -> what it gets, as JSON


class NothingYet(Exception):
    """An answer's way to say: ask again, what you want does not exist so far."""


def start_browser(lab: Lab, host: str, url: str, *flags: str) -> Program:
    """Starts Chromium in a namespace with a profile of its own that goes with the run."""
    profile = lab.run_dir / f"chromium-{host}"
    profile.mkdir()
    # Chromium asks for names even when it needs none; loopback keeps the questions off the link.
    lab.overlay_etc(host, "resolv.conf", "nameserver 127.0.0.1\n")
    return lab.start(
        host, "chromium", *FLAGS, f"--user-data-dir={profile}", *flags, url,
        log_name=f"chromium-{host}", environment={"HOME": str(profile)},
    )  # fmt: skip


def url_of(page: str) -> str:
    return f"http://127.0.0.1:{PORT}/{page}"


class PageServer:
    """Serves a folder of pages and a few questions to the browsers of some namespaces."""

    def __init__(self, lab: Lab, hosts: list[str], pages: Path, answers: Mapping[str, Answer]):
        self._servers = [_Server(_listen_in(lab, host), host, pages, answers) for host in hosts]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, listener: socket.socket, host: str, pages: Path, answers: Mapping[str, Answer]
    ) -> None:
        super().__init__(("127.0.0.1", PORT), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.host, self.pages, self.answers = host, pages, answers


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the name is the library's
        name = self.path.partition("?")[0].removeprefix("/")
        if name in self.server.answers:
            self._answer(name, None)
            return
        path = self.server.pages / name
        if path.parent != self.server.pages or not path.is_file():
            self._reply(404, b"", "text/plain")
            return
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._reply(200, path.read_bytes(), kind)

    def do_POST(self) -> None:
        size_bytes = int(self.headers.get("Content-Length", 0))
        name = self.path.removeprefix("/")
        if name not in self.server.answers or size_bytes > REQUEST_SIZE_MAX_BYTES:
            self._reply(404, b"", "text/plain")
            return
        self._answer(name, json.loads(self.rfile.read(size_bytes)))

    def _answer(self, name: str, sent: Any) -> None:
        try:
            value = self.server.answers[name](self.server.host, sent)
        except NothingYet:
            self._reply(503, b"", "text/plain")
            return
        self._reply(200, json.dumps(value).encode(), "application/json")

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing: what matters is in the tables."""


def _listen_in(lab: Lab, host: str) -> socket.socket:
    """A listening socket on loopback inside a namespace, made by a thread that goes there."""
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            _enter(lab.namespace(host))
            made.append(socket.create_server(("127.0.0.1", PORT)))
        except OSError as failure:
            made.append(failure)

    # A namespace belongs to a thread, and this one ends here; the others stay where they are.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise LabError(f"{host}: cannot listen on loopback port {PORT}: {made[0]}")
    return made[0]


def _enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
    with open(f"/run/netns/{namespace}") as opened:
        if libc.setns(opened.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
