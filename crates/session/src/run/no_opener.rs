//! Without the command there is no program to start as a helper: interfaces stay those of the
//! start.

use std::path::Path;

use capture::ReadOptions;
use capture::live::{LiveOptions, LiveSource};

/// Opens interfaces during a run: never.
pub(crate) enum Opener {}

impl Opener {
    pub(super) fn start(
        _: &Path,
        _: Option<String>,
        _: (LiveOptions, ReadOptions),
    ) -> Result<Self, String> {
        Err(String::from("this build has no helper process; use the command"))
    }

    pub(super) fn open(&mut self, _: &str) -> Result<LiveSource, String> {
        match *self {}
    }
}
