//! A router: two queues, what each drops and marks, and which is served.

use std::collections::VecDeque;

use crate::counts::{Counts, OfQueue};
use crate::draws::Draws;
use crate::ecn::Ecn;
use crate::pi2::{CERTAIN, Pi2};
use crate::settings::{Aqm, Mode, Scheduler, Settings, SettingsError};

/// One of the two queues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Queue {
    /// That of L4S packets.
    L4s,
    /// That of all others.
    Classic,
}

/// A packet as a router sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Bytes on the link.
    pub len: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Whatever its sender wants to know it by; ignored.
    pub tag: u64,
}

/// A packet that arrives, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The packet.
    pub packet: Packet,
    /// When it arrives. Time never goes back: an earlier instant counts as the latest one.
    pub at_ns: u64,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropCause {
    /// Its queue was full.
    Full,
    /// The controller, at arrival.
    Early,
    /// The controller or the threshold, at the head of the queue.
    Late,
}

/// Why a packet was marked CE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkCause {
    /// The PI controller.
    Pi,
    /// The threshold of the L4S queue.
    Threshold,
}

/// The outcome of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnqueueOutcome {
    /// Which queue it was for.
    pub queue: Queue,
    /// Why it did not enter, where it did not.
    pub dropped: Option<DropCause>,
}

/// What becomes of a packet at the head of its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is sent, with a mark where there is a cause.
    Sent(Option<MarkCause>),
    /// It is dropped, and the link is still free.
    Dropped(DropCause),
}

/// A packet that leaves its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The packet, CE where it was marked.
    pub packet: Packet,
    /// Which queue it leaves.
    pub queue: Queue,
    /// When it arrived.
    pub entered_ns: u64,
    /// What becomes of it.
    pub fate: Fate,
}

/// What a router holds at an instant.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct State {
    /// Packets of each queue.
    pub packets: OfQueue<usize>,
    /// Bytes of each queue.
    pub bytes: OfQueue<u64>,
    /// How long the packet at the head of each queue has waited.
    pub delay_ns: OfQueue<u64>,
    /// The controller's base probability p'.
    pub probability: f64,
}

/// A packet in its queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: Packet,
    entered_ns: u64,
    /// Whether the L4S queue was long enough for its threshold when this arrived.
    heeds_threshold: bool,
}

/// The queues of a router, driven by its caller's instants.
#[derive(Clone, Debug)]
pub struct Router {
    settings: Settings,
    queues: OfQueue<VecDeque<Waiting>>,
    bytes: OfQueue<u64>,
    counts: OfQueue<Counts>,
    pi2: Pi2,
    draws: Draws,
    /// Which queue is served by weight: the L4S queue up to 0, the classic queue above.
    credit: i64,
    now_ns: u64,
}

impl Router {
    /// Makes a router that begins at `start_ns`, when the controller's first period begins.
    ///
    /// # Errors
    /// A setting cannot be.
    pub fn new(settings: Settings, seed: u64, start_ns: u64) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            queues: OfQueue::default(),
            bytes: OfQueue::default(),
            counts: OfQueue::default(),
            pi2: Pi2::new(&settings, start_ns),
            draws: Draws::new(seed),
            credit: first_credit(&settings),
            now_ns: start_ns,
            settings,
        })
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The outcome of the packets of each queue so far.
    #[must_use]
    pub fn counts(&self) -> OfQueue<Counts> {
        let mut counts = self.counts;
        for queue in [Queue::L4s, Queue::Classic] {
            counts.of_mut(queue).waiting = self.queues.of(queue).len() as u64;
        }
        counts
    }

    /// What it holds at an instant. To ask changes no decision, as long as nothing arrives or
    /// leaves at an earlier instant after that.
    pub fn state(&mut self, now_ns: u64) -> State {
        self.advance(now_ns);
        let now_ns = self.now_ns;
        State {
            packets: OfQueue { l4s: self.queues.l4s.len(), classic: self.queues.classic.len() },
            bytes: self.bytes,
            delay_ns: OfQueue {
                l4s: delay_ns(&self.queues.l4s, now_ns),
                classic: delay_ns(&self.queues.classic, now_ns),
            },
            probability: f64::from(self.pi2.probability()) / f64::from(CERTAIN),
        }
    }

    /// Whether no packet waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queues.l4s.is_empty() && self.queues.classic.is_empty()
    }

    /// Which queue a packet is for.
    #[must_use]
    pub fn queue_of(&self, ecn: Ecn) -> Queue {
        let is_l4s = ecn.is_l4s() && self.settings.mode != Mode::TailDrop;
        if is_l4s { Queue::L4s } else { Queue::Classic }
    }

    /// Takes in a packet, or drops it.
    pub fn arrive(&mut self, arrival: Arrival) -> EnqueueOutcome {
        let Arrival { mut packet, at_ns } = arrival;
        self.advance(at_ns);
        let queue = self.queue_of(packet.ecn);
        self.counts.of_mut(queue).received += 1;
        match self.act_at_arrival(queue, packet.ecn) {
            Ok(mark) => self.mark(queue, &mut packet, mark),
            Err(cause) => {
                self.counts.of_mut(queue).drop(cause);
                return EnqueueOutcome { queue, dropped: Some(cause) };
            }
        }
        let len = self.queues.of(queue).len();
        let heeds_threshold = len >= self.settings.min_qlen_step as usize;
        *self.bytes.of_mut(queue) += u64::from(packet.len);
        let waiting = Waiting { packet, entered_ns: self.now_ns, heeds_threshold };
        self.queues.of_mut(queue).push_back(waiting);
        EnqueueOutcome { queue, dropped: None }
    }

    /// The link is free: takes a packet from the head of a queue. Where it is dropped, the link
    /// is still free, and this is to be called again. `None` while nothing waits.
    pub fn leave(&mut self, now_ns: u64) -> Option<Departure> {
        self.advance(now_ns);
        let Some(queue) = self.next_queue() else {
            self.credit = first_credit(&self.settings);
            return None;
        };
        let waiting = self.queues.of_mut(queue).pop_front()?;
        *self.bytes.of_mut(queue) -= u64::from(waiting.packet.len);
        let Waiting { mut packet, entered_ns, .. } = waiting;
        let fate = match self.act_at_head(queue, &waiting) {
            Ok(mark) => {
                self.mark(queue, &mut packet, mark);
                self.weigh(queue, packet.len);
                let counts = self.counts.of_mut(queue);
                counts.sent += 1;
                counts.sent_bytes += u64::from(packet.len);
                Fate::Sent(mark)
            }
            Err(cause) => {
                self.counts.of_mut(queue).drop(cause);
                Fate::Dropped(cause)
            }
        };
        Some(Departure { packet, queue, entered_ns, fate })
    }

    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        let queues = &self.queues;
        let is_coupled = self.settings.coupling > 0;
        self.pi2.catch_up(self.now_ns, |at_ns| {
            let of_l4s = if is_coupled { delay_ns(&queues.l4s, at_ns) } else { 0 };
            of_l4s.max(delay_ns(&queues.classic, at_ns))
        });
    }

    fn is_full(&self, queue: Queue) -> bool {
        let Settings { limit, limit_l4s, .. } = self.settings;
        let (l4s, classic) = (self.queues.l4s.len(), self.queues.classic.len());
        match (limit_l4s, queue) {
            (None, _) => l4s + classic >= limit as usize,
            (Some(of_l4s), Queue::L4s) => l4s >= of_l4s as usize,
            (Some(of_l4s), Queue::Classic) => classic >= limit.saturating_sub(of_l4s) as usize,
        }
    }

    /// What happens to a packet that arrives: it is marked, dropped, or neither.
    fn act_at_arrival(&mut self, queue: Queue, ecn: Ecn) -> Result<Option<MarkCause>, DropCause> {
        match self.settings.drop_early {
            _ if self.is_full(queue) => Err(DropCause::Full),
            true => self.decide(queue, ecn),
            false => Ok(None),
        }
    }

    /// What the controller and the threshold do with a packet that was just taken from its
    /// queue: marks it, drops it, or neither.
    fn act_at_head(
        &mut self,
        queue: Queue,
        waiting: &Waiting,
    ) -> Result<Option<MarkCause>, DropCause> {
        let ecn = waiting.packet.ecn;
        let by_pi2 = if self.settings.drop_early { None } else { self.decide(queue, ecn)? };
        if by_pi2.is_some() || queue == Queue::Classic || !waiting.heeds_threshold {
            return Ok(by_pi2);
        }
        let wait_ns = self.now_ns.saturating_sub(waiting.entered_ns);
        Ok(self.is_over_threshold(wait_ns).then_some(MarkCause::Threshold))
    }

    /// Whether the L4S queue marks a packet on its own that has waited so long.
    fn is_over_threshold(&mut self, wait_ns: u64) -> bool {
        let Settings { l4s_aqm, step_ns, ramp_from_ns, ramp_to_ns, .. } = self.settings;
        match l4s_aqm {
            Aqm::None => false,
            Aqm::Step => wait_ns > step_ns,
            Aqm::Ramp => {
                let above = u128::from(wait_ns.saturating_sub(ramp_from_ns));
                let range = u128::from(ramp_to_ns - ramp_from_ns);
                let probability = (above * u128::from(CERTAIN) / range).min(u128::from(CERTAIN));
                self.draws.happens(u32::try_from(probability).unwrap_or(CERTAIN))
            }
        }
    }

    /// What the PI controller does with a packet.
    fn decide(&mut self, queue: Queue, ecn: Ecn) -> Result<Option<MarkCause>, DropCause> {
        let cause = if self.settings.drop_early { DropCause::Early } else { DropCause::Late };
        let of_l4s = if self.settings.coupling > 0 { self.bytes.l4s } else { 0 };
        let backlog = of_l4s + self.bytes.classic;
        if !self.settings.has_pi2 || backlog < 2 * u64::from(self.settings.mtu) {
            return Ok(None);
        }
        let p = self.pi2.probability();
        let coupled = u64::from(p) * u64::from(self.settings.coupling);
        let is_overloaded = coupled > u64::from(CERTAIN);
        match queue {
            Queue::Classic if !self.happens_squared(p) => Ok(None),
            Queue::Classic if is_overloaded || !ecn.is_capable() => Err(cause),
            Queue::Classic => Ok(Some(MarkCause::Pi)),
            Queue::L4s if !is_overloaded => {
                let coupled = u32::try_from(coupled).unwrap_or(CERTAIN);
                Ok(self.draws.happens(coupled).then_some(MarkCause::Pi))
            }
            Queue::L4s if self.settings.drop_overload && self.happens_squared(p) => Err(cause),
            Queue::L4s => Ok(Some(MarkCause::Pi)),
        }
    }

    /// Both draws are always made, so that what follows does not depend on the first.
    fn happens_squared(&mut self, probability: u32) -> bool {
        let (first, second) = (self.draws.happens(probability), self.draws.happens(probability));
        first && second
    }

    fn mark(&mut self, queue: Queue, packet: &mut Packet, mark: Option<MarkCause>) {
        if let Some(cause) = mark {
            packet.ecn = Ecn::Ce;
            self.counts.of_mut(queue).mark(cause);
        }
    }

    /// Which queue is served next.
    fn next_queue(&self) -> Option<Queue> {
        let (l4s, classic) = (self.queues.l4s.front(), self.queues.classic.front());
        let (l4s, classic) = match (l4s, classic) {
            (None, None) => return None,
            (Some(_), None) => return Some(Queue::L4s),
            (None, Some(_)) => return Some(Queue::Classic),
            (Some(l4s), Some(classic)) => (l4s, classic),
        };
        let is_l4s = match self.settings.scheduler {
            Scheduler::Weighted => self.credit <= 0,
            Scheduler::TimeShiftedFifo => {
                l4s.entered_ns <= classic.entered_ns.saturating_add(self.settings.tshift_ns)
            }
        };
        Some(if is_l4s { Queue::L4s } else { Queue::Classic })
    }

    /// A packet is sent: the other queue, if it waits, gains what this one was given.
    fn weigh(&mut self, queue: Queue, len: u32) {
        let weight_classic = i64::from(self.settings.c_protection);
        let change = match queue {
            Queue::L4s if !self.queues.classic.is_empty() => weight_classic,
            Queue::Classic if !self.queues.l4s.is_empty() => weight_classic - 100,
            _ => 0,
        };
        self.credit += change * i64::from(len);
    }
}

/// The credit of an empty router: the queue of the larger weight is served first.
fn first_credit(settings: &Settings) -> i64 {
    let weight_classic = i64::from(settings.c_protection);
    i64::from(settings.mtu) * (2 * weight_classic - 100)
}

fn delay_ns(queue: &VecDeque<Waiting>, now_ns: u64) -> u64 {
    queue.front().map_or(0, |waiting| now_ns.saturating_sub(waiting.entered_ns))
}
