//! What other tools' records say of a flow beyond its own record: bytes of IP and of payload, times
//! of each side, and the order of its TCP flags.

use engine::columns::{Field, Value};
use engine::flow::{FlowPacket, FlowRecord, FlowStatistics, PerFlow};
use packet::{CutTcp, FlowDirection, Frame, Layers, Network, Protocol, Timestamp};

use super::layout::FlowColumns;
use super::row::{Row, SIDE_TIMES, StateColumns, count, joined, known, text};

/// Columns of [`Lengths`].
pub(super) const LENGTHS: [Field; 9] = joined(&[
    &[
        count("src_ip_bytes", "Bytes of IP packets from the source, IP header included."),
        count("src_payload_bytes", "Bytes of its payload, above TCP, UDP or ICMP."),
        count("dst_ip_bytes", "Bytes of IP packets from the destination, IP header included."),
        count("dst_payload_bytes", "Bytes of its payload, above TCP, UDP or ICMP."),
        text(
            "tcp_history",
            "Kinds of TCP segments in the order of their first occurrence, upper case from the \
             source: S SYN, H SYN and ACK, A ACK alone, D data, F FIN, R RST, I FIN and RST, Q \
             other pairs.",
        ),
    ],
    &SIDE_TIMES,
]);

/// Letters of both sides.
const LETTERS_MAX: usize = 16;

const LETTERS: [u8; 8] = *b"SHADFRIQ";

/// What one side has sent.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    ip_bytes: u64,
    payload_bytes: u64,
    span: Option<(Timestamp, Timestamp)>,
}

/// Kept for a flow, its directions as its key has them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths {
    sides: [Side; 2],
    /// The history, where the source is the low and where it is the high endpoint.
    letters: [[u8; LETTERS_MAX]; 2],
    letter_count: u8,
    /// Which letters of each side have come.
    come: [u8; 2],
}

impl PerFlow for Lengths {
    fn on_packet(&mut self, _: &FlowPacket) {}

    fn on_frame(&mut self, frame: &Frame<'_>, packet: &FlowPacket) {
        let layers = &frame.record.layers;
        let side = &mut self.sides[packet.direction as usize];
        side.ip_bytes += ip_len(frame);
        let is_whole = layers.has(Layers::TRANSPORT);
        let cut = if is_whole { None } else { CutTcp::of(frame) };
        let payload_len = match cut {
            _ if is_whole => layers.payload_len,
            Some(cut) => cut.payload_len,
            None => 0,
        };
        side.payload_bytes += u64::from(payload_len);
        let time = packet.timestamp;
        side.span = Some(match side.span {
            Some((first, last)) if first != Timestamp::UNKNOWN => (first.min(time), last.max(time)),
            _ => (time, time),
        });
        if layers.protocol == Protocol::TCP && (is_whole || cut.is_some()) {
            self.note(packet.direction, packet.tcp_flags, payload_len > 0);
        }
    }
}

impl Lengths {
    /// Adds the letter of a segment, unless it has come from this side before.
    fn note(&mut self, from: FlowDirection, flags: u8, has_payload: bool) {
        let Some(letter) = letter(flags, has_payload) else { return };
        let bit = LETTERS.iter().position(|&known| known == letter).map_or(0, |at| 1 << at);
        let come = &mut self.come[from as usize];
        if *come & bit != 0 {
            return;
        }
        *come |= bit;
        for (source, text) in self.letters.iter_mut().enumerate() {
            if let Some(place) = text.get_mut(usize::from(self.letter_count)) {
                let is_of_source = source == from as usize;
                *place = if is_of_source { letter } else { letter.to_ascii_lowercase() };
            }
        }
        self.letter_count += 1;
    }

    fn history(&self, direction: FlowDirection) -> &str {
        let letters = &self.letters[direction as usize];
        let come = letters.get(..usize::from(self.letter_count)).unwrap_or_default();
        str::from_utf8(come).unwrap_or_default()
    }
}

/// The letter of a segment, by the rules of Zeek's `conn.log`.
fn letter(flags: u8, has_payload: bool) -> Option<u8> {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 16;
    match flags & (FIN | SYN | RST) {
        0 if has_payload => Some(b'D'),
        0 if flags & ACK != 0 => Some(b'A'),
        0 => None,
        SYN if flags & ACK != 0 => Some(b'H'),
        SYN => Some(b'S'),
        FIN => Some(b'F'),
        RST => Some(b'R'),
        both if both & FIN != 0 && both & RST != 0 => Some(b'I'),
        _ => Some(b'Q'),
    }
}

/// The length of the innermost IP packet as its header tells it. A sender's own capture may hold
/// packets that its network card cuts, whose header tells none: then what the frame has behind the
/// headers before it.
fn ip_len(frame: &Frame<'_>) -> u64 {
    /// The header of IPv6, which its payload length leaves out (RFC 8200, section 3).
    const IPV6_HEADER_LEN: u64 = 40;
    let layers = &frame.record.layers;
    let header = frame.from_offset(layers.network_offset);
    let told = |at: usize| match header.get(at..at + 2) {
        Some(&[high, low]) => u64::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    let len = match layers.network {
        Network::Ipv4 => told(2),
        Network::Ipv6 => {
            Some(told(4)).filter(|&len| len > 0).map_or(0, |len| len + IPV6_HEADER_LEN)
        }
        _ => 0,
    };
    let on_wire = u64::from(frame.record.wire_len).saturating_sub(layers.network_offset.into());
    if len > 0 { len } else { on_wire }
}

impl StateColumns for Lengths {
    fn push<'a>(&'a self, record: &FlowRecord, row: &mut Row<'a>) {
        let [low, high] = &self.sides;
        let sides = match record.direction {
            FlowDirection::LowToHigh => [low, high],
            FlowDirection::HighToLow => [high, low],
        };
        for side in sides {
            row.extend([Value::U64(side.ip_bytes), Value::U64(side.payload_bytes)]);
        }
        row.push(Value::Str(self.history(record.direction)));
        for side in sides {
            let (first, last) = side.span.unzip();
            row.extend(
                [first, last].map(|time| time.and_then(known).map(Value::TimestampNs).into()),
            );
        }
    }
}

impl FlowColumns for Lengths {
    fn statistics(&self) -> Option<&FlowStatistics> {
        None
    }
}

#[cfg(test)]
mod tests {
    use packet::dissect::{DissectOptions, dissect};
    use packet::{HashSeed, LinkType, Record};

    use super::*;

    #[test]
    fn a_segment_whose_options_the_capture_cuts_has_its_lengths() {
        let ip = [0x45, 0, 0, 59, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let tcp = [0, 7, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 16, 0, 9, 0, 0, 0, 0];
        let frame = [&[2; 12][..], &[8, 0], &ip, &tcp, &[1; 12], b"payload"].concat();
        for (len, wanted) in [(73, (7, "D")), (60, (7, "D")), (40, (0, ""))] {
            let bytes = &frame[..len];
            let layers = dissect(LinkType::ETHERNET, bytes, 73, DissectOptions::default());
            let record = Record { layers, wire_len: 73, ..Record::default() };
            let frame = Frame { record: &record, bytes };
            let packet = FlowPacket::from_frame(&frame, HashSeed::new(1), Timestamp::UNKNOWN);
            let mut lengths = Lengths::default();
            lengths.on_frame(&frame, &packet.unwrap());
            let [source, _] = &lengths.sides;
            assert_eq!((source.payload_bytes, lengths.history(FlowDirection::LowToHigh)), wanted);
            assert_eq!(source.ip_bytes, 59, "{len} bytes");
        }
    }

    fn history(segments: &[(FlowDirection, u8, bool)]) -> Lengths {
        let mut lengths = Lengths::default();
        segments.iter().for_each(|&(from, flags, data)| lengths.note(from, flags, data));
        lengths
    }

    #[test]
    fn a_history_has_each_letter_once_a_side_in_the_order_of_packets() {
        use FlowDirection::{HighToLow as Down, LowToHigh as Up};
        let ack = 16;
        let segments = [
            (Up, 2, false),
            (Down, 2 | ack, false),
            (Up, ack, false),
            (Up, 8 | ack, true),
            (Down, ack, false),
            (Down, 8 | ack, true),
            (Up, ack, false),
            (Up, 1 | ack, false),
            (Down, 1 | ack, true),
        ];
        let lengths = history(&segments);
        assert_eq!(lengths.history(Up), "ShADadFf");
        assert_eq!(lengths.history(Down), "sHadADfF");
    }

    #[test]
    fn no_segment_overfills_a_history() {
        use FlowDirection::{HighToLow as Down, LowToHigh as Up};
        let every: Vec<_> = (0..=u8::MAX)
            .flat_map(|flags| [(Up, flags, true), (Down, flags, false), (Down, flags, true)])
            .chain((0..=u8::MAX).map(|flags| (Up, flags, false)))
            .collect();
        assert_eq!(history(&every).history(Up).len(), LETTERS_MAX);
    }
}
