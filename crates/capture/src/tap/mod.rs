//! What passes an interface, by eBPF in the kernel: [counted](TapCounter), or [cut into
//! slots](SlotTap) flow by flow. Nothing is copied to user space but what was asked for. And where
//! it goes: [flows are steered](FlowSteer) into classes.

mod attach;
mod counter;
mod slots;
mod steer;

pub use attach::TapError;
pub use counter::{Moment, TapCounter, TapCounts};
pub use slots::{FLOW_COUNT_MAX, SlotTap, SlotTapCounts, SlotTapOptions, TapSide, Told};
pub use steer::FlowSteer;
