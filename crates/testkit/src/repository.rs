//! The files of the repository: what git tracks, and what it would if asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One file, named by its path from the repository's root.
#[derive(Clone, Debug)]
pub struct File {
    /// Path from the root, with `/` between its parts.
    pub path: String,
    bytes: Vec<u8>,
}

impl File {
    /// A file that need not exist, so that a rule can be shown a bad one.
    #[must_use]
    pub fn new(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), bytes: bytes.into() }
    }

    /// Its text, or `None` where it is not text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        if self.bytes.contains(&0) {
            return None;
        }
        std::str::from_utf8(&self.bytes).ok()
    }

    /// How long it is.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it lies at `place`, or below it where that ends in `/`.
    #[must_use]
    pub fn is_at(&self, place: &str) -> bool {
        if place.ends_with('/') { self.path.starts_with(place) } else { self.path == place }
    }

    /// What follows the last dot of its name, or nothing.
    #[must_use]
    pub fn suffix(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, suffix)| suffix)
    }

    /// The last part of its path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The folder of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Every file that is tracked or would be: what git ignores stays out.
///
/// # Errors
/// One line that says what git or the file system refused.
pub fn files() -> Result<Vec<File>, String> {
    let root = root();
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .map_err(|error| format!("git: cannot be run: {error}; the tidy test needs it"))?;
    if !listing.status.success() {
        let complaint = String::from_utf8_lossy(&listing.stderr);
        return Err(format!("git ls-files in {}: {}", root.display(), complaint.trim()));
    }
    let mut files = Vec::new();
    for name in listing.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let path = String::from_utf8_lossy(name).into_owned();
        // A file that was deleted but not yet committed, and a link, are not read.
        let is_file = fs::symlink_metadata(root.join(&path)).is_ok_and(|meta| meta.is_file());
        if is_file {
            let bytes = fs::read(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
            files.push(File { path, bytes });
        }
    }
    Ok(files)
}
