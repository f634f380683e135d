//! How a network is served: what it keeps of the tokens so far, and its scores of queries.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use model::encoder::{EncoderState, HeadScratch};

use super::file::{Causal, Network};
use super::{Model, ModelError};
use crate::history::TOKEN_LEN;

/// A whole network that others run, such as one in ONNX; what predictors open to score.
pub trait ExternalNetwork: fmt::Debug + Send + Sync {
    /// Makes it ready to score.
    ///
    /// # Errors
    /// [`ModelError`]: no memory, say.
    fn open(&self) -> Result<Box<dyn Score>, ModelError>;
}

/// Such a network, ready to score.
pub trait Score: fmt::Debug + Send {
    /// A score for each query, [`crate::history::QUERY_LEN`] numbers each, by the newest tokens,
    /// oldest first, [`TOKEN_LEN`] numbers each: one at least, and the model's window at most.
    ///
    /// # Errors
    /// [`ModelError`]: the library that runs it failed. There is no prediction then.
    fn score(
        &mut self,
        tokens: &[f32],
        queries: &[f32],
        scores: &mut [f32],
    ) -> Result<(), ModelError>;
}

/// A network at work.
#[derive(Debug)]
pub(super) enum NetworkState {
    /// Keys and values are kept, so that a token is encoded once.
    Causal {
        state: Box<EncoderState>,
        scratch: HeadScratch,
        /// The encoder's output for the newest token; zeros before the first.
        newest: Vec<f32>,
        encoded: Vec<f32>,
    },
    /// The tokens are kept, and encoded for each prediction.
    Lent { network: Box<dyn Score>, tokens: VecDeque<[f32; TOKEN_LEN]>, window: usize },
}

impl NetworkState {
    pub(super) fn new(model: &Model) -> Result<Self, ModelError> {
        let window = model.window();
        match model.network() {
            Network::Causal(causal) => {
                let Causal { encoder, head } = causal.as_ref();
                let shape = encoder.shape();
                Ok(Self::Causal {
                    state: Box::new(
                        EncoderState::new(shape, window).map_err(ModelError::of_encoder)?,
                    ),
                    scratch: HeadScratch::new(head),
                    newest: vec![0.0; shape.width],
                    encoded: Vec::new(),
                })
            }
            Network::Lent(network) => {
                Ok(Self::Lent { network: network.open()?, tokens: VecDeque::new(), window })
            }
        }
    }

    /// What the linear layers read of the tokens; empty where they cannot be fine-tuned.
    pub(super) fn output(&self) -> &[f32] {
        match self {
            Self::Causal { newest, .. } => newest,
            Self::Lent { .. } => &[],
        }
    }

    /// New tokens; whether [`Self::output`] is another one.
    pub(super) fn take(&mut self, model: &Model, new: &[[f32; TOKEN_LEN]]) -> bool {
        match (self, model.network()) {
            (Self::Causal { state, newest, encoded, .. }, Network::Causal(causal)) => {
                let width = newest.len();
                encoded.resize(new.len() * width, 0.0);
                let appended = causal.encoder.append(state, new.as_flattened(), encoded);
                let Some(last) = encoded.rchunks(width).next().filter(|_| appended.is_ok()) else {
                    return false;
                };
                newest.copy_from_slice(last);
                true
            }
            (Self::Lent { tokens, window, .. }, _) => {
                tokens.extend(new);
                tokens.drain(..tokens.len().saturating_sub(*window));
                false
            }
            (Self::Causal { .. }, Network::Lent(_)) => false,
        }
    }

    /// A score for each query; none where there is no token yet.
    ///
    /// # Errors
    /// [`ModelError`]: the library that runs a lent network failed.
    pub(super) fn score(
        &mut self,
        model: &Model,
        queries: &[f32],
        scores: &mut [f32],
    ) -> Result<Option<()>, ModelError> {
        match (self, model.network()) {
            (Self::Causal { scratch, newest, .. }, Network::Causal(causal)) => {
                Ok(causal.head.score(scratch, newest, queries, scores).ok())
            }
            (Self::Lent { network, tokens, .. }, _) if !tokens.is_empty() => {
                let tokens = tokens.make_contiguous().as_flattened();
                network.score(tokens, queries, scores).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Another head of the same encoder.
    pub(super) fn renew_head(&mut self, model: &Model) {
        if let (Self::Causal { scratch, .. }, Some(head)) = (self, model.head()) {
            *scratch = HeadScratch::new(head);
        }
    }
}

/// Whether one network can continue where the other was: encoders of one shape, or the same lent
/// one.
pub(super) fn goes_on(one: &Model, other: &Model) -> bool {
    let is_alike = match (one.network(), other.network()) {
        (Network::Causal(one), Network::Causal(other)) => {
            one.encoder.shape() == other.encoder.shape()
        }
        (Network::Lent(one), Network::Lent(other)) => Arc::ptr_eq(one, other),
        _ => false,
    };
    is_alike && one.window() == other.window()
}
