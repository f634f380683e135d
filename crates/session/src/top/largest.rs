//! The largest rows of many.

use std::cmp::Ordering;

use engine::group::Groups;
use engine::table::{Entry as _, Tally};

use super::SortBy;
use super::row::{Row, TopGrouping};

/// The largest groups in order, and the sum of all groups.
pub(super) fn largest<G: TopGrouping>(
    groups: &Groups<G>,
    limit: usize,
    sort: SortBy,
) -> (Vec<G::Row>, Tally) {
    let mut largest = Largest { rows: Vec::new(), limit, sort, least: (0, 0) };
    let mut total = Tally::default();
    for (key, value) in groups.narrow.iter() {
        let tally = G::tally(value);
        total.fold(&tally);
        largest.offer(tally, || G::narrow_row(key, value));
    }
    for (key, value) in groups.wide.iter() {
        let tally = G::tally(value);
        total.fold(&tally);
        largest.offer(tally, || G::wide_row(key, value));
    }
    (largest.into_rows(), total)
}

/// Keeps the largest rows of many without making a row of each.
struct Largest<R> {
    rows: Vec<R>,
    limit: usize,
    sort: SortBy,
    /// The rank below which no row can be among the largest any more.
    least: (u64, u64),
}

/// Rows kept beyond the limit before the smaller ones are dropped.
const SPARE_ROWS: usize = 1024;

impl<R: Row> Largest<R> {
    #[inline]
    fn offer(&mut self, tally: Tally, make_row: impl FnOnce() -> R) {
        if self.sort.rank(tally) < self.least {
            return;
        }
        self.rows.push(make_row());
        if self.rows.len() >= self.limit.saturating_add(SPARE_ROWS) {
            self.drop_smaller();
        }
    }

    /// Ties are broken by the key, so that equal runs print equal rows.
    fn order(sort: SortBy) -> impl Fn(&R, &R) -> Ordering {
        let rank = move |row: &R| sort.rank(row.tally());
        move |a, b| rank(b).cmp(&rank(a)).then_with(|| a.cmp(b))
    }

    fn drop_smaller(&mut self) {
        if self.limit < self.rows.len() {
            self.rows.select_nth_unstable_by(self.limit, Self::order(self.sort));
            self.rows.truncate(self.limit);
            let ranks = self.rows.iter().map(|row| self.sort.rank(row.tally()));
            self.least = ranks.min().unwrap_or_default();
        }
    }

    fn into_rows(mut self) -> Vec<R> {
        self.drop_smaller();
        self.rows.sort_unstable_by(Self::order(self.sort));
        self.rows
    }
}
