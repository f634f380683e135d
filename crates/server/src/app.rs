//! What requests share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use history::{Ask, History};
use store::packets::PacketLog;
use store::query::{
    Cancellation, Filter, Groups, GroupsQuery, Rows, RowsQuery, Series, SeriesQuery, TimeRange,
};
use store::{RowChunk, Store, Table};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::limits::{AnswerBytes, Limits};
use crate::problem::Problem;
use crate::tls::Tls;

/// Queries that run or wait at most.
const QUERIES_WAITING_MAX: usize = 64;

/// Where packets come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// An interface.
    Live,
    /// Captures.
    Captures,
    /// Captures that were read to the end, for a report.
    Report,
}

impl Mode {
    /// Its name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Captures => "captures",
            Self::Report => "report",
        }
    }
}

/// Counts packets so far, as their source does: received, and dropped.
pub type CountPackets = Box<dyn Fn() -> (u64, u64) + Send + Sync>;

/// Names the captures of a run, or the interfaces that it listens on now.
pub type NameInputs = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// What there is to say of a run as a whole.
pub struct Facts {
    /// The program's version.
    pub version: &'static str,
    /// Where packets come from.
    pub mode: Mode,
    /// The names of captures or interfaces.
    pub inputs: NameInputs,
    /// The clock of the front end, in nanoseconds since the epoch.
    pub now_ns: fn() -> i64,
    /// Packets so far, as the source counts them: received, and dropped.
    pub packets: CountPackets,
    /// The packets that the run keeps, if it keeps any.
    pub packet_log: Option<Arc<dyn PacketLog>>,
    /// Rows of earlier hours and runs, if they are stored.
    pub history: Option<Arc<History>>,
}

/// What every request is given.
#[derive(Clone)]
pub(crate) struct App(Arc<AppState>);

pub(crate) struct AppState {
    pub store: Arc<Store>,
    pub facts: Facts,
    pub started_ns: i64,
    pub address: SocketAddr,
    pub token: Option<String>,
    /// What connections are encrypted with, if they are.
    pub tls: Option<Arc<Tls>>,
    pub served: RequestCounters,
    pub limits: Limits,
    pub answer_bytes: AnswerBytes,
    queries: Arc<Semaphore>,
    /// The state that events carry, with the sequence that it is of: the same for all who listen.
    state: Mutex<Option<(u64, Arc<str>)>>,
    /// When someone asked last, so that nothing is handed over that no one looks at.
    asked_ns: std::sync::atomic::AtomicI64,
}

/// Outcome of requests and connections.
#[derive(Default)]
pub(crate) struct RequestCounters {
    pub requests: AtomicU64,
    pub refused: AtomicU64,
    pub connections: AtomicU64,
    pub connections_refused: AtomicU64,
    pub connections_open: AtomicU64,
    /// Answers that were refused: too many queries wait, too many bytes, or for too long.
    pub queries_refused: AtomicU64,
    pub bytes_refused: AtomicU64,
    pub queries_late: AtomicU64,
    /// Connections that were closed: their request came too slowly, or their answer was taken so.
    pub slow_requests: AtomicU64,
    pub slow_answers: AtomicU64,
}

/// Cancels a query that is answered otherwise, or whose client has gone.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl AppState {
    /// Stored rows, where a query says from when on: without that it is about those in memory.
    fn stored(&self, range: TimeRange) -> Option<&History> {
        self.facts.history.as_deref().filter(|_| range.from_ns.is_some())
    }

    /// Finds rows.
    pub(crate) fn rows(&self, table: &Table, query: &RowsQuery) -> Rows {
        match self.stored(query.range) {
            Some(history) => history.rows(table, query),
            None => query.run(&table.view()),
        }
    }

    /// Finds groups.
    pub(crate) fn groups(&self, table: &Table, query: &GroupsQuery) -> Groups {
        match self.stored(query.range) {
            Some(history) => history.groups(table, query),
            None => query.run(&table.view().chunks(), table.schema()),
        }
    }

    /// Puts values together over time.
    pub(crate) fn series(&self, table: &Table, query: &SeriesQuery) -> Series {
        match self.stored(query.range) {
            Some(history) => history.series(table, query),
            None => query.run(&table.view().chunks(), table.schema()),
        }
    }

    /// Rows of a range of which these columns are read, and those of the filter.
    pub(crate) fn chunks(
        &self,
        table: &Table,
        range: TimeRange,
        filter: &Filter,
        columns: Option<Vec<usize>>,
    ) -> Vec<RowChunk> {
        match self.stored(range) {
            Some(history) => history.chunks(table, &Ask { range, filter, columns }).chunks,
            None => table.view().chunks(),
        }
    }
}

impl App {
    pub(crate) fn new(
        store: Arc<Store>,
        facts: Facts,
        address: SocketAddr,
        (token, tls): (Option<String>, Option<Arc<Tls>>),
        limits: Limits,
    ) -> Self {
        Self(Arc::new(AppState {
            store,
            started_ns: (facts.now_ns)(),
            facts,
            address,
            token,
            tls,
            served: RequestCounters::default(),
            limits,
            answer_bytes: AnswerBytes::default(),
            queries: Arc::new(Semaphore::new(QUERIES_WAITING_MAX)),
            state: Mutex::default(),
            asked_ns: i64::MIN.into(),
        }))
    }

    /// Someone looks, and may look on.
    pub(crate) fn note_look(&self) {
        self.asked_ns.store((self.facts.now_ns)(), Ordering::Relaxed);
    }

    /// Whether someone has looked within the last seconds.
    pub(crate) fn is_watched(&self) -> bool {
        let asked = self.asked_ns.load(Ordering::Relaxed);
        (self.facts.now_ns)().saturating_sub(asked) < 5_000_000_000
    }

    /// The state at a sequence, as `make` writes it where no one has asked for it yet.
    pub(crate) fn state_at(&self, sequence: u64, make: impl FnOnce() -> String) -> Arc<str> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            Some((of, text)) if *of == sequence => Arc::clone(text),
            _ => {
                let text: Arc<str> = make().into();
                *state = Some((sequence, Arc::clone(&text)));
                text
            }
        }
    }

    /// A table.
    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>, Problem> {
        self.store.find(name).ok_or_else(|| {
            let tables = self.store.tables();
            let names: Vec<_> = tables.iter().map(|table| table.name()).collect();
            Problem::not_found(match names.as_slice() {
                [] => format!("no table {name:?}; this run has none"),
                _ => format!("no table {name:?}; this run has: {}", names.join(", ")),
            })
        })
    }

    /// Runs a query where it holds up no other request, until it is cancelled: it took too long, or
    /// its client has gone.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Cancellation) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(permit) = Arc::clone(&self.queries).try_acquire_owned() else {
            self.served.queries_refused.fetch_add(1, Ordering::Relaxed);
            return Err(Problem::busy());
        };
        let within = self.limits.query_within;
        let asked = CancelOnDrop(Cancellation::default());
        let cancellation = asked.0.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // It has waited for others for too long.
            if cancellation.is_cancelled() {
                Err(Problem::late(within))
            } else {
                query(&cancellation)
            }
        });
        match timeout(within, done).await {
            Ok(done) => done.unwrap_or_else(|_| {
                let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
                Err(Problem::new(status, "the query was given up"))
            }),
            Err(_) => {
                self.served.queries_late.fetch_add(1, Ordering::Relaxed);
                Err(Problem::late(within))
            }
        }
    }
}
