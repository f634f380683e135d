//! Frames of conversations, and what a cascade says of them.

use std::sync::Arc;

use classify::serve::AskElsewhere;
use classify::{
    Cascade, Classifier, Clock, Counts, HostVerdict, Label, Options, Standing, TakeVerdicts,
    Verdict, WindowClassifier,
};
use engine::flow::{
    EndedFlow, FlowEnd, FlowFrames, FlowMark, FlowOptions, FlowPacket, FlowSink, FlowSlot,
    FramesOutcome, FromFrames, States,
};
use engine::run::{Control, run_one};
use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, Frame, HashSeed, LinkType, Record, Source, Timestamp};

pub(crate) const START_NS: i64 = 1_700_000_000_000_000_000;
pub(crate) const SECOND: i64 = 1_000_000_000;

/// One packet of a conversation between 10.0.0.`client` and 10.0.0.255.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestPacket {
    pub(crate) client: u8,
    pub(crate) is_back: bool,
    /// 6 has TCP's header, 17 UDP's, others none.
    pub(crate) protocol: u8,
    pub(crate) server_port: u16,
    pub(crate) tcp_flags: u8,
    pub(crate) payload_len: u8,
    pub(crate) segments: u16,
    /// Since the start.
    pub(crate) ns: i64,
}

impl TestPacket {
    /// A datagram of a client to a port.
    pub(crate) const fn udp(client: u8, server_port: u16, ns: i64) -> Self {
        Self {
            client,
            is_back: false,
            protocol: 17,
            server_port,
            tcp_flags: 0,
            payload_len: 8,
            segments: 1,
            ns,
        }
    }

    /// A segment of a client to a port.
    pub(crate) const fn tcp(client: u8, server_port: u16, tcp_flags: u8, ns: i64) -> Self {
        Self { protocol: 6, tcp_flags, ..Self::udp(client, server_port, ns) }
    }

    /// The same the other way.
    pub(crate) const fn back(self) -> Self {
        Self { is_back: true, ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let (mut from, mut to) = ([10, 0, 0, self.client], [10, 0, 0, 255]);
        let (mut from_port, mut to_port) = (40_000 + u16::from(self.client), self.server_port);
        if self.is_back {
            (from, to) = (to, from);
            (from_port, to_port) = (to_port, from_port);
        }
        let ports = [from_port.to_be_bytes(), to_port.to_be_bytes()].concat();
        let payload = vec![7; self.payload_len.into()];
        let transport = match self.protocol {
            6 => [&ports[..], &[0; 8], &[0x50, self.tcp_flags, 2, 0, 0, 0, 0, 0]].concat(),
            17 => [&ports[..], &[0, 8 + self.payload_len, 0, 0]].concat(),
            _ => Vec::new(),
        };
        let total_len = u8::try_from(20 + transport.len() + payload.len()).unwrap();
        let ip = [0x45, 0, 0, total_len, 0, 0, 0, 0, 64, self.protocol, 0, 0];
        [&[2; 12][..], &[8, 0], &ip, &from, &to, &transport, &payload].concat()
    }
}

/// Frames in memory, a few at a time.
struct Frames {
    bytes: Vec<u8>,
    records: Vec<Record>,
    batch_len: usize,
    next: usize,
}

impl Frames {
    fn new(packets: &[TestPacket], batch_len: usize) -> Self {
        let (mut bytes, mut records) = (Vec::new(), Vec::new());
        for packet in packets {
            let frame = packet.bytes();
            let len = u32::try_from(frame.len()).unwrap();
            records.push(Record {
                timestamp: Timestamp::from_ns(START_NS + packet.ns),
                offset: u32::try_from(bytes.len()).unwrap(),
                captured_len: len,
                wire_len: len,
                segments: packet.segments,
                layers: dissect(LinkType::ETHERNET, &frame, len, DissectOptions::default()),
                ..Record::default()
            });
            bytes.extend(frame);
        }
        Self { bytes, records, batch_len, next: 0 }
    }
}

impl Source for Frames {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        let end = self.records.len().min(self.next + self.batch_len);
        let records = &self.records[self.next..end];
        self.next = end;
        (!records.is_empty()).then_some(Batch { bytes: &self.bytes, records, tick: None })
    }
}

/// Keeps all verdicts.
#[derive(Default)]
pub(crate) struct All(pub(crate) Vec<Verdict>, pub(crate) Vec<HostVerdict>);

impl TakeVerdicts for All {
    fn take(&mut self, verdicts: &[Verdict]) {
        self.0.extend_from_slice(verdicts);
    }

    fn take_hosts(&mut self, verdicts: &[HostVerdict]) {
        assert!(verdicts.is_sorted_by_key(|verdict| verdict.host), "{verdicts:?}");
        self.1.extend_from_slice(verdicts);
    }
}

/// What flows were when they ended.
#[derive(Default)]
pub(crate) struct Ends(pub(crate) Vec<EndedFlow<Standing>>);

impl FlowSink<Standing> for Ends {
    fn take(&mut self, flows: &[EndedFlow<Standing>]) {
        self.0.extend_from_slice(flows);
    }
}

/// How frames come and are kept.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) batch_len: usize,
    pub(crate) seed: u64,
    pub(crate) options: Options,
    pub(crate) flow_count_max: usize,
    /// What is classified again.
    pub(crate) again: Option<Label>,
    /// The packet, counted from 0, that costs its flow what is kept of it.
    pub(crate) fault_at: Option<usize>,
}

impl Default for Way {
    fn default() -> Self {
        let (options, flow_count_max) = (Options::default(), 1 << 20);
        Self { batch_len: 64, seed: 1, options, flow_count_max, again: None, fault_at: None }
    }
}

pub(crate) struct ServeOutcome {
    pub(crate) verdicts: Vec<Verdict>,
    /// Verdicts on hosts, as they came.
    pub(crate) hosts: Vec<HostVerdict>,
    /// And on those that are remembered in the end.
    pub(crate) remembered: Vec<HostVerdict>,
    pub(crate) ends: Vec<EndedFlow<Standing>>,
    pub(crate) counts: Counts,
    pub(crate) flow_count: u64,
    pub(crate) size_bytes: usize,
}

/// A classifier that falls over a packet, and is given the others.
struct Falling<C> {
    classifier: Classifier<C, All>,
    at: Option<usize>,
    seen: usize,
}

impl<C: Clock> FromFrames for Falling<C> {
    type State = Standing;

    fn on_frame(
        &mut self,
        state: &mut Standing,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) {
        self.seen += 1;
        match self.at {
            Some(at) if at + 1 == self.seen => self.classifier.on_fault(state, slot),
            _ => self.classifier.on_frame(state, frame, packet, slot),
        }
    }

    fn on_end(&mut self, state: &mut Standing, ended: &FlowEnd) {
        self.classifier.on_end(state, ended);
    }

    fn on_pause(&mut self, states: &mut States<'_, Standing>) {
        self.classifier.on_pause(states);
    }

    fn on_mark(&mut self, states: &mut States<'_, Standing>, mark: FlowMark) {
        self.classifier.on_mark(states, mark);
    }
}

/// Runs packets through a cascade.
pub(crate) fn serve(cascade: &Arc<Cascade>, packets: &[TestPacket], way: Way) -> ServeOutcome {
    serve_with(cascade, packets, way, ())
}

pub(crate) fn serve_with(
    cascade: &Arc<Cascade>,
    packets: &[TestPacket],
    way: Way,
    clock: impl Clock,
) -> ServeOutcome {
    serve_elsewhere(cascade, packets, way, clock, None)
}

/// The same with stages after the first that are computed elsewhere, if they are.
pub(crate) fn serve_elsewhere(
    cascade: &Arc<Cascade>,
    packets: &[TestPacket],
    way: Way,
    clock: impl Clock,
    elsewhere: Option<Box<dyn AskElsewhere>>,
) -> ServeOutcome {
    let mut source = Frames::new(packets, way.batch_len);
    let mut classifier = Classifier::new(Arc::clone(cascade), way.options, clock, All::default());
    if let Some(elsewhere) = elsewhere {
        classifier.ask_elsewhere(elsewhere);
    }
    classifier.note_hosts();
    classifier.ask_again(way.again.into_iter().collect());
    let timeouts = cascade.flows();
    let options = FlowOptions {
        idle_timeout: timeouts.idle,
        active_timeout: timeouts.active,
        flow_count_max: way.flow_count_max,
        ..FlowOptions::default()
    };
    let seed = HashSeed::new(way.seed);
    let falling = Falling { classifier, at: way.fault_at, seen: 0 };
    let mut stage = FlowFrames::new(options, seed, falling, Ends::default());
    run_one(&mut source, &mut stage, &Control::default());
    let FramesOutcome { keep, output: Ends(ends), counts: flows, .. } = stage.finish();
    let keep = keep.classifier;
    let size_bytes = keep.size_bytes();
    assert!(size_bytes <= keep.size_bytes_max(), "{size_bytes}");
    let remembered = keep.hosts();
    let (counts, All(verdicts, hosts)) = keep.finish();
    ServeOutcome {
        verdicts,
        hosts,
        remembered,
        ends,
        counts,
        flow_count: flows.total(),
        size_bytes,
    }
}

/// What becomes of states that are ignored.
struct Nothing;

impl<S> FlowSink<S> for Nothing {
    fn take(&mut self, _: &[EndedFlow<S>]) {}
}

/// Runs packets through a cascade of windows.
pub(crate) fn serve_windows(
    cascade: &Arc<Cascade>,
    packets: &[TestPacket],
    way: Way,
) -> (Vec<Verdict>, Counts) {
    let mut source = Frames::new(packets, way.batch_len);
    let features = cascade.window().cloned().unwrap();
    let output = All::default();
    let classifier = WindowClassifier::new(Arc::clone(cascade), features, way.options, (), output);
    let timeouts = cascade.flows();
    let options = FlowOptions {
        idle_timeout: timeouts.idle,
        active_timeout: timeouts.active,
        flow_count_max: way.flow_count_max,
        ..FlowOptions::default()
    };
    let seed = HashSeed::new(way.seed);
    let mut stage = FlowFrames::new(options, seed, classifier, Nothing);
    run_one(&mut source, &mut stage, &Control::default());
    let (counts, All(verdicts, _)) = stage.finish().keep.finish();
    (verdicts, counts)
}
