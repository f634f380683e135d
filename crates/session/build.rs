//! Packs the models that ship, `models/` of the repository, into the program: an archive of one
//! zstd frame a model, and a table of what lies where in it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The models that ship. A list rather than what lies in the folder: cargo notices a change of a
/// file that is named, and not a new folder.
const MODELS: [&str; 9] = [
    "categories",
    "cca",
    "cca-onetap",
    "devices",
    "l4s",
    "packetlog",
    "packetlog-kernel",
    "services",
    "video-rate",
];
/// Where they are in a clone, and where a source distribution for Python has them.
const PLACES: [&str; 2] = ["../../models", "../../python/wirelens/models"];
const SUMS_FILE: &str = "SHA256SUMS";
/// Files that people read, and no program.
const UNREAD: [&str; 3] = ["md", "png", "svg"];
/// The packer's highest level without more memory for whoever unpacks.
const LEVEL: i32 = 19;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let models = PLACES.iter().map(|place| root.join(place)).find(|models| models.is_dir());
    let models = models.ok_or_else(|| {
        io::Error::other(format!(
            "{}: none of {PLACES:?} is here; wanted the models that ship, which are in a clone",
            root.display()
        ))
    })?;
    let mut archive = Vec::new();
    let mut table = String::from("const MODELS: &[PackedModel] = &[\n");
    for name in MODELS {
        let (plain, files) = model(&models.join(name))?;
        let frame = zstd::bulk::compress(&plain, LEVEL)?;
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "PackedModel {{ name: {name:?}, frame: ({}, {}), len: {}, files: &{files:?} }},",
            archive.len(),
            archive.len() + frame.len(),
            plain.len(),
        );
        archive.extend(frame);
    }
    table.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("models.zst"), archive)?;
    fs::write(out.join("models.rs"), table)
}

/// The files of a model in a row, and of each its name and where it begins and ends.
type Model = (Vec<u8>, Vec<(String, usize, usize)>);

fn model(folder: &Path) -> io::Result<Model> {
    let sums = read(&folder.join(SUMS_FILE))?;
    let text = String::from_utf8(sums.clone()).map_err(io::Error::other)?;
    // A hash, two spaces, a name; whoever reads a file checks its hash.
    let mut listed: Vec<&str> = text.lines().filter_map(|line| line.get(66..)).collect();
    listed.sort_unstable();
    let (mut plain, mut files) = (Vec::new(), Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        files.push((name.to_owned(), plain.len(), plain.len() + bytes.len()));
        plain.extend_from_slice(bytes);
    };
    add(SUMS_FILE, &sums);
    for name in listed {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
        if !ending.is_some_and(|ending| UNREAD.contains(&ending)) {
            add(name, &read(&folder.join(name))?);
        }
    }
    Ok((plain, files))
}

/// Reads a file, and has cargo look whether it changes.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    println!("cargo::rerun-if-changed={}", file.display());
    fs::read(file).map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
}
