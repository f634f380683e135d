"""Names of flows, compared with those that tshark reads from the same captures:

    python bench/evaluation/names/tshark.py DATA OUT.jsonl [--every N]

A row for each flow in which either sees a server name (SNI), an ALPN list or a DNS name, and says
whether they agree. `--every 4` takes a quarter of the captures, by a hash of their names. Captures
over 3 MB are left out. Needs tshark; all of ../shared/data takes a quarter of an hour.
"""

import argparse
import collections
import hashlib
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import wirelens

SIZE_MAX = 3_000_000
FIELDS = (
    "frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport",
    "udp.srcport", "udp.dstport", "tls.handshake.extensions_server_name",
    "tls.handshake.extensions_alpn_str", "dns.qry.name",
)  # fmt: skip
FOLDERS = ("services", "formats", "attacks", "devices")
# A flow: protocol and its two ends, in order.
Flow = tuple[str, tuple[str, str], tuple[str, str]]
Names = dict[str, dict[Flow, set[str]]]


def escaped(name: str) -> str:
    """A name of tshark's, in the way in which Wirelens writes it."""
    if name.lower() == "<root>":
        return "."
    lower = re.sub(r"\\(\d{3})", lambda found: f"\\u{{{int(found[1], 8):x}}}", name.lower())
    return lower


def flow(protocol: str, *ends: tuple[str, str]) -> Flow:
    one, other = sorted(ends)
    return protocol, one, other


def seen_by_tshark(path: Path) -> Names:
    """Server names, ALPN and the DNS names of each flow."""
    command = ["tshark", "-n", "-r", path, "-Y", "tls.handshake.type==1 || dns || mdns || llmnr"]
    command += ["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=|"]
    command += [part for field in FIELDS for part in ("-e", field)]
    ran = subprocess.run(command, capture_output=True, check=False)
    names: Names = collections.defaultdict(lambda: collections.defaultdict(set))
    for line in ran.stdout.decode("utf8", "replace").splitlines():
        layers, *values = line.split("\t")
        if len(values) != len(FIELDS) - 1:
            continue
        # The innermost headers come last.
        last = [value.split("|")[-1] for value in values[:8]]
        is_v6 = not last[0] or layers.rfind(":ipv6:") > layers.rfind(":ip:")
        source, destination = last[2:4] if is_v6 else last[:2]
        is_tcp = bool(last[4])
        ports = last[4:6] if is_tcp else last[6:8]
        key = flow(
            "tcp" if is_tcp else "udp", (source, ports[0]), (destination, ports[1])
        )
        server_names, alpn, queries = values[8:]
        if server_names:
            names["server_name"][key] |= {escaped(name) for name in server_names.split("|")}
        if alpn:
            names["alpn"][key].add(alpn.replace("|", ","))
        if queries:
            names["dns_query"][key] |= {escaped(name) for name in queries.split("|")}
    return names


def seen_here(path: Path) -> Names:
    """The same, as `wirelens flows --read-names` has it."""
    names: Names = collections.defaultdict(lambda: collections.defaultdict(set))
    for row in wirelens.flows(path, read_names=True):
        ends = (row.src_ip, str(row.src_port)), (row.dst_ip, str(row.dst_port))
        key = flow(row.protocol, *ends)
        if row.ech_offered is not None and row.server_name:
            names["server_name"][key].add(row.server_name)
        if row.alpn:
            names["alpn"][key].add(row.alpn)
        if row.dns_query:
            names["dns_query"][key].add(row.dns_query)
    return names


def agrees(what: str, there: set[str], here: set[str]) -> bool:
    # A row has the first name of a flow of DNS, tshark all.
    return bool(here) and here <= there if what == "dns_query" else here == there


def rows(path: Path) -> list[dict[str, object]]:
    """A row for each flow in which either sees something."""
    try:
        here = seen_here(path)
    except wirelens.WirelensError:
        return []
    there = seen_by_tshark(path)
    found = []
    for what in ("server_name", "alpn", "dns_query"):
        for key in sorted(set(there[what]) | set(here[what])):
            sides = there[what].get(key, set()), here[what].get(key, set())
            row = {"capture": path.name, "what": what, "flow": f"{key[0]} {key[1]} {key[2]}"}
            if agrees(what, *sides):
                found.append({**row, "agrees": True})
            else:
                tshark, wirelens_ = (sorted(side)[:4] for side in sides)
                found.append({**row, "agrees": False, "tshark": tshark, "wirelens": wirelens_})
    return found


def is_taken(path: Path, every: int) -> bool:
    number = int(hashlib.sha256(path.name.encode()).hexdigest()[:8], 16)
    is_small = path.is_file() and path.stat().st_size <= SIZE_MAX
    return is_small and path.suffix not in (".tsv", ".md") and number % every == 0


def main() -> None:
    assert __doc__
    # Some captures are damaged, or of links that are not read; both programs read the rest.
    warnings.simplefilter("ignore", wirelens.CaptureWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    counts: collections.Counter[tuple[str, bool]] = collections.Counter()
    with arguments.output.open("w") as output:
        for folder in FOLDERS:
            for path in sorted((arguments.data / folder).rglob("*")):
                if not is_taken(path, arguments.every):
                    continue
                for row in rows(path):
                    counts[str(row["what"]), bool(row["agrees"])] += 1
                    if not row["agrees"]:
                        print(json.dumps(row), file=output, flush=True)
        for what in ("server_name", "alpn", "dns_query"):
            same, other = counts[what, True], counts[what, False]
            total = {"total": what, "agree": same, "differ": other}
            print(json.dumps(total), file=output)
            print(f"{what}: {same} of {same + other} flows agree", file=sys.stderr)


if __name__ == "__main__":
    main()
