use packet::dissect::{DissectOptions, dissect};
use packet::{LinkType, Record, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::Classifier;
use crate::features::schema_hash;

const PLAIN: [&str; 5] =
    ["flow_packets", "flow_size_sum_bytes", "flow_gap_max_ns", "source_flows", "ip_bytes"];
const RATIOS: [&str; 4] = [
    "flow_size_mean_bytes",
    "flow_size_variance_bytes2",
    "flow_gap_mean_ns",
    "source_gap_variance_ns2",
];
/// The largest and the smallest of the numbers that each of them is made of.
const RANGES: [[&str; 2]; 4] = [
    ["flow_size_max_bytes", "flow_size_min_bytes"],
    ["flow_size_max_bytes", "flow_size_min_bytes"],
    ["flow_gap_max_ns", "flow_gap_min_ns"],
    ["source_gap_max_ns", "source_gap_min_ns"],
];

/// One tree that compares each column once: to the left of each is a leaf.
fn model(columns: &[&str], thresholds: &[f64], more: &str) -> Model {
    let options = FeatureOptions { keys: vec![Key::Flow, Key::Source], ..Default::default() };
    let of_names: Vec<_> =
        columns.iter().map(|name| Column::named(name, &options).unwrap()).collect();
    let schema = schema_hash(&options, &of_names);
    let count = columns.len();
    let json = |values: Vec<String>| format!("[{}]", values.join(","));
    let nodes = 0..=2 * count;
    let is_leaf = |node: usize| node == 2 * count || node % 2 == 1;
    let of = |leaf: &str, inner: &dyn Fn(usize) -> String| {
        json(nodes.clone().map(|n| if is_leaf(n) { leaf.into() } else { inner(n) }).collect())
    };
    let value = |node: usize| format!("[{},{}]", node % 4, 3 - node % 4);
    let tree = format!(
        r#"{{"feature":{},"threshold":{},"left":{},"right":{},"value":{}}}"#,
        of("-2", &|node| (node / 2).to_string()),
        of("-2", &|node| thresholds[node / 2].to_string()),
        of("-1", &|node| (node + 1).to_string()),
        of("-1", &|node| (node + 2).to_string()),
        json(nodes.clone().map(value).collect()),
    );
    let leaf = r#"{"feature":[-2],"threshold":[-2],"left":[-1],"right":[-1],"value":[[1,0]]}"#;
    let names = columns.join("\",\"");
    let text = format!(
        r#"{{"format":"wirelens-packetlog 1","classes":["benign","attack"],
        "features":{{"source":"sketch","window_ns":10000000,"layers":2,"buckets":65536,
        "keys":["flow","source"],"idle_timeout_ns":120000000000,"flow_count_max":1000}},
        "columns":["{names}"],"schema":"{schema}"{more},
        "flow_forest":{{"trees":[{tree}]}},"packet_forest":{{"trees":[{leaf}]}}}}"#
    );
    Model::parse(text.as_bytes()).unwrap()
}

/// UDP from one of a few hosts.
fn frame(host: u8, port: u16, payload: u16) -> Vec<u8> {
    let mut frame = [[2; 12].as_slice(), &[8, 0, 0x45, 0]].concat();
    frame.extend((28 + payload).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, host, 10, 0, 1, 1]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 53]);
    frame.extend((8 + payload).to_be_bytes());
    frame.extend([0, 0]);
    frame.resize(42 + usize::from(payload), 0);
    frame
}

type Packet = (u8, u16, u16, i64);

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (0u8..3, 1u16..4, 0u16..1_400, 0i64..2_000_000);
    prop::collection::vec(packet, 1..200)
}

fn records(packets: &[Packet]) -> (Vec<u8>, Vec<Record>) {
    let (mut bytes, mut records, mut now) = (Vec::new(), Vec::new(), 0);
    for &(host, port, payload, gap) in packets {
        now += gap;
        let frame = frame(host, port, payload);
        let (offset, len) = (bytes.len() as u32, frame.len() as u32);
        records.push(Record {
            timestamp: Timestamp::from_ns(now),
            offset,
            captured_len: len,
            wire_len: len,
            link: LinkType::ETHERNET,
            layers: dissect(LinkType::ETHERNET, &frame, len, DissectOptions::default()),
            ..Record::default()
        });
        bytes.extend(frame);
    }
    (bytes, records)
}

fn judged(judge: &mut dyn Judge, packets: &[Packet]) -> Vec<PacketVerdict> {
    let (bytes, records) = records(packets);
    let mut judged = Vec::new();
    judge.judge(&Batch { bytes: &bytes, records: &records, tick: None }, &mut judged);
    judged
}

const SEED: HashSeed = HashSeed::new(5);

/// Relative errors of products and of squares at most; the rest is that of floats of 32 bits.
fn errors(options: IntegerOptions) -> (f64, f64) {
    match options {
        IntegerOptions::Switch { product_error, mantissa_bits } => {
            (product_error + 1e-5, 7.0 * 2f64.powi(-(mantissa_bits as i32)))
        }
        IntegerOptions::Kernel => (1e-5, 1e-6),
    }
}

/// A ratio of each packet's key in floats, and how far that in whole numbers may be off.
fn values(
    ratio: usize,
    error: f64,
    options: &FeatureOptions,
    packets: &[Packet],
) -> Vec<(f64, f64)> {
    let [max, min] = RANGES[ratio];
    let columns = [RATIOS[ratio], max, min].map(|name| Column::named(name, options).unwrap());
    let (bytes, records) = records(packets);
    let mut found = Vec::new();
    let batch = Batch { bytes: &bytes, records: &records, tick: None };
    Features::new(options, &columns, SEED).unwrap().take(&batch, |_, rows| {
        found.extend((0..rows.len()).map(|at| {
            let row: Vec<f64> = rows.row(at).map(f64::from).collect();
            let (value, range) = (row[0], row[1] - row[2]);
            // As in `sums`; distances are at most the range.
            // Gaps are in units of 64 ns.
            let unit = if max.contains("gap") { 64.0 } else { 1.0 };
            match ratio % 2 {
                0 => (value, 0.0),
                _ => (value, error * range * range + 2.0 * unit * (range + unit)),
            }
        }));
    });
    found
}

fn both(model: Model, options: IntegerOptions, packets: &[Packet]) -> [Vec<PacketVerdict>; 2] {
    let integer = IntegerModel::new(&model, options).unwrap();
    let mut exact = Classifier::new(Arc::new(model), SEED);
    let mut integer = IntegerClassifier::new(Arc::new(integer), SEED);
    [judged(&mut exact, packets), judged(&mut integer, packets)]
}

fn options() -> impl Strategy<Value = IntegerOptions> {
    prop_oneof![Just(IntegerOptions::SWITCH), Just(IntegerOptions::Kernel)]
}

proptest! {
    // A classifier takes tens of megabytes.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn without_ratios_every_verdict_is_that_of_user_space(
        packets in packets(), at in prop::collection::vec(0.0f64..1.0, PLAIN.len()),
        options in options(),
    ) {
        let scales = [20.0, 20_000.0, 5_000_000.0, 5.0, 1_400.0];
        let thresholds: Vec<f64> = at.iter().zip(scales).map(|(at, scale)| at * scale).collect();
        let [exact, integer] = both(model(&PLAIN, &thresholds, ""), options, &packets);
        // Confidences differ in their last bits.
        let decided = |all: &[PacketVerdict]| {
            all.iter().map(|one| (one.class, one.basis, one.flow)).collect::<Vec<_>>()
        };
        prop_assert_eq!(decided(&exact), decided(&integer));
    }

    #[test]
    fn with_ratios_verdicts_differ_only_near_a_threshold(
        packets in packets(), at in 0.05f64..1.0, ratio in 0usize..RATIOS.len(),
        options in options(),
    ) {
        let threshold = at * [1_400.0, 500_000.0, 2_000_000.0, 1e12][ratio];
        let column = [RATIOS[ratio]];
        let [exact, integer] = both(model(&column, &[threshold], ""), options, &packets);
        let (error, of_squares) = errors(options);
        let read = model(&column, &[threshold], "");
        let values = values(ratio, of_squares, read.options(), &packets);
        prop_assert_eq!(values.len(), packets.len());
        for (at, (exact, integer)) in exact.iter().zip(&integer).enumerate() {
            prop_assert_eq!(exact.basis, integer.basis);
            let (value, off) = values[at];
            let is_near = (value - threshold).abs() <= off + error * threshold;
            prop_assert!(is_near || exact.class == integer.class, "{at}: {value} {threshold}");
        }
    }
}

#[test]
fn what_only_user_space_has_is_refused_by_name() {
    let refused = |model: &Model, options| {
        IntegerModel::new(model, options).map(|_| ()).unwrap_err().to_string()
    };
    let usual = IntegerOptions::SWITCH;
    let fine = model(&PLAIN, &[1.0; 5], "");
    let reuse = r#","verdict_reuse":{"flows":65536,"growth_percent":12}"#;
    assert!(refused(&model(&PLAIN, &[1.0; 5], reuse), usual).contains("--reuse-flows 0"));
    let options = IntegerOptions::Switch { product_error: 0.5, mantissa_bits: 10 };
    assert!(refused(&fine, options).contains("0.001 to 0.25"));
    let options = IntegerOptions::Switch { product_error: 0.01, mantissa_bits: 3 };
    assert!(refused(&fine, options).contains("4 to 12"));
    let of_a_switch = IntegerModel::new(&fine, usual).unwrap().for_kernel().unwrap_err();
    assert!(of_a_switch.to_string().contains("multiplies and divides"));
    let ships = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/packetlog/model.json");
    let ships = Model::parse(&std::fs::read(ships).unwrap()).unwrap();
    assert!(refused(&ships, usual).contains("`flow_handshake` is made of states"));
}

#[test]
fn tables_have_a_row_of_products_for_each_constant_of_a_ratio() {
    let sizes = |columns: &[&str]| {
        let model = model(columns, &[7.0; 5][..columns.len()], "");
        IntegerModel::new(&model, IntegerOptions::SWITCH).unwrap().sizes()
    };
    assert_eq!(sizes(&PLAIN).constants, 0);
    // Means are compared with 7, the variance of gaps with 7 in other units.
    assert_eq!(sizes(&RATIOS).constants, 2);
    assert!(sizes(&RATIOS).product_bytes < 16 << 10);
}
