//! What is said of all named flows at the end.

use l4s::{MarkerCounts, TuningCounts};
use store::Count;

use super::cells::ms;
use super::follower::{Follower, Hits, Lag};
use super::rows::QueueLatency;

/// Counters, by name.
pub(super) fn counts(follower: &Follower) -> Vec<(&'static str, u64)> {
    let MarkerCounts { asked, kept, remarked, rare, silent, unknown, limited, late } =
        follower.marker.counts();
    let kernel = follower.kernel_counts().unwrap_or_default();
    vec![
        ("named_flows", follower.flow_count().into()),
        ("named_packets", follower.total.packets),
        ("l4s_packets", asked),
        ("decided_packets", remarked),
        ("kept_packets", kept),
        ("rare_packets", rare),
        ("limited_packets", limited),
        ("silent_packets", silent),
        ("unknown_packets", unknown),
        ("late_packets", late),
        ("remarked_packets", kernel.remarked),
        ("remarked_as_predicted_packets", follower.hits.remarked),
        ("remarked_otherwise_packets", follower.hits.wrong),
        ("missed_packets", follower.hits.missed),
        ("would_remark_packets", kernel.would_remark),
        ("segmented_packets", follower.missed.segmented),
    ]
}

/// The same while a run goes on.
pub(super) fn shown(follower: &Follower) -> Vec<Count> {
    let shown = |(name, value)| match name {
        // It names flows as long as they are followed.
        "named_flows" => Count::total(name, "Flows to named receivers.", value),
        "named_packets" => Count::total(name, "Packets of named flows.", value),
        "l4s_packets" => Count::total(name, "Of these, packets marked for L4S.", value),
        _ => Count::total(name, "L4S packets of named flows by verdict and outcome.", value),
    };
    counts(follower).into_iter().map(shown).collect()
}

/// Of a path that the model was not trained for.
fn foreign_line(follower: &Follower) -> String {
    let trained = follower.marker.predictor().model().floor_ns();
    let (Some(floor_ns), Some([low_ns, high_ns])) = (follower.marker.foreign_floor_ns(), trained)
    else {
        return String::new();
    };
    format!(
        "l4s: the minimum latency is {}; the model was trained for {} to {} and does not apply \
         here; train one on traces of this path (wirelens train l4s)\n",
        ms(Some(floor_ns)),
        ms(Some(low_ns)),
        ms(Some(high_ns))
    )
}

/// Lines, each ended.
pub(super) fn lines(follower: &Follower) -> String {
    let flow_count = follower.flow_count();
    if flow_count == 0 {
        return String::from(
            "l4s: no packet left to a named receiver; wanted: TCP flows of this sender, named by \
             --to, and an interface or a capture that they pass\n",
        );
    }
    let total = &follower.total;
    let MarkerCounts { asked, kept, remarked, rare, silent, unknown, limited, late } =
        follower.marker.counts();
    let mut text = format!("l4s: {} packets of {flow_count} named flows left\n", total.packets);
    text.push_str(&format!(
        "l4s: {asked} L4S packets = {remarked} decided to be re-marked + {kept} kept + {rare} \
         rare + {limited} limited + {silent} without ACKs + {unknown} unknown + {late} \
         late\n"
    ));
    text.push_str(&foreign_line(follower));
    text.push_str(&remark_line(follower));
    for (name, latencies) in [("L4S", &total.latencies.l4s), ("classic", &total.latencies.classic)]
    {
        let QueueLatency { count, p50_ns, p99_ns } = QueueLatency::of(latencies);
        if count > 0 {
            let (p50, p99) = (ms(p50_ns), ms(p99_ns));
            text.push_str(&format!(
                "l4s: {name} queue: {count} packets measured, p50 {p50}, p99 {p99}\n"
            ));
        }
    }
    if let Some(error_ns) = total.error_mean_ns() {
        text.push_str(&format!(
            "l4s: mean error of {} predictions {}\n",
            total.compared,
            ms(Some(error_ns))
        ));
    }
    if let Some(Lag { seen, .. }) = follower.lag.as_ref().filter(|lag| lag.seen.count() > 0) {
        let (p50, p99) = (ms(seen.quantile(0.5)), ms(seen.quantile(0.99)));
        text.push_str(&format!("l4s: from a packet to its verdict: p50 {p50}, p99 {p99}\n"));
    }
    if let Some(tuner) = follower.marker.predictor().tuner() {
        text.push_str(&tuning_line(tuner.counts()));
        if let Some(failure) = tuner.failure() {
            text.push_str(&format!("l4s: the last tuning that failed: {failure}\n"));
        }
    }
    if let Some(failed) = follower.marker.predictor().failed() {
        text.push_str(&format!(
            "l4s: {} packets have no prediction, as the network failed; first: {}\n",
            failed.packets, failed.first
        ));
    }
    text.push_str(&missed_lines(follower));
    text
}

/// The share that was re-marked, always.
fn remark_line(follower: &Follower) -> String {
    let counts = follower.marker.counts();
    let Some(kernel) = follower.kernel_counts() else {
        let share = crate::share(counts.remarked, counts.asked) * 100.0;
        return format!(
            "l4s: would have re-marked {} packets, {share:.2} % of L4S packets\n",
            counts.remarked
        );
    };
    let is_dry = follower.kernel.as_ref().is_some_and(|kernel| kernel.is_dry_run);
    let (what, count) = if is_dry {
        ("would have re-marked", kernel.would_remark)
    } else {
        ("re-marked", kernel.remarked)
    };
    let share = crate::share(count, counts.asked) * 100.0;
    let mut text = format!("l4s: {what} {count} packets, {share:.2} % of L4S packets\n");
    let Hits { remarked, missed, wrong } = follower.hits;
    if remarked + wrong > 0 {
        text.push_str(&format!(
            "l4s: decisions apply to next packets: of the re-marked ones, their own prediction \
             agreed for {remarked} and not for {wrong}; {missed} were not re-marked although \
             predicted to be\n"
        ));
    }
    if kernel.failed > 0 {
        text.push_str(&format!(
            "l4s: {} packets were not re-marked, as the kernel did not allow writing to them\n",
            kernel.failed
        ));
    }
    text
}

fn tuning_line(counts: TuningCounts) -> String {
    let TuningCounts { done, worse, failed, skipped, busy, stopped, examples } = counts;
    format!(
        "l4s: model fine-tuned {done} times on {examples} examples; {worse} not better than \
         before, {skipped} skipped for lack of examples, {busy} not started in time, {failed} \
         failed, {stopped} stopped\n"
    )
}

fn missed_lines(follower: &Follower) -> String {
    let total = &follower.total;
    let measured = total.latencies.l4s.count() + total.latencies.classic.count();
    let mut text = String::new();
    if measured == 0 {
        text.push_str(
            "l4s: no packet was acknowledged; wanted: both directions, captured at the sender\n",
        );
    }
    let of = follower.latency().counts();
    let predictor = follower.marker.predictor();
    let forgotten = predictor.history().forgotten();
    let untrained = predictor.tuner().map_or(0, |tuner| tuner.recorder().counts().no_room);
    for (count, what) in [
        (follower.missed.unclear, "packets have no latency: it is unknown which copy was ACKed"),
        (
            follower.missed.segmented,
            "packets left as several segments, with one ECN field for all; predictions are for \
             one segment",
        ),
        (
            follower.missed.flows,
            "flows are not tracked: the maximum is 4096 per period; try a shorter --every",
        ),
        (forgotten.no_room, "packets in flight exceeded a table: predictions leave them out"),
        (
            forgotten.flow_no_room,
            "packets are of flows beyond a table: predictions read no latency of their flow",
        ),
        (untrained, "packets exceeded a table: the model is fine-tuned on less than a minute"),
        (follower.time.steps, "times the clock was set back by more than 10 ms, which was ignored"),
        (of.no_time, "packets have no timestamp"),
        (of.unreadable, "packets of named flows are fragments, or their headers are truncated"),
    ] {
        if count > 0 {
            text.push_str(&format!("l4s: {count} {what}\n"));
        }
    }
    text
}
