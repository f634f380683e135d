"""Rows of a table from a browser's counters: one row per second and host, as differences.

Browsers count from the start of a call. A row reports the change since the row before it, so that
a stall shows as 0 frames and sums need no care at a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Report = list[dict[str, Any]]

TIER_FPS, TIER_COUNT = 3, 11

# Column -> what the browser calls the count it is the difference of.
RECEIVED_COUNTS = {
    "frames_received": "framesReceived",
    "frames_decoded": "framesDecoded",
    "frames_dropped": "framesDropped",
    "key_frames_decoded": "keyFramesDecoded",
    "freezes": "freezeCount",
    "packets_received": "packetsReceived",
    "packets_lost": "packetsLost",
    "packets_retransmitted": "retransmittedPacketsReceived",
    "nacks_sent": "nackCount",
    "plis_sent": "pliCount",
    "firs_sent": "firCount",
}
SENT_COUNTS = {
    "frames_encoded": "framesEncoded",
    "frames_sent": "framesSent",
    "key_frames_encoded": "keyFramesEncoded",
    "packets_sent": "packetsSent",
    "packets_retransmitted": "retransmittedPacketsSent",
    "nacks_received": "nackCount",
    "plis_received": "pliCount",
    "firs_received": "firCount",
}
RECEIVER_COLUMNS = (
    "time_ns", "host", "call_s", "warm_up", "frames_per_second", *RECEIVED_COUNTS,
    "freeze_ms", "width", "height", "bits_per_s", "jitter_us", "jitter_buffer_delay_us",
    "round_trip_us", "codec", "ssrc", "audio_bits_per_s", "audio_packets_lost",
)  # fmt: skip
SENDER_COLUMNS = (
    "time_ns", "host", "call_s", "warm_up", "camera_frames_per_second",
    "frames_per_second", *SENT_COUNTS,
    "width", "height", "bits_per_s", "target_bits_per_s", "available_bits_per_s",
    "limited_by", "quantizer", "round_trip_us", "codec", "ssrc", "audio_bits_per_s",
)  # fmt: skip


@dataclass
class Statistics:
    """The tables of one call; `take` is given the reports of all hosts in the order of time."""

    warm_up_s: float
    receiver: list[dict[str, Any]] = field(default_factory=list)
    sender: list[dict[str, Any]] = field(default_factory=list)
    _before: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    _began_ms: dict[str, float] = field(default_factory=dict)

    def take(self, host: str, report: Report) -> None:
        """Adds the rows of one report."""
        for kind, table, make in (
            ("inbound-rtp", self.receiver, self._received_row),
            ("outbound-rtp", self.sender, self._sent_row),
        ):
            media = {row["kind"]: row for row in report if row["type"] == kind}
            if "video" not in media:
                continue
            # Not a stream, but counted like one.
            media |= {row["type"]: row for row in report if row["type"] == "camera"}
            before = {each: self._before.get((host, kind, each), {}) for each in media}
            for each, row in media.items():
                self._before[host, kind, each] = row
            # The first report has no second before it.
            if (
                before["video"].get("timestamp", media["video"]["timestamp"])
                < (media["video"]["timestamp"])
            ):
                table.append(make(host, report, media, before))

    def write(self, folder: Path) -> None:
        """Writes receiver.tsv and sender.tsv."""
        for name, columns, rows in (
            ("receiver.tsv", RECEIVER_COLUMNS, self.receiver),
            ("sender.tsv", SENDER_COLUMNS, self.sender),
        ):
            with (folder / name).open("w") as table:
                print(*columns, sep="\t", file=table)
                for row in rows:
                    print(*(row[column] for column in columns), sep="\t", file=table)

    def _shared(
        self, host: str, report: Report, now: dict[str, Any], before: dict[str, Any]
    ) -> dict[str, Any]:
        began_ms = self._began_ms.setdefault(host, before["timestamp"])
        call_s = (now["timestamp"] - began_ms) / 1000
        pair = _chosen_pair(report)
        return {
            "time_ns": round(now["timestamp"] * 1e6),
            "host": host,
            "call_s": round(call_s, 3),
            "warm_up": int(call_s <= self.warm_up_s),
            "width": now.get("frameWidth", 0),
            "height": now.get("frameHeight", 0),
            "round_trip_us": round(pair.get("currentRoundTripTime", 0) * 1e6),
            "codec": _codec(report, now),
            "ssrc": now["ssrc"],
        }

    def _received_row(
        self, host: str, report: Report, media: dict[str, Any], before: dict[str, Any]
    ) -> dict[str, Any]:
        video, earlier = media["video"], before["video"]
        audio, earlier_audio = media.get("audio", {}), before.get("audio", {})
        row = self._shared(host, report, video, earlier)
        seconds = (video["timestamp"] - earlier["timestamp"]) / 1000
        emitted = _grown(video, earlier, "jitterBufferEmittedCount")
        waited_s = _grown(video, earlier, "jitterBufferDelay")
        row |= {column: _grown(video, earlier, name) for column, name in RECEIVED_COUNTS.items()}
        row |= {
            # Our own: the browser's is absent in a stall, and an average over more than a second.
            "frames_per_second": round(row["frames_decoded"] / seconds, 2),
            "freeze_ms": round(_grown(video, earlier, "totalFreezesDuration") * 1000),
            "bits_per_s": _bits_per_s(video, earlier, "bytesReceived", seconds),
            "jitter_us": round(video.get("jitter", 0) * 1e6),
            "jitter_buffer_delay_us": round(waited_s / emitted * 1e6) if emitted else 0,
            "audio_bits_per_s": _bits_per_s(audio, earlier_audio, "bytesReceived", seconds),
            "audio_packets_lost": _grown(audio, earlier_audio, "packetsLost"),
        }
        return row

    def _sent_row(
        self, host: str, report: Report, media: dict[str, Any], before: dict[str, Any]
    ) -> dict[str, Any]:
        video, earlier = media["video"], before["video"]
        audio, earlier_audio = media.get("audio", {}), before.get("audio", {})
        row = self._shared(host, report, video, earlier)
        seconds = (video["timestamp"] - earlier["timestamp"]) / 1000
        camera, earlier_camera = media.get("camera", {}), before.get("camera", {})
        row |= {column: _grown(video, earlier, name) for column, name in SENT_COUNTS.items()}
        encoded = row["frames_encoded"]
        row |= {
            "camera_frames_per_second": round(
                _grown(camera, earlier_camera, "totalFrames") / seconds, 2
            ),
            "frames_per_second": round(encoded / seconds, 2),
            "bits_per_s": _bits_per_s(video, earlier, "bytesSent", seconds),
            "target_bits_per_s": round(video.get("targetBitrate", 0)),
            "available_bits_per_s": round(_chosen_pair(report).get("availableOutgoingBitrate", 0)),
            "limited_by": video.get("qualityLimitationReason", "none"),
            "quantizer": round(_grown(video, earlier, "qpSum") / encoded, 1) if encoded else 0,
            "audio_bits_per_s": _bits_per_s(audio, earlier_audio, "bytesSent", seconds),
        }
        return row


def _grown(now: dict[str, Any], before: dict[str, Any], name: str) -> Any:
    return now.get(name, 0) - before.get(name, 0)


def _bits_per_s(now: dict[str, Any], before: dict[str, Any], name: str, seconds: float) -> int:
    return int(round(_grown(now, before, name) * 8 / seconds))


def _chosen_pair(report: Report) -> dict[str, Any]:
    pairs = [row for row in report if row["type"] == "candidate-pair" and row.get("nominated")]
    return max(pairs, key=lambda row: row.get("bytesReceived", 0), default={})


def _codec(report: Report, stream: dict[str, Any]) -> str:
    names = {row["id"]: row["mimeType"] for row in report if row["type"] == "codec"}
    return str(names.get(stream.get("codecId"), "")).removeprefix("video/")


def tier(frames_per_second: float) -> int:
    """Which of the eleven tiers of 3 frames per second: 0 is below 3, 10 is 30 and more.

    Rounded first: a second that held 30 frames may have lasted 1.001 s.
    """
    return min(round(frames_per_second) // TIER_FPS, TIER_COUNT - 1)
