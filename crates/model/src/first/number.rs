//! Numbers in addition to the header bits of a flow's first packets, and their names.

use std::fmt;

/// One number of a flow. Packets count from 0; what is not there has a value of its own, given
/// here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Number {
    /// IP protocol.
    Protocol,
    /// Destination port of the first packet; −1 where it has none.
    ServerPort,
    /// Source port of the first packet; −1 where it has none.
    ClientPort,
    /// A packet's length from its IP header on; 0 where there is no such packet.
    SizeBytes(u8),
    /// 1 for a packet that goes the way of the first, −1 for another, 0 where there is none.
    Direction(u8),
    /// Nanoseconds since the latest packet before it; 0 for the first, and where there is none.
    GapNs(u8),
    /// Bytes behind a packet's transport header, as its headers tell; −1 where there is no packet,
    /// or no such header could be read.
    PayloadBytes(u8),
    /// A byte of a packet's payload; −1 where it is not there.
    Byte {
        /// Which packet.
        packet: u8,
        /// Which byte, from 0.
        index: u16,
    },
}

impl Number {
    /// The number of this name, which is written in one way only.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let number = match name {
            "protocol" => Self::Protocol,
            "server_port" => Self::ServerPort,
            "client_port" => Self::ClientPort,
            _ => {
                let (packet, what) = name.strip_prefix("pkt")?.split_once('_')?;
                let packet = packet.parse().ok()?;
                match what {
                    "size_bytes" => Self::SizeBytes(packet),
                    "direction" => Self::Direction(packet),
                    "gap_ns" => Self::GapNs(packet),
                    "payload_bytes" => Self::PayloadBytes(packet),
                    _ => {
                        let index = what.strip_prefix("byte_")?.parse().ok()?;
                        Self::Byte { packet, index }
                    }
                }
            }
        };
        // Not `pkt00_…`, nor `pkt+1_…`.
        (number.to_string() == name).then_some(number)
    }

    /// The packet that it is of, unless it is of the flow.
    #[must_use]
    pub const fn packet(self) -> Option<usize> {
        match self {
            Self::Protocol | Self::ServerPort | Self::ClientPort => None,
            Self::SizeBytes(packet)
            | Self::Direction(packet)
            | Self::GapNs(packet)
            | Self::PayloadBytes(packet)
            | Self::Byte { packet, .. } => Some(packet as usize),
        }
    }

    /// Whether it is read from a record.
    pub(super) const fn is_recorded(self) -> bool {
        matches!(self, Self::Byte { .. })
    }

    /// Whether it is of the kind that [`FirstSteps`](crate::FirstSteps) keeps.
    pub(super) const fn is_of_step(self) -> bool {
        matches!(
            self,
            Self::SizeBytes(_) | Self::Direction(_) | Self::GapNs(_) | Self::PayloadBytes(_)
        )
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol => f.write_str("protocol"),
            Self::ServerPort => f.write_str("server_port"),
            Self::ClientPort => f.write_str("client_port"),
            Self::SizeBytes(packet) => write!(f, "pkt{packet}_size_bytes"),
            Self::Direction(packet) => write!(f, "pkt{packet}_direction"),
            Self::GapNs(packet) => write!(f, "pkt{packet}_gap_ns"),
            Self::PayloadBytes(packet) => write!(f, "pkt{packet}_payload_bytes"),
            Self::Byte { packet, index } => write!(f, "pkt{packet}_byte_{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_number_and_back() {
        for number in [
            Number::Protocol,
            Number::ServerPort,
            Number::ClientPort,
            Number::SizeBytes(0),
            Number::Direction(254),
            Number::GapNs(17),
            Number::PayloadBytes(3),
            Number::Byte { packet: 1, index: 8_999 },
        ] {
            assert_eq!(Number::named(&number.to_string()), Some(number));
        }
        for name in [
            "",
            "port",
            "pkt",
            "pkt_size_bytes",
            "pkt00_gap_ns",
            "pkt+1_gap_ns",
            "pkt256_gap_ns",
            "pkt0_byte_",
            "pkt0_byte_01",
            "pkt0_byte_65536",
            "pkt0_size",
            "pkt0_tcp_syn_0",
            "size_bytes",
            "Protocol",
        ] {
            assert_eq!(Number::named(name), None, "{name}");
        }
    }
}
