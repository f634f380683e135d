//! `[history]` of `wirelens run`: rows that outlive memory.

use std::sync::Arc;

use bus::Bus;
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

/// Stores and publishes the last rows, and says what was lost: whether any were.
pub(super) fn end(history: Option<&History>, bus: Option<Bus>) -> bool {
    let state = history.map(History::end).unwrap_or_default();
    for line in state.trouble.iter().chain(&state.losses()) {
        eprintln!("wirelens: [history] {line}");
    }
    let losses = bus.and_then(|bus| bus.end().losses());
    losses.iter().for_each(|losses| eprintln!("wirelens: [nats] {losses}"));
    state.missed > 0 || losses.is_some()
}
