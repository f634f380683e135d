//! Models that `bench/speed/train_trees.py --onnx` wrote beside files of trees, for ONNX Runtime.

use std::path::Path;

use model::onnx::{Library, OnnxFile, OnnxModel, Wiring};
use model::{FlowFeatures, Forest};

use crate::Failure;

/// `NAME.onnx` at `stem`, which reads the columns that `NAME.columns` names by their numbers.
pub(crate) fn open(library: &Path, stem: &Path, forest: &Forest) -> Result<OnnxModel, Failure> {
    let read = |extension: &str| {
        let path = stem.with_extension(extension);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let names: Vec<String> = forest.layout().columns().collect();
    let columns = String::from_utf8_lossy(&read("columns")?)
        .lines()
        .map(|line| {
            let column: usize = line.parse().map_err(|_| format!("column {line}"))?;
            let name = names.get(column % names.len()).map(String::as_str).unwrap_or_default();
            Ok(format!("pkt{}_{name}", column / names.len()))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let wiring = Wiring {
        features: FlowFeatures::of_forest(forest).map_err(|error| error.to_string())?,
        columns,
        class_count: forest.classes().len(),
        input: String::from("x"),
        output: String::from("probabilities"),
    };
    let library = Library::load(library).map_err(|error| error.to_string())?;
    let file = OnnxFile::new(library, read("onnx")?, wiring).map_err(|error| error.to_string())?;
    file.open().map_err(|error| error.to_string())
}
