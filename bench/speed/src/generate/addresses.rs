//! Other addresses for a real packet: two bytes of each change, and the checksums
//! that cover them by the difference (RFC 1624).

use packet::{Frame, Layers, Network, Protocol};

/// Bytes that change with an address.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    /// First byte of the source address; the destination follows.
    at: usize,
    /// Bytes of one address: 4 or 16.
    len: usize,
    /// Checksums that cover both, 0 where there is none.
    checksums_at: [usize; 2],
}

impl Addresses {
    pub(super) fn of(frame: &Frame<'_>) -> Option<Self> {
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
    pub(super) fn change(&self, frame: &mut [u8], round: u32) {
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
