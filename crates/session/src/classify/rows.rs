//! Verdicts as rows.

use classify::{Cascade, Verdict, columns};
use engine::columns::{Columns, RowRefused};

use crate::captures::Captures;

/// Puts verdicts in the place of what was there.
///
/// # Errors
/// [`RowRefused`] where columns hold over 4 GiB of text.
pub(super) fn fill(
    into: &mut Columns,
    cascade: &Cascade,
    captures: &Captures,
    verdicts: &[Verdict],
) -> Result<(), RowRefused> {
    into.clear();
    verdicts.iter().try_for_each(|verdict| {
        columns::push(into, cascade, verdict, captures.value(verdict.input))
    })
}
