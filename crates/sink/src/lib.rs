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
//!     Field::new("source", Kind::Text, "Who sent."),
//!     Field::new("packet_count", Kind::U64, "How many packets."),
//! ];
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut rows = Columns::new(SCHEMA);
//! rows.push_row(&[Value::Str("192.0.2.1"), Value::U64(3)])?;
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
mod digits;
mod error;
mod footer;
mod format;
mod ipc;
mod jsonl;
mod lines;
mod matrix;
mod messages;
mod output;
mod pages;
mod parts;
mod recover;
mod rotation;
mod row_groups;
mod rows;
mod writer;

pub use error::{FailedOutput, OutputError, WriteError};
pub use format::{Format, FormatError};
pub use matrix::MatrixWriter;
pub use output::{Existing, OutputFile, Piece};
pub use parts::{Files, OPEN_MAX, Partition, Parts};
pub use recover::{RecoverError, RecoveryReport, recover};
pub use rotation::{Rotation, Turn, time_column};
pub use writer::Writer;
