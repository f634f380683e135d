"""Rows in Python have types, and these are the columns that the compiled half declares.

`python/wirelens/rows.py` is written by `UPDATE_REFERENCE=1`, and never by hand.
"""

import os
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import wirelens
from command import DEMO, ROOT
from wirelens import _wirelens, rows
from wirelens.row import Row

FILE = ROOT / "python/wirelens/rows.py"
HOSTS = ROOT / "testdata/cascade-hosts"
HEAD = '''"""Columns of rows, for type checkers and editors.

Made of the columns that the compiled half declares, by tests/python/test_rows.py; changes by hand
are lost. `window_start_ns` is there with windows, `src_mac` and `dst_mac` where they are asked for,
and `capture` where several captures are read.
"""

from typing import Final

from wirelens.row import Row

__all__ = {names}
'''
TAIL = """
TOTALS: Final[dict[str, type[Row]]] = {totals}
ALL: Final[tuple[type[Row], ...]] = ({all},)
"""
PYTHON = {"Text": "str", "Bytes": "bytes", "F64": "float"}
# Columns that are there now and then, whatever a row is of.
SOMETIMES = {
    "window_start_ns": "int",
    "src_mac": "str | None",
    "dst_mac": "str | None",
    "capture": "str | None",
}
WITHOUT_CAPTURE = ("top", "run", "cca", "latency")
TOP = ("source", "destination", "pair", "port", "protocol", "flow", "name")
# Class, the table it is of, the class that has the first of its columns, what it is.
KINDS = [
    *(
        (f"{by.capitalize()}Totals", f"wirelens top --by {by}", "Row", f"Totals by {by}.")
        for by in TOP
    ),
    ("Flow", "wirelens flows", "Row", "A flow that has ended."),
    ("FlowStatistics", "wirelens flows --stats", "Flow", "A flow with sizes, gaps and flags."),
    ("NamedFlow", "wirelens flows --read-names", "Flow", "A flow with names from its payload."),
    (
        "NamedFlowStatistics",
        "wirelens flows --read-names --stats",
        "FlowStatistics",
        "A flow with sizes, gaps, flags and names from its payload.",
    ),
    (
        "NfstreamFlow",
        "wirelens flows --names nfstream",
        "Row",
        "A flow with the names and units of NFStream.",
    ),
    ("Verdict", "wirelens classify", "Row", "Verdict of a model on a flow."),
    (
        "HostVerdict",
        "wirelens classify --by host",
        "Row",
        "Verdict on a host, from those on its flows.",
    ),
    (
        "QueuedFlow",
        "wirelens cca",
        "Row",
        "A heavy flow in a period, of two taps: bytes in the queue and congestion control.",
    ),
    (
        "HeavyFlow",
        "wirelens cca, of one tap",
        "Row",
        "A heavy flow in a period: bytes in flight, RTT and congestion control.",
    ),
    ("FlowLatency", "wirelens latency", "Row", "RTT to both ends of a flow that has ended."),
    (
        "DestinationLatency",
        "wirelens latency --by destination",
        "Row",
        "RTT of an address that answers.",
    ),
    (
        "PeriodLatency",
        "wirelens latency --by destination --every DURATION",
        "DestinationLatency",
        "RTT of an address that answers, in a period.",
    ),
    ("PacketLatency", "wirelens latency --by packet", "Row", "A packet and its latency."),
    (
        "OneWayLatency",
        "wirelens latency --egress FILE",
        "Row",
        "One-way delay of a direction of a flow, between two taps.",
    ),
    (
        "Unanswered",
        "wirelens run, [unanswered]",
        "Row",
        "A flow in which only one side sent packets.",
    ),
]


def annotations(table: str, above: str) -> list[str]:
    tables = dict(_wirelens.declared_columns())
    inherited = {kind: of for kind, of, *_ in KINDS}.get(above, "")
    known = {name for name, *_ in tables.get(inherited, [])}
    lines = []
    for name, kind, nullable in tables[table]:
        is_here = name not in SOMETIMES or not has(table, name)
        if name not in known and is_here and name not in ("window_start_ns", "capture"):
            lines.append(f"    {name}: {PYTHON.get(kind, 'int')}{' | None' if nullable else ''}\n")
    return lines


def has(table: str, sometimes: str) -> bool:
    question = table.split()[1].strip(",")
    if table.endswith("--by host"):
        return False
    if sometimes.endswith("_mac"):
        return question == "flows" and "nfstream" not in table
    if sometimes == "capture":
        return question not in WITHOUT_CAPTURE
    return question not in ("run", "cca", "latency") and "nfstream" not in table


def source() -> str:
    names = sorted([kind for kind, *_ in KINDS] + ["ALL", "TOTALS"])
    parts = [HEAD.replace("{names}", "[\n" + "".join(f'    "{n}",\n' for n in names) + "]")]
    for kind, table, above, about in KINDS:
        parts.append(f'\n\nclass {kind}({above}):\n    """{about}"""\n\n    __slots__ = ()\n\n')
        parts += annotations(table, above)
        if above == "Row":
            parts += [
                f"    {name}: {type_}\n" for name, type_ in SOMETIMES.items() if has(table, name)
            ]
    totals = "".join(f'    "{by}": {by.capitalize()}Totals,\n' for by in TOP)
    kinds = "".join(f"    {kind},\n" for kind, *_ in KINDS)
    tail = TAIL.replace("{totals}", "{\n" + totals + "}").replace("({all},)", f"(\n{kinds})")
    return "".join([*parts, "\n", tail])


def test_the_types_are_the_declared_columns() -> None:
    if os.environ.get("UPDATE_REFERENCE"):
        FILE.write_text(source())
    assert FILE.read_text() == source()


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda: wirelens.flows(DEMO), "Flow"),
        (lambda: wirelens.flows([DEMO, DEMO], stats=True, window="1s"), "FlowStatistics"),
        (lambda: wirelens.flows(DEMO, names="nfstream"), "NfstreamFlow"),
        (lambda: wirelens.classify_flows(DEMO, "services"), "Verdict"),
        (lambda: wirelens.classify_flows(DEMO, HOSTS, by="host"), "HostVerdict"),
        (lambda: wirelens.top(DEMO, by="port", window="1s"), "PortTotals"),
        (lambda: wirelens.run({"flows": {}}, read=DEMO).tables["flows"], "Flow"),
        (
            lambda: wirelens.run({"unanswered": {}}, read=DEMO).tables["unanswered"],
            "Unanswered",
        ),
        (lambda: wirelens.latency(DEMO), "FlowLatency"),
        (lambda: wirelens.latency(DEMO, by="destination"), "DestinationLatency"),
        (lambda: wirelens.latency(DEMO, by="destination", every=1), "PeriodLatency"),
        (lambda: wirelens.latency(DEMO, by="packet"), "PacketLatency"),
        (lambda: wirelens.run({"latency": {}}, read=DEMO).tables["latency"], "FlowLatency"),
        (lambda: wirelens.run({"cca": {}}, read=DEMO).tables["cca"], "HeavyFlow"),
        (lambda: wirelens.run({"top": {"by": "pair"}}, read=DEMO).tables["top"], "PairTotals"),
    ],
)
def test_rows_are_of_their_kind_and_can_be_sent_elsewhere(
    ask: Callable[[], Iterable[Row]], name: str
) -> None:
    result, kind = ask(), getattr(rows, name)
    row = next(iter(result))
    assert isinstance(row, kind) and isinstance(row, tuple)
    assert row._fields == tuple(result.columns)
    wanted = {name for one in kind.__mro__ for name in getattr(one, "__annotations__", {})}
    assert wanted - set(SOMETIMES) - {"_fields"} <= set(row._fields)
    again = pickle.loads(pickle.dumps(row))
    assert again == row and again._asdict() == row._asdict() and isinstance(again, kind)


def test_a_row_has_no_memory_besides_its_values() -> None:
    row = next(iter(wirelens.flows(DEMO)))
    with pytest.raises(AttributeError):
        row.note = "mine"
    assert Path(rows.__file__).name == "rows.py"
