//! One tap: what a flow has in flight, inferred from its data and from what comes back.
//!
//! Who stands at one place of a path sees no queue. Data that passes it one way and
//! acknowledgements that pass it the other tell how much of it is on its way to the receiver and
//! not acknowledged yet: `FlightSize` of RFC 5681, as far as it lies beyond the tap. It holds what
//! waits in every queue there and what travels, so it is not CBIQ, and is never called so.

mod flow;
#[cfg(test)]
mod hostile;
mod kept;
mod ranges;
mod slot;
mod tap;
#[cfg(test)]
mod tests;
mod timed;
mod window;

pub use flow::{Ack, FlightFlow};
pub use ranges::{RANGE_COUNT_MAX, Ranges};
pub use slot::FlightSlot;
pub use tap::{FlightCounts, FlightTap, Heaviest};
pub use timed::{ECHO_COUNT_MAX, TIMED_COUNT_MAX};
pub use window::{
    FlightInput, FlightMissingReason, FlightPeriod, FlightRows, FlightWindow, InFlight,
    RTT_LOOKED_AT, known_from, row_slots,
};
