//! The run as a whole.

use axum::Json;
use axum::extract::State;
use engine::columns::{Field, Kind, Schema};
use history::HistoryState;
use serde::Serialize;
use store::query::time_column;
use store::{Store, Table};
use utoipa::ToSchema;

use crate::app::{App, Facts};
use crate::problem::Problem;

/// A run: what it reads, how far it is, and which tables it has.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunState {
    /// Of the program.
    pub version: &'static str,
    /// `live`, `captures` or `report`.
    pub mode: &'static str,
    /// Captures or interfaces.
    pub inputs: Vec<String>,
    /// Faults that the run simulates, such as `drop=1000`: losses may be theirs.
    pub drills: Vec<String>,
    /// Whether all input was read.
    pub is_over: bool,
    /// When the server began, nanoseconds since the epoch.
    pub started: String,
    /// How far event time has come; null before the first packet.
    pub now: Option<String>,
    /// Changes when anything does.
    pub sequence: u64,
    /// Packets so far.
    pub packets: Packets,
    /// The tables of this run.
    pub tables: Vec<TableAbout>,
    /// What is stored of earlier hours and runs; null where nothing is stored.
    pub history: Option<HistoryAbout>,
}

/// What is stored.
#[derive(Serialize, ToSchema)]
pub(crate) struct HistoryAbout {
    /// Time of the earliest row.
    pub first: String,
    /// Time of the latest row.
    pub last: String,
    /// Bytes of its files.
    pub size_bytes: u64,
    /// Rows that could not be stored.
    pub missed_rows: u64,
    /// The first thing that went wrong.
    pub trouble: Option<String>,
}

/// Packets so far, by outcome.
#[derive(Serialize, ToSchema)]
pub(crate) struct Packets {
    /// Received by the capture.
    pub received: u64,
    /// Lost before they were examined.
    pub dropped: u64,
    /// With headers that cannot be true.
    pub malformed: u64,
    /// Flows that have not ended.
    pub open_flows: u64,
}

/// A table: its columns, and how much of it there is.
#[derive(Serialize, ToSchema)]
pub(crate) struct TableAbout {
    /// Its name in paths.
    pub name: String,
    /// What it answers.
    pub about: &'static str,
    /// Rows in memory.
    pub rows: usize,
    /// Rows that are not final, such as open flows.
    pub open_rows: usize,
    /// Rows so far.
    pub received: u64,
    /// Rows evicted by later ones.
    pub evicted: u64,
    /// The column by which a row has its place in time.
    pub time: Option<&'static str>,
    /// Time of the earliest chunk in memory.
    pub first: Option<String>,
    /// Time of the latest row.
    pub last: Option<String>,
    /// Time of the earliest row that is stored.
    pub stored_first: Option<String>,
    /// Its columns; left out in events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnAbout>,
}

/// A column.
#[derive(Serialize, ToSchema)]
pub(crate) struct ColumnAbout {
    /// Its name.
    pub name: &'static str,
    /// `text`, `u64`, `u32`, `u16`, `i8`, `f64`, `timestamp` or `bytes`.
    pub r#type: &'static str,
    /// What its values mean.
    pub about: &'static str,
    /// Whether it may be null.
    pub nullable: bool,
}

impl RunState {
    /// Of a server.
    pub(crate) fn now(app: &App, has_columns: bool) -> Self {
        Self::of(&app.store, &app.facts, app.started_ns, has_columns)
    }

    pub(crate) fn of(store: &Store, facts: &Facts, started_ns: i64, has_columns: bool) -> Self {
        let (received, dropped) = (facts.packets)();
        // Asked up to four times a second: without those that are read from files.
        let counts = store.handed_counts();
        // Every application on a pass meets the same packets.
        let of_first = |name: &str| {
            let sums = counts.iter().map(|(_, counts)| {
                let named = counts.iter().filter(|count| count.name == name);
                named.map(|count| count.value).sum::<f64>()
            });
            whole(sums.fold(0.0, f64::max))
        };
        let of_run = counts.iter().filter(|(name, _)| *name == "run").flat_map(|(_, of)| of);
        let drills = of_run.filter(|count| count.name == "drill");
        let drills = drills.flat_map(|drill| drill.labels.iter().map(|(_, what)| what.clone()));
        let stored = facts.history.as_ref().map(|history| history.state()).unwrap_or_default();
        Self {
            version: facts.version,
            mode: facts.mode.name(),
            inputs: (facts.inputs)(),
            drills: drills.collect(),
            is_over: store.is_over(),
            started: started_ns.to_string(),
            now: store.time_ns().map(|ns| ns.to_string()),
            sequence: store.sequence(),
            packets: Packets {
                received,
                dropped,
                malformed: of_first("packets_malformed"),
                open_flows: of_first("open").max(of_first("flows_open")),
            },
            tables: store.tables().iter().map(|table| about(table, &stored, has_columns)).collect(),
            history: history(&stored),
        }
    }
}

/// A count, which is whole and far below 2^53.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(count: f64) -> u64 {
    count as u64
}

fn history(stored: &HistoryState) -> Option<HistoryAbout> {
    // Sums by minute begin with their minute.
    let of_rows = || stored.tables.iter().filter(|table| !table.name.contains('@'));
    Some(HistoryAbout {
        first: of_rows().map(|table| table.first_ns).min()?.to_string(),
        last: of_rows().map(|table| table.last_ns).max()?.to_string(),
        size_bytes: stored.byte_count,
        missed_rows: stored.missed,
        trouble: stored.trouble.clone(),
    })
}

fn about(table: &Table, stored: &HistoryState, has_columns: bool) -> TableAbout {
    let (state, schema) = (table.state(), table.schema());
    let time = time_column(schema);
    let (first, last) = table.ends_ns();
    let of_table = stored.tables.iter().find(|stored| stored.name == table.name());
    TableAbout {
        name: table.name().to_owned(),
        about: table.about(),
        rows: state.row_count,
        open_rows: state.open_row_count,
        received: state.received,
        evicted: state.evicted,
        time: time.and_then(|time| schema.get(time)).map(|field| field.name),
        first: first.map(|ns| ns.to_string()),
        last: last.map(|ns| ns.to_string()),
        stored_first: of_table.map(|stored| stored.first_ns.to_string()),
        columns: if has_columns { columns(schema) } else { Vec::new() },
    }
}

fn columns(schema: Schema) -> Vec<ColumnAbout> {
    let about = |field: &Field| ColumnAbout {
        name: field.name,
        r#type: match field.kind {
            Kind::U64 => "u64",
            Kind::U32 => "u32",
            Kind::U16 => "u16",
            Kind::I8 => "i8",
            Kind::TimestampNs => "timestamp",
            Kind::F64 => "f64",
            Kind::Text => "text",
            Kind::Bytes => "bytes",
        },
        about: field.about,
        nullable: field.is_nullable,
    };
    schema.iter().map(about).collect()
}

/// What is read, how far it is, and which tables there are.
#[utoipa::path(
    get,
    path = "/api/v1/state",
    tag = "run",
    responses(
        (status = 200, description = "The run", body = RunState),
        (status = 503, description = "Too many bytes of answers wait", body = Problem)
    )
)]
pub(super) async fn state(State(app): State<App>) -> Json<RunState> {
    Json(RunState::now(&app, true))
}
