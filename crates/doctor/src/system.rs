//! `/proc` and `/sys`, below a root.

use std::fs;
use std::path::PathBuf;

/// Bytes of a file that are read: no file that is asked for has as many.
const LEN_MAX: usize = 1 << 20;

/// What the kernel reports in files.
pub(crate) struct System {
    root: PathBuf,
}

impl System {
    pub(crate) const fn of(root: PathBuf) -> Self {
        Self { root }
    }

    /// A file without the white space around it; nothing where it is not there, or not readable.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        let bytes = bytes.get(..LEN_MAX).unwrap_or(&bytes);
        Some(String::from_utf8_lossy(bytes).trim().to_owned())
    }

    /// Names in a folder, in order, of so many at most; none where it is not there.
    pub(crate) fn names(&self, path: &str, count_max: usize) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(path)) else { return Vec::new() };
        let names = entries.flatten().take(count_max);
        let mut names: Vec<_> =
            names.filter_map(|one| one.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// A file that holds a number.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// What follows a name at the start of a line, as in `/proc/self/status`.
    pub(crate) fn field(&self, path: &str, name: &str) -> Option<String> {
        let text = self.read(path)?;
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(rest.trim().to_owned())
    }

    /// Version of the kernel, such as (6, 1).
    pub(crate) fn kernel(&self) -> Option<(u32, u32)> {
        let release = self.read("proc/sys/kernel/osrelease")?;
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        let mut part = || parts.next()?.parse().ok();
        Some((part()?, part()?))
    }
}
