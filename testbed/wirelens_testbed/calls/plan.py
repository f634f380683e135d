"""What a call scenario says, checked."""

from __future__ import annotations

from dataclasses import dataclass

from wirelens_testbed.calls.media import PICTURES, Camera
from wirelens_testbed.run import take_late_max_ms
from wirelens_testbed.scenario import Table
from wirelens_testbed.varying_link import End, LinkPlan, parse_link

CALLER, CALLEE = End("caller", "10.1.0"), End("callee", "10.2.0")
# Named after what is the case in a call one way: the caller is seen, the callee sees.
SENDER_FILE, RECEIVER_FILE = "sender.pcapng", "receiver.pcapng"

CODECS = ("VP8", "VP9", "H264")

# What an encoder gives up when the link is too slow, in the browser's words: the hint says what
# the picture is worth looking at for, the preference what to do about it.
KEEPS = {
    "resolution": ("detail", "maintain-resolution"),
    "frame-rate": ("motion", "maintain-framerate"),
    "both": ("", "balanced"),
}


@dataclass(frozen=True)
class Plan:
    duration_s: float
    warm_up_s: float
    codec: str
    audio: bool
    is_two_way: bool
    keeps: str
    bits_per_s_max: int  # 0: the browser's own limit
    camera: Camera
    link: LinkPlan
    snaplen: int
    late_max_ms: float

    @property
    def senders(self) -> tuple[End, ...]:
        return (CALLER, CALLEE) if self.is_two_way else (CALLER,)

    @property
    def receivers(self) -> tuple[End, ...]:
        return (CALLEE, CALLER) if self.is_two_way else (CALLEE,)


def parse(table: Table) -> Plan:
    """Reads a drawn scenario."""
    duration_s = table.take("duration_s", float, minimum=5.0, maximum=7200.0)
    call = table.take_table("call")
    plan = Plan(
        duration_s=duration_s,
        warm_up_s=table.take("warm_up_s", float, 15.0, minimum=0.0, maximum=duration_s),
        codec=call.take("codec", str, "VP8", among=CODECS),
        audio=call.take("audio", bool, True),
        is_two_way=call.take("two_way", bool, False),
        keeps=call.take("keeps", str, "both", among=tuple(KEEPS)),
        bits_per_s_max=round(1e6 * call.take("rate_max_mbit", float, 0.0, minimum=0.0)),
        camera=_parse_camera(table.take_table("camera")),
        link=parse_link(table.take_table("link")),
        snaplen=table.take("snaplen", int, 128, minimum=80, maximum=262_144),
        late_max_ms=take_late_max_ms(table),
    )
    call.finish()
    return plan


def _parse_camera(table: Table) -> Camera:
    size = table.take("size", str, "640x480", among=("320x240", "640x360", "640x480", "1280x720"))
    width, height = map(int, size.split("x"))
    camera = Camera(
        picture=table.take("picture", str, "pattern", among=PICTURES),
        noise=table.take("noise", int, 10, minimum=0, maximum=100),
        width=width,
        height=height,
        frames_per_second=table.take("frames_per_second", int, 30, minimum=1, maximum=60),
    )
    table.finish()
    return camera
