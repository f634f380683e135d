//! How it stands with a flow.

use engine::flow::FlowSlot;

use crate::cascade::StageName;
use crate::verdict::{Cause, Label};

/// How it stands with a flow; what is kept for each in the flow table.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Standing {
    /// None of its packets was seen.
    #[default]
    New,
    /// Not decided: its place among those.
    Undecided(u32),
    /// Decided.
    Decided(Decision),
}

/// What a verdict says, in few bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Decision {
    /// How likely the best guess is right.
    pub confidence: f64,
    /// What the flow is called.
    pub label: Label,
    /// Packets that the model was shown.
    pub packets_used: u16,
    /// Which model decided; none where the protocol did.
    pub stage: Option<StageName>,
}

/// A flow that was decided, for who is to know before its verdict is handed over at a mark.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EarlyVerdict {
    /// Where the flow stands.
    pub slot: FlowSlot,
    /// What it is called.
    pub label: Label,
    /// How many packets the model was shown: the last of them decided, unless the flow was closed.
    pub packets_used: u16,
    /// Why then.
    pub cause: Cause,
}

/// How far an undecided flow is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Its packets that were examined.
    pub packet_count: usize,
    /// Whether no more are examined: it has waited long enough, or may not wait.
    pub is_closed: bool,
}
