//! The results of a run at its end, for every front end.

use super::session::SessionOutcome;
use crate::reading::AccountingError;
use crate::summary::{own_lines, stage_lines};

impl SessionOutcome {
    /// Whether every packet is in the account of every application.
    ///
    /// # Errors
    /// [`AccountingError`]
    pub fn account(&self) -> Result<(), AccountingError> {
        self.closings.iter().try_for_each(|(_, closing)| {
            self.received.account_for(&closing.outcome)?;
            closing.own.iter().try_for_each(|source| source.received.account_for(&source.outcome))
        })
    }

    /// The account of everything: lines, each ended.
    #[must_use]
    pub fn lines(&self) -> String {
        let Self { inputs, received, closings, besides, .. } = self;
        let first = closings.first().and_then(|(name, closing)| closing.stage(name));
        let mut text = own_lines(inputs, received, first.as_ref());
        for (at, (name, closing)) in closings.iter().enumerate() {
            if at > 0
                && let Some(stage) = closing.stage(name)
            {
                text.push_str(&stage_lines(&stage, &received.report));
            }
            text.push_str(&closing.lines);
            for source in &closing.own {
                let stage = source.stage(name);
                text.push_str(&format!("{}:\n", source.names()));
                text.push_str(&own_lines(&source.inputs, &source.received, Some(&stage)));
                text.push_str(&source.lines);
            }
        }
        besides.iter().for_each(|(_, done)| text.push_str(&done.lines));
        text
    }

    /// Results that were to be kept and are not, a line each.
    #[must_use]
    pub fn losses(&self) -> Vec<String> {
        let mut losses: Vec<_> =
            self.closings.iter().filter_map(|(_, closing)| closing.loss.clone()).collect();
        losses.extend(self.besides.iter().filter_map(|(_, done)| done.loss.clone()));
        losses.extend(self.lost.iter().cloned());
        losses.extend(self.dropped.iter().map(|(name, count)| {
            format!(
                "{name}: {count} rows were dropped, as writing was too slow; use a faster disk, or \
                 fewer rows"
            )
        }));
        losses
    }
}
