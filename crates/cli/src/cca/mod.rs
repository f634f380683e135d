//! `wirelens cca`: what flows do in a queue, told from a tap before it and one behind it.

mod act;
pub mod args;
mod departures;
mod flight;
mod live;
mod printed;
mod table;
mod view;
mod without_effect;

use std::path::Path;

use cca::inputs::{Empty, Passed, Throughput};
use cca::model::Reads;
use cca::walk::WAIT_MAX;
use cca::{Model, Pair, Period, Rules, Sampler, TapOptions, Walk};
use packet::{SlotClock, Span};
use session::Host;
use session::cca::naming::Namer;
use session::cca::rows::Told;
use session::cca::taps::{self, Side, Sides};
use session::cca::{BEGUN_AGAIN, FLOWS_MAX, MODEL, ReadError, read_model};
use session::reading::{InputError, InputRequest, Inputs};
use session::summary::StageSummary;

use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::summary;
use act::Act;
use args::{CcaArguments, PassedRule};
use departures::Departures;
use live::{Device, Watch};
use printed::Printed;
use view::View;

/// The same packets of the same captures are left out each time.
const SAMPLER_SEED: u64 = 7;

/// Runs `wirelens cca`.
pub(crate) fn run(arguments: &CcaArguments, host: &Host) -> Result<Status, Failure> {
    if let Some(device) = &arguments.act.act_undo {
        return act::undo(device, arguments.input.quiet);
    }
    let clock = clock(arguments)?;
    let asked = arguments.model.as_deref();
    let model = asked.map(|folder| model(folder, clock, host)).transpose()?;
    let looked_at = model.as_ref().map(Model::looked_at).unwrap_or_default();
    let kept_ns = WAIT_MAX.as_ns().saturating_add(arguments.every.max(looked_at).as_ns());
    let options = TapOptions {
        clock,
        flow_count_max: arguments.max_flows.unwrap_or(FLOWS_MAX) as usize,
        kept: Span::from_ns(kept_ns),
        sampler: is_sampled(arguments).then(|| Sampler::new(arguments.sample, SAMPLER_SEED)),
    };
    let show = output::show(&arguments.output)?;
    without_effect::refuse(arguments)?;
    if arguments.egress.is_empty() {
        return flight::run(arguments, options, show, model);
    }
    let namer = model.map(|model| namer(arguments, model)).transpose()?;
    match &arguments.interface {
        Some(interface) => run_live(arguments, options, interface, show, namer),
        None => run_captures(arguments, options, show, namer),
    }
}

/// Reads a model, which has to cut time as it is cut here.
fn model(folder: &Path, clock: SlotClock, host: &Host) -> Result<Model, Failure> {
    read_model(&MODEL.find(folder, host)?, clock).map_err(|error| match error {
        ReadError::Model(error) => error.into(),
        ReadError::Slots { .. } => {
            Failure::usage(format_args!("--slot: {error}; leave --slot out or give its"))
        }
        ReadError::File(..) => Failure::error(error),
    })
}

/// A model of two taps.
fn namer(arguments: &CcaArguments, model: Model) -> Result<Namer, Failure> {
    match model.reads() {
        Reads::Queue(_) if is_sampled(arguments) => {
            if !model.knows_samples() && !arguments.input.quiet {
                eprintln!(
                    "wirelens: --sample: the model was trained on all packets, and is wrong more \
                     often where some are left out; wanted: one of `train cca --shares`"
                );
            }
            Ok(Namer::new(model.of_sampled()))
        }
        Reads::Queue(_) => Ok(Namer::new(model)),
        Reads::Flight(_) => Err(Failure::usage(format_args!(
            "{}: a model of one tap, which reads bytes in flight; leave --egress out, or give a \
             model of two taps",
            arguments.model.as_deref().unwrap_or(Path::new("")).display()
        ))),
    }
}

fn run_captures(
    arguments: &CcaArguments,
    options: TapOptions,
    show: Show,
    mut namer: Option<Namer>,
) -> Result<Status, Failure> {
    let before = asked::find(&arguments.input, None, true)?;
    let request = asked::request(&arguments.input);
    let behind = taps::behind(&request, &arguments.egress);
    let behind_inputs = Inputs::find(&behind, true, crate::interrupt::control())
        .map_err(|error| asked::explain(error, &behind))?;
    let outputs = || [arguments.output.output.as_ref()];
    asked::spare(&before, outputs())?;
    asked::spare(&behind_inputs, outputs())?;
    let offset = match arguments.egress_offset {
        Some(offset) => offset,
        None => offset(&request, &behind, options, arguments.input.quiet)?,
    };
    let mut sides = Sides { ingress: Side::open(before)?, egress: Side::open(behind_inputs)? };
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    sides.egress.shift(offset);
    let controls = Namer::controls(namer.as_ref());
    let mut printed = Printed::create::<Told>(&arguments.output, show, controls)?;
    let bar = sides.ingress.inputs.bar();
    let mut pair = Pair::new(options);
    let row_count = if arguments.rows == 0 { usize::MAX } else { arguments.rows };
    each_period(&mut sides, &mut pair, period_len(arguments, options), |pair, period| {
        let told = Told::of(pair, period, rules(arguments), row_count, namer.as_mut());
        printed.put(&told, options.clock)?;
        Ok(!told.flows.is_empty())
    })?;
    drop(bar);
    printed.finish()?;
    finish(sides, &pair, arguments.input.quiet)
}

fn run_live(
    arguments: &CcaArguments,
    options: TapOptions,
    interface: &str,
    show: Show,
    mut namer: Option<Namer>,
) -> Result<Status, Failure> {
    let [egress] = arguments.egress.as_slice() else {
        return Err(Failure::usage("--egress: of interfaces there can be one"));
    };
    let egress = egress.to_string_lossy();
    let devices = (Device::parse(interface)?, Departures::parse(&egress)?);
    let by = act::names(&arguments.act, namer.is_some())?;
    let has_view = view::is_wanted(arguments.view, show)?;
    let mut watch = Watch::begin(arguments, options, (&devices.0, &devices.1))?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    if let Some(namer) = &mut namer {
        namer.followed_max = live::followed_max(arguments, options);
    }
    let controls = Namer::controls(namer.as_ref());
    let mut printed = Printed::create::<Told>(&arguments.output, show, controls)?;
    let mut view = has_view.then(|| View::new(interface, &egress));
    let mut act = Act::begin(&arguments.act, by, &printed.controls, has_view)?;
    if !arguments.input.quiet {
        eprintln!(
            "listening on {interface}, and downstream of the queue on {egress}; Ctrl-C ends it"
        );
    }
    let len = period_len(arguments, options);
    watch.run(len, arguments.duration, rules(arguments), namer.as_mut(), |told| {
        if let Some(act) = &mut act {
            act.look(told, options.clock)?;
        }
        let said = act.as_ref().map(Act::recent).unwrap_or_default();
        match &mut view {
            Some(view) => view.put(told, options.clock, &printed.controls, &said),
            None => printed.put(told, options.clock),
        }
    })?;
    if let Some(act) = &mut act {
        act.end("the command ends")?;
    }
    printed.finish()?;
    if !arguments.input.quiet {
        for (name, counts) in [interface, &egress].into_iter().zip(watch.counts()?) {
            eprint!("{}", live::lines(name, &counts));
        }
        if let Some(missed) = watch.missed() {
            eprint!("{}", missed.line());
        }
    }
    // What was told before is whole.
    watch.check_devices()?;
    Ok(Status::Fine)
}

fn period_len(arguments: &CcaArguments, options: TapOptions) -> usize {
    usize::try_from(options.clock.count(arguments.every)).unwrap_or(usize::MAX)
}

/// A period is a whole number of slots.
fn clock(arguments: &CcaArguments) -> Result<SlotClock, Failure> {
    let (slot, every) = (arguments.slot, arguments.every);
    let clock = SlotClock::new(slot);
    let (slot_s, every_s) = (slot.as_seconds_f64(), every.as_seconds_f64());
    if clock.count(every) < 1 || every.as_ns() % slot.as_ns() != 0 {
        return Err(Failure::usage(format_args!(
            "--every {every_s}s is no whole number of slots of {slot_s}s; wanted a multiple of it"
        )));
    }
    Ok(clock)
}

fn rules(arguments: &CcaArguments) -> Rules {
    let passed = match arguments.passed {
        PassedRule::Highest => Passed::Highest,
        PassedRule::First => Passed::First,
    };
    let rules = Rules { passed, empty: Empty::Next, throughput: Throughput::Counted };
    if is_sampled(arguments) { rules.of_sampled() } else { rules }
}

/// Whether packets are left out by chance.
fn is_sampled(arguments: &CcaArguments) -> bool {
    arguments.sample < 1.0
}

fn offset(
    before: &InputRequest,
    behind: &InputRequest,
    options: TapOptions,
    quiet: bool,
) -> Result<Span, Failure> {
    let found = taps::offset(before, behind, options, &crate::interrupt::control());
    let offset = found.map_err(|error: InputError| asked::explain(error, behind))?;
    if offset != Span::default() && !quiet {
        eprintln!(
            "wirelens: packets seem to leave before they came, or far too late: clocks differ; \
             {:+.6} s are added to downstream timestamps (--egress-offset sets another)",
            offset.as_seconds_f64()
        );
    }
    Ok(offset)
}

/// Reads both captures side by side, and looks back at each period that both have left behind them
/// and in which a packet came or something waits. `look` says whether it told of any flow.
fn each_period(
    sides: &mut Sides,
    pair: &mut Pair,
    period_len: usize,
    mut look: impl FnMut(&mut Pair, Period) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let clock = pair.options().clock;
    // The slot after the last tells what has passed by its end.
    let walk = Walk::new(clock, period_len, 1);
    let Some(first) = sides.first(pair) else { return Ok(()) };
    let mut begin = walk.begin_of(clock.slot(first));
    loop {
        let period = walk.period(begin);
        sides.read(pair, clock.start(period.end().saturating_add(2)));
        let is_worth = walk.is_worth(begin, |from| pair.next_slot(from));
        let is_told = is_worth && look(pair, period)?;
        let latest = clock.slot(pair.ingress.latest().max(pair.egress.latest()));
        if sides.have_ended() && latest < period.end() || sides.are_stopped() {
            return Ok(());
        }
        let horizon = sides.horizon(pair).map_or(latest, |time| clock.slot(time));
        begin = walk.next(period.end(), is_told, |from| pair.next_slot(from), horizon);
        pair.forget_before(clock.start(begin));
    }
}

/// What each tap was given and what became of it.
fn finish(sides: Sides, pair: &Pair, quiet: bool) -> Result<Status, Failure> {
    let mut worst = Status::Fine;
    for (side, tap) in [(sides.ingress, &pair.ingress), (sides.egress, &pair.egress)] {
        let (inputs, received, outcome) = side.finish(tap);
        if !quiet {
            eprintln!("{}:", taps::names(&inputs));
        }
        let key = "TCP data";
        let stage = StageSummary {
            name: "cca",
            outcome: &outcome,
            key,
            late: 0,
            beyond_max_keys: tap.counts().no_place,
        };
        let status = summary::print(&inputs, quiet, &received, Some(&stage))?;
        let begun_again = tap.counts().out_of_window;
        if begun_again > 0 && !quiet {
            eprintln!("cca: {begun_again} {BEGUN_AGAIN}");
        }
        if status != Status::Fine {
            worst = status;
        }
    }
    Ok(worst)
}
