//! How many packets a frame stands for that was segmented later, or put together before.
//!
//! With offloads the kernel handles many TCP segments, or UDP datagrams of one flow, as one
//! frame with one header. It gives the size of the segments in front of the frame.

use crate::sys::packet_socket::VNET_HEADER_LEN;

/// The frame's checksum was left to the card: the header says where it is computed from.
const NEEDS_CHECKSUM: u8 = 1;
/// Congestion was marked; combined with the kind.
const GSO_ECN: u8 = 0x80;
const GSO_TCP_V4: u8 = 1;
const GSO_UDP_FRAGMENTS: u8 = 3;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP: u8 = 5;

const UDP_HEADER_LEN: usize = 8;
const TCP_HEADER_LEN_MIN: usize = 20;
/// Where a TCP header gives its length, in words of four bytes.
const TCP_DATA_OFFSET: usize = 12;

/// What the kernel reports of a frame's segmentation: `struct virtio_net_hdr`, host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segmentation {
    flags: u8,
    kind: u8,
    /// Payload bytes in each packet but the last.
    size: u16,
    /// Where the innermost transport header begins, given [`NEEDS_CHECKSUM`].
    checksum_start: u16,
}

impl Segmentation {
    #[inline]
    pub(crate) fn new(header: &[u8; VNET_HEADER_LEN]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        Self { flags: header[0], kind: header[1], size: word(4), checksum_start: word(6) }
    }

    /// Whether the frame is one packet, as almost all are.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.kind == 0 || self.size == 0
    }

    /// Packets that `frame` stands for, which was `wire_len` bytes long before it was cut.
    ///
    /// Exact where the kernel reports where the transport header is, which it does for
    /// everything that it segments itself, and where that header was captured. Else the
    /// smallest headers are assumed, and the result may be one too high.
    #[cold]
    pub(crate) fn count(self, frame: &[u8], wire_len: u32) -> u16 {
        if self.is_none() {
            return 1;
        }
        let tells_start = self.flags & NEEDS_CHECKSUM != 0;
        let start = if tells_start { usize::from(self.checksum_start) } else { 0 };
        let header_len = match self.kind & !GSO_ECN {
            GSO_TCP_V4 | GSO_TCP_V6 => {
                let told = frame.get(start + TCP_DATA_OFFSET).filter(|_| tells_start);
                told.map_or(TCP_HEADER_LEN_MIN, |byte| usize::from(byte >> 4) * 4)
            }
            GSO_UDP => UDP_HEADER_LEN,
            // Fragments of one datagram carry its header as payload.
            GSO_UDP_FRAGMENTS => 0,
            _ => return 1,
        };
        let payload_len = (wire_len as usize).saturating_sub(start + header_len);
        let count = payload_len.div_ceil(usize::from(self.size)).max(1);
        u16::try_from(count).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSPORT: u16 = 34;

    fn told(kind: u8, size: u16) -> Segmentation {
        let [s0, s1] = size.to_ne_bytes();
        let [t0, t1] = TRANSPORT.to_ne_bytes();
        Segmentation::new(&[NEEDS_CHECKSUM, kind, 0, 0, s0, s1, t0, t1, 16, 0])
    }

    /// Headers of Ethernet, IPv4 and TCP with 12 bytes of options.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 66];
        frame[46] = 8 << 4;
        frame
    }

    #[test]
    fn payload_is_divided_by_the_size_of_the_parts_and_rounded_up() {
        let count = |payload: u32| told(GSO_TCP_V4, 1448).count(&frame(), 66 + payload);
        assert_eq!([count(1448), count(1449), count(2896), count(2897)], [1, 2, 2, 3]);
        assert_eq!(count(65_160), 45);
        assert_eq!(told(GSO_TCP_V6 | GSO_ECN, 1448).count(&frame(), 66 + 2896), 2);
    }

    #[test]
    fn datagrams_have_a_header_of_eight_bytes() {
        let count = |payload: u32| told(GSO_UDP, 1200).count(&[], 34 + 8 + payload);
        assert_eq!([count(1200), count(2400), count(2401)], [1, 2, 3]);
    }

    #[test]
    fn a_frame_of_its_own_is_one_packet() {
        assert!(Segmentation::default().is_none());
        assert_eq!(told(0, 1448).count(&frame(), 60_000), 1);
        assert_eq!(told(GSO_TCP_V4, 0).count(&frame(), 60_000), 1);
        assert_eq!(told(GSO_TCP_V4, 1448).count(&frame(), 10), 1);
        assert_eq!(told(9, 1448).count(&frame(), 60_000), 1);
    }

    #[test]
    fn a_header_that_was_cut_off_is_taken_for_the_smallest() {
        assert_eq!(told(GSO_TCP_V4, 1448).count(&frame()[..40], 54 + 2896), 2);
    }
}
