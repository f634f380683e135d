"""What a latency scenario says, checked."""

from __future__ import annotations

from dataclasses import dataclass

from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.run import take_late_max_ms
from wirelens_testbed.scenario import Table
from wirelens_testbed.varying_link import LinkPlan, parse_link

VIDEO, WEB = "video", "web"


@dataclass(frozen=True)
class Video:
    rates_kbit: tuple[int, ...]  # of the versions that the player may choose from, rising
    segment_s: float
    buffer_s: float  # how far ahead the player fetches


@dataclass(frozen=True)
class Web:
    pages: int
    objects_max: int
    object_median_bytes: int
    object_spread: float  # of the logarithm of the sizes: most of the bytes lie in few objects
    think_s_max: float


@dataclass(frozen=True)
class Plan:
    duration_s: float
    traffic: str
    tls: bool
    http2: bool
    control: str
    video: Video
    web: Web
    link: LinkPlan
    snaplen: int
    late_max_ms: float

    @property
    def port(self) -> int:
        return 443 if self.tls else 80


def parse(table: Table) -> Plan:
    """Reads a drawn scenario."""
    server = table.take_table("server")
    plan = Plan(
        duration_s=table.take("duration_s", float, minimum=5.0, maximum=7200.0),
        traffic=table.take("traffic", str, among=(VIDEO, WEB)),
        tls=server.take("tls", bool, True),
        http2=server.take("http2", bool, False),
        control=server.take("control", str, "cubic"),
        video=_parse_video(table.take_table("video")),
        web=_parse_web(table.take_table("web")),
        link=parse_link(table.take_table("link")),
        snaplen=table.take("snaplen", int, 96, minimum=94, maximum=262_144),
        late_max_ms=take_late_max_ms(table),
    )
    server.finish()
    if plan.http2 and not plan.tls:
        raise ScenarioError(
            "server.http2 is true without server.tls; browsers speak it in TLS only"
        )
    return plan


def _parse_video(table: Table) -> Video:
    rates = table.take_list("rates_kbit", int, (300, 750, 1500, 3000, 4500))
    video = Video(
        rates_kbit=tuple(sorted(rates)),
        segment_s=table.take("segment_s", float, 2.0, minimum=1.0, maximum=10.0),
        buffer_s=table.take("buffer_s", float, 16.0, minimum=4.0, maximum=120.0),
    )
    if not rates or video.rates_kbit[0] < 50:
        raise ScenarioError(f"{table.place}.rates_kbit is {rates}, wanted some, from 50 upwards")
    table.finish()
    return video


def _parse_web(table: Table) -> Web:
    web = Web(
        pages=table.take("pages", int, 30, minimum=1, maximum=1000),
        objects_max=table.take("objects_max", int, 60, minimum=1, maximum=500),
        object_median_bytes=table.take("object_median_bytes", int, 12_000, minimum=100),
        object_spread=table.take("object_spread", float, 1.4, minimum=0.0, maximum=3.0),
        think_s_max=table.take("think_s_max", float, 6.0, minimum=0.0, maximum=600.0),
    )
    table.finish()
    return web
