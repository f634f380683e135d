"""Sends a known number of bytes over TCP under a named congestion control, or takes them in.

iperf3 stops a short transfer through its control connection while data is still under way, so its
small flows end in a reset. Here the sender closes its half, and the sink answers with the count it
received: each flow is complete, and its size is known to the byte.
"""

from __future__ import annotations

import argparse
import socket
import socketserver
import struct
import sys

CHUNK_SIZE_BYTES = 16 * 1024
COUNT_FORMAT = struct.Struct("!Q")


class Sink(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        received_bytes = 0
        while chunk := self.request.recv(CHUNK_SIZE_BYTES):
            received_bytes += len(chunk)
        self.request.sendall(COUNT_FORMAT.pack(received_bytes))


class SinkServer(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6  # Linux serves IPv4 on it as well
    allow_reuse_address = True
    daemon_threads = True


def send(host: str, port: int, algorithm: str, size_bytes: int) -> int:
    """Returns the number of bytes the sink says it received."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as connection:
        # Before connect: the handshake already belongs to the algorithm.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        connection.connect(address)
        chunk = bytes(index % 251 for index in range(CHUNK_SIZE_BYTES))
        left_bytes = size_bytes
        while left_bytes > 0:
            left_bytes -= connection.send(chunk[:left_bytes])
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(COUNT_FORMAT.size, socket.MSG_WAITALL)
    (received_bytes,) = COUNT_FORMAT.unpack(answer)
    return int(received_bytes)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Send bytes over TCP under a named congestion control, or take them in.",
        epilog="example: bulk_transfer.py sink --port 5001; "
        "bulk_transfer.py send --host 203.0.113.10 --port 5001 --algorithm bbr --size-bytes 300000",
    )
    role = parser.add_subparsers(dest="role", required=True)
    sink = role.add_parser("sink", help="take in connections until ended")
    sender = role.add_parser("send", help="make one connection and send")
    for side in (sink, sender):
        side.add_argument("--port", type=int, required=True)
    sender.add_argument("--host", required=True)
    sender.add_argument(
        "--algorithm", required=True, help="as in net.ipv4.tcp_available_congestion_control"
    )
    sender.add_argument("--size-bytes", type=int, required=True)
    options = parser.parse_args()

    if options.role == "sink":
        with SinkServer(("::", options.port), Sink) as server:
            server.serve_forever()
    received_bytes = send(options.host, options.port, options.algorithm, options.size_bytes)
    if received_bytes != options.size_bytes:
        print(
            f"sent {options.size_bytes} bytes, but the sink received {received_bytes}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
