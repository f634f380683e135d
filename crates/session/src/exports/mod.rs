//! Flows as records of other tools, and rows in many files.
//!
//! An application makes the rows it always makes. Where they are to be records of another tool, or
//! to be divided into files, they are handed to an [`Export`] instead of a file: through the same
//! queue, on the same thread, with the same rule of what happens when it is full (see
//! [`outlet`](crate::outlet)).

mod door;
pub mod eve;
pub(crate) mod file;
mod ipfix;
pub mod row;
pub mod text;
pub mod zeek;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use packet::{Protocol, Span};
use serde::Deserialize;
use sink::{Format, FormatError, Rotation};

use crate::choice::{Choice as _, choice};
use crate::outlet::RowsError;
use crate::refusal::Refusal;
use crate::written;
pub use door::Door;
pub(crate) use file::TextFile;
pub use ipfix::is_collector;
use row::FlowRow;

choice! {
    /// Records of which tool.
    Style: "format" {
        Eve = "eve", "Events in Suricata's format (EVE), one JSON object per line";
        Zeek = "zeek", "Logs in Zeek's format, tab-separated";
        ZeekJson = "zeek-json", "The same logs as JSON lines";
        Ipfix = "ipfix", "IPFIX messages, to a file or a collector";
    }
}

choice! {
    /// How long the rows of one folder are.
    Partition: "partition" {
        Day = "day", "date=2026-11-25/";
        Hour = "hour", "date=2026-11-25/hour=13/";
        Minute = "minute", "date=2026-11-25/hour=13/minute=05/";
    }
}

/// Who turns flows into records of another tool.
pub(crate) trait Records: Send {
    /// Takes a flow that has ended.
    fn put(&mut self, flow: &FlowRow<'_>) -> Result<(), RowsError>;

    /// Bytes of the file that grows, of the largest where there are several.
    fn size_bytes(&self) -> u64;

    /// Hands on what is held back.
    fn write_out(&mut self) -> Result<(), RowsError>;

    /// Gives files their names and begins the next; what is no file goes on.
    fn reopen(&mut self) -> Result<(), RowsError>;

    /// There are no more. What is to be said of it, if anything.
    fn finish(self: Box<Self>) -> Result<String, RowsError>;
}

/// How rows are divided into files, and what IPFIX is to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// Folders by time, in Hive's layout.
    #[serde(deserialize_with = "written::choice_if_any")]
    pub partition: Option<Partition>,
    /// A file ends when it has this many bytes.
    #[serde(deserialize_with = "written::bytes_if_any")]
    pub rotate_bytes: Option<u64>,
    /// A file ends at each multiple of this in event time.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub rotate_time: Option<Span>,
    /// Both directions in one record of IPFIX.
    pub biflow: bool,
    /// The enterprise number of private elements of IPFIX.
    pub enterprise: Option<u32>,
}

/// The keys of [`Options`].
pub const OPTION_KEYS: [&str; 5] =
    ["partition", "rotate-bytes", "rotate-time", "biflow", "enterprise"];

impl Options {
    /// The first that was given, by its key.
    #[must_use]
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            self.partition.is_some(),
            self.rotate_bytes.is_some(),
            self.rotate_time.is_some(),
            self.biflow,
            self.enterprise.is_some(),
        ];
        OPTION_KEYS.into_iter().zip(given).find_map(|(key, is_given)| is_given.then_some(key))
    }
}

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As rows.
    Rows(Format),
    /// As records of another tool.
    Records(Style),
}

/// Rows that go into no single file.
#[derive(Clone, Debug)]
pub struct Export {
    /// A file, a folder or a collector.
    pub path: PathBuf,
    /// How rows are written.
    pub form: Form,
    /// Whether a file that exists is replaced.
    pub force: bool,
    /// How they are divided.
    pub options: Options,
}

impl Export {
    /// What is wrong with it: the key, and what to try.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn check(&self) -> Result<(), Refusal> {
        let Self { path, form, options, .. } = self;
        let refused = |key, message: &str| Err(Refusal::of(key, message));
        let is_ipfix = *form == Form::Records(Style::Ipfix);
        if options.biflow && !is_ipfix {
            return refused("biflow", "it is about records of IPFIX; leave it out");
        }
        if options.enterprise.is_some() && !is_ipfix {
            return refused("enterprise", "it is about records of IPFIX; leave it out");
        }
        if options.enterprise.is_some_and(ipfix::is_reserved) {
            let message = "0 is reserved, and 29305 is that of elements of the other direction \
                           (RFC 5103): wanted a number of your own";
            return refused("enterprise", message);
        }
        let is_endless = path.as_os_str() == "-" || is_collector(path);
        if is_collector(path) && !is_ipfix {
            return refused(
                "output",
                "only ipfix goes to a collector; give a file, or format ipfix",
            );
        }
        let turns = options.rotate_bytes.is_some() || options.rotate_time.is_some();
        if turns && is_endless {
            let key = if options.rotate_bytes.is_some() { "rotate-bytes" } else { "rotate-time" };
            return refused(key, "only files rotate; give output a file, or leave it out");
        }
        if matches!(form, Form::Records(Style::Zeek | Style::ZeekJson)) && path.as_os_str() == "-" {
            return refused("output", "Zeek's logs are several files; give a folder");
        }
        if is_ipfix && path.as_os_str() == "-" {
            return refused("output", "messages are not text; give a file, or a collector");
        }
        if options.rotate_time.is_some_and(|time| time.as_ns() <= 0) {
            return refused("rotate-time", "wanted a length of time above 0");
        }
        self.check_partition(is_endless)
    }

    fn check_partition(&self, is_endless: bool) -> Result<(), Refusal> {
        let refused = |key, message: &str| Err(Refusal::of(key, message));
        if self.options.partition.is_none() {
            return Ok(());
        }
        if let Form::Records(style) = self.form {
            return Err(Refusal::of(
                "partition",
                format_args!(
                    "{} is not partitioned; give rotate-time, or format parquet",
                    style.name()
                ),
            ));
        }
        if is_endless {
            return refused("partition", "partitions are folders; give output a folder");
        }
        if self.options.rotate_time.is_some() {
            return refused("rotate-time", "partitions are of time already; leave it out");
        }
        if self.force {
            return refused("force", "existing parts are kept; leave it out");
        }
        Ok(())
    }

    /// How rows are written: as asked, else as the path says.
    ///
    /// # Errors
    /// [`FormatError`]: the path's suffix names no format.
    pub fn form(path: &Path, asked: Option<Form>, options: &Options) -> Result<Form, FormatError> {
        let is_ipfix = path.extension().is_some_and(|suffix| suffix == "ipfix");
        match asked {
            Some(form) => Ok(form),
            None if is_ipfix || is_collector(path) => Ok(Form::Records(Style::Ipfix)),
            None if options.partition.is_some() => {
                Ok(Form::Rows(Format::from_suffix(path).unwrap_or(Format::Parquet)))
            }
            None if path.as_os_str() == "-" => Ok(Form::Rows(Format::Jsonl)),
            None => Format::from_suffix(path).map(Form::Rows),
        }
    }

    /// Records of which tool, if of any.
    #[must_use]
    pub const fn style(&self) -> Option<Style> {
        if let Form::Records(style) = self.form { Some(style) } else { None }
    }

    /// Whether one file, as every application writes it, will not do.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.options.first_given().is_some() || matches!(self.form, Form::Records(_))
    }

    fn rotation(&self) -> Rotation {
        let Options { rotate_bytes, rotate_time, .. } = self.options;
        let period_ns = rotate_time.and_then(|time| u64::try_from(time.as_ns()).ok());
        Rotation { size_bytes: rotate_bytes, period_ns }
    }

    /// The path as it is opened.
    fn opened_path(&self) -> &Path {
        if self.path.as_os_str() == OsStr::new("-") { Path::new("/dev/stdout") } else { &self.path }
    }
}

impl From<Partition> for sink::Partition {
    fn from(partition: Partition) -> Self {
        match partition {
            Partition::Day => Self::Day,
            Partition::Hour => Self::Hour,
            Partition::Minute => Self::Minute,
        }
    }
}

/// Numbers of IP protocols by what rows call them.
fn protocol_numbers() -> HashMap<String, u8> {
    (0..=u8::MAX).map(|number| (Protocol(number).to_string(), number)).collect()
}
