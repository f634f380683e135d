//! Settings as they are written in files, in the words of the command line: `"250ms"`, `"64M"`.
//!
//! For serde's `deserialize_with`. What cannot be read is refused in the words of the argument, so
//! that a file and a flag teach the same.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use packet::Span;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use crate::choice::Choice;
use crate::duration::{parse_duration, parse_offset};

/// Text that stands for a value.
struct Text<T, F> {
    wanted: &'static str,
    read: F,
    of: PhantomData<T>,
}

impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Text<T, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        (self.read)(&number.to_string()).map_err(E::custom)
    }
}

/// Reads text by a function that the command line uses as well. A number stands for its digits.
///
/// # Errors
/// What the function says, or that it is no text.
pub fn text<'de, D: Deserializer<'de>, T>(
    from: D,
    wanted: &'static str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    from.deserialize_any(Text { wanted, read, of: PhantomData })
}

/// A length of time, such as `"250ms"`.
///
/// # Errors
/// What was wanted.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    text(from, "a length of time such as \"250ms\" or \"1h\"", parse_duration)
}

/// A length of time that may be left out.
///
/// # Errors
/// What was wanted.
pub fn duration_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    duration(from).map(Some)
}

/// An offset, which may be negative.
pub fn offset_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    text(from, "a length of time such as \"-3ms\"", parse_offset).map(Some)
}

/// One of a few words.
///
/// # Errors
/// Which words there are.
pub fn choice<'de, D: Deserializer<'de>, T: Choice>(from: D) -> Result<T, D::Error> {
    text(from, T::NOUN, T::named)
}

/// One of a few words, which may be left out.
///
/// # Errors
/// Which words there are.
pub fn choice_if_any<'de, D: Deserializer<'de>, T: Choice>(from: D) -> Result<Option<T>, D::Error> {
    choice(from).map(Some)
}

/// A number of bytes, such as 4096 or `"64M"`.
///
/// # Errors
/// What was wanted.
pub fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    text(from, "a number of bytes such as 4096 or \"64M\"", parse_bytes)
}

/// A number of bytes that may be left out.
///
/// # Errors
/// What was wanted.
pub fn bytes_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    bytes(from).map(Some)
}

/// Reads `4096`, `64K`, `512M`, `1.5G` or `2T`; letters are powers of 1024.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    const WANTED: &str = "wanted a number of bytes, such as 4096, 64K, 512M, 1.5G or 2T";
    let letter = text.chars().last().unwrap_or_default();
    let shift = match letter.to_ascii_uppercase() {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        _ => 0,
    };
    let number = if shift > 0 { text.strip_suffix(letter).unwrap_or(text) } else { text };
    let number: f64 = number.replace('_', "").parse().map_err(|_| WANTED)?;
    let bytes = number * f64::from(1_u32 << (shift / 2)) * f64::from(1_u32 << (shift / 2));
    if !(1.0..=1e18).contains(&bytes) {
        return Err(String::from(WANTED));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(bytes as u64)
}

/// Reads a name, or a list of them.
///
/// # Errors
/// What was wanted.
pub fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "wanted a name, or a list of names")]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match OneOrMore::deserialize(from)? {
        OneOrMore::One(name) => vec![name],
        OneOrMore::More(names) => names,
    })
}

/// Reads a path, or a list of them.
///
/// # Errors
/// What was wanted.
pub fn paths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "wanted the name of a capture, or a list of names")]
    enum OneOrMore {
        One(PathBuf),
        More(Vec<PathBuf>),
    }
    Ok(match OneOrMore::deserialize(from)? {
        OneOrMore::One(path) => vec![path],
        OneOrMore::More(paths) => paths,
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Written {
        #[serde(deserialize_with = "duration")]
        every: Span,
        #[serde(default, deserialize_with = "bytes_if_any")]
        keep: Option<u64>,
    }

    #[test]
    fn a_file_and_a_flag_teach_the_same() {
        let read = toml::from_str::<Written>;
        let second = Span::from_seconds(1);
        assert_eq!(read("every = '1s'"), Ok(Written { every: second, keep: None }));
        assert_eq!(read("every = '1s'\nkeep = 4096").unwrap().keep, Some(4096));
        for (text, wanted) in [
            ("every = 5", "a number with a unit"),
            ("every = '1s'\nkeep = '1X'", "1.5G"),
            ("every = true", "a length of time"),
        ] {
            let told = read(text).unwrap_err().to_string();
            assert!(told.contains(wanted), "{told}");
        }
    }

    #[test]
    fn bytes_are_read_with_their_letters() {
        for (text, wanted) in
            [("4096", 4096), ("64K", 65_536), ("1.5g", 3 << 29), ("1_000", 1000), ("2T", 1 << 41)]
        {
            assert_eq!(parse_bytes(text), Ok(wanted), "{text}");
        }
        for text in ["", "G", "-1", "0", "1X", "1GG", "nan", "1e30"] {
            assert!(parse_bytes(text).unwrap_err().contains("1.5G"), "{text}");
        }
    }
}
