//! Models from their files.
//!
//! The file is safetensors, or a description of a network that others run
//! (`docs/specs/l4s-model.md`). What it says is checked, all of it: a file is refused, or does what
//! it says.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use model::encoder::{Encoder, EncoderError, EncoderShape, Head, WINDOW_MAX};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::ExternalNetwork;
use crate::history::{HistorySettings, QUERY_LEN, QUERY_NAMES, TOKEN_LEN, TOKEN_NAMES};

/// Bytes of a file at most.
pub const FILE_LEN_MAX: usize = 16 << 20;
/// What stands first in what it says of itself.
pub const FORMAT: &str = "wirelens-l4s 1";
/// The same of a network in ONNX.
pub const FORMAT_ONNX: &str = "wirelens-l4s-onnx 1";

const WANTED: &str = "wanted: a model of `wirelens train l4s`";

/// Why a file is refused: what was seen and what was wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError(String);

impl ModelError {
    /// What was seen and what was wanted, reported by the provider of a network.
    #[must_use]
    pub fn new(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }

    pub(super) fn of_encoder(error: EncoderError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for ModelError {
    /// In one line, and without what terminals act on: libraries quote from the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
        self.0.chars().try_for_each(|letter| f.write_char(shown(letter)))
    }
}

impl std::error::Error for ModelError {}

/// What a file is.
#[derive(Deserialize)]
struct Kind {
    format: String,
}

/// What a file of tensors says of itself, besides.
#[derive(Deserialize)]
struct Sizes {
    heads: usize,
    layers: usize,
    width: usize,
    hidden: usize,
}

/// What every model says of itself.
#[derive(Deserialize)]
struct Said {
    window: usize,
    batch_packets: u32,
    batch_span_ns: u64,
    token: Vec<String>,
    query: Vec<String>,
    #[serde(default)]
    floor_ns: Option<[u64; 2]>,
}

/// An encoder that keeps keys and values, and linear layers.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Causal {
    pub(super) encoder: Arc<Encoder>,
    pub(super) head: Head,
}

/// What predicts.
#[derive(Clone, Debug)]
pub(super) enum Network {
    Causal(Box<Causal>),
    Lent(Arc<dyn ExternalNetwork>),
}

impl PartialEq for Network {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Causal(one), Self::Causal(other)) => one == other,
            (Self::Lent(one), Self::Lent(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// A network that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    network: Network,
    window: usize,
    settings: HistorySettings,
    floor_ns: Option<[u64; 2]>,
}

impl Model {
    /// Reads a file, all of it given.
    ///
    /// # Errors
    /// [`ModelError`], for the first thing that cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > FILE_LEN_MAX {
            let text = format!("{} bytes; wanted: {FILE_LEN_MAX} at most", bytes.len());
            return Err(ModelError(text));
        }
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(no_model)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(no_model)?;
        let said = header.metadata().as_ref().and_then(|said| said.get("wirelens"));
        let text = said.ok_or_else(|| no_model("it has no description"))?.as_bytes();
        let said = Said::read(text, FORMAT)?;
        let sizes: Sizes = serde_json::from_slice(text).map_err(no_model)?;
        let mut floats = HashMap::new();
        for (name, view) in tensors.iter() {
            if view.dtype() != Dtype::F32 {
                return Err(ModelError(format!("{name}: {:?}; wanted: F32", view.dtype())));
            }
            let (numbers, _) = view.data().as_chunks::<4>();
            let numbers: Vec<f32> =
                numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            floats.insert(name, numbers);
        }
        let tensor = |name: &str| floats.get(name).map(Vec::as_slice);
        let encoder = Encoder::new(sizes.shape(), tensor).map_err(ModelError::of_encoder)?;
        let head =
            Head::from_tensors(sizes.width, QUERY_LEN, tensor).map_err(ModelError::of_encoder)?;
        Ok(said.model(Network::Causal(Box::new(Causal { encoder: Arc::new(encoder), head }))))
    }

    /// A model whose network others run: `said` is the metadata of its file, and `lend` is given
    /// the window.
    ///
    /// # Errors
    /// [`ModelError`], for the first thing that cannot be.
    pub fn lent(
        said: &[u8],
        lend: impl FnOnce(usize) -> Result<Arc<dyn ExternalNetwork>, ModelError>,
    ) -> Result<Self, ModelError> {
        let said = Said::read(said, FORMAT_ONNX)?;
        let network = lend(said.window)?;
        Ok(said.model(Network::Lent(network)))
    }

    pub(super) const fn network(&self) -> &Network {
        &self.network
    }

    /// The encoder of tokens, if it is one that keeps them.
    #[must_use]
    pub fn encoder(&self) -> Option<&Encoder> {
        match &self.network {
            Network::Causal(causal) => Some(&causal.encoder),
            Network::Lent(_) => None,
        }
    }

    /// The linear layers, if they can be fine-tuned.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        match &self.network {
            Network::Causal(causal) => Some(&causal.head),
            Network::Lent(_) => None,
        }
    }

    /// The same encoder, which both share, with other linear layers; a network that others run
    /// stays as it is.
    #[must_use]
    pub fn with_head(&self, head: Head) -> Self {
        let network = match &self.network {
            Network::Causal(causal) => {
                let encoder = Arc::clone(&causal.encoder);
                Network::Causal(Box::new(Causal { encoder, head }))
            }
            Network::Lent(network) => Network::Lent(Arc::clone(network)),
        };
        Self { network, ..self.clone() }
    }

    /// Tokens that it looks at.
    #[must_use]
    pub const fn window(&self) -> usize {
        self.window
    }

    /// The lowest latencies of the paths that trained it, from the lowest to the highest, in ns, if
    /// it says so.
    #[must_use]
    pub const fn floor_ns(&self) -> Option<[u64; 2]> {
        self.floor_ns
    }

    /// The batches that it was trained for.
    #[must_use]
    pub const fn settings(&self) -> HistorySettings {
        self.settings
    }
}

fn no_model(error: impl fmt::Display) -> ModelError {
    ModelError(format!("{error}; {WANTED}"))
}

impl Sizes {
    const fn shape(&self) -> EncoderShape {
        EncoderShape {
            token_len: TOKEN_LEN,
            width: self.width,
            head_count: self.heads,
            hidden_len: self.hidden,
            layer_count: self.layers,
        }
    }
}

impl Said {
    fn read(text: &[u8], wanted: &str) -> Result<Self, ModelError> {
        let Kind { format } = serde_json::from_slice(text).map_err(no_model)?;
        if format != wanted {
            return Err(ModelError(format!("format {format:?}; wanted: {wanted:?}")));
        }
        let said: Self = serde_json::from_slice(text).map_err(no_model)?;
        said.check()?;
        Ok(said)
    }

    fn model(&self, network: Network) -> Model {
        let (batch_packets, batch_span_ns) = (self.batch_packets, self.batch_span_ns);
        let settings =
            HistorySettings { batch_packets, batch_span_ns, ..HistorySettings::default() };
        Model { network, window: self.window, settings, floor_ns: self.floor_ns }
    }

    fn check(&self) -> Result<(), ModelError> {
        let wrong = |text: String| Err(ModelError(text));
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return wrong(format!("window {}; wanted: 1 to {WINDOW_MAX}", self.window));
        }
        if self.batch_packets == 0 {
            return wrong(String::from("batch_packets 0; wanted: 1 or more"));
        }
        if let Some([low, high]) = self.floor_ns.filter(|[low, high]| low > high) {
            return wrong(format!("floor_ns {low} to {high}; wanted: the lowest first"));
        }
        for (name, said, wanted) in
            [("token", &self.token, &TOKEN_NAMES[..]), ("query", &self.query, &QUERY_NAMES[..])]
        {
            if said.iter().ne(wanted) {
                return wrong(format!(
                    "{name}: made for other inputs than this program has; wanted: a model that \
                     this version trained"
                ));
            }
        }
        Ok(())
    }
}
