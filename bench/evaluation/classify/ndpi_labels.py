"""Labels of flows by nDPI, for captures that come without: a table for `wirelens eval classify`.

    python bench/evaluation/classify/ndpi_labels.py OUT.tsv FOLDER
        [--like '**/*.pcap*'] [--without TRAINED]

Needs NFStream (tools/requirements-bench.txt), which carries nDPI. Kept are flows whose protocol
nDPI found in their bytes; where it guessed by port or address, or found nothing, it is not known
what a flow is. Captures whose content is among those of TRAINED, or came before, are left out.
`file` is the path below FOLDER.
"""

import argparse
import csv
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nfstream import NFStreamer

COLUMNS = ("file", "proto", "src", "sport", "dst", "dport", "ndpi_proto", "packets")
BY_BYTES = 6
"""nDPI's NDPI_CONFIDENCE_DPI: what is below is a guess by port, address or another flow."""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def captures(folder: Path, like: str, without: Path | None) -> Iterator[Path]:
    """Each content once."""
    seen = {digest(path) for path in without.rglob("*.*cap*")} if without else set()
    for path in sorted(folder.glob(like)):
        if path.is_file() and (content := digest(path)) not in seen:
            seen.add(content)
            yield path


def is_named(flow: Any) -> bool:
    return flow.application_confidence == BY_BYTES and flow.application_name != "Unknown"


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--like", default="**/*.*cap*")
    parser.add_argument("--without", type=Path)
    asked = parser.parse_args()
    with asked.out.open("w", newline="", encoding="utf-8") as text:
        table = csv.writer(text, delimiter="\t")
        table.writerow(COLUMNS)
        for path in captures(asked.folder, asked.like, asked.without):
            try:
                flows = [flow for flow in NFStreamer(source=str(path)) if is_named(flow)]
            except ValueError as error:
                print(f"{path}: left out, NFStream does not read it ({error})", file=sys.stderr)
                continue
            file = path.relative_to(asked.folder)
            table.writerows(
                (file, flow.protocol, flow.src_ip, flow.src_port, flow.dst_ip, flow.dst_port,
                 flow.application_name, flow.bidirectional_packets)
                for flow in flows
            )  # fmt: skip


if __name__ == "__main__":
    main()
