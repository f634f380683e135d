//! Questions about the rows of a table: which rows, summed by what, and over time.

mod cell;
mod ended;
mod expression;
mod filter;
mod groups;
mod rows;
mod series;
mod span;

pub use cell::{Cell, cell};
pub(crate) use ended::Ended;
pub use filter::{Filter, QueryError, time};
pub use groups::{Aggregate, Groups, GroupsQuery, GroupsRow, Key, OrderBy, columns};
pub use rows::{Order, Rows, RowsQuery};
pub use series::{Series, SeriesQuery};
pub use span::{TimeRange, time_column};
