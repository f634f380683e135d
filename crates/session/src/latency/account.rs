//! What adds up over all flows, and what is said of it.

use latency::MissingReason;
use store::Count;

/// What adds up over flows: packets without a latency, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) flows: u64,
    pub(super) unmeasured_flows: u64,
    pub(super) random_spin_flows: u64,
    pub(super) rtts: u64,
    pub(super) packets: u64,
    pub(super) retransmissions: u64,
    pub(super) late: u64,
    pub(super) keep_alives: u64,
    pub(super) unseen_acks: u64,
    pub(super) out_of_window: u64,
    pub(super) held_covered: u64,
    pub(super) held_lone: u64,
    pub(super) unranked: u64,
    pub(super) sharp: [u64; 2],
    pub(super) missing: [u64; MissingReason::ALL.len()],
}

impl Sums {
    pub(super) fn add(&mut self, flow: &latency::Flow) {
        self.flows += 1;
        let rtts = flow.ways.iter().map(|way| way.rtt.count).sum::<u64>();
        self.unmeasured_flows += u64::from(rtts == 0);
        self.random_spin_flows += u64::from(flow.has_random_spin());
        self.rtts += rtts;
        for way in &flow.ways {
            let totals = &way.totals;
            self.packets += totals.packets;
            self.retransmissions += totals.retransmissions;
            self.late += totals.late;
            self.keep_alives += totals.keep_alives;
            self.unseen_acks += totals.unseen_acks;
            self.out_of_window += totals.out_of_window;
            self.held_covered += totals.held_covered;
            self.held_lone += totals.held_lone;
            self.unranked += way.rtt.unranked;
            self.sharp[0] += way.series.sharp;
            self.sharp[1] += way.series.sharp_prompt;
            for (sum, count) in self.missing.iter_mut().zip(totals.missing) {
                *sum += count;
            }
        }
    }
}

/// Counters, by name; `no_destination` are packets to destinations for which there was no room.
pub(super) fn counts(
    sums: &Sums,
    latency: &latency::Latency,
    no_destination: u64,
) -> Vec<(&'static str, u64)> {
    let of = latency.counts();
    let mut counts = vec![
        ("rtt_samples", sums.rtts),
        ("measured_packets", sums.packets),
        ("retransmitted_packets", sums.retransmissions),
        ("late_packets", sums.late),
        ("keep_alives", sums.keep_alives),
        ("held_covered", sums.held_covered),
        ("held_lone", sums.held_lone),
        ("unseen_acks", sums.unseen_acks),
        ("out_of_window_acks", sums.out_of_window),
        ("unranked_rtts", sums.unranked),
        ("random_spin_flows", sums.random_spin_flows),
        ("no_place_packets", of.no_place),
        ("no_destination_packets", no_destination),
        ("no_time_packets", of.no_time),
        ("unreadable_packets", of.unreadable),
        ("other_packets", of.other),
    ];
    let names = [
        "missing_ambiguous",
        "missing_lost",
        "missing_needless",
        "missing_blocked",
        "missing_no_answer",
        "missing_clock_step",
        "missing_no_room",
    ];
    counts.extend(names.into_iter().zip(sums.missing));
    counts
}

/// The same while a run goes on: of flows that have ended, and of packets so far.
pub(super) fn shown(sums: &Sums, latency: &latency::Latency, no_destination: u64) -> Vec<Count> {
    let by_name = counts(sums, latency, no_destination).into_iter();
    let by_name = by_name.filter(|(name, _)| !name.starts_with("missing_"));
    let mut shown: Vec<_> =
        by_name.map(|(name, value)| Count::total(name, about(name), value)).collect();
    for (missing, value) in MissingReason::ALL.iter().zip(sums.missing) {
        let about = "Packets without a latency, of flows that have ended.";
        let cause = missing.name().replace([' ', '-'], "_");
        shown.push(Count::total("missing_packets", about, value).with("cause", cause));
    }
    let of = latency.counts();
    for (protocol, value) in [("tcp", of.tcp), ("dns", of.dns), ("quic", of.quic)] {
        let about = "Packets of protocols whose latency is measured.";
        shown.push(Count::total("taken_packets", about, value).with("protocol", protocol));
    }
    shown
}

fn about(name: &str) -> &'static str {
    match name {
        "rtt_samples" => "RTT samples, of flows that have ended.",
        "measured_packets" => "Packets that await an answer, of flows that have ended.",
        "retransmitted_packets" => "Of these, retransmissions.",
        "no_place_packets" => "Packets of flows that did not fit into the table.",
        "no_destination_packets" => "Packets to destinations that did not fit into the table.",
        "no_time_packets" => "Packets without a timestamp.",
        "unreadable_packets" => "Fragments, and truncated headers.",
        "other_packets" => "Packets of protocols without visible answers.",
        _ => "Packets of this kind, of flows that have ended.",
    }
}

/// What there is to say at the end, each line ended.
pub(super) fn said(sums: &Sums, latency: &latency::Latency, no_destination: u64) -> String {
    let of = latency.counts();
    let mut text = format!(
        "latency: {} RTT samples of {} flows; {} of {} packets retransmitted\n",
        sums.rtts,
        sums.flows - sums.unmeasured_flows,
        sums.retransmissions,
        sums.packets,
    );
    let missing: Vec<String> = MissingReason::ALL
        .iter()
        .zip(sums.missing)
        .filter(|&(_, count)| count > 0)
        .map(|(missing, count)| format!("{count} {}", missing.name()))
        .collect();
    if !missing.is_empty() {
        let total: u64 = sums.missing.iter().sum();
        text.push_str(&format!(
            "latency: {total} packets without a latency = {}\n",
            missing.join(" + ")
        ));
    }
    let (queue, queue_prompt, left_out) = latency.queues();
    let [flow, flow_prompt] = sums.sharp;
    if flow + queue > 0 {
        text.push_str(&format!(
            "latency: {flow} sharp changes within flows, {flow_prompt} without delayed ACKs"
        ));
        if queue > 0 {
            text.push_str(&format!("; {queue} within queues, {queue_prompt} without"));
        }
        text.push('\n');
    }
    if sums.packets > 0 && sums.rtts == 0 {
        text.push_str(
            "latency: no packet was answered: the capture may have only one direction; capture \
             both, or give the other tap with --egress\n",
        );
    }
    for (count, what) in [
        (of.no_place, "packets are of flows beyond the maximum; --max-flows sets it"),
        (no_destination, "packets are to destinations beyond the maximum; --max-flows sets it"),
        (sums.unseen_acks, "ACKs are of data that the tap did not see"),
        (sums.unranked, "RTT samples did not fit into a histogram; quantiles lack them"),
        (sums.random_spin_flows, "QUIC flows have random spin bits, which measure nothing"),
        (left_out, "latencies are of senders beyond the maximum"),
        (of.no_time, "packets have no timestamp"),
    ] {
        if count > 0 {
            text.push_str(&format!("latency: {count} {what}\n"));
        }
    }
    text
}
