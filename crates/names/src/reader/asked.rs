//! Queries of DNS that wait for their response.

use packet::{FlowDirection, FlowKey};

use crate::dns::{DnsFault, Message, Name};

/// Queries that wait at a time.
pub(super) const QUERIES_MAX: usize = 1 << 16;

/// A query, and what its response has to have of it: the flow, the way back, number and name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct PendingQuery {
    key: FlowKey,
    /// The way of the query.
    direction: FlowDirection,
    id: u16,
    name_hash: u32,
}

impl PendingQuery {
    pub(super) fn new(
        key: FlowKey,
        direction: FlowDirection,
        message: &Message<'_>,
        name: &Name<'_>,
    ) -> Result<Self, DnsFault> {
        Ok(Self { key, direction, id: message.header().id(), name_hash: name.hash()? })
    }
}
