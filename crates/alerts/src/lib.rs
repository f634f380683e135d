//! Alerts by rules over the tables of a run and by lists of indicators, and their delivery.
//!
//! A thread looks at the new rows of the [`Store`](store::Store) ten times a second, evaluates
//! rules in event time, writes what fires and resolves into the table `alerts`, and hands it to
//! notifiers. Each notifier has a thread and a bounded queue, so that a slow one delays no other,
//! and none delays packets.
//!
//! Event time is taken from rows. The clocks that a front end lends ([`Clocks`]) decide when
//! something is delivered, never what.

#![forbid(unsafe_code)]

mod alert;
mod begin;
mod check;
mod counts;
pub mod indicators;
mod notify;
mod rules;
mod settings;
mod tables;
mod text;
mod watch;

pub use alert::{Alert, AlertFlow, SCHEMA, State};
pub use begin::{Alerts, BeginError, Clocks, EveLine, Options, TestReport};
pub use check::TABLE;
pub use check::{Mistake, Part};
pub use indicators::{LISTS_OF_RULES_MAX, Lists};
pub use notify::NotifyState;
pub use rules::COUNTS;
pub use settings::{
    AlertSettings, Facility, IndicatorKind, IndicatorSettings, NotifyKind, NotifySettings, Rate,
    Settings,
};
