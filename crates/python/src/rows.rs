//! Rows of captures that are read one after the other, on their way to Python and there: what flows
//! with their first packets and flows in windows have in common.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use engine::columns::{Columns, Field, Kind as Holds, Value};
use engine::run::Control;
use model::FlowFeatures;
use model::first::BitColumns;
use packet::Timestamp;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use session::applications::APPLICATIONS;
use session::flows::RunTotals;
use session::reading::{InputRequest, Inputs, OpenSources};
use session::summary;

use crate::batch::RowBatches;
use crate::handed::BatchSender;
use crate::reader::{Ending, Outlet};
use crate::refusal::{Kind, Refusal};

/// Rows gathered before they are handed on, and in a batch at most.
const PIECE_ROWS: usize = 1 << 10;
const BATCH_ROWS: usize = 1 << 16;

pub(crate) const fn text(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Holds::Text, about)
}

/// Name, type, and whether values may be missing.
type DeclaredColumn = (&'static str, String, bool);

/// The columns of every table that Python has, by the words that ask for it: those that `session`
/// makes for the command as well, then those of Python alone.
#[pyfunction]
pub(crate) fn declared_columns() -> Vec<(String, Vec<DeclaredColumn>)> {
    let own: [(&str, &[Field]); 7] = [
        ("wirelens.packets", &crate::packets::WITH_BOTH),
        ("wirelens.classify.first_packets", &crate::first::ROWS),
        ("wirelens.classify.names", &crate::evidence::ROWS),
        ("wirelens.classify.windows", &crate::windows::ROWS),
        ("wirelens.cca.tap_slots", &crate::cca::ROWS),
        ("wirelens.packetlog.snapshots", &crate::packetlog::ROWS),
        ("wirelens.packetlog.judgements", &crate::packetlog::judged::ROWS),
    ];
    let column = |field: &Field| (field.name, format!("{:?}", field.kind), field.is_nullable);
    let shared = [
        session::top::declared_columns(),
        session::flows::declared_columns(),
        session::classify::declared_columns(),
        session::cca::declared_columns(),
        session::latency::declared_columns(),
    ];
    // What no command has, such as the columns of an example application.
    let of_runs = APPLICATIONS.iter().flat_map(|entry| (entry.declared)());
    let all = shared.into_iter().flatten().chain(of_runs).chain(own);
    all.map(|(table, fields)| (table.to_owned(), fields.iter().map(column).collect())).collect()
}

/// A stamp, missing where the capture tells no time.
pub(crate) fn known(time: Timestamp) -> Value<'static> {
    (time != Timestamp::UNKNOWN).then(|| Value::TimestampNs(time.as_ns())).into()
}

/// Reads captures one after the other, each by `one`, which is told its number from 0 on.
pub(crate) fn read_each(
    inputs: &InputRequest,
    control: &Arc<Control>,
    outlet: &Outlet,
    mut one: impl FnMut(u32, &Inputs, OpenSources) -> Result<RunTotals, Refusal>,
) -> Result<Ending, Refusal> {
    let all = Inputs::find(inputs, true, Arc::clone(control))?;
    let mut whole = RunTotals::default();
    for (file, name) in inputs.names.iter().enumerate() {
        let alone = InputRequest { names: vec![name.clone()], ..inputs.clone() };
        let alone = Inputs::find(&alone, true, Arc::clone(control))?;
        let opened = OpenSources::Files(alone.open()?);
        if file == 0 {
            outlet.opened()?;
        }
        let done = one(u32::try_from(file).unwrap_or(u32::MAX), &alone, opened)?;
        merge(&mut whole, done)?;
        if control.is_stopped() {
            break;
        }
    }
    let summary = summary::lines(&all, &whole.received, Some(&whole.stage())) + &whole.lines();
    Ok(Ending {
        received: whole.received,
        refused: all.resolved.refused,
        outcome: Some(whole.outcome),
        others: vec![("late", whole.late), ("clock_steps", whole.clock_steps)],
        ended: Some(whole.counts),
        summary,
    })
}

/// Adds what was read of one more; refused where its filter could not be used.
fn merge(whole: &mut RunTotals, done: RunTotals) -> Result<(), Refusal> {
    if let Some(reason) = done.received.refused_filter() {
        return Err(Refusal::new(Kind::Filter, reason));
    }
    done.received.account_for(&done.outcome)?;
    whole.received.report.merge(&done.received.report);
    whole.received.damages.extend(done.received.damages);
    whole.outcome.fold(&done.outcome);
    whole.counts.fold(&done.counts);
    whole.late += done.late;
    whole.clock_steps += done.clock_steps;
    Ok(())
}

/// Numbers of a row as the bytes that stand in its column.
#[derive(Default)]
pub(crate) struct NumberBytes {
    values: Vec<f64>,
    bytes: Vec<u8>,
}

impl NumberBytes {
    /// Those that `append` appends.
    pub(crate) fn of(&mut self, append: impl FnOnce(&mut Vec<f64>)) -> &[u8] {
        self.values.clear();
        append(&mut self.values);
        self.bytes.clear();
        self.bytes.extend(self.values.iter().flat_map(|number| number.to_ne_bytes()));
        &self.bytes
    }
}

/// Rows on their way to Python.
pub(crate) struct RowsOut {
    columns: Columns,
    handed: BatchSender,
}

impl RowsOut {
    pub(crate) fn new(outlet: &Outlet, fields: &'static [Field]) -> Self {
        Self { columns: Columns::new(fields), handed: BatchSender::new(outlet, fields, BATCH_ROWS) }
    }

    pub(crate) fn push(&mut self, row: &[Value<'_>]) -> Result<(), Refusal> {
        self.columns.push_row(row)?;
        if self.columns.row_count() >= PIECE_ROWS { self.hand_over() } else { Ok(()) }
    }

    fn hand_over(&mut self) -> Result<(), Refusal> {
        self.handed.push(&self.columns)?;
        self.columns.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<(), Refusal> {
        self.hand_over()?;
        self.handed.finish()
    }
}

/// Rows that were read: keys, then a column of records and one of numbers.
pub(crate) struct RowsIn {
    fields: &'static [Field],
    batches: Vec<RecordBatch>,
}

impl RowsIn {
    /// Rows with these columns; refused where they are others, which is none of the user's faults.
    pub(crate) fn new(
        rows: &RowBatches,
        fields: &'static [Field],
        what: &str,
    ) -> Result<Self, Refusal> {
        if !rows.is_of(fields) {
            let text = format_args!("rows that are none of {what}; please report this");
            return Err(Refusal::new(Kind::Internal, text));
        }
        Ok(Self { fields, batches: rows.record_batches().to_vec() })
    }

    pub(crate) fn len(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns that are keys.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        self.fields.iter().take(self.key_count()).map(|field| field.name).collect()
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.binary(self.key_count())
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = &[u8]> {
        self.binary(self.key_count() + 1)
    }

    /// Records of each row, cut to this length, or with zeros where there are fewer.
    pub(crate) fn padded_records<'py>(
        &self,
        py: Python<'py>,
        row_len: usize,
    ) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| {
            let mut bytes = vec![0; row_len * self.len()];
            for (row, records) in bytes.chunks_exact_mut(row_len.max(1)).zip(self.records()) {
                row.iter_mut().zip(records).for_each(|(to, &from)| *to = from);
            }
            bytes
        });
        PyBytes::new(py, &bytes)
    }

    /// Bits of each row by name, 8 bits each: −1, 0 or 1.
    pub(crate) fn bits<'py>(
        &self,
        py: Python<'py>,
        features: &FlowFeatures,
        columns: &[String],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let refused = |error| Refusal::new(Kind::Option, error);
        let columns = BitColumns::new(features, columns).map_err(refused)?;
        let values = py.detach(|| {
            let mut values = vec![0; columns.len() * self.len()];
            let rows = values.chunks_exact_mut(columns.len().max(1));
            for (row, records) in rows.zip(self.records()) {
                columns.put(records, row);
            }
            values.into_iter().map(i8::cast_unsigned).collect::<Vec<_>>()
        });
        Ok(PyBytes::new(py, &values))
    }

    const fn key_count(&self) -> usize {
        self.fields.len() - 2
    }

    /// A column of bytes, row by row.
    fn binary(&self, column: usize) -> impl Iterator<Item = &[u8]> {
        self.batches.iter().flat_map(move |batch| {
            let column = batch.columns().get(column);
            let bytes = column.and_then(|column| column.as_binary_opt::<i32>());
            bytes.into_iter().flat_map(|bytes| bytes.iter().map(Option::unwrap_or_default))
        })
    }
}
