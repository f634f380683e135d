//! Folders of a package depend on each other one way, as crates do.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::imports::{Import, of_crate, of_python};
use crate::repository::File;

/// Python packages of ours.
const PYTHON_PACKAGES: &[&str] = &["python/wirelens/", "testbed/wirelens_testbed/"];

/// No folder of a crate or a Python package imports from one that imports from it, directly or by
/// way of others.
#[must_use]
pub fn import_circle(files: &[File]) -> Vec<Finding> {
    let is_crate = |file: &File| file.is_at("crates/") || file.is_at("bench/");
    let roots: BTreeSet<&str> = files
        .iter()
        .filter(|file| is_crate(file) && file.suffix() == "rs")
        .filter_map(|file| Some(&file.path[..file.path.find("/src/")? + "/src/".len()]))
        .collect();
    let crates = roots.into_iter().flat_map(|root| circles(of_crate(files, root)));
    let python = PYTHON_PACKAGES.iter().flat_map(|root| circles(of_python(files, root)));
    crates.chain(python).collect()
}

/// The first import of each pair of folders that is part of a circle.
fn circles(imports: Vec<Import>) -> Vec<Finding> {
    let mut firsts: BTreeMap<(String, String), (String, usize)> = BTreeMap::new();
    for Import { path, line, from, to } in imports {
        let first = firsts.entry((from, to)).or_insert_with(|| (path.clone(), line));
        *first = (path, line).min(first.clone());
    }
    let ways: Vec<_> = firsts
        .iter()
        .filter_map(|((from, to), at)| Some((from, at, way(&firsts, to, from)?)))
        .collect();
    // Folders beside a circle may be in longer ones by it: the shortest are those to break.
    let shortest = ways.iter().map(|(_, _, way)| way.len()).min();
    ways.into_iter()
        .filter(|(_, _, way)| Some(way.len()) == shortest)
        .map(|(from, (path, line), way)| {
            let way = way.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>();
            let seen = format!("`{from}` imports from {}", way.join(", which imports from "));
            let wanted = "imports one way: what both need in a file above them".to_owned();
            Finding { path: path.clone(), line: *line, seen, wanted }
        })
        .collect()
}

/// The shortest way of imports between two folders, both included.
fn way<'a>(
    firsts: &'a BTreeMap<(String, String), (String, usize)>,
    from: &'a str,
    to: &'a str,
) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![from]];
    let mut seen = BTreeSet::from([from]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().copied()?;
            if last == to {
                return Some(way);
            }
            for (_, next) in firsts.keys().filter(|(from, _)| from == last) {
                if seen.insert(next) {
                    longer.push([&way[..], &[next.as_str()]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_however_long_they_are() {
        let file = |name: &str, text: &str| File::new(&format!("crates/x/src/{name}"), text);
        let lines = [
            file("a/mod.rs", "use crate::b::B;\n"),
            file("a/z.rs", ""),
            file("b/y.rs", "use crate::c::C;\n"),
            file("c/mod.rs", ""),
            file("c/x.rs", "\nuse super::super::d::D;\n"),
            file("d/w.rs", ""),
        ];
        assert!(import_circle(&lines).is_empty(), "{:?}", import_circle(&lines));
        let closing = file("c/v.rs", "fn f() { crate::a::f() }\n");
        let found = import_circle(&[&lines[..], &[closing]].concat());
        assert_eq!(found.len(), 3);
        let wanted = "crates/x/src/a/mod.rs:1: `crates/x/src/a` imports from `crates/x/src/b`, \
                      which imports from `crates/x/src/c`, which imports from `crates/x/src/a`";
        assert!(found[0].to_string().starts_with(wanted), "{}", found[0]);
    }

    #[test]
    fn of_circles_that_hang_together_the_shortest_are_named() {
        let file = |name: &str, text: &str| File::new(&format!("crates/x/src/{name}"), text);
        let files = [
            file("a/mod.rs", "use crate::b::B;\n"),
            file("b/mod.rs", "use crate::a::A;\nuse crate::c::C;\n"),
            file("c/mod.rs", "use crate::a::A;\n"),
        ];
        let found: Vec<_> = import_circle(&files).into_iter().map(|found| found.path).collect();
        assert_eq!(found, ["crates/x/src/a/mod.rs", "crates/x/src/b/mod.rs"]);
    }

    #[test]
    fn circles_of_python_are_found() {
        let files = [
            File::new("python/wirelens/a/__init__.py", "from ..b import f\n"),
            File::new("python/wirelens/b/__init__.py", "def f():\n    from wirelens import a\n"),
        ];
        assert_eq!(import_circle(&files).len(), 2);
    }
}
