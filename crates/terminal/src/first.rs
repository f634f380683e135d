//! What a view begins with.

/// The screen that is shown first, and which of its rows.
#[derive(Clone, Copy, Default, Debug)]
pub struct First {
    /// The table whose screen it is.
    pub table: &'static str,
    /// The order of its rows until a key changes it, the largest first: a column of the table, or
    /// several that a column of the screen adds up or compares; none for the screen's own order.
    pub sort: &'static [&'static str],
    /// Rows at most, the first in that order.
    pub rows: Option<usize>,
    /// Nanoseconds of the windows of the table, where it has such.
    pub window_ns: Option<i64>,
}
