//! The reference pages are made from the definitions, and checked here.
//! `UPDATE_REFERENCE=1 cargo test --release -p wirelens --test reference` writes them.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};
use cli::args::Arguments;
use engine::columns::Kind;
use packet::Malformed;

const MADE: &str = "<!-- Made from the code by crates/cli/tests/reference.rs. -->\n";

fn check(name: &str, page: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "{} is not what the code says; run `UPDATE_REFERENCE=1 cargo test --release -p wirelens \
         --test reference`, read the change, and commit it",
        path.display()
    );
}

#[test]
fn commands() {
    let mut page = format!("{MADE}\n# Commands\n");
    // The width of the help must not depend on the terminal of whoever runs this.
    let mut command = Arguments::command().term_width(96).max_term_width(96);
    command.build();
    write_help(&mut page, "wirelens", &mut command);
    check("commands.md", &page);
}

/// The help of a command and of those below it, save what users do not type.
fn write_help(page: &mut String, title: &str, command: &mut Command) {
    let help = command.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {title}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    for sub in command.get_subcommands_mut() {
        if !sub.is_hide_set() && sub.get_name() != "help" {
            let title = format!("{title} {}", sub.get_name());
            write_help(page, &title, sub);
        }
    }
}

#[test]
fn columns() {
    let mut page = format!("{MADE}\n# Columns\n");
    for (asked, schema) in cli::declared_columns() {
        let _ = write!(page, "\n## `{asked}`\n\n| column | type | meaning |\n|---|---|---|\n");
        for field in schema {
            let kind = match field.kind {
                Kind::U64 => "unsigned 64-bit",
                Kind::U32 => "unsigned 32-bit",
                Kind::U16 => "unsigned 16-bit",
                Kind::I8 => "signed 8-bit",
                Kind::TimestampNs => "timestamp, ns, UTC",
                Kind::F64 => "64-bit float",
                Kind::Text => "text",
                Kind::Bytes => "bytes",
            };
            let empty = if field.is_nullable { ", may be missing" } else { "" };
            let _ = writeln!(page, "| `{}` | {kind}{empty} | {} |", field.name, field.about);
        }
    }
    page.push_str("\nWith `--window`, `window_start_ns` comes first under every key.\n");
    check("columns.md", &page);
}

#[test]
fn malformed() {
    let mut page = format!(
        "{MADE}\n# Malformed headers\n\nA malformed header is counted under its cause. The column \
         `spoils` names the affected layer, and so which questions the packet can still answer.\n\n\
         | cause | spoils | seen |\n|---|---|---|\n"
    );
    for cause in Malformed::ALL {
        let layer = format!("{:?}", cause.layer()).to_lowercase();
        let _ = writeln!(page, "| `{cause}` | {layer} | {} |", cause.about());
    }
    check("malformed.md", &page);
}
