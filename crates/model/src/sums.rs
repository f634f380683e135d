//! Files of a model by what `sha256sum` says of them: a reader of a model reads what was trained.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use sha2::{Digest, Sha256};

/// The file that lists the others.
pub const SUMS_FILE: &str = "SHA256SUMS";

/// Bytes of it at most.
pub const SUMS_LEN_MAX: usize = 1 << 20;

/// Why a file is not taken for what was trained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SumsError {
    /// `SHA256SUMS` does not list a file.
    Unlisted {
        /// Which.
        file: String,
    },
    /// A line of `SHA256SUMS` is not as `sha256sum` writes it.
    Line {
        /// Which, from 1.
        number: usize,
    },
    /// A file has changed since it was listed.
    Changed {
        /// Which.
        file: String,
        /// SHA-256 that `SHA256SUMS` names.
        listed: String,
        /// SHA-256 of what is there.
        found: String,
    },
}

impl fmt::Display for SumsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlisted { file } => write!(
                f,
                "{SUMS_FILE}: {file} is not listed; the artifact is not complete: copy it again"
            ),
            Self::Line { number } => write!(
                f,
                "{SUMS_FILE}: line {number} is not a hash and name, as `sha256sum` writes them; \
                 copy the artifact again"
            ),
            Self::Changed { file, listed, found } => write!(
                f,
                "{file}: its SHA-256 is {found}, {SUMS_FILE} says {listed}: the file was changed \
                 after training; copy the artifact again"
            ),
        }
    }
}

impl std::error::Error for SumsError {}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Which hash each file should have.
#[derive(Clone, Debug)]
pub struct Sums(BTreeMap<String, String>);

impl Sums {
    /// Reads lines of a hash, two spaces (or a space and a star) and a name.
    ///
    /// # Errors
    /// [`SumsError::Line`], for the first that is something else.
    pub fn read(bytes: &[u8]) -> Result<Self, SumsError> {
        let text = String::from_utf8_lossy(bytes);
        let mut sums = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let parts = line.split_once(' ').and_then(|(hash, rest)| {
                let name = rest.strip_prefix(' ').or_else(|| rest.strip_prefix('*'))?;
                let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_hash.then(|| (name.to_owned(), hash.to_ascii_lowercase()))
            });
            let (name, hash) = parts.ok_or(SumsError::Line { number })?;
            sums.insert(name, hash);
        }
        Ok(Self(sums))
    }

    /// Checks that a file is what it was; its hash.
    ///
    /// # Errors
    /// [`SumsError::Unlisted`] and [`SumsError::Changed`].
    pub fn check(&self, file: &str, bytes: &[u8]) -> Result<String, SumsError> {
        let file = || file.to_owned();
        let listed = self.0.get(&file()).ok_or_else(|| SumsError::Unlisted { file: file() })?;
        let found = sha256(bytes);
        if *listed == found {
            Ok(found)
        } else {
            Err(SumsError::Changed { file: file(), listed: listed.clone(), found })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_was_or_is_refused() {
        let line = format!("{}  model.json\n", sha256(b"{}"));
        let sums = Sums::read(line.as_bytes()).unwrap();
        assert_eq!(sums.check("model.json", b"{}"), Ok(sha256(b"{}")));
        let changed = sums.check("model.json", b"{ }").unwrap_err().to_string();
        assert!(changed.contains("the file was changed after training"), "{changed}");
        let unlisted = sums.check("card.md", b"").unwrap_err().to_string();
        assert!(unlisted.starts_with("SHA256SUMS: card.md is not listed"), "{unlisted}");
        assert!(matches!(Sums::read(b"what?\n"), Err(SumsError::Line { number: 1 })));
    }
}
