//! How far sequence numbers reach: the one rule by which numbers out of packets become work or
//! memory.
//!
//! The sender of packets that pass a tap chooses their sequence numbers. All that is kept of one
//! way of a flow therefore lies within [`WINDOW_MAX_BYTES`] of the highest byte that was sent:
//! ranges, what is acknowledged, what is timed. What is left behind when that byte moves on is
//! forgotten, and what lies further off is another connection's, or means nothing. Then the order
//! of RFC 1982 is one order, and bytes that are added up fit 32 bits.

use crate::wire::tcp::SeqNumber;

/// No window reaches further (RFC 7323 §2.3).
pub const WINDOW_MAX_BYTES: u32 = 1 << 30;

/// Whether two numbers can be of one window.
#[must_use]
pub const fn is_near(a: SeqNumber, b: SeqNumber) -> bool {
    a.since(b).unsigned_abs() <= WINDOW_MAX_BYTES
}

/// Whether a packet of so many bytes can be of the window that ends here.
#[must_use]
pub const fn fits(start: SeqNumber, data_len: u32, high: SeqNumber) -> bool {
    data_len <= WINDOW_MAX_BYTES && is_near(start, high) && is_near(start.plus(data_len), high)
}

/// The lowest number of the window that ends here.
#[must_use]
pub const fn floor(high: SeqNumber) -> SeqNumber {
    SeqNumber(high.0.wrapping_sub(WINDOW_MAX_BYTES))
}
