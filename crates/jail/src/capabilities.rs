//! Which capabilities a run keeps (capabilities(7)).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::folders::existing;
use crate::{DeviceChanges, Needs, sys};

const CHOWN: u32 = 0;
const DAC_OVERRIDE: u32 = 1;
const DAC_READ_SEARCH: u32 = 2;
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const SYS_NICE: u32 = 23;

/// The capabilities that a run may keep, by name.
const NAMES: [(u32, &str); 6] = [
    (CHOWN, "CAP_CHOWN"),
    (DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
    (NET_ADMIN, "CAP_NET_ADMIN"),
    (NET_RAW, "CAP_NET_RAW"),
    (SYS_NICE, "CAP_SYS_NICE"),
];

const fn set_of(bit: u32) -> u64 {
    1 << bit
}

/// The names of those of a set.
pub(crate) fn names(set: u64) -> Vec<&'static str> {
    NAMES.iter().filter(|(bit, _)| set & set_of(*bit) != 0).map(|(_, name)| *name).collect()
}

/// What this process is permitted, as its status shows it; all where that cannot be read.
pub(crate) fn held() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    hexadecimal(&status, "CapPrm:").unwrap_or(u64::MAX)
}

/// A set in a status of proc(5).
pub(crate) fn hexadecimal(status: &str, name: &str) -> Option<u64> {
    let digits = status.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

/// What is kept of those that are `held`.
pub(crate) fn kept(needs: &Needs, held: u64) -> u64 {
    let mut kept = 0;
    if needs.is_realtime {
        kept |= set_of(SYS_NICE);
    }
    if needs.changes != DeviceChanges::None {
        kept |= set_of(NET_ADMIN);
    }
    if needs.opens_interfaces {
        kept |= set_of(NET_RAW);
    }
    if needs.gives_files && needs.read_again.iter().any(|path| is_of_another(path)) {
        kept |= set_of(CHOWN);
    }
    kept | for_files(needs, held)
}

fn is_of_another(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.uid() != sys::user())
}

/// Root writes into folders of other users, and reads their files, by capabilities. Those are kept
/// where an output or a setting would be refused without.
fn for_files(needs: &Needs, held: u64) -> u64 {
    let either = set_of(DAC_OVERRIDE) | set_of(DAC_READ_SEARCH);
    if held & either == 0 {
        return 0;
    }
    // Before: without capabilities what another user hides does not seem to be there.
    let writes: Vec<&Path> = needs.written.iter().map(|path| existing(path)).collect();
    let reads: Vec<&Path> =
        needs.read_again.iter().map(PathBuf::as_path).filter(|path| path.exists()).collect();
    let refused = sys::without_capabilities(|| {
        let are_written = writes.iter().all(|path| sys::may_write(path));
        (!are_written, !reads.iter().all(|path| sys::may_read(path)))
    });
    match refused {
        Some((writes, reads)) => {
            let written = if writes { set_of(DAC_OVERRIDE) } else { 0 };
            let read = if reads { set_of(DAC_READ_SEARCH) } else { 0 };
            written | read
        }
        // It is not known, so nothing that works may break.
        None => either,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn a_run_that_only_reads_packets_keeps_no_capability() {
        assert_eq!(kept(&Needs::default(), u64::MAX), 0);
    }

    #[test]
    fn each_need_keeps_its_own_and_maps_keep_none() {
        let of = |needs: Needs| names(kept(&needs, 0));
        for changes in [DeviceChanges::BySockets, DeviceChanges::ByProgram("/sbin/tc".into())] {
            assert_eq!(of(Needs { changes, ..Needs::default() }), ["CAP_NET_ADMIN"]);
        }
        assert_eq!(of(Needs { is_realtime: true, ..Needs::default() }), ["CAP_SYS_NICE"]);
        assert_eq!(of(Needs { opens_interfaces: true, ..Needs::default() }), ["CAP_NET_RAW"]);
        assert!(of(Needs { has_maps: true, ..Needs::default() }).is_empty());
    }

    #[test]
    fn files_of_others_are_needed_also_where_their_folder_hides_them() {
        // Only root reads what others hide.
        if sys::user() != 0 {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let (folder, file) = (home.path().join("theirs"), home.path().join("theirs/file"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "x").unwrap();
        let of = |needs: &Needs| names(for_files(needs, u64::MAX));
        let read = Needs { read_again: vec![file.clone()], ..Needs::default() };
        assert!(of(&read).is_empty());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&folder, Some(65_534), None).unwrap();
        assert_eq!(of(&read), ["CAP_DAC_READ_SEARCH"]);
        let written = Needs { written: vec![file], ..Needs::default() };
        assert_eq!(of(&written), ["CAP_DAC_OVERRIDE"]);
        let of = |gives_files, path: &Path| {
            names(kept(
                &Needs { gives_files, read_again: vec![path.into()], ..Needs::default() },
                0,
            ))
        };
        assert_eq!(of(true, &folder), ["CAP_CHOWN"]);
        assert!(of(false, &folder).is_empty() && of(true, home.path()).is_empty());
    }

    #[test]
    fn sets_are_read_from_a_status() {
        let status = "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000002000\n";
        assert_eq!(hexadecimal(status, "CapEff:"), Some(1 << 13));
        assert_eq!(hexadecimal(status, "CapAmb:"), None);
    }
}
