//! The formats, their names and the file name suffixes that choose them.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Text with a header line, values joined by commas (RFC 4180), lines ended by LF.
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// Apache Parquet, compressed with Zstandard.
    Parquet,
    /// Arrow IPC: the file layout in a file, the stream layout in a pipe.
    Arrow,
}

/// No format could be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FormatError {
    /// A name given to `--format` that is none of [`Format::ALL`].
    UnknownName(String),
    /// A file name whose suffix stands for no format.
    UnknownSuffix {
        /// The file name.
        path: PathBuf,
        /// Its suffix, without the dot.
        suffix: String,
    },
    /// A file name without a suffix.
    NoSuffix(PathBuf),
}

impl Format {
    /// Every format, in the order in which messages and help list them.
    pub const ALL: [Self; 4] = [Self::Csv, Self::Jsonl, Self::Parquet, Self::Arrow];

    /// The name that `--format` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// The suffixes that choose this format, without the dot; the first is the usual one.
    #[must_use]
    pub fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Csv => &["csv"],
            Self::Jsonl => &["jsonl", "ndjson"],
            Self::Parquet => &["parquet"],
            // Feather version 2 is the Arrow IPC file layout under an older name.
            Self::Arrow => &["arrow", "feather"],
        }
    }

    /// The format that a file name asks for, in either letter case.
    ///
    /// # Errors
    /// [`FormatError`] where the name has no suffix or one that stands for no format.
    pub fn from_suffix(path: &Path) -> Result<Self, FormatError> {
        let Some(suffix) = path.extension() else {
            return Err(FormatError::NoSuffix(path.to_owned()));
        };
        let suffix = suffix.to_string_lossy();
        Self::ALL
            .into_iter()
            .find(|format| format.suffixes().iter().any(|known| suffix.eq_ignore_ascii_case(known)))
            .ok_or_else(|| FormatError::UnknownSuffix {
                path: path.to_owned(),
                suffix: suffix.into_owned(),
            })
    }

    /// Whether the output is text that a person can read.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Jsonl)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    /// Takes a format's name or one of its suffixes, in either letter case.
    fn from_str(text: &str) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|format| {
                text.eq_ignore_ascii_case(format.name())
                    || format.suffixes().iter().any(|suffix| text.eq_ignore_ascii_case(suffix))
            })
            .ok_or_else(|| FormatError::UnknownName(text.to_owned()))
    }
}

/// `csv, jsonl, parquet or arrow`
struct Names;

/// `.csv, .jsonl, .ndjson, .parquet, .arrow or .feather`
struct Suffixes;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        listed(f, &Format::ALL.map(Format::name), "")
    }
}

impl fmt::Display for Suffixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<&str> =
            Format::ALL.iter().flat_map(|format| format.suffixes()).copied().collect();
        listed(f, &all, ".")
    }
}

fn listed(f: &mut fmt::Formatter<'_>, words: &[&str], prefix: &str) -> fmt::Result {
    for (index, word) in words.iter().enumerate() {
        let glue = match index {
            0 => "",
            _ if index + 1 == words.len() => " or ",
            _ => ", ",
        };
        write!(f, "{glue}{prefix}{word}")?;
    }
    Ok(())
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName(name) => write!(f, "`{name}` is not an output format; give {Names}"),
            Self::UnknownSuffix { path, suffix } => {
                write!(
                    f,
                    "`{}`: the suffix `.{suffix}` is not that of an output format; ",
                    path.display()
                )?;
                match suffix.to_ascii_lowercase().as_str() {
                    "json" => f.write_str(
                        "for one JSON object per line use .jsonl, or give --format \
                                     jsonl",
                    ),
                    "gz" | "zst" | "bz2" | "xz" => f.write_str(
                        "text output is not compressed: use .parquet, or pipe --format csv into a \
                         compressor",
                    ),
                    _ => write!(f, "use {Suffixes}, or give --format with {Names}"),
                }
            }
            Self::NoSuffix(path) => write!(
                f,
                "`{}` has no suffix that sets the output format; use {Suffixes}, or give --format \
                 with {Names}",
                path.display()
            ),
        }
    }
}

impl Error for FormatError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_choose() {
        let chosen = |name: &str| Format::from_suffix(Path::new(name));
        assert_eq!(chosen("a/b.c/flows.csv"), Ok(Format::Csv));
        assert_eq!(chosen("flows.NDJSON"), Ok(Format::Jsonl));
        assert_eq!(chosen("flows.v2.parquet"), Ok(Format::Parquet));
        assert_eq!(chosen("flows.feather"), Ok(Format::Arrow));
        assert!(matches!(chosen("flows"), Err(FormatError::NoSuffix(_))));
        assert!(matches!(chosen(".csv"), Err(FormatError::NoSuffix(_))));
        assert!(matches!(chosen("flows.csv.gz"), Err(FormatError::UnknownSuffix { .. })));
    }

    #[test]
    fn names_read_back() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!("NDJSON".parse(), Ok(Format::Jsonl));
    }

    #[test]
    fn messages_say_what_to_try() {
        let text = "xlsx".parse::<Format>().unwrap_err().to_string();
        assert_eq!(text, "`xlsx` is not an output format; give csv, jsonl, parquet or arrow");
        let text = Format::from_suffix(Path::new("flows.txt")).unwrap_err().to_string();
        assert_eq!(
            text,
            "`flows.txt`: the suffix `.txt` is not that of an output format; use .csv, .jsonl, \
             .ndjson, .parquet, .arrow or .feather, or give --format with csv, jsonl, parquet or \
             arrow"
        );
        let text = Format::from_suffix(Path::new("flows.json")).unwrap_err().to_string();
        assert!(text.ends_with("use .jsonl, or give --format jsonl"), "{text}");
    }
}
