//! One tap: what flows have in flight, told from their data and from what comes back.

mod rows;
mod table;

use std::path::Path;

use capture::live::LiveOptions;
use cca::flight::{FlightMissing, FlightTap};
use cca::model::Reads;
use cca::{Model, Period, TapOptions, Walk};
use engine::columns::Schema;
use engine::group::Outcome;
use packet::Source as _;
use session::reading::{InOrder, InputRequest, Inputs, Interface, Needs, Opened};
use session::summary::StageSummary;

use super::args::CcaArguments;
use super::naming::Namer;
use super::printed::Printed;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::Show;
use crate::summary;
use rows::Told;

/// Headers of TCP with all their options.
const NEEDS: Needs = Needs { stage: "cca", len: Needs::TRANSPORT_LEN + 40, takes_all: false };

/// Slots after a period that are waited for, since stamps of several flows may come out of order.
const SLOTS_WAITED: i64 = 2;

/// Its columns.
pub(super) const SCHEMA: Schema = rows::SCHEMA;

/// Tells what flows of one capture or interface have in flight.
pub(super) fn run(
    arguments: &CcaArguments,
    options: TapOptions,
    show: Show,
    model: Option<Model>,
) -> Result<Status, Failure> {
    let mut namer = model.map(|model| namer(arguments.model.as_deref(), model)).transpose()?;
    let inputs = find(arguments)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let opened = inputs.open_any(NEEDS, 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    begin(arguments, &opened, &inputs);
    let controls = Namer::controls(namer.as_ref());
    let mut printed = Printed::create::<Told>(&arguments.output, show, controls)?;
    let mut seen = Seen::default();
    let bar = inputs.bar();
    let mut source = inputs.in_order(opened);
    let mut tap = FlightTap::new(options);
    let row_count = if arguments.rows == 0 { usize::MAX } else { arguments.rows };
    let len = usize::try_from(options.clock.count(arguments.every)).unwrap_or(usize::MAX);
    each_period(&mut source, &mut tap, len, &inputs, |tap, period| {
        let told = Told::of(tap, period, row_count, namer.as_mut());
        seen.add(&told);
        printed.put(&told, options.clock)?;
        Ok(!told.flows.is_empty())
    })?;
    drop(bar);
    printed.finish()?;
    finish(&inputs, source, &tap, seen, arguments.input.quiet)
}

/// A model of one tap.
fn namer(folder: Option<&Path>, model: Model) -> Result<Namer, Failure> {
    match model.reads() {
        Reads::Flight(_) => Ok(Namer::new(model)),
        Reads::Queue(_) => Err(Failure::usage(format_args!(
            "{}: a model of two taps, upstream and downstream of a queue; give the downstream tap \
             with --egress, or a model that was trained on bytes in flight",
            folder.unwrap_or(Path::new("")).display()
        ))),
    }
}

fn find(arguments: &CcaArguments) -> Result<Inputs, Failure> {
    let interface = arguments.interface.as_deref();
    if let Some((namespace, device)) = interface.and_then(|name| name.split_once(':')) {
        return Err(Failure::usage(format_args!(
            "-i {namespace}:{device}: one tap listens in its own network namespace; \
             try: ip netns exec {namespace} wirelens cca -i {device}"
        )));
    }
    let interface =
        interface.map(|name| Interface { name: name.to_owned(), options: LiveOptions::default() });
    let request = InputRequest { interface, ..asked::request(&arguments.input) };
    let found = Inputs::find(&request, true, crate::interrupt::control());
    found.map_err(|error| asked::explain(error, &request))
}

fn begin(arguments: &CcaArguments, opened: &Opened, inputs: &Inputs) {
    crate::live::begin_for(arguments.duration, opened, &inputs.control, arguments.input.quiet);
}

/// Reads to the end, and looks back at each period that is past. Where no packet passes, what is
/// in flight is told for as long as a packet may wait, and then no more.
fn each_period(
    source: &mut InOrder,
    tap: &mut FlightTap,
    period_len: usize,
    inputs: &Inputs,
    mut look: impl FnMut(&mut FlightTap, Period) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let clock = tap.options().clock;
    let walk = Walk::new(clock, period_len, 0);
    let mut start: Option<i64> = None;
    let mut has_ended = false;
    while !has_ended {
        // A live source ends by itself once it is told to.
        let stops = inputs.interface.is_none() && inputs.control.is_stopped();
        match source.next_batch().filter(|_| !stops) {
            Some(batch) => tap.take(&batch),
            None => has_ended = true,
        }
        let first = || tap.earliest().map(|slot| walk.begin_of(slot));
        let Some(mut begin) = start.or_else(first) else { continue };
        let latest = clock.slot(tap.latest());
        loop {
            let period = walk.period(begin);
            let is_past = latest >= period.end().saturating_add(SLOTS_WAITED);
            let is_last = has_ended && begin <= latest;
            if !is_past && !is_last {
                break;
            }
            // Which periods are told depends on the packets before their ends alone, and not on
            // how far reading is.
            let is_worth = walk.is_worth(begin, |from| tap.next_slot(from));
            let is_told = is_worth && look(tap, period)?;
            begin = walk.next(period.end(), is_told, |from| tap.next_slot(from), latest);
        }
        if start.replace(begin) != Some(begin) {
            tap.forget_before(clock.start(begin));
        }
    }
    Ok(())
}

/// What was seen of flows, for what is said at the end.
#[derive(Clone, Copy, Default)]
struct Seen {
    told: u64,
    without_acks: u64,
}

impl Seen {
    fn add(&mut self, told: &Told) {
        let is_unknown = |missing: &&FlightMissing| **missing == FlightMissing::Acks;
        let unknown = told.flows.iter().filter_map(|flow| flow.flight.as_ref().err());
        self.told += told.flows.len() as u64;
        self.without_acks += unknown.filter(is_unknown).count() as u64;
    }
}

/// What the tap was given and what became of it.
fn finish(
    inputs: &Inputs,
    source: InOrder,
    tap: &FlightTap,
    seen: Seen,
    quiet: bool,
) -> Result<Status, Failure> {
    let counts = tap.counts();
    let keyed = counts.data + counts.acks;
    let outcome = Outcome { keyed, without_key: counts.received() - keyed, ..Outcome::default() };
    let stage = StageSummary {
        name: "cca",
        outcome: &outcome,
        key: "TCP data or acknowledgements of it",
        late: 0,
        beyond_max_keys: counts.no_place,
    };
    let received = source.received();
    let status = summary::print(inputs, quiet, &received, Some(&stage))?;
    if !quiet {
        eprint!("{}", lines(tap, seen));
    }
    Ok(status)
}

/// What did not fit, and why, each a line.
fn lines(tap: &FlightTap, seen: Seen) -> String {
    let counts = tap.counts();
    let mut text = String::new();
    let mut say = |count: u64, what: &str| {
        if count > 0 {
            text.push_str(&format!("cca: {count} {what}\n"));
        }
    };
    say(counts.not_tcp, "packets are no TCP; UDP and QUIC have no sequence numbers in the open");
    say(counts.unreadable, "packets are fragments, or their headers cannot be read");
    say(counts.no_time, "packets have no stamp");
    say(
        counts.out_of_window,
        "packets acknowledge what lies further than 2^30 bytes from what was sent, which no window \
         reaches: left out",
    );
    say(counts.begun_again, super::BEGUN_AGAIN);
    say(
        counts.acks_of_unseen,
        "packets acknowledge data of which none passed the tap: it takes another path, or there is \
         none",
    );
    if seen.without_acks > 0 && seen.without_acks == seen.told {
        text.push_str(
            "cca: data passed, and no acknowledgement of it came back: what is in flight is \
             unknown; wanted: a tap that sees both ways of a flow\n",
        );
    } else {
        say(
            seen.without_acks,
            "rows tell no bytes in flight, as no acknowledgement came back by then",
        );
    }
    text
}
