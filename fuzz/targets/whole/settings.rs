//! Settings, whatever is in them: a plan, or mistakes of a line each.
//!
//! Input: the text; what is not UTF-8 is replaced.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use fuzz::place::fresh;
use fuzz::run::plan;
use session::packetlog::settings::Settings;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| fresh("settings").join("log.toml"));

/// Of a file of settings of `wirelens run`.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // What settings name is read; nothing of this machine is to be named.
    if !["\"/", "'/", "..", "~"].iter().any(|path| text.contains(path)) {
        let _ = plan(&text);
    }
}

/// Of a file of modes, priorities and limits of the packet log.
pub(crate) fn packetlog(bytes: &[u8]) {
    fs::write(&*FILE, bytes).expect("room for a file");
    if let Err(error) = Settings::read(Some(&FILE)) {
        assert!(!error.to_string().is_empty());
    }
}
