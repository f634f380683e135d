//! Where the shared library of ONNX Runtime is, for those who have a model in ONNX.
//!
//! It is looked for in this order, and the first that is found is loaded: what `ORT_DYLIB_PATH`
//! names; the package `onnxruntime` of the Python that runs the command, of the one in which
//! Wirelens is installed, of the virtual environment that is active, of the Pythons in `PATH`, and
//! of the user; the folders of the system.
//!
//! Its code runs with our rights. So one that is found, and not named, belongs to the user of this
//! process, to root or to the owner of the program: under `sudo`, `PATH` and `HOME` may be others'.

use std::env::split_paths;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use model::onnx::{Library, OnnxError};

use crate::host::prefix;
use crate::{Environment, Host};

/// Names the library, where it is not to be looked for.
const SETTING: &str = "ORT_DYLIB_PATH";
const NAME: &str = "libonnxruntime.so";
const SYSTEM: [&str; 5] = [
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// Loads ONNX Runtime from where it is.
///
/// # Errors
/// [`OnnxError::Library`], with where it was looked for and how to get it.
pub fn library(host: &Host, environment: Environment) -> Result<Library, OnnxError> {
    if let Some(named) = environment(SETTING).filter(|named| !named.is_empty()) {
        let path = std::path::absolute(&named).unwrap_or_else(|_| PathBuf::from(&named));
        return Library::load(&path);
    }
    let prefixes = prefixes(
        host,
        environment("VIRTUAL_ENV").as_deref(),
        environment("PATH").as_deref(),
        environment("HOME").as_deref(),
    );
    let packages = prefixes.iter().flat_map(|prefix| packages(prefix));
    let folders = packages.chain(SYSTEM.map(PathBuf::from));
    let (ours, others) = split(folders.filter_map(|folder| newest(&folder)), owner(host));
    let path = ours.ok_or_else(|| OnnxError::Library {
        path: others.clone().unwrap_or_else(|| PathBuf::from(NAME)),
        cause: match others {
            Some(_) => format!(
                "not loaded, as it or a folder above it belongs to another user, or all users may \
                 write there; name it in {SETTING} if you trust them"
            ),
            None => format!(
                "not found: {SETTING} is not set, no Python here has the package onnxruntime, and \
                 it is in none of {}",
                SYSTEM.join(", ")
            ),
        },
    })?;
    Library::load(&path)
}

/// The first library that may be loaded, by its real path, so that what is loaded is what was
/// looked at; and the first that may not.
fn split(found: impl Iterator<Item = PathBuf>, owner: u32) -> (Option<PathBuf>, Option<PathBuf>) {
    let mut others = None;
    for path in found {
        let real = fs::canonicalize(&path).ok();
        if let Some(real) = real.filter(|real| files::is_path_of(real, owner)) {
            return (Some(real), others);
        }
        others.get_or_insert(path);
    }
    (None, others)
}

/// The owner of the program, or of the package that carries it; root if that cannot be seen.
fn owner(host: &Host) -> u32 {
    let ours = match host {
        Host::Program => Path::new("/proc/self/exe"),
        Host::Python { package, .. } => package,
    };
    fs::metadata(ours).map_or(0, |found| found.uid())
}

/// Folders in which Pythons were installed, each once.
fn prefixes(
    host: &Host,
    active: Option<&OsStr>,
    path: Option<&OsStr>,
    home: Option<&OsStr>,
) -> Vec<PathBuf> {
    let above = |program: &Path| Some(program.parent()?.parent()?.to_owned());
    let mut prefixes = Vec::new();
    if let Host::Python { interpreter, package } = host {
        prefixes.extend(above(interpreter));
        prefixes.extend(prefix(package).map(Path::to_owned));
    }
    prefixes.extend(active.map(PathBuf::from));
    let in_path = path.map(|path| split_paths(path).map(|folder| folder.join("python3")));
    let in_path = in_path.into_iter().flatten().filter(|python| python.is_file());
    prefixes.extend(in_path.filter_map(|python| above(&python)));
    prefixes.extend(home.map(|home| Path::new(home).join(".local")));
    // A relative folder of PATH changes with where one stands; code is not taken from there.
    let mut known = Vec::new();
    for prefix in prefixes.into_iter().filter(|prefix| prefix.is_absolute()) {
        if !known.contains(&prefix) {
            known.push(prefix);
        }
    }
    known
}

/// Where a Python that was installed there would keep the library.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let of_pythons = ["lib", "lib64"].iter().flat_map(|lib| {
        let folders = prefix.join(lib).read_dir().into_iter().flatten().flatten();
        folders.filter(|folder| folder.file_name().to_string_lossy().starts_with("python3"))
    });
    let mut folders: Vec<_> = of_pythons
        .flat_map(|python| {
            ["site-packages", "dist-packages"].map(|packages| python.path().join(packages))
        })
        .map(|packages| packages.join("onnxruntime/capi"))
        .collect();
    // The system's order says nothing.
    folders.sort();
    folders
}

/// The library in a folder; of several the one with the highest version.
fn newest(folder: &Path) -> Option<PathBuf> {
    let version = |path: &Path| -> Option<Vec<u64>> {
        let name = path.file_name()?.to_str()?;
        let rest = name.strip_prefix(NAME)?;
        let parts = rest.split('.').filter(|part| !part.is_empty());
        parts.map(|part| part.parse().ok()).collect()
    };
    let files = folder.read_dir().ok()?.flatten().map(|file| file.path());
    let versions = files.filter_map(|path| Some((version(&path)?, path)));
    versions.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn pythons_are_asked_in_order_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::write(bin.join("python3"), "").unwrap();
        let path = std::env::join_paths([Path::new("relative"), &bin, &bin]).unwrap();
        let found = prefixes(
            &Host::Python {
                interpreter: PathBuf::from("/opt/own/bin/python"),
                package: PathBuf::from("/opt/package/lib/python3.11/site-packages/wirelens"),
            },
            Some(OsStr::new("/opt/active")),
            Some(&path),
            Some(OsStr::new("/home/me")),
        );
        let wanted = [
            "/opt/own".as_ref(),
            "/opt/package".as_ref(),
            "/opt/active".as_ref(),
            folder.path(),
            "/home/me/.local".as_ref(),
        ];
        assert_eq!(found, wanted.map(Path::to_owned));
        assert!(prefixes(&Host::Program, None, None, None).is_empty());
    }

    #[test]
    fn a_library_that_others_may_change_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap();
        let owner = fs::metadata(&folder).unwrap().uid();
        let [open, ours] = ["open", "ours"].map(|name| {
            fs::create_dir(folder.join(name)).unwrap();
            let path = folder.join(name).join(NAME);
            fs::write(&path, "").unwrap();
            path
        });
        let found = || [open.clone(), ours.clone()].into_iter();
        assert_eq!(split(found(), owner), (Some(open.clone()), None));
        let all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(open.parent().unwrap(), all.clone()).unwrap();
        assert_eq!(split(found(), owner), (Some(ours.clone()), Some(open.clone())));
        fs::set_permissions(&ours, all.clone()).unwrap();
        assert_eq!(split(found(), owner), (None, Some(open.clone())));
        let own = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&ours, own).unwrap();
        std::os::unix::fs::symlink(&ours, folder.join("link")).unwrap();
        let linked = || [folder.join("link")].into_iter();
        assert_eq!(split(linked(), owner), (Some(ours.clone()), None));
        // Whose folder can be renamed is not who checked it.
        fs::set_permissions(&folder, all).unwrap();
        assert_eq!(split(linked(), owner), (None, Some(folder.join("link"))));
    }

    #[test]
    fn the_highest_version_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let capi = folder.path().join("lib/python3.11/site-packages/onnxruntime/capi");
        fs::create_dir_all(&capi).unwrap();
        assert_eq!(newest(&capi), None);
        for name in [
            "libonnxruntime.so",
            "libonnxruntime.so.1.9.0",
            "libonnxruntime.so.1.31.1",
            "libonnxruntime.so.old",
            "libonnxruntime_providers_shared.so",
        ] {
            fs::write(capi.join(name), "").unwrap();
        }
        let folders = packages(folder.path());
        let found: Vec<_> = folders.iter().filter_map(|folder| newest(folder)).collect();
        assert_eq!(found, [capi.join("libonnxruntime.so.1.31.1")]);
    }
}
