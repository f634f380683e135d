"""What is true of a capture: a label for each flow, and for each packet where that is known."""

from __future__ import annotations

import gzip
import ipaddress
import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirelens_testbed.failure import LabError

UNEXPLAINED = "unexplained"
# A program notes the time before its first packet and after its last, but a tap stamps packets a
# little later or earlier than the program that sent them looks at the clock.
CLOCK_SLACK_NS = 500_000_000

End = tuple[str, int | None]


@dataclass(frozen=True)
class FlowRule:
    """Flows between a client and a server, within a time, have this label. No port: any port."""

    label: str
    protocol: str
    client: End
    server: End
    start_ns: int
    end_ns: int
    more: dict[str, object] = field(default_factory=dict)

    def is_in_force(self, first_ns: int) -> bool:
        return self.start_ns - CLOCK_SLACK_NS <= first_ns <= self.end_ns + CLOCK_SLACK_NS


class FlowTruth:
    """Collects what was started, and assigns each recorded flow to it."""

    COLUMNS = (
        "community_id", "protocol", "src_ip", "src_port", "dst_ip", "dst_port", "first_ns",
        "last_ns", "packets", "bytes", "label",
    )  # fmt: skip

    def __init__(self, path: Path, wirelens: Path) -> None:
        self._path = path
        self._wirelens = wirelens
        self._rules: dict[tuple[str, End, End], list[FlowRule]] = {}
        self._more: list[str] = []

    def add(
        self,
        *,
        label: str,
        client: End,
        server: End,
        start_ns: int,
        end_ns: int,
        protocol: str = "tcp",
        **more: object,
    ) -> None:
        """States a truth; `more` are further columns of the table, empty where not stated."""
        for column in more:
            if column not in self._more:
                self._more.append(column)
        client, server = _plain(client), _plain(server)
        rule = FlowRule(label, protocol, client, server, start_ns, end_ns, more)
        self._rules.setdefault((protocol, client, server), []).append(rule)

    def finish(self, capture: Path, expression: str = "") -> dict[str, int]:
        """Writes flows.tsv, one row a flow of the capture, and counts the flows of each label.

        Of several rules that fit a flow, the one with more ports wins, then the one stated last.
        """
        counts: dict[str, int] = {}
        with self._path.open("w") as table:
            print(*self.COLUMNS, *self._more, sep="\t", file=table)
            for flow in read_flows(self._wirelens, capture, expression):
                rule = self._rule_of(flow)
                label = rule.label if rule else UNEXPLAINED
                counts[label] = counts.get(label, 0) + 1
                more = [rule.more.get(name, "") if rule else "" for name in self._more]
                packets = flow["src_packets"] + flow["dst_packets"]
                size_bytes = flow["src_bytes"] + flow["dst_bytes"]
                plain = [_cell(flow[name]) for name in self.COLUMNS[:8]]
                print(*plain, packets, size_bytes, label, *more, sep="\t", file=table)
        return counts

    def _rule_of(self, flow: dict[str, Any]) -> FlowRule | None:
        source, target = (flow["src_ip"], flow["src_port"]), (flow["dst_ip"], flow["dst_port"])
        # Whoever's packet was seen first need not be the client: the rule may fit either way round.
        for client, server in ((source, target), (target, source)):
            for own, other in _widened(client, server):
                rules = self._rules.get((flow["protocol"], own, other), ())
                for rule in reversed(rules):
                    if rule.is_in_force(flow["first_ns"]):
                        return rule
        return None


def _widened(client: End, server: End) -> Iterable[tuple[End, End]]:
    any_client, any_server = (client[0], None), (server[0], None)
    return (client, server), (any_client, server), (client, any_server), (any_client, any_server)


def _plain(end: End) -> End:
    # As `wirelens` writes addresses: an IPv6 address has many spellings.
    return str(ipaddress.ip_address(end[0])), end[1]


def _cell(value: object) -> object:
    return "" if value is None else value


def read_flows(wirelens: Path, capture: Path, expression: str = "") -> Iterable[dict[str, Any]]:
    """The flows of a capture, by our own flow table."""
    command = [str(wirelens), "flows", "-q", "-r", str(capture), "--format", "jsonl"]
    done = subprocess.run(
        [*command, *expression.split()], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise LabError(f"{capture}: {done.stderr.strip() or 'its flows could not be read'}")
    for line in done.stdout.splitlines():
        yield json.loads(line)


class PacketTruth:
    """Writes one row for each packet of a capture, in its order, to a compressed table.

    The first column, `number`, counts from 1 as Wireshark does.
    """

    # Rows are compressed in portions: a call for each costs more than the row.
    PORTION = 4096

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        # Level 1: the tables are long and alike, and time is what a run has least of.
        self._table = gzip.open(path, "wb", compresslevel=1)  # noqa: SIM115
        self._rows = ["\t".join(("number", *columns))]
        self.packet_count = 0

    def add(self, *cells: object) -> None:
        """The next packet's row; None is an empty cell."""
        self.packet_count += 1
        plain = ["" if cell is None else str(cell) for cell in cells]
        self._rows.append("\t".join((str(self.packet_count), *plain)))
        if len(self._rows) >= self.PORTION:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._table.close()

    def _flush(self) -> None:
        self._table.write("".join(f"{row}\n" for row in self._rows).encode())
        self._rows.clear()
