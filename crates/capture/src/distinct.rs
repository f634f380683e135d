//! Packets that are seen twice, counted once.
//!
//! A SPAN port that mirrors several ports shows a packet once for each that it passes, perhaps
//! with another VLAN tag, other MAC addresses and, where it was routed in between, a hop less. So
//! packets are compared from their innermost network header on, without TTL or hop limit and
//! without IPv4's header checksum, by a keyed hash of 64 bits of all that was captured. IP and ARP
//! are compared; other frames are handed out as they are, as are frames without a stamp.
//!
//! What is remembered is bounded by [`PACKETS_MAX`], about 600 KiB, whatever the traffic: the
//! oldest makes room. A packet takes one look-up and at most one insertion. It is taken for
//! another one with a probability of about 2⁻⁵⁰.

use std::collections::VecDeque;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use packet::prehashed::PrehashedMap;
use packet::{Batch, Frame, HashSeed, Network, Record, Source, Span, Timestamp};

use crate::report::Progress;

/// Packets that are remembered: 5 ms of 3.2 million a second.
pub const PACKETS_MAX: usize = 1 << 14;

/// The window that is used where none is given: longer than copies of one packet lie apart, even
/// with a queue between the ports, and shorter than the time-out of any TCP.
pub const WINDOW_DEFAULT: Span = Span::from_ns(5_000_000);

/// A source without the copies of packets that came before.
pub struct Distinct<S> {
    source: S,
    seen: RecentPackets,
    seed: HashSeed,
    kept: Vec<Record>,
    duplicates: u64,
    progress: Arc<Progress>,
}

/// Packets of the last so many nanoseconds.
struct RecentPackets {
    window: Span,
    /// When each was seen first.
    times: PrehashedMap<u64, Timestamp>,
    /// In the order in which they were seen.
    order: VecDeque<(u64, Timestamp)>,
}

impl<S> Distinct<S> {
    /// `source` without packets that are like one of the `window` before them.
    pub fn new(source: S, window: Span, seed: HashSeed) -> Self {
        let times =
            PrehashedMap::with_capacity_and_hasher(PACKETS_MAX, BuildHasherDefault::default());
        let seen = RecentPackets { window, times, order: VecDeque::with_capacity(PACKETS_MAX) };
        let progress = Arc::default();
        Self { source, seen, seed, kept: Vec::new(), duplicates: 0, progress }
    }

    /// The same, and copies are counted where others see it while packets are read.
    #[must_use]
    pub fn counted_in(self, progress: Arc<Progress>) -> Self {
        Self { progress, ..self }
    }

    /// The source, while it is read.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The source, and how many frames were copies.
    pub fn into_inner(self) -> (S, u64) {
        (self.source, self.duplicates)
    }
}

impl<S: Source> Source for Distinct<S> {
    fn ends_by_itself(&self) -> bool {
        self.source.ends_by_itself()
    }

    fn next_batch(&mut self) -> Option<Batch<'_>> {
        let Self { source, seen, seed, kept, duplicates, progress } = self;
        let batch = source.next_batch()?;
        let is_copy = |frame: Frame<'_>| {
            let now = frame.record.timestamp;
            let key = if now == Timestamp::UNKNOWN { None } else { key(*seed, frame) };
            key.is_some_and(|key| seen.is_known(key, now))
        };
        // Most batches have none: their records stay where they are.
        let mut frames = batch.frames();
        let mut is_copy = is_copy;
        let Some(first) = frames.position(&mut is_copy) else { return Some(batch) };
        kept.clear();
        kept.extend_from_slice(batch.records.get(..first).unwrap_or_default());
        kept.extend(frames.filter(|frame| !is_copy(*frame)).map(|frame| *frame.record));
        let copies = batch.records.len().saturating_sub(kept.len()) as u64;
        *duplicates += copies;
        progress.add_duplicates(copies);
        Some(Batch { records: kept, ..batch })
    }
}

impl RecentPackets {
    /// Whether `key` was seen within the window; else it is from now on. The time of a packet's
    /// first copy counts, so that what is repeated for ever is seen once in each window.
    fn is_known(&mut self, key: u64, now: Timestamp) -> bool {
        let Self { window, times, order } = self;
        // A stamp may lie behind the one before it.
        let is_near = |then: Timestamp| now.since(then).max(then.since(now)) <= *window;
        if times.get(&key).is_some_and(|then| is_near(*then)) {
            return true;
        }
        while let Some(&(oldest, then)) = order.front()
            && (order.len() >= PACKETS_MAX || now.since(then) > *window)
        {
            order.pop_front();
            // It may have been seen again since.
            if times.get(&oldest) == Some(&then) {
                times.remove(&oldest);
            }
        }
        order.push_back((key, now));
        times.insert(key, now);
        false
    }
}

/// What packets are compared by; nothing of frames that are not compared.
fn key(seed: HashSeed, frame: Frame<'_>) -> Option<u64> {
    const TTL: usize = 8;
    const CHECKSUM: std::ops::Range<usize> = 10..12;
    const HOP_LIMIT: usize = 7;
    let layers = &frame.record.layers;
    let bytes = frame.from_offset(layers.network_offset);
    match layers.network {
        Network::None => None,
        Network::Arp => {
            let len = layers.transport_offset.saturating_sub(layers.network_offset);
            Some(hash(seed, 0, bytes.get(..usize::from(len)).unwrap_or(bytes)))
        }
        Network::Ipv4 => {
            let mut header: [u8; 20] = *bytes.first_chunk()?;
            let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
            header[TTL] = 0;
            header[CHECKSUM].fill(0);
            let rest = bytes.get(header.len()..len).or(bytes.get(header.len()..));
            Some(hash(seed, hash(seed, 0, &header), rest.unwrap_or_default()))
        }
        Network::Ipv6 => {
            let mut header: [u8; 40] = *bytes.first_chunk()?;
            let len = usize::from(u16::from_be_bytes([header[4], header[5]])) + header.len();
            header[HOP_LIMIT] = 0;
            let rest = bytes.get(header.len()..len).filter(|rest| !rest.is_empty());
            let rest = rest.or(bytes.get(header.len()..)).unwrap_or_default();
            Some(hash(seed, hash(seed, 0, &header), rest))
        }
    }
}

/// 16 bytes a turn; the length is in it, so that zeros at the end count.
fn hash(seed: HashSeed, start: u64, bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<16>();
    let turn = |state: u64, chunk: &[u8; 16]| {
        let word = u128::from_le_bytes(*chunk);
        #[allow(clippy::cast_possible_truncation)]
        let (low, high) = (word as u64, (word >> 64) as u64);
        seed.hash_words(state ^ low, high)
    };
    let state = chunks.iter().fold(start ^ bytes.len() as u64, turn);
    let mut last = [0; 16];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    turn(state, &last)
}

#[cfg(test)]
mod tests {
    use packet::LinkType;
    use packet::dissect::{DissectOptions, dissect};

    use super::*;

    const MS: i64 = 1_000_000;

    struct Frames(Vec<(i64, Vec<u8>)>, Vec<u8>, Vec<Record>);

    impl Source for Frames {
        fn next_batch(&mut self) -> Option<Batch<'_>> {
            (self.1, self.2) = (Vec::new(), Vec::new());
            for (ns, bytes) in self.0.drain(..) {
                let len = u32::try_from(bytes.len()).unwrap();
                let layers = dissect(LinkType::ETHERNET, &bytes, len, DissectOptions::default());
                self.2.push(Record {
                    timestamp: Timestamp::from_ns(ns),
                    offset: u32::try_from(self.1.len()).unwrap(),
                    captured_len: len,
                    wire_len: len,
                    link: LinkType::ETHERNET,
                    layers,
                    ..Record::default()
                });
                self.1.extend(bytes);
            }
            let has_some = !self.2.is_empty();
            has_some.then_some(Batch { bytes: &self.1, records: &self.2, tick: None })
        }
    }

    /// Stamps of the frames that are handed out.
    fn kept(frames: &[(i64, Vec<u8>)]) -> Vec<i64> {
        let source = Frames(frames.to_vec(), Vec::new(), Vec::new());
        let mut distinct = Distinct::new(source, WINDOW_DEFAULT, HashSeed::new(7));
        let mut kept = Vec::new();
        while let Some(batch) = distinct.next_batch() {
            kept.extend(batch.frames().map(|frame| frame.record.timestamp.as_ns()));
        }
        let (_, duplicates) = distinct.into_inner();
        assert_eq!(kept.len() as u64 + duplicates, frames.len() as u64);
        kept
    }

    fn ipv4(identification: u8, ttl: u8, last: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 29, 0, identification, 0, 0, ttl, 17, ttl, 9]);
        frame.extend([192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, 9, 0, 9, 0, 0, last]);
        frame
    }

    fn ipv6(hop_limit: u8, last: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 9, 17, hop_limit]);
        frame.extend([7; 32]);
        frame.extend([0, 9, 0, 9, 0, 9, 0, 0, last]);
        frame
    }

    /// With a tag, other addresses and padding.
    fn tagged(frame: &[u8]) -> Vec<u8> {
        [&[9; 12][..], &[0x81, 0, 0, 5], &frame[12..], &[0; 6]].concat()
    }

    #[test]
    fn what_passes_several_ports_is_handed_out_once() {
        for (first, hop) in [(ipv4(1, 64, 1), ipv4(1, 63, 1)), (ipv6(64, 1), ipv6(63, 1))] {
            let copies = [first.clone(), first.clone(), tagged(&first), hop.clone(), tagged(&hop)];
            let frames: Vec<_> = (0..).zip(copies).collect();
            assert_eq!(kept(&frames), [0]);
        }
    }

    #[test]
    fn another_packet_is_another() {
        let frames = [ipv4(1, 64, 1), ipv4(2, 64, 1), ipv4(1, 64, 2), ipv6(64, 1), ipv6(64, 2)];
        let frames: Vec<_> = (0..).zip(frames).collect();
        assert_eq!(kept(&frames), [0, 1, 2, 3, 4]);
        let mut other = ipv4(1, 64, 1);
        other[15] = 1;
        assert_eq!(kept(&[(0, ipv4(1, 64, 1)), (1, other)]), [0, 1], "another traffic class");
        let cut = ipv4(1, 64, 0)[..42].to_vec();
        assert_eq!(kept(&[(0, ipv4(1, 64, 0)), (1, cut)]), [0, 1], "zeros count");
    }

    #[test]
    fn the_window_begins_with_the_first_copy_and_looks_both_ways() {
        let packet = || ipv4(1, 64, 1);
        let at = |stamps: &[i64]| {
            let frames: Vec<_> = stamps.iter().map(|ms| (ms * MS, packet())).collect();
            kept(&frames).iter().map(|ns| ns / MS).collect::<Vec<_>>()
        };
        assert_eq!(at(&[0, 3, 5, 6, 7, 11, 12]), [0, 6, 12]);
        assert_eq!(at(&[10, 6, 4, 3]), [10, 4]);
    }

    #[test]
    fn frames_without_a_network_or_a_stamp_are_not_compared() {
        let lldp = [&[1; 12][..], &[0x88, 0xcc], &[0; 46]].concat();
        assert_eq!(kept(&[(0, lldp.clone()), (1, lldp)]), [0, 1]);
        let unknown = Timestamp::UNKNOWN.as_ns();
        assert_eq!(kept(&[(unknown, ipv4(1, 64, 1)), (unknown, ipv4(1, 64, 1))]).len(), 2);
        let arp = [&[1; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[3; 20]].concat();
        assert_eq!(kept(&[(0, arp.clone()), (1, tagged(&arp))]), [0]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut seen = Distinct::new((), Span::from_seconds(1), HashSeed::new(1)).seen;
        let now = Timestamp::from_ns(0);
        let count = PACKETS_MAX as u64;
        assert!((0..count + 1).all(|key| !seen.is_known(key, now)));
        assert_eq!((seen.order.len(), seen.times.len()), (PACKETS_MAX, PACKETS_MAX));
        assert!(seen.is_known(count, now) && !seen.is_known(0, now), "the oldest made room");
        assert!(!seen.is_known(7, Timestamp::from_ns(2_000_000_000)));
        assert_eq!((seen.order.len(), seen.times.len()), (1, 1), "a window later all are gone");
    }
}
