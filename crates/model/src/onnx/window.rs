//! Networks that score queries about a window of tokens: what was seen last, oldest first.
//!
//! Three inputs of 32-bit floats, `tokens` (window × numbers of a token), `is_pad` (window: 1 where
//! there is no token yet, which is at the beginning) and `queries` (any number × numbers of a
//! query); one output, `scores`, a number for each query.

use std::fmt;
use std::sync::Arc;

use ort::session::{HasSelectedOutputs, OutputSelector, RunOptions, Session};
use ort::value::{Outlet, TensorElementType, TensorRef, ValueType};

use super::{FILE_LEN_MAX, Library, OnnxError, failed, named, session, shown};
use crate::device::Device;

const TOKENS: &str = "tokens";
const IS_PAD: &str = "is_pad";
const QUERIES: &str = "queries";
const SCORES: &str = "scores";

/// What such a network is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowShape {
    /// Tokens of a window.
    pub window: usize,
    /// Numbers of a token.
    pub token_len: usize,
    /// Numbers of a query.
    pub query_len: usize,
}

/// The file of such a network, checked; what threads open to score.
#[derive(Clone, Debug)]
pub struct WindowFile {
    library: Library,
    bytes: Arc<[u8]>,
    shape: WindowShape,
}

/// Such a network, ready to score.
pub struct WindowNetwork {
    session: Session,
    options: RunOptions<HasSelectedOutputs>,
    shape: WindowShape,
    tokens: Vec<f32>,
    is_pad: Vec<f32>,
}

impl WindowFile {
    /// Reads a network from the bytes of its file, and tries it on one token of zeros.
    ///
    /// # Errors
    /// [`OnnxError`], where the file is no network, or none of this shape.
    pub fn new(library: Library, bytes: Vec<u8>, shape: WindowShape) -> Result<Self, OnnxError> {
        if bytes.len() > FILE_LEN_MAX {
            return Err(OnnxError::TooLong { size_bytes: bytes.len() });
        }
        let file = Self { library, bytes: bytes.into(), shape };
        let mut scores = [0.0; 2];
        let queries = vec![0.0; 2 * shape.query_len];
        file.open()?.score(&vec![0.0; shape.token_len], &queries, &mut scores)?;
        if scores.iter().all(|score| score.is_finite()) {
            return Ok(file);
        }
        let cause = format!("output {SCORES:?} gave {scores:?} for zeros; wanted: finite numbers");
        Err(OnnxError::Output { cause })
    }

    /// Makes the network ready to score, on one thread.
    ///
    /// # Errors
    /// [`OnnxError`], as in [`new`](Self::new); later only where memory is short.
    pub fn open(&self) -> Result<WindowNetwork, OnnxError> {
        let WindowShape { window, token_len, query_len } = self.shape;
        let session = session(self.library, &self.bytes, Device::Processor)?;
        let seen = |cause: String| OnnxError::Input { cause: format!("input: {cause}") };
        for (name, wanted) in [
            (TOKENS, &[Some(window), Some(token_len)][..]),
            (IS_PAD, &[Some(window)]),
            (QUERIES, &[None, Some(query_len)]),
        ] {
            check(session.inputs(), name, wanted).map_err(seen)?;
        }
        if session.inputs().len() != 3 {
            let names: Vec<_> = session.inputs().iter().map(Outlet::name).collect();
            return Err(seen(format!("{names:?}; wanted: {TOKENS}, {IS_PAD} and {QUERIES}")));
        }
        let seen = |cause: String| OnnxError::Output { cause: format!("output: {cause}") };
        check(session.outputs(), SCORES, &[None]).map_err(seen)?;
        let options = RunOptions::new().map_err(failed)?;
        let options = options.with_outputs(OutputSelector::no_default().with(SCORES));
        let (tokens, is_pad) = (vec![0.0; window * token_len], vec![1.0; window]);
        Ok(WindowNetwork { session, options, shape: self.shape, tokens, is_pad })
    }
}

impl WindowNetwork {
    /// A score for each query: `tokens` are the newest, oldest first, as many as there are and at
    /// least one; of more than the window the oldest are left out.
    ///
    /// # Errors
    /// [`OnnxError`]: lengths that do not fit, or the library fails.
    pub fn score(
        &mut self,
        tokens: &[f32],
        queries: &[f32],
        scores: &mut [f32],
    ) -> Result<(), OnnxError> {
        let WindowShape { window, token_len, query_len } = self.shape;
        if queries.len() != scores.len() * query_len {
            let (seen, wanted) = (scores.len(), queries.len() / query_len.max(1));
            return Err(OnnxError::ScoreCount { seen, wanted });
        }
        let count = (tokens.len() / token_len.max(1)).min(window);
        if count == 0 || !tokens.len().is_multiple_of(token_len) {
            let cause = format!("{} numbers of tokens; wanted: {token_len} each", tokens.len());
            return Err(OnnxError::Input { cause });
        }
        let pads = window - count;
        self.is_pad.fill(0.0);
        self.is_pad[..pads].fill(1.0);
        self.tokens[..pads * token_len].fill(0.0);
        let newest = &tokens[tokens.len() - count * token_len..];
        self.tokens[pads * token_len..].copy_from_slice(newest);
        let view = |shape: &[usize], values| TensorRef::from_array_view((shape.to_vec(), values));
        let inputs = ort::inputs![
            TOKENS => view(&[window, token_len], self.tokens.as_slice()).map_err(failed)?,
            IS_PAD => view(&[window], self.is_pad.as_slice()).map_err(failed)?,
            QUERIES => view(&[scores.len(), query_len], queries).map_err(failed)?,
        ];
        let outputs = self.session.run_with_options(inputs, &self.options).map_err(failed)?;
        let value = outputs.get(SCORES).and_then(|value| value.try_extract_tensor::<f32>().ok());
        match value {
            Some((_, values)) if values.len() == scores.len() => {
                scores.copy_from_slice(values);
                Ok(())
            }
            other => {
                let seen = other.map_or(0, |(_, values)| values.len());
                let wanted = scores.len();
                let cause = format!("output {SCORES:?} has {seen} numbers; wanted: {wanted}");
                Err(OnnxError::Output { cause })
            }
        }
    }
}

impl fmt::Debug for WindowNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowNetwork").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// Whether this is a tensor of 32-bit floats of this shape; `None` is any length.
fn check(outlets: &[Outlet], name: &str, wanted: &[Option<usize>]) -> Result<(), String> {
    let outlet = named(outlets, name)?;
    let fits = match outlet.dtype() {
        ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } => {
            let is_as = |(&len, wanted): (&i64, &Option<usize>)| match wanted {
                Some(wanted) => usize::try_from(len) == Ok(*wanted),
                None => len < 0,
            };
            shape.len() == wanted.len() && shape.iter().zip(wanted).all(is_as)
        }
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let sizes = wanted.iter().map(|len| len.map_or("any".to_owned(), |len| len.to_string()));
    let sizes = sizes.collect::<Vec<_>>().join(" × ");
    Err(format!("{}; wanted: a tensor of 32-bit floats, {sizes}", shown(outlet)))
}
