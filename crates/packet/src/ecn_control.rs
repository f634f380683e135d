//! Downward control of ECN marking: who decides which packets leave the L4S queue need not see how
//! the kernel is made to do it.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::flow_key::{FlowDirection, FlowKey};
use crate::layers::Protocol;

/// One direction of a flow: the packets that go from one end to the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OneWayFlow {
    /// Both ends, and the protocol.
    pub key: FlowKey,
    /// Which way the packets go.
    pub direction: FlowDirection,
}

impl OneWayFlow {
    /// From the source and destination of its packets.
    #[must_use]
    pub fn new(source: SocketAddr, destination: SocketAddr, protocol: Protocol) -> Self {
        let (key, direction) = FlowKey::from_tuple(
            source.ip(),
            destination.ip(),
            source.port(),
            destination.port(),
            protocol,
        );
        Self { key, direction }
    }
}

/// `tcp 10.0.0.1:443 -> 10.0.0.2:50000`.
impl fmt::Display for OneWayFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = self.key.endpoints(self.direction);
        write!(f, "{} {source} -> {destination}", self.key.protocol())
    }
}

/// Packets of one flow that reached the marker since the flow was named, by what happened to them.
/// A packet that is cut into segments later counts as that many packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnFlowCounts {
    /// Re-marked from ECT(1) to Not-ECT.
    pub remarked: u64,
    /// Would have been re-marked; a dry run left them as they were.
    pub would_remark: u64,
    /// Not-ECT already.
    pub not_ect: u64,
    /// ECT(0), which is left as it is.
    pub ect0: u64,
    /// CE, which is left as it is.
    pub ce: u64,
    /// ECT(1), kept: the budget had no packet left, or fewer than the segments of this one, or had
    /// expired.
    pub budget_out: u64,
    /// ECT(1), kept: the kernel did not let the packet be written to.
    pub failed: u64,
}

impl EcnFlowCounts {
    /// All packets of the flow.
    #[must_use]
    pub const fn seen(&self) -> u64 {
        let Self { remarked, would_remark, not_ect, ect0, ce, budget_out, failed } = *self;
        remarked + would_remark + not_ect + ect0 + ce + budget_out + failed
    }
}

/// Why a flow cannot be re-marked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EcnRefusal {
    /// As many flows are named as there may be; the flow stays as it is.
    Full {
        /// How many.
        flow_count_max: u32,
    },
    /// The flow is not named.
    NotNamed(OneWayFlow),
    /// Anything else, in one line.
    Failed(String),
}

impl fmt::Display for EcnRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { flow_count_max } => write!(
                f,
                "all {flow_count_max} places for flows are taken; wanted a free one, forget a \
                 flow that has ended or raise the maximum"
            ),
            Self::NotNamed(flow) => {
                write!(f, "{flow}: is not named; wanted a flow that was allowed before")
            }
            Self::Failed(words) => f.write_str(words),
        }
    }
}

impl Error for EcnRefusal {}

/// Re-marks packets that leave this host from ECT(1) to Not-ECT, by a budget per flow.
///
/// `capture` implements it with eBPF. Packets of flows that are not named are never changed.
pub trait EcnControl: Send + Sync + fmt::Debug {
    /// Re-marks the next packets of a flow, `budget` at most; what is left of an earlier budget is
    /// void. Names the flow if it is not named yet.
    ///
    /// # Errors
    /// [`EcnRefusal::Full`], or the system's.
    fn allow(&self, flow: OneWayFlow, budget: u32) -> Result<(), EcnRefusal>;

    /// Adds packets to what is left of the budget of a named flow, which then is `budget_max` at
    /// most. No more packets are re-marked than were allowed and added.
    ///
    /// # Errors
    /// [`EcnRefusal::NotNamed`], or the system's.
    fn add(&self, flow: OneWayFlow, packets: u32, budget_max: u32) -> Result<(), EcnRefusal>;

    /// Re-marks no packet of the flow from now on. Returns its final counts.
    ///
    /// # Errors
    /// [`EcnRefusal::NotNamed`], or the system's.
    fn forget(&self, flow: OneWayFlow) -> Result<EcnFlowCounts, EcnRefusal>;

    /// What happened to the packets of the flow so far.
    ///
    /// # Errors
    /// [`EcnRefusal::NotNamed`], or the system's.
    fn flow_counts(&self, flow: OneWayFlow) -> Result<EcnFlowCounts, EcnRefusal>;
}

impl<T: EcnControl> EcnControl for Arc<T> {
    fn allow(&self, flow: OneWayFlow, budget: u32) -> Result<(), EcnRefusal> {
        self.as_ref().allow(flow, budget)
    }

    fn add(&self, flow: OneWayFlow, packets: u32, budget_max: u32) -> Result<(), EcnRefusal> {
        self.as_ref().add(flow, packets, budget_max)
    }

    fn forget(&self, flow: OneWayFlow) -> Result<EcnFlowCounts, EcnRefusal> {
        self.as_ref().forget(flow)
    }

    fn flow_counts(&self, flow: OneWayFlow) -> Result<EcnFlowCounts, EcnRefusal> {
        self.as_ref().flow_counts(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_goes_one_way() {
        let (a, b) = ("10.0.0.2:443".parse().unwrap(), "10.0.0.1:50000".parse().unwrap());
        let there = OneWayFlow::new(a, b, Protocol::TCP);
        let back = OneWayFlow::new(b, a, Protocol::TCP);
        assert_eq!((there.key, there.direction), (back.key, back.direction.opposite()));
        assert_eq!(there.to_string(), "tcp 10.0.0.2:443 -> 10.0.0.1:50000");
        let text = EcnRefusal::NotNamed(back).to_string();
        assert!(text.starts_with("tcp 10.0.0.1:50000 -> 10.0.0.2:443: is not named;"), "{text}");
    }
}
