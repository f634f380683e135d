//! Real captures, repeated under other addresses and spread over the minute.
//!
//! Planned frames are all alike in their options and payloads; a parser that is
//! only shown them is flattered. Real packets are kept as they are but for their
//! addresses: each round but the first changes two bytes of every address, and
//! the checksums that cover them by the difference (RFC 1624).

use std::path::Path;

use capture::{ReadOptions, input, open};
use packet::dissect::DissectOptions;
use packet::{Frame, Layers, LinkType, Network, Protocol, Source};

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

/// Bytes that change with an address.
#[derive(Clone, Copy)]
struct Addresses {
    /// First byte of the source address; the destination follows.
    at: usize,
    /// Bytes of one address: 4 or 16.
    len: usize,
    /// Checksums that cover both, 0 where there is none.
    checksums_at: [usize; 2],
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

impl Addresses {
    fn of(frame: &Frame<'_>) -> Option<Self> {
        let layers = &frame.record.layers;
        let network = usize::from(layers.network_offset);
        let (at, len, own_checksum) = match layers.network {
            Network::Ipv4 => (network + 12, 4, network + 10),
            Network::Ipv6 => (network + 8, 16, 0),
            Network::None | Network::Arp => return None,
        };
        let in_header = match layers.protocol {
            Protocol::TCP => Some(16),
            Protocol::UDP => Some(6),
            Protocol::ICMPV6 => Some(2),
            _ => None,
        };
        let transport = usize::from(layers.transport_offset);
        let carries_transport = transport > 0 && !layers.has(Layers::LATER_FRAGMENT);
        let transport_checksum = in_header
            .filter(|_| carries_transport)
            .map(|offset| transport + offset)
            // A UDP checksum of 0 says that there is none.
            .filter(|&at| frame.bytes.get(at..at + 2).is_some_and(|sum| sum != [0, 0]));
        let is_whole = frame.bytes.len() >= at + 2 * len;
        let checksums_at = [own_checksum, transport_checksum.unwrap_or_default()];
        is_whole.then_some(Self { at, len, checksums_at })
    }

    /// Changes the second and third byte of the last-but-one word of each address.
    fn change(&self, frame: &mut [u8], round: u32) {
        let [_, high, low, _] = round.wrapping_mul(2_654_435_761).to_be_bytes();
        for address in 0..2 {
            // In an IPv6 address the third word: the site stays, the host becomes another.
            let word = self.at + address * self.len + if self.len == 16 { 8 } else { 0 };
            for (at, bits) in [(word, u16::from(high)), (word + 2, u16::from(low) << 8)] {
                let Some(old) = word_at(frame, at) else { continue };
                set_word(frame, at, old ^ bits);
                for checksum_at in self.checksums_at.into_iter().filter(|&at| at > 0) {
                    if let Some(sum) = word_at(frame, checksum_at) {
                        set_word(frame, checksum_at, adjusted(sum, old, old ^ bits));
                    }
                }
            }
        }
    }
}

fn word_at(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

fn set_word(frame: &mut [u8], at: usize, word: u16) {
    if let Some(target) = frame.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        *target = word.to_be_bytes();
    }
}

/// The checksum after one of the words it covers changed (RFC 1624 §3).
#[allow(clippy::cast_possible_truncation)]
const fn adjusted(sum: u16, old: u16, new: u16) -> u16 {
    let mut total = !sum as u32 + !old as u32 + new as u32;
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    !(total as u16)
}

#[cfg(test)]
mod tests {
    use packet::wire::checksum::checksum;

    use super::*;

    #[test]
    fn an_adjusted_checksum_is_right() {
        let mut bytes = [0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        let addresses = Addresses { at: 12, len: 4, checksums_at: [10, 0] };
        let before = bytes;
        for round in 1..1_000 {
            addresses.change(&mut bytes, round);
            assert_eq!(checksum(&bytes), 0);
        }
        assert_ne!(before, bytes);
        assert_eq!([bytes[12], bytes[15]], [10, 1]);
    }
}
