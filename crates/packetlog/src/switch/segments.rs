//! How a packet is cut into messages (section V-B of the paper).

use crate::policy::Keep;

/// Bytes of the largest segment.
const LARGEST: u32 = 128;
/// Of the smallest.
const SMALLEST: u32 = 4;

/// Around each message: Ethernet, IPv4, UDP, base and extended transport header of RDMA, its
/// checksum and Ethernet's. With 54 bytes of headers that is near the 137 that figure 3 of the
/// paper comes to.
pub const MESSAGE_BYTES: u32 = 14 + 20 + 8 + 12 + 16 + 4 + 4;

/// Bytes of a packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketLengths {
    /// All headers.
    pub headers: u32,
    /// What they carry.
    pub payload: u32,
}

impl PacketLengths {
    /// All of it.
    #[must_use]
    pub const fn wire(self) -> u32 {
        self.headers.saturating_add(self.payload)
    }

    /// What is left of it at a granularity.
    #[must_use]
    pub(super) const fn kept(self, keep: Keep) -> Self {
        let payload = match keep {
            Keep::Full => self.payload,
            Keep::Header | Keep::Nothing => 0,
            Keep::Partial(bytes) => {
                if bytes < self.payload {
                    bytes
                } else {
                    self.payload
                }
            }
        };
        Self { payload, ..self }
    }

    /// Takes the next segment off, and returns the payload bytes in its message: the largest of
    /// 128, 64, 32, 16, 8 and 4 that fits, or 4 for what is shorter.
    #[inline]
    pub(super) fn take_segment(&mut self) -> u32 {
        let segment = match self.payload {
            0 => return 0,
            LARGEST.. => LARGEST,
            left => (1 << left.ilog2()).max(SMALLEST),
        };
        self.payload = self.payload.saturating_sub(segment);
        segment
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segments(payload: u32) -> Vec<u32> {
        let mut left = PacketLengths { headers: 54, payload };
        let mut all = vec![left.take_segment()];
        while left.payload > 0 {
            all.push(left.take_segment());
        }
        all
    }

    #[test]
    fn a_packet_is_split_as_the_paper_says() {
        // "A packet with a 1480B payload will be split into 13 segments."
        let wanted = [[128; 11].as_slice(), &[64, 8]].concat();
        assert_eq!(segments(1_480), wanted);
        assert_eq!((segments(0), segments(3), segments(5)), (vec![0], vec![4], vec![4, 4]));
        // All five small segments behind eleven large ones.
        assert_eq!(segments(11 * 128 + 124).len(), 16);
    }

    proptest! {
        #[test]
        fn segments_hold_all_of_a_payload_and_less_than_four_bytes_more(payload in 0u32..70_000) {
            let sum: u32 = segments(payload).iter().sum();
            prop_assert!((payload..payload + SMALLEST).contains(&sum));
        }
    }
}
