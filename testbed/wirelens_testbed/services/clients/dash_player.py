"""Plays a DASH clip without showing it: JSON on standard input says which, how and for how long.

It does what players in browsers do: fetches the clip's description, then segments of picture and
sound over one connection, chooses a rate for each by what it saw so far, keeps so many seconds in
its buffer and no more, and waits while the buffer plays out. What it did is printed as JSON.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
import time
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

TIMEOUT_S = 15.0
START_BUFFER_S = 2.0
# A rate is chosen that uses this share of what came lately.
SAFE_SHARE = 0.8
# Newer measurements count more: as players do, an exponentially weighted mean.
NEWEST_WEIGHT = 0.4
NAMESPACE = {"dash": "urn:mpeg:dash:schema:mpd:2011"}


@dataclass
class Representation:
    """One encoding of picture or sound, and how its segments are called."""

    name: str
    bits_per_s: int
    first: str
    media: str
    start_number: int
    segment_s: float


class Connection(http.client.HTTPSConnection):
    """A connection to an address under a name that is not looked up."""

    def __init__(self, asked: dict[str, Any]) -> None:
        trust = ssl.create_default_context(cafile=asked["trust"])
        super().__init__(asked["host"], asked["port"], timeout=TIMEOUT_S, context=trust)
        self._trust, self._address = trust, asked["address"]

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), TIMEOUT_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._trust.wrap_socket(plain, server_hostname=self.host)


class Player:
    """What is played, how full the buffer is, and what came of it so far."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.connection = Connection(asked)
        self.report: dict[str, Any] = {"segments": 0, "bytes": 0, "kbit": [], "stalled_s": 0.0}
        self.bits_per_s = 0.0
        self.buffer_s = 0.0
        self.is_playing = False

    def play(self) -> None:
        started_s = time.monotonic()
        pictures, sounds = parse(self.fetch(self.asked["path"])[0])
        for stream in (*pictures, *sounds):
            self.fetch(f"/{stream.first}")
        number = 0
        while time.monotonic() - started_s < self.asked["watch_s"]:
            picture = self.choose(pictures)
            if not self.fetch_segment(picture, number):
                break  # the clip ends here
            for sound in sounds:
                self.fetch_segment(sound, number)
            self.report["kbit"].append(picture.bits_per_s // 1000)
            self.play_out(0.0, picture.segment_s)
            number += 1
            surplus_s = self.buffer_s - self.asked["buffer_s"]
            if surplus_s > 0:
                time.sleep(surplus_s)
                self.play_out(surplus_s)

    def fetch_segment(self, stream: Representation, number: int) -> bool:
        path = stream.media.replace("$Number%05d$", f"{stream.start_number + number:05d}")
        body, took_s = self.fetch(f"/{path}")
        self.play_out(took_s)
        if body:
            seen = len(body) * 8 / max(took_s, 1e-4)
            older = self.bits_per_s or seen
            self.bits_per_s = NEWEST_WEIGHT * seen + (1 - NEWEST_WEIGHT) * older
            self.report["segments"] += 1
        return bool(body)

    def play_out(self, passed_s: float, gained_s: float = 0.0) -> None:
        """Time passes: the buffer plays out, and where it is empty, the picture stands still."""
        if self.is_playing:
            self.report["stalled_s"] += max(passed_s - self.buffer_s, 0.0)
            self.buffer_s = max(self.buffer_s - passed_s, 0.0)
        self.buffer_s += gained_s
        self.is_playing = self.is_playing or self.buffer_s >= START_BUFFER_S

    def choose(self, pictures: list[Representation]) -> Representation:
        rule = self.asked["rule"]
        if rule == "fixed":
            return pictures[int(self.asked["fixed"]) % len(pictures)]
        if rule == "buffer":
            # The fuller the buffer, the better the picture.
            full = min(self.buffer_s / self.asked["buffer_s"], 0.999)
            return pictures[int(full * len(pictures))]
        affordable = [p for p in pictures if p.bits_per_s <= SAFE_SHARE * self.bits_per_s]
        return affordable[-1] if affordable else pictures[0]

    def fetch(self, path: str) -> tuple[bytes, float]:
        started_s = time.monotonic()
        self.connection.request("GET", path, headers={"User-Agent": "testbed-player"})
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            return b"", time.monotonic() - started_s
        self.report["bytes"] += len(body)
        return body, time.monotonic() - started_s


def parse(description: bytes) -> tuple[list[Representation], list[Representation]]:
    """The encodings of picture and of sound, the poorest first."""
    found: dict[str, list[Representation]] = {"video": [], "audio": []}
    for group in ElementTree.fromstring(description).iterfind(".//dash:AdaptationSet", NAMESPACE):
        for each in group.iterfind("dash:Representation", NAMESPACE):
            template = each.find("dash:SegmentTemplate", NAMESPACE)
            assert template is not None
            name = each.attrib["id"]
            length = float(template.attrib["duration"]) / float(template.attrib["timescale"])
            found[group.attrib["contentType"]].append(
                Representation(
                    name=name,
                    bits_per_s=int(each.attrib["bandwidth"]),
                    first=template.attrib["initialization"].replace("$RepresentationID$", name),
                    media=template.attrib["media"].replace("$RepresentationID$", name),
                    start_number=int(template.attrib.get("startNumber", 1)),
                    segment_s=length,
                )
            )
    for encodings in found.values():
        encodings.sort(key=lambda each: each.bits_per_s)
    return found["video"], found["audio"]


def main() -> None:
    player = Player(json.load(sys.stdin))
    player.play()
    print(json.dumps(player.report))


if __name__ == "__main__":
    main()
