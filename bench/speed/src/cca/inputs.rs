//! Inputs of many flows, of slots that both taps have told.

use std::fs;
use std::path::PathBuf;

use cca::inputs::{Empty, ProgressRule, Throughput};
use cca::model::{Reads, Scratch};
use cca::{FlowWay, Input, Model, Pair, Period, Rules, TapOptions};
use clap::Args;
use packet::{FlowKey, Protocol, SlotClock, Span, TapSlot};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::measurement::Measurement;

const SLOT: Span = Span::from_ns(1_000_000);
const START: i64 = 1_700_000_000_000;
const MTU_BYTES: u32 = 1448;
/// Slots that a packet waits in the queue.
const WAIT_LEN: i64 = 40;

/// Arguments of `cca inputs`.
#[derive(Debug, Args)]
pub(crate) struct InputsArguments {
    /// Flows
    #[arg(long, default_value_t = 500)]
    flows: usize,
    /// Slots of a window
    #[arg(long, default_value_t = 100)]
    slots: usize,
    /// Slots that are kept of each flow before the window
    #[arg(long, default_value_t = 10_000)]
    kept: usize,
    /// Times that all of it is done
    #[arg(long, default_value_t = 20)]
    repetitions: usize,
    /// Tells flows apart by this model: model.safetensors
    #[arg(long)]
    model: Option<PathBuf>,
}

/// Measures inputs of windows, whole periods, and flows told apart.
pub(crate) fn run(arguments: &InputsArguments) -> Result<(), Failure> {
    let mut pair = full(arguments);
    let ways: Vec<FlowWay> = (0..arguments.flows).map(way).collect();
    let period = Period { start: START + end(arguments) - len(arguments), len: arguments.slots };
    let rules = Rules {
        passed: ProgressRule::Highest,
        empty: Empty::Next,
        throughput: Throughput::Counted,
    };
    let model = arguments.model.as_deref().map(fs::read).transpose().map_err(|e| e.to_string())?;
    let model = model.map(|bytes| Model::parse(&bytes)).transpose().map_err(|e| e.to_string())?;
    let inputs = [Input::Cbiq, Input::IngressBytes];
    for _ in 0..arguments.repetitions {
        let watch = Stopwatch::start();
        let mut sum = 0.0;
        for way in &ways {
            let rows = pair.fill(way, period, &inputs, rules).map_err(|e| e.name().to_owned())?;
            sum += rows.iter().map(|&value| f64::from(value)).sum::<f64>();
        }
        print("inputs", arguments, watch, sum);
        let watch = Stopwatch::start();
        let told: f64 = pair
            .by_weight(period)
            .into_iter()
            .map(|(way, _)| pair.flow(way, period, rules))
            .filter_map(|flow| flow.queue.ok().map(|queue| queue.cbiq_mean))
            .sum();
        print("period", arguments, watch, told);
        let Some(model) = &model else { continue };
        let Reads::Queue(inputs) = model.reads() else {
            return Err(
                "a model of one tap; wanted: one of a tap before a queue and one behind".into()
            );
        };
        let mut scratch = Scratch::default();
        let watch = Stopwatch::start();
        let mut named = 0;
        for way in &ways {
            let rows =
                pair.fill(way, period, inputs, model.rules()).map_err(|e| e.name().to_owned())?;
            named += usize::from(model.tell(rows, 1, &mut scratch).is_some());
        }
        print("inputs and controls", arguments, watch, named as f64);
        if named != ways.len() {
            return Err(format!("{named} flows named; wanted: a model of {} slots", period.len));
        }
    }
    Ok(())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn print(name: &str, arguments: &InputsArguments, watch: Stopwatch, check: f64) {
    Measurement {
        figure: "cca",
        name: name.to_owned(),
        thread_count: 1,
        item_count: (arguments.flows * arguments.slots) as u64,
        elapsed: watch.stop(),
        check: check as u64,
    }
    .print();
}

fn len(arguments: &InputsArguments) -> i64 {
    i64::try_from(arguments.slots).unwrap_or(0)
}

fn end(arguments: &InputsArguments) -> i64 {
    i64::try_from(arguments.kept).unwrap_or(0) + len(arguments)
}

fn way(flow: usize) -> FlowWay {
    let port = 1024 + u16::try_from(flow).unwrap_or(0);
    let (here, there) = ([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
    let (key, direction) = FlowKey::from_tuple(here, there, port, 443, Protocol::TCP);
    FlowWay { key, direction }
}

/// Flows that each send some packets in three slots of four.
fn full(arguments: &InputsArguments) -> Pair {
    let mut pair = Pair::new(TapOptions {
        clock: SlotClock::new(SLOT),
        flow_count_max: arguments.flows,
        kept: Span::from_ns(i64::MAX),
        sampler: None,
    });
    for flow in 0..arguments.flows {
        let way = way(flow);
        let mut seq = u32::try_from(flow).unwrap_or(0).wrapping_mul(0x9e37_79b9);
        for at in 0..end(arguments) {
            if (at + i64::try_from(flow).unwrap_or(0)) % 4 == 3 {
                continue;
            }
            let packets = 1 + u32::try_from(at % 3).unwrap_or(0);
            let bytes = packets * MTU_BYTES;
            let slot = |wait: i64| TapSlot {
                slot: START + at + wait,
                first_ns: (START + at + wait) * SLOT.as_ns() + 7,
                data_bytes: bytes.into(),
                frame_bytes: (bytes + packets * 66).into(),
                packets,
                segments: packets,
                first_seq: seq,
                high_seq: seq.wrapping_add(bytes),
                ..TapSlot::default()
            };
            pair.ingress.put(way, slot(0));
            pair.egress.put(way, slot(WAIT_LEN));
            seq = seq.wrapping_add(bytes);
        }
    }
    pair
}
