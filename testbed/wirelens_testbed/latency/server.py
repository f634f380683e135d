"""The web server at the sending end of the link."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from wirelens_testbed.lab import Lab
from wirelens_testbed.latency.plan import Plan

PROGRAMS = {"nginx": "nginx-light", "openssl": "openssl"}

# Shorter than many a pause between two pages, so that some of them begin with new connections.
KEEP_ALIVE_S = 5


def start_server(lab: Lab, host: str, address: str, plan: Plan, root: Path) -> str:
    """Starts the server; returns the hash of its key, by which the browser may trust it."""
    key_hash = _make_key(lab, host, address) if plan.tls else ""
    config = lab.run_dir / "nginx.conf"
    config.write_text(_config(lab.run_dir, plan, root))
    lab.start(host, "nginx", "-e", "stderr", "-c", config, log_name="nginx")
    lab.wait_for_listener(host, plan.port)
    return key_hash


def _make_key(lab: Lab, host: str, address: str) -> str:
    key, certificate = lab.run_dir / "tls.key", lab.run_dir / "tls.crt"
    lab.run(
        host, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-noenc", "-days", "30", "-subj", "/O=Wirelens testbed",
        "-addext", f"subjectAltName=IP:{address}", "-keyout", key, "-out", certificate,
    )  # fmt: skip
    public = lab.run(host, "openssl", "pkey", "-in", key, "-pubout", "-outform", "der")
    return base64.b64encode(hashlib.sha256(public).digest()).decode()


def _config(run_dir: Path, plan: Plan, root: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temp_paths = "\n".join(f"    {kind}_temp_path {run_dir}/nginx_{kind};" for kind in kinds)
    how = f"{' ssl' if plan.tls else ''}{' http2' if plan.http2 else ''}"
    key = f"ssl_certificate {run_dir}/tls.crt; ssl_certificate_key {run_dir}/tls.key;"
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
    types {{
        text/html html; text/css css; text/javascript js; image/png png; video/mp4 mp4 m4s;
    }}
    keepalive_timeout {KEEP_ALIVE_S};
    keepalive_requests 100000;
    server {{
        listen {plan.port}{how};
        {key if plan.tls else ""}
        root {root};
        # Each visit costs the network what the first one did, and the player may read what it gets.
        add_header Cache-Control no-store;
        add_header Access-Control-Allow-Origin *;
    }}
}}
"""
