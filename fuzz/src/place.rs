//! Folders in memory for what targets write, one for each process.

use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder; what an earlier input left there is gone.
///
/// # Panics
/// Where the system has no room for a folder.
#[must_use]
pub fn fresh(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = place.join(format!("wirelens-fuzz-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
