//! VERDICT → WORLD: an application's rows, written where people and tools read them.
//!
//! [`Format`] says how, [`OutputFile`] says where, [`Writer`] does it. This
//! crate knows no application: all it sees of one is the columns it declared.
//!
//! ```
//! use engine::columns::{Columns, Field, Kind, Value};
//! use sink::{Format, Writer};
//!
//! const SCHEMA: &[Field] = &[
//!     Field { name: "source", kind: Kind::Text, about: "Who sent." },
//!     Field { name: "packet_count", kind: Kind::U64, about: "How many packets." },
//! ];
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut rows = Columns::new(SCHEMA);
//! rows.push_row(&[Value::Text(&"192.0.2.1"), Value::U64(3)])?;
//!
//! let mut writer = Writer::new(Format::Csv, SCHEMA, Vec::new())?;
//! writer.write(&rows)?;
//! assert_eq!(writer.finish()?, b"source,packet_count\n192.0.2.1,3\n");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod arrow;
mod csv;
mod error;
mod format;
mod ipc;
mod jsonl;
mod lines;
mod output;
mod row_groups;
mod rows;
mod writer;

pub use error::{OutputError, WriteError};
pub use format::{Format, FormatError};
pub use output::{Existing, OutputFile};
pub use writer::Writer;
