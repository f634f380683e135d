//! Dependencies run one way: a new edge between crates fails until it is
//! allowed here, and a new crate fails until it has a row.

#![allow(clippy::expect_used)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What a crate may use, in the library or program that it builds.
enum MayUse {
    Only(&'static [&'static str]),
    Anything,
}
use MayUse::{Anything, Only};

/// Crate and what it may use. A crate sees what is below it, never beside it.
const ROWS: &[(&str, MayUse)] = &[
    ("packet", Only(&[])),
    ("capture", Only(&["packet"])),
    ("engine", Only(&["packet"])),
    ("model", Only(&["packet"])),
    ("classify", Only(&["engine", "model", "names", "packet"])),
    ("packetlog", Only(&["engine", "files", "model", "packet"])),
    ("cca", Only(&["engine", "model", "packet"])),
    ("l4s", Only(&["dualq", "engine", "model", "packet"])),
    ("simulator", Only(&["dualq", "l4s"])),
    ("latency", Only(&["engine", "packet"])),
    ("names", Only(&["engine", "packet"])),
    ("sink", Only(&["engine", "files"])),
    ("store", Only(&["engine", "packet"])),
    ("bus", Only(&["engine", "sink", "store"])),
    ("history", Only(&["engine", "files", "packet", "sink", "store"])),
    ("server", Only(&["engine", "history", "packet", "store"])),
    ("alerts", Only(&["engine", "files", "packet", "store"])),
    ("terminal", Only(&["engine", "packet", "store"])),
    ("service", Only(&[])),
    ("jail", Only(&[])),
    ("files", Only(&[])),
    ("doctor", Only(&["capture"])),
    ("dualq", Only(&[])),
    ("l4s-abi", Only(&["dualq", "l4s"])),
    ("testbed", Only(&["capture", "dualq", "l4s", "packet"])),
    (
        "session",
        Only(&[
            "alerts",
            "bus",
            "capture",
            "cca",
            "classify",
            "engine",
            "files",
            "jail",
            "l4s",
            "latency",
            "model",
            "names",
            "packet",
            "packetlog",
            "sink",
            "store",
        ]),
    ),
    ("cli", Anything),
    (
        "python",
        Only(&[
            "capture",
            "cca",
            "classify",
            "engine",
            "files",
            "l4s",
            "latency",
            "model",
            "packet",
            "packetlog",
            "session",
            "simulator",
            "sink",
        ]),
    ),
    ("testkit", Anything),
    ("speed", Anything),
];

/// Who may depend on the column formats' own crates.
const ARROW_USERS: &[&str] = &["sink", "history", "cli", "python"];

/// One dependency as a manifest states it, our crates named by their folder.
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    is_ours: bool,
    is_dev: bool,
}

/// Why an edge is not allowed, or `None` where it is.
fn refuse(edge: &Edge<'_>) -> Option<String> {
    let Edge { from, to, .. } = edge;
    let is_arrow = ["arrow", "parquet"].iter().any(|name| to.starts_with(name));
    if is_arrow && !ARROW_USERS.contains(from) {
        let users = ARROW_USERS.join(", ");
        return Some(format!("{from} depends on {to}; wanted: only {users} know column formats"));
    }
    if !edge.is_ours {
        return None;
    }
    if *to == "testkit" {
        let wanted = "testkit under [dev-dependencies] only";
        return (!edge.is_dev).then(|| format!("{from} builds on testkit; wanted: {wanted}"));
    }
    let row = ROWS.iter().find(|(name, _)| name == from);
    match row {
        None => Some(format!("{from} has no row; wanted: one in ROWS that says what it may use")),
        Some((_, Anything)) => None,
        Some((_, Only(allowed))) if allowed.contains(to) => None,
        Some((_, Only(allowed))) => {
            Some(format!("{from} depends on {to}; wanted: {from} uses only {allowed:?}"))
        }
    }
}

/// A crate of ours goes by its folder, which is its name in every wing.
fn folder(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The folder of a package, by its manifest.
fn folder_of_manifest(package: &Value) -> &str {
    let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
    folder(manifest.strip_suffix("/Cargo.toml").unwrap_or_default())
}

/// Everything that is wrong with the workspace's own edges.
fn complaints(packages: &[Value]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        let from = folder_of_manifest(package);
        if !ROWS.iter().any(|(name, _)| *name == from) {
            complaints.push(format!("{from} has no row; wanted: one in ROWS"));
        }
        for dependency in package["dependencies"].as_array().expect("a list") {
            let path = dependency["path"].as_str();
            let edge = Edge {
                from,
                to: path.map_or(dependency["name"].as_str().unwrap_or_default(), folder),
                is_ours: path.is_some(),
                is_dev: dependency["kind"] == "dev",
            };
            complaints.extend(refuse(&edge));
        }
    }
    complaints
}

/// The packages of the workspace. Read as plain JSON: the library for it asks serde_json for a
/// feature that the program lacks, and everything above was then compiled once for tests and once
/// for the program.
fn packages() -> Vec<Value> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let said = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path", manifest])
        .output()
        .expect("cargo runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let metadata: Value = serde_json::from_slice(&said.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

#[test]
fn edges_run_downwards() {
    let packages = packages();
    assert!(packages.len() >= 5, "the workspace was not read");
    assert!(packages.iter().any(|package| {
        let dependencies = package["dependencies"].as_array();
        dependencies.is_some_and(|all| all.iter().any(|one| one["path"].is_string()))
    }));
    let complaints = complaints(&packages);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn forbidden_edges_are_refused() {
    let edge = |from, to, is_ours, is_dev| Edge { from, to, is_ours, is_dev };
    for (refused, allowed) in [
        (edge("packet", "engine", true, false), edge("engine", "packet", true, false)),
        (edge("capture", "engine", true, false), edge("capture", "packet", true, false)),
        (edge("engine", "capture", true, true), edge("engine", "proptest", false, true)),
        (edge("cca", "l4s", true, false), edge("cca", "model", true, false)),
        (edge("cca", "capture", true, false), edge("cli", "capture", true, false)),
        (edge("sink", "cca", true, false), edge("sink", "engine", true, false)),
        (edge("session", "cli", true, false), edge("session", "classify", true, false)),
        (edge("terminal", "session", true, false), edge("terminal", "store", true, false)),
        (edge("python", "cli", true, false), edge("python", "session", true, false)),
        (edge("python", "testbed", true, false), edge("python", "sink", true, false)),
        (edge("testbed", "engine", true, false), edge("testbed", "capture", true, false)),
        (edge("engine", "testkit", true, false), edge("engine", "testkit", true, true)),
        (edge("engine", "arrow-array", false, false), edge("sink", "arrow-array", false, false)),
        (edge("speed", "parquet", false, true), edge("python", "parquet", false, true)),
        (edge("novelty", "packet", true, false), edge("speed", "capture", true, false)),
    ] {
        assert!(refuse(&refused).is_some(), "{} -> {} passes", refused.from, refused.to);
        let complaint = refuse(&allowed);
        assert!(complaint.is_none(), "{complaint:?}");
    }
}
