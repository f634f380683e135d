//! What happened to packets, in the order of `bpf/ecn.bpf.c`.

use packet::EcnFlowCounts;

/// Counts of a named flow.
pub(super) const FLOW_COUNTS_LEN: usize = 7;
pub(super) const COUNTS_LEN: usize = 14;

/// Packets that an interface sent since the marker was attached, by what happened to them. A packet
/// that is cut into segments later counts as that many packets, except in `segmented`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// Packets of named flows, also of those that were forgotten since.
    pub named: EcnFlowCounts,
    /// TCP or UDP of flows that are not named.
    pub no_flow: u64,
    /// Neither IPv4 nor IPv6, or behind more than two VLAN tags.
    pub not_ip: u64,
    /// IP, but neither TCP nor UDP; or behind more than four extension headers.
    pub not_tcp_udp: u64,
    /// Fragments, which are never re-marked.
    pub fragments: u64,
    /// Headers that are cut off or contradict themselves.
    pub malformed: u64,
    /// Packets of more than one segment, each counted once: all segments of such a packet have one
    /// ECN field, so a decision holds for all of them. It is not a part of [`seen`](Self::seen).
    pub segmented: u64,
    /// Budgets that still had packets when they had expired, each counted once, by the next packet
    /// that would have spent one. No packets.
    pub budgets_expired: u64,
    /// Flows that were refused since as many were named as may be. No packets.
    pub flows_refused: u64,
}

impl EcnCounts {
    /// All packets.
    #[must_use]
    pub const fn seen(&self) -> u64 {
        let Self { named, no_flow, not_ip, not_tcp_udp, fragments, malformed, .. } = *self;
        named.seen() + no_flow + not_ip + not_tcp_udp + fragments + malformed
    }

    pub(super) fn from_kernel(counts: &[u64; COUNTS_LEN], flows_refused: u64) -> Self {
        let &[a, b, c, d, e, f, g, ref others @ ..] = counts;
        let [no_flow, not_ip, not_tcp_udp, fragments, malformed, beside @ ..] = *others;
        let [segmented, budgets_expired] = beside;
        Self {
            named: flow_counts(&[a, b, c, d, e, f, g]),
            no_flow,
            not_ip,
            not_tcp_udp,
            fragments,
            malformed,
            segmented,
            budgets_expired,
            flows_refused,
        }
    }
}

pub(super) fn flow_counts(counts: &[u64; FLOW_COUNTS_LEN]) -> EcnFlowCounts {
    let &[remarked, would_remark, not_ect, ect0, ce, budget_out, failed] = counts;
    EcnFlowCounts { remarked, would_remark, not_ect, ect0, ce, budget_out, failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_leaves_out_what_was_counted_before() {
        let seen = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1, 2, 4, 5];
        let counts = EcnCounts::from_kernel(&seen, 9);
        assert_eq!((counts.named.seen(), counts.seen()), (127, 127 + 128 + 256 + 512 + 3));
        assert_eq!((counts.segmented, counts.budgets_expired, counts.flows_refused), (4, 5, 9));
    }
}
