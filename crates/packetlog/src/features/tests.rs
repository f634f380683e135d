use std::collections::HashMap;

use packet::dissect::{DissectOptions, dissect};
use packet::{LinkType, Protocol, Span};
use proptest::prelude::*;

use super::*;

/// Ethernet, IPv4 and TCP or UDP, by hand.
pub(super) fn ip(
    protocol: u8,
    hosts: [u8; 2],
    ports: [u16; 2],
    payload_len: u16,
    tcp_flags: u8,
) -> Vec<u8> {
    let header_len = if protocol == 6 { 20 } else { 8 };
    let total = 20 + header_len + payload_len;
    let mut frame = [[2; 12].as_slice(), &[8, 0], &[0x45, 2]].concat();
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, hosts[0], 10, 0, 0, hosts[1]]);
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    if protocol == 6 {
        frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, tcp_flags, 1, 0, 0, 0, 0, 0]);
    } else {
        frame.extend((8 + payload_len).to_be_bytes());
        frame.extend([0, 0]);
    }
    frame.resize(frame.len() + usize::from(payload_len), 7);
    // Ethernet pads short frames.
    frame.resize(frame.len().max(60), 0);
    frame
}

pub(super) fn arp(sender: u8, target: u8) -> Vec<u8> {
    let mut frame = [[2; 12].as_slice(), &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend([2, 2, 2, 2, 2, 2, 10, 0, 0, sender, 0, 0, 0, 0, 0, 0, 10, 0, 0, target]);
    frame
}

/// Frames end to end, with their records.
pub(super) struct Capture {
    pub(super) bytes: Vec<u8>,
    pub(super) records: Vec<Record>,
}

impl Capture {
    pub(super) fn new(frames: &[(i64, Vec<u8>)]) -> Self {
        let (mut bytes, mut records) = (Vec::new(), Vec::new());
        for (time_ns, frame) in frames {
            let len = u32::try_from(frame.len()).unwrap();
            records.push(Record {
                timestamp: Timestamp::from_ns(*time_ns),
                offset: u32::try_from(bytes.len()).unwrap(),
                captured_len: len,
                wire_len: len,
                link: LinkType::ETHERNET,
                layers: dissect(LinkType::ETHERNET, frame, len, DissectOptions::default()),
                ..Record::default()
            });
            bytes.extend(frame);
        }
        Self { bytes, records }
    }

    /// Snapshots of all packets, which come so many at a time.
    pub(super) fn rows(
        &self,
        options: &FeatureOptions,
        columns: &[Column],
        together: usize,
    ) -> Vec<Vec<f32>> {
        let mut features = Features::new(options, columns, HashSeed::new(5)).unwrap();
        let mut rows = Vec::new();
        for records in self.records.chunks(together) {
            let batch = Batch { bytes: &self.bytes, records, tick: None };
            features.take(&batch, |records, snapshots| {
                assert_eq!(records.len(), snapshots.len());
                rows.extend((0..snapshots.len()).map(|at| snapshots.row(at).collect::<Vec<_>>()));
            });
        }
        rows
    }
}

fn named(options: &FeatureOptions, names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column::named(name, options).unwrap()).collect()
}

fn all_keys(source: CounterStore, window_ns: i64) -> FeatureOptions {
    let (window, keys) = (Span::from_ns(window_ns), Key::ALL.to_vec());
    FeatureOptions { source, window, keys, buckets: 256, states: 1024, ..FeatureOptions::default() }
}

fn value(row: &[f32], options: &FeatureOptions, name: &str) -> f32 {
    row[Column::all(options).position(|column| column.to_string() == name).unwrap()]
}

/// Packets of a key so far: sizes, times, marks.
type Past = HashMap<(Key, Vec<u8>), Vec<(f64, i64, bool)>>;

/// What is known of a packet's key, straight from what the columns are said to mean.
fn naive(past: &[(f64, i64, bool)], way: Option<bool>) -> Vec<f32> {
    let moments = |numbers: &[f64]| {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        (mean, numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
    };
    let most = |numbers: &[f64]| numbers.iter().copied().fold(f64::MIN, f64::max);
    let least = |numbers: &[f64]| numbers.iter().copied().fold(f64::MAX, f64::min);
    let sizes: Vec<f64> = past.iter().map(|packet| packet.0).collect();
    let gaps: Vec<f64> = past.windows(2).map(|pair| (pair[1].1 - pair[0].1) as f64).collect();
    let marked = past.iter().filter(|packet| packet.2 == way.unwrap_or(true)).count();
    let mut row = vec![sizes.len() as f64, marked as f64, sizes.iter().sum()];
    row.extend([most(&sizes), least(&sizes), moments(&sizes).0, moments(&sizes).1]);
    row.push(gaps.iter().sum());
    if gaps.is_empty() {
        row.extend([-1.0; 4]);
    } else {
        row.extend([most(&gaps), least(&gaps), moments(&gaps).0, moments(&gaps).1]);
    }
    row.into_iter().map(|number| number as f32).collect()
}

fn near(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-5 * a.abs().max(b.abs()).max(1.0)
}

fn any_frames() -> impl Strategy<Value = Vec<(i64, Vec<u8>)>> {
    let frame = prop_oneof![
        5 => (0u8..4, 0u8..4, 0u16..3, 0u16..3, 0u16..900, prop_oneof![Just(6u8), Just(17)])
            .prop_map(|(a, b, p, q, len, protocol)| ip(protocol, [a, b], [p, q], len, 0x10)),
        1 => (0u8..4, 0u8..4).prop_map(|(a, b)| arp(a, b)),
    ];
    // Stamps run backwards a little.
    let step = prop_oneof![4 => 0i64..400_000, 1 => -300_000i64..0];
    proptest::collection::vec((step, frame), 1..300).prop_map(|frames| {
        let mut time = 1_000_000_000;
        frames
            .into_iter()
            .map(|(step, frame)| {
                time += step;
                (time, frame)
            })
            .collect()
    })
}

proptest! {
    /// Both ways of keeping, with windows and without, however packets come together.
    #[test]
    fn snapshots_are_what_their_columns_say(frames in any_frames(), together in 1usize..300) {
        let capture = Capture::new(&frames);
        for (source, window_ns) in
            [
                (CounterStore::Exact, 0),
                (CounterStore::Exact, 3_000_000),
                (CounterStore::Sketch, 3_000_000),
            ]
        {
            let options = all_keys(source, window_ns);
            let columns: Vec<Column> = Column::all(&options).collect();
            let rows = capture.rows(&options, &columns, together);
            prop_assert_eq!(&rows, &capture.rows(&options, &columns, 256));
            let (mut past, mut now, mut window) = (Past::new(), i64::MIN, 0);
            for ((time, frame), row) in frames.iter().zip(&rows) {
                now = now.max(*time);
                if window_ns > 0 && now / window_ns != window {
                    past.clear();
                    window = now / window_ns;
                }
                let is_arp = frame[13] == 6;
                let (a, b) = if is_arp { (31, 41) } else { (29, 33) };
                let size = if is_arp {
                    frame.len() as f64
                } else {
                    f64::from(u16::from_be_bytes([frame[16], frame[17]]))
                };
                let ends = [[frame[a], frame[34], frame[35]], [frame[b], frame[36], frame[37]]];
                let mut key = ends.to_vec();
                key.sort_unstable();
                let mut begins = true;
                let at = PacketColumn::ALL.len();
                if is_arp {
                    prop_assert_eq!(&row[at..at + 12], &[-1.0; 12]);
                } else {
                    let flow = [&[frame[23]], key.concat().as_slice()].concat();
                    let is_up = ends[0] <= ends[1];
                    let flow = past.entry((Key::Flow, flow)).or_default();
                    begins = flow.is_empty();
                    flow.push((size, now, is_up));
                    let wanted = naive(flow, Some(is_up));
                    let all_near = wanted.iter().zip(&row[at..]).all(|(&a, &b)| near(a, b));
                    prop_assert!(all_near, "{:?} {:?}", wanted, row);
                }
                for (host, key) in [(a, Key::Source), (b, Key::Destination)] {
                    let host = past.entry((key, vec![frame[host]])).or_default();
                    host.push((size, now, begins));
                    let wanted = naive(host, None);
                    let seen = &row[at + 12 * key as usize..];
                    let all_near = wanted.iter().zip(seen).all(|(&a, &b)| near(a, b));
                    prop_assert!(all_near, "{:?} {:?} {:?}", key, wanted, row);
                }
            }
        }
    }

    /// Any bytes, any stamps: a row for each record.
    #[test]
    fn whatever_comes_has_a_snapshot(
        frames in proptest::collection::vec(
            (any::<i64>(), proptest::collection::vec(any::<u8>(), 0..90)), 0..40),
        is_ip: bool,
    ) {
        let frames: Vec<_> = frames
            .into_iter()
            .map(|(time, mut frame)| {
                if is_ip && frame.len() > 14 {
                    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                }
                (time, frame)
            })
            .collect();
        let capture = Capture::new(&frames);
        for source in [CounterStore::Sketch, CounterStore::Exact] {
            let options = all_keys(source, 1_000_000);
            let columns: Vec<Column> = Column::all(&options).collect();
            let rows = capture.rows(&options, &columns, 7);
            prop_assert_eq!(rows.len(), frames.len());
            prop_assert!(rows.iter().flatten().all(|value| value.is_finite()));
        }
    }
}

#[test]
fn a_packet_alone_says_what_its_headers_say() {
    let frames = [
        (0, ip(6, [1, 2], [443, 50_000], 100, 0x12)),
        (0, ip(17, [1, 2], [53, 9], 10, 0)),
        (0, arp(1, 1)),
    ];
    let options = FeatureOptions::default();
    let columns: Vec<Column> = Column::all(&options).collect();
    let rows = Capture::new(&frames).rows(&options, &columns, 3);
    let of = |row: usize, names: [&str; 8]| names.map(|name| value(&rows[row], &options, name));
    let tcp =
        ["tcp_flags", "tcp_syn", "tcp_fin", "tcp_window", "ecn", "network", "protocol", "ip_bytes"];
    assert_eq!(of(0, tcp), [18.0, 1.0, 0.0, 256.0, 2.0, 4.0, 6.0, 140.0]);
    assert_eq!(of(1, tcp), [-1.0, -1.0, -1.0, -1.0, 2.0, 4.0, 17.0, 38.0]);
    assert_eq!(of(2, tcp), [-1.0, -1.0, -1.0, -1.0, -1.0, 1.0, -1.0, 42.0]);
    let others = [
        "wire_bytes",
        "payload_bytes",
        "ip_header_bytes",
        "transport_header_bytes",
        "source_port",
        "lower_port",
        "arp_operation",
        "arp_gratuitous",
    ];
    assert_eq!(of(0, others), [154.0, 100.0, 20.0, 20.0, 443.0, 443.0, -1.0, -1.0]);
    assert_eq!(of(1, others), [60.0, 10.0, 20.0, 8.0, 53.0, 9.0, -1.0, -1.0], "padding is none");
    assert_eq!(of(2, others), [42.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0]);
}

/// Columns that know when packets came.
fn is_gap(name: &str) -> bool {
    ["_gap_", "_age_s", "_idle_s", "_per_s"].iter().any(|part| name.contains(part))
}

#[test]
fn a_merged_frame_counts_as_the_packets_that_it_was_on_the_wire() {
    const FULL: u16 = 1460;
    for (parts, last) in [(2, 1), (3, 700), (5, FULL), (44, 1459)] {
        let split = (1..=parts).map(|part| {
            // The last alone has PSH.
            let (len, flags) = if part == parts { (last, 0x18) } else { (FULL, 0x10) };
            (i64::from(part) * 12_112, ip(6, [1, 2], [80, 50_000], len, flags))
        });
        let before = (0, ip(6, [1, 2], [80, 50_000], 10, 0x18));
        let split: Vec<_> = [before.clone()].into_iter().chain(split).collect();
        let all_len = FULL * (parts - 1) + last;
        let merged = [before, (12_112, ip(6, [1, 2], [80, 50_000], all_len, 0x18))];
        for (source, told) in
            [(CounterStore::Sketch, parts), (CounterStore::Exact, parts), (CounterStore::Exact, 1)]
        {
            let options = all_keys(source, 1_000_000_000);
            let columns: Vec<Column> = Column::all(&options).collect();
            let mut capture = Capture::new(&merged);
            capture.records[1].segments = told;
            let seen = capture.rows(&options, &columns, 2)[1].clone();
            let wanted = Capture::new(&split).rows(&options, &columns, 300);
            // What is said of the packet is that of a full segment, of its flow and hosts all.
            let full = &wanted[wanted.len() - 2];
            let all = &wanted[wanted.len() - 1];
            for (at, column) in columns.iter().enumerate() {
                let is_sum = column.key().is_some() || column.state().is_some();
                let (name, of) = (column.to_string(), if is_sum { all } else { full });
                if !is_gap(&name) {
                    assert_eq!(seen[at], of[at], "{name}, {parts} parts, {source:?} told {told}");
                }
            }
            assert_eq!(value(&seen, &options, "flow_gap_min_ns"), 12_112.0);
        }
    }
}

#[test]
fn what_is_not_merged_is_left_alone_and_no_length_is_too_odd() {
    let options = all_keys(CounterStore::Sketch, 1_000_000);
    let columns = named(&options, &["ip_bytes", "flow_packets"]);
    // A full segment, a datagram of a jumbo frame, a tag that makes a frame longer.
    let frames = [(0, ip(6, [1, 2], [1, 2], 1460, 0x10)), (0, ip(17, [1, 2], [1, 2], 8000, 0))];
    let rows = Capture::new(&frames).rows(&options, &columns, 9);
    assert_eq!(rows, [[1500.0, 1.0], [8028.0, 1.0]]);
    for (payload_len, segments) in [(0, 9), (3, 9), (9000, u16::MAX), (65_000, 2), (1, 2)] {
        let mut capture = Capture::new(&[(0, ip(6, [1, 2], [1, 2], payload_len, 0x10))]);
        capture.records[0].segments = segments;
        let row = &capture.rows(&options, &columns, 1)[0];
        let packets = u32::from(segments.min(payload_len.max(1)));
        assert_eq!(row[1], packets as f32, "{payload_len} bytes in {segments}");
        assert!(row[0] >= 40.0 && row[0] <= 40.0 + f32::from(payload_len));
    }
}

#[test]
fn a_clock_that_was_set_back_begins_anew() {
    let second = 1_000_000_000;
    let times = [500, 501, 100, 101].map(|time| time * second);
    let frames = times.map(|time| (time, ip(6, [1, 2], [1, 2], 10, 0x10)));
    for (source, window) in
        [(CounterStore::Exact, 0), (CounterStore::Exact, 1 << 42), (CounterStore::Sketch, 1 << 31)]
    {
        let options =
            FeatureOptions { source, window: Span::from_ns(window), ..FeatureOptions::default() };
        let columns = named(&options, &["flow_packets"]);
        let rows = Capture::new(&frames).rows(&options, &columns, 2).concat();
        assert_eq!(rows[2], 1.0, "{source:?}");
    }
}

#[test]
fn frames_without_stamps_are_of_one_moment() {
    let unknown = Timestamp::UNKNOWN.as_ns();
    let frames = [unknown, unknown, unknown].map(|time| (time, ip(17, [1, 2], [1, 2], 10, 0)));
    for source in [CounterStore::Exact, CounterStore::Sketch] {
        let options = FeatureOptions { source, ..FeatureOptions::default() };
        let columns = named(&options, &["flow_packets", "flow_gap_sum_ns"]);
        let rows = Capture::new(&frames).rows(&options, &columns, 2);
        assert_eq!(rows, [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]);
    }
}

#[test]
fn what_no_column_needs_is_not_kept() {
    let options = all_keys(CounterStore::Sketch, 1_000_000);
    let kept = |names: &[&str]| {
        let features = Features::new(&options, &named(&options, names), HashSeed::new(1)).unwrap();
        Key::ALL.map(|key| features.sketch_counts(key).is_some())
    };
    assert_eq!(kept(&["tcp_syn"]), [true, false, false], "the flow decides which forest judges");
    assert_eq!(kept(&["source_flows"]), [true, true, false]);
    assert_eq!(kept(&["destination_packets", "flow_packets"]), [true, false, true]);
    let only_hosts = FeatureOptions { keys: vec![Key::Destination], ..options.clone() };
    assert_eq!(only_hosts.main_key(), Some(Key::Destination));
    assert_eq!(Column::named("destination_flows", &only_hosts), None);
    let column = named(&options, &["flow_packets"]);
    assert!(Features::new(&only_hosts, &column, HashSeed::new(1)).is_err());
}

/// A change of it changes what models were trained on.
#[test]
fn the_schema_is_the_same_for_ever() {
    let options = FeatureOptions { states: 0, ..all_keys(CounterStore::Exact, 0) };
    let columns: Vec<Column> = Column::all(&options).collect();
    assert_eq!(columns.len(), 65);
    let text = schema_text(&options, &columns);
    assert!(text.starts_with("wirelens packetlog features 1\nlayout row\ndtype f32\nmissing -1\n"));
    assert!(text.contains("window_ns 0\nidle_timeout_ns 120000000000\ncolumns 65\nwire_bytes\n"));
    assert!(schema_hash(&options, &columns).starts_with(HASH_START), "{text}");
    let options = FeatureOptions { states: 1024, ..options };
    let columns: Vec<Column> = Column::all(&options).collect();
    assert_eq!(columns.len(), 65 + StateColumn::ALL.len());
    for column in columns {
        assert_eq!(Column::named(&column.to_string(), &options), Some(column));
    }
    assert_eq!(Protocol::TCP.0, 6);
}

const HASH_START: &str = "270e4341738b9f92";
