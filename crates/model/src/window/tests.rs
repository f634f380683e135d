use packet::dissect::{DissectOptions, dissect};
use packet::{LinkType, Record, Span};

use super::*;
use crate::block::Block;
use crate::schema::Headers;

const SECOND: i64 = 1_000_000_000;

/// An Ethernet frame of UDP over IPv4 with this payload, from the caller or to it.
fn udp(is_from_caller: bool, payload: &[u8]) -> Vec<u8> {
    let len = |more: usize| u16::try_from(more + payload.len()).unwrap().to_be_bytes();
    let (mut source, mut destination) = ([10, 1, 0, 2, 0xc8, 0x01], [10, 2, 0, 2, 0x01, 0xbb]);
    if !is_from_caller {
        std::mem::swap(&mut source, &mut destination);
    }
    let mut frame = [[2; 12].as_slice(), &[8, 0, 0x45, 0], &len(28)].concat();
    frame.extend([0, 7, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([&source[..4], &destination[..4], &source[4..], &destination[4..]].concat());
    frame.extend([len(8), [0, 0]].concat());
    frame.extend(payload);
    frame
}

/// A packet of RTP of so many bytes.
fn rtp(source: u8, timestamp: u8, is_marked: bool, len: usize) -> Vec<u8> {
    let second = if is_marked { 0x80 | 96 } else { 96 };
    let mut payload = vec![0x80, second, 0, 1, 0, 0, 0, timestamp, 0, 0, 0, source];
    payload.resize(len, 7);
    payload
}

fn features(packets: usize, names: &[&str]) -> WindowFeatures {
    made(SECOND, packets, names).unwrap()
}

fn made(every: i64, packets: usize, names: &[&str]) -> Result<WindowFeatures, WindowError> {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let every = Span::from_ns(every);
    WindowFeatures::new(every, Headers::Innermost, &[Block::Udp], 4, packets, &names)
}

struct Flow(WindowPackets, WindowFeatures, Timestamp);

fn flow(features: WindowFeatures) -> Flow {
    Flow(WindowPackets::default(), features, Timestamp::MIN)
}

impl Flow {
    /// `time_ms` counts from second 100.
    fn take(&mut self, is_from_caller: bool, payload: &[u8], time_ms: i64) {
        let bytes = udp(is_from_caller, payload);
        let len = u32::try_from(bytes.len()).unwrap();
        let layers = dissect(LinkType::ETHERNET, &bytes, len, DissectOptions::default());
        let record = Record { captured_len: len, wire_len: len, layers, ..Record::default() };
        let way = if is_from_caller { FlowDirection::LowToHigh } else { FlowDirection::HighToLow };
        let time = Timestamp::from_ns(100 * SECOND + time_ms * 1_000_000);
        self.2 = self.2.max(time);
        self.0.on_frame(&self.1, &Frame::new(&bytes, &record), way, time, self.2);
    }

    fn numbers(&self) -> Vec<f64> {
        let mut numbers = Vec::new();
        self.0.numbers(&self.1, &mut numbers);
        numbers
    }
}

#[test]
fn a_worked_example() {
    let names = [
        "main_packets",
        "main_bytes",
        "main_payload_bytes",
        "main_size_min_bytes",
        "main_size_max_bytes",
        "main_size_mean_bytes",
        "main_size_variance",
        "main_sizes_distinct",
        "main_gap_min_ns",
        "main_gap_max_ns",
        "main_gap_mean_ns",
        "main_gap_variance",
        "main_gaps_above_5ms",
        "main_gaps_above_15ms",
        "main_gaps_above_30ms",
        "main_frames_by_size",
        "back_packets",
        "back_gap_max_ns",
        "previous_main_packets",
        "previous_back_packets",
    ];
    let mut flow = flow(features(2, &names));
    assert_eq!(flow.numbers(), vec![-1.0; names.len()]);
    // The callee sends first, little; in its first window its way is the main one.
    flow.take(false, &[0; 72], 100);
    // Two frames, of three parts and of two.
    for (len, time_ms) in [(972, 110), (972, 112), (971, 114), (572, 140), (572, 141)] {
        flow.take(true, &vec![1; len], time_ms);
    }
    assert_eq!(flow.0.main(), Some(FlowDirection::HighToLow));
    let main = [1., 100., 72., 100., 100., 100., 0., 1., -1., -1., -1., -1., 0., 0., 0., 0.];
    assert_eq!(flow.numbers()[..16], main);
    assert_eq!(flow.numbers()[16..], [5., 26_000_000., 0., 0.]);
    // In the next one it is the caller's. Its sizes are 1000, 999, 600, 600.
    assert!(!flow.0.ends_before(&flow.1, Timestamp::from_ns(101 * SECOND - 1)));
    assert!(flow.0.ends_before(&flow.1, Timestamp::from_ns(101 * SECOND)));
    for (len, time_ms) in [(972, 1_001), (971, 1_021), (572, 1_041), (572, 1_042)] {
        flow.take(true, &vec![1; len], time_ms);
    }
    assert_eq!(flow.0.window(), Some(Timestamp::from_ns(101 * SECOND)));
    let main = [
        4.,
        3199.,
        3087.,
        600.,
        1000.,
        799.75,
        39_900.187_5,
        3.,
        1e6,
        860e6,
        225_250_000.,
        // Squares of 634.75, 205.25, 205.25 and 224.25 ms, over 4.
        134_362_687_500_000_000.,
        3.,
        3.,
        1.,
        2.,
    ];
    let seen = flow.numbers();
    for (seen, wanted) in seen.iter().zip(main.iter().chain(&[0., -1., 5., 1.])) {
        assert_eq!(*seen, f64::from(*wanted as f32), "{seen}");
    }
    // A window without packets lies between: it is the one before.
    flow.take(true, &[1; 972], 3_000);
    assert_eq!(flow.numbers()[18..], [0., 0.]);
    // Late, and counted where the flow is.
    flow.take(true, &[1; 972], 2_999);
    assert_eq!(flow.numbers()[0], 2.0);
}

#[test]
fn first_packets_are_those_of_the_window() {
    let names = [
        "protocol",
        "server_port",
        "pkt0_direction",
        "pkt1_direction",
        "pkt2_direction",
        "pkt0_gap_ns",
        "pkt1_gap_ns",
        "pkt0_offset_ns",
        "pkt1_offset_ns",
        "pkt2_offset_ns",
        "pkt0_size_bytes",
        "pkt1_byte_0",
    ];
    let mut flow = flow(features(3, &names));
    flow.take(false, &[9; 30], 0);
    assert_eq!(flow.numbers(), [17., 51201., 1., 0., 0., 0., 0., 0., -1., -1., 58., -1.]);
    flow.take(true, &[8; 500], 990);
    flow.take(false, &[9; 30], 1_010);
    let one = flow.0.records(&flow.1).to_vec();
    assert_eq!(one.len(), flow.1.first().layout().record_len());
    assert_eq!(flow.numbers(), [17., 51201., -1., 0., 0., 20e6, 0., 10e6, -1., -1., 58., -1.]);
    flow.take(true, &[8; 500], 1_015);
    flow.take(true, &[8; 500], 1_012);
    assert_eq!(flow.0.records(&flow.1)[..one.len()], one);
    assert_eq!(flow.numbers(), [17., 51201., -1., 1., 1., 20e6, 5e6, 10e6, 15e6, 15e6, 58., 8.]);
    assert!(!flow.1.needs_whole_window());
}

#[test]
fn rtp_of_the_heaviest_stream() {
    let names = ["rtp_packets", "rtp_timestamps", "rtp_markers", "rtp_streams"];
    let names = names.map(|name| format!("main_{name}"));
    let names = names.each_ref().map(String::as_str);
    let mut flow = flow(features(1, &names));
    for (frame, time_ms) in (0..3).zip((0..).step_by(33)) {
        flow.take(true, &rtp(1, frame, false, 900), time_ms);
        flow.take(true, &rtp(1, frame, true, 900), time_ms + 1);
        for place in 0..5 {
            flow.take(true, &rtp(2, 100 + 5 * frame + place, false, 80), time_ms + 2);
        }
    }
    // A frame comes again; RTCP and STUN are none.
    flow.take(true, &rtp(1, 1, false, 900), 200);
    flow.take(true, &[0x81, 201, 0, 7, 0, 0, 0, 1, 0, 0, 0, 9], 201);
    flow.take(true, &[0; 20], 202);
    flow.take(true, &[0x80; 11], 203);
    assert_eq!(flow.numbers(), [7., 3., 3., 2.]);
    // Nothing of a frame that began before; the stream that weighs most is silent then.
    flow.take(true, &rtp(1, 2, false, 900), 1_000);
    assert_eq!(flow.numbers(), [1., 0., 0., 1.]);
    // More streams than are kept: the lightest gives way, the heaviest stays.
    for source in 3..40 {
        flow.take(true, &rtp(source, 0, true, 20), 1_001);
    }
    // Itself, and two of the places that lighter ones share; the fourth is silent.
    assert_eq!(flow.numbers(), [1., 0., 0., 3.]);
    let kept = flow.0.size_bytes();
    assert!(kept < 2_500, "{kept}");
}

#[test]
fn parts_are_part_of_all() {
    let one = features(1, &["pkt0_gap_ns", "previous_main_bytes"]);
    let two = features(5, &["main_bytes", "pkt4_offset_ns", "previous_main_bytes"]);
    let all = WindowFeatures::of_all([&one, &two]).unwrap();
    let names = ["pkt0_gap_ns", "previous_main_bytes", "main_bytes", "pkt4_offset_ns"];
    assert_eq!((all.names(), all.first().packets()), (&names.map(str::to_owned)[..], 5));
    let mut flow = flow(all);
    flow.take(true, &[1; 700], 0);
    flow.take(true, &[1; 700], 1_500);
    let mut numbers = Vec::new();
    flow.0.numbers(&one, &mut numbers);
    assert_eq!(numbers, [1.5e9, 728.]);
    assert_eq!(flow.0.records(&one).len(), one.first().layout().record_len());
}

#[test]
fn what_cannot_be_is_named() {
    for (every, packets, names, wanted) in [
        (0, 1, &[][..], "windows of 0 ns; wanted: longer than 0"),
        (1, 0, &[], "packets: 0; wanted: a number from 1"),
        (1, 1, &["main_size"], "numbers: \"main_size\" is none; wanted: of a window such as"),
        (1, 1, &["back_bytes", "back_bytes"], "numbers: back_bytes is there twice"),
        (1, 1, &["pkt1_offset_ns"], "numbers: pkt1_gap_ns is of a packet that is not read"),
    ] {
        let refusal = made(every, packets, names).unwrap_err().to_string();
        assert!(refusal.starts_with(wanted), "{refusal}\n{wanted}");
    }
    let (one, other) = (features(1, &[]), made(2 * SECOND, 1, &[]).unwrap());
    assert_eq!(WindowFeatures::of_all([&one, &other]), Err(WindowError::Unlike));
    assert!(WindowFeatures::of_all([]).is_err());
}

/// As `sha256sum` has it of the text. A change of it changes what models of windows
/// were trained on.
#[test]
fn hashes_are_the_same_for_ever() {
    let features = features(1, &["main_packets", "pkt0_offset_ns"]);
    let text = features.schema().text();
    assert!(text.starts_with(
        "wirelens features 1\nlayout window ns=1000000000\ndtype f64\nmissing -1\n\
         headers innermost\ncolumns 98\npkt0_udp_sport_0\n"
    ));
    assert!(text.ends_with("\npkt0_payload_bit_31\nmain_packets\npkt0_offset_ns\n"));
    assert_eq!(features.hash().get(..16), Some("1db80ff7fe12509b"));
}
