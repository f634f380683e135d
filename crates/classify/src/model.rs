//! Asking a model about many flows at once.

use model::{FirstPackets, Rows, WindowFeatures, WindowPackets};

use crate::cascade::{Model, Stage};
use crate::uncertainty::Answer;

/// Rows that wait for a stage's model, and the room in which it answers. Made once and used again,
/// it allocates nothing.
pub(crate) struct Asking {
    rows: Rows,
    numbers: Vec<f64>,
    scores: Vec<f64>,
    /// Rows that could not be copied, by place: a fault of ours, since the stage was checked.
    refused: Vec<usize>,
    count: usize,
}

impl Asking {
    pub(crate) fn new(stage: &Stage, capacity: usize) -> Self {
        let Model::Trees(forest) = &stage.model;
        Self {
            rows: Rows::for_forest(forest, capacity),
            numbers: Vec::new(),
            scores: Vec::new(),
            refused: Vec::new(),
            count: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Copies what the stage looks at of a flow, as far as it is there.
    #[inline]
    pub(crate) fn push(&mut self, stage: &Stage, packets: &FirstPackets) {
        let Model::Trees(forest) = &stage.model;
        self.numbers.clear();
        packets.numbers(&stage.features, &mut self.numbers);
        let records = packets.records(&stage.features);
        if forest.push_with(&mut self.rows, records, &self.numbers).is_err() {
            self.refused.push(self.count);
        }
        self.count += 1;
    }

    /// The same of a window; `features` are the stage's.
    pub(crate) fn push_window(
        &mut self,
        stage: &Stage,
        features: &WindowFeatures,
        packets: &WindowPackets,
    ) {
        let Model::Trees(forest) = &stage.model;
        self.numbers.clear();
        packets.numbers(features, &mut self.numbers);
        let records = packets.records(features);
        if forest.push_with(&mut self.rows, records, &self.numbers).is_err() {
            self.refused.push(self.count);
        }
        self.count += 1;
    }

    /// Answers all rows, in the order in which they came, and forgets them. One that was refused
    /// gets an answer without any confidence, so that no flow goes without.
    pub(crate) fn answer(&mut self, stage: &Stage, mut take: impl FnMut(Answer)) {
        let Model::Trees(forest) = &stage.model;
        let class_count = forest.classes().len();
        self.scores.clear();
        self.scores.resize(self.rows.len() * class_count, 0.0);
        let is_scored = forest.score(&self.rows, &mut self.scores).is_ok();
        let mut scores = self.scores.chunks_exact(class_count);
        let nothing = Answer { label: 0, confidence: 0.0, uncertainty: f64::INFINITY };
        for place in 0..self.count {
            let row = if self.refused.contains(&place) { None } else { scores.next() };
            take(match row {
                Some(probabilities) if is_scored => stage.uncertainty.answer(probabilities),
                _ => nothing,
            });
        }
        self.rows.clear();
        self.refused.clear();
        self.count = 0;
    }
}
