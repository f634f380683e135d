//! What a model of two taps reads of flows: their rows, and the sums of all flows where it reads
//! shares.

use std::collections::HashMap;

use crate::inputs::MissingReason;
use crate::model::{Model, Reads};
use crate::{FlowWay, Pair, Period};

/// Rows of one moment: sums are made once for each window, whichever flow is read.
#[derive(Debug, Default)]
pub struct QueueRows {
    sums: HashMap<(i64, usize), Vec<f32>>,
}

impl QueueRows {
    /// The rows of a flow; none of a model of one tap.
    ///
    /// # Errors
    /// [`MissingReason`], where CBIQ has no beginning.
    pub fn of(
        &mut self,
        model: &Model,
        pair: &mut Pair,
        way: &FlowWay,
        window: Period,
    ) -> Result<Vec<f32>, MissingReason> {
        let Reads::Queue(inputs) = model.reads() else { return Ok(Vec::new()) };
        let rows = pair.fill(way, window, inputs, model.rules())?.to_vec();
        if !model.reads_sums() {
            return Ok(rows);
        }
        let sums = self.sums.entry((window.start, window.len));
        let sums = sums.or_insert_with(|| pair.sums(window, inputs, model.rules()));
        Ok(beside(&rows, sums, inputs.len()))
    }
}

/// Each row of a flow, followed by that of all.
fn beside(rows: &[f32], sums: &[f32], input_count: usize) -> Vec<f32> {
    let columns = input_count.max(1);
    let both = rows.chunks_exact(columns).zip(sums.chunks_exact(columns));
    both.flat_map(|(row, sum)| row.iter().chain(sum)).copied().collect()
}
