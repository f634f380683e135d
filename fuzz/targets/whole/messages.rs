//! Messages of other processes: requests to a recorder, rows and metrics of sensors, escalations
//! and answers of workers, and blocks of a kernel's ring.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use bus::fuzzed::{metrics_are_read, read_answer_again, read_escalation_again, read_row_message};
use classify::Cascade;
use classify::evidence::Evidence;
use classify::serve::{StageRow, StageRows};
use engine::columns::{Field, Kind, Schema};
use fuzz::input::Input;
use fuzz::place::fresh;
use fuzz::run::CLOCK;
use packet::LinkType;
use packetlog::policy::Switch;
use serde_json::{Value, json};
use session::Host;
use session::classify::read as read_cascade;
use session::packetlog::desk::{Desk, DeskInputs, Gauges, Writer, table};
use session::packetlog::events::Events;
use session::packetlog::settings::Settings;
use session::packetlog::socket::{NAME, Socket};

/// A log that is never short of anything.
struct Idle;

impl Writer for Idle {
    fn gauges(&self) -> Gauges {
        Gauges { disk_free: 1.0, ..Gauges::default() }
    }

    fn status(&self) -> Value {
        json!({})
    }

    fn losses(&self) -> Value {
        json!({})
    }
}

/// A recorder's socket, for as long as this process lives.
static SOCKET: LazyLock<(PathBuf, Socket)> = LazyLock::new(|| {
    let folder = fresh("socket");
    let classes = ["benign", "scan"].map(String::from);
    let settings = Settings::default();
    let first = table(&settings, &classes, "default").expect("a mode");
    let inputs = DeskInputs {
        switch: Arc::new(Switch::new("default", first)),
        tally: Arc::default(),
        progress: Arc::default(),
        work: Arc::default(),
        drift: None,
        writer: Box::new(Idle),
        clock: CLOCK,
    };
    let events = Events::append(&folder.join("events.jsonl"), None, CLOCK, None);
    let events = events.expect("room for a file");
    // Not by anyone's choice, so that no request waits for the packets of a mode.
    let desk = Desk::new(settings, &classes, "default", true, inputs, events);
    let socket = Socket::listen(&folder, Arc::new(desk)).expect("a socket");
    (folder, socket)
});

/// Input: what is sent. The answer is an object, counters as text, or none.
pub(crate) fn control_socket(bytes: &[u8]) {
    let (folder, _) = &*SOCKET;
    let mut stream = UnixStream::connect(folder.join(NAME)).expect("a socket that listens");
    // It may have its answer before all of it is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = String::new();
    if stream.read_to_string(&mut answer).is_err() || answer.is_empty() {
        return;
    }
    let value: Option<Value> = serde_json::from_str(&answer).ok();
    let is_metrics = answer.starts_with("# HELP");
    assert!(is_metrics || value.is_some_and(|value| value.is_object()), "{answer:?}");
}

const SCHEMA: Schema = &[
    Field::new("count", Kind::U64, ""),
    Field::new("small", Kind::I8, "").nullable(),
    Field::new("port", Kind::U16, "").nullable(),
    Field::new("time_ns", Kind::TimestampNs, "").nullable(),
    Field::new("share", Kind::F64, "").nullable(),
    Field::new("name", Kind::Text, ""),
    Field::new("bytes", Kind::Bytes, "").nullable(),
];

/// Headers of a message with one row, so that fuzzing begins behind them.
const HEADERS: &str = "Wirelens-Version: 1\nWirelens-Sensor: a\nWirelens-Run: 1\n\
                       Wirelens-Table: flows\nWirelens-First-Row: 0\nWirelens-Rows: 1";

/// Input: a byte, whose lowest bit says that headers follow up to an empty line; the payload.
pub(crate) fn rows(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let has_headers = input.u8() & 1 == 1;
    let rest = input.rest();
    let text = String::from_utf8_lossy(rest);
    let (headers, payload) = match text.split_once("\n\n").filter(|_| has_headers) {
        Some((headers, payload)) => (headers, payload.as_bytes()),
        None => (HEADERS, rest),
    };
    if let Some(rows) = read_row_message("wirelens.v1.rows.a.flows", headers, payload, SCHEMA) {
        assert!((1..=256).contains(&rows.row_count()));
    }
    let _ = metrics_are_read(payload);
}

/// Input: a byte, whose lowest bit chooses; then an escalation or an answer. One that is read is
/// written as it was.
pub(crate) fn escalation(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let message = input.rest();
    if choice & 1 == 1 {
        if let Some(again) = read_answer_again(message) {
            assert_eq!(again, message);
        }
    } else if let Some((is_as_said, again)) = read_escalation_again(message) {
        assert!(is_as_said);
        assert_eq!(read_escalation_again(&again), Some((true, again.clone())));
    }
}

/// A model as workers have it, with evidence of names in both stages.
static CASCADE: LazyLock<Arc<Cascade>> = LazyLock::new(|| {
    let cascade = read_cascade(Path::new("categories"), &Host::Program, |_| None);
    Arc::new(cascade.expect("a model that ships"))
});

/// Rows of a message that no sensor would send, scored by a worker.
///
/// Input: rows, each with a byte for its stage and whether it has evidence, the number of its
/// numbers, which follow, two bytes for the length of its records, and these.
pub(crate) fn worker_rows(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let stage_count = CASCADE.stages().len();
    let (mut rows, mut taken) = (StageRows::new(Arc::clone(&CASCADE), 8), vec![0; stage_count]);
    for _ in 0..8 {
        let (choice, number_count) = (input.u8(), input.u8());
        let numbers: Vec<_> = (0..number_count).map(|_| f32::from_bits(input.u32())).collect();
        let len = usize::from(input.u16());
        let stage = usize::from(choice & 3);
        let has_evidence = choice & 4 != 0;
        let evidence = has_evidence.then(|| Evidence::of([input.u64(); 5], choice & 8 != 0));
        let row = StageRow { stage, records: input.bytes(len), numbers: &numbers, evidence };
        if rows.push(row) {
            taken[stage] += 1;
        }
    }
    for (stage, taken) in taken.into_iter().enumerate() {
        let mut answered = 0;
        rows.answer(stage, |answer| {
            answered += 1;
            assert!((0.0..=1.0).contains(&answer.confidence) && !answer.uncertainty.is_nan());
            assert!(usize::from(answer.label.max(answer.guess)) <= CASCADE.classes().len());
        });
        assert_eq!(answered, taken);
    }
}

/// Input: a link type, a length to cut frames to, and a block.
pub(crate) fn ring_block(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (link, snaplen) = (input.u16(), input.u16());
    let mut block = input.rest().to_vec();
    let link = if link & 1 == 0 { LinkType::ETHERNET } else { LinkType(link >> 1) };
    let records = capture::live::fuzzed::block_records(&mut block, link, snaplen.into());
    for record in records {
        let end = u64::from(record.offset) + u64::from(record.captured_len);
        assert!(end <= block.len() as u64 && record.captured_len <= u32::from(snaplen));
    }
}
