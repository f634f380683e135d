//! From arguments to sources, and sources through stages.

use std::fs;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use capture::input::{Resolved, resolve};
use capture::limited::Limited;
use capture::merged::Merged;
use capture::split::{parts_agree, split};
use capture::{FileSource, Filter, Input, OpenError, ReadOptions, Report, open};
use engine::run::{Control, Finished, run, run_one};
use engine::{Fold, Stage};
use packet::dissect::DissectOptions;
use packet::{HashSeed, Source};

use crate::args::InputArguments;
use crate::failure::Failure;
use crate::progress::Bar;

/// Parts per thread: enough that no thread waits long for the last one.
const PARTS_PER_THREAD: usize = 4;

/// What is to be read, found and checked.
pub(crate) struct Inputs {
    pub(crate) resolved: Resolved,
    pub(crate) options: ReadOptions,
    pub(crate) thread_count: usize,
    pub(crate) count: Option<u64>,
    pub(crate) control: Arc<Control>,
    quiet: bool,
}

/// What became of the frames before they reached a stage.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) report: Report,
    /// Why captures could not be read to their ends.
    pub(crate) damages: Vec<capture::Damage>,
}

impl Inputs {
    /// Finds the inputs and compiles the filter.
    pub(crate) fn find(arguments: &InputArguments, transport: bool) -> Result<Self, Failure> {
        if arguments.read.iter().filter(|name| name.as_os_str() == "-").count() > 1 {
            return Err(Failure::usage("-r -: standard input can be read only once"));
        }
        let expression = match &arguments.filter {
            Some(expression) => expression.clone(),
            None => arguments.expression.join(" "),
        };
        let resolved = resolve(&arguments.read).map_err(|error| explain(error, &expression))?;
        let filter =
            if expression.trim().is_empty() { None } else { Some(Filter::new(&expression)?) };
        let control = crate::interrupt::control();
        let options = ReadOptions {
            dissect: DissectOptions { decapsulate: !arguments.no_decap, transport },
            filter,
            // As tcpdump has it, 0 sets no limit.
            snaplen: arguments.snaplen.filter(|&snaplen| snaplen > 0).unwrap_or(u32::MAX),
            progress: Arc::default(),
            stop: control.flag(),
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Self {
            resolved,
            options,
            thread_count: arguments.threads.map_or(cores, usize::from),
            count: arguments.count,
            control,
            quiet: arguments.quiet,
        })
    }

    /// Opens every capture and compiles the filter for what it says of itself.
    pub(crate) fn open(&self) -> Result<Vec<FileSource>, Failure> {
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

    /// Runs one stage over everything, in any order, on all threads.
    pub(crate) fn run_unordered<T: Stage + Fold + Send>(
        &self,
        sources: Vec<FileSource>,
        make_stage: impl Fn() -> T + Sync,
    ) -> Result<(T, Received), Failure> {
        if self.count.is_some() {
            let mut source = self.in_order(sources);
            let mut stage = make_stage();
            let bar = self.bar();
            run_one(&mut source, &mut stage, &self.control);
            drop(bar);
            return Ok((stage, source.received()));
        }
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
            return Ok((finished.stage, Received::of(&finished.sources)));
        }
        // A place to cut was guessed wrong: read again, each capture in one part.
        self.options.progress.restart();
        let Finished { stage, sources } =
            run(self.open()?, self.thread_count, &make_stage, &self.control);
        drop(bar);
        Ok((stage, Received::of(&sources)))
    }

    /// Everything as one source in order of time, cut at the count.
    pub(crate) fn in_order(&self, mut sources: Vec<FileSource>) -> InOrder {
        let limit = self.count.unwrap_or(u64::MAX);
        match sources.pop() {
            Some(only) if sources.is_empty() => InOrder::One(Limited::new(only, limit)),
            last => {
                sources.extend(last);
                InOrder::Several(Limited::new(Merged::new(sources), limit))
            }
        }
    }

    /// A progress bar over all inputs, until it is dropped.
    pub(crate) fn bar(&self) -> Bar {
        let len = |input: &Input| match input {
            Input::Stdin => None,
            Input::File(path) => {
                fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|m| m.len())
            }
        };
        let total = self.resolved.inputs.iter().map(len).sum();
        Bar::start(&self.options.progress, total, self.quiet)
    }
}

/// An error about a file that may have been a word of a filter without its quotes.
fn explain(error: OpenError, expression: &str) -> Failure {
    match &error {
        OpenError::NotFound(path) if !expression.is_empty() => Failure::error(format_args!(
            "{error}; the rest of the line was taken as the filter `{expression}`: several captures are each given with -r, {}",
            path.display()
        )),
        _ => error.into(),
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

/// All inputs as one source.
pub(crate) enum InOrder {
    One(Limited<FileSource>),
    Several(Limited<Merged>),
}

impl Source for InOrder {
    fn next_batch(&mut self) -> Option<packet::Batch<'_>> {
        match self {
            Self::One(source) => source.next_batch(),
            Self::Several(source) => source.next_batch(),
        }
    }
}

impl InOrder {
    /// What became of the frames; those read past the count do not count.
    pub(crate) fn received(self) -> Received {
        let (sources, unused) = match self {
            Self::One(source) => {
                let (source, unused) = source.into_inner();
                (vec![source], unused)
            }
            Self::Several(source) => {
                let (merged, unused) = source.into_inner();
                let (sources, waiting) = merged.into_sources();
                (sources, unused + waiting)
            }
        };
        let mut received = Received::of(&sources);
        received.report.received = received.report.received.saturating_sub(unused);
        received
    }
}

impl Received {
    pub(crate) fn of(sources: &[FileSource]) -> Self {
        let mut received = Self::default();
        for source in sources {
            received.report.merge(source.report());
            received.damages.extend(source.report().damage.clone());
        }
        received
    }
}

/// The seed given, or one drawn from the system's randomness.
pub(crate) fn hash_seed(given: Option<u64>) -> HashSeed {
    use std::hash::{BuildHasher as _, RandomState};
    HashSeed::new(given.unwrap_or_else(|| RandomState::new().hash_one("wirelens")))
}
