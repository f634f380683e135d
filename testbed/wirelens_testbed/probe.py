"""Which features of the kernel are missing: each is tried in a namespace made for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from wirelens_testbed import bpf
from wirelens_testbed.failure import LabError, TestbedError
from wirelens_testbed.lab import Lab, shown
from wirelens_testbed.switch import add_link

# What is tried, in this order, each on what those before have made; and how a kernel is built
# that can do it.
DEVICE = "probe0"
STEPS = (
    ("bridges", "CONFIG_BRIDGE", "ip", "link add br0 type bridge"),
    ("token buckets", "CONFIG_NET_SCH_TBF", "tc",
     f"qdisc add dev {DEVICE} root tbf rate 1mbit burst 10000 limit 20000"),
    ("classes", "CONFIG_NET_SCH_HTB", "tc", f"qdisc replace dev {DEVICE} root handle 1: htb"),
)  # fmt: skip


def missing_features(wirelens: Path) -> list[str]:
    """A sentence for each feature that a run would miss; root only."""
    lab = Lab()
    lacks = []
    try:
        lab.add_host("a")
        lab.add_host("b")
        try:
            add_link(lab, ("a", DEVICE), ("b", DEVICE))
        except LabError as failure:
            return [f"no pairs of devices (CONFIG_VETH): {failure}"]
        for what, option, program, command in STEPS:
            try:
                (lab.ip if program == "ip" else lab.tc)("a", command)
            except LabError as failure:
                lacks.append(f"no {what} ({option}): {failure}")
        try:
            bpf.require_kernel()
        except TestbedError as failure:
            lacks.append(str(failure))
        place = f"{lab.namespace('a')}:{DEVICE}:in"
        counting = [str(wirelens), "testbed", "record", "--count", place]
        counted = subprocess.run(
            counting, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if counted.returncode != 0:
            said = counted.stderr.strip() or f"`{shown(counting)}` ended with an error"
            lacks.append(f"no counting at tc: {said.removeprefix('wirelens: ')}")
    finally:
        lab.close()
    return lacks
