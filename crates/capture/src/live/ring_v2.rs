//! `TPACKET_V2`: a ring of slots, each for one frame.
//!
//! A batch is every slot that is ready from the next one on, up to 256 and to the end of the
//! ring, so that its bytes lie in one piece. They go back when the next batch is asked for.

use super::frame::{RingFrame, Taker, u16_at, u32_at};
use crate::sys::packet_ring::PacketRing;

/// `tpacket2_hdr`.
const STATUS: usize = 0;
const WIRE_LEN: usize = 4;
const CAPTURED_LEN: usize = 8;
const FRAME_OFFSET: usize = 12;
const SECONDS: usize = 16;
const NANOSECONDS: usize = 20;
const VLAN_CONTROL: usize = 24;
const VLAN_TPID: usize = 26;
/// `sockaddr_ll`, behind it.
const INTERFACE_INDEX: usize = 32 + 4;
const HARDWARE_TYPE: usize = 32 + 8;
const PACKET_TYPE: usize = 32 + 10;
const FRAME_HEADER_LEN: usize = 32 + 11;

/// Place of a reader in the ring.
#[derive(Debug)]
pub(crate) struct SlotReader {
    /// Bytes from slot to slot.
    slot_len: usize,
    /// The first slot that is lent, or waited for.
    first: usize,
    /// Slots that are lent.
    lent_count: usize,
}

impl SlotReader {
    pub(crate) fn new(slot_len: usize) -> Self {
        Self { slot_len, first: 0, lent_count: 0 }
    }

    /// Whether frames can be had without waiting.
    #[inline]
    pub(crate) fn is_ready(&self, ring: &PacketRing) -> bool {
        ring.is_ours(self.first)
    }

    /// Gives back what was lent.
    #[inline]
    pub(crate) fn give_back(&mut self, ring: &mut PacketRing) {
        ring.give_back(self.first, self.lent_count);
        self.first = (self.first + self.lent_count) % ring.area_count();
        self.lent_count = 0;
    }

    /// Takes frames while there is room; they lie in the areas that [`SlotReader::lent`] returns.
    pub(crate) fn fill(&mut self, ring: &mut PacketRing, taker: &mut Taker<'_>) {
        let room = taker.slots.len().min(ring.area_count() - self.first);
        let ready = (self.first..self.first + room).take_while(|slot| ring.is_ours(*slot)).count();
        self.lent_count = ready;
        let Some(slots) = ring.lent_mut(self.first, ready) else { return };
        for index in 0..ready {
            if let Some(frame) = frame_at(slots, index * self.slot_len) {
                taker.take(slots, &frame);
            }
        }
    }

    /// First area of what was taken, and their number.
    #[inline]
    pub(crate) fn lent(&self) -> (usize, usize) {
        (self.first, self.lent_count)
    }
}

/// The frame in the slot that begins at `at`.
#[inline]
fn frame_at(slots: &[u8], at: usize) -> Option<RingFrame> {
    let header: &[u8; FRAME_HEADER_LEN] = slots.get(at..)?.first_chunk()?;
    Some(RingFrame {
        start: at + usize::from(u16_at(header, FRAME_OFFSET)),
        captured_len: u32_at(header, CAPTURED_LEN),
        wire_len: u32_at(header, WIRE_LEN),
        seconds: u32_at(header, SECONDS),
        ns: u32_at(header, NANOSECONDS),
        status: u32_at(header, STATUS),
        vlan_control: u16_at(header, VLAN_CONTROL),
        vlan_tpid: u16_at(header, VLAN_TPID),
        interface_index: u32_at(header, INTERFACE_INDEX).cast_signed(),
        hardware_type: u16_at(header, HARDWARE_TYPE),
        packet_type: header[PACKET_TYPE],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_of_the_kernel_headers() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_status), STATUS);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_len), WIRE_LEN);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_snaplen), CAPTURED_LEN);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_mac), FRAME_OFFSET);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_sec), SECONDS);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_nsec), NANOSECONDS);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_vlan_tci), VLAN_CONTROL);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_vlan_tpid), VLAN_TPID);
        let address = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
        let index = offset_of!(libc::sockaddr_ll, sll_ifindex);
        let hardware = offset_of!(libc::sockaddr_ll, sll_hatype);
        let kind = offset_of!(libc::sockaddr_ll, sll_pkttype);
        assert_eq!(address + index, INTERFACE_INDEX);
        assert_eq!(address + hardware, HARDWARE_TYPE);
        assert_eq!(address + kind, PACKET_TYPE);
    }

    #[test]
    fn a_slot_that_ends_early_holds_no_frame() {
        assert_eq!(frame_at(&[0; FRAME_HEADER_LEN - 1], 0), None);
        assert_eq!(frame_at(&[0; 64], 64), None);
        assert!(frame_at(&[0; 64], 16).is_some());
    }
}
