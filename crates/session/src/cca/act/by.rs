//! Controls that are known from elsewhere: a file that says who runs what.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use super::ActError;

/// Bytes of a file at most.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Controls, and so classes, at most.
pub(super) const NAME_COUNT_MAX: usize = 64;

/// Letters of a name at most.
const NAME_LEN_MAX: usize = 32;

/// Who runs what.
#[derive(Debug)]
pub struct By {
    path: PathBuf,
    /// Of senders with a port, and of all others of an address.
    ports: HashMap<SocketAddr, usize>,
    addresses: HashMap<IpAddr, usize>,
    /// Names that were read so far; each keeps its place.
    pub(super) names: Vec<String>,
}

impl By {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ActError::Names`]
    pub fn open(path: &Path) -> Result<Self, ActError> {
        let path = path.to_owned();
        let (ports, addresses, names) = (HashMap::new(), HashMap::new(), Vec::new());
        let mut by = Self { path, ports, addresses, names };
        by.read().map_err(ActError::Names)?;
        Ok(by)
    }

    /// Reads the file again; where that fails all stays as it was.
    pub(super) fn read(&mut self) -> Result<(), String> {
        let mut text = String::new();
        let reading = File::open(&self.path)
            .and_then(|file| file.take(FILE_LEN_MAX).read_to_string(&mut text));
        let shown = self.path.display();
        reading.map_err(|error| format!("{shown}: {error}"))?;
        self.parse(&text).map_err(|(line, said)| format!("{}:{line}: {said}", self.path.display()))
    }

    fn parse(&mut self, text: &str) -> Result<(), (usize, String)> {
        let mut names = self.names.clone();
        let (mut ports, mut addresses) = (HashMap::new(), HashMap::new());
        for (line, text) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let text = text.split('#').next().unwrap_or_default();
            let words: Vec<_> = text.split_whitespace().collect();
            let &[sender, name] = words.as_slice() else {
                if words.is_empty() {
                    continue;
                }
                let seen = words.len();
                return Err((line, format!("{seen} words; wanted: SENDER[:PORT] CONTROL")));
            };
            if name.len() > NAME_LEN_MAX || !name.chars().all(|c| c.is_ascii_graphic()) {
                let said =
                    format!("wanted: a congestion control of at most {NAME_LEN_MAX} letters");
                return Err((line, said));
            }
            let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            if names.len() > NAME_COUNT_MAX {
                return Err((
                    line,
                    format!("wanted: at most {NAME_COUNT_MAX} congestion controls"),
                ));
            }
            if let Ok(sender) = sender.parse() {
                ports.insert(sender, index);
            } else if let Ok(sender) = sender.parse() {
                addresses.insert(sender, index);
            } else {
                let said = "wanted: an address, with a port or without, such as 10.1.1.2:40000";
                return Err((line, said.to_owned()));
            }
        }
        (self.ports, self.addresses, self.names) = (ports, addresses, names);
        Ok(())
    }

    /// What a sender runs.
    pub(super) fn name(&self, sender: SocketAddr) -> Option<usize> {
        self.ports.get(&sender).or_else(|| self.addresses.get(&sender.ip())).copied()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_who_runs_what() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("controls");
        std::fs::write(&path, "# ours\n10.1.1.2 bbr\n10.1.1.2:5001 reno\n\n[2001:db8::1]:80 bbr\n")
            .unwrap();
        let mut by = By::open(&path).unwrap();
        let name = |by: &By, sender: &str| {
            by.name(sender.parse().unwrap()).map(|index| by.names[index].clone())
        };
        assert_eq!(name(&by, "10.1.1.2:5001").as_deref(), Some("reno"));
        assert_eq!(name(&by, "10.1.1.2:7").as_deref(), Some("bbr"));
        assert_eq!(name(&by, "[2001:db8::1]:80").as_deref(), Some("bbr"));
        assert_eq!(name(&by, "10.1.1.3:7"), None);
        // Names keep their places, and what is wrong changes nothing.
        std::fs::write(&path, "10.1.1.3 cubic\n").unwrap();
        by.read().unwrap();
        assert_eq!(by.names, ["bbr", "reno", "cubic"]);
        std::fs::write(&path, "10.1.1.3 bbr\n10.1.1 cubic\n").unwrap();
        let said = by.read().unwrap_err();
        assert!(said.ends_with("such as 10.1.1.2:40000") && said.contains(":2: "), "{said}");
        assert_eq!(name(&by, "10.1.1.3:7").as_deref(), Some("cubic"));
    }
}
