//! One check.

/// How it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// As it should be.
    Ok,
    /// It cannot be found out here.
    Unknown,
    /// A capture works, but loses packets, time or truth.
    Warning,
    /// It stops a capture.
    Problem,
}

impl Level {
    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One check: what was seen, what is wanted, and what changes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// What was examined, and where.
    pub name: String,
    /// How it is.
    pub level: Level,
    /// What was seen.
    pub seen: String,
    /// What is wanted; empty where all is well.
    pub wanted: String,
    /// The command line that changes it; empty where there is none.
    pub change: String,
}

impl Check {
    pub(crate) fn new(name: impl Into<String>, level: Level, seen: impl Into<String>) -> Self {
        let (name, seen) = (name.into(), seen.into());
        Self { name, level, seen, wanted: String::new(), change: String::new() }
    }

    pub(crate) fn ok(name: impl Into<String>, seen: impl Into<String>) -> Self {
        Self::new(name, Level::Ok, seen)
    }

    pub(crate) fn unknown(name: impl Into<String>, seen: impl Into<String>) -> Self {
        Self::new(name, Level::Unknown, seen)
    }

    pub(crate) fn warning(name: impl Into<String>, seen: impl Into<String>) -> Self {
        Self::new(name, Level::Warning, seen)
    }

    pub(crate) fn problem(name: impl Into<String>, seen: impl Into<String>) -> Self {
        Self::new(name, Level::Problem, seen)
    }

    pub(crate) fn wanted(self, wanted: impl Into<String>) -> Self {
        Self { wanted: wanted.into(), ..self }
    }

    pub(crate) fn change(self, change: impl Into<String>) -> Self {
        Self { change: change.into(), ..self }
    }
}
