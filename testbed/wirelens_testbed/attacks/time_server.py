"""A time server as they were until 2014: it tells anybody whom it has talked to (CVE-2013-5211).

Today's servers no longer do. Run as `time_server.py ADDRESS PORT` inside a namespace of a lab.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

MODE_CLIENT, MODE_SERVER, MODE_PRIVATE = 3, 4, 7
REQUEST_GETLIST = 42
NTP_EPOCH_OFFSET_S = 2_208_988_800  # 1900 to 1970
CLIENTS_TOLD, ITEMS_PER_ANSWER, ITEM_SIZE_BYTES = 60, 6, 72


def main() -> None:
    address, port = sys.argv[1], int(sys.argv[2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, port))
        while True:
            question, client = server.recvfrom(2048)
            for answer in answers_to(question, time.time()):
                server.sendto(answer, client)


def answers_to(question: bytes, now_s: float) -> list[bytes]:
    """What goes back; nothing where the question is none."""
    mode = question[0] & 7 if question else 0
    if mode == MODE_CLIENT and len(question) >= 48:
        return [_time(question, now_s)]
    if mode == MODE_PRIVATE and len(question) >= 8 and question[3] == REQUEST_GETLIST:
        return _client_list(question)
    return []


def _time(question: bytes, now_s: float) -> bytes:
    stamp = struct.pack("!II", int(now_s) + NTP_EPOCH_OFFSET_S, int(now_s % 1 * (1 << 32)))
    head = bytes([(question[0] & 0b111000) | MODE_SERVER, 2, question[2], 0xE9])
    # Root delay and dispersion, a reference, then: set, asked, received, sent.
    rest = struct.pack("!II4s", 1 << 8, 1 << 8, bytes([192, 0, 2, 1]))
    return head + rest + stamp + question[40:48] + stamp + stamp


def _client_list(question: bytes) -> list[bytes]:
    answer_count = CLIENTS_TOLD // ITEMS_PER_ANSWER
    answers = []
    for index in range(answer_count):
        more = 0x40 if index < answer_count - 1 else 0
        first = 0x80 | more | (question[0] & 0b111000) | MODE_PRIVATE
        items = b"".join(
            struct.pack("!IIIIII", 60, 0, 0, 1, 0xC0000201 + number, 0).ljust(
                ITEM_SIZE_BYTES, b"\0"
            )
            for number in range(index * ITEMS_PER_ANSWER, (index + 1) * ITEMS_PER_ANSWER)
        )
        head = struct.pack("!4B2H", first, index, 3, REQUEST_GETLIST, ITEMS_PER_ANSWER, 72)
        answers.append(head + items)
    return answers


if __name__ == "__main__":
    main()
