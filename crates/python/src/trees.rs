//! `wirelens.trees`: files of trees, scored by `model`, and the schema of header bits.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use model::trees::FILE_LEN_MAX;
use model::{Arrangement, Block, DataType, FeatureSchema, Headers, Layout, Rows};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::refusal::{Kind, Refusal};

/// Rows that are copied before they are scored.
const ROWS_TOGETHER: usize = 1024;

/// Trees of one file.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct Forest {
    trees: model::Forest,
}

fn refused(text: impl std::fmt::Display) -> PyErr {
    Refusal::new(Kind::Model, text).into()
}

impl Forest {
    fn scores(&self, records: &[u8], row_len: usize) -> Result<Vec<u8>, model::trees::RowError> {
        let class_count = self.trees.classes().len();
        let mut rows = Rows::for_forest(&self.trees, ROWS_TOGETHER);
        let mut scores = vec![0.0; ROWS_TOGETHER * class_count];
        let mut bytes = Vec::with_capacity(records.len() / row_len * class_count * 8);
        for block in records.chunks(row_len * ROWS_TOGETHER) {
            rows.clear();
            for records in block.chunks_exact(row_len) {
                self.trees.push(&mut rows, records)?;
            }
            scores.truncate(rows.len() * class_count);
            self.trees.score(&rows, &mut scores)?;
            bytes.extend(scores.iter().flat_map(|score| score.to_ne_bytes()));
        }
        Ok(bytes)
    }
}

#[pymethods]
impl Forest {
    /// Reads a file of trees and checks all of it.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| {
            let name = path.display();
            let mut bytes = Vec::new();
            let end = FILE_LEN_MAX as u64 + 1;
            File::open(&path)
                .and_then(|file| file.take(end).read_to_end(&mut bytes))
                .map_err(|error| refused(format_args!("{name}: {error}")))?;
            let trees = model::Forest::parse(&bytes);
            let trees = trees.map_err(|error| refused(format_args!("{name}: {error}")))?;
            Ok(Self { trees })
        })
    }

    /// Names of the classes, in the order of the scores.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.trees.classes().to_vec()
    }

    /// Hash of the features' schema.
    #[getter]
    fn schema(&self) -> &str {
        self.trees.schema_hash()
    }

    /// Packets of a row.
    #[getter]
    fn packet_count(&self) -> usize {
        self.trees.packet_count()
    }

    /// Bytes of a packet's record.
    #[getter]
    fn record_len(&self) -> usize {
        self.trees.layout().record_len()
    }

    /// How many trees there are.
    #[getter]
    fn tree_count(&self) -> usize {
        self.trees.tree_count()
    }

    /// A probability for each class of each row, as 64-bit numbers of this machine; rows are
    /// records of so many packets.
    fn score<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyBytes>,
        packet_count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let most = self.trees.packet_count();
        if !(1..=most).contains(&packet_count) {
            let text = format!("packet_count: {packet_count}; wanted: from 1 to {most}");
            return Err(Refusal::new(Kind::Option, text).into());
        }
        let (records, row_len) = (records.as_bytes(), self.record_len() * packet_count);
        if records.len() % row_len != 0 {
            let size = records.len();
            let text = format!("records: {size} bytes; wanted: a multiple of {row_len}, a row's");
            return Err(Refusal::new(Kind::Option, text).into());
        }
        let scores = py.detach(|| self.scores(records, row_len)).map_err(refused)?;
        Ok(PyBytes::new(py, &scores))
    }
}

/// The blocks of these names; the payload has none, its bytes are counted.
pub(crate) fn blocks_named(names: &[String]) -> PyResult<Vec<Block>> {
    let named = |name: &String| {
        let known = Block::ALL.into_iter().find(|block| block.name() == name);
        known.filter(|&block| block != Block::Payload).ok_or_else(|| {
            let text = format!("blocks: {name:?}; wanted: ipv4, ipv6, tcp, udp or icmp");
            PyErr::from(Refusal::new(Kind::Option, text))
        })
    };
    names.iter().map(named).collect()
}

/// Names of the columns of these blocks, as `wirelens nprint` has them for one packet.
#[pyfunction]
pub(crate) fn header_columns(blocks: Vec<String>, payload_len: u16) -> PyResult<Vec<String>> {
    Ok(Layout::new(&blocks_named(&blocks)?, payload_len).columns().collect())
}

/// Hash of the schema of header bits: of single packets, or of so many packets of flows.
#[pyfunction]
pub(crate) fn schema_hash(columns: Vec<String>, packets: Option<usize>, innermost: bool) -> String {
    let arrangement =
        packets.map_or(Arrangement::Row, |steps| Arrangement::Sequence { steps, pad: -1 });
    let headers = if innermost { Headers::Innermost } else { Headers::Outermost };
    FeatureSchema { arrangement, data_type: DataType::I8, missing: Some(-1), headers, columns }
        .hash()
}
