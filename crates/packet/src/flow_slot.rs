//! Which flow a place is kept for, now that flows come and go and places are used again.

/// Where something is kept for a flow: in the flow table, next to it, in the kernel. A place is
/// given to another flow only with another generation, so that what still speaks of the flow before
/// is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FlowSlot {
    /// Number of the place, from 0 on without gaps.
    pub index: u32,
    /// Which of the flows that the place has held.
    pub generation: u32,
}
