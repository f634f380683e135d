//! Takes in the page, `page/dist` of the repository, where it was built (`make page`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const TYPES: [(&str, &str); 4] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let dist = root.join("../../page/dist");
    // A path that is not there counts as changed, each time.
    let watched = if dist.is_dir() { &dist } else { &root.join("../../page") };
    println!("cargo::rerun-if-changed={}", watched.display());
    let mut text = String::from("const FILES: &[File] = &[\n");
    for path in files(&dist) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let Some((_, content_type)) = TYPES.iter().find(|(known, _)| *known == ending) else {
            continue;
        };
        let compressed = path.with_file_name(format!("{name}.gz"));
        let compressed = if compressed.is_file() {
            format!("Some(include_bytes!({compressed:?}))")
        } else {
            String::from("None")
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "File {{ path: \"/{name}\", content_type: {content_type:?}, \
             bytes: include_bytes!({path:?}), compressed: {compressed} }},"
        );
    }
    text.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("page.rs"), text)
}

fn files(dist: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dist).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}
