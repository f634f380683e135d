//! A TCP header, as far as the capture has it.
//!
//! A capture of the first 80 bytes of each frame has sequence numbers of all packets, and of IPv6
//! or with SACK blocks not all options. What is measured by numbers alone is measured all the same.

use packet::wire::tcp::{SeqNumber, Tcp, TcpFlags};
use packet::wire::tcp_options::TcpOptionIter;
use packet::{CutTcp, Frame, Layers, Protocol};

use crate::segment::UnfitReason;

/// What is read of a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    pub(crate) seq: SeqNumber,
    pub(crate) acked: SeqNumber,
    pub(crate) flags: TcpFlags,
    /// Bytes of data.
    pub(crate) data_len: u32,
    /// None where the capture ends in them: a number that is cut is another number.
    options: &'a [u8],
    /// Whether the capture ends in the options.
    pub(crate) is_cut: bool,
}

impl<'a> Header<'a> {
    #[inline]
    pub(crate) fn of(frame: &Frame<'a>) -> Result<Self, UnfitReason> {
        let layers = &frame.record.layers;
        if !layers.is_ip() || layers.protocol != Protocol::TCP {
            return Err(UnfitReason::NotTcp);
        }
        if !layers.has(Layers::TRANSPORT) {
            return Self::of_cut(frame).ok_or(UnfitReason::Unreadable);
        }
        let tcp = Tcp::new(frame.from_offset(layers.transport_offset))
            .map_err(|_| UnfitReason::Unreadable)?;
        Ok(Self {
            seq: tcp.sequence_number(),
            acked: tcp.acknowledgment_number(),
            flags: tcp.flags(),
            data_len: layers.payload_len,
            options: tcp.option_bytes(),
            is_cut: false,
        })
    }

    #[cold]
    fn of_cut(frame: &Frame<'a>) -> Option<Self> {
        let CutTcp { flags, payload_len, .. } = CutTcp::of(frame)?;
        let bytes = frame.from_offset(frame.record.layers.transport_offset);
        let [_, seq, acked, ..] = bytes.as_chunks().0 else { return None };
        let number = |bytes: &[u8; 4]| SeqNumber(u32::from_be_bytes(*bytes));
        Some(Self {
            seq: number(seq),
            acked: number(acked),
            flags: TcpFlags::from_bits(flags.into()),
            data_len: payload_len,
            options: &[],
            is_cut: true,
        })
    }

    /// Whether it opens a connection.
    pub(crate) const fn opens(&self) -> bool {
        self.flags.contains(TcpFlags::SYN)
    }

    /// Whether it brings data or opens a connection.
    pub(crate) const fn brings_data(&self) -> bool {
        self.data_len > 0 || self.opens()
    }

    /// The options in order.
    pub(crate) fn options(&self) -> TcpOptionIter<'a> {
        TcpOptionIter::new(self.options)
    }
}

#[cfg(test)]
mod tests {
    use packet::dissect::{DissectOptions, dissect};
    use packet::{Batch, LinkType, Record, SlotClock, Span, Timestamp};

    use super::*;
    use crate::flight::FlightTap;
    use crate::{Segment, TapOptions};

    /// Between two hosts of IPv6, with time stamps: 86 bytes of headers.
    fn frame(is_back: bool, seq: u32, acked: u32, data_len: usize) -> Vec<u8> {
        let ends = if is_back { [2, 1] } else { [1, 2] };
        let mut bytes = vec![2; 12];
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        bytes.extend(u16::try_from(32 + data_len).unwrap().to_be_bytes());
        bytes.extend([6, 64]);
        for end in ends {
            bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        }
        let ports = if is_back { [80_u16, 4000] } else { [4000, 80] };
        ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
        [seq, acked].iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        bytes.extend([0x80, 0x10, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9]);
        bytes.resize(bytes.len() + data_len, 0);
        bytes
    }

    fn record(ms: i64, bytes: &[u8], len: usize) -> Record {
        let wire_len = u32::try_from(bytes.len()).unwrap();
        let layers =
            dissect(LinkType::ETHERNET, &bytes[..len], wire_len, DissectOptions::default());
        Record {
            timestamp: Timestamp::from_ns(ms * 1_000_000),
            captured_len: u32::try_from(len).unwrap(),
            wire_len,
            layers,
            ..Record::default()
        }
    }

    #[test]
    fn numbers_are_read_where_the_capture_ends_in_the_options() {
        let bytes = frame(false, 5_000_000, 77, 1000);
        let whole = record(1, &bytes, bytes.len());
        let read = |record: &Record, len: usize| {
            Segment::from_frame(&Frame { record, bytes: &bytes[..len] })
        };
        let (way, segment) = read(&whole, bytes.len()).unwrap();
        assert_eq!((segment.data_len, segment.source_ticks), (1000, Some(7)));
        let bare = Segment { source_ticks: None, echoed_ticks: None, ..segment };
        for len in 54..86 {
            let wanted = if len < 68 { Err(UnfitReason::Unreadable) } else { Ok((way, bare)) };
            assert_eq!(read(&record(1, &bytes, len), len), wanted, "{len} bytes");
        }
    }

    #[test]
    fn bytes_in_flight_are_those_of_whole_headers() {
        const LEN: usize = 80;
        let mut tap = FlightTap::new(TapOptions {
            clock: SlotClock::new(Span::from_ns(1_000_000)),
            flow_count_max: 4,
            kept: Span::from_seconds(10),
            sampler: None,
        });
        let packets = [
            (0, frame(true, 77, 1, 0)),
            (1, frame(false, 1, 77, 1000)),
            (2, frame(false, 1001, 77, 500)),
            (9, frame(true, 77, 1001, 0)),
        ];
        for (ms, bytes) in &packets {
            let records = [record(*ms, bytes, LEN)];
            tap.take(&Batch { bytes: &bytes[..LEN], records: &records, tick: None });
        }
        let counts = *tap.counts();
        assert_eq!((counts.data, counts.unreadable, counts.cut_options), (2, 0, 4));
        assert_eq!(counts.received(), 4);
        let way = tap.flows().next().unwrap();
        let mut slots = Vec::new();
        tap.slots(&way, &mut slots);
        let last = slots.last().unwrap();
        assert_eq!((last.flight_bytes, last.rtt_sum_ns), (500, 8_000_000));
    }
}
