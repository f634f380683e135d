//! `[nats]` of `wirelens run`: rows, alerts and metrics for other machines.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusError, BusState, Link, Options};
use packet::Span;
use session::published::NatsSettings;
use session::reading::Inputs;
use store::Store;

use super::alerting::host_name;
use crate::clock::{self, CLOCK};
use crate::failure::Failure;

/// What waits at the end has so long to be acknowledged.
const DELIVER_WITHIN: Duration = Duration::from_secs(10);

impl From<BusError> for Failure {
    fn from(error: BusError) -> Self {
        Self::error(format_args!("[nats] {error}"))
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_ns()).unwrap_or(0))
}

/// Begins, where rows are to be published. `takes_rows` says that something else already has tables
/// wait for it.
pub(super) fn begin(
    settings: Option<&NatsSettings>,
    store: Option<&Arc<Store>>,
    inputs: &Inputs,
    takes_rows: bool,
    tell: fn(&str),
) -> Result<Option<Bus>, Failure> {
    let Some((settings, store)) = settings.zip(store) else { return Ok(None) };
    let NatsSettings { servers, credentials, token_file, ca_file, .. } = settings.clone();
    let user = settings.user.clone().zip(settings.password_file.clone());
    let certificate = settings.certificate.clone().zip(settings.key.clone());
    let options = Options {
        link: Link { servers, credentials, token_file, user, ca_file, certificate },
        prefix: settings.prefix.clone(),
        sensor: settings.sensor.clone().unwrap_or_else(host_name),
        run: format!("{:x}", clock::realtime().as_ns()),
        keep: duration(settings.keep),
        keep_bytes: settings.keep_bytes,
        metrics_every: duration(settings.metrics_every),
        waits: inputs.interface.is_none() && !takes_rows,
        monotonic: CLOCK.monotonic,
        tell,
    };
    Ok(Some(Bus::begin(options, Arc::clone(store))?))
}

/// Ends, and says what the broker does not have.
pub(super) fn end(bus: Bus) {
    let state = bus.end(DELIVER_WITHIN);
    if state.lost() > 0 {
        let BusState { published, evicted, too_large, unacknowledged, trouble, .. } = &state;
        let why = trouble.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        eprintln!(
            "wirelens: [nats] {} rows were not published, {published} were: {evicted} evicted, \
             {too_large} too large, {unacknowledged} not acknowledged{why}",
            state.lost()
        );
    }
}
