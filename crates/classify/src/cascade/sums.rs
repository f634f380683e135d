//! Files by what `sha256sum` says of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::reason::CascadeError;

/// SHA-256 in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Which hash each file should have.
pub(super) struct Sums(BTreeMap<String, String>);

impl Sums {
    /// Reads lines of a hash, two spaces (or a space and a star) and a name.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, CascadeError> {
        let text = String::from_utf8_lossy(bytes);
        let mut sums = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let parts = line.split_once(' ').and_then(|(hash, rest)| {
                let name = rest.strip_prefix(' ').or_else(|| rest.strip_prefix('*'))?;
                let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_hash.then(|| (name.to_owned(), hash.to_ascii_lowercase()))
            });
            let (name, hash) = parts.ok_or(CascadeError::Sums { number })?;
            sums.insert(name, hash);
        }
        Ok(Self(sums))
    }

    /// Checks that a file is what it was; its hash.
    pub(super) fn check(&self, file: &str, bytes: &[u8]) -> Result<String, CascadeError> {
        let file = || file.to_owned();
        let listed = self.0.get(&file()).ok_or_else(|| CascadeError::Unlisted { file: file() })?;
        let found = sha256(bytes);
        if *listed == found {
            Ok(found)
        } else {
            Err(CascadeError::Changed { file: file(), listed: listed.clone(), found })
        }
    }
}
