//! Latencies by who answers.

use std::collections::HashMap;
use std::net::IpAddr;

use packet::event_time::STEP_BACK;
use packet::{EventTime, Span, TimeMove, Timestamp};

use crate::budget::Budget;
use crate::rtt::Rtt;
use crate::sample::{AckDelay, Place, Sample, TakeSamples};

/// Buckets of histograms for each destination, on average.
const BUCKETS_PER_DESTINATION: usize = 128;

/// What is known of the packets to one address.
#[derive(Clone, Debug, Default)]
pub struct Destination {
    /// Round trips from the tap to it and back.
    pub rtt: Rtt,
    /// Packets that it has to answer.
    pub packets: u64,
    /// Of those, retransmissions: packets with bytes seen before.
    pub retransmissions: u64,
    /// Of those, packets without a latency.
    pub missing: u64,
    /// Latencies of packets whose acknowledgement it held back.
    pub held: u64,
    /// Sharp changes within a flow.
    pub sharp: u64,
    /// The same of packets whose acknowledgement was not held back.
    pub sharp_prompt: u64,
}

/// When a period begins, where there are periods, and its destinations in the order of their
/// addresses.
pub type PeriodDestinations = (Option<Timestamp>, Vec<(IpAddr, Destination)>);

/// The destinations of a period, or of a whole run.
#[derive(Debug)]
pub struct Destinations {
    period: Option<Span>,
    begin: Option<Timestamp>,
    time: EventTime,
    found: HashMap<IpAddr, Destination>,
    count_max: usize,
    buckets: Budget,
    closed: Vec<PeriodDestinations>,
    /// Packets to destinations for which there was no room.
    pub no_place: u64,
}

impl Destinations {
    /// Before the first packet; of each period of this length for itself.
    #[must_use]
    pub fn new(period: Option<Span>, count_max: usize) -> Self {
        Self {
            period,
            begin: None,
            time: EventTime::new(STEP_BACK),
            found: HashMap::new(),
            count_max,
            buckets: Budget::new(count_max.saturating_mul(BUCKETS_PER_DESTINATION)),
            closed: Vec::new(),
            no_place: 0,
        }
    }

    /// No packet comes, and time has come so far: the open period may end.
    pub fn on_tick(&mut self, time: Timestamp) {
        self.time.on_tick(time);
        self.follow(false);
    }

    /// Begins the period of the latest stamp, where that is another.
    #[inline]
    fn follow(&mut self, is_epoch: bool) {
        let Some(period) = self.period else { return };
        let begin = self.time.latest().window_start(period);
        if is_epoch || self.begin != Some(begin) {
            self.close();
            self.begin = Some(begin);
        }
    }

    /// Ends what has been found so far.
    pub fn close(&mut self) {
        let mut found: Vec<_> = self.found.drain().collect();
        for (_, destination) in &mut found {
            // What is handed on keeps its buckets; others may have as many again.
            self.buckets.give(destination.rtt.bucket_count());
        }
        found.sort_unstable_by_key(|&(address, _)| address);
        if !found.is_empty() {
            self.closed.push((self.begin.filter(|_| self.period.is_some()), found));
        }
    }

    /// Periods that have ended.
    pub fn take_closed(&mut self) -> Vec<PeriodDestinations> {
        std::mem::take(&mut self.closed)
    }
}

impl TakeSamples for Destinations {
    const WANTS_ALL: bool = true;

    #[inline]
    fn at(&mut self, time: Timestamp) {
        // A stamp behind the latest belongs to the period that is open, unless an epoch begins.
        let is_epoch = self.time.on_packet(time) == TimeMove::Epoch;
        self.follow(is_epoch);
    }

    fn take(&mut self, sample: &Sample) {
        let (_, receiver) = sample.key.endpoints(sample.direction);
        let Self { found, buckets, count_max, .. } = self;
        if found.len() >= *count_max && !found.contains_key(&receiver.address) {
            self.no_place += 1;
            return;
        }
        let destination = found.entry(receiver.address).or_default();
        destination.packets += 1;
        destination.retransmissions += u64::from(sample.place == Place::Retransmission);
        destination.held += u64::from(sample.held != AckDelay::No);
        let is_sharp = |sharp: Option<i8>| u64::from(sharp.is_some_and(|sharp| sharp != 0));
        destination.sharp += is_sharp(sample.sharp.in_flow);
        destination.sharp_prompt += is_sharp(sample.sharp.in_flow_prompt);
        match sample.latency_ns {
            None => destination.missing += 1,
            Some(latency) if sample.is_answered && sample.held == AckDelay::No => {
                destination.rtt.add(latency, buckets);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use packet::event_time::EPOCHS_FREE;

    use super::*;

    #[test]
    fn ticks_end_periods_and_begin_no_epoch() {
        let at = |seconds| Timestamp::from_parts(seconds, 0);
        let mut found = Destinations::new(Some(Span::from_seconds(1)), 10);
        found.at(at(1_000));
        for _ in 0..=EPOCHS_FREE {
            found.on_tick(at(500));
            assert_eq!(found.begin, Some(at(1_000)));
        }
        found.on_tick(at(1_001));
        assert_eq!(found.begin, Some(at(1_001)));
        // Ticks used none of the steps back that packets may make.
        found.at(at(500));
        assert_eq!(found.begin, Some(at(500)));
    }
}
