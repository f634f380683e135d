//! From verdicts to budgets of packets, which the kernel spends: each is short, and ends by itself.
//!
//! A packet is seen when it has left, so a verdict is for a next packet of its flow: it adds a
//! packet to a budget. What is left of it is void as soon as a verdict is another one, so that the
//! kernel never re-marks more packets than there were verdicts to, and not after the verdict has
//! changed.
//!
//! What is left must not be void while verdicts stay the same: a burst of packets is often seen one
//! by one, and the next burst would find the budget of the last packet alone.

use l4s::Verdict;
use packet::{EcnControl, EcnFlowCounts, EcnRefusal, OneWayFlow};

/// Packets of a budget at most: what is re-marked if this process is stopped.
pub(super) const BUDGET_MAX: u32 = 64;
/// A budget that was not renewed ends after this.
const HELD_NS: u64 = 100_000_000;

/// The budget of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    /// Packets that newest verdicts re-mark.
    wanted: u32,
    /// Whether a verdict since the last renewal was to keep the marking, for another reason than
    /// the limit.
    is_void: bool,
    /// What the kernel has left at most, and when it was given.
    given: u32,
    given_ns: u64,
    /// All packets that the kernel was given.
    given_sum: u64,
    /// Packets that were seen to be re-marked.
    seen: u64,
}

impl Budget {
    /// A packet of the flow was judged.
    pub(super) const fn judge(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Remark => self.wanted = self.wanted.saturating_add(1),
            // Nothing has changed but the share.
            Verdict::Limited => {}
            Verdict::Kept | Verdict::Rare | Verdict::Silent | Verdict::Unknown | Verdict::Late => {
                (self.wanted, self.is_void) = (0, true);
            }
        }
    }

    /// A packet left as Not-ECT: whether that is because the kernel re-marked it. It cannot be
    /// known of each; there are never more of them than were given.
    pub(super) const fn is_spent(&mut self) -> bool {
        let is_ours = self.seen < self.given_sum;
        if is_ours {
            self.seen += 1;
        }
        is_ours
    }

    /// Whether the kernel may still have something to spend.
    pub(super) const fn is_open(&self) -> bool {
        self.given > 0
    }

    /// What the kernel is to be given now, if anything has changed.
    fn renew(&mut self, now_ns: u64) -> Option<Change> {
        let wanted = std::mem::take(&mut self.wanted).min(BUDGET_MAX);
        let is_old = now_ns.saturating_sub(self.given_ns) >= HELD_NS;
        let is_void = std::mem::take(&mut self.is_void) || is_old;
        if wanted == 0 && (self.given == 0 || !is_void) {
            return None;
        }
        let change = if is_void || self.given == 0 {
            self.given = wanted;
            Change::Instead(wanted)
        } else {
            self.given = self.given.saturating_add(wanted).min(BUDGET_MAX);
            Change::More(wanted)
        };
        self.given_ns = now_ns;
        self.given_sum += u64::from(wanted);
        Some(change)
    }
}

/// How the budget in the kernel changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// What is left is void, and this is the budget.
    Instead(u32),
    /// What is left stays, up to [`BUDGET_MAX`] in all.
    More(u32),
}

/// What re-marks packets, or would.
#[derive(Debug)]
pub(super) struct Kernel {
    control: Box<dyn EcnControl>,
    /// Whether it only counts what it would re-mark.
    pub(super) is_dry_run: bool,
    /// Why it does not any more.
    pub(super) failure: Option<EcnRefusal>,
    /// Of flows that were forgotten.
    forgotten: EcnFlowCounts,
}

impl Kernel {
    pub(super) fn new(control: Box<dyn EcnControl>, is_dry_run: bool) -> Self {
        Self { control, is_dry_run, failure: None, forgotten: EcnFlowCounts::default() }
    }

    /// Gives a flow its budget, if that is another one now.
    pub(super) fn renew(&mut self, flow: OneWayFlow, budget: &mut Budget, now_ns: u64) {
        // What was given before ends with the program, which is what failed.
        if self.failure.is_some() {
            return;
        }
        let done = match budget.renew(now_ns) {
            None => Ok(()),
            Some(Change::Instead(packets)) => self.control.allow(flow, packets),
            Some(Change::More(packets)) => self.control.add(flow, packets, BUDGET_MAX),
        };
        self.failure = done.err();
    }

    /// Names a flow, none of whose packets is re-marked yet: from now on it is counted.
    pub(super) fn name(&mut self, flow: OneWayFlow) {
        if self.failure.is_none()
            && let Err(refusal) = self.control.allow(flow, 0)
        {
            self.failure = Some(refusal);
        }
    }

    /// What happened to the packets of a flow.
    pub(super) fn counts(&self, flow: OneWayFlow) -> EcnFlowCounts {
        self.control.flow_counts(flow).unwrap_or_default()
    }

    /// The flow has ended; what happened to its packets.
    pub(super) fn forget(&mut self, flow: OneWayFlow) -> EcnFlowCounts {
        let counts = self.control.forget(flow).unwrap_or_default();
        self.forgotten = sum(self.forgotten, counts);
        counts
    }

    /// What happened to packets of flows that have ended.
    pub(super) const fn forgotten(&self) -> EcnFlowCounts {
        self.forgotten
    }
}

/// Both together.
pub(super) const fn sum(one: EcnFlowCounts, other: EcnFlowCounts) -> EcnFlowCounts {
    EcnFlowCounts {
        remarked: one.remarked + other.remarked,
        would_remark: one.would_remark + other.would_remark,
        not_ect: one.not_ect + other.not_ect,
        ect0: one.ect0 + other.ect0,
        ce: one.ce + other.ce,
        budget_out: one.budget_out + other.budget_out,
        failed: one.failed + other.failed,
    }
}

#[cfg(test)]
mod tests {
    use super::Change::{Instead, More};
    use super::*;

    const MS: u64 = 1_000_000;

    fn judged(budget: &mut Budget, verdict: Verdict, count: u32) {
        (0..count).for_each(|_| budget.judge(verdict));
    }

    #[test]
    fn a_budget_is_that_of_the_verdicts_since_the_last_other_one() {
        let mut budget = Budget::default();
        assert_eq!(budget.renew(0), None);
        judged(&mut budget, Verdict::Remark, 3);
        assert_eq!(budget.renew(MS), Some(Instead(3)));
        assert_eq!(budget.renew(2 * MS), None);
        judged(&mut budget, Verdict::Remark, 1);
        assert_eq!(budget.renew(3 * MS), Some(More(1)), "the verdict is the same");
        judged(&mut budget, Verdict::Remark, 1_000);
        assert_eq!(budget.renew(4 * MS), Some(More(BUDGET_MAX)));
        judged(&mut budget, Verdict::Kept, 1);
        judged(&mut budget, Verdict::Remark, 2);
        assert_eq!(budget.renew(5 * MS), Some(Instead(2)), "it was another one in between");
    }

    #[test]
    fn a_budget_ends_when_the_verdict_changes_and_by_itself() {
        for verdict in [Verdict::Kept, Verdict::Silent, Verdict::Unknown, Verdict::Late] {
            let mut budget = Budget::default();
            judged(&mut budget, Verdict::Remark, 3);
            assert_eq!(budget.renew(MS), Some(Instead(3)));
            judged(&mut budget, Verdict::Remark, 2);
            judged(&mut budget, verdict, 1);
            assert_eq!(budget.renew(2 * MS), Some(Instead(0)), "{verdict:?}");
            assert_eq!(budget.renew(3 * MS), None, "{verdict:?}");
        }
        let mut budget = Budget::default();
        judged(&mut budget, Verdict::Remark, 3);
        assert_eq!(budget.renew(MS), Some(Instead(3)));
        judged(&mut budget, Verdict::Limited, 5);
        assert_eq!(budget.renew(50 * MS), None, "the share is at its limit, nothing else changed");
        assert_eq!(budget.renew(100 * MS), None);
        assert_eq!(budget.renew(101 * MS), Some(Instead(0)));
        assert_eq!(budget.renew(300 * MS), None);
    }

    #[test]
    fn no_more_packets_count_as_re_marked_than_were_given() {
        let mut budget = Budget::default();
        assert!(!budget.is_spent());
        judged(&mut budget, Verdict::Remark, 2);
        budget.renew(0);
        assert_eq!([0; 3].map(|_| budget.is_spent()), [true, true, false]);
    }
}
