//! What a program in C sees of a router, of steering and of a trace.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

use crate::*;

const MS: u64 = 1_000_000;

struct Said {
    text: [c_char; 200],
}

impl Said {
    fn new() -> Self {
        Self { text: [0; 200] }
    }

    fn text(&self) -> String {
        // SAFETY: zeros, of which the crate leaves at least the last.
        unsafe { CStr::from_ptr(self.text.as_ptr()) }.to_string_lossy().into_owned()
    }
}

fn router(settings: &str) -> (*mut dualq::Router, String) {
    let (settings, mut said) = (CString::new(settings).unwrap(), Said::new());
    // SAFETY: texts that end with zero, and as many bytes as are said.
    let router = unsafe { wl_router_new(settings.as_ptr(), 1, 0, said.text.as_mut_ptr(), 200) };
    (router, said.text())
}

#[test]
fn packets_come_and_go_and_are_counted() {
    let (router, said) = router("step=1ms");
    assert!(!router.is_null() && said.is_empty());
    let mut journal = Vec::new();
    for tag in 0..3_u64 {
        let mut entry = [0; 24];
        // SAFETY: a router that is not freed, and 24 bytes.
        let entered = unsafe { wl_router_arrive(router, tag * MS, 1_500, 1, tag, &mut entry) };
        assert_eq!(entered, WlEnqueueOutcome { queue: 0, outcome: 0 });
        journal.extend(entry);
    }
    // SAFETY: a router that is not freed.
    let state = unsafe { wl_router_state(router, 3 * MS) };
    assert_eq!((state.packets, state.bytes, state.delay_ns), ([3, 0], [4_500, 0], [3 * MS, 0]));
    let mut left = WlDeparture::default();
    for tag in 0..3_u64 {
        let mut entry = [0; 24];
        // SAFETY: a router that is not freed, room for one that leaves, and 24 bytes.
        assert!(unsafe { wl_router_leave(router, 3 * MS, &mut left, &mut entry) });
        let mark = if tag < 2 { 2 } else { 0 };
        let wanted =
            WlDeparture { tag, entered_ns: tag * MS, len: 1_500, mark, ..WlDeparture::default() };
        assert_eq!(left, WlDeparture { ecn: if mark == 2 { 3 } else { 1 }, ..wanted });
        journal.extend(entry);
    }
    // SAFETY: a router that is not freed; nothing waits, so that nothing is written.
    assert!(!unsafe { wl_router_leave(router, 3 * MS, null_mut(), null_mut()) });
    // SAFETY: a router that is not freed.
    let counts = unsafe { wl_router_counts(router, 0) };
    assert_eq!((counts.received, counts.sent, counts.marked_threshold), (3, 3, 2));
    // SAFETY: a router that is not freed, and is not used again.
    unsafe { wl_router_free(router) };
    let again = dualq::Router::new("step=1ms".parse().unwrap(), 1, 0).unwrap();
    let replayed = l4s::journal::replay(again, &journal);
    assert_eq!(replayed, l4s::journal::ReplayOutcome { calls: 6, first_difference: None });
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let (none, said) = router("mode=red");
    assert!(none.is_null() && said.contains("wanted dualpi2, partitioned or tail-drop"), "{said}");
    let (text, mut said) = (CString::new("oracle:1ms").unwrap(), Said::new());
    // SAFETY: a text that ends with zero, and as many bytes as are said.
    let none = unsafe { wl_steering_new(text.as_ptr(), 1, said.text.as_mut_ptr(), 20) };
    assert!(none.is_null());
    assert_eq!(said.text(), "`oracle:1ms` names no control"[..19]);
    // SAFETY: a text that ends with zero; nowhere to say why.
    assert!(unsafe { wl_steering_new(text.as_ptr(), 1, null_mut(), 0) }.is_null());
    let bytes = CString::new([0xff]).unwrap();
    // SAFETY: as above.
    assert!(unsafe { wl_router_new(bytes.as_ptr(), 1, 0, null_mut(), 0) }.is_null());
}

#[test]
fn steering_chooses_and_counts() {
    let text = CString::new("last:1ms").unwrap();
    // SAFETY: a text that ends with zero; nowhere to say why.
    let steering = unsafe { wl_steering_new(text.as_ptr(), 1, null_mut(), 0) };
    for (queue, latency_ns) in [(0, 50 * MS), (1, 45 * MS)] {
        // SAFETY: steering that is not freed.
        unsafe { wl_steering_acknowledge(steering, queue, latency_ns) };
    }
    for (ecn, wanted) in [(1, 0), (2, 2), (0, 0)] {
        // SAFETY: steering that is not freed; no router.
        assert_eq!(unsafe { wl_steering_choose(steering, ecn, null_mut(), 0) }, wanted);
    }
    // SAFETY: steering that is not freed.
    let counts = unsafe { wl_steering_counts(steering) };
    assert_eq!(counts, WlSteeringCounts { asked: 1, remarked: 1 });
    // SAFETY: steering that is not freed, and is not used again.
    unsafe { wl_steering_free(steering) };
}

#[test]
fn a_marker_wants_a_control_and_a_model() {
    for (control, model, wanted) in [
        ("predicted:1", &b"none"[..], "`predicted:1`; wanted: predicted:TIME"),
        ("predicted:1ms", &b"none"[..], "wanted: a model of `wirelens train l4s`"),
        ("last:1ms", &[], "`last:1ms`; wanted: predicted:TIME"),
    ] {
        let (control, mut said) = (CString::new(control).unwrap(), Said::new());
        let error = said.text.as_mut_ptr();
        // SAFETY: a text that ends with zero, a model's bytes, and as many bytes as are said.
        let none =
            unsafe { wl_marker_new(control.as_ptr(), model.as_ptr(), model.len(), error, 200) };
        assert!(none.is_null() && said.text().contains(wanted), "{}", said.text());
    }
}

#[test]
fn null_is_answered_with_nothing() {
    // SAFETY: null, which all of these take.
    let entered = unsafe { wl_router_arrive(null_mut(), 0, 1, 1, 0, null_mut()) };
    assert_eq!(entered, WlEnqueueOutcome::default());
    // SAFETY: as above.
    assert!(!unsafe { wl_router_leave(null_mut(), 0, null_mut(), null_mut()) });
    // SAFETY: as above.
    assert_eq!(unsafe { wl_router_state(null_mut(), 0) }, WlState::default());
    // SAFETY: as above.
    assert_eq!(unsafe { wl_router_counts(null(), 0) }, WlCounts::default());
    // SAFETY: as above.
    assert_eq!(unsafe { wl_steering_choose(null_mut(), 1, null_mut(), 0) }, 1);
    // SAFETY: as above.
    assert_eq!(unsafe { wl_steering_counts(null()) }, WlSteeringCounts::default());
    // SAFETY: as above.
    let marked = unsafe { wl_marker_leave(null_mut(), 0, 1, 1, 1_500, 1) };
    assert_eq!(marked, WlMarking { number: u64::MAX, ecn: 1 });
    // SAFETY: as above.
    unsafe { wl_marker_acknowledge(null_mut(), 0, 0, 0) };
    // SAFETY: as above.
    assert_eq!(unsafe { wl_marker_counts(null()) }, WlMarkerCounts::default());
    // SAFETY: as above.
    unsafe { wl_marker_free(null_mut()) };
    // SAFETY: as above.
    unsafe { wl_router_settings(null(), null_mut(), 0) };
    // SAFETY: as above.
    unsafe { wl_steering_acknowledge(null_mut(), 0, 0) };
    // SAFETY: as above.
    unsafe { wl_trace_encode(null(), null_mut()) };
    // SAFETY: as above.
    unsafe { wl_router_free(null_mut()) };
    // SAFETY: as above.
    unsafe { wl_steering_free(null_mut()) };
}

#[test]
fn a_record_is_written_by_its_numbers() {
    let record =
        WlRecord { acked_ns: u64::MAX, flow: 7, outcome: 4, flags: 3, ..Default::default() };
    let mut bytes = [0; 80];
    // SAFETY: a record, and 80 bytes.
    unsafe { wl_trace_encode(&record, &mut bytes) };
    assert_eq!((bytes[32..40].to_vec(), bytes[48], bytes[71], bytes[73]), (vec![0xff; 8], 7, 4, 3));
}
