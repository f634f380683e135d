"""One scheme of names in all tables that Python has; crates/cli/tests/names.rs holds the command's."""

from wirelens import _wirelens

# Made to be read by programs that know another's names.
FOREIGN = {"wirelens flows --names nfstream"}
SCHEME = ("community_id", "protocol", "src_ip", "src_port", "dst_ip", "dst_port")
WORDS = {"src", "dst", "source", "destination", "dest", "sport", "dport", "proto"}
TABLES = {table: fields for table, fields in _wirelens.declared_columns() if table not in FOREIGN}


def test_flows_have_the_same_names_in_all_tables():
    shared = {"wirelens flows", "wirelens top --by flow", "wirelens classify"}
    assert shared | {"wirelens.packets", "wirelens.cca.tap_slots"} <= TABLES.keys()
    for table, fields in TABLES.items():
        names = [name for name, *_ in fields]
        of_flow = [name for name in names if name in SCHEME]
        assert of_flow == sorted(of_flow, key=SCHEME.index), (table, of_flow)
        assert not {"src", "dst", "window_ns"} & set(names), table
        ends = [name for name in names if WORDS & set(name.split("_"))]
        # Others tell something of a side, such as `src_packets`; they never name it.
        named = [name for name in ends if name.endswith(("ip", "port", "addr", "address"))]
        named += [name for name in ends if name in WORDS]
        assert set(named) <= set(SCHEME), (table, named)


def test_a_name_has_one_type_in_all_tables():
    kinds: dict[str, tuple[str, str]] = {}
    for table, fields in TABLES.items():
        for name, kind, _ in fields:
            first, known = kinds.setdefault(name, (table, kind))
            assert known == kind, f"{name}: {known} in {first}, {kind} in {table}"
