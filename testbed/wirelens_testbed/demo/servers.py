"""The servers of the demo capture: nginx, dnsmasq, sshd, iperf3, a datagram echo, and TCP sinks."""

from __future__ import annotations

import pwd
import random
import shutil
import sys
from pathlib import Path

from wirelens_testbed.demo.topology import (
    DNS,
    DOMAIN,
    MEDIA,
    SERVER_IPV4,
    SERVER_IPV6,
    SERVERS,
    SHELL,
    WEB,
)
from wirelens_testbed.lab import LIBRARY_ENVIRONMENT, PROGRAM_PATH, Lab

PAGE_SIZES_BYTES = {
    "index.html": 2_300,
    "style.css": 4_100,
    "app.js": 9_700,
    "photo.jpg": 18_000,
    "note.txt": 120,
    "report.pdf": 50_000,
}
TEXT_SUFFIXES = (".html", ".css", ".js", ".txt")

# One port per congestion control, so that a reader of the file knows the algorithm of each flow.
BULK_FLOWS = (
    (5001, "reno", MEDIA.ipv4, 300_000),
    (5002, "cubic", MEDIA.ipv4, 300_000),
    (5003, "bbr", MEDIA.ipv4, 300_000),
    (5004, "cubic", MEDIA.ipv6, 100_000),
)
CALL_PORT = 5201
ECHO_PORT = 7007
CLOSED_PORT = 9

SSH_USER = "demo"
SSH_USER_ID = 65534


def start_servers(lab: Lab, rng: random.Random) -> None:
    _start_dns(lab)
    _start_web(lab, rng)
    _start_ssh(lab, rng)
    lab.start("media", "iperf3", "--server", "--port", str(CALL_PORT), log_name="iperf3")
    echo_address = f"UDP6-RECVFROM:{ECHO_PORT},ipv6only=0,fork"
    lab.start(
        "media", "socat", "-b", "8192", "-t", "0.1", echo_address, "EXEC:cat", log_name="socat"
    )
    for port, *_ in BULK_FLOWS:
        lab.start(
            "media",
            *bulk_command("sink", port),
            log_name="sink",
            environment=LIBRARY_ENVIRONMENT,
        )
    for host, port in (("dns", 53), ("web", 80), ("web", 443), ("shell", 22), ("media", CALL_PORT)):
        lab.wait_for_listener(host, port)
    lab.wait_for_listener("media", ECHO_PORT, "udp")
    for port, *_ in BULK_FLOWS:
        lab.wait_for_listener("media", port)


def _start_dns(lab: Lab) -> None:
    records = [f"--host-record={host.domain_name},{host.ipv4},{host.ipv6}" for host in SERVERS]
    lab.start(
        "dns", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=",
        "--user=nobody", "--log-facility=-", "--no-resolv", "--no-hosts", "--auth-ttl=300",
        f"--auth-server={DNS.domain_name},eth0",
        f"--auth-zone={DOMAIN},{SERVER_IPV4}.0/24,{SERVER_IPV6}:/64",
        f"--mx-host={DOMAIN},{MEDIA.domain_name},10",
        f"--txt-record={DOMAIN},v=spf1 mx -all",
        f"--srv-host=_ssh._tcp.{DOMAIN},{SHELL.domain_name},22,0,5",
        f"--cname=files.{DOMAIN},{WEB.domain_name}",
        *records,
        log_name="dnsmasq",
    )  # fmt: skip


def _start_web(lab: Lab, rng: random.Random) -> None:
    root = lab.run_dir / "www"
    root.mkdir()
    words = ["packet", "flow", "window", "queue", "delay", "label", "bucket", "probe"]
    for name, size_bytes in PAGE_SIZES_BYTES.items():
        if name.endswith(TEXT_SUFFIXES):
            text = " ".join(rng.choices(words, k=size_bytes // 4))
            (root / name).write_text(text[:size_bytes])
        else:
            (root / name).write_bytes(rng.randbytes(size_bytes))
    lab.run(
        "web", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-noenc", "-days", "30",
        "-subj", f"/O=Wirelens demo/CN={WEB.domain_name}",
        "-addext", f"subjectAltName=DNS:{WEB.domain_name},DNS:files.{DOMAIN}",
        "-keyout", lab.run_dir / "tls.key", "-out", lab.run_dir / "tls.crt",
    )  # fmt: skip
    config_path = lab.run_dir / "nginx.conf"
    config_path.write_text(_nginx_config(lab.run_dir))
    lab.start("web", "nginx", "-e", "stderr", "-c", config_path, log_name="nginx")


def _nginx_config(run_dir: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temp_paths = "\n".join(f"    {kind}_temp_path {run_dir}/nginx_{kind};" for kind in kinds)
    return f"""
daemon off;
user nobody nogroup;
worker_processes 1;
pid {run_dir}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
{temp_paths}
    types {{ text/html html; text/css css; text/javascript js; text/plain txt; image/jpeg jpg; }}
    gzip on;
    gzip_types text/css text/javascript;
    server {{
        listen 80;
        listen [::]:80;
        listen 443 ssl http2;
        listen [::]:443 ssl http2;
        server_name {WEB.domain_name};
        ssl_certificate {run_dir}/tls.crt;
        ssl_certificate_key {run_dir}/tls.key;
        root {run_dir}/www;
        location = /old {{ return 301 /index.html; }}
        location = /submit {{ return 204; }}
    }}
}}
"""


def _start_ssh(lab: Lab, rng: random.Random) -> None:
    home = lab.run_dir / "home"
    home.mkdir()
    (home / "access.log").write_bytes(rng.randbytes(9_000))
    for path in (home, home / "access.log"):
        shutil.chown(path, SSH_USER_ID, SSH_USER_ID)
    for name in ("host_key", "user_key"):
        key_options = ["-q", "-t", "ed25519", "-N", "", "-C", "demo"]
        lab.run("shell", "ssh-keygen", *key_options, "-f", lab.run_dir / name)
    host_key = (lab.run_dir / "host_key.pub").read_text()
    (lab.run_dir / "known_hosts").write_text(f"{SHELL.domain_name} {host_key}")

    # The account exists for the programs of this namespace only, not on the machine. The other two
    # are what sshd itself needs: it starts as root, and faces the network as the user sshd.
    separated = pwd.getpwnam("sshd")
    accounts = (
        "root:x:0:0::/root:/bin/sh\n"
        f"sshd:x:{separated.pw_uid}:{separated.pw_gid}::/run/sshd:/usr/sbin/nologin\n"
        f"{SSH_USER}:x:{SSH_USER_ID}:{SSH_USER_ID}::{home}:/bin/sh\n"
    )
    lab.overlay_etc("shell", "passwd", accounts)
    lab.overlay_etc("shell", "shadow", f"{SSH_USER}:*:19000:0:99999:7:::\n", mode=0o600)
    config_path = lab.run_dir / "sshd_config"
    config_path.write_text(
        f"HostKey {lab.run_dir}/host_key\n"
        f"AuthorizedKeysFile {lab.run_dir}/user_key.pub\n"
        f"AllowUsers {SSH_USER}\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nUseDNS no\n"
        "Subsystem sftp internal-sftp\n"
    )
    # sshd refuses to start without this folder, which normally its service makes.
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    # sshd re-executes itself for each connection and therefore insists on its full path.
    sshd = shutil.which("sshd", path=PROGRAM_PATH) or "sshd"
    lab.start("shell", sshd, "-D", "-e", "-f", config_path, log_name="sshd")


def bulk_command(role: str, port: int) -> list[str]:
    """The command of one end of a bulk transfer; it needs LIBRARY_ENVIRONMENT."""
    module = "wirelens_testbed.demo.bulk_transfer"
    return [sys.executable, "-B", "-m", module, role, "--port", str(port)]
