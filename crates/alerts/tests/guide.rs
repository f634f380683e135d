//! The examples of the guide are settings, and name columns that there are.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;

use alerts::Settings;
use engine::columns::{Field, Kind, Schema};

const TRAFFIC: Schema =
    &[Field::new("start_ns", Kind::TimestampNs, ""), Field::new("dropped_packets", Kind::U64, "")];

fn page(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The columns of a command, as the reference has them.
fn columns(reference: &str, command: &str) -> Schema {
    let heading = format!("## {command}\n");
    let (_, rest) = reference.split_once(&heading).unwrap_or_else(|| panic!("{command}"));
    let table = rest.split("\n## ").next().unwrap();
    let field = |line: &str| {
        let mut cells = line.split(" | ");
        let name = cells.next()?.strip_prefix("| `")?.strip_suffix('`')?.to_owned();
        let kind = match cells.next()?.split(',').next()? {
            "text" => Kind::Text,
            "timestamp" => Kind::TimestampNs,
            "64-bit float" => Kind::F64,
            "signed 8-bit" => Kind::I8,
            "unsigned 16-bit" => Kind::U16,
            _ => Kind::U64,
        };
        Some(Field::new(Box::leak(name.into_boxed_str()), kind, "").nullable())
    };
    let fields: Vec<Field> = table.lines().filter_map(field).collect();
    assert!(fields.len() > 3, "{command}");
    Box::leak(fields.into_boxed_slice())
}

#[test]
fn examples_name_columns_that_there_are() {
    let reference = page("docs/reference/columns.md");
    let of = |command: &str| columns(&reference, command);
    let tables = [
        ("flows", of("`wirelens flows --read-names`")),
        ("classify", of("`wirelens classify`")),
        ("cca", of("`wirelens cca`")),
        ("latency", of("`wirelens latency --by destination --every DURATION`")),
        ("unanswered", of("`wirelens run, [unanswered]`")),
        ("traffic", TRAFFIC),
    ];
    let guide = page("docs/guide/alerts.md");
    let examples: Vec<_> =
        guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 10, "{}", examples.len());
    for example in examples {
        let settings: Settings = toml::from_str(example).unwrap_or_else(|e| panic!("{e}"));
        let mistakes = settings.mistakes(&tables);
        assert!(mistakes.is_empty(), "{example}\n{mistakes:?}");
    }
}
