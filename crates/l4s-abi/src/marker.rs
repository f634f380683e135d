//! A marker as a handle: it chooses by the latencies that a model predicts.

#![allow(unsafe_code)]

use std::ffi::c_char;
use std::sync::Arc;

use dualq::Ecn;
use l4s::history::SentPacket;
use l4s::{Marker, MarkerCounts, MarkerSettings, Model};

use crate::boundary::{free, guarded, handle};

/// A packet that leaves its sender.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WlMarking {
    /// What [`wl_marker_acknowledge`] knows it by.
    pub number: u64,
    /// Its ECN field.
    pub ecn: u8,
}

/// L4S packets by outcome: [`l4s::MarkerCounts`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct WlMarkerCounts {
    pub asked: u64,
    pub kept: u64,
    pub remarked: u64,
    pub silent: u64,
    pub unknown: u64,
    pub limited: u64,
    pub rare: u64,
}

impl From<MarkerCounts> for WlMarkerCounts {
    fn from(counts: MarkerCounts) -> Self {
        // In simulated time nothing is late.
        let MarkerCounts { asked, kept, remarked, rare, silent, unknown, limited, late: _ } =
            counts;
        Self { asked, kept, remarked, silent, unknown, limited, rare }
    }
}

fn marker(control: &str, model: &[u8]) -> Result<Marker, String> {
    let settings: MarkerSettings = control.parse().map_err(|error| format!("{error}"))?;
    let model = Model::parse(model).map_err(|error| error.to_string())?;
    Marker::new(Arc::new(model), settings).map_err(|error| error.to_string())
}

/// Makes a marker from a control as text, such as `predicted:3ms:0.8`, and the bytes of a model's
/// file, which it copies. Null where they cannot be; `error` then says why.
///
/// # Safety
/// `control` is null or a text that ends with a zero byte; `model` is null or at `model_len` bytes;
/// `error` is null or at `error_len` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_marker_new(
    control: *const c_char,
    model: *const u8,
    model_len: usize,
    error: *mut c_char,
    error_len: usize,
) -> *mut Marker {
    let model = if model.is_null() {
        &[]
    } else {
        // SAFETY: not null, and the caller promises the bytes, which are not used after this call.
        unsafe { std::slice::from_raw_parts(model, model_len) }
    };
    // SAFETY: as the caller promises.
    unsafe { handle(control, (error, error_len), |control| marker(control, model)) }
}

/// A packet leaves its sender: with which ECN field. All packets of the sender are to be given,
/// in the order in which they leave.
///
/// # Safety
/// `marker` is null or from [`wl_marker_new`], not freed and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_marker_leave(
    marker: *mut Marker,
    at_ns: u64,
    flow: u32,
    receiver: u32,
    size: u32,
    ecn: u8,
) -> WlMarking {
    let as_it_is = WlMarking { number: u64::MAX, ecn };
    // SAFETY: as the caller promises.
    let Some(marker) = (unsafe { marker.as_mut() }) else { return as_it_is };
    let packet = SentPacket { at_ns, flow, receiver, size };
    let marked = guarded(|| Some(marker.leave(&packet, Ecn::from_bits(ecn))));
    marked.map_or(as_it_is, |(ecn, number)| WlMarking { number, ecn: ecn.bits() })
}

/// A packet was acknowledged. A latency of 2⁶⁴ − 1 is none, as of a packet that was sent several
/// times.
///
/// # Safety
/// `marker` is null or from [`wl_marker_new`], not freed and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_marker_acknowledge(
    marker: *mut Marker,
    number: u64,
    at_ns: u64,
    latency_ns: u64,
) {
    // SAFETY: as the caller promises.
    let Some(marker) = (unsafe { marker.as_mut() }) else { return };
    let latency_ns = (latency_ns != u64::MAX).then_some(latency_ns);
    guarded(|| marker.acknowledge(number, at_ns, latency_ns));
}

/// What happened to L4S packets so far.
///
/// # Safety
/// `marker` is null or from [`wl_marker_new`] and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_marker_counts(marker: *const Marker) -> WlMarkerCounts {
    // SAFETY: as the caller promises.
    let marker = unsafe { marker.as_ref() };
    marker.map(|marker| marker.counts().into()).unwrap_or_default()
}

/// Frees a marker.
///
/// # Safety
/// `marker` is null or from [`wl_marker_new`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_marker_free(marker: *mut Marker) {
    // SAFETY: as the caller promises.
    unsafe { free(marker) };
}
