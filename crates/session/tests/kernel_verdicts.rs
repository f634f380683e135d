//! The program in the kernel classifies as user space does: packet by packet, on one processor, by
//! a clock that the test sets.
#![cfg(all(target_os = "linux", feature = "tap"))]
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]
// A test that is skipped says so.
#![allow(clippy::print_stderr)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capture::input::Input;
use capture::open::open;
use capture::reading::ReadOptions;
use capture::tap::{CUT_CLASSES_MAX, CutModel, CutTable, PacketCutter};
use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, CutNote, HashSeed, LinkType, Protocol, Record, Source as _, Timestamp};
use packetlog::features::{Column, FeatureOptions, Features, Key, schema_hash};
use packetlog::integer::{IntegerClassifier, IntegerModel, IntegerOptions};
use packetlog::{Basis, Model, PacketVerdict};
use proptest::prelude::*;

const SEED: HashSeed = HashSeed::new(5);
const SECRET: u64 = 0x5ec2_e715_0000_0001;
/// Cut by it, a frame keeps its headers.
const HEADERS: CutTable = CutTable { generation: 3, payload: [Some(0); CUT_CLASSES_MAX] };

/// Loading programs takes rights. As root, a program that cannot be loaded is a failure.
fn may_load() -> bool {
    let is_root = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")));
    if !is_root {
        eprintln!("SKIPPED: loading a program takes root");
    }
    is_root
}

fn cutter(model: &Model) -> PacketCutter {
    let integer = IntegerModel::new(model, IntegerOptions::Kernel).unwrap();
    let kernel = integer.for_kernel().unwrap();
    let model = CutModel {
        bytes: &kernel.bytes,
        layers: kernel.layers,
        buckets: kernel.buckets,
        window: kernel.window,
        seed: SEED,
        secret: SECRET,
    };
    PacketCutter::load(&model, &HEADERS).unwrap()
}

/// A frame as it came.
#[derive(Clone)]
struct Frame {
    bytes: Vec<u8>,
    time: Timestamp,
}

impl Frame {
    fn record(&self) -> Record {
        let len = u32::try_from(self.bytes.len()).unwrap();
        Record {
            timestamp: self.time,
            captured_len: len,
            wire_len: len,
            link: LinkType::ETHERNET,
            layers: dissect(LinkType::ETHERNET, &self.bytes, len, DissectOptions::default()),
            ..Record::default()
        }
    }
}

/// What the program said of a frame, after checks of what is left of it.
fn tried(cutter: &mut PacketCutter, frame: &Frame) -> Option<CutNote> {
    let (left, _) = cutter.try_frame(&frame.bytes, frame.time.as_ns()).unwrap();
    let (note, kept) = left.split_first_chunk().unwrap_or((&[0; CutNote::LEN], &[]));
    let Some(note) = CutNote::read(note, SECRET) else {
        assert_eq!(left, frame.bytes, "a frame without a verdict is whole");
        return None;
    };
    let record = frame.record();
    assert_eq!(kept.len(), usize::from(record.layers.payload_offset));
    assert_eq!(kept, &frame.bytes[..kept.len()]);
    assert_eq!((note.wire_len, note.generation), (record.wire_len, 3));
    assert!(record.layers.fault.is_none());
    Some(note)
}

fn judged(classifier: &mut IntegerClassifier, frame: &Frame) -> PacketVerdict {
    let (record, mut judged) = (frame.record(), Vec::new());
    let batch = Batch { bytes: &frame.bytes, records: &[record], tick: None };
    classifier.judge(&batch, &mut judged);
    judged[0]
}

/// Frames that the program judged, and others.
fn compared(model: &Model, frames: &[Frame]) -> (usize, usize) {
    let integer = IntegerModel::new(model, IntegerOptions::Kernel).unwrap();
    let mut classifier = IntegerClassifier::new(Arc::new(integer), SEED);
    let mut cutter = cutter(model);
    let (mut judged_frames, mut others) = (0, 0);
    for (at, frame) in frames.iter().enumerate() {
        let Some(note) = tried(&mut cutter, frame) else {
            others += 1;
            continue;
        };
        judged_frames += 1;
        let wanted = judged(&mut classifier, frame);
        let basis = if note.is_by_flow { Basis::Flow } else { Basis::Packet };
        let confidence = note.class_weight as f32 / note.all_weight as f32;
        assert_eq!(
            (note.class, basis, confidence),
            (wanted.class, wanted.basis, wanted.confidence),
            "frame {at} of {:?}",
            wanted.flow
        );
    }
    let counts = cutter.control().counts();
    assert_eq!((counts.seen, counts.judged), (frames.len() as u64, judged_frames as u64));
    (judged_frames, others)
}

/// Ethernet frames of a capture in their order, none before the one before.
fn frames_of(path: &str) -> Vec<Frame> {
    let options = ReadOptions {
        dissect: DissectOptions::default(),
        filter: None,
        snaplen: u32::MAX,
        progress: Arc::default(),
        stop: Arc::new(AtomicBool::new(false)),
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let mut source = open(&Input::File(format!("{root}{path}").into()), &options).unwrap();
    let (mut frames, mut now) = (Vec::new(), Timestamp::MIN);
    while let Some(batch) = source.next_batch() {
        for frame in batch.frames() {
            now = now.max(frame.record.timestamp);
            if frame.record.captured_len == frame.record.wire_len {
                frames.push(Frame { bytes: frame.bytes.to_vec(), time: now });
            }
        }
    }
    frames
}

#[test]
fn the_model_that_ships_for_the_kernel_says_the_same_there_packet_by_packet() {
    if !may_load() {
        return;
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/packetlog-kernel/model.json");
    let model = Model::parse(&std::fs::read(file).unwrap()).unwrap();
    let frames = frames_of("testdata/demo.pcapng");
    let (judged, others) = compared(&model, &frames);
    assert!(judged > 1_000 && judged > 9 * others, "{judged} {others}");
}

/// A model that compares every column that a packet can have in the kernel with the value of one
/// of the packets: each leaf has a weight of its own, so that a verdict names the way to it.
fn model_of(frames: &[Frame], picks: &[prop::sample::Index]) -> Model {
    let options = FeatureOptions {
        keys: Key::ALL.to_vec(),
        buckets: 8,
        window: packet::Span::from_ns(50_000_000),
        ..FeatureOptions::default()
    };
    let columns: Vec<Column> =
        Column::all(&options).filter(|column| column.state().is_none()).collect();
    let mut rows = Vec::new();
    let mut features = Features::new(&options, &columns, SEED).unwrap();
    for frame in frames {
        let batch = Batch { bytes: &frame.bytes, records: &[frame.record()], tick: None };
        features.take(&batch, |_, found| rows.push(found.row(0).collect::<Vec<f32>>()));
    }
    let threshold = |column: usize| rows[picks[column % picks.len()].index(rows.len())][column];
    let trees = |is_read: &dyn Fn(&Column) -> bool| {
        let read: Vec<usize> = (0..columns.len()).filter(|&at| is_read(&columns[at])).collect();
        let trees: Vec<String> = read.chunks(12).map(|part| tree(part, threshold)).collect();
        trees.join(",")
    };
    let of_flow = trees(&|_| true);
    // Where there are no sums of the flow.
    let of_packet = trees(&|column| !column.needs(Key::Flow));
    let names: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let schema = schema_hash(&options, &columns);
    let text = format!(
        r#"{{"format":"wirelens-packetlog 1","classes":["benign","attack","other"],
        "features":{{"source":"sketch","window_ns":50000000,"layers":2,"buckets":8,
        "keys":["flow","source","destination"],"idle_timeout_ns":120000000000,
        "flow_count_max":1000}},"columns":[{}],"schema":"{schema}",
        "flow_forest":{{"trees":[{of_flow}]}},"packet_forest":{{"trees":[{of_packet}]}}}}"#,
        names.join(",")
    );
    Model::parse(text.as_bytes()).unwrap()
}

/// Compares columns one after the other: to the left of each is a leaf.
fn tree(columns: &[usize], threshold: impl Fn(usize) -> f32) -> String {
    let count = columns.len();
    let is_leaf = |node: usize| node == 2 * count || node % 2 == 1;
    let of = |leaf: &str, inner: &dyn Fn(usize) -> String| {
        let one = |node| if is_leaf(node) { leaf.to_owned() } else { inner(node) };
        (0..=2 * count).map(one).collect::<Vec<_>>().join(",")
    };
    let weights: Vec<String> =
        (0..=2 * count).map(|node| format!("[{},{},{}]", node + 1, 97 - 3 * node, 20)).collect();
    format!(
        r#"{{"feature":[{}],"threshold":[{}],"left":[{}],"right":[{}],"value":[{}]}}"#,
        of("-2", &|node| columns[node / 2].to_string()),
        of("-2", &|node| threshold(columns[node / 2]).to_string()),
        of("-1", &|node| (node + 1).to_string()),
        of("-1", &|node| (node + 2).to_string()),
        weights.join(",")
    )
}

/// A packet of one of a few flows, with headers of all kinds.
fn any_frame() -> impl Strategy<Value = (Vec<u8>, i64)> {
    let link = prop_oneof![6 => Just(0), 1 => Just(1), 1 => Just(2)];
    let transport = prop_oneof![8 => Just(6_u8), 8 => Just(17), 1 => Just(1), 1 => Just(47)];
    let options = prop_oneof![
        4 => Just(Vec::new()),
        4 => Just(vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        2 => Just(vec![2, 4, 5, 180, 1, 3, 3, 7]),
        1 => Just(vec![2, 4, 5, 180, 0, 9, 9, 9]),
        2 => prop::collection::vec(0_u8..12, 4..40),
    ];
    (
        (link, any::<bool>(), transport, options),
        (0_u8..9, 0_u8..3, 0_u16..9, prop_oneof![Just(53_u16), Just(443), Just(4_789)]),
        (0_usize..1_700, any::<u8>(), any::<u16>(), prop_oneof![9 => Just(0_i32), 1 => -9..9]),
        prop_oneof![5 => 0_i64..1_000_000, 1 => 0_i64..80_000_000],
    )
        .prop_map(|((tags, is_v6, transport, options), ends, rest, gap)| {
            (frame_bytes(tags, is_v6, transport, &options, ends, rest), gap)
        })
}

fn frame_bytes(
    tags: usize,
    is_v6: bool,
    transport: u8,
    options: &[u8],
    (source, destination, port, service): (u8, u8, u16, u16),
    (payload, flags, window, off): (usize, u8, u16, i32),
) -> Vec<u8> {
    let mut options = options.to_vec();
    options.truncate(40);
    options.resize(options.len().div_ceil(4) * 4, 1);
    let mut segment = [(1_024 + port).to_be_bytes(), service.to_be_bytes()].concat();
    if flags & 1 == 0 {
        segment.rotate_left(2);
    }
    let off = |len: usize| u16::try_from((len as i32 + off).clamp(0, 65_535)).unwrap();
    match Protocol(transport) {
        Protocol::TCP => {
            segment.extend([0; 8]);
            segment.push(u8::try_from(5 + options.len() / 4).unwrap() << 4 | flags & 1);
            segment.push(flags);
            segment.extend(window.to_be_bytes());
            segment.extend([0; 4]);
            segment.extend(&options);
        }
        Protocol::UDP => segment.extend([off(8 + payload).to_be_bytes(), [0; 2]].concat()),
        _ => segment.extend([8, 0, 0, 0]),
    }
    segment.resize(segment.len() + payload, 7);
    let mut frame = vec![2; 12];
    for _ in 0..tags {
        frame.extend([0x81, 0, 0x20, 5]);
    }
    let ecn = flags >> 6;
    if is_v6 {
        frame.extend([0x86, 0xdd, 0x60, ecn << 4, 0, 0]);
        frame.extend(off(segment.len()).to_be_bytes());
        frame.extend([transport, 64]);
        frame.extend([[0x20; 15].as_slice(), &[source], &[0x20; 15], &[destination]].concat());
    } else {
        let fragment = if window % 31 == 0 { 0x20 } else { flags & 0x40 };
        frame.extend([8, 0, 0x45, ecn]);
        frame.extend(off(20 + segment.len()).to_be_bytes());
        frame.extend([0, 0, fragment, 0, 64, transport, 0, 0, 10, 0, 0, source, 10, 0, 0]);
        frame.push(destination);
    }
    frame.extend(segment);
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_model_says_the_same_of_any_packets(
        packets in prop::collection::vec(any_frame(), 50..400),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 70),
    ) {
        if !may_load() {
            return Ok(());
        }
        let mut now = 1_790_000_000_000_000_000;
        let frames: Vec<Frame> = packets
            .into_iter()
            .map(|(bytes, gap)| {
                now += gap;
                Frame { bytes, time: Timestamp::from_ns(now) }
            })
            .collect();
        let (judged, _) = compared(&model_of(&frames, &picks), &frames);
        prop_assert!(judged > 10);
    }
}
