//! How much of each class was seen and kept, as rows.

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use packetlog::index::ClassRow;
use packetlog::ledger::Deletion;
use packetlog::log::{LedgerStats, LogStats};

/// Columns of a log's sums, a row a class.
pub const STATS: Schema = &[
    Field::new("class", Kind::Text, "Class of the model."),
    Field::new("seen_packets", Kind::U64, "Packets received."),
    Field::new("seen_bytes", Kind::U64, "Their bytes on the wire."),
    Field::new("kept_packets", Kind::U64, "Packets stored, in the log or overwritten since."),
    Field::new("stored_packets", Kind::U64, "Packets in the log, in full or truncated."),
    Field::new("stored_wire_bytes", Kind::U64, "Their bytes on the wire."),
    Field::new("kept_bytes", Kind::U64, "Their stored bytes."),
    Field::new("lost_packets", Kind::U64, "Packets that should be stored and are lost."),
    Field::new("overwritten_packets", Kind::U64, "Packets that were stored and are deleted."),
    Field::new("overwritten_bytes", Kind::U64, "Their stored bytes."),
];

/// What the ledger has in addition to the sums: files that were deleted, and whether the account is
/// believed.
#[must_use]
pub fn ledger_lines(ledger: &LedgerStats) -> String {
    let mut text = String::new();
    let deleted = ledger.deleted.iter().filter(|(_, files, _)| *files > 0);
    let deleted: Vec<_> = deleted
        .map(|(cause, files, packets)| {
            let why = match cause {
                Deletion::Room => "to make room",
                Deletion::Age => "for their age",
                Deletion::Gone => "by another program",
            };
            format!("{files} {why} ({packets} packets)")
        })
        .collect();
    if !deleted.is_empty() {
        text.push_str(&format!("files deleted: {}\n", deleted.join(", ")));
    }
    if let Some(fault) = &ledger.account_fault {
        text.push_str(&format!("account: {fault}; these totals are those of the ledger\n"));
    }
    text
}

/// Sums of a log as rows of [`STATS`].
///
/// # Errors
/// A row that does not fit them, a fault of ours.
pub fn stats_columns(stats: &LogStats) -> Result<Columns, RowMismatch> {
    let mut columns = Columns::new(STATS);
    for class in &stats.classes {
        let ClassRow {
            seen_packets,
            seen_bytes,
            stored_packets,
            stored_bytes,
            kept_bytes,
            lost_packets,
            overwritten_packets,
            overwritten_bytes,
            ..
        } = class.sums;
        let row = [
            Value::Str(&class.name),
            Value::U64(seen_packets),
            Value::U64(seen_bytes),
            Value::U64(stored_packets.saturating_add(overwritten_packets)),
            Value::U64(stored_packets),
            Value::U64(stored_bytes),
            Value::U64(kept_bytes),
            Value::U64(lost_packets),
            Value::U64(overwritten_packets),
            Value::U64(overwritten_bytes),
        ];
        columns.push_row(&row)?;
    }
    Ok(columns)
}
