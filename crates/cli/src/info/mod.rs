//! `wirelens info`: what is in a capture.

mod report;
mod row;

pub(crate) use row::SCHEMA;

use capture::UnusedFrames;
use engine::Stage as _;
use engine::census::Census;
use engine::columns::Columns;
use engine::run::run_one;
use session::reading::{Inputs, ReceiveOutcome};
use session::run::Jail;

use crate::args::InfoArguments;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::run::tell_line;
use crate::summary;

/// What one capture holds.
struct Capture {
    name: String,
    source: capture::FileSource,
    /// What was read of it beyond the limit of packets.
    unused: UnusedFrames,
    census: Census,
}

/// Runs `wirelens info`.
pub(crate) fn run(arguments: &InfoArguments) -> Result<Status, Failure> {
    if arguments.input.drop_duplicates.is_some() {
        let why = "info describes a capture unmodified; leave it out";
        return Err(Failure::usage(format_args!("--drop-duplicates: {why}")));
    }
    let inputs = asked::find(&arguments.input, None, true)?;
    let sources = inputs.open()?;
    let show = output::show(&arguments.output)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let mut rows = match show {
        Show::Table => None,
        Show::Rows(format) => Some(output::create(&arguments.output, format, row::SCHEMA)?),
    };
    Jail::unless(arguments.input.no_jail).enter(&inputs, tell_line);
    let captures = read(&inputs, sources);
    if let Some(rows) = &mut rows {
        let mut columns = Columns::new(row::SCHEMA);
        for capture in &captures {
            row::push(&mut columns, capture).map_err(Failure::error)?;
        }
        rows.write(&columns)?;
    } else {
        for capture in &captures {
            report::print(capture)?;
        }
    }
    if let Some(rows) = rows {
        rows.finish()?;
    }
    let mut unused = UnusedFrames::default();
    captures.iter().for_each(|capture| unused.merge(&capture.unused));
    let sources: Vec<_> = captures.into_iter().map(|capture| capture.source).collect();
    let received = ReceiveOutcome::up_to(&sources, &unused);
    summary::print(&inputs, arguments.input.quiet, &received, None)
}

/// Reads the captures, each for itself, several at a time.
fn read(inputs: &Inputs, sources: Vec<capture::FileSource>) -> Vec<Capture> {
    let bar = inputs.bar();
    let named = inputs.resolved.inputs.iter().zip(sources);
    let captures = if inputs.count.is_some() || inputs.thread_count == 1 {
        let mut left = inputs.count.unwrap_or(u64::MAX);
        named
            .map(|(input, source)| {
                let mut source = capture::limited::FrameLimit::new(source, left);
                let mut census = Census::default();
                run_one(&mut source, &mut census, &inputs.control);
                left -= census.total.packets;
                let (source, unused) = source.into_inner();
                Capture { name: input.to_string(), source, unused, census }
            })
            .collect()
    } else {
        let readers: Vec<_> = named
            .map(|(input, source)| Reader {
                capture: Capture {
                    name: input.to_string(),
                    source,
                    unused: UnusedFrames::default(),
                    census: Census::default(),
                },
                is_done: false,
            })
            .collect();
        let finished = engine::run::run(readers, inputs.thread_count, || Nothing, &inputs.control);
        finished.sources.into_iter().map(|reader| reader.capture).collect()
    };
    drop(bar);
    captures
}

/// A capture that is surveyed as it is read, since each has a census of its own.
struct Reader {
    capture: Capture,
    is_done: bool,
}

impl packet::Source for Reader {
    fn next_batch(&mut self) -> Option<packet::Batch<'_>> {
        if self.is_done {
            return None;
        }
        let batch = self.capture.source.next_batch();
        match batch {
            Some(batch) => {
                self.capture.census.on_batch(&batch);
                Some(batch)
            }
            None => {
                self.is_done = true;
                None
            }
        }
    }
}

/// The stage of a run whose sources do the work.
struct Nothing;

impl engine::Stage for Nothing {
    fn on_batch(&mut self, _: &packet::Batch<'_>) {}
}

impl engine::Fold for Nothing {
    fn fold(&mut self, _: Self) {}
}
