//! Alerts of `wirelens run`: begun with the run, ended after its last row, and tried by
//! `--test-alerts`.

use std::sync::Arc;
use std::time::Duration;

use alerts::{Alerts, BeginError, Clocks, Lists, Options, Settings};
use session::host::machine_name;
use store::Store;

use crate::clock::{self, CLOCK};
use crate::failure::{Failure, Status};

/// What waits at the end has so long to be delivered.
const DELIVER_WITHIN: Duration = Duration::from_secs(10);

const CLOCKS: Clocks = Clocks { monotonic: CLOCK.monotonic, realtime: clock::realtime };

impl From<BeginError> for Failure {
    fn from(error: BeginError) -> Self {
        match error {
            BeginError::Settings(_) => Self::usage(error),
            BeginError::Start(_) => Self::error(error),
        }
    }
}

/// Begins, where alerts are asked for.
pub(super) fn begin(
    (settings, lists): (&Settings, Option<Arc<Lists>>),
    store: Option<&Arc<Store>>,
    is_live: bool,
    page: Option<String>,
) -> Result<Option<Alerts>, Failure> {
    let Some(store) = store.filter(|_| !settings.is_empty()) else { return Ok(None) };
    let eve = session::exports::eve::alert_line;
    let options = Options { is_live, host_name: machine_name(), page, lists, clocks: CLOCKS, eve };
    Ok(Some(Alerts::begin(settings, options, Arc::clone(store))?))
}

/// Ends, and says what was lost: whether anything was.
pub(super) fn end(alerts: Option<Alerts>) -> bool {
    let losses = alerts.map(|mut alerts| alerts.end(DELIVER_WITHIN)).into_iter().flatten();
    losses.inspect(|loss| eprintln!("wirelens: {loss}")).count() > 0
}

/// Sends an alert to each destination.
pub(super) fn test(settings: &Settings) -> Result<Status, Failure> {
    if settings.notify.is_empty() {
        return Err(Failure::usage("--test-alerts: the settings have no [[notify]]"));
    }
    let mut has_failed = false;
    let eve = session::exports::eve::alert_line;
    for tested in Alerts::test(&settings.notify, &machine_name(), None, CLOCKS, eve) {
        let (name, took_ms) = (tested.name, tested.took.as_secs_f64() * 1e3);
        match &tested.failure {
            None => eprintln!("{name}: delivered in {took_ms:.0} ms"),
            Some(why) => eprintln!("wirelens: {name}: {why}"),
        }
        has_failed |= tested.failure.is_some();
    }
    Ok(if has_failed { Status::Error } else { Status::Fine })
}
