//! `wirelens.trees`: files of trees, scored by `model`, and the schema of header bits.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use model::trees::FILE_LEN_MAX;
use model::{Block, FeatureSchema, Headers, Layout, Rows};
use packet::Span;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::first::identity_named;
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
    fn scores(
        &self,
        records: &[u8],
        row_len: usize,
        numbers: &[u8],
    ) -> Result<Vec<u8>, model::trees::RowError> {
        let class_count = self.trees.classes().len();
        let numbers_len = self.numbers_len();
        let mut numbers = numbers.chunks_exact(numbers_len.max(1));
        let mut of_row = Vec::with_capacity(self.trees.numbers().len());
        // One row does not pay for the room of a thousand.
        let together = ROWS_TOGETHER.min(records.len() / row_len);
        let mut rows = Rows::for_forest(&self.trees, together);
        let mut scores = vec![0.0; together * class_count];
        let mut bytes = Vec::with_capacity(records.len() / row_len * class_count * 8);
        for block in records.chunks(row_len * ROWS_TOGETHER) {
            rows.clear();
            for records in block.chunks_exact(row_len) {
                of_row.clear();
                if numbers_len > 0 {
                    let (numbers, _) = numbers.next().unwrap_or_default().as_chunks();
                    of_row.extend(numbers.iter().map(|&number| f64::from_ne_bytes(number)));
                }
                self.trees.push_with(&mut rows, records, &of_row)?;
            }
            scores.truncate(rows.len() * class_count);
            self.trees.score(&rows, &mut scores)?;
            bytes.extend(scores.iter().flat_map(|score| score.to_ne_bytes()));
        }
        Ok(bytes)
    }

    /// Bytes of the numbers of a row.
    fn numbers_len(&self) -> usize {
        size_of::<f64>() * self.trees.numbers().len()
    }

    fn check(&self, records: &[u8], row_len: usize, numbers: &[u8]) -> Result<(), Refusal> {
        let refused = |text: std::fmt::Arguments<'_>| Err(Refusal::new(Kind::Option, text));
        let size = records.len();
        if !size.is_multiple_of(row_len) {
            let wanted = "a multiple of";
            return refused(format_args!(
                "records: {size} bytes; wanted: {wanted} {row_len}, a row's"
            ));
        }
        let (seen, wanted) = (numbers.len(), size / row_len * self.numbers_len());
        if seen != wanted {
            let count = self.trees.numbers().len();
            return refused(format_args!(
                "numbers: {seen} bytes; wanted: {wanted}, {count} for each row, 64 bits each"
            ));
        }
        Ok(())
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

    /// Names of the numbers that a row has beside its records.
    #[getter]
    fn numbers(&self) -> Vec<String> {
        self.trees.numbers().to_vec()
    }

    /// A probability for each class of each row, as 64-bit numbers of this machine; rows are
    /// records of so many packets, and beside them numbers, 64 bits each.
    #[pyo3(signature = (records, packet_count, numbers = None))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyBytes>,
        packet_count: usize,
        numbers: Option<&Bound<'py, PyBytes>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let most = self.trees.packet_count();
        if !(1..=most).contains(&packet_count) {
            let text = format!("packet_count: {packet_count}; wanted: from 1 to {most}");
            return Err(Refusal::new(Kind::Option, text).into());
        }
        let (records, row_len) = (records.as_bytes(), self.record_len() * packet_count);
        let numbers = numbers.map_or(&[][..], |numbers| numbers.as_bytes());
        self.check(records, row_len, numbers)?;
        let scores = py.detach(|| self.scores(records, row_len, numbers)).map_err(refused)?;
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

/// Hash of the schema of header bits: of single packets, or of so many packets of flows, with
/// numbers beside them, or of flows in windows.
#[pyfunction]
#[pyo3(signature = (
    columns, packets, innermost, numbers = Vec::new(), window_ns = None, identity = "kept",
))]
pub(crate) fn schema_hash(
    columns: Vec<String>,
    packets: Option<usize>,
    innermost: bool,
    numbers: Vec<String>,
    window_ns: Option<i64>,
    identity: &str,
) -> PyResult<String> {
    let headers = if innermost { Headers::Innermost } else { Headers::Outermost };
    let schema = match window_ns {
        None => FeatureSchema::of_columns(columns, packets, headers, &numbers),
        Some(ns) => {
            let every = Span::from_ns(ns);
            FeatureSchema::of_window(&columns, packets.unwrap_or(1), headers, &numbers, every)
        }
    };
    Ok(schema.with_identity(identity_named(identity)?).hash())
}
