//! What was named on a command line, turned into captures.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use packet::file::{Decoder, Magic, PREFIX_LEN};

use crate::error::OpenError;

/// Folders are followed this deep.
const FOLDER_DEPTH_MAX: usize = 16;

const TOO_DEEP: &str = "it is more than 16 folders deep; give this folder by its own name";

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
pub struct InputList {
    /// Captures, in the order named; those of a folder by path.
    pub inputs: Vec<Input>,
    /// Files in folders that are something else.
    pub skipped: Vec<PathBuf>,
    /// Why files and folders in folders cannot be read, a line each: the others are.
    pub refused: Vec<String>,
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
/// captures in it and below it, recognised by their first bytes. A name given twice
/// is read twice.
///
/// # Errors
/// A name that is nothing, or a folder without captures.
pub fn resolve(names: &[PathBuf]) -> Result<InputList, OpenError> {
    let mut resolved = InputList::default();
    for name in names {
        if name.as_os_str() == "-" {
            resolved.inputs.push(Input::Stdin);
            continue;
        }
        let metadata = fs::metadata(name).map_err(|error| unreadable(name, error))?;
        if metadata.is_dir() {
            let found_before = resolved.inputs.len();
            let skipped_before = resolved.skipped.len();
            let mut refused = Vec::new();
            walk(name, 0, &mut resolved, &mut refused)?;
            resolved.refused.extend(refused.iter().map(ToString::to_string));
            if resolved.inputs.len() == found_before {
                if let Some(error) = refused.into_iter().next() {
                    return Err(error);
                }
                let file_count = resolved.skipped.len() - skipped_before;
                return Err(OpenError::FolderWithoutCaptures { path: name.clone(), file_count });
            }
        } else {
            resolved.inputs.push(Input::File(name.clone()));
        }
    }
    Ok(resolved)
}

fn walk(
    folder: &Path,
    depth: usize,
    resolved: &mut InputList,
    refused: &mut Vec<OpenError>,
) -> Result<(), OpenError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| unreadable(folder, error))?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        // A symbolic link to a file is read; one to a folder could lead in a circle.
        let kind = entry.file_type().map_err(|error| unreadable(&path, error))?;
        if kind.is_dir() {
            let walked = match depth < FOLDER_DEPTH_MAX {
                true => walk(&path, depth + 1, resolved, refused),
                false => Err(OpenError::Unreadable(path, io::Error::other(TOO_DEEP))),
            };
            refused.extend(walked.err());
            continue;
        }
        match is_capture(&path) {
            Ok(true) => resolved.inputs.push(Input::File(path)),
            Ok(false) if path.is_dir() => {}
            Ok(false) => resolved.skipped.push(path),
            Err(error) => refused.push(error),
        }
    }
    Ok(())
}

/// Whether a regular file begins like a capture, or like a compressed file
/// that holds one.
///
/// # Errors
/// It cannot be read, or it begins like a capture and its first header is wrong.
fn is_capture(path: &Path) -> Result<bool, OpenError> {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(false);
    }
    let mut file = File::open(path).map_err(|error| unreadable(path, error))?;
    let mut prefix = read_prefix(&mut file).map_err(|error| unreadable(path, error))?;
    if Magic::detect(&prefix).is_some_and(Magic::is_compressed) {
        let Some(inner) = crate::open::decompressed_prefix(path) else { return Ok(false) };
        prefix = inner;
    }
    if !Magic::detect(&prefix).is_some_and(Magic::is_capture) {
        return Ok(false);
    }
    match Decoder::new(&prefix) {
        Ok(_) => Ok(true),
        Err(fault) => Err(OpenError::HeaderDamaged(path.display().to_string(), fault)),
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
