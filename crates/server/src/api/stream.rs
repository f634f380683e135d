//! Events: the state when it has changed, and rows as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::Deserialize;
use store::Table;
use store::query::{Filter, RowsQuery, TimeRange};
use tokio::time::{Interval, MissedTickBehavior, interval};
use utoipa::IntoParams;

use super::parameters::{QueryParameters, filter};
use super::state::RunState;
use crate::app::App;
use crate::json as write;
use crate::problem::Problem;

/// How often it is looked whether anything has changed.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Rows in one event at most; the rest of them is left to a query.
const ROWS_MAX: usize = 500;

/// For so many bytes there has to be room, or a stream ends: browsers come back after seconds.
const EVENT_BYTES: usize = 64 << 10;

/// Which rows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamParameters {
    /// Rows of this table as well, as they come.
    table: Option<String>,
    /// Filter of these rows.
    r#where: Option<String>,
}

/// Server-sent events: `state` when anything has changed, four times a second at most; with a table
/// `rows` as they come, 500 in an event at most.
#[utoipa::path(
    get,
    path = "/api/v1/stream",
    tag = "run",
    params(StreamParameters),
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream"),
        (status = 400, description = "A parameter is wrong", body = Problem),
        (status = 404, description = "No such table", body = Problem)
    )
)]
pub(super) async fn stream(
    State(app): State<App>,
    QueryParameters(asked): QueryParameters<StreamParameters>,
) -> Result<Response, Problem> {
    let rows = match asked.table {
        Some(name) => {
            let table = app.table(&name)?;
            let filter = filter(asked.r#where.as_deref(), table.schema())?;
            let received = table.state().received;
            Some(Following { table, filter, received })
        }
        None if asked.r#where.is_some() => {
            return Err(Problem::bad("where is for rows; wanted: table as well"));
        }
        None => None,
    };
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = Events { app, ticks, sequence: None, rows, is_state_next: true };
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

struct Following {
    table: Arc<Table>,
    filter: Filter,
    received: u64,
}

/// What a client is sent. It is made when the client takes it: a slow one gets fewer.
struct Events {
    app: App,
    ticks: Interval,
    sequence: Option<u64>,
    rows: Option<Following>,
    is_state_next: bool,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if !self.is_state_next {
                self.is_state_next = true;
                if let Some(event) = self.rows.as_mut().and_then(Following::event) {
                    return Poll::Ready(Some(Ok(event)));
                }
            }
            if self.ticks.poll_tick(context).is_pending() {
                return Poll::Pending;
            }
            self.app.note_look();
            if !self.app.answer_bytes.has_room(EVENT_BYTES, &self.app.limits) {
                self.app.served.bytes_refused.fetch_add(1, Ordering::Relaxed);
                return Poll::Ready(None);
            }
            self.is_state_next = false;
            let sequence = self.app.store.sequence();
            if self.sequence.replace(sequence) != Some(sequence) {
                let app = &self.app;
                let write = || serde_json::to_string(&RunState::now(app, false));
                let state = app.state_at(sequence, || write().unwrap_or_default());
                let event = Event::default().event("state").data(state);
                return Poll::Ready(Some(Ok(event)));
            }
        }
    }
}

impl Following {
    /// The rows that came since.
    fn event(&mut self) -> Option<Event> {
        let view = self.table.since(self.received);
        let schema = self.table.schema();
        let range = TimeRange::default();
        let (filter, new_count) = (self.filter.clone(), view.received() - self.received);
        // Whole chunks are held: the latest rows of them are new.
        let new_count = usize::try_from(new_count).unwrap_or(usize::MAX);
        self.received = view.received();
        let latest = view.latest(new_count);
        let query = RowsQuery { filter, range, order: Vec::new(), offset: 0, limit: ROWS_MAX };
        let found = query.run_on(latest, schema);
        if found.is_empty() {
            return None;
        }
        let text = write::table(&write::all(schema), found.each());
        Some(Event::default().event("rows").data(text))
    }
}
