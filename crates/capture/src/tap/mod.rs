//! What passes an interface, by eBPF in the kernel: [counted](TapCounter), or [cut into
//! slots](SlotTap) flow by flow. Nothing is copied to user space but what was asked for. And where
//! it goes: [flows are steered](FlowSteer) into classes. And how it is marked: [packets of named
//! flows](EcnMarker) leave the L4S queue. And how much of it is left: [packets are cut by their
//! class](PacketCutter).

mod attach;
mod counter;
mod cut;
mod ecn;
mod slots;
mod steer;

pub use attach::TapError;
pub use counter::{Moment, TapCounter, TapCounts};
pub use cut::{CUT_CLASSES_MAX, CutControl, CutCounts, CutModel, CutPlace, CutTable, PacketCutter};
pub use ecn::{EcnCounts, EcnError, EcnFault, EcnFlow, EcnMarker, EcnSettings, Offloads};
pub use slots::{FLOW_COUNT_MAX, SlotTap, SlotTapCounts, SlotTapOptions, TapEvent, TapSide};
pub use steer::FlowSteer;
