//! Real captures, repeated under other addresses and spread over the minute.
//!
//! Planned frames are all alike in their options and payloads; a parser that is
//! only shown them is flattered. Real packets are kept as they are but for their
//! addresses, which each round but the first changes ([`Addresses`]).

use std::path::Path;

use capture::{ReadOptions, input, open};
use packet::dissect::DissectOptions;
use packet::{Frame, LinkType, Source};

use super::addresses::Addresses;
use super::plan::{DURATION_NS, Event, Origin};
use super::random::Random;
use crate::Failure;

/// Longest and shortest frames that are taken: what an Ethernet carries.
const FRAME_LENS: std::ops::RangeInclusive<u32> = 14..=1_514;

/// A capture that lasts longer is compressed to this.
const SPAN_NS_MAX: u64 = 10_000_000_000;

/// One real packet.
struct Packet {
    /// From the first packet of its capture, compressed.
    offset_ns: u64,
    start: usize,
    len: usize,
    wire_len: u32,
    /// Where the addresses lie, if it has some.
    addresses: Option<Addresses>,
}

/// Real packets, and how many of them are wanted.
#[derive(Default)]
pub(super) struct Captures {
    packets: Vec<Packet>,
    /// Where each capture begins and ends among the packets.
    ranges: Vec<std::ops::Range<usize>>,
    bytes: Vec<u8>,
    wanted: u64,
}

impl Captures {
    /// Reads every Ethernet capture of a folder.
    pub(super) fn read(folder: &Path, wanted: u64) -> Result<Self, Failure> {
        let found = input::resolve(&[folder.to_owned()]).map_err(|error| error.to_string())?;
        let mut captures = Self { wanted, ..Self::default() };
        let dissect = DissectOptions { decapsulate: false, transport: true };
        for input in found.inputs {
            // Damaged headers lie in such folders on purpose; what opens is taken.
            let Ok(mut source) = open(&input, &ReadOptions { dissect, ..ReadOptions::default() })
            else {
                continue;
            };
            let start = captures.packets.len();
            while let Some(batch) = source.next_batch() {
                batch.frames().for_each(|frame| captures.add(&frame));
            }
            captures.close(start);
        }
        if captures.packets.is_empty() {
            return Err(format!("{}: no Ethernet frame in its captures", folder.display()));
        }
        Ok(captures)
    }

    fn add(&mut self, frame: &Frame<'_>) {
        let record = frame.record;
        let is_fit = record.link == LinkType::ETHERNET
            && FRAME_LENS.contains(&record.captured_len)
            && record.wire_len <= 1_600;
        if is_fit {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(frame.bytes);
            self.packets.push(Packet {
                offset_ns: u64::try_from(record.timestamp.as_ns()).unwrap_or_default(),
                start,
                len: frame.bytes.len(),
                wire_len: record.wire_len.max(record.captured_len),
                addresses: Addresses::of(frame),
            });
        }
    }

    /// Counts the times of the packets from `start` on from the earliest of them.
    fn close(&mut self, start: usize) {
        let Some(packets) = self.packets.get_mut(start..).filter(|packets| !packets.is_empty())
        else {
            return;
        };
        let times = || packets.iter().map(|packet| packet.offset_ns);
        let first = times().min().unwrap_or_default();
        let span = times().max().unwrap_or_default() - first;
        for packet in &mut *packets {
            packet.offset_ns -= first;
            if span > SPAN_NS_MAX {
                let scaled = u128::from(packet.offset_ns) * u128::from(SPAN_NS_MAX);
                packet.offset_ns = u64::try_from(scaled / u128::from(span)).unwrap_or_default();
            }
        }
        self.ranges.push(start..self.packets.len());
    }

    /// As many events as were wanted, capture by capture, round by round.
    pub(super) fn events(&self, random: &mut Random) -> Vec<Event> {
        let mut events = Vec::new();
        for round in 0.. {
            for range in &self.ranges {
                if events.len() as u64 >= self.wanted {
                    return events;
                }
                let packets = self.packets.get(range.clone()).unwrap_or_default();
                let span = packets.iter().map(|packet| packet.offset_ns).max().unwrap_or_default();
                let start = random.below(DURATION_NS - span);
                events.extend(range.clone().zip(packets).map(|(index, packet)| Event {
                    time_ns: start + packet.offset_ns,
                    origin: Origin::Capture(u32::try_from(index).unwrap_or(u32::MAX)),
                    round,
                    len: 0,
                    is_reverse: false,
                }));
            }
            if self.ranges.is_empty() {
                break;
            }
        }
        events
    }

    /// Appends the packet of this index as it is in this round; its length on the wire.
    pub(super) fn copy(&self, index: u32, round: u32, out: &mut Vec<u8>) -> u32 {
        let Some(packet) = self.packets.get(index as usize) else { return 0 };
        let start = out.len();
        let bytes = self.bytes.get(packet.start..packet.start + packet.len);
        out.extend_from_slice(bytes.unwrap_or_default());
        if let (Some(addresses), Some(frame), 1..) = (packet.addresses, out.get_mut(start..), round)
        {
            addresses.change(frame, round);
        }
        packet.wire_len
    }
}
