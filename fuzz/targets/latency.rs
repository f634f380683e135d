//! Latencies of traffic that somebody made up to harm whoever watches it: nothing overflows, each
//! packet with data has one sample, what is kept stays within its budgets and is given back when
//! flows have ended, and no latency is negative.
//!
//! Input: as `fuzz::hostile` reads it.
#![no_main]

use engine::Stage as _;
use engine::flow::pass::{Labels, Lens, Pass, Piece};
use engine::flow::{FlowEnd, FlowOptions, RemainingFlows};
use fuzz::hostile::made;
use fuzz::input::Input;
use latency::{Identity, Latency, Limits, OneWay, Sample, TakeSamples, Tap};
use libfuzzer_sys::fuzz_target;
use packet::{Batch, Frame, HashSeed};

const WAITING_MAX: usize = 20;

/// Samples, counted.
#[derive(Default)]
struct Counting(u64);

impl TakeSamples for Counting {
    const WANTS_ALL: bool = true;
    const WANTS_QUEUES: bool = true;

    fn take(&mut self, sample: &Sample) {
        self.0 += 1;
        assert!(sample.latency_ns.is_some() != sample.missing.is_some(), "{sample:?}");
    }
}

struct Measuring {
    latency: Latency,
    samples: Counting,
    packets: u64,
}

impl Measuring {
    fn end(&mut self, slot: packet::FlowSlot, key: packet::FlowKey) {
        let packets = self.latency.end(slot, key, &mut self.samples, |flow| {
            flow.ways.iter().map(|way| way.totals.packets).sum::<u64>()
        });
        self.packets += packets.unwrap_or(0);
    }
}

impl Lens for Measuring {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.latency.take(piece, &mut self.samples);
        assert!(self.latency.in_use()[1] <= WAITING_MAX);
    }

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        ended.iter().for_each(|ended| self.end(ended.slot, ended.record.key));
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, _: &Labels) {
        left.in_order(10, |flows| {
            flows.iter().for_each(|(record, slot)| self.end(*slot, record.key));
        });
    }
}

fuzz_target!(|bytes: &[u8]| {
    let made = made(&mut Input::new(bytes));
    let limits = Limits { waiting_max: WAITING_MAX, flow_count_max: 2, ..Limits::default() };
    for records in &made.taps {
        let latency = Latency::new(limits);
        let lens = Measuring { latency, samples: Counting::default(), packets: 0 };
        let mut pass = Pass::new(FlowOptions::default(), HashSeed::new(7), lens);
        for records in records.chunks(50) {
            pass.on_batch(&Batch { bytes: &made.bytes, records, tick: None });
        }
        let lens = pass.finish().lens;
        // Of several copies of a SYN the last one has a sample.
        assert!(lens.samples.0 <= lens.packets, "{} of {}", lens.samples.0, lens.packets);
        assert_eq!(lens.latency.in_use(), [0; 3]);
    }
    let (identity, mut one_way) = (Identity::default(), OneWay::new(limits));
    let mut samples = Counting::default();
    for (tap, records) in [Tap::Ingress, Tap::Egress].into_iter().zip(&made.taps) {
        for record in records {
            if let Some(seen) = identity.of(&Frame::new(&made.bytes, record)) {
                one_way.add(tap, seen, &mut samples);
            }
        }
    }
    one_way.finish(&mut samples);
});
