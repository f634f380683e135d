//! Settings, whatever is in them: a plan, or mistakes of a line each.
//!
//! Input: the text; what is not UTF-8 is replaced.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use alerts::{IndicatorKind, IndicatorSettings, Lists};
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

static LIST: LazyLock<PathBuf> = LazyLock::new(|| fresh("indicators").join("list.txt"));

/// Of a list of indicators: one byte for its kind, then the file. An address on a line of its own
/// is found.
pub(crate) fn indicators(bytes: &[u8]) {
    let Some((kind, file)) = bytes.split_first() else { return };
    fs::write(&*LIST, file).expect("room for a file");
    let kind =
        [IndicatorKind::Ip, IndicatorKind::Domain, IndicatorKind::Ja4][usize::from(kind % 3)];
    let list = IndicatorSettings {
        name: String::from("list"),
        file: LIST.clone(),
        kind,
        columns: None,
        tables: None,
        entries_max: None,
        resolve_after: None,
        labels: Default::default(),
    };
    let lists = Lists::open(&[list]).expect("a file that can be read");
    for line in String::from_utf8_lossy(file).split('\n').take(64) {
        let _ = (lists.with_domain(line), lists.with_ja4(line));
        if let Ok(address) = line.parse::<IpAddr>() {
            let is_found = lists.with_address(address) != 0;
            assert_eq!(is_found, kind == IndicatorKind::Ip, "{line:?}");
        }
    }
    assert!(!lists.states().is_empty());
}
