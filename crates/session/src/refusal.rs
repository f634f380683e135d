//! Why an application does not run, or why its results could not be kept.

use std::fmt;

/// Why an application does not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The setting that it is about, where it is about one.
    pub key: Option<&'static str>,
    /// What was seen, what was wanted, what to try.
    pub message: String,
}

impl Refusal {
    /// About a setting.
    pub fn of(key: &'static str, message: impl fmt::Display) -> Self {
        Self { key: Some(key), message: message.to_string() }
    }

    /// About no setting.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { key: None, message: message.to_string() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            Some(key) => write!(f, "{key}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Refusal {}
