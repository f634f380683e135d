//! Questions about the rows of a table: which rows, summed by what, and over time.

mod cancellation;
mod cell;
mod ended;
mod expression;
mod filter;
mod groups;
mod hosts;
mod measure;
mod rows;
mod series;
mod span;
mod value;

pub use cancellation::Cancellation;
pub use cell::{Cell, cell, hexadecimal};
pub(crate) use ended::EndedFlows;
pub use filter::{Filter, QueryError};
pub use groups::{Aggregate, Groups, GroupsQuery, GroupsRow, Key, Number, OrderBy};
pub use hosts::{HostSums, Hosts, HostsQuery};
pub use measure::Measure;
pub use rows::{Order, Rows, RowsQuery};
pub use series::{Series, SeriesQuery};
pub use span::{TimeRange, time_column};
pub use value::time;
