//! What comes out does not depend on the number of threads.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use engine::exchange::exchange;
use engine::group::{GroupStage, Grouping, Outcome};
use engine::grouping::{ByFlow, ByPair, ByPort, ByProtocol, BySource};
use engine::run::{Control, run};
use engine::window::{WindowExtract, WindowOwner, fold_windows};
use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, HashSeed, LinkType, Record, Source, Span, Timestamp};
use proptest::prelude::*;

/// Frames in memory, handed out in batches of a given length.
#[derive(Clone)]
struct Frames {
    bytes: Vec<u8>,
    records: Vec<Record>,
    batch_len: usize,
    next: usize,
}

impl Source for Frames {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        let end = (self.next + self.batch_len).min(self.records.len());
        let records = self.records.get(self.next..end).filter(|records| !records.is_empty())?;
        self.next = end;
        Some(Batch { bytes: &self.bytes, records, tick: None })
    }
}

impl Frames {
    /// UDP over IPv4 between few hosts: `(source, destination, port, payload length,
    /// milliseconds)`.
    fn of(packets: &[(u8, u8, u16, u8, i64)], batch_len: usize) -> Self {
        let mut frames = Self { bytes: Vec::new(), records: Vec::new(), batch_len, next: 0 };
        for &(source, destination, port, payload_len, milliseconds) in packets {
            let offset = u32::try_from(frames.bytes.len()).unwrap();
            let udp_len = 8 + u16::from(payload_len);
            let total_len = (20 + udp_len).to_be_bytes();
            let mut frame = vec![0; 12];
            frame.extend([8, 0, 0x45, 0, total_len[0], total_len[1], 0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend([10, 0, 0, source, 10, 0, 1, destination]);
            frame.extend(port.to_be_bytes());
            frame.extend([0, 53]);
            frame.extend(udp_len.to_be_bytes());
            frame.extend([0, 0]);
            frame.resize(frame.len() + usize::from(payload_len), 0);
            let len = u32::try_from(frame.len()).unwrap();
            let options = DissectOptions::default();
            frames.records.push(Record {
                timestamp: Timestamp::from_ns(milliseconds * 1_000_000),
                offset,
                captured_len: len,
                wire_len: len,
                link: LinkType::ETHERNET,
                segments: 1,
                layers: dissect(LinkType::ETHERNET, &frame, len, options),
                ..Record::default()
            });
            frames.bytes.extend(frame);
        }
        frames
    }

    /// Cut into sources that together are the same frames.
    fn split(&self, part_len: usize) -> Vec<Self> {
        let parts = self.records.chunks(part_len.max(1));
        parts.map(|records| Self { records: records.to_vec(), ..self.clone() }).collect()
    }
}

type Row = (String, u64, u64);

fn rows<G: Grouping>(groups: &engine::group::Groups<G>) -> Vec<Row>
where
    G::Narrow: std::fmt::Debug,
    G::Value: std::fmt::Debug,
{
    let mut rows: Vec<Row> =
        groups.narrow.iter().map(|(key, value)| (format!("{key:?} {value:?}"), 0, 0)).collect();
    rows.sort();
    rows
}

fn grouped<G: Grouping>(grouping: G, frames: &Frames, threads: usize) -> (Vec<Row>, Outcome)
where
    G::Narrow: std::fmt::Debug,
    G::Value: std::fmt::Debug,
{
    let make = || GroupStage::new(grouping, HashSeed::new(7), 1 << 16);
    let finished = run(frames.split(37), threads, make, &Control::default());
    let (groups, outcome) = finished.stage.finish();
    (rows(&groups), outcome)
}

fn windowed(frames: &Frames, threads: usize) -> (BTreeMap<i64, Vec<Row>>, u64) {
    let mut source = frames.clone();
    let seed = HashSeed::new(7);
    let mut extract = WindowExtract::new(BySource, seed, Span::from_seconds(1));
    let mut windows = BTreeMap::new();
    exchange(
        &mut source,
        &mut extract,
        || WindowOwner::<BySource>::new(seed, 1 << 16),
        threads,
        &Control::default(),
        |parts| {
            for (start, groups) in fold_windows(parts) {
                let before = windows.insert(start.as_ns(), rows(&groups));
                assert_eq!(before, None, "a window is closed once");
            }
        },
    );
    (windows, extract.finish().1)
}

/// Packets of each window, in the order in which windows are closed; late packets, and epochs.
fn closed(frames: &Frames, window: Span, threads: usize) -> (Vec<(i64, u64)>, u64, u64) {
    let mut source = frames.clone();
    let seed = HashSeed::new(7);
    let mut extract = WindowExtract::new(BySource, seed, window);
    let mut windows = Vec::new();
    exchange(
        &mut source,
        &mut extract,
        || WindowOwner::<BySource>::new(seed, 1 << 16),
        threads,
        &Control::default(),
        |parts| {
            for (start, groups) in fold_windows(parts) {
                let packets = groups.narrow.iter().map(|(_, tally)| tally.packets).sum();
                windows.push((start.as_ns(), packets));
            }
        },
    );
    let epochs = extract.epochs();
    (windows, extract.finish().1, epochs)
}

/// Stamps as a hostile capture has them.
fn any_stamps() -> impl Strategy<Value = Vec<i64>> {
    const DAY: i64 = 86_400_000_000_000;
    let stamp = prop_oneof![
        4 => 0..1_000_000_000_i64,
        2 => (0..5_i64).prop_map(|days| days * DAY),
        2 => prop::sample::select(vec![i64::MIN, i64::MIN + 1, 0, i64::MAX - 1, i64::MAX]),
        1 => any::<i64>(),
    ];
    proptest::collection::vec(stamp, 1..300)
}

fn any_packets() -> impl Strategy<Value = Vec<(u8, u8, u16, u8, i64)>> {
    // Stamps run forward with jumps back of up to three seconds, past the allowance.
    let packet = (0u8..40, 0u8..5, 1000u16..1010, any::<u8>(), -3_000i64..200);
    proptest::collection::vec(packet, 1..600).prop_map(|mut packets| {
        let mut now = 10_000;
        for packet in &mut packets {
            now += packet.4.max(0);
            packet.4 = if packet.4 < -2_900 { now + packet.4 } else { now };
        }
        packets
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn groups_are_the_same_on_any_number_of_threads(packets in any_packets()) {
        let frames = Frames::of(&packets, 64);
        for threads in [2, 3, 8] {
            prop_assert_eq!(grouped(BySource, &frames, threads), grouped(BySource, &frames, 1));
            prop_assert_eq!(grouped(ByFlow, &frames, threads), grouped(ByFlow, &frames, 1));
        }
        let total: u64 = packets.len() as u64;
        prop_assert_eq!(grouped(ByPair, &frames, 2).1.keyed, total);
        prop_assert_eq!(grouped(ByPort, &frames, 2).1.keyed, total);
        prop_assert_eq!(grouped(ByProtocol, &frames, 2).0.len(), 1);
    }

    #[test]
    fn windows_and_lateness_do_not_depend_on_threads_or_batches(packets in any_packets()) {
        let expected = windowed(&Frames::of(&packets, 256), 1);
        for (threads, batch_len) in [(1, 1), (2, 256), (3, 7), (5, 64)] {
            prop_assert_eq!(windowed(&Frames::of(&packets, batch_len), threads), expected.clone());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn windows_hold_every_packet_once_whatever_stamps_say(
        stamps in any_stamps(),
        window_ns in prop::sample::select(vec![1, 1_000, 1_000_000_000, i64::MAX]),
    ) {
        let packets: Vec<_> = stamps.iter().map(|_| (1, 1, 1, 0, 0)).collect();
        let mut frames = Frames::of(&packets, 64);
        for (record, stamp) in frames.records.iter_mut().zip(&stamps) {
            record.timestamp = Timestamp::from_ns(*stamp);
        }
        let window = Span::from_ns(window_ns);
        let (windows, late, epochs) = closed(&frames, window, 1);
        // No window without a packet, so no more of them than packets.
        prop_assert!(windows.iter().all(|(_, packets)| *packets > 0));
        let held: u64 = windows.iter().map(|(_, packets)| packets).sum();
        prop_assert_eq!(held, stamps.len() as u64);
        prop_assert!(epochs <= 16);
        prop_assert!(epochs + late < stamps.len() as u64);
        prop_assert_eq!(closed(&frames, window, 3), (windows, late, epochs));
    }
}

#[test]
fn late_packets_count_in_the_oldest_open_window() {
    // The third packet closes what ends a second before it; the fourth belongs there.
    let packets =
        [(1, 1, 1, 0, 10_000), (1, 1, 1, 0, 10_900), (1, 1, 1, 0, 12_500), (2, 1, 1, 0, 10_100)];
    let (windows, late) = windowed(&Frames::of(&packets, 256), 1);
    assert_eq!(late, 1);
    let starts: Vec<_> =
        windows.iter().map(|(start, rows)| (start / 1_000_000_000, rows.len())).collect();
    assert_eq!(starts, [(10, 1), (11, 1), (12, 1)]);
}

#[test]
fn a_stop_ends_a_run_after_the_batch_in_hand() {
    let packets: Vec<_> = (0..100).map(|i| (i as u8, 1, 1, 0, i)).collect();
    let control = Control::default();
    control.stop();
    let make = || GroupStage::new(BySource, HashSeed::new(1), 64);
    let finished = run(vec![Frames::of(&packets, 10)], 1, make, &control);
    assert_eq!(finished.stage.finish().1.keyed, 0);
}
