//! What is asked of `latency`.

use std::path::PathBuf;

use latency::{Limits, SharpRule};
use packet::Span;
use serde::Deserialize;

use crate::application::Refusal;
use crate::choice::choice;
use crate::{KEY_COUNTS, written};

choice! {
    /// What each row describes.
    By: "kind of row" {
        Flow = "flow", "Flow: RTT to both of its ends, when it has ended";
        Destination = "destination", "Address that answers, over all flows";
        Packet = "packet", "Packet, when it was answered";
    }
}

choice! {
    /// Which flows a table shows first.
    SortBy: "order" {
        Packets = "packets", "Most packets that were answered";
        P50 = "p50", "Highest median RTT";
        P99 = "p99", "Highest 99th percentile of the RTT";
        Retransmissions = "retransmissions", "Most retransmitted packets";
    }
}

/// Settings of `latency`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LatencySettings {
    /// What each row describes.
    #[serde(deserialize_with = "written::choice")]
    pub by: By,
    /// Destinations are reported for each period of this length.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub every: Option<Span>,
    /// The shortest time for which a receiver holds an acknowledgement back.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub delayed_ack: Option<Span>,
    /// A latency changes sharply by at least so much,
    #[serde(deserialize_with = "written::duration")]
    pub sharp_change: Span,
    /// and by at least this share of the latency before.
    pub sharp_share: f64,
    /// Flows measured at the same time.
    pub max_flows: usize,
    /// Packets that wait for an acknowledgement, of all flows.
    pub max_waiting: usize,
    /// Captures of a second tap, by which one-way delays are measured.
    #[serde(deserialize_with = "written::paths")]
    pub egress: Vec<PathBuf>,
    /// What is added to their timestamps; estimated where it is not given.
    #[serde(deserialize_with = "written::offset_if_any")]
    pub egress_offset: Option<Span>,
}

impl Default for LatencySettings {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            by: By::Flow,
            every: None,
            delayed_ack: None,
            sharp_change: limits.sharp.least,
            sharp_share: limits.sharp.least_share,
            max_flows: limits.flow_count_max,
            max_waiting: limits.waiting_max,
            egress: Vec::new(),
            egress_offset: None,
        }
    }
}

impl LatencySettings {
    /// Refuses what cannot be meant.
    ///
    /// # Errors
    /// [`Refusal`], which names the setting.
    pub fn check(&self, is_live: bool) -> Result<(), Refusal> {
        let (least, most) = (*KEY_COUNTS.start(), *KEY_COUNTS.end());
        for (key, value) in [("max-flows", self.max_flows), ("max-waiting", self.max_waiting)] {
            if !KEY_COUNTS.contains(&value) {
                return Err(Refusal::of(key, format_args!("wanted {least} to {most}")));
            }
        }
        if !(0.0..=100.0).contains(&self.sharp_share) {
            return Err(Refusal::of("sharp-share", "wanted 0 to 100, as a share of the latency"));
        }
        if self.every.is_some() && self.by != By::Destination {
            return Err(Refusal::of(
                "every",
                "flows are reported when they end, packets when they are answered; leave it out, \
                 or give by = \"destination\"",
            ));
        }
        self.check_egress(is_live)?;
        if is_live && self.by == By::Destination && self.every.is_none() {
            return Err(Refusal::of(
                "by",
                "an interface has no end, so destinations are reported for each period; give \
                 every = \"10s\"",
            ));
        }
        Ok(())
    }

    fn check_egress(&self, is_live: bool) -> Result<(), Refusal> {
        if self.egress.is_empty() {
            return match self.egress_offset {
                Some(_) => Err(Refusal::of("egress-offset", "wanted: egress as well")),
                None => Ok(()),
            };
        }
        if is_live {
            return Err(Refusal::of("egress", "one-way delays are measured from captures alone"));
        }
        if self.by == By::Destination {
            return Err(Refusal::of("by", "with egress wanted: flow or packet"));
        }
        if self.delayed_ack.is_some() {
            return Err(Refusal::of(
                "delayed-ack",
                "ACKs are not used with egress; leave one of them out",
            ));
        }
        Ok(())
    }

    /// What may be kept, and what counts as what.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            flow_count_max: self.max_flows,
            waiting_max: self.max_waiting,
            delayed_ack: self.delayed_ack.unwrap_or(usual.delayed_ack),
            sharp: SharpRule { least: self.sharp_change, least_share: self.sharp_share },
            ..usual
        }
    }
}
