//! From a request to sources, and sources through stages.
//!
//! Nothing here knows who asks: the command, whose arguments become an [`InputRequest`], or the
//! Python package. Nothing here prints: a door that shows progress lends a [`Painter`].

use std::any::Any;
use std::fmt;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use capture::distinct::Distinct;
use capture::input::{InputList, resolve};
use capture::limited::FrameLimit;
use capture::live::{self, LiveOptions, LiveSeveral, LiveSource};
use capture::merged::MergedSource;
use capture::split::{parts_agree, split};
use capture::{Damage, DamageCause, FilterError};
use capture::{
    FileSource, Filter, Input, OpenError, Progress, ReadOptions, Report, UnusedFrames, open,
};
use engine::group::Outcome;
use engine::run::{Control, RunOutcome, run, run_one};
use engine::{Fold, PartitionShare, Stage};
use packet::dissect::DissectOptions;
use packet::{HashSeed, LinkType, Span};

pub use crate::in_order::InOrder;
pub use crate::live_interfaces::LiveInterfaces;

/// Bytes kept of frames from an interface: headers with options and extensions, in a tunnel or two.
const HEADERS_KEPT_LEN: u32 = 256;

/// Parts per thread: enough that no thread waits long for the last one.
const PARTS_PER_THREAD: usize = 4;

/// Begins a picture of how far reading is, of so many bytes where that is known; it ends when what
/// is returned is dropped.
pub type Painter = fn(&Arc<Progress>, Option<u64>) -> Box<dyn Any>;

/// Which frames to read, and how, for every front end.
#[derive(Clone, Debug)]
pub struct InputRequest {
    /// Captures: files, folders of captures, or `-` for standard input.
    pub names: Vec<PathBuf>,
    /// The interface to listen on instead.
    pub interface: Option<Interface>,
    /// Only frames that pass this expression (pcap-filter(7)); blank text is no filter.
    pub filter: Option<String>,
    /// Stop after this many frames, in order of time.
    pub count: Option<u64>,
    /// Use only so many bytes of each frame; as tcpdump has it, 0 sets no limit.
    pub snaplen: Option<u32>,
    /// Leave out packets that are like one of so long before them; nothing keeps all.
    pub drop_duplicates: Option<Span>,
    /// Whether tunnels are opened, so that packets are reported by their inner headers.
    pub decapsulate: bool,
    /// Threads to use; one per core unless given.
    pub thread_count: Option<usize>,
    /// Of the flows in these frames, those that are kept.
    pub share: PartitionShare,
    /// Shows how far reading is, where a person waits for it.
    pub painter: Option<Painter>,
}

/// An interface, or several, and how they are listened on.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Their names; alone, `any`.
    pub names: Vec<String>,
    /// Settings; the number of sockets is set by what is asked for.
    pub options: LiveOptions,
}

impl Default for InputRequest {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            interface: None,
            filter: None,
            count: None,
            snaplen: None,
            drop_duplicates: None,
            decapsulate: true,
            thread_count: None,
            share: PartitionShare::WHOLE,
            painter: None,
        }
    }
}

impl InputRequest {
    /// Whether a folder is read, or more than one name: then rows say which capture they are from.
    #[must_use]
    pub fn asks_for_several(&self) -> bool {
        self.names.len() > 1 || self.names.iter().any(|name| name.is_dir())
    }
}

/// Why inputs cannot be read at all.
#[derive(Debug)]
pub enum InputError {
    /// Neither captures nor an interface.
    Nothing,
    /// Captures and an interface.
    Both,
    /// Standard input was named more than once.
    StdinTwice,
    /// A snaplen that cuts off what is needed.
    SnaplenShort {
        /// Bytes that were asked for.
        snaplen: u32,
        /// What is needed.
        needs: Needs,
    },
    /// One of them cannot be opened, or the filter cannot be used on it.
    Open(OpenError),
}

impl From<OpenError> for InputError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<FilterError> for InputError {
    fn from(error: FilterError) -> Self {
        Self::Open(error.into())
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str(
                "nothing to read; captures are given with -r FILE, an interface with -i NAME",
            ),
            Self::Both => {
                f.write_str("-r and -i: captures and an interface cannot be read in one run")
            }
            Self::SnaplenShort { snaplen, needs: Needs { stage, len, .. } } => write!(
                f,
                "-s {snaplen}: too short for {stage}, which reads headers in the first {len} bytes \
                 of each frame; leave -s out, or give at least {len}"
            ),
            Self::StdinTwice => f.write_str("-r -: standard input can be read only once"),
            Self::Open(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InputError {}

/// What a stage has to see of each frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Who needs it.
    pub stage: &'static str,
    /// Bytes from the frame's beginning.
    pub len: u32,
    /// Whether it can use all that follows as well.
    pub takes_all: bool,
}

impl Needs {
    /// Link and network headers: Ethernet with a tag, and IPv6.
    pub const NETWORK_LEN: u32 = 58;
    /// Transport headers as well: 20 bytes of TCP.
    pub const TRANSPORT_LEN: u32 = 78;

    /// Bytes of each frame after its headers that are read.
    #[must_use]
    pub const fn payload_len_max(&self) -> u32 {
        if self.takes_all { u32::MAX } else { self.len.saturating_sub(Self::TRANSPORT_LEN) }
    }
}

/// Open sources.
pub enum OpenSources {
    /// Of captures.
    Files(Vec<FileSource>),
    /// Of an interface: they share its frames.
    Live(Vec<LiveSource>),
    /// Of several interfaces, one each.
    Several(Vec<LiveSource>),
}

impl OpenSources {
    /// What listens, one for each interface.
    #[must_use]
    pub fn listening(&self) -> &[LiveSource] {
        match self {
            Self::Files(_) => &[],
            Self::Live(sources) => sources.get(..1).unwrap_or_default(),
            Self::Several(sources) => sources,
        }
    }

    /// The interfaces that are listened on, as a capture describes them and in the order of their
    /// numbers in records; captures describe theirs as frames come.
    #[must_use]
    pub fn interfaces(&self) -> Vec<packet::file::Interface> {
        let described = |source: &LiveSource| {
            let name = source.name().to_owned();
            Some(packet::file::Interface { link: source.link()?, name, ..Default::default() })
        };
        self.listening().iter().filter_map(described).collect()
    }
}

/// What is to be read, found and checked.
pub struct Inputs {
    /// The captures that the names came to.
    pub resolved: InputList,
    /// How each is read.
    pub options: ReadOptions,
    /// Threads to use, at least 1.
    pub thread_count: usize,
    /// The interface to listen on instead of captures.
    pub interface: Option<Interface>,
    /// The interfaces that are listened on now, once the run has begun.
    pub live: LiveInterfaces,
    /// Frames to stop after.
    pub count: Option<u64>,
    /// Leave out packets that are like one of so long before them; nothing keeps all.
    pub drop_duplicates: Option<Span>,
    /// Stops the run.
    pub control: Arc<Control>,
    /// Whether rows say which capture they are from.
    pub asks_for_several: bool,
    painter: Option<Painter>,
}

/// The outcome of frames before they reached a stage.
#[derive(Default)]
pub struct ReceiveOutcome {
    /// Of all inputs together.
    pub report: Report,
    /// Why captures could not be read to their ends.
    pub damages: Vec<Damage>,
}

/// Frames are missing from the count: a fault of ours, never of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountingError {
    handed_out: u64,
    known: u64,
}

impl fmt::Display for AccountingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { handed_out, known } = self;
        write!(
            f,
            "packets are missing from the count: {handed_out} received, {known} accounted for; \
             please report this"
        )
    }
}

impl std::error::Error for AccountingError {}

impl Inputs {
    /// Interfaces, or captures without their folders: a report may go far.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = |input: &Input| match input {
            Input::Stdin => String::from("-"),
            Input::File(path) => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
        };
        let open = self.live.open_names();
        match &self.interface {
            Some(_) if !open.is_empty() => open,
            Some(interface) => interface.names.clone(),
            None => self.resolved.inputs.iter().map(name).collect(),
        }
    }

    /// The same whenever it is asked: a reload changes interfaces.
    pub fn naming(&self) -> impl Fn() -> Vec<String> + Send + Sync + use<> {
        let (names, live) = (self.names(), self.live.clone());
        move || {
            let open = live.open_names();
            if open.is_empty() { names.clone() } else { open }
        }
    }

    /// Finds the inputs and opens the filter's compiler. `transport` tells whether transport
    /// headers are needed; `control` stops the run, from a signal or another thread.
    ///
    /// # Errors
    /// [`InputError`]: a name that is nothing, or a filter where libpcap is missing.
    pub fn find(
        request: &InputRequest,
        transport: bool,
        control: Arc<Control>,
    ) -> Result<Self, InputError> {
        if request.names.iter().filter(|name| name.as_os_str() == "-").count() > 1 {
            return Err(InputError::StdinTwice);
        }
        match (&request.interface, request.names.as_slice()) {
            (None, []) => return Err(InputError::Nothing),
            (Some(_), [_, ..]) => return Err(InputError::Both),
            _ => {}
        }
        let resolved = resolve(&request.names)?;
        let expression = request.filter.as_deref().unwrap_or_default();
        let filter =
            if expression.trim().is_empty() { None } else { Some(Filter::new(expression)?) };
        let options = ReadOptions {
            dissect: DissectOptions { decapsulate: request.decapsulate, transport },
            filter,
            // As tcpdump has it, 0 sets no limit.
            snaplen: request.snaplen.filter(|&snaplen| snaplen > 0).unwrap_or(u32::MAX),
            progress: Arc::default(),
            stop: control.flag(),
        };
        // A link is read by one thread unless more are asked for: while it keeps
        // up, others would cost more than they bring.
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let thread_count = if request.interface.is_some() { 1 } else { cores };
        Ok(Self {
            resolved,
            options,
            interface: request.interface.clone(),
            live: LiveInterfaces::default(),
            thread_count: request.thread_count.unwrap_or(thread_count).max(1),
            count: request.count,
            drop_duplicates: request.drop_duplicates,
            control,
            asks_for_several: request.asks_for_several(),
            painter: request.painter,
        })
    }

    /// Opens every capture and compiles the filter for what it says of itself.
    ///
    /// # Errors
    /// [`InputError::Open`] with the first that cannot be opened or filtered.
    pub fn open(&self) -> Result<Vec<FileSource>, InputError> {
        let open_one = |input| {
            let source = open(input, &self.options)?;
            if let Some(filter) = &self.options.filter {
                for link in source.first_links() {
                    filter.compile(link)?;
                }
            }
            Ok(source)
        };
        self.resolved.inputs.iter().map(open_one).collect()
    }

    /// Opens the captures, or up to `socket_count` sockets on the interface.
    ///
    /// # Errors
    /// As [`open`](Self::open), or the interface cannot be listened on.
    pub fn open_any(&self, needs: Needs, socket_count: usize) -> Result<OpenSources, InputError> {
        let Some(Interface { names, options }) = &self.interface else {
            return Ok(OpenSources::Files(self.open()?));
        };
        let snaplen = self.options.snaplen;
        if snaplen < needs.len {
            return Err(InputError::SnaplenShort { snaplen, needs });
        }
        let is_one = names.len() <= 1;
        let socket_count = if self.needs_order() || !is_one { 1 } else { socket_count };
        let socket_count = u16::try_from(socket_count.max(1)).unwrap_or(u16::MAX);
        let options = LiveOptions { socket_count, ..options.clone() };
        let read = self.live_reading(needs);
        let mut opened = Vec::new();
        for name in names {
            opened.extend(live::open(name, &options, &read)?);
        }
        Ok(if is_one { OpenSources::Live(opened) } else { OpenSources::Several(opened) })
    }

    /// How interfaces are read: nothing that follows what is needed is kept.
    pub(crate) fn live_reading(&self, needs: Needs) -> ReadOptions {
        let kept_len = HEADERS_KEPT_LEN.saturating_add(needs.payload_len_max());
        ReadOptions { snaplen: self.options.snaplen.min(kept_len), ..self.options.clone() }
    }

    /// Runs one stage over everything, in any order, on all threads.
    ///
    /// # Errors
    /// A capture that has to be opened anew, since a place to cut it was guessed wrong, and is
    /// no longer there.
    pub fn run_unordered<T: Stage + Fold + Send>(
        &self,
        opened: OpenSources,
        make_stage: impl Fn() -> T + Sync,
    ) -> Result<(T, ReceiveOutcome), InputError> {
        let sources = match opened {
            OpenSources::Files(sources) if !self.needs_order() => sources,
            OpenSources::Live(sources) if !self.needs_order() => {
                let RunOutcome { stage, sources } =
                    run(sources, self.thread_count, &make_stage, &self.control);
                return Ok((stage, ReceiveOutcome::of_live(sources)));
            }
            opened => return Ok(self.run_in_order(opened, make_stage())),
        };
        let part_count =
            if self.thread_count == 1 { 1 } else { self.thread_count * PARTS_PER_THREAD };
        let bar = self.bar();
        let mut groups = Vec::new();
        let mut parts = Vec::new();
        for source in sources {
            let split = split(source, part_count);
            groups.push(split.len());
            parts.extend(split);
        }
        let finished = run(parts, self.thread_count, &make_stage, &self.control);
        if self.control.is_stopped() || parts_fit(&finished.sources, &groups) {
            return Ok((finished.stage, ReceiveOutcome::of(&finished.sources)));
        }
        // A place to cut was guessed wrong: read again, each capture in one part.
        self.options.progress.restart();
        let RunOutcome { stage, sources } =
            run(self.open()?, self.thread_count, &make_stage, &self.control);
        drop(bar);
        Ok((stage, ReceiveOutcome::of(&sources)))
    }

    fn run_in_order<T: Stage>(&self, opened: OpenSources, mut stage: T) -> (T, ReceiveOutcome) {
        let mut source = self.in_order(opened);
        let bar = self.bar();
        run_one(&mut source, &mut stage, &self.control);
        drop(bar);
        (stage, source.received())
    }

    /// Whether [`Self::run_unordered`] reads several inputs at the same time, so that which packet
    /// is the first is known by stamps alone; nothing where it would read them in order.
    #[must_use]
    pub const fn can_be_unordered(&self, opened: &OpenSources) -> Option<bool> {
        match opened {
            OpenSources::Files(sources) if !self.needs_order() => Some(sources.len() > 1),
            OpenSources::Live(sources) if !self.needs_order() => Some(sources.len() > 1),
            _ => None,
        }
    }

    /// Whether what is handed out depends on the order of packets, which one thread has to read.
    const fn needs_order(&self) -> bool {
        self.count.is_some() || self.drop_duplicates.is_some()
    }

    /// Everything as one source in order of time, cut at the count, without copies of packets if
    /// those are dropped. Of several sockets on an interface, the first.
    #[must_use]
    pub fn in_order(&self, opened: OpenSources) -> InOrder {
        let all = self.all_in_order(opened);
        match self.drop_duplicates {
            None => all,
            Some(window) => {
                let distinct = Distinct::new(all, window, hash_seed(None));
                let progress = Arc::clone(&self.options.progress);
                InOrder::Distinct(Box::new(distinct.counted_in(progress)))
            }
        }
    }

    fn all_in_order(&self, opened: OpenSources) -> InOrder {
        let limit = self.count.unwrap_or(u64::MAX);
        let mut sources = match opened {
            OpenSources::Files(sources) => sources,
            OpenSources::Live(sources) => {
                let first = sources.into_iter().next().map(Box::new);
                return InOrder::Live(first.map(|source| FrameLimit::new(source, limit)));
            }
            OpenSources::Several(sources) => {
                return InOrder::Interfaces(FrameLimit::new(LiveSeveral::new(sources), limit));
            }
        };
        match sources.pop() {
            Some(only) if sources.is_empty() => InOrder::One(FrameLimit::new(only, limit)),
            last => {
                sources.extend(last);
                InOrder::Several(FrameLimit::new(MergedSource::new(sources), limit))
            }
        }
    }

    /// A picture of how far reading all inputs is, until it is dropped.
    #[must_use]
    pub fn bar(&self) -> Option<Box<dyn Any>> {
        let painter = self.painter.filter(|_| self.interface.is_none())?;
        let len = |input: &Input| match input {
            Input::Stdin => None,
            Input::File(path) => {
                fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|m| m.len())
            }
        };
        let total = self.resolved.inputs.iter().map(len).sum();
        Some(painter(&self.options.progress, total))
    }
}

fn parts_fit(parts: &[FileSource], groups: &[usize]) -> bool {
    let mut rest = parts;
    groups.iter().all(|&len| match rest.split_at_checked(len) {
        Some((group, others)) => {
            rest = others;
            parts_agree(group)
        }
        None => false,
    })
}

impl ReceiveOutcome {
    /// What the sources of a run say of themselves.
    #[must_use]
    pub fn of(sources: &[FileSource]) -> Self {
        let mut received = Self::default();
        for source in sources {
            received.report.merge(source.report());
            received.damages.extend(source.report().damage.clone());
        }
        received
    }

    /// The same, without what was read ahead of a limit.
    #[must_use]
    pub fn up_to(sources: &[FileSource], unused: &UnusedFrames) -> Self {
        let mut received = Self::of(sources);
        received.report.received = received.report.received.saturating_sub(unused.count);
        received.report.subtract_undecoded(unused);
        received
    }

    /// What the sockets of a run say of themselves. They share one interface, so what happened
    /// to it is told once.
    #[must_use]
    pub fn of_live(sources: impl IntoIterator<Item = LiveSource>) -> Self {
        let mut received = Self::default();
        let mut down_count = 0;
        for mut source in sources {
            let report = source.report();
            down_count = report.interface_down_count.max(down_count);
            received.report.merge(report);
        }
        received.report.interface_down_count = down_count;
        // What the rings still held was read after the damage was noticed.
        let frames_before = received.handed_out();
        let damage = received.report.damage.clone();
        received.damages.extend(damage.map(|damage| Damage { frames_before, ..damage }));
        received
    }

    /// What is not as it should be about the frames that were read, though reading went on; a
    /// line each.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let Report { undecoded, clamped_stamps, .. } = &self.report;
        let mut notices: Vec<_> = undecoded
            .iter()
            .map(|(link, count)| {
                format!(
                    "{count} packets of link type {link} ({}): their headers are not decoded; \
                     wanted: {}",
                    link.0,
                    LinkType::decoded_names()
                )
            })
            .collect();
        if *clamped_stamps > 0 {
            notices.push(format!(
                "{clamped_stamps} packets have timestamps outside the years 1677 to 2262, which \
                 were clamped to this range; editcap -t can shift the timestamps of a capture"
            ));
        }
        notices
    }

    /// Whether there were frames, and none of a link type that is decoded.
    #[must_use]
    pub fn is_undecoded(&self) -> bool {
        let undecoded = self.report.undecoded_total();
        undecoded > 0 && undecoded >= self.handed_out()
    }

    /// Frames that reached the stage.
    #[must_use]
    pub fn handed_out(&self) -> u64 {
        let Report { received, filtered, dropped, unread, .. } = &self.report;
        received.saturating_sub(filtered + dropped.total() + unread)
    }

    /// Why the filter was refused once reading had begun: a pipe names its link type no earlier.
    #[must_use]
    pub fn refused_filter(&self) -> Option<&str> {
        let first = self.damages.iter().find(|damage| damage.frames_before == 0)?;
        match &first.cause {
            DamageCause::Filter(reason) => Some(reason),
            _ => None,
        }
    }

    /// Checks that `received = processed + filtered + dropped + malformed`.
    ///
    /// # Errors
    /// [`AccountingError`] where a frame is missing from the count, or in it twice.
    pub fn account_for(&self, outcome: &Outcome) -> Result<(), AccountingError> {
        let known = outcome.processed() + outcome.malformed.total() + outcome.faulted;
        let handed_out = self.handed_out();
        if known == handed_out { Ok(()) } else { Err(AccountingError { handed_out, known }) }
    }
}

/// Whether two names are of one file that is there.
#[must_use]
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    // A pipe or a terminal is not replaced by a write.
    one.is_file() && place(one).is_ok_and(|one| place(other).is_ok_and(|other| one == other))
}

/// The seed given, or one drawn from the system's randomness.
#[must_use]
pub fn hash_seed(given: Option<u64>) -> HashSeed {
    use std::hash::{BuildHasher as _, RandomState};
    HashSeed::new(given.unwrap_or_else(|| RandomState::new().hash_one("wirelens")))
}
