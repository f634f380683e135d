//! What happens when: events in order of time, and of their making within an instant.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A flow begins.
    Start { flow: u32 },
    /// A message is to be sent.
    Message { flow: u32 },
    /// A packet arrives at the router.
    AtRouter { packet: u32 },
    /// The link is free.
    LinkFree,
    /// A packet arrives at its receiver.
    AtReceiver { packet: u32 },
    /// An acknowledgement arrives at its sender.
    Acknowledged { ack: u32 },
    /// An acknowledgement has waited long enough.
    DelayedAck { flow: u32, number: u32 },
    /// A retransmission time-out, unless the timer was set again.
    TimeOut { flow: u32, number: u32 },
    /// A paced flow may send again.
    Paced { flow: u32 },
}

/// An event and its place in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    at_ns: u64,
    number: u64,
    event: Event,
}

impl Ord for Due {
    /// The largest is the one that is due first, since that is what the heap hands out.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events to come.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    due: BinaryHeap<Due>,
    made: u64,
}

impl Agenda {
    pub(crate) fn add(&mut self, at_ns: u64, event: Event) {
        self.due.push(Due { at_ns, number: self.made, event });
        self.made += 1;
    }

    pub(crate) fn next(&mut self) -> Option<(u64, Event)> {
        self.due.pop().map(|due| (due.at_ns, due.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_their_making() {
        let mut agenda = Agenda::default();
        for (at_ns, flow) in [(5, 0), (3, 1), (5, 2), (0, 3)] {
            agenda.add(at_ns, Event::Start { flow });
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).collect();
        let wanted = [(0, 3), (3, 1), (5, 0), (5, 2)];
        assert_eq!(order, wanted.map(|(at_ns, flow)| (at_ns, Event::Start { flow })));
    }
}
