//! `[history]` of `wirelens run`: rows that outlive memory.

use std::sync::Arc;

use history::{History, HistoryError, HistoryOptions};
use session::stored::HistorySettings;
use store::Store;

use crate::clock;
use crate::failure::Failure;

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        Self::error(format_args!("[history] {error}"))
    }
}

/// Begins, where rows are to be stored.
pub(super) fn begin(
    settings: Option<&HistorySettings>,
    store: Option<&Arc<Store>>,
) -> Result<Option<Arc<History>>, Failure> {
    let Some((settings, store)) = settings.zip(store) else { return Ok(None) };
    let HistorySettings { folder, keep, keep_bytes } = settings.clone();
    let options = HistoryOptions::new(folder, keep, keep_bytes, || clock::realtime().as_ns());
    Ok(Some(Arc::new(History::begin(options, Arc::clone(store))?)))
}

/// Stores the last rows, and says what was not stored.
pub(super) fn end(history: &History) {
    let state = history.end();
    if let Some(trouble) = &state.trouble {
        eprintln!("wirelens: [history] {trouble}");
    }
    if state.missed > 0 {
        eprintln!("wirelens: [history] {} rows were not stored", state.missed);
    }
}
