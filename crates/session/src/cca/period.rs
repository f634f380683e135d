//! A period, and the first columns of each of its rows.

use cca::{FlowWay, Period};
use engine::columns::{Columns, RowMismatch, Schema, Value};
use packet::SlotClock;
use packet::community_id::CommunityId;

/// What flows did in a period.
pub trait PeriodReport: Clone + Send + 'static {
    /// Its columns.
    const SCHEMA: Schema;

    /// Whether no flow is told of.
    fn is_empty(&self) -> bool;

    /// As rows.
    ///
    /// # Errors
    /// [`RowMismatch`]
    fn columns(&self, clock: SlotClock, controls: &[String]) -> Result<Columns, RowMismatch>;
}

/// Adds a row: when and whose, the first seven columns, and what else is told of the flow.
///
/// # Errors
/// [`RowMismatch`]
pub fn way_columns(
    columns: &mut Columns,
    way: &FlowWay,
    period: Period,
    clock: SlotClock,
    own: &[Value<'_>],
) -> Result<(), RowMismatch> {
    let (source, destination) = way.key.endpoints(way.direction);
    let length_ns = clock.length().as_ns().unsigned_abs();
    let community_id = CommunityId(way.key);
    let whose = [
        Value::TimestampNs(clock.start(period.start).as_ns()),
        Value::U64(length_ns.saturating_mul(period.len as u64)),
        Value::Text(&community_id),
        Value::Address(source.address),
        Value::U16(source.port),
        Value::Address(destination.address),
        Value::U16(destination.port),
    ];
    let row = [&whose, own].concat();
    columns.push_row(&row)
}
