//! Flows with what a trained cascade says of them, as columns.

use std::borrow::Cow;
use std::fmt;

use classify::serve::Decision;
use classify::{Cascade, StageName, Standing};
use engine::columns::{Columns, RowRefused, Schema, Value};
use engine::flow::{EndedFlow, FlowRecord, Held};

use super::layout::Laid;
use super::row::{self, Kept, Row};
use crate::captures::Captures;

/// Why flows are no rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabelledError {
    /// A flow has ended without a verdict: a fault of ours, never of the traffic.
    NoVerdict,
    /// Columns would hold over 4 GiB of text.
    Row(RowRefused),
}

impl fmt::Display for LabelledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVerdict => f.write_str("a flow has no verdict; please report this"),
            Self::Row(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for LabelledError {}

/// Turns flows and their verdicts into columns, piece by piece.
pub struct LabelledRows<'a> {
    cascade: &'a Cascade,
    captures: Captures,
    columns: Columns,
}

/// What is kept for a flow, and what a cascade says of it, as columns.
struct Labelled<'a, P> {
    kept: &'a P,
    cascade: &'a Cascade,
    label: Cow<'a, str>,
    guess: Cow<'a, str>,
    decision: Decision,
}

impl<P: Kept> Kept for Labelled<'_, P> {
    fn push<'a>(&'a self, record: &FlowRecord, row: &mut Row<'a>) {
        self.kept.push(record, row);
        let confidence = Value::F64(self.decision.confidence);
        row.extend([
            Value::Text(&self.label),
            if self.decision.label.is_unknown() { Value::Null } else { confidence },
            Value::Text(&self.guess),
            confidence,
            Value::Str(self.decision.stage.map_or("none", StageName::name)),
            Value::U16(self.decision.packets_used),
            Value::Str(self.cascade.id()),
        ]);
    }
}

impl<'a> LabelledRows<'a> {
    /// Nothing filled yet, of flows in these captures, with statistics or without.
    #[must_use]
    pub fn new(cascade: &'a Cascade, captures: Captures, has_statistics: bool) -> Self {
        let schemas = if has_statistics { row::LABELLED_WITH_STATISTICS } else { row::LABELLED };
        let schema = schemas[usize::from(captures.are_named())];
        Self { cascade, captures, columns: Columns::new(schema) }
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> Schema {
        self.columns.schema()
    }

    /// Puts flows in the place of what was there.
    ///
    /// # Errors
    /// [`LabelledError`]
    pub fn fill<P: Laid>(
        &mut self,
        flows: &[EndedFlow<(Standing, P)>],
    ) -> Result<&Columns, LabelledError> {
        self.columns.clear();
        for (record, Held((standing, kept))) in flows {
            let Standing::Decided(decision) = *standing else {
                return Err(LabelledError::NoVerdict);
            };
            let cascade = self.cascade;
            let label = decision.label.name(cascade);
            let guess = decision.label.guess(cascade);
            let labelled = Labelled { kept, cascade, label, guess, decision };
            row::push(&mut self.columns, None, record, &labelled, &self.captures)
                .map_err(LabelledError::Row)?;
        }
        Ok(&self.columns)
    }
}
