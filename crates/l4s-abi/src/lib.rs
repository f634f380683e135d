//! The router, steering, markers and trace formats of Wirelens for programs in C and C++, such as
//! the ns-3 scenario in `testbed/ns3/`. `testbed/ns3/wirelens_l4s.h` declares all of it.
//!
//! Rules of the boundary: a null pointer is answered with a default and never followed; a panic
//! ends at the boundary and is answered in the same way; numbers that name nothing count as
//! the first name. Handles are made and freed here, and belong to one thread at a time.

#![deny(unsafe_code)]

mod boundary;
mod marker;
mod records;
mod router;
mod steering;
#[cfg(test)]
mod tests;

pub use marker::{
    WlMarkerCounts, WlMarking, wl_marker_acknowledge, wl_marker_counts, wl_marker_free,
    wl_marker_leave, wl_marker_new,
};
pub use records::{WlRecord, wl_trace_encode, wl_trace_magic};
pub use router::{
    WlCounts, WlDeparture, WlEnqueueOutcome, WlState, wl_router_arrive, wl_router_counts,
    wl_router_free, wl_router_leave, wl_router_new, wl_router_settings, wl_router_state,
};
pub use steering::{
    WlSteeringCounts, wl_steering_acknowledge, wl_steering_choose, wl_steering_counts,
    wl_steering_free, wl_steering_new,
};
