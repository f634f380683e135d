//! Numbers of a flow's window, and their names.

use std::fmt;

use crate::first::Number;

/// What is counted of the packets that go one way in one window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Quantity {
    /// How many there are.
    Packets,
    /// Their lengths from the IP header on, added up.
    Bytes,
    /// Bytes behind transport headers.
    PayloadBytes,
    /// The shortest length; −1 where there is no packet, as of the three below.
    SizeMinBytes,
    /// The longest.
    SizeMaxBytes,
    /// Their mean.
    SizeMeanBytes,
    /// Their variance, of all of them, not a sample.
    SizeVariance,
    /// How many lengths there are; those of [`DISTINCT_MAX`](super::DISTINCT_MAX) and more are one.
    SizesDistinct,
    /// The shortest time since the packet before it on the same way, which may have been in
    /// another window; −1 where there is none, as of the three below.
    GapMinNs,
    /// The longest.
    GapMaxNs,
    /// Their mean.
    GapMeanNs,
    /// Their variance, in ns².
    GapVariance,
    /// Gaps of more than 5 ms: so many bursts there are.
    GapsAbove5Ms,
    /// Of more than 15 ms.
    GapsAbove15Ms,
    /// Of more than 30 ms.
    GapsAbove30Ms,
    /// Video frames that began, as sizes tell; see [`FRAME_BYTES_MIN`](super::FRAME_BYTES_MIN).
    FramesBySize,
    /// RTP packets of the stream with the most bytes so far on this way.
    RtpPackets,
    /// Timestamps of that stream that were new.
    RtpTimestamps,
    /// Packets of that stream with the marker bit: the last of a video frame.
    RtpMarkers,
    /// Streams that sent.
    RtpStreams,
}

impl Quantity {
    /// All, in order.
    pub const ALL: [Self; 20] = [
        Self::Packets,
        Self::Bytes,
        Self::PayloadBytes,
        Self::SizeMinBytes,
        Self::SizeMaxBytes,
        Self::SizeMeanBytes,
        Self::SizeVariance,
        Self::SizesDistinct,
        Self::GapMinNs,
        Self::GapMaxNs,
        Self::GapMeanNs,
        Self::GapVariance,
        Self::GapsAbove5Ms,
        Self::GapsAbove15Ms,
        Self::GapsAbove30Ms,
        Self::FramesBySize,
        Self::RtpPackets,
        Self::RtpTimestamps,
        Self::RtpMarkers,
        Self::RtpStreams,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::PayloadBytes => "payload_bytes",
            Self::SizeMinBytes => "size_min_bytes",
            Self::SizeMaxBytes => "size_max_bytes",
            Self::SizeMeanBytes => "size_mean_bytes",
            Self::SizeVariance => "size_variance",
            Self::SizesDistinct => "sizes_distinct",
            Self::GapMinNs => "gap_min_ns",
            Self::GapMaxNs => "gap_max_ns",
            Self::GapMeanNs => "gap_mean_ns",
            Self::GapVariance => "gap_variance",
            Self::GapsAbove5Ms => "gaps_above_5ms",
            Self::GapsAbove15Ms => "gaps_above_15ms",
            Self::GapsAbove30Ms => "gaps_above_30ms",
            Self::FramesBySize => "frames_by_size",
            Self::RtpPackets => "rtp_packets",
            Self::RtpTimestamps => "rtp_timestamps",
            Self::RtpMarkers => "rtp_markers",
            Self::RtpStreams => "rtp_streams",
        }
    }

    /// Whether RTP headers have to be read for it.
    #[must_use]
    pub const fn is_of_rtp(self) -> bool {
        self as u8 >= Self::RtpPackets as u8
    }
}

/// One number of a flow's window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WindowNumber {
    /// As of a flow: of its first packet, or of a packet of the window.
    First(Number),
    /// Time from the start of the window to the latest stamp up to a packet of it; −1 where there
    /// is no such packet.
    OffsetNs(u8),
    /// Of all packets of a window that go one way.
    Whole {
        /// Of the window before, and not of this one.
        is_previous: bool,
        /// Of the packets that go against the main direction.
        is_back: bool,
        /// What of them.
        quantity: Quantity,
    },
}

impl WindowNumber {
    /// The number of this name, which is written in one way only.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let number = Self::whole(name)
            .or_else(|| Self::offset(name))
            .or_else(|| Number::named(name).map(Self::First))?;
        (number.to_string() == name).then_some(number)
    }

    fn whole(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("previous_");
        let (is_previous, rest) = (rest.is_some(), rest.unwrap_or(name));
        let (way, what) = rest.split_once('_')?;
        let is_back = way == "back";
        let quantity = Quantity::ALL.into_iter().find(|quantity| quantity.name() == what)?;
        (is_back || way == "main").then_some(Self::Whole { is_previous, is_back, quantity })
    }

    fn offset(name: &str) -> Option<Self> {
        let packet = name.strip_prefix("pkt")?.strip_suffix("_offset_ns")?;
        packet.parse().ok().map(Self::OffsetNs)
    }

    /// Whether it is known only at the end of the window.
    #[must_use]
    pub const fn needs_whole_window(self) -> bool {
        matches!(self, Self::Whole { is_previous: false, .. })
    }

    /// Whether RTP headers have to be read for it.
    #[must_use]
    pub const fn is_of_rtp(self) -> bool {
        matches!(self, Self::Whole { quantity, .. } if quantity.is_of_rtp())
    }
}

impl fmt::Display for WindowNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::First(number) => number.fmt(f),
            Self::OffsetNs(packet) => write!(f, "pkt{packet}_offset_ns"),
            Self::Whole { is_previous, is_back, quantity } => {
                let (before, way) = (
                    if is_previous { "previous_" } else { "" },
                    if is_back { "back" } else { "main" },
                );
                write!(f, "{before}{way}_{}", quantity.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_number_and_back() {
        let mut names = Vec::new();
        for (place, quantity) in Quantity::ALL.into_iter().enumerate() {
            assert_eq!(quantity as usize, place);
            for (is_previous, is_back) in [(false, false), (false, true), (true, false)] {
                let number = WindowNumber::Whole { is_previous, is_back, quantity };
                assert_eq!(WindowNumber::named(&number.to_string()), Some(number));
                names.push(number.to_string());
            }
        }
        assert!(names.contains(&String::from("previous_main_rtp_markers")));
        for number in [
            WindowNumber::OffsetNs(3),
            WindowNumber::First(Number::Protocol),
            WindowNumber::First(Number::GapNs(254)),
        ] {
            assert_eq!(WindowNumber::named(&number.to_string()), Some(number));
        }
        for name in
            ["packets", "main_", "pkt00_offset_ns", "previous_previous_main_bytes", "side_bytes"]
        {
            assert_eq!(WindowNumber::named(name), None, "{name}");
        }
    }
}
