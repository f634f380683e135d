//! `wirelens packetlog record`: packets into a log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use capture::Progress;
use engine::Stage;
use engine::run::{Control, run_one};
use packet::{Batch, Frame};
use packetlog::classifier::Classifier;
use packetlog::pipeline::{Judge, Kept, Keeper, Pipeline};
use packetlog::policy::{Switch, Table};
use packetlog::recorder::{ClassInfo, Recorder, RecorderReport, RecorderState, Stored};
use packetlog::{Judged, Model};
use serde_json::{Value, json};

use super::args::RecordArguments;
use super::desk::{self, Desk, Gauges, Watched, Work, Writer};
use super::events::Events;
use super::settings::Settings;
use super::socket::Socket;
use super::{model, options};
use crate::Host;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::live::{self, now};
use crate::reading::{Inputs, Needs, hash_seed};

/// The resources are looked at this often, whatever happens.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is looked at of a frame: its headers; and all of it may be kept.
const NEEDS: Needs = Needs { stage: "packetlog", len: Needs::TRANSPORT_LEN, takes_all: true };

/// Runs `wirelens packetlog record`.
pub(super) fn run(arguments: &RecordArguments, host: &Host) -> Result<Status, Failure> {
    let settings = Settings::read(arguments.settings.as_deref())?;
    let model = Arc::new(model::read(&arguments.model, host)?);
    let table = desk::table(&settings, model.classes(), &arguments.mode)
        .map_err(|reason| Failure::usage(format_args!("--mode: {reason}")))?;
    let inputs = asked::find(&arguments.input, Some(&arguments.live), true)?;
    let opened = inputs.open_any(NEEDS, 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let quiet = arguments.input.quiet;
    let is_live = inputs.interface.is_some();
    let (recorder, recovered) = open_log(arguments, &settings, &model, is_live)?;
    if !quiet && recovered.has_any() {
        eprintln!("wirelens: {recovered}");
    }
    let path = arguments.events.clone();
    let path = path.unwrap_or_else(|| arguments.folder.join("events.jsonl"));
    let events = Events::append(&path, is_live && !quiet)?;
    let switch = Arc::new(Switch::new(&arguments.mode, table));
    let work = Arc::new(Work::default());
    let seed = hash_seed(arguments.input.seed);
    let classifier = Classifier::new(Arc::clone(&model), seed);
    let wake = Arc::new(Wake::default());
    let state = recorder.state();
    let book = Book {
        recorder,
        state: Arc::clone(&state),
        progress: Arc::clone(&inputs.options.progress),
        wake: Arc::clone(&wake),
        lost: 0,
        ring_lost: 0,
        queued: 0,
    };
    let mut pipeline = Pipeline::new(Judging(classifier), book, Arc::clone(&switch), seed);
    let watched = Watched {
        switch,
        tally: pipeline.tally(),
        progress: Arc::clone(&inputs.options.progress),
        work: Arc::clone(&work),
        writer: Box::new(Writing(Arc::clone(&state))),
    };
    let (classes, mode) = (model.classes(), &arguments.mode);
    let desk = Desk::new(settings, classes, mode, arguments.fixed_mode, watched, events);
    let desk = Arc::new(desk);
    let socket = Socket::listen(&arguments.folder, Arc::clone(&desk))?;
    let manager = Managing::start(Arc::clone(&desk), Arc::clone(&wake));
    live::begin(&arguments.live, &opened, &inputs.control, quiet);
    desk.event("begin", json!({"mode": arguments.mode, "model": model.name()}));
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    run_one(&mut source, &mut Timed { stage: &mut pipeline, work: &work }, &inputs.control);
    drop(bar);
    drop(manager);
    drop(socket);
    finish(arguments, &inputs, &desk, pipeline, source.received())
}

/// The manager's thread sleeps until something happened.
#[derive(Default)]
struct Wake {
    thread: std::sync::OnceLock<Thread>,
}

impl Wake {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The thread that looks at the resources.
struct Managing {
    wake: Arc<Wake>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Managing {
    fn start(desk: Arc<Desk>, wake: Arc<Wake>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Acquire) {
                desk.look();
                thread::park_timeout(LOOK_EVERY);
            }
        });
        let _ = wake.thread.set(thread.thread().clone());
        Self { wake, is_over, thread: Some(thread) }
    }
}

impl Drop for Managing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.wake.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Judges as a pipeline wants it.
struct Judging(Classifier);

impl Judge for Judging {
    fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<Judged>) {
        self.0.judge(batch, judged);
    }
}

/// The log as a pipeline wants it. It wakes the manager when something has happened.
struct Book {
    recorder: Recorder,
    state: Arc<RecorderState>,
    progress: Arc<Progress>,
    wake: Arc<Wake>,
    lost: u64,
    ring_lost: u64,
    queued: u64,
}

impl Keeper for Book {
    #[inline]
    fn keep(&mut self, frame: &Frame<'_>, kept_len: u32, judged: &Judged) -> Kept {
        match self.recorder.store(frame, kept_len, judged) {
            Stored::Yes => Kept::Yes,
            Stored::NoRoom(_) => Kept::NoRoom,
        }
    }

    fn pass_over(&mut self, frame: &Frame<'_>, judged: &Judged) {
        self.recorder.pass_over(frame, judged);
    }

    fn on_mode(&mut self, table: &Table) {
        self.recorder.mode(table.generation, &table.mode);
    }

    fn on_pause(&mut self) {
        self.recorder.on_time();
        let (lost, ring_lost) = (self.state.lost_packets(), self.progress.frames_dropped());
        let queued = self.state.chunks_queued.load(Ordering::Relaxed);
        if ring_lost != self.ring_lost {
            self.recorder.losses(ring_lost);
        }
        if lost != self.lost || ring_lost != self.ring_lost || queued > self.queued {
            self.wake.wake();
        }
        (self.lost, self.ring_lost, self.queued) = (lost, ring_lost, queued);
    }
}

/// A stage whose time is taken.
struct Timed<'a, S> {
    stage: &'a mut S,
    work: &'a Work,
}

impl<S: Stage> Stage for Timed<'_, S> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        let begun: Instant = now();
        self.stage.on_batch(batch);
        self.work.add(begun.elapsed());
    }
}
