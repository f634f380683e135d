"""What the server has to offer: a video in several versions, or pages of many objects."""

from __future__ import annotations

import math
import random
import struct
import zlib
from pathlib import Path

from wirelens_testbed.lab import Lab
from wirelens_testbed.latency.plan import Video, Web

PROGRAMS = {"ffmpeg": "ffmpeg"}

# Shown again and again. Where it begins anew, nothing is fetched less: the browser keeps no copy.
LOOP_SEGMENTS = 10
FRAMES_PER_SECOND = 30
# The higher the rate, the larger the picture, as in the ladders of real players.
HEIGHTS = ((600, 240), (2_000, 360), (math.inf, 480))

OBJECT_SIZE_MAX_BYTES = 3_000_000
OBJECT_KINDS = ("png", "png", "png", "js", "css")
PAGE_TEXT_WORDS = (300, 6_000)
WORDS = ("packet", "flow", "window", "queue", "delay", "label", "bucket", "probe")


def make_video(lab: Lab, host: str, video: Video, root: Path, rng: random.Random) -> None:
    """Encodes each version into segments of one length, beginning with a key frame each."""
    frames = round(video.segment_s * FRAMES_PER_SECOND)
    seed = rng.randrange(1 << 31)
    for rate_kbit in video.rates_kbit:
        height = next(height for limit_kbit, height in HEIGHTS if rate_kbit <= limit_kbit)
        size = f"{height * 16 // 9 // 2 * 2}x{height}"
        source = f"testsrc2=size={size}:rate={FRAMES_PER_SECOND}"
        noise = f"noise=alls=20:allf=t:all_seed={seed},format=yuv420p"
        folder = root / str(rate_kbit)
        folder.mkdir()
        lab.run(
            host, "ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", source,
            "-vf", noise, "-t", str(LOOP_SEGMENTS * video.segment_s),
            "-c:v", "libx264", "-profile:v", "main", "-level", "3.1", "-preset", "ultrafast",
            "-b:v", f"{rate_kbit}k", "-maxrate", f"{rate_kbit * 5 // 4}k",
            "-bufsize", f"{rate_kbit * 2}k", "-g", str(frames), "-keyint_min", str(frames),
            "-sc_threshold", "0", "-f", "hls", "-hls_segment_type", "fmp4",
            "-hls_time", str(video.segment_s), "-hls_list_size", "0",
            "-hls_fmp4_init_filename", "init.mp4", "-hls_segment_filename", folder / "%d.m4s",
            folder / "list.m3u8",
            time_max_s=180,
        )  # fmt: skip


def make_pages(web: Web, root: Path, rng: random.Random) -> None:
    """Writes pages with objects of drawn numbers, kinds and sizes."""
    for number in range(web.pages):
        folder = root / f"page{number}"
        folder.mkdir()
        count = round(math.exp(rng.uniform(0, math.log(web.objects_max))))
        names = [f"{index}.{rng.choice(OBJECT_KINDS)}" for index in range(count)]
        for name in names:
            _write_object(folder / name, _draw_size(web, rng), rng)
        text = " ".join(rng.choices(WORDS, k=rng.randint(*PAGE_TEXT_WORDS)))
        (folder / "index.html").write_text(_page(names, text))


def _draw_size(web: Web, rng: random.Random) -> int:
    size_bytes = rng.lognormvariate(math.log(web.object_median_bytes), web.object_spread)
    return min(max(round(size_bytes), 64), OBJECT_SIZE_MAX_BYTES)


def _write_object(path: Path, size_bytes: int, rng: random.Random) -> None:
    if path.suffix == ".png":
        path.write_bytes(_picture(size_bytes, rng))
        return
    # A comment: as long on the wire as any script or style sheet, and nothing to do at its end.
    path.write_text("/*" + rng.randbytes(size_bytes // 2).hex() + "*/")


def _picture(size_bytes: int, rng: random.Random) -> bytes:
    """One grey dot in a file of any size: a browser leaves off fetching what is no picture."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack("!I", len(content)) + kind + content + struct.pack("!I", check)

    one_dot, eight_bits = struct.pack("!II", 1, 1), bytes([8, 0, 0, 0, 0])
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", one_dot + eight_bits),
            chunk(b"wlFi", rng.randbytes(size_bytes)),  # by its letters: private, to be passed over
            chunk(b"IDAT", zlib.compress(b"\0\x80")),
            chunk(b"IEND", b""),
        )
    )


def _page(names: list[str], text: str) -> str:
    tags = {
        "png": '<img alt="" src="{}">',
        "js": '<script async src="{}"></script>',
        "css": '<link rel="stylesheet" href="{}">',
    }
    lines = [tags[name.rpartition(".")[2]].format(name) for name in names]
    return f"<!doctype html><title>page</title>\n{chr(10).join(lines)}\n<p>{text}</p>\n"
