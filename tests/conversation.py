"""A host and a peer that talk TCP, UDP and ICMP, in network namespaces; see lab.py."""

import contextlib
import os
import socket
import struct
import threading
from contextlib import ExitStack

from lab import HERE, THERE, bring_up, inside, ip, new_namespace

# The last is sent as frames of many segments.
MESSAGE_SIZES = (10, 1000, 200_000)


def serve(tcp: socket.socket, udp: socket.socket) -> None:
    """Answers three connections and each datagram, until the datagram that says so."""
    for _ in range(3):
        connection, _ = tcp.accept()
        with connection:
            for size in MESSAGE_SIZES:
                while size > 0:
                    size -= len(connection.recv(size))
                connection.sendall(b"answer")
            # Until the other side closes or aborts.
            with contextlib.suppress(ConnectionResetError):
                connection.recv(1)
    while True:
        data, sender = udp.recvfrom(2048)
        if data == b"end":
            return
        udp.sendto(data + data, sender)


def talk() -> None:
    """Three connections, one of them aborted, datagrams of two sockets, and pings."""
    for number in range(3):
        with socket.create_connection((THERE, 5000), timeout=5) as connection:
            for size in MESSAGE_SIZES:
                connection.sendall(bytes(size))
                assert connection.recv(100) == b"answer"
            if number == 2:
                # An abort: RST instead of FIN.
                option = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.settimeout(5)
        for sequence in range(5):
            # The checksum of an echo request: ones' complement of its words' sum.
            total = 0x0800 + 0x0707 + sequence
            raw.sendto(struct.pack(">BBHHH", 8, 0, ~total & 0xFFFF, 0x0707, sequence), (THERE, 0))
            assert raw.recv(100)
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for number, udp in enumerate(sockets * 10):
        udp.settimeout(5)
        udp.sendto(bytes(10 * number), (THERE, 5001))
        udp.recv(2048)
    sockets[0].sendto(b"end", (THERE, 5001))
    for udp in sockets:
        udp.close()


def host_and_peer() -> ExitStack:
    """This thread in a namespace whose `wl0` leads to a host of its own, which serves."""
    with ExitStack() as stack:
        peer = stack.enter_context(new_namespace())
        stack.enter_context(new_namespace())
        ip("link add wl0 type veth peer name wl1")
        ip(f"link set wl1 netns /proc/{os.getpid()}/fd/{peer}")
        with inside(peer):
            ip(f"addr add {THERE}/24 dev wl1")
            ip("link set wl1 up")
            tcp = stack.enter_context(socket.create_server(("0.0.0.0", 5000)))
            udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            udp.bind(("0.0.0.0", 5001))
        server = threading.Thread(target=serve, args=(tcp, udp), daemon=True)
        server.start()
        stack.callback(server.join, 5)
        ip(f"addr add {HERE}/24 dev wl0")
        bring_up("wl0")
        return stack.pop_all()
