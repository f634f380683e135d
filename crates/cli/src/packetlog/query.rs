//! `wirelens packetlog query`: packets found again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::time::Duration;

use crate::clock::now;
use packetlog::log::{FlowQuery, Log, PacketMatch, Plan, Query, QueryReport};
use session::copied::CaptureBuffer;
use session::packetlog::filter::SearchFilter;
use session::packetlog::{Listing, flow_named, search};
use session::run::Jail;
use sink::{Existing, OutputFile, WriteError};

use super::args::QueryArguments;
use crate::failure::{Failure, Status};
use crate::output;
use crate::run::tell_line;

/// Runs `wirelens packetlog query`.
pub(super) fn run(arguments: &QueryArguments) -> Result<Status, Failure> {
    let query = query(arguments)?;
    let mut filter = SearchFilter::new(&arguments.expression.join(" "))?;
    let log = Log::open(&arguments.log.at.folder).map_err(Failure::error)?;
    known_classes(&log, &arguments.class)?;
    let mut written = Output::create(arguments)?;
    let jail = Jail::unless(arguments.log.no_jail);
    jail.enter_for_folder(&arguments.log.at.folder, tell_line);
    let begun = now();
    let plan = log.find(&query);
    let found_in = begun.elapsed();
    if plan.chunk_count == 0 {
        super::tell_empty(&arguments.log.at.folder, arguments.quiet);
    }
    let mut left = arguments.count.unwrap_or(u64::MAX);
    let mut sums = Sums::default();
    let mut listing = arguments.list.map(Listing::new);
    let mut failure = None;
    let mut take = |found: &PacketMatch<'_>| {
        let outcome = match filter.passes(found) {
            Ok(passes) if !passes || left == 0 => Ok(()),
            Ok(_) => {
                left -= 1;
                sums.add(found);
                if let Some(listing) = &mut listing {
                    listing.add(found);
                }
                written.put(found)
            }
            Err(error) => Err(error.into()),
        };
        match outcome {
            Ok(()) if left == 0 => ControlFlow::Break(()),
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => {
                failure = Some(why);
                ControlFlow::Break(())
            }
        }
    };
    let report = log.read(&query, &plan, &mut take).map_err(Failure::error)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    written.finish()?;
    if let Some(listing) = listing {
        output::list(&listing.columns().map_err(Failure::error)?, arguments.format)?;
        for (count, what) in [
            (listing.beyond, "packets are of further ones, beyond a million"),
            (listing.keyless, "packets have no IP header"),
        ] {
            if count > 0 && !arguments.quiet {
                eprintln!("wirelens: {count} {what}");
            }
        }
    }
    let faults = || report.faults.iter().chain(log.side_faults()).chain(&plan.faults);
    for fault in faults() {
        eprintln!("wirelens: {fault}");
    }
    if !arguments.quiet {
        eprint!("{}", lines(&plan, &report, &sums, found_in));
    }
    Ok(if faults().next().is_none() { Status::Fine } else { Status::Damaged })
}

fn query(arguments: &QueryArguments) -> Result<Query, Failure> {
    if arguments.list.is_some() && arguments.write.as_ref().is_some_and(|to| to.as_os_str() == "-")
    {
        return Err(Failure::usage("--list: -w - takes standard output; give -w FILE"));
    }
    if let (Some(from), Some(to)) = (arguments.from, arguments.to)
        && from >= to
    {
        return Err(Failure::usage(format_args!("--from {from} is not before --to {to}")));
    }
    Ok(Query {
        hosts: arguments.host.clone(),
        flow: flow(arguments.flow.as_deref())?,
        classes: arguments.class.clone(),
        from: arguments.from,
        to: arguments.to,
    })
}

/// The flow that was typed.
pub(super) fn flow(asked: Option<&str>) -> Result<Option<FlowQuery>, Failure> {
    let named = |text: &str| {
        flow_named(text)
            .ok_or_else(|| Failure::usage(format_args!("--flow {text}: {}", search::FLOW_WANTED)))
    };
    asked.map(named).transpose()
}

/// A class that no file has is a typing error; that nothing of it was kept is an answer.
fn known_classes(log: &Log, asked: &[String]) -> Result<(), Failure> {
    if asked.is_empty() {
        return Ok(());
    }
    let stats = log.stats();
    let names: Vec<_> = stats.classes.iter().map(|class| class.name.as_str()).collect();
    let unknown = asked.iter().find(|class| !names.contains(&class.as_str()));
    let Some(class) = unknown.filter(|_| !names.is_empty()) else { return Ok(()) };
    let known = names.join(", ");
    Err(Failure::usage(format_args!("--class {class}: not in this log; wanted: one of {known}")))
}

/// What was found, by class.
#[derive(Default)]
struct Sums {
    packets: BTreeMap<String, u64>,
    bytes: u64,
}

impl Sums {
    fn add(&mut self, found: &PacketMatch<'_>) {
        match self.packets.get_mut(found.class) {
            Some(count) => *count += 1,
            None => {
                self.packets.insert(found.class.to_owned(), 1);
            }
        }
        self.bytes += found.bytes.len() as u64;
    }
}

/// Where packets go.
enum Place {
    Nowhere,
    File(OutputFile),
    Stdout(BufWriter<File>),
}

struct Output {
    place: Place,
    copied: CaptureBuffer,
}

impl Output {
    fn create(arguments: &QueryArguments) -> Result<Self, Failure> {
        let place = match &arguments.write {
            None => Place::Nowhere,
            Some(path) if path.as_os_str() == "-" => {
                let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
                Place::Stdout(BufWriter::new(stdout))
            }
            Some(path) => {
                let existing = if arguments.force { Existing::Replace } else { Existing::Refuse };
                Place::File(OutputFile::create(path, existing)?)
            }
        };
        Ok(Self { place, copied: CaptureBuffer::new() })
    }

    fn put(&mut self, found: &PacketMatch<'_>) -> Result<(), Failure> {
        if matches!(self.place, Place::Nowhere) {
            return Ok(());
        }
        let comment = search::comment(found);
        // The answer's interfaces are numbered as they appear.
        let interface = (found.record.interface, found.interface);
        let put = self.copied.frame(interface, found.record, found.bytes, comment.as_deref());
        put.map_err(Failure::error)?;
        if self.copied.is_full() {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
        match &mut self.place {
            Place::Nowhere => {}
            Place::File(file) => self.copied.write(file).map_err(WriteError::Io)?,
            Place::Stdout(stdout) => self.copied.write(stdout)?,
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.write()?;
        match self.place {
            Place::Nowhere => {}
            Place::File(file) => {
                file.finish()?;
            }
            Place::Stdout(mut stdout) => stdout.flush()?,
        }
        Ok(())
    }
}

fn lines(plan: &Plan, report: &QueryReport, sums: &Sums, found_in: Duration) -> String {
    let packets: u64 = sums.packets.values().sum();
    let classes: Vec<_> =
        sums.packets.iter().map(|(class, count)| format!("{count} {class}")).collect();
    let of = if classes.is_empty() { String::new() } else { format!(" ({})", classes.join(", ")) };
    format!(
        "{packets} packets{of}, {} bytes\n{} of {} blocks match, found in {:.1} \
         ms; {} packets in them\n",
        sums.bytes,
        plan.wanted_count,
        plan.chunk_count,
        found_in.as_secs_f64() * 1e3,
        report.packets_read,
    )
}
