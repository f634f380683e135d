//! Scores of queries about a token: two linear layers, evaluated for many queries together.

use super::dense::Dense;
use super::kernels::{Linear, Step};
use super::{Coding, EncoderError, Group, LANES, TOKENS_MAX, dense_of, finite, tensor};
use crate::simd::{self, Path};

/// `Linear(width + query_len + bins, inner)`, ReLU, `Linear(inner, 1)`: a score for each query,
/// from the encoder's output for a token and the query's own numbers, which are coded before the
/// first layer.
///
/// It is apart from the encoder and small, so that it can be trained further and replaced alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Head {
    hidden_len: usize,
    coding: Coding,
    first: Dense,
    last: Dense,
}

/// Room for what a [`Head`] computes on the way.
#[derive(Clone, Debug, Default)]
pub struct HeadScratch {
    /// Sums of the first layer that all queries share, a row.
    shared: Vec<Group>,
    /// The queries of a block with their bins.
    coded: Vec<f32>,
    /// Outputs of the first layer, for each query of a block.
    inner: Vec<Group>,
    /// Outputs of the last, of which one lane is used.
    scores: Vec<Group>,
}

impl HeadScratch {
    /// For this head, so that no call of [`Head::score`] with it allocates memory.
    #[must_use]
    pub fn new(head: &Head) -> Self {
        let mut scratch = Self::default();
        scratch.fit(head);
        scratch
    }

    fn fit(&mut self, head: &Head) {
        let groups = head.first.bias_groups().len();
        self.shared.resize(groups, [0.0; LANES]);
        self.coded.clear();
        self.coded.reserve((head.first.input_count() - head.hidden_len) * TOKENS_MAX);
        self.inner.resize(groups * TOKENS_MAX, [0.0; LANES]);
        self.scores.resize(TOKENS_MAX, [0.0; LANES]);
    }
}

impl Head {
    /// From its two layers. The first `hidden_len` inputs of the first layer are the encoder's
    /// output, the next ones the query, and the last ones its bins.
    ///
    /// # Errors
    /// [`EncoderError`]: no input left for a query, or layers that do not fit each other.
    pub fn new(
        hidden_len: usize,
        coding: Coding,
        first: Dense,
        last: Dense,
    ) -> Result<Self, EncoderError> {
        let bins = coding.bin_count();
        if hidden_len == 0 || first.input_count() <= hidden_len.saturating_add(bins) {
            return Err(EncoderError::new(format!(
                "head.0: {} inputs, of which {hidden_len} are the encoder's output and {bins} are \
                 bins; wanted: 1 or more of the former, and 1 or more of a query",
                first.input_count()
            )));
        }
        if last.input_count() != first.output_count() || last.output_count() != 1 {
            return Err(EncoderError::new(format!(
                "head.1: {} inputs and {} outputs; wanted: {} inputs, as head.0 has outputs, and \
                 1 output",
                last.input_count(),
                last.output_count(),
                first.output_count()
            )));
        }
        Ok(Self { hidden_len, coding, first, last })
    }

    /// From the tensors `head.0.weight` (inner × (`hidden_len` + `query_len` + bins)),
    /// `head.0.bias` (inner), `head.1.weight` (1 × inner), `head.1.bias` (1), and `head.bins`
    /// (bins × 3) where queries are coded.
    ///
    /// # Errors
    /// [`EncoderError`]: a tensor that is missing, of another length, or not finite.
    pub fn from_tensors<'a>(
        hidden_len: usize,
        query_len: usize,
        tensors: impl Fn(&str) -> Option<&'a [f32]>,
    ) -> Result<Self, EncoderError> {
        let inner = tensor(&tensors, "head.0.bias")?.len();
        let coding = Coding::new(query_len, tensors("head.bins").unwrap_or_default())?;
        let inputs = hidden_len.saturating_add(query_len).saturating_add(coding.bin_count());
        let first = dense_of(&tensors, "head.0", inputs, inner)?;
        let last = dense_of(&tensors, "head.1", inner, 1)?;
        Self::new(hidden_len, coding, first, last)
    }

    /// Numbers of the encoder's output that it reads.
    #[must_use]
    pub const fn hidden_len(&self) -> usize {
        self.hidden_len
    }

    /// Numbers of a query.
    #[must_use]
    pub const fn query_len(&self) -> usize {
        self.first.input_count() - self.hidden_len - self.coding.bin_count()
    }

    /// How a query is coded.
    #[must_use]
    pub const fn coding(&self) -> &Coding {
        &self.coding
    }

    /// The two linear layers.
    #[must_use]
    pub const fn layers(&self) -> (&Dense, &Dense) {
        (&self.first, &self.last)
    }

    /// A score for each of `m` queries: `hidden` has `hidden_len` numbers, `queries`
    /// `m` × `query_len`, `output` `m`. What the first layer makes of `hidden` is computed once.
    ///
    /// # Errors
    /// [`EncoderError`]: other lengths, or a number that is not finite.
    pub fn score(
        &self,
        scratch: &mut HeadScratch,
        hidden: &[f32],
        queries: &[f32],
        output: &mut [f32],
    ) -> Result<(), EncoderError> {
        self.score_on(Path::best(), scratch, hidden, queries, output)
    }

    /// The same on a path of choice, to measure and test.
    ///
    /// # Errors
    /// As [`score`](Self::score).
    pub fn score_on(
        &self,
        path: Path,
        scratch: &mut HeadScratch,
        hidden: &[f32],
        queries: &[f32],
        output: &mut [f32],
    ) -> Result<(), EncoderError> {
        let (hidden_len, query_len) = (self.hidden_len, self.query_len());
        if hidden.len() != hidden_len || queries.len() != output.len() * query_len {
            return Err(EncoderError::new(format!(
                "{} numbers of a token, {} of queries and {} scores; wanted: {hidden_len} of a \
                 token, and {query_len} of a query for each score",
                hidden.len(),
                queries.len(),
                output.len()
            )));
        }
        finite("token", hidden)?;
        finite("query", queries)?;
        scratch.fit(self);
        let HeadScratch { shared, coded, inner, scores } = scratch;
        let of_hidden = Linear::new(&self.first, hidden, hidden_len);
        simd::encode(path, Step::Linear(Linear { input_count: hidden_len, ..of_hidden }, shared));
        let groups = shared.len();
        for (queries, output) in
            queries.chunks(TOKENS_MAX * query_len).zip(output.chunks_mut(TOKENS_MAX))
        {
            let count = output.len();
            let inner = &mut inner[..count * groups];
            coded.clear();
            queries.chunks(query_len).for_each(|query| self.coding.append(query, coded));
            let coded_len = query_len + self.coding.bin_count();
            let of_queries = Linear {
                start: shared,
                from: hidden_len,
                input_count: coded_len,
                ..Linear::new(&self.first, coded, coded_len)
            };
            simd::encode(path, Step::Linear(of_queries.rectified(), inner));
            let last = Linear::new(&self.last, inner.as_flattened(), groups * LANES);
            simd::encode(path, Step::Linear(last, &mut scores[..count]));
            output.iter_mut().zip(scores.iter()).for_each(|(to, [score, ..])| *to = *score);
        }
        Ok(())
    }
}
