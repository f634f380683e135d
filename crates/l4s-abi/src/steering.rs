//! Steering as a handle.

#![allow(unsafe_code)]

use std::ffi::c_char;

use dualq::{Ecn, Queue, Router};
use l4s::Steering;

use crate::boundary::{free, guarded, handle};

/// How many packets steering was asked about.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WlSteeringCounts {
    /// L4S packets that it was asked about.
    pub asked: u64,
    /// Those that it re-marked.
    pub remarked: u64,
}

/// Makes steering from a control as text, such as `last:1ms`. Null where it names none; `error`
/// then says why.
///
/// # Safety
/// `control` is null or a text that ends with a zero byte; `error` is null or at `error_len`
/// bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_steering_new(
    control: *const c_char,
    seed: u64,
    error: *mut c_char,
    error_len: usize,
) -> *mut Steering {
    // SAFETY: as the caller promises.
    unsafe {
        handle(control, (error, error_len), |control| {
            control.parse().map(|control| Steering::new(control, seed))
        })
    }
}

/// A packet was acknowledged: which queue it took, 0 L4S or 1 classic, and its latency.
///
/// # Safety
/// `steering` is null or from [`wl_steering_new`], not freed and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_steering_acknowledge(
    steering: *mut Steering,
    queue: u8,
    latency_ns: u64,
) {
    // SAFETY: as the caller promises.
    let Some(steering) = (unsafe { steering.as_mut() }) else { return };
    let queue = if queue == 0 { Queue::L4s } else { Queue::Classic };
    steering.acknowledge(queue, latency_ns);
}

/// With which ECN field a packet is to leave its sender. `router` may be null: only one control
/// looks at it.
///
/// # Safety
/// `steering` is null or from [`wl_steering_new`], not freed and not in use; `router` is null or
/// from `wl_router_new`, not freed and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_steering_choose(
    steering: *mut Steering,
    ecn: u8,
    router: *mut Router,
    now_ns: u64,
) -> u8 {
    // SAFETY: as the caller promises.
    let Some(steering) = (unsafe { steering.as_mut() }) else { return ecn };
    // SAFETY: as the caller promises.
    let router = unsafe { router.as_mut() };
    let chosen = guarded(|| {
        let state = router.map(|router| router.state(now_ns));
        Some(steering.choose(Ecn::from_bits(ecn), state.as_ref()).bits())
    });
    chosen.unwrap_or(ecn)
}

/// How many packets it was asked about so far.
///
/// # Safety
/// `steering` is null or from [`wl_steering_new`] and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_steering_counts(steering: *const Steering) -> WlSteeringCounts {
    // SAFETY: as the caller promises.
    let Some(steering) = (unsafe { steering.as_ref() }) else {
        return WlSteeringCounts::default();
    };
    let (asked, remarked) = steering.counts();
    WlSteeringCounts { asked, remarked }
}

/// Frees steering.
///
/// # Safety
/// `steering` is null or from [`wl_steering_new`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_steering_free(steering: *mut Steering) {
    // SAFETY: as the caller promises.
    unsafe { free(steering) };
}
