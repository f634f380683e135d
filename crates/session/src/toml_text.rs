//! Text in TOML that users write: all mistakes are reported together, each with its line and what
//! may have been meant.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::{self, DeserializeOwned, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Names that are likelier meant than this are suggested (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.8;

/// More names than this are not listed.
const NAMES_SHOWN_MAX: usize = 24;

/// What is wrong with a text, in the order of lines.
pub struct Mistakes {
    path: PathBuf,
    text: String,
    found: Vec<Mistake>,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mistake {
    /// The line, from 1 on.
    pub line: usize,
    /// The file.
    pub path: PathBuf,
    /// What was seen, what was wanted.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

impl Mistake {
    /// At the same place.
    #[must_use]
    pub fn with(&self, message: impl fmt::Display) -> Self {
        let message = message.to_string().replace('\n', "; ");
        Self { message, ..self.clone() }
    }
}

impl Mistakes {
    /// None found yet in this text.
    #[must_use]
    pub fn of(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), found: Vec::new() }
    }

    /// Reads a text in this path as tables, with what is wrong with it as TOML.
    #[must_use]
    pub fn parse<'t>(path: &Path, text: &'t str) -> (Spanned<DeTable<'t>>, Self) {
        let mut mistakes = Self::of(path, text);
        let (tables, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            mistakes.add(error.span().unwrap_or(0..0), error.message());
        }
        (tables, mistakes)
    }

    /// A place in the text, of which nothing is said yet.
    #[must_use]
    pub fn place(&self, at: Range<usize>) -> Mistake {
        let before = self.text.get(..at.start).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        Mistake { line, path: self.path.clone(), message: String::new() }
    }

    /// Adds one about this part of the text.
    pub fn add(&mut self, at: Range<usize>, message: impl fmt::Display) {
        let place = self.place(at);
        self.add_at(Some(&place), message);
    }

    /// Adds one about a place, where there is one.
    pub fn add_at(&mut self, place: Option<&Mistake>, message: impl fmt::Display) {
        self.found.extend(place.map(|place| place.with(message)));
    }

    /// All that were found, by line.
    #[must_use]
    pub fn into_found(mut self) -> Vec<Mistake> {
        self.found.sort();
        self.found.dedup();
        self.found
    }

    /// Takes the keys out of a table that it does not have, and adds each; these are those that it
    /// has.
    pub fn take_unknown(&mut self, name: &str, table: &mut DeTable<'_>, names: &[&str]) {
        let is_unknown = |key: &&Spanned<DeString<'_>>| !names.contains(&key.get_ref().as_ref());
        let unknown: Vec<_> = table.keys().filter(is_unknown).cloned().collect();
        for key in unknown {
            let seen = key.get_ref().as_ref();
            let hint = suggestion(seen, names);
            self.add(key.span(), format_args!("[{name}] has no key `{seen}`; {hint}"));
            table.remove(seen);
        }
    }

    /// Whether none was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// Bytes of a file of settings.
const FILE_LEN_MAX: u64 = 1 << 20;

/// A file of settings, as it is written.
///
/// # Errors
/// Why it cannot be read, for users.
pub fn settings_text(path: &Path) -> Result<String, Mistake> {
    let name = path.display();
    let unreadable = |message: String| Mistake { line: 1, path: path.to_owned(), message };
    let len = fs::metadata(path).map(|metadata| metadata.len());
    if len.is_ok_and(|len| len > FILE_LEN_MAX) {
        let wanted = "wanted: settings in TOML of at most 1 MiB";
        return Err(unreadable(format!("{name}: too large; {wanted}")));
    }
    fs::read_to_string(path).map_err(|error| {
        let hint = "`wirelens run --init` prints a settings file to start from";
        unreadable(format!("{name}: {error}; {hint}"))
    })
}

/// The name that may have been meant, as the end of a message.
#[must_use]
pub fn suggestion(seen: &str, names: &[&str]) -> String {
    let likeness = |name: &&str| strsim::jaro_winkler(seen, name);
    let nearest = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|name| likeness(name) >= LIKENESS_MIN) {
        Some(name) => format!("did you mean `{name}`?"),
        None => match names.get(..NAMES_SHOWN_MAX) {
            Some(some) => format!("wanted: one of {names}, …", names = some.join(", ")),
            None => format!("wanted: one of {}", names.join(", ")),
        },
    }
}

/// The names of a struct's fields, as they are written.
#[must_use]
pub fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It always fails, once it has been told the names.
    let _ = T::deserialize(Catcher(&mut names));
    names
}

/// Catches the names of the fields that are asked for.
struct Catcher<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Catcher<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("names only"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(de::Error::custom("names only"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Reads a table into a struct of settings. What is wrong with one key does not hide what is wrong
/// with the next.
pub fn read_table<T: DeserializeOwned>(
    name: &str,
    table: &Spanned<DeTable<'_>>,
    mistakes: &mut Mistakes,
) -> Option<T> {
    let at = table.span();
    let mut rest = table.get_ref().clone();
    let is_fine_before = mistakes.found.len();
    mistakes.take_unknown(name, &mut rest, fields_of::<T>());
    loop {
        let read = toml::Deserializer::from(Spanned::new(at.clone(), rest.clone()));
        let error = match T::deserialize(read) {
            Ok(settings) if mistakes.found.len() == is_fine_before => return Some(settings),
            Ok(_) => return None,
            Err(error) => error,
        };
        let holds = |value: &Spanned<DeValue<'_>>, span: &Range<usize>| {
            value.span().start <= span.start && span.end <= value.span().end
        };
        let span = error.span();
        let wrong = span.as_ref().and_then(|span| {
            let (key, _) = rest.iter().find(|(_, value)| holds(value, span))?;
            Some(key.clone())
        });
        match (wrong, span) {
            (Some(key), span) => {
                let at = span.unwrap_or_else(|| key.span());
                mistakes.add(at, format_args!("[{name}] {}: {}", key.get_ref(), error.message()));
                rest.remove(key.get_ref().as_ref());
            }
            // Of no key that could be left out, such as one that is missing.
            (None, span) => {
                let at = span.unwrap_or(at);
                mistakes.add(at, format_args!("[{name}] {}", error.message()));
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use packet::Span;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
    struct Settings {
        #[serde(deserialize_with = "crate::written::duration")]
        idle_timeout: Span,
        stats: bool,
    }

    fn read(text: &str) -> (Option<Settings>, Vec<String>) {
        let mut mistakes = Mistakes::of(Path::new("a.toml"), text);
        let table = DeTable::parse(text).unwrap();
        let settings = read_table("flows", &table, &mut mistakes);
        (settings, mistakes.into_found().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn all_mistakes_are_told_at_once_with_their_lines() {
        assert_eq!(fields_of::<Settings>(), ["idle-timeout", "stats"]);
        let (settings, told) = read("stats = true\nidle-timeout = '5 s'");
        assert_eq!((settings.unwrap().stats, told.len()), (true, 0));
        let (settings, told) = read("\nstats = 3\nidle-timout = '1s'\n\nidle-timeout = 7\n");
        assert_eq!(settings, None);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].starts_with("a.toml:2: [flows] stats: "), "{told:?}");
        assert_eq!(
            told[1],
            "a.toml:3: [flows] has no key `idle-timout`; did you mean `idle-timeout`?"
        );
        assert!(told[2].starts_with("a.toml:5: [flows] idle-timeout: wanted a number with a unit"));
    }
}
