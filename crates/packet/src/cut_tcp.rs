//! What is left of a TCP header in which the capture ends.
//!
//! Flags and data offset are in its first 14 bytes, its options behind the twentieth: a capture of
//! the first 64 bytes of each frame cuts nearly all headers, and still has what opens and closes
//! connections.

use crate::batch::Frame;
use crate::layers::{Layers, Network, Protocol};

mod field {
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
}

/// The fields of a header that was captured in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutTcp {
    /// The low byte of the flags.
    pub flags: u8,
    /// Bytes of payload, captured or not.
    pub payload_len: u32,
}

impl CutTcp {
    /// Of a frame whose TCP header the capture cuts behind its flags; `None` for every other.
    #[must_use]
    pub fn of(frame: &Frame<'_>) -> Option<Self> {
        let layers = &frame.record.layers;
        let header_len = match layers.network {
            Network::Ipv4 => 20,
            Network::Ipv6 => 40,
            Network::None | Network::Arp => return None,
        };
        let known = layers.flags & (Layers::TRANSPORT | Layers::CUT | Layers::LATER_FRAGMENT);
        let is_cut = layers.protocol == Protocol::TCP
            && known == Layers::CUT
            && layers.transport_offset >= layers.network_offset.saturating_add(header_len);
        if !is_cut {
            return None;
        }
        let bytes = frame.from_offset(layers.transport_offset);
        let header_len = u32::from(bytes.get(field::DATA_OFFSET)? >> 4) * 4;
        let flags = *bytes.get(field::FLAGS)?;
        // What is no header is none of the packet's either: a first fragment may end in it.
        let payload_len = layers.payload_len.checked_sub(header_len)?;
        (header_len >= 20).then_some(Self { flags, payload_len })
    }
}

#[cfg(test)]
mod tests {
    use super::CutTcp;
    use crate::dissect::{DissectOptions, dissect};
    use crate::{Frame, LinkType, Record};

    /// A SYN with 20 bytes of options, and 3 bytes of data that it carries.
    fn syn() -> Vec<u8> {
        let ip = [0x45, 0, 0, 63, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let tcp = [0, 7, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0xa0, 2, 0, 9, 0, 0, 0, 0];
        [&[2; 12][..], &[8, 0], &ip, &tcp, &[1; 20], b"abc"].concat()
    }

    fn cut(frame: &[u8], len: usize) -> Option<CutTcp> {
        let wire_len = u32::try_from(frame.len()).unwrap();
        let bytes = &frame[..len];
        let layers = dissect(LinkType::ETHERNET, bytes, wire_len, DissectOptions::default());
        CutTcp::of(&Frame { record: &Record { layers, ..Record::default() }, bytes })
    }

    #[test]
    fn a_header_that_is_cut_behind_its_flags_has_them() {
        let frame = syn();
        for len in 0..=frame.len() {
            let wanted = (48..74).contains(&len).then_some(CutTcp { flags: 2, payload_len: 3 });
            assert_eq!(cut(&frame, len), wanted, "{len} bytes");
        }
    }

    #[test]
    fn what_is_no_header_has_none() {
        // A data offset below the fixed header, and one past the end of the packet.
        for (offset, total_len) in [(0x40, 63), (0xf0, 63), (0xa0, 59)] {
            let mut frame = syn();
            (frame[46], frame[17]) = (offset, total_len);
            assert_eq!(cut(&frame, 50), None);
        }
        let mut frame = syn();
        frame[23] = 17;
        assert_eq!(cut(&frame, 41), None);
        // A later fragment.
        frame[23] = 6;
        frame[21] = 1;
        assert_eq!(cut(&frame, 50), None);
    }
}
