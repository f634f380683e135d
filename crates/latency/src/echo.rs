//! What a receiver says of the marks that reached it.

use packet::wire::accurate_ecn::{
    AccurateEcnRepr, BYTES_MODULUS, PACKETS_INITIAL, PACKETS_MODULUS, ace, is_asked, is_granted,
};
use packet::wire::tcp::TcpFlags;

use crate::sample::Echo;
use crate::segment::Segment;

/// How marks are echoed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EchoKind {
    /// The handshake was not seen.
    #[default]
    Unknown,
    /// Both ends did not agree on ECN.
    None,
    /// The flag ECE, until the sender answers with CWR (RFC 3168).
    Classic,
    /// Counters (RFC 9768).
    Accurate,
}

impl EchoKind {
    /// The word in the output.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::None => Some("none"),
            Self::Classic => Some("classic"),
            Self::Accurate => Some("accurate"),
        }
    }

    /// What SYN and SYN/ACK agree on.
    #[must_use]
    pub fn agreed(syn: TcpFlags, syn_ack: TcpFlags) -> Self {
        let (asked, granted) = (ace(syn), ace(syn_ack));
        if is_asked(asked) && is_granted(granted) {
            Self::Accurate
        } else if asked & 3 == 3 && granted == 1 {
            Self::Classic
        } else {
            Self::None
        }
    }
}

/// The counters of a receiver, as far as they were seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    packets: Option<u8>,
    bytes: AccurateEcnRepr,
}

impl Counters {
    /// Of a connection whose handshake was seen.
    pub(crate) fn from_handshake() -> Self {
        let bytes = AccurateEcnRepr { ect0_bytes: Some(1), ce_bytes: Some(0), ect1_bytes: Some(1) };
        Self { packets: Some(PACKETS_INITIAL), bytes }
    }

    /// What an acknowledgement says since the one before.
    #[inline]
    pub(crate) fn read(&mut self, kind: &mut EchoKind, segment: &Segment) -> Echo {
        if segment.accurate.is_some() && *kind == EchoKind::Unknown {
            *kind = EchoKind::Accurate;
        }
        match *kind {
            EchoKind::None => Echo::default(),
            // Only the handshake distinguishes an echo of it from a mark.
            EchoKind::Unknown | EchoKind::Classic => {
                let ce = u8::from(segment.flags.contains(TcpFlags::ECE));
                Echo { ce: (!segment.opens()).then_some(ce), ..Echo::default() }
            }
            EchoKind::Accurate => self.read_accurate(segment),
        }
    }

    #[inline]
    fn read_accurate(&mut self, segment: &Segment) -> Echo {
        let mut echo = Echo::default();
        if !segment.opens() {
            let now = ace(segment.flags);
            let change = |before: u8| (now + PACKETS_MODULUS - before) % PACKETS_MODULUS;
            echo.ce = self.packets.replace(now).map(change);
        }
        let Some(seen) = segment.accurate else { return echo };
        let change = |before: &mut Option<u32>, now: Option<u32>| {
            let now = now?;
            let before = before.replace(now)?;
            Some((now + BYTES_MODULUS - before) % BYTES_MODULUS)
        };
        echo.ect0_bytes = change(&mut self.bytes.ect0_bytes, seen.ect0_bytes);
        echo.ce_bytes = change(&mut self.bytes.ce_bytes, seen.ce_bytes);
        echo.ect1_bytes = change(&mut self.bytes.ect1_bytes, seen.ect1_bytes);
        echo
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_ace(ace: u8) -> TcpFlags {
        let bit = |at: u8, flag| if ace >> at & 1 == 1 { flag } else { TcpFlags::default() };
        TcpFlags::ACK | bit(2, TcpFlags::AE) | bit(1, TcpFlags::CWR) | bit(0, TcpFlags::ECE)
    }

    #[test]
    fn counters_are_read_across_their_wrap() {
        let (mut counters, mut kind) = (Counters::from_handshake(), EchoKind::Accurate);
        let mut read = |ace, ce_bytes| {
            let accurate = AccurateEcnRepr { ce_bytes: Some(ce_bytes), ..Default::default() };
            let segment =
                Segment { flags: with_ace(ace), accurate: Some(accurate), ..Segment::default() };
            let echo = counters.read(&mut kind, &segment);
            (echo.ce, echo.ce_bytes)
        };
        assert_eq!(read(5, 0), (Some(0), Some(0)));
        assert_eq!(read(7, 3000), (Some(2), Some(3000)));
        assert_eq!(read(1, 1000), (Some(2), Some(BYTES_MODULUS - 2000)));
    }

    #[test]
    fn what_was_agreed_is_told_from_both_packets() {
        let syn = |ace| with_ace(ace) | TcpFlags::SYN;
        assert_eq!(EchoKind::agreed(syn(7), syn(2)), EchoKind::Accurate);
        assert_eq!(EchoKind::agreed(syn(3), syn(1)), EchoKind::Classic);
        // A server of RFC 3168 answers a client of RFC 9768.
        assert_eq!(EchoKind::agreed(syn(7), syn(1)), EchoKind::Classic);
        assert_eq!(EchoKind::agreed(syn(0), syn(0)), EchoKind::None);
        assert_eq!(EchoKind::agreed(syn(3), syn(0)), EchoKind::None);
    }
}
