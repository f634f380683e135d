//! Models from their files.
//!
//! The file is safetensors (`docs/specs/l4s-model.md`). What it says is checked, all of it: a file
//! is refused, or does what it says.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use model::encoder::{Encoder, EncoderError, EncoderShape, Head, WINDOW_MAX};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::history::{HistorySettings, QUERY_LEN, QUERY_NAMES, TOKEN_LEN, TOKEN_NAMES};

/// Bytes of a file at most.
pub const FILE_LEN_MAX: usize = 16 << 20;
/// What stands first in what it says of itself.
pub const FORMAT: &str = "wirelens-l4s 1";

const WANTED: &str = "wanted: a model of `wirelens train l4s`";

/// Why a file is refused: what was seen and what was wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError(String);

impl ModelError {
    pub(super) fn of_encoder(error: EncoderError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ModelError {}

/// What a file is.
#[derive(Deserialize)]
struct Kind {
    format: String,
}

/// What a file says of itself.
#[derive(Deserialize)]
struct Said {
    window: usize,
    heads: usize,
    layers: usize,
    width: usize,
    hidden: usize,
    batch_packets: u32,
    batch_span_ns: u64,
    token: Vec<String>,
    query: Vec<String>,
}

/// A network that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    encoder: Arc<Encoder>,
    head: Head,
    window: usize,
    settings: HistorySettings,
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
        let no_model = |error: &dyn fmt::Display| ModelError(format!("{error}; {WANTED}"));
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| no_model(&error))?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| no_model(&error))?;
        let said = header.metadata().as_ref().and_then(|said| said.get("wirelens"));
        let said = said.ok_or_else(|| no_model(&"it says nothing of itself"))?;
        let Kind { format } = serde_json::from_str(said).map_err(|error| no_model(&error))?;
        if format != FORMAT {
            return Err(ModelError(format!("format {format:?}; wanted: {FORMAT:?}")));
        }
        let said: Said = serde_json::from_str(said).map_err(|error| no_model(&error))?;
        said.check()?;
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
        let encoder = Encoder::new(said.shape(), tensor).map_err(ModelError::of_encoder)?;
        let head =
            Head::from_tensors(said.width, QUERY_LEN, tensor).map_err(ModelError::of_encoder)?;
        Ok(Self {
            encoder: Arc::new(encoder),
            head,
            window: said.window,
            settings: said.settings(),
        })
    }

    /// The encoder of tokens.
    #[must_use]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The linear layers.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The same encoder, which both share, with other linear layers.
    #[must_use]
    pub fn with_head(&self, head: Head) -> Self {
        let Self { encoder, head: _, window, settings } = self;
        Self { encoder: Arc::clone(encoder), head, window: *window, settings: *settings }
    }

    /// Tokens that it looks at.
    #[must_use]
    pub const fn window(&self) -> usize {
        self.window
    }

    /// The batches that it was trained for.
    #[must_use]
    pub const fn settings(&self) -> HistorySettings {
        self.settings
    }
}

impl Said {
    fn shape(&self) -> EncoderShape {
        EncoderShape {
            token_len: TOKEN_LEN,
            width: self.width,
            head_count: self.heads,
            hidden_len: self.hidden,
            layer_count: self.layers,
        }
    }

    fn settings(&self) -> HistorySettings {
        let (batch_packets, batch_span_ns) = (self.batch_packets, self.batch_span_ns);
        HistorySettings { batch_packets, batch_span_ns, ..HistorySettings::default() }
    }

    fn check(&self) -> Result<(), ModelError> {
        let wrong = |text: String| Err(ModelError(text));
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return wrong(format!("window {}; wanted: 1 to {WINDOW_MAX}", self.window));
        }
        if self.batch_packets == 0 {
            return wrong(String::from("batch_packets 0; wanted: 1 or more"));
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
