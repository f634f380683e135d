//! What was typed and could have no effect is refused: whoever typed it expects one.

use capture::tap::FLOW_COUNT_MAX;

use super::args::{CcaArguments, PassedRule};
use super::is_sampled;
use crate::failure::Failure;

/// Slots of a period at most where packets are left out by chance, as each has a row.
const SAMPLED_SLOTS_MAX: i64 = 1 << 22;

/// Where packets come from.
struct Taps {
    are_live: bool,
    are_two: bool,
}

/// An argument that was given, whether it has an effect, and what is said where it has none.
type Rule = (bool, bool, &'static str);

/// Refuses the first argument that would be ignored.
pub(super) fn refuse(arguments: &CcaArguments) -> Result<(), Failure> {
    let taps =
        Taps { are_live: arguments.interface.is_some(), are_two: !arguments.egress.is_empty() };
    let ignored =
        rules(arguments, &taps).into_iter().find(|&(is_given, works, _)| is_given && !works);
    match ignored {
        Some((.., said)) => Err(Failure::usage(said)),
        None => fits(arguments, &taps),
    }
}

fn rules(arguments: &CcaArguments, taps: &Taps) -> [Rule; 11] {
    let Taps { are_live, are_two } = *taps;
    let act = arguments.act.act.is_some();
    [
        (act, are_live, "--act: captures cannot be acted on; give an interface with -i"),
        (
            act,
            are_two,
            "--act: one tap sees no queue, and there is nothing to group flows by; give the tap \
             downstream of the queue with --egress",
        ),
        (arguments.view.is_some(), are_live, "--view: of interfaces; give one with -i"),
        (
            arguments.view.is_some(),
            are_two,
            "--view: of two taps, and one was given; give --egress, or leave --view out",
        ),
        (arguments.duration.is_some(), are_live, "--duration: of interfaces; give one with -i"),
        (arguments.each_packet, are_live, "--each-packet: of interfaces; give one with -i"),
        (
            arguments.each_packet,
            are_two,
            "--each-packet: of two taps; with one, each packet is read anyway: leave it out",
        ),
        (
            is_sampled(arguments),
            are_two,
            "--sample: of two taps; acknowledgements need all of the data: give --egress, or leave \
             --sample out",
        ),
        (
            arguments.passed == PassedRule::First,
            are_two,
            "--passed first: a rule of two taps; give --egress, or leave --passed out",
        ),
        (
            arguments.egress_offset.is_some(),
            !are_live,
            "--egress-offset: of captures; interfaces of one machine have one clock: leave it out",
        ),
        (
            arguments.input.no_decap,
            !(are_live && are_two),
            "--no-decap: two taps of interfaces never look into tunnels; leave it out",
        ),
    ]
}

/// Numbers that would be cut.
fn fits(arguments: &CcaArguments, taps: &Taps) -> Result<(), Failure> {
    let followed = arguments.max_flows.filter(|_| taps.are_live && taps.are_two);
    if followed.is_some() && arguments.rows != 0 {
        return Err(Failure::usage(
            "--max-flows: with two taps of interfaces -n says how many flows are followed; leave \
             it out, or give -n 0",
        ));
    }
    if let Some(followed) = followed.filter(|&followed| followed > FLOW_COUNT_MAX) {
        return Err(Failure::usage(format_args!(
            "--max-flows {followed}: taps of interfaces follow {FLOW_COUNT_MAX} flows at most"
        )));
    }
    let slots = arguments.every.as_ns() / arguments.slot.as_ns().max(1);
    if is_sampled(arguments) && slots > SAMPLED_SLOTS_MAX {
        return Err(Failure::usage(format_args!(
            "--every: {slots} slots in a period; with --sample wanted {SAMPLED_SLOTS_MAX} at most: \
             give a longer --slot, or a shorter --every"
        )));
    }
    Ok(())
}
