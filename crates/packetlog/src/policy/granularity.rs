//! How much of a packet is kept.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use packet::{Frame, Layers, Network};

/// Bytes kept of a frame whose headers have no known end: what carries no IP is short.
const OTHER_LEN: u32 = 64;

/// Which bytes of a packet are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Keep {
    /// All that was captured.
    Full,
    /// All headers and no payload.
    Header,
    /// All headers and so many bytes of payload at most.
    Partial(u32),
    /// Nothing; the packet is counted.
    Nothing,
}

/// What one in so many is counted by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SampleBy {
    /// Every n-th packet of the class.
    Packet,
    /// One flow in n with all of its packets, chosen by the flow's hash.
    Flow,
}

/// One in so many.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sample {
    /// How many.
    pub one_in: NonZeroU32,
    /// Of what.
    pub by: SampleBy,
}

/// How much is kept of the packets of a class: the paper's four log granularities (section VI-A),
/// where sampling goes with any of the other three.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Granularity {
    /// Which bytes.
    pub keep: Keep,
    /// Of which packets, if not of all.
    pub sample: Option<Sample>,
}

impl Granularity {
    /// Everything of every packet.
    pub const FULL: Self = Self { keep: Keep::Full, sample: None };
    /// The headers of every packet.
    pub const HEADER: Self = Self { keep: Keep::Header, sample: None };

    /// Bytes of `frame` that are kept, from its first on.
    #[inline]
    #[must_use]
    pub fn kept_len(self, frame: &Frame<'_>) -> u32 {
        let captured = frame.record.captured_len;
        match self.keep {
            Keep::Full => captured,
            Keep::Header => header_len(frame).min(captured),
            Keep::Partial(payload) => header_len(frame).saturating_add(payload).min(captured),
            Keep::Nothing => 0,
        }
    }
}

/// Where the payload begins: behind the innermost transport header, or behind the innermost IP
/// header where no transport header was read.
#[inline]
#[must_use]
pub fn header_len(frame: &Frame<'_>) -> u32 {
    let layers = &frame.record.layers;
    match layers.network {
        Network::Ipv4 | Network::Ipv6 if layers.has(Layers::TRANSPORT) => {
            u32::from(layers.payload_offset)
        }
        Network::Ipv4 | Network::Ipv6 if !layers.is_cut() && layers.transport_offset > 0 => {
            u32::from(layers.transport_offset)
        }
        // Headers go on beyond what was captured, or are none that have an end.
        _ => u32::from(layers.network_offset).saturating_add(OTHER_LEN),
    }
}

/// A granularity that was written in another way than it can be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GranularityError {
    seen: String,
}

impl fmt::Display for GranularityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a granularity; wanted: full, header, partial:BYTES or none, then ,1/N \
             or ,1/N,flow to sample packets; such as header,1/8",
            self.seen
        )
    }
}

impl std::error::Error for GranularityError {}

impl FromStr for Granularity {
    type Err = GranularityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || GranularityError { seen: text.to_owned() };
        let mut parts = text.split(',').map(str::trim);
        let keep = match parts.next().unwrap_or_default() {
            "full" => Keep::Full,
            "header" => Keep::Header,
            "none" => Keep::Nothing,
            other => {
                let bytes = other.strip_prefix("partial:").ok_or_else(refused)?;
                Keep::Partial(bytes.parse().map_err(|_| refused())?)
            }
        };
        let one_in = parts.next().map(|part| {
            let number = part.strip_prefix("1/").and_then(|number| number.parse().ok());
            number.ok_or_else(refused)
        });
        let by = match parts.next() {
            None => SampleBy::Packet,
            Some("flow") => SampleBy::Flow,
            Some(_) => return Err(refused()),
        };
        if parts.next().is_some() {
            return Err(refused());
        }
        let sample = one_in.transpose()?.map(|one_in| Sample { one_in, by });
        Ok(Self { keep, sample })
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.keep {
            Keep::Full => f.write_str("full")?,
            Keep::Header => f.write_str("header")?,
            Keep::Partial(bytes) => write!(f, "partial:{bytes}")?,
            Keep::Nothing => f.write_str("none")?,
        }
        match self.sample {
            None => Ok(()),
            Some(Sample { one_in, by: SampleBy::Packet }) => write!(f, ",1/{one_in}"),
            Some(Sample { one_in, by: SampleBy::Flow }) => write!(f, ",1/{one_in},flow"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_as_it_is_written() {
        for text in ["full", "header", "partial:128", "none", "header,1/8", "partial:0,1/3,flow"] {
            let granularity: Granularity = text.parse().unwrap();
            assert_eq!(granularity.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_granularity_is_refused_with_what_would_be() {
        for text in ["", "whole", "partial", "partial:-1", "full,8", "full,1/0", "full,1/2,host"] {
            let error = text.parse::<Granularity>().unwrap_err().to_string();
            assert!(error.contains("header,1/8"), "{error}");
        }
        assert!("full,1/2,flow,more".parse::<Granularity>().is_err());
    }
}
