#!/usr/bin/env python3
"""Makes the demo capture: real programs talk across namespaces, and a router's LAN is recorded.

It builds two clients, a router, an access link with 20 ms round-trip time, and four servers, dual
stack; runs web, DNS, SSH, voice-like UDP, bulk TCP under reno, cubic and bbr, and path probes; and
writes a pcapng file of full frames. Nothing reaches the machine's own network, and everything is
removed at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

# Run with sudo, a bytecode cache would leave files of root's in the checkout.
sys.dont_write_bytecode = True

import demo_clients  # noqa: E402
import demo_servers  # noqa: E402
import demo_topology  # noqa: E402
from netlab import PROGRAM_PATH, Lab, LabError, other_runs_exist, remove_stale_runs  # noqa: E402

PACKAGE_OF_PROGRAM = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "ethtool": "ethtool",
    "dumpcap": "wireshark-common",
    "nginx": "nginx-light",
    "openssl": "openssl",
    "curl": "curl",
    "dnsmasq": "dnsmasq-base",
    "dig": "bind9-dnsutils",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "scp": "openssh-client",
    "ssh-keygen": "openssh-client",
    "iperf3": "iperf3",
    "socat": "socat",
    "ping": "iputils-ping",
    "traceroute": "traceroute",
}
# Debian asks this script, where it exists, before it starts the service of a new package.
SERVICE_POLICY_PATH = Path("/usr/sbin/policy-rc.d")
SSHD_CHROOT = Path("/run/sshd")  # sshd refuses to start without it; normally its service makes it

CAPTURE_FILTER = "arp or ip or ip6"
SNAP_LENGTH_BYTES = 262_144
# The kernel hands over a partly filled block of packets after a fraction of this.
CAPTURE_SETTLE_S = 1.0
DEFAULT_SEED = 1
EXAMPLE = "sudo python3 testbed/demo_capture.py --output testdata/demo.pcapng"


def main() -> int:
    options = parse_arguments()
    try:
        check_machine(options.install)
        check_output(options.output)
        make_capture(options.output, options.seed)
    except LabError as failure:
        print(f"demo_capture: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo_capture: interrupted; all is removed, no file was written", file=sys.stderr)
        return 130
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"example: {EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="the pcapng file to write"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=DEFAULT_SEED,
        help="decides contents, order and pauses (default: %(default)s); ports, keys and exact "
        "times belong to the kernel and the programs, and differ from run to run",
    )
    parser.add_argument(
        "--install", action="store_true", help="install missing Debian packages first"
    )
    return parser.parse_args()


def check_machine(install: bool) -> None:
    if os.geteuid() != 0:
        raise LabError(
            f"runs as user id {os.geteuid()}, but network namespaces take root; try: {EXAMPLE}"
        )
    missing = missing_packages()
    if missing and install:
        install_packages(missing)
        missing = missing_packages()
    if missing:
        raise LabError(
            f"programs of these packages are missing: {', '.join(missing)}; try --install, or\n"
            f"  apt-get install --no-install-recommends {' '.join(missing)}"
        )
    if not Path("/dev/net/tun").exists():
        raise LabError("there is no /dev/net/tun, which the access link needs; try: modprobe tun")
    offered = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for _, algorithm, *_ in demo_servers.BULK_FLOWS:
        if algorithm not in offered:
            raise LabError(
                f"the kernel offers the congestion controls {', '.join(offered)}, "
                f"but the capture needs {algorithm} as well; try: modprobe tcp_{algorithm}"
            )


def missing_packages() -> list[str]:
    programs = (name for name in PACKAGE_OF_PROGRAM if not shutil.which(name, path=PROGRAM_PATH))
    return sorted({PACKAGE_OF_PROGRAM[name] for name in programs})


def install_packages(packages: list[str]) -> None:
    """Installs with services held back: a demo must not start a web server on the machine."""
    policy_is_ours = not SERVICE_POLICY_PATH.exists()
    if policy_is_ours:
        SERVICE_POLICY_PATH.write_text("#!/bin/sh\nexit 101\n")  # 101: action forbidden by policy
        SERVICE_POLICY_PATH.chmod(0o755)
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    try:
        status = subprocess.call(command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    finally:
        if policy_is_ours:
            SERVICE_POLICY_PATH.unlink()
    if status != 0:
        raise LabError(f"`{' '.join(command)}` ended with status {status}; try: apt-get update")
    print("Services of the new packages were not started; Debian may start them at the next boot.")


def check_output(output: Path) -> None:
    if not output.absolute().parent.is_dir():
        raise LabError(f"the folder of {output} does not exist; try: mkdir -p {output.parent}")


def make_capture(output: Path, seed: int) -> None:
    started_s = time.monotonic()
    leave_on_signals(signal.SIGTERM, signal.SIGHUP)
    for prefix in remove_stale_runs(Path(__file__).name):
        print(f"removed what a killed run had left behind: {prefix}")
    chroot_is_ours = not SSHD_CHROOT.exists()
    SSHD_CHROOT.mkdir(mode=0o755, exist_ok=True)
    lab = Lab()
    try:
        demo_topology.build(lab)
        demo_servers.start_servers(lab, random.Random(seed))
        recorder, recording = start_recorder(lab, seed)
        demo_topology.connect_clients(lab)
        demo_clients.run_clients(lab, seed)
        lab.pause(CAPTURE_SETTLE_S)
        packet_count = stop_recorder(lab, recorder)
        lab.abandon()
        print(lab.log_path("delay_link").read_text().splitlines()[-1])
        deliver(recording, output)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not stop the tidying up
        lab.close()
        # Another run may need it now: an empty folder too many is harmless, one too few is not.
        if chroot_is_ours and not other_runs_exist():
            SSHD_CHROOT.rmdir()
    size_kb, duration_s = output.stat().st_size / 1000, time.monotonic() - started_s
    print(f"{output}: {packet_count} packets, {size_kb:.0f} kB, made in {duration_s:.0f} s")


def leave_on_signals(*numbers: signal.Signals) -> None:
    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)  # unwinds through the tidying up, unlike the default action

    for number in numbers:
        signal.signal(number, leave)


def start_recorder(lab: Lab, seed: int) -> tuple[subprocess.Popen[bytes], Path]:
    recording = lab.run_dir / "recording.pcapng"
    recorder = lab.start(
        "router", "dumpcap", "-i", demo_topology.LAN_DEVICE, "-f", CAPTURE_FILTER, "-n",
        "-s", str(SNAP_LENGTH_BYTES), "-B", "16", "-w", recording,
        "--capture-comment", f"Wirelens demo capture, seed {seed}",
        log_name="dumpcap",
    )  # fmt: skip
    # It names the file once the device is open, not before.
    log_path = lab.log_path("dumpcap")
    lab.wait_until(lambda: "File:" in log_path.read_text(), "dumpcap recording")
    return recorder, recording


def stop_recorder(lab: Lab, recorder: subprocess.Popen[bytes]) -> int:
    """Returns the number of packets. A file with holes is refused: nobody could see them later."""
    lab.stop(recorder)
    said = lab.log_path("dumpcap").read_text()
    counts = re.search(r"Packets received/dropped on interface '[^']*': (\d+)/(\d+)", said)
    if counts is None:
        raise LabError(
            f"dumpcap should have said how many packets it received and dropped; it said: {said}"
        )
    packet_count, dropped_count = int(counts[1]), int(counts[2])
    if dropped_count:
        raise LabError(
            f"dumpcap dropped {dropped_count} packets beside the {packet_count} recorded, and the "
            "file must have no holes; try again when the machine is quieter"
        )
    return packet_count


def deliver(recording: Path, output: Path) -> None:
    """Puts the finished file in place in one step, owned by the folder's owner and not by root."""
    partial = output.with_name(output.name + ".part")
    shutil.copyfile(recording, partial)
    owner = output.absolute().parent.stat()
    os.chown(partial, owner.st_uid, owner.st_gid)
    partial.chmod(0o644)
    partial.replace(output)


if __name__ == "__main__":
    sys.exit(main())
