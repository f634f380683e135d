//! VLAN tags that the kernel took out of a frame, put back.
//!
//! Network cards, and the kernel where they do not, take the outermost tag out of a frame
//! and keep it in the metadata. A capture needs the frame as it was.

/// Bytes of a tag: its EtherType and its control information.
pub(crate) const TAG_LEN: usize = 4;

/// The tag stands behind both link addresses.
const TAG_OFFSET: usize = 12;

/// EtherType of a tag where the kernel does not tell it (IEEE 802.1Q).
const TPID_DEFAULT: u16 = 0x8100;

/// A tag in the metadata of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) tpid: u16,
    pub(crate) control: u16,
}

impl Tag {
    /// As a slot of a ring gives it, by the status of the slot.
    #[inline]
    pub(crate) fn new(status: u32, control: u16, tpid: u16) -> Option<Self> {
        let has = |flag| status & flag != 0;
        has(libc::TP_STATUS_VLAN_VALID).then(|| Self {
            tpid: if has(libc::TP_STATUS_VLAN_TPID_VALID) { tpid } else { TPID_DEFAULT },
            control,
        })
    }

    /// Puts the tag into the Ethernet frame at `start`, whose addresses move [`TAG_LEN`]
    /// bytes to the left. Whether it was done: not for lack of room there, and not in a
    /// frame that was cut before the place of the tag.
    pub(crate) fn put_back(self, area: &mut [u8], start: usize, captured_len: usize) -> bool {
        let Some(moved) = start.checked_sub(TAG_LEN) else { return false };
        if captured_len < TAG_OFFSET {
            return false;
        }
        let Some(head) = area.get_mut(moved..start + TAG_OFFSET) else { return false };
        head.copy_within(TAG_LEN.., 0);
        let [t, p] = self.tpid.to_be_bytes();
        let [c, i] = self.control.to_be_bytes();
        let Some(place) = head.last_chunk_mut() else { return false };
        *place = [t, p, c, i];
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 6;

    /// A ring area with `ROOM` bytes before a frame that counts its bytes.
    fn area(frame_len: u8) -> Vec<u8> {
        [0xee; ROOM].into_iter().chain(0..frame_len).collect()
    }

    #[test]
    fn a_tag_stands_behind_the_addresses_again() {
        let mut area = area(20);
        let tag = Tag { tpid: 0x88a8, control: 0x2005 };
        assert!(tag.put_back(&mut area, ROOM, 20));
        assert_eq!(area[ROOM - TAG_LEN..][..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(area[ROOM - TAG_LEN..][12..16], [0x88, 0xa8, 0x20, 0x05]);
        assert_eq!(area[ROOM - TAG_LEN..][16..], [12, 13, 14, 15, 16, 17, 18, 19]);
        assert_eq!(area[..ROOM - TAG_LEN], [0xee, 0xee]);
    }

    #[test]
    fn a_frame_cut_inside_its_addresses_is_left_alone() {
        let mut cut = area(11);
        assert!(!Tag { tpid: 0x8100, control: 5 }.put_back(&mut cut, ROOM, 11));
        assert_eq!(cut, area(11));
        let mut exact = area(12);
        assert!(Tag { tpid: 0x8100, control: 5 }.put_back(&mut exact, ROOM, 12));
        assert_eq!(exact.last_chunk(), Some(&[0x81, 0x00, 0x00, 0x05]));
    }

    #[test]
    fn a_frame_without_room_before_it_is_left_alone() {
        let mut area = area(20);
        let before = area.clone();
        assert!(!Tag { tpid: 0x8100, control: 5 }.put_back(&mut area, 3, 20));
        assert!(!Tag { tpid: 0x8100, control: 5 }.put_back(&mut area, 20, 20));
        assert_eq!(area, before);
    }

    #[test]
    fn the_status_tells_whether_there_is_a_tag_and_of_which_kind() {
        let valid = libc::TP_STATUS_VLAN_VALID;
        assert_eq!(Tag::new(libc::TP_STATUS_USER, 5, 0x88a8), None);
        assert_eq!(Tag::new(valid, 5, 0), Some(Tag { tpid: 0x8100, control: 5 }));
        let both = valid | libc::TP_STATUS_VLAN_TPID_VALID;
        assert_eq!(Tag::new(both, 0, 0x88a8), Some(Tag { tpid: 0x88a8, control: 0 }));
    }
}
