//! Networks that ONNX Runtime runs, lent to predictors.

use std::sync::Arc;

use l4s::history::{QUERY_LEN, TOKEN_LEN};
use l4s::predictor::{ExternalNetwork, ModelError, Score};
use model::onnx::{Library, WindowFile, WindowNetwork, WindowShape};

#[derive(Debug)]
struct File(WindowFile);

#[derive(Debug)]
struct Network(WindowNetwork);

/// A network of the bytes of its file.
pub(super) fn of(
    library: Library,
    bytes: Vec<u8>,
    window: usize,
) -> Result<Arc<dyn ExternalNetwork>, ModelError> {
    let shape = WindowShape { window, token_len: TOKEN_LEN, query_len: QUERY_LEN };
    let file = WindowFile::new(library, bytes, shape).map_err(ModelError::new)?;
    Ok(Arc::new(File(file)))
}

impl ExternalNetwork for File {
    fn open(&self) -> Result<Box<dyn Score>, ModelError> {
        let network = self.0.open().map_err(ModelError::new)?;
        Ok(Box::new(Network(network)))
    }
}

impl Score for Network {
    fn score(
        &mut self,
        tokens: &[f32],
        queries: &[f32],
        scores: &mut [f32],
    ) -> Result<(), ModelError> {
        self.0.score(tokens, queries, scores).map_err(ModelError::new)
    }
}
