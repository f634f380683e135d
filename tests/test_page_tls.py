"""The page over HTTPS: with a certificate of the operator's, and with one that is made."""

import hashlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from command import DEMO, PROGRAM, wirelens
from test_page import PATIENCE_S, serving

TOKEN = "0123456789abcdef0123"
APPLICATIONS = f'[input]\nread = "{DEMO}"\n[traffic]\n'


def made_by_openssl(folder: Path, name: str) -> None:
    """A certificate that is valid for `localhost`, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl: not installed, see tools/setup.sh")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2",
         "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


def port_of(address: str) -> int:
    found = re.search(r":(\d+)/", address[6:])
    assert found is not None, address
    return int(found[1])


def state(port: int, context: ssl.SSLContext, token: str | None = None) -> int:
    """The status of a request."""
    request = urllib.request.Request(f"https://localhost:{port}/api/v1/state")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def shown(port: int) -> bytes:
    """The certificate that is shown, whoever signed it."""
    context = ssl._create_unverified_context()
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        assert encrypted.version() in {"TLSv1.2", "TLSv1.3"}
        seen = encrypted.getpeercert(binary_form=True)
        assert seen is not None
        return seen


def test_a_certificate_of_the_operators_is_verified(tmp_path: Path) -> None:
    made_by_openssl(tmp_path, "one")
    (tmp_path / "wirelens.toml").write_text(
        f'{APPLICATIONS}[page]\nlisten = "127.0.0.1:0"\ncertificate = "one.pem"\nkey = "one.key"\n'
    )
    with serving("-c", "wirelens.toml", cwd=tmp_path) as address:
        assert address.startswith("https://127.0.0.1:")
        port = port_of(address)
        trusting = ssl.create_default_context(cafile=str(tmp_path / "one.pem"))
        assert state(port, trusting) == 200
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            state(port, ssl.create_default_context())
        # HTTP without it is answered with what is wanted.
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"use https://" in plain.recv(4096)


def test_beyond_this_machine_one_is_made(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "wirelens.toml").write_text(
        f'{APPLICATIONS}[page]\nlisten = "0.0.0.0:0"\ntoken-file = "token"\n'
    )
    process = subprocess.Popen(
        [PROGRAM, "run", "-c", "wirelens.toml"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, "")
        address = next(line for line in lines if "https://" in line)
        assert f"https://{socket.gethostname()}:" in address and f"?token={TOKEN}" in address
        told = next(line for line in lines if "SHA-256" in line)
        port = port_of(address.split("page: ")[1])
        fingerprint = hashlib.sha256(shown(port)).hexdigest().upper()
        assert ":".join(re.findall("..", fingerprint)) in told
        unverified = ssl._create_unverified_context()
        assert state(port, unverified) == 401
        assert state(port, unverified, TOKEN) == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_renewed_certificate_is_taken_up(tmp_path: Path) -> None:
    made_by_openssl(tmp_path, "one")
    made_by_openssl(tmp_path, "two")
    # A pipe that does not end: the run goes on.
    reading, writing = os.pipe()
    (tmp_path / "wirelens.toml").write_text(
        '[input]\nread = "-"\n[traffic]\n[page]\nlisten = "127.0.0.1:0"\n'
        'certificate = "one.pem"\nkey = "one.key"\n'
    )
    process = subprocess.Popen(
        [PROGRAM, "run", "-c", "wirelens.toml"], cwd=tmp_path, stdin=reading,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        capture = DEMO.read_bytes()
        sent = os.write(writing, capture[:4096])
        lines = iter(process.stderr.readline, "")
        port = port_of(next(line for line in lines if "https://" in line).split("page: ")[1])
        before = shown(port)
        for name in ("pem", "key"):
            (tmp_path / f"one.{name}").write_bytes((tmp_path / f"two.{name}").read_bytes())
        process.send_signal(signal.SIGHUP)
        until = time.monotonic() + PATIENCE_S
        while shown(port) == before and time.monotonic() < until:
            # Signals are seen to between packets.
            sent += os.write(writing, capture[sent : sent + 1024])
            time.sleep(0.1)
        after = shown(port)
        assert after != before
        # One that cannot be used leaves the one before.
        (tmp_path / "one.key").write_text("no key\n")
        process.send_signal(signal.SIGHUP)
        os.write(writing, capture[sent : sent + 4096])
        told = next(line for line in lines if "one.key" in line)
        assert "the previous certificate stays in force" in told
        assert shown(port) == after
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ('certificate = "one.pem"', "certificate without key"),
        ('key = "one.key"', "key without certificate"),
        ('certificate = "no.pem"\nkey = "one.key"', "no.pem"),
        ('certificate = "one.key"\nkey = "one.key"', "BEGIN CERTIFICATE"),
        ('certificate = "one.pem"\nkey = "one.pem"', "BEGIN PRIVATE KEY"),
        ('certificate = "one.pem"\nkey = "two.key"', "wanted: a key of that certificate"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named(
    lines: str, wanted: str, tmp_path: Path
) -> None:
    made_by_openssl(tmp_path, "one")
    made_by_openssl(tmp_path, "two")
    (tmp_path / "wirelens.toml").write_text(
        f'{APPLICATIONS}[page]\nlisten = "127.0.0.1:0"\n{lines}\n'
    )
    refused = wirelens("run", "-c", "wirelens.toml", cwd=tmp_path)
    assert refused.status in (1, 2)
    assert wanted in refused.stderr, refused.stderr


@pytest.mark.web
def test_who_is_slow_or_idle_is_dropped() -> None:
    with serving("-r", str(DEMO), "--page", "0") as address:
        port = int(re.findall(r":(\d+)", address)[-1])
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        path = "/api/v1/tables/flows?limit=10000"
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        deaf.sendall(request * 200)
        idle = []
        for _ in range(10_000):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            idle.append(one)
        time.sleep(7)
        # Those who only connected have gone, and there is room again.
        with urllib.request.urlopen(f"{address}api/v1/state", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
        with urllib.request.urlopen(f"{address}metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        refused = re.search(r"wirelens_server_connections_refused_total (\d+)", text)
        # The kernel turns away others, whose turn to be accepted does not come.
        assert refused is not None and int(refused[1]) > 1_000, text[-2000:]
        until = time.monotonic() + 30
        while open_of(address) > 1 and time.monotonic() < until:
            time.sleep(1)
        assert open_of(address) == 1, "who takes nothing of an answer holds a place"
        for one in (*idle, deaf):
            one.close()


def open_of(address: str) -> int:
    with urllib.request.urlopen(f"{address}metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    found = re.search(r"^wirelens_server_connections_open (\d+)", text, re.M)
    assert found is not None, text[-2000:]
    return int(found[1])
