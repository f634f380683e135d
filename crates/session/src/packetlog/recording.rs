//! A log that is recorded, from its first packet to its closing lines.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use capture::report::Progress;
use engine::Stage as _;
use engine::run::{Control, spawn_free};
use packet::file::InterfaceStatistics;
use packet::{Batch, Frame, HashSeed};
use packetlog::calibration::{Calibration, DriftCounts, DriftState};
use packetlog::hindsight::{Hindsight, HindsightOptions};
use packetlog::log::{EVENTS_NAME, RecoveryReport, events_len_max};
use packetlog::pipeline::{KeepOutcome, Keeper, Pipeline, TallyNow};
use packetlog::policy::{Granularity, Switch, Table};
use packetlog::reasons::Reason;
use packetlog::recorder::{Recorder, RecorderReport, RecorderState};
use packetlog::{ClassifierCounts, Model, PacketVerdict};
use serde_json::json;

use super::desk::{self, Desk, DeskInputs, Work};
use super::events::{Events, OfLog};
use super::judging::Judging;
use super::offload::{KernelHalf, Offload};
use super::search::{RecorderGuard, RecorderPlace};
use super::settings::Settings;
use super::socket::Socket;
use super::{FileSettings, HindsightSettings, LogError, PacketModel, Tell, WhenFull, drift, log};
use crate::application::Replace;
use crate::clock::Clock;
use crate::drills::Drills;
use crate::live_interfaces::LiveInterfaces;

/// The resources are checked this often, in any case.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is asked of a recorder.
pub struct Ask {
    /// Folder of the log.
    pub folder: PathBuf,
    /// Who judges packets.
    pub model: PacketModel,
    /// What the model is called in events.
    pub model_name: String,
    /// Thresholds of the site, if it was calibrated.
    pub calibration: Option<Calibration>,
    /// The mode to begin in.
    pub mode: String,
    /// Modes, priorities and limits.
    pub settings: Settings,
    /// How the log is written.
    pub files: FileSettings,
    /// How long packets wait before they are truncated.
    pub hindsight: HindsightSettings,
    /// Whether the mode stays under pressure.
    pub is_fixed: bool,
    /// Where packets are classified and cut, if not in user space.
    pub offload: Option<Offload>,
    /// A file for events; that in the log's folder where there is none.
    pub events: Option<PathBuf>,
    /// Where others of the run find the recorder.
    pub place: RecorderPlace,
}

/// The run that a log is part of.
pub(super) struct RunOf {
    /// Spreads keys.
    pub(super) seed: HashSeed,
    /// How far reading is, and what was lost on the way.
    pub(super) progress: Arc<Progress>,
    /// Ends the run, where the log can take no more.
    pub(super) control: Arc<Control>,
    /// Time outside of event time.
    pub(super) clock: Clock,
    /// Whether frames come from an interface.
    pub(super) is_live: bool,
    /// Prints events for users, if they want them.
    pub(super) tell: Option<Tell>,
    /// Tells people what a recorder before had left unfinished.
    pub(super) tell_recovered: Option<Tell>,
    /// Prints warnings that traffic is not as calibrated.
    pub(super) tell_drift: Option<Tell>,
    /// Faults on purpose.
    pub(super) drills: Drills,
}

/// A log that is recorded.
pub(super) struct Recording {
    pipeline: Pipeline<Judging, Book>,
    drift: Option<Arc<DriftState>>,
    tell_drift: Option<Tell>,
    desk: Arc<Desk>,
    work: Arc<Work>,
    state: Arc<RecorderState>,
    model: Arc<Model>,
    folder: PathBuf,
    clock: Clock,
    manager: Managing,
    socket: Socket,
    found: RecorderGuard,
    overwrites: bool,
    kernel: Option<Arc<KernelHalf>>,
}

impl Ask {
    /// Checks what can be checked before there is a log: modes that the model does not fit, and
    /// blocks that memory does not hold.
    ///
    /// # Errors
    /// [`LogError::Usage`]
    pub fn check(&self) -> Result<(), LogError> {
        self.check_modes()?;
        self.hindsight()?;
        Offload::check(self).map_err(|why| LogError::usage(format_args!("--offload {why}")))?;
        log::block_len(&self.files).map(|_| ())
    }

    fn hindsight(&self) -> Result<Option<HindsightOptions>, LogError> {
        let options = self.hindsight.options();
        options.map_err(|(key, wanted)| LogError::usage(format_args!("--{key}: {wanted}")))
    }

    pub(super) fn check_modes(&self) -> Result<(), LogError> {
        let classes = self.model.model.classes();
        desk::table(&self.settings, classes, &self.mode)
            .map_err(|reason| LogError::usage(format_args!("--mode: {reason}")))?;
        // Any of the modes may have to be put in force later, when nobody is there to be told.
        for mode in &self.settings.modes {
            mode.table(classes).map_err(LogError::usage)?;
        }
        Ok(())
    }
}

impl Recording {
    /// Opens the log, and puts right what an earlier recorder left. `interfaces` are described in
    /// it; those of captures are as frames come.
    ///
    /// # Errors
    /// [`LogError`]
    pub(super) fn begin(
        ask: Ask,
        run: RunOf,
        interfaces: LiveInterfaces,
    ) -> Result<Self, LogError> {
        let hindsight = ask.hindsight()?.map(|options| Hindsight::new(options, run.seed));
        let (calibration, offload, place) = (ask.calibration, ask.offload, ask.place);
        let Ask { folder, model, model_name, mode, mut settings, files, is_fixed, events, .. } =
            ask;
        let RunOf { seed, progress, control, clock, is_live, drills, .. } = run;
        let RunOf { tell, tell_recovered, tell_drift, .. } = run;
        let overwrites = files.when_full == WhenFull::Overwrite;
        settings.limits.overwrites |= overwrites;
        let table = desk::table(&settings, model.model.classes(), &mode)
            .map_err(|reason| LogError::usage(format_args!("--mode: {reason}")))?;
        // What the kernel refuses, and a name that cannot be written, end it before there is a log.
        let described = interfaces.described_from(0);
        let judging = Judging::new(offload, &model, seed, calibration, (&described, &table))?;
        let model = model.model;
        let named = events.map(|path| Events::append(&path, None, clock, tell)).transpose()?;
        let disk = drills.slow_disk(&control);
        let (recorder, recovered) =
            log::create(&folder, &files, &settings, &model, clock, is_live, disk)?;
        let own = || {
            let len_max = events_len_max(files.keep_bytes);
            let of_log = OfLog { access: log::access(&files), len_max };
            Events::append(&folder.join(EVENTS_NAME), Some(of_log), clock, tell)
        };
        let events = named.map_or_else(own, Ok)?;
        let switch = Arc::new(Switch::new(&mode, table.clone()));
        let work = Arc::new(Work::default());
        let (judge, kernel, halves) = judging.with(Arc::clone(&switch), &table);
        if let Some(tell) = tell_recovered {
            begin_lines(&recovered, kernel.as_deref()).iter().for_each(|line| tell(line));
        }
        let (drift, reasons) = (judge.drift(), judge.reason_tally());
        let wake = Arc::new(Wake::new(clock));
        let state = recorder.state();
        let of_run = (Arc::clone(&progress), Arc::clone(&wake), control.flag());
        let book = Book::new(recorder, interfaces, of_run);
        let pipeline = Pipeline::new(judge, book, switch, seed).with_hindsight(hindsight);
        let writer = log::Watcher::new(Arc::clone(&state), reasons, &files, kernel.clone());
        let watched = DeskInputs {
            switch: halves,
            tally: pipeline.tally(),
            progress,
            work: Arc::clone(&work),
            drift: drift.clone(),
            writer: Box::new(writer),
            clock,
        };
        let is_fixed = is_fixed || !is_live;
        let desk = Arc::new(Desk::new(settings, model.classes(), &mode, is_fixed, watched, events));
        let socket = Socket::listen(&folder, Arc::clone(&desk))?;
        let found = place.put(Arc::clone(&desk));
        let manager = Managing::start(Arc::clone(&desk), wake, clock);
        desk.event("begin", json!({"mode": mode, "model": model_name}));
        drills.names().iter().for_each(|drill| desk.event("drill", json!({"simulate": drill})));
        Ok(Self {
            pipeline,
            drift,
            tell_drift,
            desk,
            work,
            state,
            model,
            folder,
            clock,
            manager,
            socket,
            found,
            overwrites,
            kernel,
        })
    }

    /// Takes models in place of the one in force, where that can be done.
    pub(super) fn replacing(&self) -> Option<Replace> {
        let kernel = self.kernel.clone()?;
        let desk = self.desk();
        Some(Box::new(move |asked| {
            let Some(model) = asked.downcast_ref::<PacketModel>() else { return Ok(None) };
            if !kernel.take_up(model)? {
                return Ok(None);
            }
            desk.event("model", json!({"sha256": model.sha256}));
            Ok(Some(format!("the model was replaced by {}", model.sha256)))
        }))
    }

    /// Packets that it has taken in.
    pub(super) fn seen(&self) -> u64 {
        self.pipeline.tally().now().seen
    }

    /// Who says how it is doing, also when it has ended.
    pub(super) fn desk(&self) -> Arc<Desk> {
        Arc::clone(&self.desk)
    }

    /// Judges and keeps the packets of a batch. One without packets, on a silent link, has what
    /// waits written.
    pub(super) fn take_in(&mut self, batch: &Batch<'_>) {
        let begun = (self.clock.now)();
        self.pipeline.on_batch(batch);
        self.warn_of_drift();
        self.work.add((self.clock.now)().saturating_duration_since(begun));
    }

    /// Judges the packets of a batch; [`keep`](Self::keep) has to follow.
    pub(super) fn judge(&mut self, batch: &Batch<'_>) -> &[PacketVerdict] {
        let begun = (self.clock.now)();
        let judged = self.pipeline.judge(batch);
        self.work.add((self.clock.now)().saturating_duration_since(begun));
        judged
    }

    /// Keeps the packets that were judged, those by `steer` of which it says anything, by their
    /// place in the batch.
    pub(super) fn keep(
        &mut self,
        batch: &Batch<'_>,
        steer: impl FnMut(usize) -> Option<Granularity>,
    ) {
        let begun = (self.clock.now)();
        self.pipeline.keep(batch, steer);
        self.warn_of_drift();
        self.work.add((self.clock.now)().saturating_duration_since(begun));
    }

    /// Says what was noticed since the last batch.
    fn warn_of_drift(&self) {
        let Some(state) = &self.drift else { return };
        for warning in state.warnings() {
            self.desk.event("calibration", drift::event(&warning));
            if let Some(tell) = self.tell_drift {
                tell(&drift::line(&warning));
            }
        }
    }

    /// The input has ended; `was_cut` says that it was before it did so by itself.
    ///
    /// # Errors
    /// [`LogError`]: the log could not be finished.
    pub(super) fn finish(self, was_cut: bool) -> Result<RecordingOutcome, LogError> {
        let Self {
            pipeline,
            drift,
            desk,
            state,
            model,
            folder,
            manager,
            socket,
            found,
            overwrites,
            ..
        } = self;
        drop(manager);
        drop(socket);
        let tally = pipeline.tally();
        // What waits is kept first.
        let (judge, book) = pipeline.into_parts();
        let tally = tally.now();
        let report = book.recorder.finish().map_err(LogError::error)?;
        desk.event("end", log::report_json(&report));
        drop(found);
        let (counts, drift) = (judge.counts(), drift.map(|state| state.counts()));
        Ok(RecordingOutcome {
            tally,
            counts,
            kernel_line: judge.kernel_line(),
            kernel_loss: judge.kernel_loss(),
            drift,
            report,
            model,
            folder,
            state,
            desk,
            was_cut,
            overwrites,
        })
    }
}

/// What is said before the first packet.
fn begin_lines(recovered: &RecoveryReport, kernel: Option<&KernelHalf>) -> Vec<String> {
    let line = log::recovered_line(recovered);
    let recovered = line.map(|line| format!("the previous recorder did not end cleanly: {line}"));
    recovered.into_iter().chain(kernel.map(KernelHalf::begin_lines).unwrap_or_default()).collect()
}

/// What is left of a recording.
pub(super) struct RecordingOutcome {
    /// Packets by outcome.
    pub(super) tally: TallyNow,
    /// How they were judged.
    pub(super) counts: ClassifierCounts,
    kernel_line: String,
    kernel_loss: Option<String>,
    drift: Option<DriftCounts>,
    report: RecorderReport,
    model: Arc<Model>,
    folder: PathBuf,
    state: Arc<RecorderState>,
    desk: Arc<Desk>,
    was_cut: bool,
    overwrites: bool,
}

impl RecordingOutcome {
    /// The closing lines.
    #[must_use]
    pub(super) fn lines(&self) -> String {
        let lines = log::lines(&self.tally, &self.counts, &self.report, &self.model);
        lines + &self.kernel_line + &self.drift.as_ref().map(drift::lines).unwrap_or_default()
    }

    /// Checks that every packet that was seen was judged, and kept, passed over or lost. How many
    /// came in, the run knows.
    ///
    /// # Errors
    /// [`LogError`]: packets are missing from the count, a fault of ours.
    pub(super) fn check_account(&self) -> Result<(), LogError> {
        let (tally, judged) = (&self.tally, self.counts.by_flow + self.counts.by_packet);
        if tally.is_whole() && tally.seen == judged {
            return Ok(());
        }
        Err(LogError::error(format_args!(
            "packets are missing from the count: {judged} were classified, {} seen, {} stored, {} \
             skipped, {} lost; please report this",
            tally.seen, tally.kept, tally.passed_over, tally.no_room
        )))
    }

    /// Checks that what was to be kept is kept, and every event written.
    ///
    /// # Errors
    /// [`LogError`]: packets or events are lost.
    pub(super) fn check_losses(&self) -> Result<(), LogError> {
        let Self { folder, report, state, .. } = self;
        let in_kernel = || self.kernel_loss.as_ref().map(LogError::error);
        match log::loss(folder, report, state, self.was_cut, self.overwrites).or_else(in_kernel) {
            Some(loss) => Err(loss),
            None => self.desk.events_complete(),
        }
    }
}

/// The manager's thread sleeps until something happened.
struct Wake {
    clock: Clock,
    thread: OnceLock<Thread>,
    /// When that was; the first that nobody has looked at yet.
    at: Mutex<Option<Instant>>,
}

impl Wake {
    fn new(clock: Clock) -> Self {
        Self { clock, thread: OnceLock::new(), at: Mutex::default() }
    }

    fn wake(&self) {
        self.at().get_or_insert_with(self.clock.now);
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
    fn start(desk: Arc<Desk>, wake: Arc<Wake>, clock: Clock) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, woken) = (Arc::clone(&is_over), Arc::clone(&wake));
        let thread = spawn_free("log-manager", move || {
            while !ends.load(Ordering::Acquire) {
                let at = woken.at().take();
                desk.look(at.unwrap_or_else(clock.now));
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
    interfaces: LiveInterfaces,
    /// Numbers of interfaces below this one are described in the log.
    described: u32,
}

/// What a look at the counters saw.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Seen {
    lost: u64,
    ring_lost: u64,
    queued: u64,
}

impl Book {
    fn new(
        recorder: Recorder,
        interfaces: LiveInterfaces,
        (progress, wake, stop): (Arc<Progress>, Arc<Wake>, Arc<AtomicBool>),
    ) -> Self {
        let (state, last) = (recorder.state(), Seen::default());
        let mut book =
            Self { recorder, state, progress, wake, stop, last, interfaces, described: 0 };
        book.describe();
        if book.described == 0 {
            // They are as frames come.
            book.described = u32::MAX;
        }
        book
    }

    /// Describes interfaces that were added, before anything of theirs is kept.
    #[cold]
    fn describe(&mut self) {
        let Ok(first) = u16::try_from(self.described) else { return };
        let described = self.interfaces.described_from(first);
        for (number, interface) in (first..=u16::MAX).zip(&described) {
            self.recorder.interface(number, interface);
            self.described = u32::from(number) + 1;
        }
    }
}

impl Keeper for Book {
    #[inline]
    fn expect(&mut self, judged: &PacketVerdict) {
        self.recorder.expect(judged);
    }

    #[inline]
    fn keep(&mut self, frame: &Frame<'_>, kept_len: u32, judged: &PacketVerdict) -> KeepOutcome {
        if u32::from(frame.record.interface) >= self.described {
            self.describe();
        }
        self.recorder.keep(frame, kept_len, judged)
    }

    fn pass_over(&mut self, frame: &Frame<'_>, judged: &PacketVerdict) {
        self.recorder.pass_over(frame, judged);
    }

    fn explain(&mut self, reason: &Reason) {
        self.recorder.explain(reason);
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
