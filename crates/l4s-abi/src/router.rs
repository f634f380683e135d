//! A router as a handle.

#![allow(unsafe_code)]

use std::ffi::c_char;

use dualq::State;
use dualq::{Arrival, Counts, Departure, DropCause, Ecn, Fate, MarkCause, OfQueue, Packet, Router};
use l4s::journal;

use crate::boundary::{free, guarded, handle, put, write_text};

/// What became of an arrival.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WlEnqueueOutcome {
    /// 0 L4S, 1 classic.
    pub queue: u8,
    /// 0 it waits; else why it was dropped: 1 full, 2 at arrival, 3 at the head.
    pub outcome: u8,
}

/// A packet that leaves its queue.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WlDeparture {
    /// As it was given at arrival.
    pub tag: u64,
    /// When it arrived.
    pub entered_ns: u64,
    /// Bytes on the link.
    pub len: u32,
    /// Its ECN field as it leaves.
    pub ecn: u8,
    /// 0 L4S, 1 classic.
    pub queue: u8,
    /// 0 sent; else why it was dropped: 1 full, 2 at arrival, 3 at the head.
    pub outcome: u8,
    /// 0 none, 1 PI controller, 2 threshold of the L4S queue.
    pub mark: u8,
}

/// What became of the packets of one queue: [`dualq::Counts`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct WlCounts {
    pub received: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    pub dropped_full: u64,
    pub dropped_early: u64,
    pub dropped_late: u64,
    pub marked_pi: u64,
    pub marked_threshold: u64,
    pub waiting: u64,
}

/// What a router holds at an instant; L4S queue first.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct WlState {
    /// Packets of each queue.
    pub packets: [u64; 2],
    /// Bytes of each queue.
    pub bytes: [u64; 2],
    /// How long the head of each queue has waited.
    pub delay_ns: [u64; 2],
    /// The controller's base probability p'.
    pub probability: f64,
}

pub(crate) const fn drop_number(cause: DropCause) -> u8 {
    match cause {
        DropCause::Full => 1,
        DropCause::Early => 2,
        DropCause::Late => 3,
    }
}

impl From<Departure> for WlDeparture {
    fn from(left: Departure) -> Self {
        let Departure { packet, queue, entered_ns, fate } = left;
        let (outcome, mark) = match fate {
            Fate::Sent(None) => (0, 0),
            Fate::Sent(Some(MarkCause::Pi)) => (0, 1),
            Fate::Sent(Some(MarkCause::Threshold)) => (0, 2),
            Fate::Dropped(cause) => (drop_number(cause), 0),
        };
        let Packet { len, ecn, tag } = packet;
        Self { tag, entered_ns, len, ecn: ecn.bits(), queue: queue as u8, outcome, mark }
    }
}

impl From<Counts> for WlCounts {
    fn from(counts: Counts) -> Self {
        Self {
            received: counts.received,
            sent: counts.sent,
            sent_bytes: counts.sent_bytes,
            dropped_full: counts.dropped_full,
            dropped_early: counts.dropped_early,
            dropped_late: counts.dropped_late,
            marked_pi: counts.marked_pi,
            marked_threshold: counts.marked_threshold,
            waiting: counts.waiting,
        }
    }
}

impl From<State> for WlState {
    fn from(state: State) -> Self {
        let State { packets, bytes, delay_ns, probability } = state;
        let both = |of: OfQueue<u64>| [of.l4s, of.classic];
        let packets = [packets.l4s as u64, packets.classic as u64];
        Self { packets, bytes: both(bytes), delay_ns: both(delay_ns), probability }
    }
}

/// Makes a router from settings as text, such as `mode=partitioned,l4s-share=30`. Null where
/// they cannot be; `error` then says why.
///
/// # Safety
/// `settings` is null or a text that ends with a zero byte; `error` is null or at `error_len`
/// bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_router_new(
    settings: *const c_char,
    seed: u64,
    start_ns: u64,
    error: *mut c_char,
    error_len: usize,
) -> *mut Router {
    // SAFETY: as the caller promises.
    unsafe {
        handle(settings, (error, error_len), |settings| {
            Router::new(settings.parse()?, seed, start_ns)
        })
    }
}

/// Writes all settings of a router as text.
///
/// # Safety
/// `router` is null or from [`wl_router_new`] and not freed; `to` is null or at `len` bytes that
/// may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_router_settings(router: *const Router, to: *mut c_char, len: usize) {
    // SAFETY: as the caller promises.
    let Some(router) = (unsafe { router.as_ref() }) else { return };
    let settings = guarded(|| router.settings().to_string());
    // SAFETY: as the caller promises.
    unsafe { write_text(&settings, to, len) };
}

/// A packet arrives. `entry`, where it is not null, takes the 24 bytes of the journal.
///
/// # Safety
/// `router` is null or from [`wl_router_new`], not freed and not in use; `entry` is null or at 24
/// bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_router_arrive(
    router: *mut Router,
    at_ns: u64,
    len: u32,
    ecn: u8,
    tag: u64,
    entry: *mut [u8; journal::ENTRY_LEN],
) -> WlEnqueueOutcome {
    // SAFETY: as the caller promises.
    let Some(router) = (unsafe { router.as_mut() }) else { return WlEnqueueOutcome::default() };
    let arrival = Arrival { packet: Packet { len, ecn: Ecn::from_bits(ecn), tag }, at_ns };
    let Some(entered) = guarded(|| Some(router.arrive(arrival))) else {
        return WlEnqueueOutcome::default();
    };
    if !entry.is_null() {
        // SAFETY: as the caller promises.
        unsafe { put(entry, journal::arrived(&arrival, entered)) };
    }
    WlEnqueueOutcome { queue: entered.queue as u8, outcome: entered.dropped.map_or(0, drop_number) }
}

/// The link is free: a packet leaves, or is dropped, in which case the link is still free. False
/// while nothing waits.
///
/// # Safety
/// `router` is null or from [`wl_router_new`], not freed and not in use; `left` is null or at room
/// for one; `entry` is null or at 24 bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_router_leave(
    router: *mut Router,
    now_ns: u64,
    left: *mut WlDeparture,
    entry: *mut [u8; journal::ENTRY_LEN],
) -> bool {
    // SAFETY: as the caller promises.
    let Some(router) = (unsafe { router.as_mut() }) else { return false };
    let leaves = guarded(|| router.leave(now_ns));
    if !entry.is_null() {
        // SAFETY: as the caller promises.
        unsafe { put(entry, journal::left(now_ns, leaves.as_ref())) };
    }
    let Some(leaves) = leaves else { return false };
    // SAFETY: as the caller promises.
    unsafe { put(left, leaves.into()) };
    true
}

/// What it holds at an instant.
///
/// # Safety
/// `router` is null or from [`wl_router_new`], not freed and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_router_state(router: *mut Router, now_ns: u64) -> WlState {
    // SAFETY: as the caller promises.
    let router = unsafe { router.as_mut() };
    guarded(|| router.map(|router| router.state(now_ns).into()).unwrap_or_default())
}

/// What became of the packets of a queue, 0 L4S or 1 classic.
///
/// # Safety
/// `router` is null or from [`wl_router_new`] and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_router_counts(router: *const Router, queue: u8) -> WlCounts {
    // SAFETY: as the caller promises.
    let Some(router) = (unsafe { router.as_ref() }) else { return WlCounts::default() };
    guarded(|| {
        let counts = router.counts();
        if queue == 0 { counts.l4s.into() } else { counts.classic.into() }
    })
}

/// Frees a router.
///
/// # Safety
/// `router` is null or from [`wl_router_new`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_router_free(router: *mut Router) {
    // SAFETY: as the caller promises.
    unsafe { free(router) };
}
