//! How an interface is to be listened on.

use packet::Span;

use super::hand_over::CutFrames;

/// Settings of a live capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// What matters more.
    pub latency: Latency,
    /// Sockets that share the frames of the interface, both directions of a flow going to
    /// one; each is a source of its own, for a thread of its own. At least 1.
    pub socket_count: u16,
    /// Memory of the rings of all sockets together, in bytes. It is not swapped out.
    pub ring_size_bytes: usize,
    /// Bytes of one block of a ring; see [`Latency::Throughput`]. Rounded to pages, and made
    /// smaller where the ring would have fewer than [`BLOCK_COUNT_MIN`].
    pub block_size_bytes: usize,
    /// After so many milliseconds a block is handed over though it is not full; at least 1.
    /// A frame waits at most twice as long, and 5 ms.
    pub block_timeout_ms: u32,
    /// Take frames that are for other stations too. Never on `any`.
    pub is_promiscuous: bool,
    /// Take only what passes this way.
    pub passing: Passing,
    /// After so long without a frame an empty batch carries the time; to whole milliseconds.
    pub tick: Span,
    /// Frames are cut by a program in the kernel.
    pub cut: Option<CutFrames>,
    /// A drill: reading stops once, until the kernel has dropped so many frames of a socket. See
    /// [`STALL_AFTER`] and [`STALL_MAX`].
    pub stall_until_dropped: Option<u64>,
}

/// So long after its first look at the ring a source stalls that was asked to: late enough that
/// observers of a run have seen it without losses.
pub const STALL_AFTER: Span = Span::from_seconds(2);

/// A stall ends after this long, even if the ring has not overflowed.
pub const STALL_MAX: Span = Span::from_seconds(10);

/// Which way frames pass an interface, as it sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passing {
    /// Either way; on loopback, where each passes out and in again, once.
    #[default]
    Both,
    /// What it receives.
    In,
    /// What it sends, as far as it leaves the queue.
    Out,
}

/// How frames reach us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Latency {
    /// In blocks of many frames (`TPACKET_V3`): least work for each. A frame waits until its
    /// block is full or its time is up, 10 to 25 ms by default.
    #[default]
    Throughput,
    /// Each in a slot of its own (`TPACKET_V2`), and handed over immediately. A slot has to hold
    /// the longest frame, 64 KiB with offloads: give a snaplen for a ring of many slots.
    Low,
}

/// A ring of fewer blocks stands full while one is read.
pub const BLOCK_COUNT_MIN: usize = 4;

/// 64 MiB bridge 50 ms at 10 Gb/s, the longest that a busy host lets a reader wait for its
/// turn as we have seen it, and half a second at 1 Gb/s. tcpdump's 2 MiB bridge 1.6 ms.
const RING_SIZE_BYTES: usize = 64 << 20;

/// The longest frame with offloads, 64 KiB and headers, fits sixteen times, so little is
/// wasted at the end of a block; and a ring of 64 of them is given back in small steps.
const BLOCK_SIZE_BYTES: usize = 1 << 20;

/// Ten wake-ups for every tick, and few enough that a silent link costs nothing.
const BLOCK_TIMEOUT_MS: u32 = 10;

const TICK_MS: i64 = 100;

const NS_PER_MS: i64 = 1_000_000;

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            latency: Latency::default(),
            socket_count: 1,
            ring_size_bytes: RING_SIZE_BYTES,
            block_size_bytes: BLOCK_SIZE_BYTES,
            block_timeout_ms: BLOCK_TIMEOUT_MS,
            is_promiscuous: true,
            passing: Passing::Both,
            tick: Span::from_ns(TICK_MS * NS_PER_MS),
            cut: None,
            stall_until_dropped: None,
        }
    }
}

impl LiveOptions {
    /// The tick in milliseconds, at least one.
    pub(crate) fn tick_ms(&self) -> u32 {
        u32::try_from((self.tick.as_ns() / NS_PER_MS).max(1)).unwrap_or(u32::MAX)
    }
}
