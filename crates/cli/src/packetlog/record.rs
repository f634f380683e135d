//! `wirelens packetlog record`: packets into a log.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::clock::now;
use capture::live::LiveSource;
use capture::report::Progress;
use engine::Stage;
use engine::run::run_one;
use packet::file::InterfaceStatistics;
use packet::{Batch, Frame};
use packetlog::pipeline::{Keeper, Kept, Pipeline, TallyNow};
use packetlog::policy::{Switch, Table};
use packetlog::recorder::{Recorder, RecorderReport, RecorderState};
use packetlog::{Classifier, Judged, Model};
use serde_json::json;
use session::Host;
use session::reading::{Inputs, Needs, Opened, Received, hash_seed};
use session::shipped::Kind;

use super::args::{RecordArguments, WhenFull};
use super::desk::{self, Desk, Watched, Work};
use super::events::Events;
use super::log;
use super::settings::Settings;
use super::socket::Socket;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::live;
use crate::summary;

/// The resources are looked at this often, whatever happens.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is looked at of a frame: its headers; and all of it may be kept.
const NEEDS: Needs = Needs { stage: "packetlog", len: Needs::TRANSPORT_LEN, takes_all: true };

/// Runs `wirelens packetlog record`.
pub(super) fn run(arguments: &RecordArguments, host: &Host) -> Result<Status, Failure> {
    if let Some(threads @ 2..) = arguments.input.threads {
        return Err(Failure::usage(format_args!(
            "--threads {threads}: packets are judged on one thread and written by another; leave \
             it out, or record each interface by a command of its own"
        )));
    }
    let settings = Settings::read(arguments.settings.as_deref())?;
    let settings = overwriting(settings, arguments.files.when_full);
    let model = Arc::new(model(&arguments.model, host)?);
    let table = desk::table(&settings, model.classes(), &arguments.mode)
        .map_err(|reason| Failure::usage(format_args!("--mode: {reason}")))?;
    modes_fit(&settings, &model)?;
    let inputs = asked::find(&arguments.input, Some(&arguments.live), true)?;
    let opened = inputs.open_any(NEEDS, 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let quiet = arguments.input.quiet;
    let is_live = inputs.interface.is_some();
    let is_told = is_live && !quiet;
    let named = named_events(arguments, is_told)?;
    let (mut recorder, recovered) = log::create(arguments, &settings, &model, is_live)?;
    log::tell_recovered(&recovered, quiet);
    log::describe_interfaces(&mut recorder, &opened);
    let events = named.map_or_else(|| own_events(arguments, is_told), Ok)?;
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
        stop: inputs.control.flag(),
        last: Seen::default(),
    };
    let mut pipeline = Pipeline::new(classifier, book, Arc::clone(&switch), seed);
    let watched = Watched {
        switch,
        tally: pipeline.tally(),
        progress: Arc::clone(&inputs.options.progress),
        work: Arc::clone(&work),
        writer: Box::new(log::Watcher::new(Arc::clone(&state), &arguments.files)),
    };
    let (classes, mode) = (model.classes(), &arguments.mode);
    let is_fixed = arguments.fixed_mode || !is_live;
    let desk = Arc::new(Desk::new(settings, classes, mode, is_fixed, watched, events));
    let socket = Socket::listen(&arguments.folder, Arc::clone(&desk))?;
    let manager = Managing::start(Arc::clone(&desk), wake);
    live::begin(&arguments.live, &opened, &inputs.control, quiet);
    tell_offloads(&opened, quiet);
    desk.event("begin", json!({"mode": mode, "model": arguments.model.display().to_string()}));
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    run_one(&mut source, &mut Timed { stage: &mut pipeline, work: &work }, &inputs.control);
    drop(bar);
    drop(manager);
    drop(socket);
    let (folder, tally) = (arguments.folder.clone(), pipeline.tally().now());
    let was_cut = inputs.control.is_stopped();
    let done = Done { received: source.received(), tally, folder, state, was_cut };
    let (classifier, book) = pipeline.into_parts();
    let report = book.recorder.finish().map_err(Failure::error)?;
    desk.event("end", log::report_json(&report));
    let status = done.tell(&inputs, quiet, &classifier, &report, &model)?;
    desk.events_complete().map(|()| status)
}

/// Any of the modes may have to be put in force later, when nobody is there to be told.
fn modes_fit(settings: &Settings, model: &Model) -> Result<(), Failure> {
    for mode in &settings.modes {
        mode.table(model.classes()).map_err(Failure::usage)?;
    }
    Ok(())
}

/// Events of a file that is named, opened before there is a log: a name that cannot be written ends
/// the run.
fn named_events(arguments: &RecordArguments, is_told: bool) -> Result<Option<Events>, Failure> {
    arguments.events.as_deref().map(|path| Events::append(path, None, is_told)).transpose()
}

/// Events of a log that has them in its folder.
fn own_events(arguments: &RecordArguments, is_told: bool) -> Result<Events, Failure> {
    let path = arguments.folder.join("events.jsonl");
    Events::append(&path, Some(log::access(&arguments.files)), is_told)
}

/// Says that frames of several packets will come, and what becomes of them.
fn tell_offloads(opened: &Opened, quiet: bool) {
    let Opened::Live(sources) = opened else { return };
    if quiet {
        return;
    }
    if let Some(name) = sources.first().map(LiveSource::name) {
        let offloads = capture::sys::interfaces::offloads(name).unwrap_or_default();
        if !offloads.is_empty() {
            let on = offloads.join(", ");
            eprintln!(
                "{name}: offloads are on ({on}), so one frame may hold many packets; it is judged \
                 as those packets, and stored as one"
            );
        }
    }
}

/// Whether full disks are met by overwriting is asked for in one place.
fn overwriting(mut settings: Settings, when_full: WhenFull) -> Settings {
    settings.limits.overwrites |= when_full == WhenFull::Overwrite;
    settings
}

/// Reads the model in a folder, or the one of this name that ships; one that was changed after
/// training is none.
fn model(asked: &Path, host: &Host) -> Result<Model, Failure> {
    const KIND: Kind = Kind { marker: "model.json", made_by: "wirelens train packetlog" };
    let folder = KIND.find(asked, host)?;
    let bytes = KIND.read_sealed(&folder, KIND.marker, packetlog::model::FILE_LEN_MAX)?;
    Model::parse(&bytes).map_err(|error| {
        Failure::error(format_args!("{}: {error}", folder.join(KIND.marker).display()))
    })
}

/// What is left of a run.
struct Done {
    received: Received,
    tally: TallyNow,
    folder: PathBuf,
    state: Arc<RecorderState>,
    /// Whether the run ended before its input did.
    was_cut: bool,
}

impl Done {
    /// Says what became of everything, and whether all of it is accounted for.
    fn tell(
        &self,
        inputs: &Inputs,
        quiet: bool,
        classifier: &Classifier,
        report: &RecorderReport,
        model: &Model,
    ) -> Result<Status, Failure> {
        let status = summary::print(inputs, quiet, &self.received, None)?;
        if !quiet {
            eprint!("{}", log::lines(&self.tally, &classifier.counts(), report, model));
        }
        let handed_out = self.received.handed_out();
        if !self.tally.is_whole() || self.tally.seen != handed_out {
            return Err(Failure::error(format_args!(
                "packets are missing from the count: {handed_out} came in, {} were seen, {} kept, \
                 {} passed over, {} lost; please report this",
                self.tally.seen, self.tally.kept, self.tally.passed_over, self.tally.no_room
            )));
        }
        log::loss(&self.folder, report, &self.state, self.was_cut).map_or(Ok(status), Err)
    }
}

/// The manager's thread sleeps until something happened.
#[derive(Default)]
struct Wake {
    thread: OnceLock<Thread>,
    /// When that was; the first that nobody has looked at yet.
    at: Mutex<Option<Instant>>,
}

impl Wake {
    fn wake(&self) {
        self.at().get_or_insert_with(now);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (ends, woken) = (Arc::clone(&is_over), Arc::clone(&wake));
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Acquire) {
                let at = woken.at().take();
                desk.look(at.unwrap_or_else(now));
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

/// The log as a pipeline wants it. It wakes the manager when something has happened.
struct Book {
    recorder: Recorder,
    state: Arc<RecorderState>,
    progress: Arc<Progress>,
    wake: Arc<Wake>,
    /// Ends the run.
    stop: Arc<AtomicBool>,
    last: Seen,
}

/// What a look at the counters saw.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Seen {
    lost: u64,
    ring_lost: u64,
    queued: u64,
}

impl Keeper for Book {
    #[inline]
    fn expect(&mut self, judged: &Judged) {
        self.recorder.expect(judged);
    }

    #[inline]
    fn keep(&mut self, frame: &Frame<'_>, kept_len: u32, judged: &Judged) -> Kept {
        self.recorder.keep(frame, kept_len, judged)
    }

    fn pass_over(&mut self, frame: &Frame<'_>, judged: &Judged) {
        self.recorder.pass_over(frame, judged);
    }

    fn on_mode(&mut self, table: &Table) {
        self.recorder.on_mode(table);
    }

    fn on_pause(&mut self) {
        self.recorder.on_pause();
        if self.state.stopped().is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
        let seen = Seen {
            lost: self.state.lost_total(),
            ring_lost: self.progress.frames_dropped(),
            queued: self.state.chunks_queued.load(Ordering::Relaxed),
        };
        if seen.ring_lost != self.last.ring_lost {
            let os_dropped = Some(seen.ring_lost);
            let statistics = InterfaceStatistics { os_dropped, ..InterfaceStatistics::default() };
            self.recorder.losses(0, &statistics);
        }
        if seen != self.last {
            self.last = seen;
            self.wake.wake();
        }
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
