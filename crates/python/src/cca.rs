//! `wirelens.cca`: slots of flows at taps, and what a model reads of them.

use std::sync::Arc;

use cca::flight::{FlightInput, FlightMissingReason, FlightSlot, FlightTap, FlightWindow};
use cca::inputs::{Empty, ProgressRule, Scratch, Throughput};
use cca::{FlowWay, Input, Period, Rules, Sampler, Tap, TapOptions, Window};
use engine::columns::{Field, Kind as Holds, Value};
use engine::run::Control;
use packet::community_id::community_id;
use packet::{SlotClock, Source as _, Span, TapSlot};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use session::flows::RunTotals;
use session::reading::{InputRequest, Inputs, OpenSources};

use crate::options::{InputOptions, duration, refused, seed, within};
use crate::reader::{Ending, Outlet, Reader};
use crate::refusal::Refusal;
use crate::rows::{RowsOut, read_each, text};

pub(crate) const ROWS: [Field; 7] = [
    Field::new("file", Holds::U32, "The capture, counted from 0."),
    text("community_id", "Community ID of the conversation."),
    text("src_ip", "Sender of the data."),
    Field::new("src_port", Holds::U16, "Its port."),
    text("dst_ip", "Its receiver."),
    Field::new("dst_port", Holds::U16, "Its port."),
    Field::new("slots", Holds::Bytes, "Its slots, 64 bytes each."),
];

/// How flows are cut into slots.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TapRequest {
    slot: String,
    max_flows: i64,
    share: f64,
    seed: Option<i128>,
}

impl TapRequest {
    fn options(&self) -> PyResult<TapOptions> {
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Err(refused("share", self.share, "wanted a share above 0, at most 1").into());
        }
        let number = seed(self.seed)?.unwrap_or_default();
        let sampler = (self.share < 1.0).then(|| Sampler::new(self.share, number));
        Ok(TapOptions {
            clock: clock(&self.slot)?,
            flow_count_max: within("max_flows", self.max_flows, 1, 1 << 24)?,
            kept: Span::from_ns(i64::MAX),
            sampler,
        })
    }
}

fn clock(text: &str) -> Result<SlotClock, Refusal> {
    let length = duration("slot", text)?;
    if length < SlotClock::SHORTEST {
        return Err(refused("slot", text, "wanted 1us or more"));
    }
    Ok(SlotClock::new(length))
}

/// Starts reading taps, a capture each; rows are flows with all their slots.
#[pyfunction]
pub(crate) fn tap_slots(
    py: Python<'_>,
    inputs: InputOptions,
    options: TapRequest,
) -> PyResult<Reader> {
    let options = options.options()?;
    let inputs = inputs.request()?;
    Reader::start(py, &ROWS, move |control, outlet| read(options, &inputs, &control, outlet))
}

fn read(
    options: TapOptions,
    inputs: &InputRequest,
    control: &Arc<Control>,
    outlet: &Outlet,
) -> Result<Ending, Refusal> {
    let mut out = RowsOut::new(outlet, &ROWS);
    let mut counts = Vec::new();
    let mut ending = read_each(inputs, control, outlet, |file, one, opened| {
        let (tap, done) = read_tap(options, one, opened);
        push(&mut out, file, &tap)?;
        add_up(&mut counts, tap.counts().named());
        Ok(done)
    })?;
    out.finish()?;
    ending.others.extend(counts);
    Ok(ending)
}

fn add_up(counts: &mut Vec<(&'static str, u64)>, more: impl Iterator<Item = (&'static str, u64)>) {
    for (name, count) in more {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += count,
            None => counts.push((name, count)),
        }
    }
}

/// Starts reading captures of one tap each, which saw both ways; rows are flows with all their
/// slots.
#[pyfunction]
pub(crate) fn flight_slots(
    py: Python<'_>,
    inputs: InputOptions,
    options: TapRequest,
) -> PyResult<Reader> {
    let options = options.options()?;
    let inputs = inputs.request()?;
    Reader::start(py, &ROWS, move |control, outlet| {
        let mut out = RowsOut::new(outlet, &ROWS);
        let mut counts = Vec::new();
        let mut ending = read_each(&inputs, &control, outlet, |file, one, opened| {
            let mut tap = FlightTap::new(options);
            let mut source = one.in_order(opened);
            while !one.control.is_stopped() {
                let Some(batch) = source.next_batch() else { break };
                tap.take(&batch);
            }
            push_flights(&mut out, file, &tap)?;
            add_up(&mut counts, tap.counts().named());
            let mut done = RunTotals { received: source.received(), ..RunTotals::default() };
            done.outcome.keyed = tap.counts().received();
            Ok(done)
        })?;
        out.finish()?;
        ending.others.extend(counts);
        Ok(ending)
    })
}

/// Flows in the order of their first slots.
fn push_flights(out: &mut RowsOut, file: u32, tap: &FlightTap) -> Result<(), Refusal> {
    let mut slots = Vec::new();
    let mut flows: Vec<_> = tap
        .flows()
        .filter_map(|way| {
            tap.slots(&way, &mut slots);
            Some((slots.first()?.slot, way.key.words(), way.direction as u8, way))
        })
        .collect();
    flows.sort_by_key(|&(first, words, direction, _)| (first, words, direction));
    let mut bytes = Vec::new();
    for (.., way) in flows {
        tap.slots(&way, &mut slots);
        bytes.clear();
        bytes.extend(slots.iter().flat_map(FlightSlot::to_ne_bytes));
        push_flow(out, file, &way, &bytes)?;
    }
    Ok(())
}

/// What a window of one tap may have, by name.
#[pyfunction]
pub(crate) fn flight_inputs() -> Vec<&'static str> {
    FlightInput::ALL.iter().map(|input| input.name()).collect()
}

/// Windows of one flow at one tap that begin at these slots, as `slot_windows` has them.
#[pyfunction]
pub(crate) fn flight_windows<'py>(
    py: Python<'py>,
    slots: &Bound<'py, PyBytes>,
    starts: Vec<i64>,
    len: i64,
    row_slots: i64,
    inputs: Vec<String>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Option<&'static str>>)> {
    let input = |name: &String| {
        let known = flight_inputs();
        FlightInput::from_name(name)
            .ok_or_else(|| refused("inputs", name, &format!("wanted some of {known:?}")))
    };
    let inputs = inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
    let len = within("slots", len, 1, 1 << 24)?;
    let row_slots = within("row_slots", row_slots, 1, 1 << 24)?;
    let slots = flight_of(slots.as_bytes())?;
    let (values, missing) = py.detach(|| {
        let (mut rows, mut values, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for start in starts {
            let window = FlightWindow { period: Period { start, len }, row_slots, slots: &slots };
            let filled = window.fill(&inputs, &mut rows);
            if filled.is_err() {
                rows.clear();
                rows.resize(len * inputs.len(), 0.0);
            }
            missing.push(filled.err().map(FlightMissingReason::name));
            values.extend(rows.iter().flat_map(|value| value.to_ne_bytes()));
        }
        (values, missing)
    });
    Ok((PyBytes::new(py, &values), missing))
}

/// Slots of a row of a flow before a slot, where each of its RTT has so many rows.
#[pyfunction]
pub(crate) fn flight_row_slots(
    slots: &Bound<'_, PyBytes>,
    end: i64,
    slot: &str,
    rows_per_rtt: u32,
) -> PyResult<Option<usize>> {
    let slots = flight_of(slots.as_bytes())?;
    Ok(cca::flight::row_slots(&slots, end, clock(slot)?, rows_per_rtt))
}

fn flight_of(bytes: &[u8]) -> Result<Vec<FlightSlot>, Refusal> {
    let (slots, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        let wanted = format!("wanted a multiple of {} bytes, a slot's", FlightSlot::SIZE_BYTES);
        return Err(refused("slots", format_args!("{} bytes", bytes.len()), &wanted));
    }
    let slots: Vec<FlightSlot> = slots.iter().map(FlightSlot::from_ne_bytes).collect();
    if !slots.is_sorted_by_key(|slot| slot.slot) {
        return Err(refused("slots", "out of order", "wanted each slot once, in order of time"));
    }
    Ok(slots)
}

fn read_tap(options: TapOptions, inputs: &Inputs, opened: OpenSources) -> (Tap, RunTotals) {
    let mut tap = Tap::new(options);
    let mut source = inputs.in_order(opened);
    while !inputs.control.is_stopped() {
        let Some(batch) = source.next_batch() else { break };
        tap.take(&batch);
    }
    let mut done = RunTotals { received: source.received(), ..RunTotals::default() };
    done.outcome.keyed = tap.counts().received();
    (tap, done)
}

/// Flows in the order of their first slots.
fn push(out: &mut RowsOut, file: u32, tap: &Tap) -> Result<(), Refusal> {
    let mut slots = Vec::new();
    let mut flows: Vec<_> = tap
        .flows()
        .filter_map(|way| {
            tap.slots(way, &mut slots);
            Some((slots.first()?.first_ns, way.key.words(), way))
        })
        .collect();
    flows.sort_by_key(|&(first_ns, words, _)| (first_ns, words));
    let mut bytes = Vec::new();
    for (.., way) in flows {
        tap.slots(way, &mut slots);
        bytes.clear();
        bytes.extend(slots.iter().flat_map(TapSlot::to_ne_bytes));
        push_flow(out, file, way, &bytes)?;
    }
    Ok(())
}

fn push_flow(out: &mut RowsOut, file: u32, way: &FlowWay, bytes: &[u8]) -> Result<(), Refusal> {
    let (source, destination) = way.key.endpoints(way.direction);
    out.push(&[
        Value::U32(file),
        Value::Text(&community_id(&way.key, 0)),
        Value::Text(&source.address.to_string()),
        Value::U16(source.port),
        Value::Text(&destination.address.to_string()),
        Value::U16(destination.port),
        Value::Bytes(bytes),
    ])
}

/// What inputs a window may have, by name.
#[pyfunction]
pub(crate) fn slot_inputs() -> Vec<&'static str> {
    Input::ALL.iter().map(|input| input.name()).collect()
}

/// How windows are made of slots.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct WindowRequest {
    inputs: Vec<String>,
    passed: String,
    empty: String,
    throughput: String,
}

impl WindowRequest {
    fn rules(&self) -> Result<(Vec<Input>, Rules), Refusal> {
        let input = |name: &String| {
            let known: Vec<_> = slot_inputs();
            Input::from_name(name)
                .ok_or_else(|| refused("inputs", name, &format!("wanted some of {known:?}")))
        };
        let passed = match self.passed.as_str() {
            "first" => ProgressRule::First,
            "highest" => ProgressRule::Highest,
            other => return Err(refused("passed", other, "wanted first or highest")),
        };
        let empty = match self.empty.as_str() {
            "next" => Empty::Next,
            "line" => Empty::Line,
            other => return Err(refused("empty", other, "wanted next or line")),
        };
        let throughput = match self.throughput.as_str() {
            "counted" => Throughput::Counted,
            "sequence" => Throughput::Sequence,
            other => return Err(refused("throughput", other, "wanted counted or sequence")),
        };
        let inputs = self.inputs.iter().map(input).collect::<Result<_, _>>()?;
        Ok((inputs, Rules { passed, empty, throughput }))
    }
}

/// Windows of one flow that begin at these slots: 32-bit floats, windows × slots × inputs, and of
/// each window why it could not be made, if so; such a window is all zeros.
#[pyfunction]
pub(crate) fn slot_windows<'py>(
    py: Python<'py>,
    taps: (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    starts: Vec<i64>,
    len: i64,
    asked: WindowRequest,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Option<&'static str>>)> {
    let (inputs, rules) = asked.rules()?;
    let len = within("slots", len, 1, 1 << 24)?;
    let (ingress, egress) = (slots(taps.0.as_bytes())?, slots(taps.1.as_bytes())?);
    let (values, missing) = py.detach(|| {
        let (mut scratch, mut rows) = (Scratch::default(), Vec::new());
        let (mut values, mut missing) = (Vec::new(), Vec::new());
        for start in starts {
            let window = Window { start, len, ingress: &ingress, egress: &egress };
            let filled = window.fill(&inputs, rules, &mut scratch, &mut rows);
            if filled.is_err() {
                rows.clear();
                rows.resize(len * inputs.len(), 0.0);
            }
            missing.push(filled.err().map(cca::inputs::MissingReason::name));
            values.extend(rows.iter().flat_map(|value| value.to_ne_bytes()));
        }
        (values, missing)
    });
    Ok((PyBytes::new(py, &values), missing))
}

fn slots(bytes: &[u8]) -> Result<Vec<TapSlot>, Refusal> {
    let (slots, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        let wanted = "wanted a multiple of 64 bytes, a slot's";
        return Err(refused("slots", format_args!("{} bytes", bytes.len()), wanted));
    }
    let slots: Vec<TapSlot> = slots.iter().map(TapSlot::from_ne_bytes).collect();
    if !slots.is_sorted_by_key(|slot| slot.slot) {
        return Err(refused("slots", "out of order", "wanted each slot once, in order of time"));
    }
    Ok(slots)
}
