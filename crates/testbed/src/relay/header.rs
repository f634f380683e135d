//! The ECN field of an IP packet: the one thing that a router changes here.

use dualq::Ecn;

const V4_CHECKSUM: usize = 10;
const V4_HEADER_LEN: usize = 20;

/// The ECN field; Not-ECT for what is no IP packet, which no router could mark.
#[inline]
pub(super) fn ecn(packet: &[u8]) -> Ecn {
    match *packet {
        [first, second, ..] if first >> 4 == 4 => Ecn::from_bits(second),
        // The traffic class lies across two bytes (RFC 8200, section 3).
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(second >> 4),
        _ => Ecn::NotEct,
    }
}

/// Writes the ECN field, and mends the checksum of an IPv4 header by the difference (RFC 1624):
/// one that was wrong before stays as wrong, as behind a router.
pub(super) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    let Some(([first, second], _)) = packet.split_first_chunk_mut() else { return };
    let old = u16::from_be_bytes([*first, *second]);
    match *first >> 4 {
        4 => *second = *second & !0b11 | ecn.bits(),
        6 => *second = *second & !0b11_0000 | ecn.bits() << 4,
        _ => return,
    }
    let new = u16::from_be_bytes([*first, *second]);
    if *first >> 4 == 4 && packet.len() >= V4_HEADER_LEN {
        mend_checksum(packet, old, new);
    }
}

fn mend_checksum(packet: &mut [u8], old: u16, new: u16) {
    let Some(checksum) = packet.get_mut(V4_CHECKSUM..).and_then(<[u8]>::first_chunk_mut) else {
        return;
    };
    let sum = u32::from(!u16::from_be_bytes(*checksum)) + u32::from(!old) + u32::from(new);
    let once = (sum & 0xffff) + (sum >> 16);
    let folded = ((once & 0xffff) + (once >> 16)) as u16;
    *checksum = (!folded).to_be_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The checksum of a header whose own field counts as nothing (RFC 1071).
    fn checksum(header: &[u8]) -> u16 {
        let words = header.as_chunks::<2>().0.iter().enumerate();
        let mut sum: u32 = words
            .filter(|(at, _)| *at != V4_CHECKSUM / 2)
            .map(|(_, word)| u32::from(u16::from_be_bytes(*word)))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn a_checksum_stays_right(mut header: [u8; 20], bits in 0_u8..4) {
            header[0] = 0x45;
            // A header of nothing but zeros has two checksums; there is none such.
            let sum = checksum(&header);
            header[V4_CHECKSUM..V4_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
            let before = header;
            set_ecn(&mut header, Ecn::from_bits(bits));
            prop_assert_eq!(ecn(&header).bits(), bits);
            prop_assert_eq!(&header[10..12], &checksum(&header).to_be_bytes()[..]);
            prop_assert_eq!((before[1] & !3, &before[12..]), (header[1] & !3, &header[12..]));
        }

        #[test]
        fn of_ipv6_nothing_but_the_field_changes(mut header: [u8; 40], bits in 0_u8..4) {
            header[0] = header[0] & 0x0f | 0x60;
            let before = header;
            set_ecn(&mut header, Ecn::from_bits(bits));
            prop_assert_eq!(ecn(&header).bits(), bits);
            header[1] = before[1];
            prop_assert_eq!(before, header);
        }
    }

    #[test]
    fn what_is_no_packet_is_left_alone() {
        for bytes in [&[][..], &[0x45], &[0x45, 0, 1], &[0x15, 3, 9, 9]] {
            let mut copy = bytes.to_vec();
            set_ecn(&mut copy, Ecn::Ce);
            assert!(copy.len() == bytes.len() && (bytes.len() == 3 || copy == bytes));
        }
        assert_eq!(ecn(&[0x15, 3]), Ecn::NotEct);
    }
}
