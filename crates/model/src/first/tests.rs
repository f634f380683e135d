use packet::dissect::{DissectOptions, dissect};
use packet::{FlowDirection, Frame, LinkType, Record, Timestamp};

use super::*;
use crate::schema::Headers;
use crate::subscription::{Subscription, SubscriptionRequest};
use crate::{FeatureSchema, Forest};

const INNERMOST: Headers = Headers::Innermost;

/// An Ethernet frame of TCP over IPv4, from the client or to it.
fn tcp(is_forward: bool, payload: &[u8]) -> Vec<u8> {
    let total_len = u16::try_from(40 + payload.len()).unwrap().to_be_bytes();
    let (mut source, mut destination) = ([192, 0, 2, 1, 0xc8, 0x01], [198, 51, 100, 2, 0x01, 0xbb]);
    if !is_forward {
        std::mem::swap(&mut source, &mut destination);
    }
    let mut frame = [[2; 12].as_slice(), &[8, 0, 0x45, 0], &total_len].concat();
    frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(&source[..4]);
    frame.extend(&destination[..4]);
    frame.extend(&source[4..]);
    frame.extend(&destination[4..]);
    frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 2, 0, 9, 9, 0, 0]);
    frame.extend(payload);
    frame
}

fn take(first: &mut FirstPackets, features: &FlowFeatures, bytes: &[u8], way: bool, time: i64) {
    let len = u32::try_from(bytes.len()).unwrap();
    let layers = dissect(LinkType::ETHERNET, bytes, len, DissectOptions::default());
    let record = Record { captured_len: len, wire_len: len, layers, ..Record::default() };
    let way = if way { FlowDirection::HighToLow } else { FlowDirection::LowToHigh };
    first.on_frame(features, &Frame::new(bytes, &record), way, Timestamp::from_ns(time));
}

fn features(payload_bytes: u16, packets: usize, numbers: &[&str]) -> FlowFeatures {
    made(payload_bytes, packets, numbers).unwrap()
}

fn made(
    payload_bytes: u16,
    packets: usize,
    numbers: &[&str],
) -> Result<FlowFeatures, FeaturesError> {
    let names: Vec<_> = numbers.iter().map(|&name| name.to_owned()).collect();
    FlowFeatures::new(INNERMOST, &[Block::Ipv4, Block::Tcp], payload_bytes, packets, &names)
}

fn numbers(first: &FirstPackets, features: &FlowFeatures) -> Vec<f64> {
    let mut numbers = Vec::new();
    first.numbers(features, &mut numbers);
    numbers
}

fn bits_of(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

const ALL: [&str; 14] = [
    "protocol",
    "server_port",
    "client_port",
    "pkt0_size_bytes",
    "pkt1_size_bytes",
    "pkt2_direction",
    "pkt1_gap_ns",
    "pkt2_gap_ns",
    "pkt0_payload_bytes",
    "pkt1_payload_bytes",
    "pkt1_byte_0",
    "pkt1_byte_3",
    "pkt2_byte_1",
    "pkt2_payload_bytes",
];

#[test]
fn numbers_are_as_they_are_named() {
    let features = features(4, 3, &ALL);
    let mut first = FirstPackets::default();
    assert_eq!(
        bits_of(&numbers(&first, &features)),
        bits_of(&[-1., -1., -1., 0., 0., 0., 0., 0., -1., -1., -1., -1., -1., -1.])
    );
    take(&mut first, &features, &tcp(true, b""), true, 1_000);
    take(&mut first, &features, &tcp(false, b"\0hi"), false, 1_000 + (1 << 24) + 1);
    let two = [6., 443., 51201., 40., 43., 0., 16_777_216., 0., 0., 3., 0., -1., -1., -1.];
    assert_eq!(bits_of(&numbers(&first, &features)), bits_of(&two));
    take(&mut first, &features, &tcp(false, b"world"), false, 5);
    let three = [6., 443., 51201., 40., 43., -1., 16_777_216., 0., 0., 3., 0., -1., 111., 5.];
    assert_eq!(bits_of(&numbers(&first, &features)), bits_of(&three));
    // No more is read than was asked for.
    let kept = first.clone();
    take(&mut first, &features, &tcp(true, b"more"), true, 9_000);
    assert_eq!((&first, first.packet_count()), (&kept, 3));
}

#[test]
fn the_numbers_of_a_row_are_made_again_of_its_records_and_the_others() {
    let three = features(4, 3, &ALL);
    // What is kept of a flow may be more than a model reads.
    let all = FlowFeatures::of_all([&features(4, 5, &["pkt4_byte_3"]), &three]).unwrap();
    let mut first = FirstPackets::default();
    for time in 0..6 {
        let (mut unrecorded, mut again) = (Vec::new(), Vec::new());
        first.unrecorded_numbers(&three, &mut unrecorded);
        assert_eq!(unrecorded.len(), ALL.len() - 3);
        let records = first.records(&three);
        assert!(three.row_numbers(records, &unrecorded, &mut again));
        assert_eq!(bits_of(&again), bits_of(&numbers(&first, &three)));
        for other in [&unrecorded[1..], &[unrecorded.as_slice(), &[0.0]].concat()] {
            assert!(!three.row_numbers(records, other, &mut Vec::new()));
        }
        take(&mut first, &all, &tcp(time % 2 == 0, b"byte"), time % 2 == 0, time << 40);
    }
}

#[test]
fn a_row_of_fewer_packets_is_the_beginning_of_one_of_more() {
    let one = features(4, 1, &["server_port", "pkt0_size_bytes"]);
    let three = features(4, 3, &["pkt2_payload_bytes", "server_port"]);
    let all = FlowFeatures::of_all([&one, &three]).unwrap();
    assert_eq!(all.names(), ["server_port", "pkt0_size_bytes", "pkt2_payload_bytes"]);
    assert_eq!((all.packets(), all.layout()), (3, one.layout()));
    let (mut whole, mut short) = (FirstPackets::default(), FirstPackets::default());
    for (place, payload) in [&b""[..], b"hello", b"you"].into_iter().enumerate() {
        let frame = tcp(place != 1, payload);
        take(&mut whole, &all, &frame, place != 1, 7 * place as i64);
        take(&mut short, &one, &frame, place != 1, 7 * place as i64);
        assert_eq!(whole.records(&one), short.records(&one));
        assert_eq!(bits_of(&numbers(&whole, &one)), bits_of(&numbers(&short, &one)));
    }
    assert_eq!(whole.records(&one).len(), one.layout().record_len());
    assert_eq!(whole.records(&three).len(), three.records_len());
    assert_eq!(bits_of(&numbers(&whole, &three)), bits_of(&[3., 443.]));
    // The record is what the layout makes of the frame.
    let mut record = vec![0; all.layout().record_len()];
    let frame = tcp(true, b"you");
    let layers = dissect(LinkType::ETHERNET, &frame, 57, DissectOptions::default());
    let known = Record { captured_len: 57, layers, ..Record::default() };
    assert!(all.layout().fill(&Frame::new(&frame, &known), &mut record));
    assert!(whole.records(&three).ends_with(&record));
}

#[test]
fn a_flow_of_one_packet_takes_the_room_of_one() {
    let features = features(0, 20, &["pkt19_gap_ns"]);
    let mut first = FirstPackets::default();
    take(&mut first, &features, &tcp(true, b""), true, 0);
    assert_eq!(first.records.capacity(), features.layout().record_len());
    assert_eq!((first.steps.steps().len(), size_of::<Step>()), (1, 24));
}

#[test]
fn what_cannot_be_is_named() {
    let many: Vec<_> = (0..5_000).map(|index| format!("pkt0_byte_{index}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for (payload_bytes, packets, numbers, wanted) in [
        (0, 0, &[][..], "packets: 0; wanted: a number from 1 to 255"),
        (0, 256, &[], "packets: 256; wanted"),
        (9_001, 1, &[], "payload_bytes: 9001; wanted: 9000 at most"),
        (9_000, 9, &[], "records of 92340 bytes a flow; wanted: 65536 at most; ask for fewer"),
        (9_000, 1, &many, "numbers: 5000 of them; wanted: 4096 at most"),
        (0, 1, &["size_0"], "numbers: \"size_0\" is none; wanted: protocol, server_port"),
        (0, 1, &["protocol", "protocol"], "numbers: protocol is there twice; wanted: each once"),
        (
            0,
            2,
            &["pkt2_gap_ns"],
            "numbers: pkt2_gap_ns is of a packet that is not read; wanted: be",
        ),
        (
            3,
            1,
            &["pkt0_byte_3"],
            "numbers: pkt0_byte_3 is of a byte that is not read; wanted: below",
        ),
    ] {
        let refusal = made(payload_bytes, packets, numbers).unwrap_err().to_string();
        assert!(refusal.starts_with(wanted), "{refusal}\n{wanted}");
    }
    let none = FlowFeatures::new(INNERMOST, &[], 0, 1, &[]).unwrap_err();
    assert_eq!(none.to_string(), "blocks: none, and no payload; wanted: one at least");
    let (four, five) = (features(4, 1, &[]), features(5, 1, &[]));
    assert_eq!(FlowFeatures::of_all([&four, &five]), Err(FeaturesError::Unlike));
    assert_eq!(FlowFeatures::of_all([]), Err(FeaturesError::Packets(0)));
}

/// As `sha256sum` has it of the text. A change of it changes what models with
/// numbers were trained on.
#[test]
fn hashes_are_the_same_for_ever() {
    let bits = features(2, 3, &[]);
    let wanted =
        SubscriptionRequest { layout: bits.layout(), depth: 3, ..SubscriptionRequest::default() };
    let subscription = Subscription::new(&wanted).unwrap();
    assert_eq!(bits.schema(), FeatureSchema::of_flows(&subscription, INNERMOST));
    let names = ["protocol", "pkt1_gap_ns", "pkt0_byte_0"].map(str::to_owned);
    let some = FlowFeatures::new(Headers::Outermost, &[Block::Udp], 1, 2, &names).unwrap();
    let text = some.schema().text();
    assert!(text.starts_with(
        "wirelens features 1\nlayout row\ndtype f64\nmissing -1\nheaders outermost\n\
         columns 147\npkt0_udp_sport_0\n"
    ));
    assert!(text.contains("\npkt0_payload_bit_7\npkt1_udp_sport_0\n"));
    assert!(text.ends_with("\npkt1_payload_bit_7\nprotocol\npkt1_gap_ns\npkt0_byte_0\n"));
    assert_eq!(some.hash().get(..16), Some(HASH));
}

const HASH: &str = "688de470df64f4b6";

#[test]
fn a_forests_features_are_those_that_it_names() {
    let head =
        r#"{"format":"wirelens trees","version":1,"kind":"mean","classes":["a","b"],"schema":""#;
    let features = features(2, 2, &["pkt1_byte_1", "protocol"]);
    let hash = features.hash();
    let rest = r#"","headers":"innermost","blocks":["ipv4","tcp"],"payload_bytes":2,"packets":2,"#;
    let numbers = r#""numbers":["pkt1_byte_1","protocol"],"trees":1}"#;
    let content = format!(
        "{head}{hash}{rest}{numbers}\n{}\n{}\n",
        r#"{"tests":["protocol >= 17"]}"#, r#"{"nodes":[0,-1,-1],"leaves":[[1,0],[0,1]]}"#
    );
    let digest = <sha2::Sha256 as sha2::Digest>::digest(&content);
    let seal: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let forest = Forest::parse(format!("{content}{{\"sha256\":\"{seal}\"}}\n").as_bytes()).unwrap();
    assert_eq!(FlowFeatures::of_forest(&forest).as_ref(), Ok(&features));
    assert_eq!(forest.schema_hash(), features.hash());
}
