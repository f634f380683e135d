//! Folders that a run writes to: room, permission, and what kind of disk they are on.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use crate::check::Check;
use crate::system::System;

/// Bytes below which a disk is as good as full.
const FREE_MIN: u64 = 1 << 30;
/// Files whose sizes are added up: more is a large log, of which the rest counts as not there.
const FILES_MAX: usize = 100_000;
/// File systems in memory.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];
/// File systems behind a network, whose pauses are longer than a disk's.
const REMOTE: [&str; 6] = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"];

/// A folder that a run writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What is written there.
    pub what: String,
    /// The folder; it need not be there yet.
    pub path: PathBuf,
    /// Bytes that may be written there at most; nothing where nothing limits it.
    pub budget: Option<u64>,
    /// Whether what is written grows for as long as a run continues.
    pub is_growing: bool,
}

impl Place {
    /// The current folder, where results go unless another one is named.
    #[must_use]
    pub fn here() -> Self {
        let (what, path) = (String::from("here"), PathBuf::from("."));
        Self { what, path, budget: None, is_growing: false }
    }
}

pub(crate) fn check(system: &System, place: &Place) -> Check {
    let name = format!("disk {}", place.what);
    let Some(folder) = existing(&place.path) else {
        return Check::unknown(name, format!("{}: not found", place.path.display()));
    };
    let shown = folder.display();
    let Ok(stat) = statvfs(&folder) else {
        return Check::unknown(name, format!("{shown}: cannot be asked"));
    };
    let kind = kind(system, &folder);
    let is_read_only = stat.f_flag.contains(StatVfsMountFlags::RDONLY);
    let refused = if is_read_only { "is read-only" } else { "cannot be written by this user" };
    if is_read_only || access(&folder, Access::WRITE_OK).is_err() {
        // The current folder is a guess of where results go.
        let make = if place.is_growing { Check::problem } else { Check::warning };
        let check = make(name, format!("{shown} {refused}")).wanted("a folder that can be written");
        let path = place.path.display();
        return if place.is_growing && !is_read_only {
            check.change(format!("sudo install -d -o $(id -un) {path}"))
        } else {
            check
        };
    }
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    room(name, place, &Room { shown: shown.to_string(), kind, free, used: used(&place.path) })
}

/// What there is.
struct Room {
    shown: String,
    kind: String,
    free: u64,
    /// What was written there before, which counts for the budget.
    used: u64,
}

fn room(name: String, place: &Place, room: &Room) -> Check {
    let Room { shown, kind, free, used } = room;
    let seen = format!("{shown}: {} free, {kind}", bytes(*free));
    if let Some(budget) = place.budget
        && budget.saturating_sub(*used) > *free
    {
        return Check::warning(name, format!("{seen}; budget {}", bytes(budget)))
            .wanted("a budget that fits; a full disk ends what is written there, and says so")
            .change(format!("keep-bytes = \"{}M\"", (free + used).saturating_sub(FREE_MIN) >> 20));
    }
    if *free < FREE_MIN {
        return Check::warning(name, seen).wanted("1 GiB or more").change(format!("df -h {shown}"));
    }
    if IN_MEMORY.contains(&kind.as_str()) {
        return Check::warning(name, format!("{seen}: in memory, gone after a restart"))
            .wanted("a disk");
    }
    if REMOTE.contains(&kind.as_str()) {
        return Check::warning(name, format!("{seen}: behind a network")).wanted("a local disk");
    }
    match place.budget {
        Some(budget) => Check::ok(name, format!("{seen}; budget {}", bytes(budget))),
        None if place.is_growing => Check::warning(name, format!("{seen}; no budget"))
            .wanted("a budget: without one the disk fills up")
            .change("log = { keep-bytes = \"100G\", when-full = \"overwrite\" }"),
        None => Check::ok(name, seen),
    }
}

/// The folder, or the nearest above it that is there.
fn existing(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find(|folder| folder.is_dir()).map(Path::to_owned)
}

/// Type of the file system, by the mount that is nearest above.
fn kind(system: &System, folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let mounts = system.read("proc/self/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let at = words.next()?.replace("\\040", " ");
        let kind = words.next()?.to_owned();
        folder.starts_with(&at).then_some((at.len(), kind))
    };
    // Of two at one place the later one is seen.
    let nearest = mounts.lines().filter_map(mount).max_by_key(|(len, _)| *len);
    nearest.map_or(String::from("unknown file system"), |(_, kind)| kind)
}

/// Bytes of the files in a folder.
fn used(folder: &Path) -> u64 {
    let mut folders = vec![folder.to_owned()];
    let (mut sum, mut count) = (0_u64, 0);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            count += 1;
            if count > FILES_MAX {
                return sum;
            }
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => sum += metadata.len(),
                Err(_) => {}
            }
        }
    }
    sum
}

#[allow(clippy::cast_precision_loss)]
fn bytes(count: u64) -> String {
    let gib = count as f64 / f64::from(1 << 30);
    if gib < 10.0 { format!("{:.0} MiB", gib * 1024.0) } else { format!("{gib:.0} GiB") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Level;

    fn place(budget: Option<u64>, is_growing: bool) -> Place {
        Place { what: String::from("packet log"), path: PathBuf::from("/x"), budget, is_growing }
    }

    fn judged(place: &Place, kind: &str, free: u64, used: u64) -> Check {
        let room_ = Room { shown: String::from("/srv"), kind: kind.to_owned(), free, used };
        room(String::from("disk"), place, &room_)
    }

    #[test]
    fn room_is_judged_by_budget_and_file_system() {
        let gib = 1 << 30;
        let fits = judged(&place(Some(10 * gib), true), "ext4", 20 * gib, 0);
        assert_eq!(
            (fits.level, fits.seen.as_str()),
            (Level::Ok, "/srv: 20 GiB free, ext4; budget 10 GiB")
        );
        let short = judged(&place(Some(30 * gib), true), "ext4", 20 * gib, 5 * gib);
        assert_eq!(
            (short.level, short.change.as_str()),
            (Level::Warning, "keep-bytes = \"24576M\"")
        );
        // What the log has already is part of its budget.
        assert_eq!(
            judged(&place(Some(30 * gib), true), "ext4", 20 * gib, 12 * gib).level,
            Level::Ok
        );
        let levels = [
            judged(&place(None, true), "ext4", 20 * gib, 0),
            judged(&place(None, false), "ext4", 20 * gib, 0),
            judged(&place(None, false), "ext4", gib - 1, 0),
            judged(&place(Some(gib), true), "tmpfs", 20 * gib, 0),
            judged(&place(Some(gib), true), "nfs4", 20 * gib, 0),
        ]
        .map(|check| check.level);
        use Level::{Ok, Warning};
        assert_eq!(levels, [Warning, Ok, Warning, Warning, Warning]);
    }

    #[test]
    fn the_nearest_mount_and_folder_are_found() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let there = fs::canonicalize(root.path()).unwrap();
        let lines = format!(
            "a / ext4 rw\nb {} xfs rw\nc {}/other btrfs rw\n",
            there.display(),
            there.display()
        );
        fs::write(root.path().join("proc/self/mounts"), lines).unwrap();
        let system = System::of(root.path().to_owned());
        assert_eq!(kind(&system, &root.path().join("proc")), "xfs");
        assert_eq!(
            kind(&System::of(PathBuf::from("/nowhere")), root.path()),
            "unknown file system"
        );
        let deep = root.path().join("proc/not/yet");
        assert_eq!(existing(&deep), Some(root.path().join("proc")));
        fs::write(root.path().join("proc/self/x"), [0; 1000]).unwrap();
        assert!(used(&root.path().join("proc")) > 1000);
    }
}
