//! `wirelens.classify.names`: what the names of flows are evidence of.

use std::path::PathBuf;
use std::sync::Arc;

use classify::evidence::{DEPTH_COUNT_MAX, Evidence, Kind as EvidenceKind, NameList, State};
use engine::columns::{Field, Kind as Holds, Value};
use engine::flow::{EndedFlow, FlowState};
use engine::run::Control;
use packet::Span;
use packet::community_id::CommunityId;
use pyo3::prelude::*;
use session::classify::{KeepEvidence, KeptEvidence};
use session::first::{FlowsRequest, compute};
use session::reading::InputRequest;

use crate::first::FirstOptions;
use crate::options::{InputOptions, within};
use crate::reader::{Ending, Outlet, Reader};
use crate::refusal::{Kind, Refusal};
use crate::rows::{RowsOut, known, read_each, text};

pub(crate) const ROWS: [Field; 4] = [
    Field::new("file", Holds::U32, "The capture, counted from 0."),
    text("community_id", "Community ID v1, seed 0."),
    Field::new(
        "first_ns",
        Holds::TimestampNs,
        "Earliest timestamp; missing if the capture has none.",
    )
    .nullable(),
    Field::new(
        "evidence",
        Holds::Bytes,
        "For each depth: by kind a bit for each class, 64 bits each, then whether the protocol is \
         in no line of the list.",
    ),
];

/// A list, and after how many packets evidence by it is wanted.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EvidenceOptions {
    list: PathBuf,
    classes: Vec<String>,
    depths: Vec<i64>,
    wait_ns: i64,
    inner: bool,
}

impl EvidenceOptions {
    fn list(&self) -> Result<NameList, Refusal> {
        let refused = |why: &dyn std::fmt::Display| {
            Refusal::new(Kind::Option, format_args!("{}: {why}", self.list.display()))
        };
        let text = std::fs::read(&self.list).map_err(|error| refused(&error))?;
        NameList::parse(&text, &self.classes).map_err(|error| refused(&error))
    }

    fn depths(&self) -> PyResult<Vec<usize>> {
        let most = DEPTH_COUNT_MAX;
        if !(1..=most).contains(&self.depths.len()) {
            let text = format_args!("{} depths; wanted: 1 to {most}", self.depths.len());
            return Err(Refusal::new(Kind::Option, text).into());
        }
        let depth = |&depth: &i64| within("depths", depth, 1, model::DEPTH_MAX);
        Ok(self.depths.iter().map(depth).collect::<Result<_, _>>()?)
    }
}

/// Words of kinds and states, in the order of their numbers.
#[pyfunction]
pub(crate) fn evidence_words() -> (Vec<&'static str>, Vec<&'static str>) {
    let kinds = EvidenceKind::ALL.map(EvidenceKind::name);
    (kinds.to_vec(), State::ALL.map(State::name).to_vec())
}

/// Starts reading names, capture by capture; each capture has flows and names of its own.
#[pyfunction]
pub(crate) fn name_evidence(
    py: Python<'_>,
    inputs: InputOptions,
    evidence: EvidenceOptions,
    options: FirstOptions,
) -> PyResult<Reader> {
    let (options, seed) = options.asked()?;
    let request = FlowsRequest { options, seed };
    let (list, depths) = (evidence.list()?, evidence.depths()?);
    let wait = Span::from_ns(evidence.wait_ns);
    let inputs = InputRequest { decapsulate: evidence.inner, ..inputs.request()? };
    Reader::start(py, &ROWS, move |control, outlet| {
        read(request, &list, &depths, wait, &inputs, &control, outlet)
    })
}

fn read(
    request: FlowsRequest,
    list: &NameList,
    depths: &[usize],
    wait: Span,
    inputs: &InputRequest,
    control: &Arc<Control>,
    outlet: &Outlet,
) -> Result<Ending, Refusal> {
    let mut rows = Rows { out: RowsOut::new(outlet, &ROWS), file: 0, depth_count: depths.len() };
    let ending = read_each(inputs, control, outlet, |file, one, opened| {
        rows.file = file;
        let idle = request.options.idle_timeout;
        let keep = KeepEvidence::new(list.clone(), depths.to_vec(), wait, idle);
        compute(request, keep, one, opened, |flows| rows.put(flows))
    })?;
    rows.out.finish()?;
    Ok(ending)
}

/// Rows on their way to Python.
struct Rows {
    out: RowsOut,
    file: u32,
    depth_count: usize,
}

impl Rows {
    fn put(&mut self, flows: &[EndedFlow<KeptEvidence>]) -> Result<(), Refusal> {
        for (record, FlowState(kept)) in flows {
            let mut bytes = Vec::new();
            for place in 0..self.depth_count {
                put(&mut bytes, &kept.evidence.at(place));
            }
            self.out.push(&[
                Value::U32(self.file),
                Value::Text(&CommunityId(record.key)),
                known(record.first),
                Value::Bytes(&bytes),
            ])?;
        }
        Ok(())
    }
}

fn put(bytes: &mut Vec<u8>, evidence: &Evidence) {
    bytes.extend(evidence.classes().iter().flat_map(|classes| classes.to_ne_bytes()));
    bytes.extend(u64::from(evidence.is_unlisted).to_ne_bytes());
}
