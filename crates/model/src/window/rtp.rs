//! RTP headers of one way: timestamps and markers of the stream that weighs most.
//!
//! RTP encrypts what it carries and leaves its header readable (RFC 3711, section 3.1). A packet is
//! taken for RTP if it is UDP, has 12 bytes of payload at least, version 2 and no type of RTCP
//! (RFC 5761, section 4): by chance, one random payload in four is as well.

use packet::{Frame, Layers, Protocol};

/// Streams distinguished on one way; one more takes the place of that with the fewest bytes.
pub const STREAM_COUNT_MAX: usize = 4;

/// Timestamps of a stream that are remembered: one that is not among them is new.
pub const TIMESTAMPS_KEPT: usize = 16;

const HEADER_LEN: usize = 12;
/// Second bytes of RTCP packets.
const RTCP_TYPES: std::ops::RangeInclusive<u8> = 192..=223;

/// One stream of one sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stream {
    source: u32,
    /// Of all windows.
    payload_bytes: u64,
    packets: u32,
    timestamps: u32,
    markers: u32,
    kept: [u32; TIMESTAMPS_KEPT],
    kept_count: u8,
    kept_next: u8,
}

/// Streams of one way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Rtp {
    streams: [Option<Stream>; STREAM_COUNT_MAX],
}

/// Bytes of the streams of one way.
pub(super) const RTP_BYTES: usize = size_of::<Rtp>();

/// What is read of a header.
struct Header {
    is_marked: bool,
    timestamp: u32,
    source: u32,
    payload_bytes: u32,
}

impl Header {
    fn read(frame: &Frame<'_>) -> Option<Self> {
        let layers = &frame.record.layers;
        let is_told = layers.has(Layers::TRANSPORT) && !layers.has(Layers::LATER_FRAGMENT);
        if !is_told || layers.protocol != Protocol::UDP || layers.payload_len < HEADER_LEN as u32 {
            return None;
        }
        let header: &[u8; HEADER_LEN] = frame.from_offset(layers.payload_offset).first_chunk()?;
        let [first, second, _, _, t0, t1, t2, t3, s0, s1, s2, s3] = *header;
        if first >> 6 != 2 || RTCP_TYPES.contains(&second) {
            return None;
        }
        Some(Self {
            is_marked: second & 0x80 != 0,
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            source: u32::from_be_bytes([s0, s1, s2, s3]),
            payload_bytes: layers.payload_len,
        })
    }
}

impl Stream {
    fn add(&mut self, header: &Header) {
        self.payload_bytes = self.payload_bytes.saturating_add(header.payload_bytes.into());
        self.packets = self.packets.saturating_add(1);
        self.markers = self.markers.saturating_add(u32::from(header.is_marked));
        let known = self.kept.iter().take(self.kept_count.into());
        if known.into_iter().any(|&known| known == header.timestamp) {
            return;
        }
        self.timestamps = self.timestamps.saturating_add(1);
        if let Some(oldest) = self.kept.get_mut(usize::from(self.kept_next)) {
            *oldest = header.timestamp;
        }
        self.kept_next = (self.kept_next + 1) % TIMESTAMPS_KEPT as u8;
        self.kept_count = (self.kept_count + 1).min(TIMESTAMPS_KEPT as u8);
    }
}

impl Rtp {
    pub(super) fn on_frame(&mut self, frame: &Frame<'_>) {
        let Some(header) = Header::read(frame) else { return };
        let is_its = |stream: &Option<Stream>| stream.is_some_and(|s| s.source == header.source);
        let place = self.streams.iter().position(is_its).or_else(|| {
            // None is less than any.
            let weight = |stream: &Option<Stream>| stream.map(|stream| stream.payload_bytes);
            let lightest = self.streams.iter().enumerate();
            lightest.min_by_key(|(_, stream)| weight(stream)).map(|(place, _)| place)
        });
        let Some(stream) = place.and_then(|place| self.streams.get_mut(place)) else { return };
        if stream.is_none_or(|stream| stream.source != header.source) {
            *stream = Some(Stream { source: header.source, ..Stream::default() });
        }
        if let Some(stream) = stream {
            stream.add(&header);
        }
    }

    /// A window ends.
    pub(super) fn turn(&mut self) {
        for stream in self.streams.iter_mut().flatten() {
            (stream.packets, stream.timestamps, stream.markers) = (0, 0, 0);
        }
    }

    /// Packets, new timestamps and markers of the stream with the most bytes so far, the earlier
    /// one of equals; and how many streams sent.
    pub(super) fn values(&self) -> [f32; 4] {
        let streams = || self.streams.iter().flatten();
        let main = streams().rev().max_by_key(|stream| stream.payload_bytes);
        let Stream { packets, timestamps, markers, .. } = main.copied().unwrap_or_default();
        let sending = streams().filter(|stream| stream.packets > 0).count();
        [packets as f32, timestamps as f32, markers as f32, sending as f32]
    }
}
