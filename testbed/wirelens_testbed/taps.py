"""Taps: where a run is recorded, and whether the recording is whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wirelens_testbed.companion import Companion
from wirelens_testbed.lab import Lab


@dataclass(frozen=True)
class Tap:
    """A device whose packets are written to a file of the run's folder.

    `direction` is as the device sees it: `in` what it receives, `out` what it sends.
    """

    host: str
    device: str
    direction: Literal["in", "out", "both"]
    file_name: str


class Recorder:
    """Records taps until `stop`; each file is complete only then."""

    def __init__(
        self,
        lab: Lab,
        wirelens: Path,
        folder: Path,
        taps: Sequence[Tap],
        *,
        snaplen: int,
        comment: str,
        buffer_mib: int = 32,
    ) -> None:
        self.taps = list(taps)
        arguments = ["record", "--snaplen", str(snaplen), "--buffer", f"{buffer_mib}MiB"]
        arguments += ["--comment", comment]
        for tap in taps:
            place = f"{lab.namespace(tap.host)}:{tap.device}:{tap.direction}"
            arguments += ["--tap", f"{place}:{folder / tap.file_name}"]
        self._companion = Companion(lab, wirelens, arguments, "record")

    def stop(self) -> dict[str, Any]:
        """Ends the recording.

        `taps` has one report a tap, in order: packets, bytes, dropped, and tc's count; `late_us`
        says how late a thread was woken that asked for it every millisecond.
        """
        return self._companion.finish()
