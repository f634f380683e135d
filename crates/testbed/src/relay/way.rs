//! One way through a relay: what waits for its time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;

use packet::Span;

use super::loss::Loss;
use super::prefix::{Classes, Prefix};
use crate::lateness::Lateness;
use crate::sys::time::monotonic_ns;
use crate::sys::tun::Tun;

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
}

/// What became of the packets of one way:
/// `received = sent + lost + dropped_full + dropped_closed + waiting`.
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
}

/// A packet that waits.
#[derive(Debug)]
struct Waiting {
    due_ns: u64,
    /// Decides between packets due at the same time.
    number: u64,
    packet: Vec<u8>,
}

/// One way through a relay.
#[derive(Debug)]
pub(super) struct Way {
    classes: Classes,
    delays_ns: Vec<u64>,
    /// When the latest packet of each class is due: later ones are no earlier, so that none
    /// overtakes another when a delay becomes shorter.
    last_due_ns: Vec<u64>,
    loss: Loss,
    queue_len_max: usize,
    waiting: BinaryHeap<Waiting>,
    /// Buffers to use again: none is allocated once the queue was as long before.
    spare: Vec<Vec<u8>>,
    report: WayReport,
}

impl Way {
    pub(super) fn new(settings: &WaySettings, queue_len_max: usize, seed: u64) -> Self {
        let mut delays_ns = vec![delay_ns(settings.delay)];
        delays_ns.extend(settings.classes.iter().map(|(_, delay)| delay_ns(*delay)));
        Self {
            classes: Classes::new(settings.classes.iter().map(|(prefix, _)| *prefix)),
            last_due_ns: vec![0; delays_ns.len()],
            delays_ns,
            loss: Loss::new(settings.loss, seed),
            queue_len_max,
            waiting: BinaryHeap::new(),
            spare: Vec::new(),
            report: WayReport::default(),
        }
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
    pub(super) fn take_in(&mut self, source: &Tun, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..TAKEN_AT_ONCE_MAX {
            match source.receive(buffer) {
                Ok(len) => self.accept(buffer.get(..len).unwrap_or_default(), monotonic_ns()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Decides on a packet that has come.
    fn accept(&mut self, packet: &[u8], now_ns: u64) {
        let number = self.report.received;
        self.report.received += 1;
        if self.loss.draw() {
            self.report.lost += 1;
            return;
        }
        if self.waiting.len() >= self.queue_len_max {
            self.report.dropped_full += 1;
            return;
        }
        let class = self.classes.of(packet);
        let delay_ns = self.delays_ns.get(class).copied().unwrap_or_default();
        let mut due_ns = now_ns.saturating_add(delay_ns);
        if let Some(last_ns) = self.last_due_ns.get_mut(class) {
            due_ns = due_ns.max(*last_ns);
            *last_ns = due_ns;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(packet);
        self.waiting.push(Waiting { due_ns, number, packet: kept });
    }

    /// Sends what is due.
    pub(super) fn send_due(&mut self, sink: &Tun) {
        while let Some((late_ns, packet)) = self.take_due(monotonic_ns()) {
            match sink.send(&packet) {
                Ok(()) => {
                    self.report.sent += 1;
                    self.report.bytes += packet.len() as u64;
                    self.report.lateness.add(late_ns);
                }
                Err(_) => self.report.dropped_closed += 1,
            }
            self.spare.push(packet);
        }
    }

    /// The next packet that is due, and how late it is.
    fn take_due(&mut self, now_ns: u64) -> Option<(u64, Vec<u8>)> {
        let late_ns = now_ns.checked_sub(self.next_due_ns()?)?;
        Some((late_ns, self.waiting.pop()?.packet))
    }

    /// When the next packet is due.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.waiting.peek().map(|waiting| waiting.due_ns)
    }

    /// What became of all packets.
    pub(super) fn end(mut self, dropped_before: Option<u64>) -> WayReport {
        self.report.waiting = self.waiting.len() as u64;
        self.report.dropped_before = dropped_before;
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
        let settings = WaySettings { delay, classes: classes.collect(), loss };
        Way::new(&settings, queue_len_max, 1)
    }

    fn marks_due(way: &mut Way, now_ns: u64) -> Vec<u8> {
        std::iter::from_fn(|| way.take_due(now_ns)).map(|(_, packet)| packet[20]).collect()
    }

    #[test]
    fn each_class_has_its_delay_and_packets_leave_in_the_order_in_which_they_are_due() {
        let mut way = way(ms(20), &[("10.0.0.1/32", ms(5)), ("10.0.0.2/32", ms(10))], 0.0, 9);
        way.accept(&packet(9, 0), 0);
        way.accept(&packet(2, 1), 0);
        way.accept(&packet(1, 2), MS);
        way.accept(&packet(1, 3), MS);
        assert_eq!(way.next_due_ns(), Some(6 * MS));
        assert_eq!(marks_due(&mut way, 6 * MS - 1), []);
        assert_eq!(marks_due(&mut way, 10 * MS), [2, 3, 1]);
        assert_eq!(way.take_due(20 * MS + 7).map(|(late_ns, _)| late_ns), Some(7));
        assert_eq!(way.next_due_ns(), None);
    }

    #[test]
    fn no_packet_overtakes_another_when_the_delay_becomes_shorter() {
        let mut way = way(ms(30), &[], 0.0, 9);
        way.accept(&packet(1, 0), 0);
        way.set_delay(ms(10));
        way.accept(&packet(1, 1), MS);
        assert_eq!(marks_due(&mut way, 11 * MS), []);
        assert_eq!(marks_due(&mut way, 30 * MS), [0, 1]);
        way.accept(&packet(1, 2), 40 * MS);
        assert_eq!(marks_due(&mut way, 50 * MS), [2]);
    }

    #[test]
    fn a_full_queue_refuses_and_counts() {
        let mut way = way(ms(1), &[], 0.0, 2);
        (0..5).for_each(|mark| way.accept(&packet(1, mark), 0));
        assert_eq!(marks_due(&mut way, MS), [0, 1]);
        way.accept(&packet(1, 9), MS);
        let report = way.end(Some(4));
        assert_eq!((report.received, report.dropped_full, report.waiting), (6, 3, 1));
        assert_eq!(report.dropped_before, Some(4));
    }

    #[test]
    fn what_is_lost_is_counted_and_does_not_leave() {
        let mut way = way(ms(1), &[], 0.5, 10_000);
        (0..1_000).for_each(|_| way.accept(&packet(1, 0), 0));
        let left = marks_due(&mut way, MS).len() as u64;
        let report = way.end(None);
        assert_eq!(report.lost + left, 1_000);
        assert!((400..600).contains(&left), "{left}");
    }
}
