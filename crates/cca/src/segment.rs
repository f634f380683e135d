//! What a packet of TCP says that is asked for here.

use packet::wire::tcp::{SeqNumber, TcpFlags};
use packet::wire::tcp_options::TcpOption;
use packet::{FlowDirection, FlowKey, Frame, TapSlot, Timestamp};

use crate::header::Header;

/// A conversation and one way in it: data flows one way, and fills one queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowWay {
    /// The conversation.
    pub key: FlowKey,
    /// The way that the data goes.
    pub direction: FlowDirection,
}

/// A packet that carries data, or opens a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// When the tap saw it.
    pub time: Timestamp,
    /// Its first byte of data; of one that opens, the number before that.
    pub seq: SeqNumber,
    /// Bytes of data; of segments that travel as one packet, of all of them.
    pub data_len: u32,
    /// Bytes of the frame.
    pub frame_len: u32,
    /// Packets as they are on the wire.
    pub segments: u32,
    /// The sender's time stamp (RFC 7323), where it sends any.
    pub source_ticks: Option<u32>,
    /// The receiver's time stamp that the sender saw last.
    pub echoed_ticks: Option<u32>,
    /// It opens a connection (SYN).
    pub opens: bool,
}

/// Why a packet says nothing about the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum UnfitReason {
    /// Not TCP: it has no sequence numbers.
    NotTcp,
    /// TCP without data: mostly acknowledgements.
    NoData,
    /// A later fragment, or headers that the capture cut off before their flags or that cannot be.
    Unreadable,
}

impl UnfitReason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NotTcp, Self::NoData, Self::Unreadable];

    /// For tables and counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotTcp => "not_tcp",
            Self::NoData => "no_data",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Segment {
    /// Of a packet that a tap reported alone, as if it had a slot of its own.
    #[must_use]
    pub fn from_lone_slot(slot: &TapSlot) -> Self {
        Self {
            time: Timestamp::from_ns(slot.first_ns),
            seq: slot.first(),
            data_len: u32::try_from(slot.data_bytes).unwrap_or(u32::MAX),
            frame_len: u32::try_from(slot.frame_bytes).unwrap_or(u32::MAX),
            segments: slot.segments,
            source_ticks: (slot.flags & TapSlot::TICKS != 0).then_some(slot.source_gap_max_ticks),
            echoed_ticks: None,
            opens: slot.began(),
        }
    }

    /// Of a frame, and which way of which flow it goes.
    ///
    /// # Errors
    /// [`UnfitReason`], to be counted.
    #[inline]
    pub fn from_frame(frame: &Frame<'_>) -> Result<(FlowWay, Self), UnfitReason> {
        let header = Header::of(frame)?;
        if !header.brings_data() {
            return Err(UnfitReason::NoData);
        }
        let (key, direction) = FlowKey::from_frame(frame).ok_or(UnfitReason::Unreadable)?;
        let ticks = header.options().find_map(|option| match option {
            Ok(TcpOption::Timestamps { value, echo_reply }) => Some((value, echo_reply)),
            _ => None,
        });
        Ok((FlowWay { key, direction }, Self::new(frame, &header, ticks)))
    }

    /// Of a frame whose header has been read: its time stamp, and the one that it echoes.
    #[inline]
    pub(crate) fn new(frame: &Frame<'_>, header: &Header<'_>, ticks: Option<(u32, u32)>) -> Self {
        let acks = header.flags.contains(TcpFlags::ACK);
        Self {
            time: frame.record.timestamp,
            seq: header.seq,
            data_len: header.data_len,
            frame_len: frame.record.wire_len,
            segments: frame.record.segments.max(1).into(),
            source_ticks: ticks.map(|(value, _)| value),
            echoed_ticks: ticks.map(|(_, echo)| echo).filter(|_| acks),
            opens: header.opens(),
        }
    }
}
