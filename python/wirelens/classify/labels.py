"""What flows are, as somebody wrote it down: tables of labels, and how flows find theirs.

A table has a row for each flow: `protocol`, `src_ip`, `src_port`, `dst_ip`, `dst_port`, the
label, and perhaps `file`, `first_ns` and `last_ns`; either direction matches. A table with `file`
and the label alone labels every flow of these captures, one with `mac` every flow that this
hardware address sends or receives. What matches nothing is counted and shown
by example, never dropped in silence.
"""

import csv
import ipaddress
import itertools
import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from wirelens import compat
from wirelens.errors import OptionError

# Names under which columns are looked for, the first being the one that messages give.
_NAMES = {
    "file": ("file", "capture", "pcap"),
    "protocol": ("protocol", "proto"),
    "src_ip": ("src_ip", "src"),
    "src_port": ("src_port", "sport"),
    "dst_ip": ("dst_ip", "dst"),
    "dst_port": ("dst_port", "dport"),
    "first_ns": ("first_ns",),
    "last_ns": ("last_ns",),
    "mac": ("mac", "mac_address", "hwaddr"),
}
_ADDRESS_COLUMNS = ("protocol", "src_ip", "src_port", "dst_ip", "dst_port")
# Protocols by the names that tables of flows have, beside numbers (IANA).
_PROTOCOLS = {
    "hopopt": 0, "icmp": 1, "igmp": 2, "ipip": 4, "ipencap": 4, "ipv4": 4, "tcp": 6, "egp": 8,
    "igp": 9, "udp": 17, "dccp": 33, "ipv6": 41, "ipv6-route": 43, "ipv6-frag": 44, "rsvp": 46,
    "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58, "icmp6": 58, "ipv6-icmp": 58, "ipv6-nonxt": 59,
    "ipv6-opts": 60, "eigrp": 88, "ospf": 89, "ospfigp": 89, "pim": 103, "vrrp": 112, "l2tp": 115,
    "sctp": 132, "mobility-header": 135, "udplite": 136, "hip": 139, "shim6": 140,
}  # fmt: skip
# Protocols whose ports are ports; of others what a table has in their place is not compared.
_WITH_PORTS = frozenset({6, 17, 33, 132, 136})
_PORT_MAX = 65_535
# A first packet's time in a table may be rounded to microseconds.
_TIME_SLACK_NS = 1_000
_EXAMPLES = 3
_MAC_DIGITS = 12

# Protocol, and both ends in order.
FlowKey = tuple[int, tuple[str, int], tuple[str, int]]


@dataclass(frozen=True)
class FlowLabel:
    """One row of a table of labels."""

    line: int
    file: str | None
    key: FlowKey | None
    label: str
    # Of the flow's first packet: the time must be within, ends included.
    first_ns: int | None = None
    last_ns: int | None = None
    family: str | None = None
    # Of either end of the flow's first packet on the link.
    mac: str | None = None

    def __str__(self) -> str:
        ends = "every flow" if self.key is None else describe_key(self.key)
        ends += f" of {self.mac}" if self.mac else ""
        return f"{ends}{f' in {self.file}' if self.file else ''} ({self.label}, line {self.line})"


def mac_address(text: str) -> str:
    """A hardware address as this package writes it, whatever stands between its digits."""
    digits = text.strip().lower().translate({ord(sign): None for sign in ":-."})
    if len(digits) != _MAC_DIGITS or not all(digit in "0123456789abcdef" for digit in digits):
        raise OptionError(f"mac {text!r}; wanted: such as 24:ce:33:24:b5:cb")
    return ":".join(digits[at : at + 2] for at in range(0, _MAC_DIGITS, 2))


def describe_key(key: FlowKey) -> str:
    """A flow's ends for people."""
    protocol, (one, one_port), (other, other_port) = key
    if protocol not in _WITH_PORTS:
        return f"protocol {protocol} {one} - {other}"
    return f"protocol {protocol} {one} port {one_port} - {other} port {other_port}"


def protocol_number(text: str) -> int:
    """The number of a protocol that is named or numbered."""
    name = text.strip().lower()
    if name.isdigit() and int(name) < 256:
        return int(name)
    if name not in _PROTOCOLS:
        raise OptionError(f"protocol {text!r}; wanted: a number below 256, or such as tcp, udp")
    return _PROTOCOLS[name]


def _address(text: str) -> str:
    """An address as this package writes it; a text that is none stays, and matches no flow."""
    bare = text.strip().removeprefix("[").removesuffix("]").partition("%")[0]
    parts = bare.split("::")
    # nDPI writes `::` for a lone zero group as well, which then stands twice.
    readings = [
        ":0:".join(parts[:place]) + "::" + ":0:".join(parts[place:])
        for place in range(1, len(parts))
    ]
    found = {str(ipaddress.ip_address(one)) for one in readings or [bare] if _is_address(one)}
    return found.pop() if len(found) == 1 else bare


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def flow_key(protocol: int, src: str, src_port: int, dst: str, dst_port: int) -> FlowKey:
    """The same for both directions of a flow."""
    has_ports = protocol in _WITH_PORTS
    one, other = (src, src_port if has_ports else 0), (dst, dst_port if has_ports else 0)
    return (protocol, one, other) if one <= other else (protocol, other, one)


def class_name(text: str) -> str:
    """A class's name, which terminals, logs and Markdown can show in a line."""
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text):
        raise OptionError(f"class {text!r}; wanted: a name in UTF-8 without control characters")
    return text


def read_table(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Rows of a TSV, CSV or Parquet file as texts by column; a missing value is empty."""
    place = Path(path)
    if not place.is_file():
        raise OptionError(f"{place}: no such file; wanted: a table as TSV, CSV or Parquet")
    if place.suffix == ".parquet":
        return _read_parquet(place)
    try:
        with place.open(newline="", encoding="utf-8-sig") as text:
            header = text.readline()
            text.seek(0)
            delimiter = "\t" if "\t" in header else ","
            return [
                {k: v or "" for k, v in row.items() if k is not None}
                for row in csv.DictReader(text, delimiter=delimiter)
            ]
    except UnicodeDecodeError as error:
        seen = f"byte {error.object[error.start]:#04x}"
        raise OptionError(
            f"{place}: not UTF-8 ({seen}); convert it, such as with iconv -f LATIN1 -t UTF-8"
        ) from error
    except csv.Error as error:
        raise OptionError(f"{place}: {error}; wanted: a table as TSV, CSV or Parquet") from error


def _read_parquet(place: Path) -> list[dict[str, str]]:
    arrow = compat.need("pyarrow", "a Parquet file of labels")
    parquet = compat.need("pyarrow.parquet", "a Parquet file of labels")
    try:
        table = parquet.read_table(place)
        for at, column in enumerate(table.schema):
            if arrow.types.is_timestamp(column.type):
                # Times are whole numbers, in the unit that names of columns have.
                times = table.column(at).cast(arrow.timestamp("ns", column.type.tz))
                table = table.set_column(at, column.name, times.cast(arrow.int64()))
        rows: list[dict[str, Any]] = table.to_pylist()
    except (ValueError, OSError) as error:
        # Arrow's own errors are of these kinds.
        raise OptionError(f"{place}: {error}; wanted: a Parquet file, one flow per row") from error
    return [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]


def _columns(path: Path, rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What the table calls what is wanted, of that which it has."""
    there = {name.strip().lower(): name for name in rows[0]}
    found = {
        wanted: there[name]
        for wanted, names in _NAMES.items()
        for name in reversed(names)
        if name in there
    }
    missing = [name for name in _ADDRESS_COLUMNS if name not in found]
    is_whole = "file" in found or "mac" in found
    if missing and (not is_whole or len(missing) < len(_ADDRESS_COLUMNS)):
        raise OptionError(
            f"{path}: no column {missing[0]} (it has {', '.join(rows[0])}); wanted: "
            f"{', '.join(_ADDRESS_COLUMNS)} and perhaps file, or file alone, or mac"
        )
    return found


@dataclass(frozen=True)
class LabelTable:
    """Labels of flows, as they were read."""

    path: str
    rows: list[FlowLabel]
    # Rows without a label.
    blank: int = 0


def read_labels(
    path: str | os.PathLike[str], label: str = "label", family: str | None = None
) -> LabelTable:
    """Reads a table of labels; `label` and `family` name columns of it."""
    place, table = Path(path), read_table(path)
    if not table:
        raise OptionError(f"{place}: no rows; wanted: one flow per row, with a header line")
    for name in (label, family):
        if name is not None and name not in table[0]:
            raise OptionError(
                f"{place}: no column {name} (it has {', '.join(table[0])}); "
                "name the one with the classes in --label, that of families in --family"
            )
    columns = _columns(place, table)
    rows, blank = [], 0
    for line, row in enumerate(table, start=2):
        if not row[label].strip():
            blank += 1
            continue
        try:
            found = _flow_label(row, columns, line, label, family)
        except (OptionError, ValueError) as error:
            raise OptionError(f"{place}: line {line}: {error}") from error
        rows.append(found)
    keys = [row.key for row in rows if row.key is not None]
    if keys and not any(_is_address(ip) for _, *ends in keys for ip, _ in ends):
        raise OptionError(
            f"{place}: no address in {columns['src_ip']} or {columns['dst_ip']}, first seen "
            f"{keys[0][1][0]!r}; wanted: such as 192.0.2.1"
        )
    return LabelTable(str(place), rows, blank)


def _flow_label(
    row: Mapping[str, str], columns: Mapping[str, str], line: int, label: str, family: str | None
) -> FlowLabel:
    def number(name: str) -> int | None:
        text = row.get(columns.get(name, ""), "").strip()
        # Programs that know missing numbers only as floats write 443.0.
        digits = text.removesuffix(".0")
        if text and not (digits.isascii() and digits.isdigit()):
            raise OptionError(f"{name} {text!r}; wanted: a whole number")
        return int(digits) if text else None

    def port(name: str) -> int:
        found = number(name) or 0
        if found > _PORT_MAX:
            raise OptionError(f"{name} {found}; wanted: 0 to {_PORT_MAX}")
        return found

    key = None
    # Rows of units and of captures may stand among those of flows.
    if any(row[columns[name]].strip() for name in _ADDRESS_COLUMNS if name in columns):
        protocol = protocol_number(row[columns["protocol"]])
        ends = [_address(row[columns["src_ip"]]), _address(row[columns["dst_ip"]])]
        # What stands there of protocols without ports is of no interest.
        has_ports = protocol in _WITH_PORTS
        ports = [port("src_port"), port("dst_port")] if has_ports else [0, 0]
        key = flow_key(protocol, ends[0], ports[0], ends[1], ports[1])
    file = row[columns["file"]].strip() if "file" in columns else ""
    mac = row[columns["mac"]].strip() if "mac" in columns else ""
    if key is None and not (file or mac):
        raise OptionError("neither file nor mac; wanted: one of them, or both")
    return FlowLabel(
        line,
        file or None,
        key,
        class_name(row[label].strip()),
        number("first_ns"),
        number("last_ns"),
        row[family].strip() if family is not None else None,
        mac_address(mac) if mac else None,
    )


def _stem(path: PurePath) -> PurePath:
    """A capture's name without the suffix of its compression."""
    return path.with_suffix("") if path.suffix in (".gz", ".zst") else path


class CaptureNames:
    """Captures by the ends of their paths.

    All ends are indexed, since a table may have as many names as there are captures.
    """

    def __init__(self, captures: Sequence[Path]) -> None:
        self._captures = captures
        self._by_end: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index, capture in enumerate(captures):
            parts = _stem(capture).parts
            for first in range(len(parts)):
                self._by_end[parts[first:]].append(index)

    def find(self, name: str) -> int | None:
        """The index of the capture whose path ends in this name; None where there is none.

        Of several it is the one with this path, or the only one with this suffix: a compressed
        copy may be in the same folder.

        Raises
        ------
        OptionError
            If it may be either of two.
        """
        wanted = PurePath(name)
        found = self._by_end.get(_stem(wanted).parts, [])
        if len(found) > 1:
            of_suffix = [at for at in found if self._captures[at].suffix == wanted.suffix]
            of_path = [at for at in of_suffix if self._captures[at] == wanted]
            found = of_path or of_suffix or found
        if len(found) > 1:
            raise OptionError(
                f"{name}: it may be {self._captures[found[0]]} or {self._captures[found[1]]}; "
                "wanted: names of captures that distinguish them, with their folder if necessary"
            )
        return found[0] if found else None


@dataclass
class Matching:
    """The label of each flow, and what was left over on both sides."""

    # None where a flow has no label.
    labels: list[str | None]
    families: list[str | None]
    label_rows: int
    # Rows of the table that no flow matched.
    unmatched: list[FlowLabel] = field(default_factory=list)
    # Flows that several rows match, with different labels: they have none.
    ambiguous: list[str] = field(default_factory=list)
    unlabelled: list[str] = field(default_factory=list)
    # Rows of the table without a label.
    blank: int = 0

    def messages(self) -> list[str]:
        """What did not match, by count and example."""
        told = []
        for what, left, total in (
            ("labels match no flow", [str(row) for row in self.unmatched], self.label_rows),
            ("flows have no label and are left out", self.unlabelled, len(self.labels)),
            ("flows match conflicting labels and are left out", self.ambiguous, len(self.labels)),
        ):
            if left:
                examples = "; ".join(left[:_EXAMPLES])
                told.append(f"{len(left)} of {total} {what}, such as {examples}")
        if self.blank:
            told.append(f"{self.blank} rows of the table have no label")
        return told


def match(
    table: LabelTable,
    captures: Sequence[Path],
    flows: Iterable[tuple[int, FlowKey, int]],
    macs: Iterable[Sequence[str | None]] | None = None,
    last_ns: Iterable[int] | None = None,
) -> Matching:
    """Gives flows their labels. A flow is the index of its capture, its key and first time in ns.

    A row that names a capture is for flows of that one; a row with times for flows that began
    within them or, where both are the same time, for a flow that lasted then if no row is of its
    beginning. Rows with a key come before such as label a unit by its hardware address, and these
    before such as label a whole capture. `macs` are both ends of each flow on the link, `last_ns`
    when each flow ended.
    """
    index: dict[tuple[int | None, FlowKey | str | None], list[FlowLabel]] = defaultdict(list)
    places: dict[str, int | None] = {}
    lost = []
    names = CaptureNames(captures)
    for row in table.rows:
        if row.file is not None and row.file not in places:
            places[row.file] = names.find(row.file)
        place = None if row.file is None else places[row.file]
        if row.file is not None and place is None:
            lost.append(row)
        else:
            index[place, row.key or row.mac].append(row)
    used: set[int] = set()
    found = Matching([], [], len(table.rows), blank=table.blank)
    lasts: Iterable[int | None] = itertools.repeat(None) if last_ns is None else last_ns
    others = zip(macs or itertools.repeat(()), lasts, strict=False)
    for (capture, key, first_ns), (ends, last) in zip(flows, others, strict=False):
        rows: list[FlowLabel] = []
        units = [mac for mac in ends if mac]
        for place, whose in (
            (capture, [key]), (None, [key]), (capture, units), (None, units), (capture, [None])
        ):  # fmt: skip
            own = [row for one in whose for row in index.get((place, one), [])]
            rows = [row for row in own if _is_within(row, first_ns)]
            rows = rows or [row for row in own if _is_amid(row, first_ns, last)]
            if rows:
                break
        used.update(row.line for row in rows)
        where = f"{describe_key(key)} in {captures[capture].name}"
        classes = {row.label for row in rows}
        if len(classes) > 1:
            found.ambiguous.append(f"{where} ({', '.join(sorted(classes))})")
        elif not classes:
            found.unlabelled.append(where)
        found.labels.append(rows[0].label if len(classes) == 1 else None)
        found.families.append(rows[0].family if len(classes) == 1 else None)
    found.unmatched = sorted(
        [*lost, *(r for rows in index.values() for r in rows if r.line not in used)],
        key=lambda row: row.line,
    )
    return found


def _is_within(row: FlowLabel, first_ns: int) -> bool:
    if row.first_ns is not None and first_ns < row.first_ns - _TIME_SLACK_NS:
        return False
    return row.last_ns is None or first_ns <= row.last_ns + _TIME_SLACK_NS


def _is_amid(row: FlowLabel, first_ns: int, last_ns: int | None) -> bool:
    """Whether a row of one time is of a flow that lasted then: a table of verdicts has the time of
    the first packet that was read, which need not be the earliest one.
    """
    if last_ns is None or row.first_ns is None or row.first_ns != row.last_ns:
        return False
    return first_ns - _TIME_SLACK_NS <= row.first_ns <= last_ns + _TIME_SLACK_NS


def read_families(path: str | os.PathLike[str], column: str = "family") -> dict[str, str]:
    """Families by capture, from a manifest: `file` and the column, or `family=…` in `note`."""
    families: dict[str, str] = {}
    for line, row in enumerate(read_table(path), start=2):
        if "file" not in row or not ({column, "note"} & row.keys()):
            raise OptionError(
                f"{path}: columns {', '.join(row)}; wanted: file, and {column} or note "
                "(with family=NAME)"
            )
        noted = [w for w in row.get("note", "").replace(";", " ").split() if w[:7] == "family="]
        name = row.get(column) or (noted[0][7:] if noted else "")
        if not name:
            raise OptionError(f"{path}: line {line}: no {column}, and no family=NAME in note")
        if families.setdefault(row["file"], name) != name:
            raise OptionError(
                f"{path}: line {line}: {row['file']} is of {name}, and of "
                f"{families[row['file']]} before; wanted: one family for each capture"
            )
    return families
