//! Who may use what the program makes.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Permissions of files; those of folders follow from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileMode(u32);

/// As umask(2), one value of the process: a call that forgets to ask for it makes a private file,
/// while one that is handed a value from front end to disk can be handed the wrong one.
static ASKED: AtomicU32 = AtomicU32::new(NOT_ASKED);

const NOT_ASKED: u32 = 0;

/// The owner reads and writes; nothing is a program, and only owner and group change a file.
const ALWAYS: u32 = 0o600;
const ALLOWED: u32 = 0o664;

impl FileMode {
    /// The owner reads and writes.
    pub const OWNER: Self = Self(0o600);
    /// The group reads as well.
    pub const GROUP: Self = Self(0o640);

    /// What the front end of this process asked for; [`OWNER`](Self::OWNER) if nothing.
    #[must_use]
    pub fn asked() -> Self {
        Self::explicit().unwrap_or(Self::OWNER)
    }

    /// The same; none if it asked for nothing.
    #[must_use]
    pub fn explicit() -> Option<Self> {
        Some(ASKED.load(Ordering::Relaxed)).filter(|mode| *mode != NOT_ASKED).map(Self)
    }

    /// Asks for it, or for nothing, for all files that are made from here on.
    pub fn ask(mode: Option<Self>) {
        ASKED.store(mode.map_or(NOT_ASKED, Self::file), Ordering::Relaxed);
    }

    /// Permissions of a file.
    #[must_use]
    pub const fn file(self) -> u32 {
        self.0
    }

    /// Permissions of a folder: a user who reads its files may search it.
    #[must_use]
    pub const fn folder(self) -> u32 {
        self.0 | (self.0 & 0o444) >> 2
    }
}

impl FromStr for FileMode {
    type Err = String;

    /// Reads octal digits, as chmod(1) takes them.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_octal =
            matches!(text.len(), 3 | 4) && text.bytes().all(|byte| byte.is_ascii_digit());
        let bits = u32::from_str_radix(text, 8).ok().filter(|_| is_octal);
        let fits = |bits: &u32| bits & ALWAYS == ALWAYS && bits & !ALLOWED == 0;
        bits.filter(fits).map(Self).ok_or_else(|| {
            format!(
                "{text:?}; wanted permissions as chmod takes them: 0600 for the owner alone, 0640 \
                 if the group reads, up to 0664"
            )
        })
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_as_chmod_takes_them() {
        for (text, file, folder) in [
            ("0600", 0o600, 0o700),
            ("640", 0o640, 0o750),
            ("0644", 0o644, 0o755),
            ("0660", 0o660, 0o770),
            ("0664", 0o664, 0o775),
        ] {
            let mode: FileMode = text.parse().unwrap();
            assert_eq!((mode.file(), mode.folder()), (file, folder), "{text}");
        }
        for wrong in ["", "0", "0400", "0666", "0700", "4600", "rw", "0o640", "00640", "+640"] {
            let said = wrong.parse::<FileMode>().unwrap_err();
            assert!(said.contains("wanted permissions"), "{said}");
        }
        assert_eq!("640".parse::<FileMode>().unwrap().to_string(), "0640");
    }
}
