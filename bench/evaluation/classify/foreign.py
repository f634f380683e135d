"""How many flows of other places a model that ships names: foreign ones, whose names cannot be
right, and those of products that it knows.

    python bench/evaluation/classify/foreign.py ROWS.jsonl --data DATA [--model models/devices]

DATA has `devices`, `services`, `attacks` and `latency`, each with a MANIFEST.tsv. The content of no
capture trained the model:

- home: a smart home of 14 devices, with a row a device as well, by its hardware address
- place: cameras, locks and hubs of another place
- tests: captures of `services` of families that trained nothing
- benign: benign captures of `attacks`

- known: three units of products that the model knows, in use in another home and years newer, in
  captures of `latency`; with the class that is right

A row a capture, or a device: flows, those named by `wirelens classify`, those whose name has a
probability of 0.9 or more, and the names. A device's flows are those of its address, in all
captures of the home; a flow between two devices is a flow of both. A row `without` is that of the
home without the device that has most flows.
"""

import argparse
import csv
import hashlib
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wirelens.classify.labels import read_families, read_table

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "target/release/wirelens"
TRAINED = ROOT / "models/recipes/devices-foreign.txt"
SURE = 0.9
# Capture at the tap that has most of the unit's flows, hardware address, product, class.
KNOWN = (
    ("philips-hue__no-firewall__lan.pcap.gz", "00:17:88:74:c2:dc", "Philips Hue bridge", "Hue"),
    ("tplink-plug__no-firewall__wlan2.4.pcap.gz", "50:c7:bf:ed:0a:54", "TP-Link plug",
     "TP-LinkPlug"),
    ("dlink-cam__no-firewall__wlan2.4.pcap.gz", "b0:c5:54:43:54:83", "D-Link camera", "D-LinkCam"),
)  # fmt: skip
Row = dict[str, Any]


def verdicts(model: Path, captures: list[Path], *words: str) -> tuple[Row, str]:
    """Counts of what the command says of these captures, and the model's fingerprint."""
    command = [str(PROGRAM), "classify", "-q", "--model", str(model), "--format", "csv"]
    for capture in captures:
        command += ["-r", str(capture)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    # 3: a capture is damaged, and what comes before the damage was judged.
    if done.returncode not in (0, 3):
        raise SystemExit(f"{captures[0]}: {done.stderr.strip()}; wanted: a capture")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    named = [row for row in rows if row["label"] != "unknown"]
    return {
        "flows": len(rows),
        "named": len(named),
        "sure": sum(float(row["confidence"]) >= SURE for row in named),
        "names": dict(sorted(Counter(row["label"] for row in named).items())),
    }, rows[0]["model"] if rows else ""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sets(data: Path) -> Iterator[tuple[str, Path]]:
    """Each capture with its set; none whose content is that of one that trained or came before."""
    services = data / "services"
    trained = set(TRAINED.read_text(encoding="utf-8").split())
    family_of = read_families(services / "MANIFEST.tsv")
    families = {family_of[name] for name in trained}
    seen = {digest(services / name) for name in trained}
    found = [
        *(("home", path) for path in sorted((data / "devices/madea").glob("*.cap"))),
        *(("place", path) for path in sorted((data / "devices/tjoconnor").glob("*.pcap"))),
        *(
            ("tests", services / name)
            for name, family in sorted(family_of.items())
            if family not in families and (services / name).exists()
        ),
        *(("benign", path) for path in sorted((data / "attacks/benign").glob("*.pcap*"))),
    ]
    for name, path in found:
        if (content := digest(path)) not in seen:
            seen.add(content)
            yield name, path


def measure(model: Path, data: Path) -> Iterator[Row]:
    home = []
    for name, path in sets(data):
        counts, said_by = verdicts(model, [path])
        if name == "home":
            home.append(path)
        if counts["flows"]:
            yield {"set": name, "capture": path.name, "model": said_by, **counts}
    largest, macs = 0, read_table(data / "devices/madea_mac_map.tsv")
    for row in macs:
        counts, said_by = verdicts(model, home, "--filter", f"ether host {row['mac']}")
        if counts["flows"]:
            yield {"set": "home", "device": row["device"], "model": said_by, **counts}
        if counts["flows"] > largest:
            largest, most = counts["flows"], row
    counts, said_by = verdicts(model, home, "--filter", f"not ether host {most['mac']}")
    yield {"set": "home", "without": most["device"], "model": said_by, **counts}
    for name, mac, device, wanted in KNOWN:
        path = data / "latency/smarthome" / name
        counts, said_by = verdicts(model, [path], "--filter", f"ether host {mac}")
        right = counts["names"].get(wanted, 0)
        yield {"set": "known", "device": device, "class": wanted, "model": said_by, **counts,
               "right": right}  # fmt: skip


def main() -> None:
    """Writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=ROOT / "models/devices")
    asked = parser.parse_args()
    with asked.rows.open("w", encoding="utf-8") as out:
        for row in measure(asked.model, asked.data):
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
