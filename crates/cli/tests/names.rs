//! One scheme of names in all tables, so that rows of one command can be joined with another's.

use std::collections::BTreeMap;

use engine::columns::{Field, Schema};

/// What names a flow, in this order: the names that NFStream has, and Community ID.
const SCHEME: [&str; 6] = ["community_id", "protocol", "src_ip", "src_port", "dst_ip", "dst_port"];

/// Words by which tables name ends of flows. A column that contains one is of the scheme, or tells
/// something else of that side, such as `src_packets`.
const ENDS: [&str; 10] =
    ["src", "dst", "source", "destination", "sport", "dport", "proto", "dest", "saddr", "daddr"];
const MEASURES: [&str; 9] =
    ["packets", "bytes", "flags", "first", "last", "size", "gap", "duration", "piat"];
const LATENCIES: [&str; 9] =
    ["rtt", "jitter", "queue", "retransmissions", "late", "unmeasured", "acks", "sharp", "_ce"];
/// What is known of an address besides packets.
const PLACES: [&str; 5] = ["local", "asn", "as_org", "country", "mac"];

/// Tables that carry another program's names, which are the reason to ask for them.
const FOREIGN: [&str; 1] = ["wirelens flows --names nfstream"];

fn tables() -> Vec<(&'static str, Schema)> {
    cli::declared_columns()
}

fn is_end(name: &str) -> bool {
    let mut words = name.split('_');
    words.any(|word| ENDS.contains(&word))
        && !MEASURES.iter().chain(&LATENCIES).chain(&PLACES).any(|what| name.contains(what))
}

/// What is wrong with the names of a table's flow columns.
fn wrong(schema: &[Field]) -> Option<String> {
    let names: Vec<_> = schema.iter().map(|field| field.name).collect();
    if let Some(name) = names.iter().find(|name| is_end(name) && !SCHEME.contains(name)) {
        return Some(format!("column {name} names an end of a flow outside the scheme {SCHEME:?}"));
    }
    let places: Vec<_> = SCHEME.iter().filter_map(|name| places_of(&names, name)).collect();
    let is_in_order = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
    (!is_in_order).then(|| format!("flow columns of {names:?} do not follow {SCHEME:?}"))
}

fn places_of(names: &[&str], wanted: &str) -> Option<usize> {
    names.iter().position(|name| *name == wanted)
}

#[test]
fn flows_have_the_same_names_in_all_tables() {
    let own = tables().into_iter().filter(|(table, _)| !FOREIGN.contains(table));
    let wrong: Vec<_> =
        own.filter_map(|(table, schema)| Some(format!("{table}: {}", wrong(schema)?))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_has_one_type_in_all_tables() {
    let mut known = BTreeMap::new();
    let mut wrong = Vec::new();
    for (table, schema) in tables().into_iter().filter(|(table, _)| !FOREIGN.contains(table)) {
        for field in schema {
            let (first, kind) = *known.entry(field.name).or_insert((table, field.kind));
            if kind != field.kind {
                let (name, other) = (field.name, field.kind);
                wrong.push(format!("{name}: {kind:?} in {first}, {other:?} in {table}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_outside_the_scheme_are_seen() {
    use engine::columns::Kind;
    let table = |names: &[&'static str]| -> Vec<Field> {
        names.iter().map(|name| Field::new(name, Kind::Text, "")).collect()
    };
    for names in [&["src"][..], &["source"], &["proto"], &["src_port", "src_ip"], &["dst_addr"]] {
        assert!(wrong(&table(names)).is_some(), "{names:?}");
    }
    for names in [&["src_ip", "src_packets"][..], &["community_id", "protocol"], &["dst_first_ns"]]
    {
        assert_eq!(wrong(&table(names)), None, "{names:?}");
    }
}
