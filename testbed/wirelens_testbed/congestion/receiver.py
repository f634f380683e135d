"""Takes in TCP flows and throws their bytes away: a program that runs inside a namespace.

    python -m wirelens_testbed.congestion.receiver ADDRESS PORT[=CONTROL]...

A port with a control passes it on to its connections: some controls need it at both ends.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys

# Never written to: `MSG_TRUNC` has TCP drop the bytes in the kernel instead of copying them.
CHUNK = bytearray(1 << 20)
BACKLOG = 512


def main() -> None:
    selector = selectors.DefaultSelector()
    address, *ports = sys.argv[1:]
    servers = {_listen(address, *port.split("=")) for port in ports}
    for server in servers:
        selector.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            if key.fileobj in servers:
                connection, _ = key.fileobj.accept()
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ)
            else:
                _take(key.fileobj, selector)


def _listen(address: str, port: str, control: str | None = None) -> socket.socket:
    server = socket.create_server((address, int(port)), backlog=BACKLOG)
    if control:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    server.setblocking(False)
    return server


def _take(connection: socket.socket, selector: selectors.BaseSelector) -> None:
    with contextlib.suppress(BlockingIOError):
        try:
            if connection.recv_into(CHUNK, len(CHUNK), socket.MSG_TRUNC):
                return
        except ConnectionError:
            pass
        selector.unregister(connection)
        connection.close()


if __name__ == "__main__":
    main()
