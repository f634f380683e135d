//! One frame as a ring describes it, and the record that is made of it.

use std::collections::BTreeMap;
use std::slice::IterMut;
use std::sync::{Arc, Mutex, PoisonError};

use packet::dissect::{DissectOptions, dissect_into};
use packet::{CutNote, Direction, LinkType, Record, Timestamp};

use super::link::link_type_of;
use super::segments::Segmentation;
use super::vlan::{TAG_LEN, Tag};
use crate::sys::packet_socket::VNET_HEADER_LEN;

/// What stands in front of a frame, the same in both rings but for its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingFrame {
    /// Start of the frame in its area.
    pub(crate) start: usize,
    pub(crate) captured_len: u32,
    pub(crate) wire_len: u32,
    pub(crate) seconds: u32,
    pub(crate) ns: u32,
    pub(crate) status: u32,
    pub(crate) vlan_control: u16,
    pub(crate) vlan_tpid: u16,
    pub(crate) interface_index: i32,
    pub(crate) hardware_type: u16,
    pub(crate) packet_type: u8,
}

/// Where frames come from, which their records name by number.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// One interface, whose frames begin with this.
    One(LinkType),
    /// All of them, numbered as they appear; the sockets of a group share the numbers.
    Any(Arc<Mutex<Numbers>>),
}

/// Numbers of interfaces by the kernel's index. A machine with containers makes interfaces all the
/// time: those beyond the last number share it, and take no memory.
pub(crate) type Numbers = BTreeMap<i32, u16>;

/// Makes records of frames, while there is room.
pub(crate) struct Taker<'a> {
    pub(crate) slots: IterMut<'a, Record>,
    pub(crate) snaplen: u32,
    pub(crate) dissect: DissectOptions,
    pub(crate) origin: &'a Origin,
    /// Of a program in the kernel that cuts frames.
    pub(crate) cut_secret: Option<u64>,
    pub(crate) captured_bytes: u64,
}

impl Taker<'_> {
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() > 0
    }

    /// What the program in the kernel left in front of a frame that it cut.
    #[inline]
    pub(super) fn note(&self, area: &[u8], frame: &RingFrame) -> Option<CutNote> {
        let secret = self.cut_secret?;
        let bytes = area.get(frame.start..)?.get(..frame.captured_len as usize)?;
        CutNote::read(bytes.first_chunk()?, secret)
    }

    /// Makes a record of `frame`, which lies in `area`; false where it does not.
    #[inline]
    pub(crate) fn take(&mut self, area: &mut [u8], frame: &RingFrame) -> bool {
        let Some((segmentation, bytes)) = parts(area, frame) else { return false };
        let mut segments = 1;
        if !segmentation.is_none() {
            segments = segmentation.count(bytes, frame.wire_len);
        }
        let (interface, link) = match self.origin {
            Origin::One(link) => (0, *link),
            Origin::Any(seen) => (
                number(seen, frame.interface_index),
                link_type_of(frame.hardware_type).unwrap_or_default(),
            ),
        };
        let RingFrame { mut start, mut captured_len, mut wire_len, .. } = *frame;
        let tag = Tag::new(frame.status, frame.vlan_control, frame.vlan_tpid);
        if let Some(note) = self.note(area, frame) {
            start += CutNote::LEN;
            captured_len -= CutNote::LEN as u32;
            wire_len = note.wire_len.max(captured_len);
        } else if self.cut_secret.is_some() {
            CutNote::clear_before(area, start);
        }
        if link == LinkType::ETHERNET
            && let Some(tag) = tag
            && tag.put_back(area, start, captured_len as usize)
        {
            start -= TAG_LEN;
            captured_len += TAG_LEN as u32;
            wire_len = wire_len.saturating_add(TAG_LEN as u32);
        }
        // The kernel cut before the tag was put back.
        let captured_len = captured_len.min(self.snaplen);
        let Some(bytes) = area.get(start..).and_then(|rest| rest.get(..captured_len as usize))
        else {
            return false;
        };
        let Some(record) = self.slots.next() else { return false };
        self.captured_bytes += u64::from(captured_len);
        record.timestamp = Timestamp::from_parts(i64::from(frame.seconds), i64::from(frame.ns));
        record.offset = u32::try_from(start).unwrap_or(u32::MAX);
        record.captured_len = captured_len;
        record.wire_len = wire_len;
        record.interface = interface;
        record.link = link;
        record.segments = segments;
        record.direction = match frame.packet_type {
            libc::PACKET_OUTGOING => Direction::Outbound,
            _ => Direction::Inbound,
        };
        dissect_into(link, bytes, wire_len, self.dissect, &mut record.layers);
        true
    }
}

/// What stands directly before the frame, and the frame.
#[inline]
fn parts<'a>(area: &'a [u8], frame: &RingFrame) -> Option<(Segmentation, &'a [u8])> {
    let (before, rest) = area.split_at_checked(frame.start)?;
    let header = before.last_chunk::<VNET_HEADER_LEN>()?;
    Some((Segmentation::new(header), rest.get(..frame.captured_len as usize)?))
}

/// The number of an interface among those that have been seen.
fn number(seen: &Mutex<Numbers>, interface_index: i32) -> u16 {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(number) = seen.get(&interface_index) {
        return *number;
    }
    let number = u16::try_from(seen.len()).unwrap_or(u16::MAX);
    if number < u16::MAX {
        seen.insert(interface_index, number);
    }
    number
}

/// Two bytes in the order of this host.
#[inline(always)]
pub(crate) fn u16_at<const LEN: usize>(header: &[u8; LEN], at: usize) -> u16 {
    u16::from_ne_bytes([header[at], header[at + 1]])
}

/// Four bytes in the order of this host.
#[inline(always)]
pub(crate) fn u32_at<const LEN: usize>(header: &[u8; LEN], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 32;
    const SECRET: u64 = 77;

    fn frame_of(bytes: &[u8]) -> (Vec<u8>, RingFrame) {
        let area = [&[0; ROOM], bytes].concat();
        let len = u32::try_from(bytes.len()).unwrap();
        let frame = RingFrame {
            start: ROOM,
            captured_len: len,
            wire_len: len,
            seconds: 7,
            ns: 9,
            status: libc::TP_STATUS_USER,
            vlan_control: 0,
            vlan_tpid: 0,
            interface_index: 3,
            hardware_type: libc::ARPHRD_ETHER,
            packet_type: 0,
        };
        (area, frame)
    }

    fn take(area: &mut [u8], frame: &RingFrame, snaplen: u32, origin: &Origin) -> Option<Record> {
        let mut slots = [Record::default()];
        let mut taker = Taker {
            slots: slots.iter_mut(),
            snaplen,
            dissect: DissectOptions::default(),
            origin,
            cut_secret: Some(SECRET),
            captured_bytes: 0,
        };
        taker.take(area, frame).then_some(slots[0])
    }

    const ETHERNET: Origin = Origin::One(LinkType::ETHERNET);

    #[test]
    fn a_tag_put_back_counts_in_both_lengths_and_is_seen_by_the_dissector() {
        let (mut area, mut frame) = frame_of(&[0; 60]);
        frame.status |= libc::TP_STATUS_VLAN_VALID;
        frame.vlan_control = 5;
        let record = take(&mut area, &frame, u32::MAX, &ETHERNET).unwrap();
        assert_eq!((record.captured_len, record.wire_len), (64, 64));
        assert_eq!(record.layers.vlan(), Some(5));
        assert_eq!(record.timestamp, Timestamp::from_parts(7, 9));
        let cut = take(&mut area, &frame, 60, &ETHERNET).unwrap();
        assert_eq!((cut.captured_len, cut.wire_len), (60, 64));
        frame.wire_len = u32::MAX;
        let longest = take(&mut area, &frame, u32::MAX, &ETHERNET).unwrap();
        assert_eq!(longest.wire_len, u32::MAX);
    }

    #[test]
    fn a_frame_that_does_not_lie_in_its_area_is_refused() {
        let (mut area, frame) = frame_of(&[0; 60]);
        let too_long = RingFrame { captured_len: 61, ..frame };
        let past_end = RingFrame { start: ROOM + 60 + 1, ..frame };
        let no_room_before = RingFrame { start: VNET_HEADER_LEN - 1, ..frame };
        for frame in [too_long, past_end, no_room_before] {
            assert_eq!(take(&mut area, &frame, u32::MAX, &ETHERNET), None);
        }
    }

    #[test]
    fn a_frame_that_was_cut_has_its_length_and_loses_its_note() {
        let mut note = [0; CutNote::LEN];
        note[16..24].copy_from_slice(&SECRET.to_ne_bytes());
        note[24..28].copy_from_slice(&1_514_u32.to_ne_bytes());
        let (mut area, mut frame) = frame_of(&[note.as_slice(), &[0; 54]].concat());
        let record = take(&mut area, &frame, u32::MAX, &ETHERNET).unwrap();
        assert_eq!((record.captured_len, record.wire_len), (54, 1_514));
        assert_eq!(record.offset as usize, ROOM + CutNote::LEN);
        // Another's note is a part of the frame.
        area[ROOM + 16] ^= 1;
        let other = take(&mut area, &frame, u32::MAX, &ETHERNET).unwrap();
        assert_eq!((other.captured_len, other.wire_len), (110, 110));
        area[ROOM + 16] ^= 1;
        // The card took out a tag, which is put back into the frame, not into what is before it.
        frame.status |= libc::TP_STATUS_VLAN_VALID;
        frame.vlan_control = 5;
        let tagged = take(&mut area, &frame, u32::MAX, &ETHERNET).unwrap();
        assert_eq!((tagged.captured_len, tagged.wire_len), (58, 1_518));
        assert_eq!(tagged.layers.vlan(), Some(5));
        let batch = packet::Batch { bytes: &area, records: &[], tick: None };
        assert_eq!(CutNote::before(&tagged, &batch, SECRET).unwrap().wire_len, 1_514);
    }

    #[test]
    fn what_this_host_sent_is_outbound() {
        let (mut area, frame) = frame_of(&[0; 60]);
        let mut direction = |packet_type| {
            let frame = RingFrame { packet_type, ..frame };
            take(&mut area, &frame, u32::MAX, &ETHERNET).unwrap().direction
        };
        assert_eq!(direction(libc::PACKET_OUTGOING), Direction::Outbound);
        assert_eq!(direction(libc::PACKET_OTHERHOST), Direction::Inbound);
    }

    #[test]
    fn interfaces_beyond_the_last_number_share_it_and_are_not_remembered() {
        let seen = Mutex::new(Numbers::default());
        let last = i32::from(u16::MAX);
        for index in (0..last + 100).chain(0..last) {
            assert_eq!(i32::from(number(&seen, index)), index.min(last));
        }
        assert_eq!(seen.lock().unwrap().len(), usize::from(u16::MAX));
    }

    #[test]
    fn any_numbers_interfaces_as_they_appear_and_tells_the_link_of_each() {
        let origin = Origin::Any(Arc::default());
        let (mut area, frame) = frame_of(&[0x45; 60]);
        let mut seen = |interface_index, hardware_type| {
            let frame = RingFrame { interface_index, hardware_type, ..frame };
            let record = take(&mut area, &frame, u32::MAX, &origin).unwrap();
            (record.interface, record.link)
        };
        assert_eq!(seen(9, libc::ARPHRD_ETHER), (0, LinkType::ETHERNET));
        assert_eq!(seen(2, libc::ARPHRD_NONE), (1, LinkType::RAW));
        assert_eq!(seen(9, libc::ARPHRD_ETHER), (0, LinkType::ETHERNET));
    }
}
