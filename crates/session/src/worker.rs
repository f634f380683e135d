//! `wirelens worker`: the stages after the first, for the flows of any number of sensors.

use std::fmt::{self, Write as _};
use std::fs;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::classify::Cascade;
use ::classify::serve::{StageRow, StageRows};
use bus::{
    AnswerError, AnswerRows, BatchOptions, BusError, RowAnswer, RowFields, Worker, WorkerCounts,
    WorkerOptions,
};
pub use model::Device;
use serde::Deserialize;
use store::Store;

use crate::classify;
use crate::classify::evidence_of;
use crate::page::PageSettings;
use crate::published::NatsSettings;
use crate::run::{Jail, count_process};
use crate::shipped::ModelError;
use crate::{Environment, Host};

/// Parts of the flows, by their numbers.
pub const PARTITIONS: RangeInclusive<u16> = 0..=bus::PARTITION_COUNT - 1;

/// Rows of a message at most, for which there is room from the start.
const ROWS_MAX: usize = 256;

/// Trees go down a forest together, which halves their time. What a stage says of a row does not
/// depend on the others.
const BATCH: BatchOptions = BatchOptions { rows_max: 64, waits: false };

/// The same of a card.
const BATCH_OF_CARDS: BatchOptions = BatchOptions { rows_max: 1024, waits: true };

/// Settings of a sensor, of which a worker reads `[nats]`, and `[page]` where it is asked for one.
#[derive(Default, Deserialize)]
struct File {
    #[serde(default)]
    nats: NatsSettings,
    page: Option<PageSettings>,
}

/// What is asked of a worker.
#[derive(Clone)]
pub struct WorkerRequest {
    /// Folder of a trained cascade, or the name of a shipped model.
    pub model: PathBuf,
    /// Settings with `[nats]`.
    pub config: Option<PathBuf>,
    /// Servers in place of those of the settings.
    pub servers: Vec<String>,
    /// Threads that score.
    pub thread_count: usize,
    /// What computes stages in ONNX.
    pub device: Device,
    /// Parts of the flows that it takes.
    pub partitions: RangeInclusive<u16>,
    /// The machine's name.
    pub machine: String,
    /// Monotonic time.
    pub monotonic: fn() -> Duration,
    /// Prints messages for users; a line each.
    pub tell: fn(&str),
    /// Whether it gives up rights before its first row.
    pub jail: Jail,
    /// Where it counts what it does.
    pub store: Arc<Store>,
}

/// Reads which parts of the flows a worker takes: `3` or `0-1`.
///
/// # Errors
/// What was wanted.
pub fn parse_partitions(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let parts = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
    let parts = parts.filter(|(first, last)| first <= last && PARTITIONS.contains(last));
    let wanted = || String::from("wanted one of 0 to 3, or a range such as 0-1");
    parts.map(|(first, last)| first..=last).ok_or_else(wanted)
}

/// Why a worker does not work.
#[derive(Debug)]
pub enum WorkerError {
    /// The model cannot be read.
    Model(ModelError),
    /// The model has nothing for workers.
    NoStages(String),
    /// The device does not compute the model.
    Device(String),
    /// The settings cannot be read.
    Settings(PathBuf, String),
    /// There is no connection, and trying again would not help.
    Bus(BusError),
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::NoStages(why) | Self::Device(why) => f.write_str(why),
            Self::Settings(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Bus(error) => write!(f, "[nats] {error}"),
        }
    }
}

impl std::error::Error for WorkerError {}

/// What a worker reads of a settings file.
fn settings(path: Option<&Path>) -> Result<File, WorkerError> {
    let Some(path) = path else { return Ok(File::default()) };
    let wrong = |why: String| WorkerError::Settings(path.to_owned(), why);
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if let Some(mistake) = file.nats.mistake() {
        return Err(wrong(format!("[nats] {mistake}")));
    }
    match file.page.as_ref().and_then(PageSettings::mistake) {
        Some(mistake) => Err(wrong(format!("[page] {mistake}"))),
        None => Ok(file),
    }
}

/// Where a worker shows what it does: at this address, otherwise as the settings have it.
///
/// # Errors
/// [`WorkerError::Settings`]
pub fn page(listen: SocketAddr, config: Option<&Path>) -> Result<PageSettings, WorkerError> {
    let File { page, .. } = settings(config)?;
    Ok(PageSettings { listen, ..page.unwrap_or_default() })
}

/// Why a model's stages cannot be computed by workers, if they cannot.
pub(crate) fn refusal(cascade: &Cascade) -> Option<String> {
    let name = cascade.name();
    if cascade.memory().is_some() {
        let why = "its answers depend on what the sensor remembers of hosts";
        return Some(format!("{name}: {why}; wanted: a model without memory"));
    }
    if cascade.every().is_some() {
        return Some(format!("{name}: classifies windows of flows; wanted: a model of flows"));
    }
    let has_one = cascade.stages().len() < 2;
    has_one.then(|| format!("{name}: has one stage, which sensors compute themselves"))
}

/// Answers rows until it is to end; what it has done.
///
/// # Errors
/// [`WorkerError`]
pub fn run(
    request: WorkerRequest,
    host: &Host,
    environment: Environment,
    ends: &AtomicBool,
) -> Result<WorkerCounts, WorkerError> {
    let WorkerRequest { model, config, servers, thread_count, partitions, machine, .. } = request;
    let File { mut nats, .. } = settings(config.as_deref())?;
    if !servers.is_empty() {
        nats.servers = servers;
    }
    let read_again = config.into_iter().chain(nats.files()).collect();
    let cascade = classify::read(&model, host, environment).map_err(WorkerError::Model)?;
    if let Some(why) = refusal(&cascade) {
        return Err(WorkerError::NoStages(why));
    }
    let device = request.device;
    let cascade = Arc::new(cascade.on(device).map_err(WorkerError::Device)?);
    let batch = match device {
        Device::Processor => BATCH,
        Device::Cuda { .. } => BATCH_OF_CARDS,
    };
    let options = WorkerOptions {
        link: nats.link(),
        prefix: nats.prefix.clone(),
        model: cascade.id().to_owned(),
        partitions,
        name: format!("wirelens worker {}", nats.sensor.unwrap_or(machine)),
        thread_count,
        batch,
        monotonic: request.monotonic,
        tell: request.tell,
    };
    let id = cascade.id();
    (request.tell)(&format!("model {id}, threads: {thread_count}, device: {device}"));
    let model = || Model::new(Arc::clone(&cascade));
    let worker = Arc::new(Worker::new(options));
    let counted = Arc::clone(&worker);
    request.store.count_by("worker", Box::new(move || counted.metrics()));
    count_process(&request.store);
    match device {
        Device::Processor => request.jail.enter_with_network(read_again, request.tell),
        // Drivers of cards start programs of their own and write to devices, when they like.
        Device::Cuda { .. } => {
            (request.tell)(&format!("no jail with {device}: {}", jail::GIVEN_UP))
        }
    }
    worker.run(model, ends).map_err(WorkerError::Bus)
}

/// What a worker has done, for people.
#[must_use]
pub fn lines(counts: &WorkerCounts) -> String {
    let WorkerCounts { answered, messages, batches, late, busy, refused, failed, left } = counts;
    let mut text = format!("worker: {answered} rows in {messages} messages answered");
    let _ = match batches < messages {
        true => writeln!(text, ", in {batches} batches"),
        false => writeln!(text),
    };
    for (count, what) in [
        (late, "messages came too late for their deadline"),
        (busy, "messages found no room to wait (more threads, or more workers)"),
        (refused, "messages were damaged, of another version, or of another model"),
        (failed, "messages have no answer, as the model failed"),
        (left, "messages still waited at the end and have no answer; sensors ask again"),
    ] {
        if *count > 0 {
            let _ = writeln!(text, "worker: {count} {what}");
        }
    }
    text
}

/// A thread's models.
struct Model {
    rows: StageRows,
    stage_count: usize,
    /// Which stage each row of a message is for.
    stages: Vec<usize>,
    numbers: Vec<f32>,
}

impl Model {
    fn new(cascade: Arc<Cascade>) -> Self {
        let stage_count = cascade.stages().len();
        let rows = StageRows::new(cascade, ROWS_MAX);
        Self { rows, stage_count, stages: Vec::new(), numbers: Vec::new() }
    }

    fn push(&mut self, row: &RowFields<'_>) -> bool {
        let (numbers, _) = row.numbers.as_chunks::<4>();
        self.numbers.clear();
        self.numbers.extend(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        self.rows.push(StageRow {
            stage: row.stage.into(),
            records: row.records,
            numbers: &self.numbers,
            evidence: row.evidence.map(evidence_of),
        })
    }
}

impl AnswerRows for Model {
    fn answer(
        &mut self,
        rows: &[RowFields<'_>],
        answers: &mut Vec<RowAnswer>,
    ) -> Result<(), AnswerError> {
        let are_ours = rows.iter().all(|row| self.push(row));
        let nothing = RowAnswer { label: 0, guess: 0, confidence: 0.0, uncertainty: 0.0 };
        self.stages.clear();
        self.stages.extend(rows.iter().map(|row| usize::from(row.stage)));
        answers.resize(rows.len(), nothing);
        let mut failure = None;
        for stage in 0..self.stage_count {
            let mut places = (0..).zip(&self.stages).filter(|&(_, &of)| of == stage);
            let of_stage = self.rows.answer(stage, |given| {
                if let Some(answer) =
                    places.next().and_then(|(at, _): (usize, _)| answers.get_mut(at))
                {
                    let ::classify::Answer { label, guess, confidence, uncertainty } = given;
                    *answer = RowAnswer { label, guess, confidence, uncertainty };
                }
            });
            failure = failure.or(of_stage);
        }
        let error = match (are_ours, failure) {
            (true, None) => return Ok(()),
            (false, _) => AnswerError::OtherModel,
            (true, Some(why)) => AnswerError::Failure(why),
        };
        answers.clear();
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_one_or_a_range() {
        assert_eq!(parse_partitions("3"), Ok(3..=3));
        assert_eq!(parse_partitions("0-3"), Ok(PARTITIONS));
        for wrong in ["", "-", "4", "3-2", "0-4", "a-b", "0-1-2"] {
            assert!(parse_partitions(wrong).is_err(), "{wrong}");
        }
    }
}
