"""The clients of the demo capture: what two people and their machines do in half a minute."""

from __future__ import annotations

import contextlib
import random
import subprocess
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from wirelens_testbed.demo.servers import (
    BULK_FLOWS,
    CALL_PORT,
    CLOSED_PORT,
    ECHO_PORT,
    SSH_USER,
    bulk_command,
)
from wirelens_testbed.demo.topology import (
    DESK,
    DNS,
    DOMAIN,
    LAPTOP,
    MEDIA,
    SERVERS,
    SHELL,
    UNUSED_SERVER_IPV4,
    UNUSED_SERVER_IPV6,
    WEB,
    Host,
)
from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import LIBRARY_ENVIRONMENT, Lab

ACTIVITY_COUNT_MAX = 8
FRAGMENTED_SIZE_BYTES = 4_000
CALL_DURATION_S = 7
# 20 ms of G.711 audio and an RTP header, 50 packets a second each way, as in a voice call.
CALL_PAYLOAD_BYTES = 172
CALL_RATE_BITS_PER_S = CALL_PAYLOAD_BYTES * 8 * 50

TYPED_LINES = (
    "uptime\n",
    "df -h /srv\n",
    "tail -n 20 access.log\n",
    "grep -c 404 access.log\n",
    "exit\n",
)


def run_clients(lab: Lab, seed: int) -> None:
    """First people at work on a quiet link, then uploads that fill it under a running call."""

    def rng(label: str) -> random.Random:
        # One generator per activity: side by side, they must not draw from each other's numbers.
        return random.Random(f"{seed} {label}")

    with ThreadPoolExecutor(ACTIVITY_COUNT_MAX) as pool:
        try:
            _finish(
                lab,
                pool.submit(browse, lab, rng("desk web"), DESK, "--ipv4"),
                pool.submit(browse, lab, rng("laptop web"), LAPTOP, "--ipv6"),
                pool.submit(look_up, lab, rng("desk names"), DESK, DNS.ipv4),
                pool.submit(look_up, lab, rng("laptop names"), LAPTOP, DNS.ipv6),
                pool.submit(work_remotely, lab, rng("desk ssh"), DESK, "-4"),
                pool.submit(work_remotely, lab, rng("laptop ssh"), LAPTOP, "-6"),
                pool.submit(probe_paths, lab, DESK),
            )
            _finish(
                lab,
                pool.submit(hold_call, lab, LAPTOP),
                pool.submit(send_in_bulk, lab, DESK),
                pool.submit(ping, lab, LAPTOP, MEDIA.ipv4, 30),
                pool.submit(ping, lab, LAPTOP, MEDIA.ipv6, 30),
            )
        except BaseException:
            # Leaving the pool waits for its threads, and they wait for programs.
            lab.abandon()
            raise


def _finish(lab: Lab, *activities: Future[None]) -> None:
    done, _ = wait(activities, return_when=FIRST_EXCEPTION)
    for activity in done:
        activity.result()


def browse(lab: Lab, rng: random.Random, client: Host, family: str) -> None:
    def fetch(*arguments: str | Path, statuses_wanted: tuple[int, ...] = (0,)) -> None:
        curl = ["curl", "-q", "--silent", "--show-error", family]
        trust = ["--cacert", str(lab.run_dir / "tls.crt")]
        lab.run(client.name, *curl, *trust, *arguments, statuses_wanted=statuses_wanted)
        lab.pause(rng.uniform(0.1, 0.4))

    def pages(scheme: str, *names: str) -> list[str]:
        base = f"{scheme}://{WEB.domain_name}"
        return [word for name in names for word in ("--output", "/dev/null", f"{base}/{name}")]

    page = ("index.html", "style.css", "app.js", "photo.jpg")
    visits: list[list[str]] = [
        ["--fail", "--http1.1", *pages("http", *page)],
        ["--fail", "--http1.1", "--compressed", *pages("http", "index.html", "app.js")],
        ["--fail", "--http1.1", *pages("https", "index.html", "photo.jpg")],
        ["--fail", "--http2", *pages("https", *page)],
        ["--fail", "--http2", "--tls-max", "1.2", *pages("https", "index.html")],
        ["--fail", *pages("http", "report.pdf")],
        ["--fail", "--range", "0-4999", *pages("http", "report.pdf")],
        ["--fail", "--location", *pages("http", "old")],
        ["--fail", "--data", "subject=demo&text=hello", *pages("http", "submit")],
        ["--head", *pages("http", "photo.jpg")],
        pages("http", "missing.html"),
    ]
    visits += [["--fail", *pages("http", "note.txt")] for _ in range(6)]
    visits += [["--fail", *pages("https", "note.txt")] for _ in range(4)]
    rng.shuffle(visits)
    for visit in visits:
        fetch(*visit)
    could_not_connect = 7
    fetch(f"http://{WEB.domain_name}:{CLOSED_PORT}/", statuses_wanted=(could_not_connect,))


def look_up(lab: Lab, rng: random.Random, client: Host, server: str) -> None:
    subjects = [(host.domain_name, kind) for host in SERVERS for kind in ("A", "AAAA")]
    subjects += [(DOMAIN, kind) for kind in ("MX", "TXT", "NS", "SOA")]
    subjects += [(f"_ssh._tcp.{DOMAIN}", "SRV"), (f"files.{DOMAIN}", "A")]
    questions = [(name, kind, "NOERROR") for name, kind in subjects * 3]
    questions += [(f"host{rng.randrange(1000)}.{DOMAIN}", "A", "NXDOMAIN") for _ in range(6)]
    questions += [("www.example.com", "A", "REFUSED")]
    rng.shuffle(questions)
    dig = ["dig", "+tries=1", "+time=5", f"@{server}"]
    for name, kind, status_wanted in questions:
        _expect_status(lab.run(client.name, *dig, name, kind), name, kind, status_wanted)
        lab.pause(rng.uniform(0.02, 0.15))
    for host in SERVERS:
        _expect_status(lab.run(client.name, *dig, "-x", host.ipv4), host.ipv4, "PTR", "NOERROR")
    over_tcp = lab.run(client.name, *dig, "+tcp", DOMAIN, "MX")
    _expect_status(over_tcp, DOMAIN, "MX over TCP", "NOERROR")


def _expect_status(answer: bytes, name: str, kind: str, status_wanted: str) -> None:
    if f"status: {status_wanted}".encode() not in answer:
        raise LabError(
            f"dns: wanted {status_wanted} for {name} {kind}, saw: {answer.decode(errors='replace')}"
        )


def work_remotely(lab: Lab, rng: random.Random, client: Host, family: str) -> None:
    options: list[str | Path] = [
        family, "-F", "/dev/null", "-i", lab.run_dir / "user_key",
        "-o", f"UserKnownHostsFile={lab.run_dir}/known_hosts",
        "-o", "GlobalKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes",
    ]  # fmt: skip
    login = f"{SSH_USER}@{SHELL.domain_name}"
    for command in ("id -un", "ls -l", "wc -c access.log", "head -c 3000 access.log | od -x"):
        lab.run(client.name, "ssh", *options, login, command)
        lab.pause(rng.uniform(0.2, 0.6))
    upload = lab.run_dir / f"upload_{client.name}.bin"
    upload.write_bytes(rng.randbytes(30_000))
    lab.run(client.name, "scp", "-q", *options, upload, f"{login}:{upload.name}")
    download = lab.run_dir / f"download_{client.name}.bin"
    lab.run(client.name, "scp", "-q", *options, f"{login}:{upload.name}", download)
    if download.read_bytes() != upload.read_bytes():
        raise LabError(f"scp: {download} differs from {upload}, the file it was copied from and to")
    _type_slowly(lab, rng, client, ["ssh", *map(str, options), login, "cat"])


def _type_slowly(lab: Lab, rng: random.Random, client: Host, command: list[str]) -> None:
    # `cat` echoes each key as a terminal would; a terminal, though, would write to the machine's
    # login records.
    session = lab.start(client.name, *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert session.stdin and session.stdout
    typed = "".join(TYPED_LINES).encode()
    with contextlib.suppress(BrokenPipeError):  # the session ended early, as the check below says
        for key in typed:
            session.stdin.write(bytes([key]))
            session.stdin.flush()
            lab.pause(rng.uniform(0.03, 0.12))
        session.stdin.close()
    echoed = session.stdout.read()
    if session.wait() != 0 or echoed != typed:
        raise LabError(
            f"ssh: the typing session ended with status {session.returncode}, wanted 0; "
            f"{len(echoed)} keys of {len(typed)} were echoed: {echoed!r}"
        )


def probe_paths(lab: Lab, client: Host) -> None:
    """Echo, every hop, a closed port, an address nobody has, and datagrams in fragments."""
    for family, address in (("-4", WEB.ipv4), ("-6", WEB.ipv6)):
        ping(lab, client, address, 15)
        lab.run(client.name, "traceroute", "-n", family, address)
    no_reply = 1
    for address in (UNUSED_SERVER_IPV4, UNUSED_SERVER_IPV6):
        lab.run(client.name, "ping", "-n", "-c", "2", address, statuses_wanted=(no_reply,))
    for target in (f"UDP4:{MEDIA.ipv4}", f"UDP6:[{MEDIA.ipv6}]"):
        socat = ["socat", "-b", "8192", "-t", "0.5", "-"]
        closed, refused = f"{target}:{CLOSED_PORT}", (0, 1)
        lab.run(client.name, *socat, closed, data_in=b"anyone?", statuses_wanted=refused)
        datagram = bytes(index % 256 for index in range(FRAGMENTED_SIZE_BYTES))
        echoed = lab.run(client.name, *socat, f"{target}:{ECHO_PORT}", data_in=datagram)
        if echoed != datagram:
            raise LabError(
                f"{target}: sent {len(datagram)} bytes in one datagram, {len(echoed)} came back"
            )


def ping(lab: Lab, client: Host, address: str, count: int) -> None:
    lab.run(client.name, "ping", "-n", "-q", "-i", "0.25", "-c", str(count), address)


def hold_call(lab: Lab, client: Host) -> None:
    lab.run(
        client.name, "iperf3", "--client", MEDIA.ipv4, "--port", str(CALL_PORT), "--udp", "--bidir",
        "--bitrate", str(CALL_RATE_BITS_PER_S), "--length", str(CALL_PAYLOAD_BYTES),
        "--time", str(CALL_DURATION_S),
    )  # fmt: skip


def send_in_bulk(lab: Lab, client: Host) -> None:
    for port, algorithm, address, size_bytes in BULK_FLOWS:
        lab.pause(0.7)
        arguments = ["--host", address, "--algorithm", algorithm, "--size-bytes", str(size_bytes)]
        lab.run(
            client.name,
            *bulk_command("send", port),
            *arguments,
            environment=LIBRARY_ENVIRONMENT,
        )
