//! `TPACKET_V3`: a ring of blocks, each a chain of frames.
//!
//! A block is lent as long as records of it are handed out, at most 256 at a time, and goes
//! back to the kernel when a batch is asked for after its last.

use super::frame::{RingFrame, Taker, u16_at, u32_at};
use crate::sys::packet_ring::PacketRing;
use crate::sys::prefetch::prefetch;

/// `tpacket_block_desc`: how many frames there are, and where the first begins.
const FRAME_COUNT: usize = 12;
const FIRST_FRAME: usize = 16;
const BLOCK_HEADER_LEN: usize = 20;

/// `tpacket3_hdr`.
const NEXT_FRAME: usize = 0;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 8;
const CAPTURED_LEN: usize = 12;
const WIRE_LEN: usize = 16;
const STATUS: usize = 20;
const FRAME_OFFSET: usize = 24;
const VLAN_CONTROL: usize = 32;
const VLAN_TPID: usize = 36;
/// `sockaddr_ll`, behind it.
const INTERFACE_INDEX: usize = 48 + 4;
const HARDWARE_TYPE: usize = 48 + 8;
const PACKET_TYPE: usize = 48 + 10;
const FRAME_HEADER_LEN: usize = 48 + 11;

/// Place of a reader in the ring.
#[derive(Debug, Default)]
pub(crate) struct BlockReader {
    /// The block that is read, or waited for.
    block: usize,
    /// Whether it was begun.
    is_begun: bool,
    /// Frames of it that are left.
    frames_left: u32,
    /// Where the next of them begins.
    at: usize,
}

impl BlockReader {
    /// Whether frames can be had without waiting.
    #[inline]
    pub(crate) fn is_ready(&self, ring: &PacketRing) -> bool {
        self.is_begun || ring.is_ours(self.block)
    }

    /// Whether the kernel has put nothing into the block that is waited for.
    pub(crate) fn is_quiet(&self, ring: &PacketRing) -> bool {
        !self.is_ready(ring) && ring.peek(self.block, FRAME_COUNT) == 0
    }

    /// Gives the block back if it has been read to its end.
    #[inline]
    pub(crate) fn give_back(&mut self, ring: &mut PacketRing) {
        if self.is_begun && self.frames_left == 0 {
            ring.give_back(self.block, 1);
            self.block = (self.block + 1) % ring.area_count();
            self.is_begun = false;
        }
    }

    /// Takes frames while there is room; they lie in the area that [`BlockReader::lent`] returns.
    pub(crate) fn fill(&mut self, ring: &mut PacketRing, taker: &mut Taker<'_>) {
        let Some(block) = ring.lent_mut(self.block, 1) else { return };
        self.walk(block, taker);
    }

    /// First area of what was taken, and their number.
    #[inline]
    pub(crate) fn lent(&self) -> (usize, usize) {
        (self.block, 1)
    }

    pub(super) fn walk(&mut self, block: &mut [u8], taker: &mut Taker<'_>) {
        if !self.is_begun {
            self.is_begun = true;
            let header = block.first_chunk::<BLOCK_HEADER_LEN>();
            self.frames_left = header.map_or(0, |header| u32_at(header, FRAME_COUNT));
            self.at = header.map_or(0, |header| u32_at(header, FIRST_FRAME) as usize);
        }
        while self.frames_left > 0 && taker.has_room() {
            let taken = frame_at(block, self.at)
                .filter(|(frame, _)| taker.take(block, frame))
                .map(|(_, next)| next);
            // A chain that leads out of its block cannot be followed; what was left of it
            // shows as unread.
            let Some(next) = taken else {
                self.frames_left = 0;
                return;
            };
            prefetch(block, next + next - self.at);
            self.at = next;
            self.frames_left -= 1;
        }
    }
}

/// The frame whose header is at `at`, and where the next header is.
#[inline]
fn frame_at(block: &[u8], at: usize) -> Option<(RingFrame, usize)> {
    let header: &[u8; FRAME_HEADER_LEN] = block.get(at..)?.first_chunk()?;
    let frame = RingFrame {
        start: at + usize::from(u16_at(header, FRAME_OFFSET)),
        captured_len: u32_at(header, CAPTURED_LEN),
        wire_len: u32_at(header, WIRE_LEN),
        seconds: u32_at(header, SECONDS),
        ns: u32_at(header, NANOSECONDS),
        status: u32_at(header, STATUS),
        // The upper half is not used.
        vlan_control: u32_at(header, VLAN_CONTROL) as u16,
        vlan_tpid: u16_at(header, VLAN_TPID),
        interface_index: u32_at(header, INTERFACE_INDEX).cast_signed(),
        hardware_type: u16_at(header, HARDWARE_TYPE),
        packet_type: header[PACKET_TYPE],
    };
    Some((frame, at + u32_at(header, NEXT_FRAME) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::frame::Origin;
    use packet::dissect::DissectOptions;
    use packet::{LinkType, Record};

    #[test]
    fn offsets_are_those_of_the_kernel_headers() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(libc::tpacket3_hdr, tp_next_offset), NEXT_FRAME);
        assert_eq!(offset_of!(libc::tpacket3_hdr, tp_sec), SECONDS);
        assert_eq!(offset_of!(libc::tpacket3_hdr, tp_nsec), NANOSECONDS);
        assert_eq!(offset_of!(libc::tpacket3_hdr, tp_snaplen), CAPTURED_LEN);
        assert_eq!(offset_of!(libc::tpacket3_hdr, tp_len), WIRE_LEN);
        assert_eq!(offset_of!(libc::tpacket3_hdr, tp_status), STATUS);
        assert_eq!(offset_of!(libc::tpacket3_hdr, tp_mac), FRAME_OFFSET);
        let variant = offset_of!(libc::tpacket3_hdr, hv1);
        let control = offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tci);
        let tpid = offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tpid);
        assert_eq!((variant + control, variant + tpid), (VLAN_CONTROL, VLAN_TPID));
        let address = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
        let index = offset_of!(libc::sockaddr_ll, sll_ifindex);
        let hardware = offset_of!(libc::sockaddr_ll, sll_hatype);
        let kind = offset_of!(libc::sockaddr_ll, sll_pkttype);
        assert_eq!(address + index, INTERFACE_INDEX);
        assert_eq!(address + hardware, HARDWARE_TYPE);
        assert_eq!(address + kind, PACKET_TYPE);
        let head = offset_of!(libc::tpacket_block_desc, hdr);
        let count = offset_of!(libc::tpacket_hdr_v1, num_pkts);
        let first = offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);
        assert_eq!((head + count, head + first), (FRAME_COUNT, FIRST_FRAME));
    }

    const HEADER_LEN: usize = 96;

    /// A block of frames of the given lengths, each of bytes that tell its number.
    fn block(lens: &[u32]) -> Vec<u8> {
        let mut block = vec![0; 48];
        let count = u32::try_from(lens.len()).unwrap();
        block[FRAME_COUNT..][..4].copy_from_slice(&count.to_ne_bytes());
        block[FIRST_FRAME..][..4].copy_from_slice(&48_u32.to_ne_bytes());
        for (index, len) in lens.iter().enumerate() {
            let padded = (HEADER_LEN + *len as usize).next_multiple_of(8);
            let mut frame = vec![u8::try_from(index % 256).unwrap(); padded];
            frame[..HEADER_LEN].fill(0);
            let mut put = |at: usize, value: u32| {
                frame[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            };
            put(NEXT_FRAME, u32::try_from(padded).unwrap());
            put(CAPTURED_LEN, *len);
            put(WIRE_LEN, *len + 1);
            put(SECONDS, u32::try_from(index).unwrap());
            frame[FRAME_OFFSET..][..2].copy_from_slice(&96_u16.to_ne_bytes());
            block.extend(frame);
        }
        block
    }

    /// Lengths, stamps and first bytes of what is read in batches of `room`.
    fn read(block: &mut [u8], room: usize) -> Vec<(u32, i64, u8)> {
        let mut reader = BlockReader::default();
        let mut seen = Vec::new();
        loop {
            let mut slots = vec![Record::default(); room];
            let mut taker = Taker {
                slots: slots.iter_mut(),
                snaplen: u32::MAX,
                dissect: DissectOptions::default(),
                origin: &Origin::One(LinkType::ETHERNET),
                cut_secret: None,
                captured_bytes: 0,
            };
            reader.walk(block, &mut taker);
            let taken = room - taker.slots.len();
            seen.extend(slots[..taken].iter().map(|record| {
                assert_eq!(record.wire_len, record.captured_len + 1);
                let seconds = record.timestamp.as_ns() / 1_000_000_000;
                (record.captured_len, seconds, block[record.offset as usize])
            }));
            if reader.frames_left == 0 {
                return seen;
            }
        }
    }

    #[test]
    fn every_frame_of_a_block_is_read_once_in_batches_of_any_size() {
        let lens: Vec<u32> = (0..600).map(|index| 14 + index % 97).collect();
        let wanted: Vec<_> = lens
            .iter()
            .zip(0_i64..)
            .map(|(len, index)| (*len, index, u8::try_from(index % 256).unwrap()))
            .collect();
        for room in [1, 7, 256, 600] {
            assert_eq!(read(&mut block(&lens), room), wanted, "{room} a batch");
        }
    }

    #[test]
    fn a_chain_that_leads_out_of_its_block_ends_there() {
        let mut bytes = block(&[60, 60, 60]);
        let second = 48 + 160;
        bytes[second..][..4].copy_from_slice(&1_000_000_u32.to_ne_bytes());
        assert_eq!(read(&mut bytes, 256).len(), 2);
        bytes[second + CAPTURED_LEN..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(read(&mut bytes, 256).len(), 1);
        assert_eq!(read(&mut block(&[60])[..10], 256).len(), 0);
    }

    #[test]
    fn an_empty_block_has_no_frames() {
        assert_eq!(read(&mut block(&[]), 256), []);
    }
}
