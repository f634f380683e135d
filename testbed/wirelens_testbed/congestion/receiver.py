"""Takes in TCP flows and throws their bytes away: a program that runs inside a namespace."""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys

CHUNK_SIZE_BYTES = 1 << 20
BACKLOG = 512


def main() -> None:
    selector = selectors.DefaultSelector()
    server = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=BACKLOG)
    server.setblocking(False)
    selector.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is server:
                connection, _ = server.accept()
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ)
            elif isinstance(key.fileobj, socket.socket):
                _take(key.fileobj, selector)


def _take(connection: socket.socket, selector: selectors.BaseSelector) -> None:
    with contextlib.suppress(BlockingIOError):
        try:
            # On TCP, MSG_TRUNC drops the bytes in the kernel instead of copying them to us.
            if connection.recv(CHUNK_SIZE_BYTES, socket.MSG_TRUNC):
                return
        except ConnectionError:
            pass
        selector.unregister(connection)
        connection.close()


if __name__ == "__main__":
    main()
