"""What the fake camera sees: some seconds of picture, made anew for each run and shown in a loop.

Chromium's built-in test picture is so still that an encoder needs half of what a person in front
of a camera takes. Here a moving picture carries the noise of a sensor; how much of either differs
from run to run, as it does from caller to caller.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from wirelens_testbed.lab import Lab

PROGRAMS = {"ffmpeg": "ffmpeg"}

LOOP_S = 5  # at 640x480 and 30 frames per second 70 MB; longer would only show that it is a loop
PICTURES = ("pattern", "gradients", "fractal", "cells")


@dataclass(frozen=True)
class Camera:
    picture: str
    noise: int  # strength in steps of brightness, 0 to 100
    width: int
    height: int
    frames_per_second: int


def make_camera_file(lab: Lab, host: str, camera: Camera, rng: random.Random) -> Path:
    """Makes the file that Chromium takes for a camera."""
    path = lab.run_dir / f"camera-{host}.y4m"
    size = f"{camera.width}x{camera.height}"
    rate = camera.frames_per_second
    seed = rng.randrange(1 << 31)
    source = {
        "pattern": f"testsrc2=size={size}:rate={rate}",
        "gradients": f"gradients=size={size}:rate={rate}:n=6:speed=0.05:seed={seed}",
        "fractal": f"mandelbrot=size={size}:rate={rate}:start_scale=2:end_scale=0.05:end_pts=400",
        "cells": f"life=size={size}:rate={rate}:mold=10:ratio=0.2:seed={seed}",
    }[camera.picture]
    noise = f"noise=alls={camera.noise}:allf=t:all_seed={seed}"
    lab.run(
        host, "ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", source,
        "-vf", f"{noise},format=yuv420p", "-t", str(LOOP_S), path,
        time_max_s=120,
    )  # fmt: skip
    return path
