//! One way through a relay: what waits for its time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;

use packet::Span;

use super::bottleneck::{Bottleneck, BottleneckReport, BottleneckSettings, SentPacket};
use super::loss::Loss;
use crate::TestbedError;
use crate::lateness::Lateness;
use crate::prefix::{Classes, Prefix};
use crate::sys::time::monotonic_ns;
use crate::sys::tun::Tun;
use crate::trace::Teller;

/// The longest IP packet, jumbograms aside, which TUN does not carry.
pub(super) const PACKET_LEN_MAX: usize = 65_535;

/// Packets taken in before those that are due are looked at: 64 take less than 0.1 ms.
const TAKEN_AT_ONCE_MAX: usize = 64;

/// Settings of one way.
#[derive(Clone, Debug, Default)]
pub struct WaySettings {
    /// Delay of packets that are of no class.
    pub delay: Span,
    /// Delays of packets to a destination; the longest prefix counts.
    pub classes: Vec<(Prefix, Span)>,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// A rate and queues, which packets pass before they are delayed.
    pub bottleneck: Option<BottleneckSettings>,
}

/// What became of the packets of one way: `received = sent + lost + dropped_full +
/// dropped_closed + waiting`, and where it has queues, what those dropped.
#[derive(Clone, Debug, Default)]
pub struct WayReport {
    /// Packets that came in.
    pub received: u64,
    /// Packets that left.
    pub sent: u64,
    /// Packets lost by chance, as was asked for.
    pub lost: u64,
    /// Packets for which the queue had no room.
    pub dropped_full: u64,
    /// Packets that the other device did not take: it was down, or gone.
    pub dropped_closed: u64,
    /// Packets that waited when the relay ended.
    pub waiting: u64,
    /// Packets that the kernel dropped before we saw them, because we did not fetch them in
    /// time; not in the sum. `None` where the device was gone.
    pub dropped_before: Option<u64>,
    /// Bytes of the packets that left.
    pub bytes: u64,
    /// How much later than due packets left. A packet may also wait before it is seen, for
    /// as long as waking takes; nothing tells how long, but it is the same waking.
    pub lateness: Lateness,
    /// What its queues did, where it has some.
    pub bottleneck: Option<BottleneckReport>,
}

impl WayReport {
    /// Whether every packet is accounted for.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let of_queues = self.bottleneck.as_ref().map_or(0, BottleneckReport::dropped);
        let Self { sent, lost, dropped_full, dropped_closed, waiting, .. } = *self;
        self.received == sent + lost + dropped_full + dropped_closed + waiting + of_queues
    }
}

/// A packet that waits.
#[derive(Debug)]
struct Waiting {
    due_ns: u64,
    /// Decides between packets due at the same time.
    number: u64,
    tag: u64,
    packet: Vec<u8>,
}

/// One way through a relay.
#[derive(Debug)]
pub(super) struct Way {
    before: Option<Bottleneck>,
    classes: Classes,
    delays_ns: Vec<u64>,
    /// When the latest packet of each class is due: later ones are no earlier, so that none
    /// overtakes another when a delay becomes shorter.
    last_due_ns: Vec<u64>,
    loss: Loss,
    queue_len_max: usize,
    waiting: BinaryHeap<Waiting>,
    admitted: u64,
    /// Buffers to use again: none is allocated once the queue was as long before.
    spare: Vec<Vec<u8>>,
    report: WayReport,
}

impl Way {
    pub(super) fn new(
        settings: &WaySettings,
        queue_len_max: usize,
        seed: u64,
    ) -> Result<Self, TestbedError> {
        let mut delays_ns = vec![delay_ns(settings.delay)];
        delays_ns.extend(settings.classes.iter().map(|(_, delay)| delay_ns(*delay)));
        let before = settings.bottleneck.as_ref();
        let before = before.map(|before| Bottleneck::new(before, seed, monotonic_ns()));
        Ok(Self {
            before: before.transpose().map_err(TestbedError::Router)?,
            classes: Classes::new(settings.classes.iter().map(|(prefix, _)| *prefix)),
            last_due_ns: vec![0; delays_ns.len()],
            delays_ns,
            loss: Loss::new(settings.loss, seed),
            queue_len_max,
            waiting: BinaryHeap::new(),
            admitted: 0,
            spare: Vec::new(),
            report: WayReport::default(),
        })
    }

    /// Sets the delay of packets of no class that come from now on.
    pub(super) fn set_delay(&mut self, delay: Span) {
        if let Some(first) = self.delays_ns.first_mut() {
            *first = delay_ns(delay);
        }
    }

    /// Sets the probability of loss of packets that come from now on.
    pub(super) fn set_loss(&mut self, loss: f64) {
        self.loss.set(loss);
    }

    /// Takes in what has come, or some of it; whether there may be more.
    pub(super) fn take_in(
        &mut self,
        source: &Tun,
        buffer: &mut [u8],
        teller: &mut Teller,
    ) -> io::Result<bool> {
        for _ in 0..TAKEN_AT_ONCE_MAX {
            match source.receive(buffer) {
                Ok(len) => {
                    let packet = buffer.get(..len).unwrap_or_default();
                    self.accept(packet, monotonic_ns(), teller);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes in a packet that has come.
    fn accept(&mut self, packet: &[u8], now_ns: u64, teller: &mut Teller) {
        self.report.received += 1;
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(packet);
        // What left before this came has to be asked before, since instants are in order.
        self.pass(now_ns, teller);
        match &mut self.before {
            None => self.admit(SentPacket { packet: kept, tag: 0, at_ns: now_ns }, teller),
            Some(before) => self.spare.extend(before.arrive(kept, now_ns, teller)),
        }
    }

    /// Delays what has left its queue until now.
    fn pass(&mut self, now_ns: u64, teller: &mut Teller) {
        while let Some(passed) = self
            .before
            .as_mut()
            .and_then(|before| before.next_left(now_ns, &mut self.spare, teller))
        {
            self.admit(passed, teller);
        }
    }

    /// Decides on a packet that is on the link.
    fn admit(&mut self, passed: SentPacket, teller: &mut Teller) {
        let SentPacket { packet, tag, at_ns } = passed;
        let number = self.admitted;
        self.admitted += 1;
        let is_lost = self.loss.draw();
        if is_lost || self.waiting.len() >= self.queue_len_max {
            let count = if is_lost { &mut self.report.lost } else { &mut self.report.dropped_full };
            *count += 1;
            self.tell_end(tag, None, &packet, teller);
            self.spare.push(packet);
            return;
        }
        let class = self.classes.of(&packet);
        let delay_ns = self.delays_ns.get(class).copied().unwrap_or_default();
        let mut due_ns = at_ns.saturating_add(delay_ns);
        if let Some(last_ns) = self.last_due_ns.get_mut(class) {
            due_ns = due_ns.max(*last_ns);
            *last_ns = due_ns;
        }
        self.waiting.push(Waiting { due_ns, number, tag, packet });
    }

    /// Sends what is due.
    pub(super) fn send_due(&mut self, sink: &Tun, teller: &mut Teller) {
        self.pass(monotonic_ns(), teller);
        while let Some((late_ns, Waiting { due_ns, tag, packet, .. })) =
            self.take_due(monotonic_ns())
        {
            let sent = sink.send(&packet);
            if sent.is_ok() {
                self.report.sent += 1;
                self.report.bytes += packet.len() as u64;
                self.report.lateness.add(late_ns);
            } else {
                self.report.dropped_closed += 1;
            }
            self.tell_end(tag, sent.ok().map(|()| due_ns + late_ns), &packet, teller);
            self.spare.push(packet);
        }
    }

    /// Of a way with queues each packet is followed; what comes the other way acknowledges.
    fn tell_end(&self, tag: u64, at_ns: Option<u64>, packet: &[u8], teller: &mut Teller) {
        match (&self.before, at_ns) {
            (Some(_), at_ns) => teller.delivered(tag, at_ns),
            (None, Some(at_ns)) => teller.acknowledged(at_ns, packet),
            (None, None) => {}
        }
    }

    /// The next packet that is due, and how late it is.
    fn take_due(&mut self, now_ns: u64) -> Option<(u64, Waiting)> {
        let late_ns = now_ns.checked_sub(self.waiting.peek()?.due_ns)?;
        Some((late_ns, self.waiting.pop()?))
    }

    /// When the next packet is due, at the earliest. What waits in a queue is looked at no sooner
    /// than it could be due: its instants do not depend on when they are asked for.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let on_the_link = self.waiting.peek().map(|waiting| waiting.due_ns);
        let least_ns = self.delays_ns.iter().min().copied().unwrap_or_default();
        let in_a_queue = self.before.as_ref().and_then(Bottleneck::next_left_ns);
        let in_a_queue = in_a_queue.map(|free_ns| free_ns.saturating_add(least_ns));
        on_the_link.into_iter().chain(in_a_queue).min()
    }

    /// What became of all packets.
    pub(super) fn end(mut self, dropped_before: Option<u64>) -> WayReport {
        let in_queues = self.before.as_ref().map_or(0, Bottleneck::waiting);
        self.report.waiting = self.waiting.len() as u64 + in_queues;
        self.report.dropped_before = dropped_before;
        self.report.bottleneck = self.before.map(|before| before.end(monotonic_ns()));
        self.report
    }
}

fn delay_ns(delay: Span) -> u64 {
    u64::try_from(delay.as_ns()).unwrap_or(0)
}

/// Largest is what is due first, since that is what the heap hands out.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due_ns, other.number).cmp(&(self.due_ns, self.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(count: i64) -> Span {
        Span::from_ns(count * MS as i64)
    }

    /// A packet to 10.0.0.`last` that carries `mark`.
    fn packet(last: u8, mark: u8) -> Vec<u8> {
        let mut packet = vec![0x45; 21];
        packet[16..].copy_from_slice(&[10, 0, 0, last, mark]);
        packet
    }

    fn way(delay: Span, classes: &[(&str, Span)], loss: f64, queue_len_max: usize) -> Way {
        let classes = classes.iter().map(|(text, delay)| (text.parse().unwrap(), *delay));
        let settings = WaySettings { delay, classes: classes.collect(), loss, bottleneck: None };
        Way::new(&settings, queue_len_max, 1).unwrap()
    }

    fn accept(way: &mut Way, packet: &[u8], now_ns: u64) {
        way.accept(packet, now_ns, &mut Teller::silent());
    }

    fn marks_due(way: &mut Way, now_ns: u64) -> Vec<u8> {
        std::iter::from_fn(|| way.take_due(now_ns)).map(|(_, waiting)| waiting.packet[20]).collect()
    }

    #[test]
    fn each_class_has_its_delay_and_packets_leave_in_the_order_in_which_they_are_due() {
        let mut way = way(ms(20), &[("10.0.0.1/32", ms(5)), ("10.0.0.2/32", ms(10))], 0.0, 9);
        accept(&mut way, &packet(9, 0), 0);
        accept(&mut way, &packet(2, 1), 0);
        accept(&mut way, &packet(1, 2), MS);
        accept(&mut way, &packet(1, 3), MS);
        assert_eq!(way.next_due_ns(), Some(6 * MS));
        assert!(marks_due(&mut way, 6 * MS - 1).is_empty());
        assert_eq!(marks_due(&mut way, 10 * MS), [2, 3, 1]);
        assert_eq!(way.take_due(20 * MS + 7).map(|(late_ns, _)| late_ns), Some(7));
        assert_eq!(way.next_due_ns(), None);
    }

    #[test]
    fn no_packet_overtakes_another_when_the_delay_becomes_shorter() {
        let mut way = way(ms(30), &[], 0.0, 9);
        accept(&mut way, &packet(1, 0), 0);
        way.set_delay(ms(10));
        accept(&mut way, &packet(1, 1), MS);
        assert!(marks_due(&mut way, 11 * MS).is_empty());
        assert_eq!(marks_due(&mut way, 30 * MS), [0, 1]);
        accept(&mut way, &packet(1, 2), 40 * MS);
        assert_eq!(marks_due(&mut way, 50 * MS), [2]);
    }

    #[test]
    fn a_full_queue_refuses_and_counts() {
        let mut way = way(ms(1), &[], 0.0, 2);
        (0..5).for_each(|mark| accept(&mut way, &packet(1, mark), 0));
        assert_eq!(marks_due(&mut way, MS), [0, 1]);
        accept(&mut way, &packet(1, 9), MS);
        let report = way.end(Some(4));
        assert_eq!((report.received, report.dropped_full, report.waiting), (6, 3, 1));
        assert_eq!(report.dropped_before, Some(4));
    }

    #[test]
    fn what_is_lost_is_counted_and_does_not_leave() {
        let mut way = way(ms(1), &[], 0.5, 10_000);
        (0..1_000).for_each(|_| accept(&mut way, &packet(1, 0), 0));
        let left = marks_due(&mut way, MS).len() as u64;
        let report = way.end(None);
        assert_eq!(report.lost + left, 1_000);
        assert!((400..600).contains(&left), "{left}");
    }
}
