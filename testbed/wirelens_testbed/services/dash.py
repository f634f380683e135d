"""Video by DASH: nginx serves segments in several bit rates, ffmpeg and a player of ours watch."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from wirelens_testbed.failure import LabError
from wirelens_testbed.services.service import Host, Visit, orders
from wirelens_testbed.services.web import Nginx

PLAYER = Path(__file__).resolve().parent / "clients" / "dash_player.py"
CLIP_S = 24
SEGMENT_S = 2
FRAME_RATE = 12
# Small pictures cost little to encode; the rates are padded to what they say.
REPRESENTATIONS = (("160x90", 200), ("320x180", 600), ("480x270", 1500))
SOUND_KBIT = 64
WATCH_MIN_S, WATCH_MAX_S = 6.0, 20.0
BUFFERS_S = (6.0, 12.0, 20.0)
ENCODE_TIME_MAX_S = 120.0


class Dash(Nginx):
    """One clip, encoded when the server starts."""

    NAME = "dash"
    PROGRAMS = {"nginx": "nginx-light", "openssl": "openssl", "ffmpeg": "ffmpeg"}
    STANDARD_PORT = 443
    TLS = True
    WEIGHT = 0.5
    VISIT_MAX_S = 60.0

    def fill(self) -> None:
        source = self.rng.choice(("testsrc2", "mandelbrot", "life", "cellauto"))
        keyframes = SEGMENT_S * FRAME_RATE
        command = ["ffmpeg", "-nostdin", "-loglevel", "error", "-threads", "1"]
        command += ["-f", "lavfi", "-i", f"{source}=size=480x270:rate={FRAME_RATE}"]
        command += ["-f", "lavfi", "-i", f"sine=frequency={self.rng.randrange(200, 800)}"]
        for index, (size, rate_kbit) in enumerate(REPRESENTATIONS):
            rate = f"{rate_kbit}k"
            command += ["-map", "0:v", f"-s:v:{index}", size, f"-b:v:{index}", rate]
            command += [f"-minrate:v:{index}", rate, f"-maxrate:v:{index}", rate]
            command += [f"-bufsize:v:{index}", rate]
        command += ["-map", "1:a", "-c:a", "aac", "-b:a", f"{SOUND_KBIT}k", "-t", str(CLIP_S)]
        command += ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]
        command += ["-x264-params", f"nal-hrd=cbr:scenecut=0:keyint={keyframes}"]
        command += ["-g", str(keyframes), "-f", "dash", "-seg_duration", str(SEGMENT_S)]
        command += ["-use_timeline", "0", "-use_template", "1"]
        command += ["-adaptation_sets", "id=0,streams=v id=1,streams=a"]
        self.lab.run(self.host.name, *command, self.root / "clip.mpd", time_max_s=ENCODE_TIME_MAX_S)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        watch_s = rng.uniform(WATCH_MIN_S, WATCH_MAX_S)
        if rng.random() < 0.25:
            return self._watch_by_ffmpeg(client, rng, family, watch_s)
        rule = rng.choice(("throughput", "buffer", "fixed"))
        asked = orders(
            address=self.host.address(family), host=self.target(family), port=self.port,
            trust=str(self.folder / "tls.crt"), path="/clip.mpd", watch_s=watch_s, rule=rule,
            buffer_s=rng.choice(BUFFERS_S), fixed=rng.randrange(len(REPRESENTATIONS)),
        )  # fmt: skip
        said = self.lab.run(
            client.name, sys.executable, "-B", PLAYER, data_in=asked, time_max_s=self.VISIT_MAX_S
        )
        report = json.loads(said)
        if not report["segments"]:
            raise LabError(f"dash: no segment arrived; the player's report: {report}")
        rates = "+".join(str(rate) for rate in sorted(set(report["kbit"])))
        return Visit(f"{rule} {rates} kbit/s", "player", report["bytes"])

    def _watch_by_ffmpeg(
        self, client: Host, rng: random.Random, family: int, watch_s: float
    ) -> Visit:
        index = rng.randrange(len(REPRESENTATIONS))
        self.lab.run(
            client.name, "ffmpeg", "-nostdin", "-loglevel", "error", "-re",
            "-i", f"https://{self.target_of(family)}:{self.port}/clip.mpd",
            "-map", f"0:v:{index}", "-map", "0:a", "-c", "copy", "-t", f"{watch_s:.1f}",
            "-f", "null", "-", time_max_s=self.VISIT_MAX_S,
        )  # fmt: skip
        rate_kbit = REPRESENTATIONS[index][1]
        asked = round((rate_kbit + SOUND_KBIT) * 125 * watch_s)
        return Visit(f"fixed {rate_kbit} kbit/s", "ffmpeg", asked)

    def target_of(self, family: int) -> str:
        """An address: ffmpeg takes no word on the family."""
        address = self.host.address(family)
        return f"[{address}]" if family == 6 else address
