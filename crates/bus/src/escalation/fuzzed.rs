//! Escalations and answers, read and written again.

use super::format::{EscalationBytes, answer_bytes, read_answer, read_rows, size};

/// Reads an escalation. Where it is one: whether its head says how many rows it has, and its bytes
/// as we would write them.
#[must_use]
pub fn read_escalation_again(bytes: &[u8]) -> Option<(bool, Vec<u8>)> {
    let mut rows = Vec::new();
    let time_to_live = read_rows(bytes, &mut rows).ok()?;
    let mut written = EscalationBytes::new(time_to_live, Vec::with_capacity(bytes.len()));
    for row in &rows {
        let numbers: Vec<_> =
            row.numbers.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
        written.push(row.stage, row.records, &numbers, row.evidence);
    }
    Some((size(bytes) == Some((rows.len(), time_to_live)), written.into_bytes()))
}

/// Reads an answer. Where it is one, its bytes as we would write them.
#[must_use]
pub fn read_answer_again(bytes: &[u8]) -> Option<Vec<u8>> {
    let answer = read_answer(bytes).ok()?;
    let _ = answer.rows.iter().filter(|row| row.is_of(3)).count();
    Some(answer_bytes(answer.status, answer.spent, &answer.rows))
}
