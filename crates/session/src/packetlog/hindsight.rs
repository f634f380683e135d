//! How long packets wait before they are truncated.

use packet::Span;
use packetlog::hindsight::HindsightOptions;

use crate::choice::choice;

choice! {
    /// Of what the waiting packets are stored like a packet that is classified as anomalous.
    Reach: "reach of hindsight" {
        Flow = "flow", "The flow of an anomalous packet, both directions";
        Host = "host", "That flow, and all packets of the host that sent the packet";
    }
}

/// Bytes of waiting packets, unless given.
pub const HINDSIGHT_BYTES: u64 = 256 << 20;
/// Fewer bytes hold no time worth waiting for.
const BYTES_MIN: u64 = 1 << 20;
/// A longer time is what the log itself is for.
const TIME_MAX: Span = Span::from_seconds(60);

/// How long packets wait, in how much memory.
#[derive(Clone, Copy, Debug)]
pub struct HindsightSettings {
    /// How long; not at all if none.
    pub time: Option<Span>,
    /// Bytes of waiting packets at most.
    pub bytes: u64,
    /// What is stored like a packet that is classified as anomalous.
    pub reach: Reach,
}

impl HindsightSettings {
    /// What the packet log waits for.
    ///
    /// # Errors
    /// The key with a value that makes no sense, and what was wanted.
    pub fn options(&self) -> Result<Option<HindsightOptions>, (&'static str, String)> {
        let Some(time) = self.time else { return Ok(None) };
        if time <= Span::default() || time > TIME_MAX {
            let seen = time.as_seconds_f64();
            return Err(("hindsight", format!("{seen} s; wanted: more than 0 and at most 60s")));
        }
        let bytes = self.bytes;
        let bytes_max = HindsightOptions::BYTES_MAX as u64;
        if !(BYTES_MIN..=bytes_max).contains(&bytes) {
            return Err(("hindsight-bytes", format!("{bytes} bytes; wanted: 1M to 32G")));
        }
        let reach = match self.reach {
            Reach::Flow => packetlog::hindsight::Reach::Flow,
            Reach::Host => packetlog::hindsight::Reach::Host,
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(Some(HindsightOptions { time, bytes, reach }))
    }
}
