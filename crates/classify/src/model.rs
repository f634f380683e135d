//! Asking a model about many flows in one call.

use model::{FirstPackets, Rows, WindowFeatures, WindowPackets};

use crate::cascade::{Model, Stage};
use crate::evidence::Evidence;
use crate::failures::{Failure, FailureCause};
use crate::serve::StageRow;
use crate::uncertainty::Answer;

/// Rows that wait for a stage's model, and the room in which it answers. Made once and used again,
/// it allocates nothing of its own.
pub(crate) struct Asking {
    waiting: Waiting,
    numbers: Vec<f64>,
    scores: Vec<f64>,
    /// What names say of each row, where they are evidence.
    evidence: Vec<Evidence>,
    /// Rows that could not be copied, by place: a fault of ours, since the stage was checked.
    refused: Vec<usize>,
    count: usize,
}

/// Rows as a kind of model reads them.
enum Waiting {
    Trees(Rows),
    #[cfg(feature = "onnx")]
    Onnx(Box<OnnxWaiting>),
}

/// Rows for ONNX Runtime, and a session of this thread's own.
#[cfg(feature = "onnx")]
struct OnnxWaiting {
    /// None where there was no memory for it; it was opened before, when the cascade was read.
    model: Option<model::onnx::OnnxModel>,
    rows: model::onnx::OnnxRows,
}

impl Waiting {
    fn of(stage: &Stage, capacity: usize) -> Self {
        match &stage.model {
            Model::Trees(forest) => Self::Trees(Rows::for_forest(forest, capacity)),
            #[cfg(feature = "onnx")]
            Model::Onnx(file) => {
                // A verdict is the same beside any other flows; on a card that would cost the gain.
                let is_alone = file.device() == model::Device::Processor;
                let model = file.open().ok();
                let model = model.map(|model| if is_alone { model.one_by_one() } else { model });
                let rows = file.rows(capacity);
                Self::Onnx(Box::new(OnnxWaiting { model, rows }))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Trees(rows) => rows.len(),
            #[cfg(feature = "onnx")]
            Self::Onnx(waiting) => waiting.rows.len(),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Trees(rows) => rows.clear(),
            #[cfg(feature = "onnx")]
            Self::Onnx(waiting) => waiting.rows.clear(),
        }
    }

    /// Whether the row was copied.
    #[inline]
    fn push(&mut self, model: &Model, records: &[u8], numbers: &[f64]) -> bool {
        match (self, model) {
            (Self::Trees(rows), Model::Trees(forest)) => {
                forest.push_with(rows, records, numbers).is_ok()
            }
            #[cfg(feature = "onnx")]
            (Self::Onnx(waiting), Model::Onnx(file)) => {
                file.push(&mut waiting.rows, records, numbers).is_ok()
            }
            #[cfg(feature = "onnx")]
            _ => false,
        }
    }

    /// Scores all rows; why they have no scores, where that fails.
    fn score(&mut self, model: &Model, scores: &mut [f64]) -> Option<(FailureCause, String)> {
        match (self, model) {
            (Self::Trees(rows), Model::Trees(forest)) => {
                let error = forest.score(rows, scores).err()?;
                Some((FailureCause::Rows, error.to_string()))
            }
            #[cfg(feature = "onnx")]
            (Self::Onnx(waiting), Model::Onnx(_)) => {
                let OnnxWaiting { model, rows } = waiting.as_mut();
                match model.as_mut().map(|model| model.score(rows, scores)) {
                    Some(Ok(())) => None,
                    Some(Err(error)) => Some((cause(&error), error.to_string())),
                    None => {
                        let why = String::from("ONNX Runtime had no memory for a session");
                        Some((FailureCause::Session, why))
                    }
                }
            }
            #[cfg(feature = "onnx")]
            _ => {
                let why = String::from("the rows are for a model of another kind");
                Some((FailureCause::Rows, why))
            }
        }
    }
}

#[cfg(feature = "onnx")]
const fn cause(error: &model::onnx::OnnxError) -> FailureCause {
    use model::onnx::OnnxError;

    match error {
        OnnxError::Run { .. } => FailureCause::Run,
        OnnxError::Output { .. } => FailureCause::Output,
        _ => FailureCause::Rows,
    }
}

impl Asking {
    pub(crate) fn new(stage: &Stage, capacity: usize) -> Self {
        Self {
            waiting: Waiting::of(stage, capacity),
            numbers: Vec::new(),
            scores: Vec::new(),
            evidence: Vec::new(),
            refused: Vec::new(),
            count: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Copies what the stage looks at of a flow, as far as it is there.
    #[inline]
    pub(crate) fn push(&mut self, stage: &Stage, packets: &FirstPackets, evidence: Evidence) {
        if stage.names().is_some() {
            self.evidence.push(evidence);
        }
        self.numbers.clear();
        packets.numbers(&stage.features, &mut self.numbers);
        let records = packets.records(&stage.features);
        if !self.waiting.push(&stage.model, records, &self.numbers) {
            self.refused.push(self.count);
        }
        self.count += 1;
    }

    /// Copies a row that was made elsewhere, if it is one of the stage's.
    pub(crate) fn push_row(&mut self, stage: &Stage, row: StageRow<'_>) -> bool {
        let StageRow { records, numbers, evidence, .. } = row;
        self.numbers.clear();
        if stage.names().is_some() != evidence.is_some()
            || !stage.features.row_numbers(records, numbers, &mut self.numbers)
            || !self.waiting.push(&stage.model, records, &self.numbers)
        {
            return false;
        }
        self.evidence.extend(evidence);
        self.count += 1;
        true
    }

    /// The same of a window; `features` are the stage's.
    pub(crate) fn push_window(
        &mut self,
        stage: &Stage,
        features: &WindowFeatures,
        packets: &WindowPackets,
    ) {
        self.numbers.clear();
        packets.numbers(features, &mut self.numbers);
        if !self.waiting.push(&stage.model, packets.records(features), &self.numbers) {
            self.refused.push(self.count);
        }
        self.count += 1;
    }

    /// Answers all rows, in the order in which they came, and forgets them. One that was refused
    /// gets an answer without any confidence, so that no flow goes without. So do all where the
    /// model fails. Returned is what failed: it has to be counted, and those who answer others give
    /// no answer then.
    #[must_use]
    pub(crate) fn answer(&mut self, stage: &Stage, take: impl FnMut(Answer)) -> Option<Failure> {
        self.answer_beside(stage, |_, _| {}, take)
    }

    /// The same, where something other than the stage changes the probabilities of a row, by its
    /// place.
    #[must_use]
    pub(crate) fn answer_beside(
        &mut self,
        stage: &Stage,
        mut mix: impl FnMut(usize, &mut [f64]),
        mut take: impl FnMut(Answer),
    ) -> Option<Failure> {
        let class_count = stage.model.class_count();
        self.scores.clear();
        self.scores.resize(self.waiting.len() * class_count, 0.0);
        // A session that is missing is no failure of a stage without rows.
        let failure = match self.waiting.len() {
            0 => None,
            _ => self.waiting.score(&stage.model, &mut self.scores),
        };
        let mut scores = self.scores.chunks_exact_mut(class_count);
        for place in 0..self.count {
            let row = if self.refused.contains(&place) { None } else { scores.next() };
            let Some(probabilities) = row.filter(|_| failure.is_none()) else {
                take(Answer::NONE);
                continue;
            };
            let evidence = self.evidence.get(place);
            if let Some(evidence) = evidence {
                stage.mix_names(probabilities, evidence);
            }
            mix(place, probabilities);
            let mut answer = stage.answer(probabilities);
            if evidence.is_some_and(|evidence| evidence.is_unlisted) {
                answer.confidence = 0.0;
            }
            take(answer);
        }
        let (count, refused) = (self.count as u64, self.refused.len() as u64);
        self.evidence.clear();
        self.waiting.clear();
        self.refused.clear();
        self.count = 0;
        match failure {
            Some((cause, why)) => Some(Failure { cause, why, rows: count }),
            None => (refused > 0).then(|| {
                let why = String::from("rows do not have what the model reads");
                Failure { cause: FailureCause::Rows, why, rows: refused }
            }),
        }
    }
}
