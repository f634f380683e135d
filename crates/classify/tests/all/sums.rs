//! The artifact that ships for tests is the one that is written here.
//! `UPDATE_GOLDEN=1 cargo test --release -p wirelens-classify` writes it.

use std::fs;
use std::path::PathBuf;

use crate::build::artifact;

#[test]
fn the_artifact_of_the_golden_runs_is_this_one() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cascade");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in artifact() {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in artifact() {
        let kept = fs::read(folder.join(&name)).unwrap_or_default();
        assert!(kept == bytes, "testdata/cascade/{name} is not what the test writes");
    }
}
