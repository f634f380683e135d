//! Taps: what passes devices in network namespaces, written to captures and counted exactly.
//!
//! Each tap is a packet socket with a thread that writes, and a program at tc that counts. Both
//! take what passes between the same two moments, so that a capture can be held against a count
//! that cannot drop. All are ready before the first moment, and end at the same second one.

mod capture_file;
mod timer;
mod window;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use capture::live::{self, LiveOptions, LiveSource, Passing};
use capture::tap::{Moment, TapCounter, TapCounts};
use capture::{Place, ReadOptions, Report};
use packet::file::{Comments, Interface, InterfaceStatistics, Section};
use packet::{Source as _, Span};

use crate::TestbedError;
use crate::lateness::Lateness;
use crate::lines::Lines;

use capture_file::CaptureFile;
use timer::TimerThread;
use window::Window;

/// The end is noticed after at most so long where nothing comes.
const END_NOTICED_AFTER: Span = Span::from_ns(10_000_000);

/// A block is handed over when its time is up, however little it holds, so a ring of few blocks
/// bridges little time: these, of the 32 MiB that are usual, six seconds. Nobody waits for a
/// frame while it is recorded. The longest frame fits four times.
const BLOCK_TIMEOUT_MS: u32 = 50;
const BLOCK_SIZE_BYTES: usize = 256 << 10;

/// A device that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapSettings {
    /// Which device.
    pub place: Place,
    /// What of it.
    pub passing: Passing,
    /// Where to.
    pub file: PathBuf,
}

/// A device at which is only counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountSettings {
    /// Which device.
    pub place: Place,
    /// What of it.
    pub passing: Passing,
}

/// What is to be recorded, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Devices that are recorded.
    pub taps: Vec<TapSettings>,
    /// Devices at which is only counted.
    pub counts: Vec<CountSettings>,
    /// Bytes kept of each frame.
    pub snaplen: u32,
    /// Memory in which the kernel puts the frames of one tap.
    pub ring_size_bytes: usize,
    /// Says in each capture what it is; may be empty.
    pub comment: String,
    /// Who writes the captures.
    pub application: String,
}

/// What a tap has recorded.
#[derive(Clone, Debug, Default)]
pub struct TapReport {
    /// Frames in the capture.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets they stand for on the wire, as far as the kernel tells it.
    pub segments: u64,
    /// Frames that the ring had no room for.
    pub dropped: u64,
    /// Times that the ring was full.
    pub freezes: u64,
    /// Frames that the kernel handed over and that were not read: none, unless the ring was
    /// damaged.
    pub unread: u64,
    /// Why it ended early, if it did.
    pub damage: Option<String>,
}

/// What taps and counters have seen, in the order of the settings.
#[derive(Clone, Debug, Default)]
pub struct RecordReport {
    /// Of each tap what was recorded, and what was counted beside it.
    pub taps: Vec<(TapReport, TapCounts)>,
    /// Of each counter.
    pub counts: Vec<TapCounts>,
    /// How late a thread was woken that asked for it every millisecond.
    pub lateness: Lateness,
}

type Writing = JoinHandle<Result<TapReport, TestbedError>>;

/// Taps that are open, from the moment of [`Recording::open`] until it is ended.
#[derive(Debug)]
pub struct Recording {
    window: Arc<Window>,
    start: Moment,
    /// Ends the reading of the rings.
    stop: Arc<AtomicBool>,
    writers: Vec<Writing>,
    /// Beside each tap and then each place at which is only counted.
    counters: Vec<(Place, TapCounter)>,
    timer: TimerThread,
}

impl Recording {
    /// Opens all taps. Everything that passes after the return is recorded.
    ///
    /// # Errors
    /// A namespace cannot be entered, a device not be listened on or counted at, or a file
    /// not be made.
    pub fn open(settings: &Settings) -> Result<Self, TestbedError> {
        let window = Arc::new(Window::default());
        let stop = Arc::new(AtomicBool::new(false));
        // Counters first: a ring that is filled while programs are loaded would overflow.
        let taps = settings.taps.iter().map(|tap| (&tap.place, tap.passing));
        let others = settings.counts.iter().map(|at| (&at.place, at.passing));
        let counters = taps.chain(others).map(|(place, passing)| {
            let counter = inside(place, || count_at(place, passing))?;
            Ok((place.clone(), counter))
        });
        let mut counters = counters.collect::<Result<Vec<_>, _>>()?;
        let writers = settings.taps.iter().map(|tap| start_tap(tap, settings, &window, &stop));
        let writers = writers.collect::<Result<Vec<_>, _>>().inspect_err(|_| {
            // Those that were started are not waited for: nothing depends on them any more.
            stop.store(true, Ordering::Relaxed);
        })?;
        let start = window.begin(|start| tell(&mut counters, start, None))?;
        Ok(Self { window, start, stop, writers, counters, timer: TimerThread::start() })
    }

    /// Waits for the end of the commands, or for the one that there is, `stop`.
    ///
    /// # Errors
    /// Another one was given.
    pub fn wait(&self, commands: &File) -> Result<(), TestbedError> {
        let mut lines = Lines::new(commands);
        loop {
            let heard = lines.read().map_err(TestbedError::Wait)?;
            match heard.lines.first().map(String::as_str) {
                None if heard.is_end => return Ok(()),
                None => {}
                Some("stop") => return Ok(()),
                Some(line) => {
                    return Err(TestbedError::Command(format!(
                        "`{line}` is not a command of a recording; wanted `stop`"
                    )));
                }
            }
        }
    }

    /// Ends all taps. Everything that passed before the call is in the captures.
    ///
    /// # Errors
    /// A capture could not be written.
    pub fn end(mut self) -> Result<RecordReport, TestbedError> {
        let (start, counters) = (self.start, &mut self.counters);
        self.window.end(|stop| tell(counters, start, Some(stop)))?;
        self.stop.store(true, Ordering::Relaxed);
        let lateness = self.timer.end()?;
        let mut recorded = Vec::new();
        for writer in self.writers {
            recorded.push(writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        let counts = self.counters.iter().map(|(place, counter)| {
            counter.counts().map_err(|error| TestbedError::Count { place: place.clone(), error })
        });
        let mut counts = counts.collect::<Result<Vec<_>, _>>()?;
        let rest = counts.split_off(recorded.len());
        let taps = recorded.into_iter().zip(counts).collect();
        Ok(RecordReport { taps, counts: rest, lateness })
    }
}

/// What `open` returns in the namespace of a place.
fn inside<T: Send>(
    place: &Place,
    open: impl FnOnce() -> Result<T, TestbedError> + Send,
) -> Result<T, TestbedError> {
    let failed = |error| TestbedError::Namespace { place: place.clone(), error };
    place.inside(open).map_err(failed)?
}

/// Opens a tap and has it read and written from now on.
fn start_tap(
    tap: &TapSettings,
    settings: &Settings,
    window: &Arc<Window>,
    stop: &Arc<AtomicBool>,
) -> Result<Writing, TestbedError> {
    let source = inside(&tap.place, || listen_at(tap, settings, stop))?;
    let file = create(tap, &source, settings)?;
    let (path, window) = (tap.file.clone(), Arc::clone(window));
    Ok(thread::spawn(move || {
        write_all(source, file, &window).map_err(|error| TestbedError::File { path, error })
    }))
}

fn count_at(place: &Place, passing: Passing) -> Result<TapCounter, TestbedError> {
    TapCounter::attach(&place.device, passing)
        .map_err(|error| TestbedError::Count { place: place.clone(), error })
}

fn listen_at(
    tap: &TapSettings,
    settings: &Settings,
    stop: &Arc<AtomicBool>,
) -> Result<LiveSource, TestbedError> {
    let options = LiveOptions {
        ring_size_bytes: settings.ring_size_bytes,
        block_size_bytes: BLOCK_SIZE_BYTES,
        block_timeout_ms: BLOCK_TIMEOUT_MS,
        // What a network of our own sends, each device gets in any case.
        is_promiscuous: false,
        passing: tap.passing,
        tick: END_NOTICED_AFTER,
        ..LiveOptions::default()
    };
    let read =
        ReadOptions { snaplen: settings.snaplen, stop: Arc::clone(stop), ..ReadOptions::default() };
    let failed = |error| TestbedError::Listen { place: tap.place.clone(), error };
    let mut sources = live::open(&tap.place.device, &options, &read).map_err(failed)?;
    // One socket was asked for.
    sources.pop().ok_or_else(|| TestbedError::Wait(std::io::ErrorKind::NotFound.into()))
}

fn create(
    tap: &TapSettings,
    source: &LiveSource,
    settings: &Settings,
) -> Result<CaptureFile, TestbedError> {
    let texts = Some(settings.comment.clone()).filter(|text| !text.is_empty());
    let section = Section {
        application: settings.application.clone(),
        comments: Comments { texts: texts.into_iter().collect(), ..Comments::default() },
        ..Section::default()
    };
    let interface = Interface {
        link: source.link().unwrap_or_default(),
        // In a capture, none is the word for all.
        snaplen: if settings.snaplen == u32::MAX { 0 } else { settings.snaplen },
        name: tap.place.device.clone(),
        description: describe(tap),
        ..Interface::default()
    };
    let has_directions = tap.passing == Passing::Both;
    CaptureFile::create(&tap.file, &section, &interface, has_directions)
        .map_err(|error| TestbedError::File { path: tap.file.clone(), error })
}

fn describe(tap: &TapSettings) -> String {
    let what = match tap.passing {
        Passing::Both => "all that passes",
        Passing::In => "what it receives",
        Passing::Out => "what it sends",
    };
    format!("in the network namespace {}, {what}", tap.place.namespace)
}

/// Tells all counters between which moments to count.
fn tell(
    counters: &mut [(Place, TapCounter)],
    start: Moment,
    stop: Option<Moment>,
) -> Result<(), TestbedError> {
    counters.iter_mut().try_for_each(|(place, counter)| {
        counter
            .count_between(start, stop)
            .map_err(|error| TestbedError::Count { place: place.clone(), error })
    })
}

/// Writes what a tap shows until its end.
fn write_all(
    mut source: LiveSource,
    mut file: CaptureFile,
    window: &Window,
) -> std::io::Result<TapReport> {
    let mut recorded = TapReport::default();
    while let Some(batch) = source.next_batch() {
        for frame in batch.frames().filter(|frame| window.holds(frame.record.timestamp)) {
            file.write(&frame)?;
            recorded.packets += 1;
            recorded.bytes += u64::from(frame.record.wire_len);
            recorded.segments += u64::from(frame.record.segments);
        }
    }
    let report = source.report();
    recorded.dropped = report.dropped.total();
    recorded.freezes = report.freezes;
    recorded.unread = report.unread;
    recorded.damage = report.damage.as_ref().map(ToString::to_string);
    file.finish(&statistics(report, &recorded, window))?;
    Ok(recorded)
}

fn statistics(report: &Report, recorded: &TapReport, window: &Window) -> InterfaceStatistics {
    let (start, end) = window.bounds();
    InterfaceStatistics {
        timestamp: end,
        start: Some(start),
        end: Some(end),
        received: Some(report.received),
        os_dropped: Some(report.dropped.total()),
        delivered: Some(recorded.packets),
        ..InterfaceStatistics::default()
    }
}
