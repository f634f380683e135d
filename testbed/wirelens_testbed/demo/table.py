"""Counts, with tshark, what the demo capture must hold, and prints it as a Markdown table.

Ends with status 1 when a kind of traffic is absent, or is seen in one direction only where both
belong.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from wirelens_testbed.demo.topology import ROUTER_MAC

# Everything is recorded on the clients' side, so a frame not sent by the router is from a client.
FROM_CLIENTS = f"eth.src != {ROUTER_MAC}"


@dataclass(frozen=True)
class Kind:
    title: str
    display_filter: str
    both_ways: bool = True


KINDS = (
    Kind("all packets", "frame"),
    Kind("ARP", "arp"),
    Kind("IPv6 neighbour discovery", "icmpv6.type >= 133 and icmpv6.type <= 136"),
    Kind("multicast listener reports", "icmpv6.type == 143"),
    # An error quotes the packet it is about, and tshark sees the quoted echo as well.
    Kind("ICMP echo", "(icmp.type == 0 or icmp.type == 8) and not icmp.type == 3"),
    Kind("ICMPv6 echo", "(icmpv6.type == 128 or icmpv6.type == 129) and not icmpv6.type == 1"),
    Kind("ICMP time exceeded", "icmp.type == 11", both_ways=False),
    Kind("ICMPv6 time exceeded", "icmpv6.type == 3", both_ways=False),
    Kind("ICMP unreachable", "icmp.type == 3", both_ways=False),
    Kind("ICMPv6 unreachable", "icmpv6.type == 1", both_ways=False),
    Kind("IPv4 fragments", "(ip.flags.mf == 1 or ip.frag_offset > 0)"),
    Kind("IPv6 fragments", "ipv6.fraghdr.ident"),
    Kind("DNS over UDP, IPv4", "udp.port == 53 and ip"),
    Kind("DNS over UDP, IPv6", "udp.port == 53 and ipv6"),
    Kind("DNS over TCP", "tcp.port == 53"),
    Kind("DNS answers NXDOMAIN", "dns.flags.rcode == 3", both_ways=False),
    Kind("DNS answers REFUSED", "dns.flags.rcode == 5", both_ways=False),
    Kind("HTTP port 80, IPv4", "tcp.port == 80 and ip"),
    Kind("HTTP port 80, IPv6", "tcp.port == 80 and ipv6"),
    Kind("HTTPS port 443, IPv4", "tcp.port == 443 and ip"),
    Kind("HTTPS port 443, IPv6", "tcp.port == 443 and ipv6"),
    Kind(
        "TLS handshakes (client hello, server hello)",
        "tls.handshake.type == 1 or tls.handshake.type == 2",
    ),
    Kind("SSH port 22, IPv4", "tcp.port == 22 and ip"),
    Kind("SSH port 22, IPv6", "tcp.port == 22 and ipv6"),
    Kind("bulk TCP, reno, IPv4, port 5001", "tcp.port == 5001"),
    Kind("bulk TCP, cubic, IPv4, port 5002", "tcp.port == 5002"),
    Kind("bulk TCP, bbr, IPv4, port 5003", "tcp.port == 5003"),
    Kind("bulk TCP, cubic, IPv6, port 5004", "tcp.port == 5004"),
    Kind("voice-like UDP (iperf3), port 5201", "udp.port == 5201"),
    Kind("iperf3 control connection, port 5201", "tcp.port == 5201"),
    Kind("TCP opening (SYN)", "tcp.flags.syn == 1"),
    Kind("TCP closing (FIN)", "tcp.flags.fin == 1"),
    Kind("TCP refused or cut (RST)", "tcp.flags.reset == 1", both_ways=False),
    Kind("TCP retransmissions", "tcp.analysis.retransmission", both_ways=False),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python3 -m wirelens_testbed.demo.table testdata/demo.pcapng",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("capture", type=Path)
    capture: Path = parser.parse_args().capture

    from_clients, to_clients = packet_counts(capture)
    lacking: list[str] = []
    print("| What | Display filter | From clients | To clients |\n|---|---|---:|---:|")
    for kind, sent, received in zip(KINDS, from_clients, to_clients, strict=True):
        print(f"| {kind.title} | `{kind.display_filter}` | {sent} | {received} |")
        if sent + received == 0 or (kind.both_ways and 0 in (sent, received)):
            lacking.append(f"{kind.title} ({sent} from clients, {received} to clients)")
    if lacking:
        print(f"demo.table: {capture} lacks packets of: {'; '.join(lacking)}", file=sys.stderr)
    return 1 if lacking else 0


def packet_counts(capture: Path) -> tuple[list[int], list[int]]:
    """Counts of each kind from the clients and to them, in one reading of the file."""
    filters = [f"({kind.display_filter}) and {FROM_CLIENTS}" for kind in KINDS]
    filters += [f"({kind.display_filter}) and not {FROM_CLIENTS}" for kind in KINDS]
    # Interval 0: one row for the whole file, with two columns, frames and bytes, for each filter.
    command = ["tshark", "-n", "-r", str(capture), "-q", "-z", ",".join(["io,stat,0", *filters])]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit("demo.table: there is no tshark here; try: apt-get install tshark")
    row = next((line for line in done.stdout.splitlines() if "<>" in line), None)
    if done.returncode != 0 or row is None:
        reason = done.stderr.strip().splitlines()[-1:] or ["it printed no counts"]
        sys.exit(f"demo.table: tshark could not read {capture} to its end; it said: {reason[0]}")
    cells = [int(cell) for cell in re.findall(r"\|\s+(\d+)(?=\s)", row.split("<>", 1)[1])]
    counts = cells[::2]
    return counts[: len(KINDS)], counts[len(KINDS) :]


if __name__ == "__main__":
    sys.exit(main())
