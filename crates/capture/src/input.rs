//! What was named on a command line, turned into captures.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use packet::file::{Magic, PREFIX_LEN};

use crate::error::OpenError;

/// Folders are followed this deep.
const FOLDER_DEPTH_MAX: usize = 16;

/// One capture to be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// What a list of names came to.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// Captures, in the order named; those of a folder by path.
    pub inputs: Vec<Input>,
    /// Files in folders that are something else.
    pub skipped: Vec<PathBuf>,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Turns names into captures: `-` is standard input, a folder stands for the
/// captures in it and below it, told by their first bytes. A name given twice
/// is read twice.
///
/// # Errors
/// A name that is nothing, or a folder without captures.
pub fn resolve(names: &[PathBuf]) -> Result<Resolved, OpenError> {
    let mut resolved = Resolved::default();
    for name in names {
        if name.as_os_str() == "-" {
            resolved.inputs.push(Input::Stdin);
            continue;
        }
        let metadata = fs::metadata(name).map_err(|error| unreadable(name, error))?;
        if metadata.is_dir() {
            let found_before = resolved.inputs.len();
            let skipped_before = resolved.skipped.len();
            walk(name, 0, &mut resolved)?;
            if resolved.inputs.len() == found_before {
                let file_count = resolved.skipped.len() - skipped_before;
                return Err(OpenError::FolderWithoutCaptures { path: name.clone(), file_count });
            }
        } else {
            resolved.inputs.push(Input::File(name.clone()));
        }
    }
    Ok(resolved)
}

fn walk(folder: &Path, depth: usize, resolved: &mut Resolved) -> Result<(), OpenError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| unreadable(folder, error))?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        // A symbolic link to a file is read; one to a folder could lead in a circle.
        let kind = entry.file_type().map_err(|error| unreadable(&path, error))?;
        if kind.is_dir() {
            if depth < FOLDER_DEPTH_MAX {
                walk(&path, depth + 1, resolved)?;
            }
        } else if is_capture(&path) {
            resolved.inputs.push(Input::File(path));
        } else if !path.is_dir() {
            resolved.skipped.push(path);
        }
    }
    Ok(())
}

/// Whether a regular file begins like a capture, or like a compressed file
/// that holds one.
fn is_capture(path: &Path) -> bool {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let Ok(mut file) = File::open(path) else { return false };
    let Ok(prefix) = read_prefix(&mut file) else { return false };
    match Magic::detect(&prefix) {
        Some(magic) if magic.is_compressed() => crate::open::decompressed_prefix(path)
            .is_some_and(|inner| Magic::detect(&inner).is_some_and(Magic::is_capture)),
        Some(magic) => magic.is_capture(),
        None => false,
    }
}

/// The first bytes of a stream: [`PREFIX_LEN`] of them, or all there are.
pub(crate) fn read_prefix(input: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut prefix = Vec::with_capacity(PREFIX_LEN);
    input.take(PREFIX_LEN as u64).read_to_end(&mut prefix)?;
    Ok(prefix)
}

pub(crate) fn unreadable(path: &Path, error: io::Error) -> OpenError {
    if error.kind() == io::ErrorKind::NotFound {
        OpenError::NotFound(path.to_owned())
    } else {
        OpenError::Unreadable(path.to_owned(), error)
    }
}
