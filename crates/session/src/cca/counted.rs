//! Counts of taps during a run.

use cca::TapCounts;
use cca::flight::FlightCounts;
use store::Count;

/// Packets at one tap, by what was made of them.
fn by_outcome(
    tap: Option<&str>,
    counts: impl Iterator<Item = (&'static str, u64)>,
    again: u64,
) -> Vec<Count> {
    let at_tap = |count: Count| match tap {
        Some(tap) => count.with("tap", tap),
        None => count,
    };
    let about = "Packets by outcome.";
    let mut made: Vec<_> = counts
        .map(|(outcome, count)| {
            at_tap(Count::total("packets", about, count)).with("outcome", outcome)
        })
        .collect();
    let about = "Of these, packets with data further from the previous data than any window \
                 allows.";
    made.push(at_tap(Count::total("packets_begun_again", about, again)));
    made
}

/// One tap. All outcomes together are the packets that came.
pub(super) fn of_flight(
    counts: &FlightCounts,
    left_out: u64,
    slots_forgotten_early: u64,
) -> Vec<Count> {
    let named = counts.named().filter(|(name, _)| *name != "begun_again");
    let mut made = by_outcome(None, named, counts.begun_again);
    let about = "Packets of flows that no rule selects.";
    made.push(Count::total("packets_left_out", about, left_out));
    made.push(forgotten_early(slots_forgotten_early));
    made
}

/// What flows did that is no longer known, since all together did much.
pub(super) fn forgotten_early(slots: u64) -> Count {
    let about = "Slots of flows that were forgotten before their time, as memory is limited.";
    Count::total("slots_forgotten_early", about, slots)
}

/// The same for the summary; nothing where nothing was.
pub(super) fn forgotten_early_line(slots: u64) -> String {
    match slots {
        0 => String::new(),
        slots => format!(
            "cca: {slots} slots of flows were forgotten early, as memory is limited: busy flows \
             are named from less of their past\n"
        ),
    }
}

/// What was not known when the period it belongs to was evaluated.
#[cfg(all(target_os = "linux", feature = "tap"))]
pub(super) fn late([ingress, egress]: [u64; 2]) -> [Count; 2] {
    let about = "Packets of a period that the machine handled after the period was evaluated.";
    [("ingress", ingress), ("egress", egress)]
        .map(|(tap, count)| Count::total("packets_late", about, count).with("tap", tap))
}

/// The same for the summary; nothing where all were known.
#[cfg(all(target_os = "linux", feature = "tap"))]
pub(super) fn late_line(late: [u64; 2]) -> String {
    match late {
        [0, 0] => String::new(),
        [ingress, egress] => format!(
            "cca: {} packets ({ingress} upstream of the queue, {egress} downstream) were handled \
             after their period was evaluated: the machine had no time for them, and rows of \
             those periods lack them\n",
            ingress + egress
        ),
    }
}

/// One of two taps. All outcomes together are the packets that came.
pub(super) fn of_tap(tap: &str, counts: &TapCounts) -> Vec<Count> {
    let named = counts.named().filter(|(name, _)| *name != "out_of_window");
    by_outcome(Some(tap), named, counts.out_of_window)
}

/// One of two taps in the kernel.
#[cfg(all(target_os = "linux", feature = "tap"))]
pub(super) fn of_kernel(tap: &str, counts: &capture::tap::SlotTapCounts) -> Vec<Count> {
    let capture::tap::SlotTapCounts {
        taken,
        not_followed,
        left_out,
        no_room,
        not_tcp,
        no_data,
        unreadable,
    } = *counts;
    let named = [
        ("taken", taken),
        ("not_followed", not_followed),
        ("left_out", left_out),
        ("no_room", no_room),
        ("not_tcp", not_tcp),
        ("no_data", no_data),
        ("unreadable", unreadable),
    ];
    let about = "Packets by outcome.";
    let count = |(outcome, count)| {
        Count::total("packets", about, count).with("tap", tap).with("outcome", outcome)
    };
    named.into_iter().map(count).collect()
}
