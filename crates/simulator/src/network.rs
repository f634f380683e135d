//! Senders, a router with its link, and receivers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dualq::{Arrival, Departure, Draws, Ecn, Fate, Packet, Queue, Router};
use l4s::history::SentPacket;
use l4s::journal;
use l4s::trace::{Outcome, Record};

use crate::agenda::{Agenda, Event};
use crate::receiver::{self, Ack, ArrivedPacket, Receiver};
use crate::scenario::{Group, Load, Scenario};
use crate::sender::{HEADER_BYTES, Outgoing, Sender};
use crate::steered::{Chooser, Predicting};
use crate::summary::Summary;
use crate::traced::TraceWriter;
use crate::workload::Messages;

/// Where a run writes what happens, besides its summary.
#[derive(Default)]
pub struct Writers<'a> {
    /// Records of packets, `docs/specs/l4s-trace.md`.
    pub trace: Option<&'a mut dyn Write>,
    /// Calls of the router, [`l4s::journal`].
    pub journal: Option<&'a mut dyn Write>,
}

/// The sender whose flows are steered.
const STEERED: u16 = 1;
/// Flows of a group begin within this time of each other, so that they are not in step.
const START_SPREAD_NS: u64 = 100_000_000;

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct OnWay {
    flow: u32,
    segment: u64,
    start: u64,
    len: u32,
    ecn: Ecn,
    is_retransmission: bool,
    is_remarked: bool,
    sent_ns: u64,
    record: u64,
}

/// A flow: its two ends, and what it sends.
struct Flow {
    group: usize,
    sender_number: u16,
    receiver_number: u16,
    ecn: Ecn,
    sender: Sender,
    receiver: Receiver,
    messages: Option<Messages>,
    draws: Draws,
}

/// Things that are known by their place while they are on their way.
struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Slab<T> {
    const fn new() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn put(&mut self, item: T) -> u32 {
        let Some(place) = self.free.pop() else {
            self.items.push(item);
            // Bounded by windows and the router's limit, far below 2³².
            return self.items.len() as u32 - 1;
        };
        if let Some(slot) = self.items.get_mut(place as usize) {
            *slot = item;
        }
        place
    }

    fn get(&self, place: u32) -> Option<T> {
        self.items.get(place as usize).copied()
    }

    fn take(&mut self, place: u32) -> Option<T> {
        self.free.push(place);
        self.get(place)
    }
}

struct Network<'a> {
    scenario: &'a Scenario,
    agenda: Agenda,
    router: Router,
    is_link_busy: bool,
    /// When each sender's own link is free.
    access_free_ns: BTreeMap<u16, u64>,
    flows: Vec<Flow>,
    packets: Slab<OnWay>,
    acks: Slab<Ack>,
    steering: Chooser,
    summary: Summary,
    traced: TraceWriter<'a>,
    journal: Option<&'a mut dyn Write>,
}

/// Runs a scenario to its end.
///
/// A model is for a scenario whose packets are steered by its predictions.
///
/// # Errors
/// A writer fails, or a model is missing or not needed.
pub fn run<'a>(
    scenario: &'a Scenario,
    writers: Writers<'a>,
    predicting: Option<Predicting>,
) -> io::Result<Summary> {
    let router = Router::new(scenario.router, scenario.seed, 0).map_err(io::Error::other)?;
    let mut draws = Draws::new(!scenario.seed);
    let mut network = Network {
        scenario,
        agenda: Agenda::default(),
        router,
        is_link_busy: false,
        access_free_ns: BTreeMap::new(),
        flows: Vec::new(),
        packets: Slab::new(),
        acks: Slab::new(),
        steering: Chooser::new(scenario.control, draws.bits(), predicting)?,
        summary: Summary::new(scenario),
        traced: TraceWriter::begin(writers.trace)?,
        journal: writers.journal,
    };
    for (index, group) in scenario.groups.iter().enumerate() {
        (0..group.count).for_each(|_| network.add_flow(index, group, &mut draws));
    }
    while let Some((now_ns, event)) = network.agenda.next() {
        if now_ns >= scenario.duration_ns {
            break;
        }
        network.happen(now_ns, event)?;
    }
    network.end()
}

impl Network<'_> {
    #[allow(clippy::cast_possible_truncation)]
    fn add_flow(&mut self, index: usize, group: &Group, draws: &mut Draws) {
        let flow = self.flows.len() as u32;
        let messages = match group.load {
            Load::Greedy => None,
            Load::Messages { sizes, bps } => Some(Messages::new(sizes, bps)),
        };
        self.access_free_ns.insert(group.sender, 0);
        let mut draws = Draws::new(draws.bits());
        let start_ns = group.start_ns + draws.bits() % START_SPREAD_NS;
        self.flows.push(Flow {
            group: index,
            sender_number: group.sender,
            receiver_number: group.receiver,
            ecn: group.congestion.ecn(),
            sender: Sender::new(group.congestion, messages.is_none(), self.scenario.recovery),
            receiver: Receiver::new(flow, self.scenario.delayed_acks),
            messages,
            draws,
        });
        self.agenda.add(start_ns, Event::Start { flow });
    }

    fn happen(&mut self, now_ns: u64, event: Event) -> io::Result<()> {
        match event {
            Event::Start { flow } => {
                self.plan_message(now_ns, flow);
                self.send(now_ns, flow);
            }
            Event::Message { flow } => {
                self.begin_message(flow);
                self.plan_message(now_ns, flow);
                self.send(now_ns, flow);
            }
            Event::Paced { flow } => {
                if let Some(flow) = self.flow(flow) {
                    flow.sender.is_pacing = false;
                }
                self.send(now_ns, flow);
            }
            Event::AtRouter { packet } => self.arrive(now_ns, packet)?,
            Event::LinkFree => {
                self.is_link_busy = false;
                self.serve(now_ns)?;
            }
            Event::AtReceiver { packet } => self.receive(now_ns, packet),
            Event::DelayedAck { flow, number } => {
                let ack = self.flow(flow).and_then(|flow| flow.receiver.wait_over(number));
                self.acknowledge_later(now_ns, ack);
            }
            Event::Acknowledged { ack } => self.acknowledge(now_ns, ack),
            Event::TimeOut { flow, number } => {
                let Some(of_flow) = self.flow(flow) else { return Ok(()) };
                if of_flow.sender.timer_rings(now_ns, number) {
                    of_flow.sender.time_out(now_ns);
                }
                self.send(now_ns, flow);
            }
        }
        Ok(())
    }

    fn flow(&mut self, flow: u32) -> Option<&mut Flow> {
        self.flows.get_mut(flow as usize)
    }

    fn begin_message(&mut self, flow: u32) {
        let Some(Flow { messages: Some(messages), draws, sender, .. }) = self.flow(flow) else {
            return;
        };
        sender.offer(messages.size(draws));
    }

    fn plan_message(&mut self, now_ns: u64, flow: u32) {
        let gap_ns = self.flow(flow).and_then(|of_flow| {
            let Flow { messages, draws, .. } = of_flow;
            messages.as_ref().map(|messages| messages.gap_ns(draws))
        });
        if let Some(gap_ns) = gap_ns {
            self.agenda.add(now_ns.saturating_add(gap_ns), Event::Message { flow });
        }
    }

    /// Sends what window, application and pacing let a flow send.
    fn send(&mut self, now_ns: u64, flow: u32) {
        while let Some(of_flow) = self.flow(flow) {
            let sender = &mut of_flow.sender;
            if let Some(until_ns) = sender.paced_until_ns(now_ns).filter(|_| sender.may_send()) {
                if !std::mem::replace(&mut sender.is_pacing, true) {
                    self.agenda.add(until_ns, Event::Paced { flow });
                }
                break;
            }
            let Some(outgoing) = sender.take(now_ns) else { break };
            self.launch(now_ns, flow, outgoing);
        }
        if let Some((due_ns, number)) = self.flow(flow).and_then(|flow| flow.sender.timer_event()) {
            self.agenda.add(due_ns, Event::TimeOut { flow, number });
        }
    }

    /// A packet leaves its sender, by the sender's own link.
    fn launch(&mut self, now_ns: u64, flow: u32, outgoing: Outgoing) {
        let Outgoing { segment, start, bytes, is_retransmission } = outgoing;
        let Some(of_flow) = self.flows.get_mut(flow as usize) else { return };
        let (ecn, sender) = (of_flow.ecn, of_flow.sender_number);
        let len = bytes + HEADER_BYTES;
        let mut sent_ecn = ecn;
        if sender == STEERED {
            let receiver = u32::from(of_flow.receiver_number);
            let leaving = SentPacket { at_ns: now_ns, flow, receiver, size: len };
            let state = self.steering.sees_router().then(|| self.router.state(now_ns));
            let number;
            (sent_ecn, number) = self.steering.leave(&leaving, ecn, state.as_ref());
            of_flow.sender.steered(segment, number);
        }
        let busy_ns = transmission_ns(len, self.scenario.access_bps);
        let free_ns = self.access_free_ns.entry(sender).or_default();
        *free_ns = (*free_ns).max(now_ns) + busy_ns;
        let at_ns = *free_ns;
        let is_remarked = sent_ecn != ecn;
        let packet = self.packets.put(OnWay {
            flow,
            segment,
            start,
            len,
            ecn: sent_ecn,
            is_retransmission,
            is_remarked,
            sent_ns: now_ns,
            record: 0,
        });
        self.agenda.add(at_ns, Event::AtRouter { packet });
    }

    fn arrive(&mut self, now_ns: u64, place: u32) -> io::Result<()> {
        let Some(on_way) = self.packets.get(place) else { return Ok(()) };
        let OnWay { flow, segment, len, ecn, .. } = on_way;
        let found = self.traced.is_wanted().then(|| self.router.state(now_ns).packets);
        let packet = Packet { len, ecn, tag: u64::from(place) };
        let arrival = Arrival { packet, at_ns: now_ns };
        let entered = self.router.arrive(arrival);
        if let Some(journal) = &mut self.journal {
            journal.write_all(&journal::arrived(&arrival, entered))?;
        }
        let Some(of_flow) = self.flows.get_mut(flow as usize) else { return Ok(()) };
        let outcome = entered.dropped.map_or(Outcome::Waiting, Outcome::Dropped);
        let found = found.unwrap_or_default();
        let record = self.traced.add(|| Record {
            sent_ns: Some(on_way.sent_ns),
            entered_ns: Some(now_ns),
            left_ns: None,
            received_ns: None,
            acked_ns: None,
            sequence: on_way.start,
            flow,
            size: len,
            found_l4s: u32::try_from(found.l4s).unwrap_or(u32::MAX),
            found_classic: u32::try_from(found.classic).unwrap_or(u32::MAX),
            sender: of_flow.sender_number,
            receiver: of_flow.receiver_number,
            ecn_sent: ecn,
            ecn_left: ecn,
            queue: entered.queue,
            outcome,
            mark: None,
            is_retransmission: on_way.is_retransmission,
            is_remarked: on_way.is_remarked,
        })?;
        of_flow.sender.note(segment, entered.queue, record);
        if let Some(slot) = self.packets.items.get_mut(place as usize) {
            slot.record = record;
        }
        if entered.dropped.is_some() {
            self.drop(now_ns, place, now_ns);
        }
        if self.is_link_busy { Ok(()) } else { self.serve(now_ns) }
    }

    /// A packet is dropped that arrived at `entered_ns`.
    fn drop(&mut self, now_ns: u64, place: u32, entered_ns: u64) {
        let Some(on_way) = self.packets.take(place) else { return };
        if let Some(record) = self.traced.at(on_way.record) {
            record.left_ns = Some(now_ns);
        }
        let group = self.flows.get(on_way.flow as usize).map_or(0, |flow| flow.group);
        if let Some(of_group) = self.summary.groups.get_mut(group)
            && entered_ns >= self.scenario.warmup_ns
        {
            of_group.dropped += 1;
            of_group.remarked += u64::from(on_way.is_remarked);
        }
    }

    /// The link is free: the router chooses what takes it.
    fn serve(&mut self, now_ns: u64) -> io::Result<()> {
        loop {
            let left = self.router.leave(now_ns);
            if let Some(journal) = &mut self.journal {
                journal.write_all(&journal::left(now_ns, left.as_ref()))?;
            }
            let Some(left) = left else { return Ok(()) };
            let place = u32::try_from(left.packet.tag).unwrap_or(u32::MAX);
            match left.fate {
                Fate::Dropped(cause) => {
                    let record = self.packets.get(place).map_or(0, |on_way| on_way.record);
                    if let Some(record) = self.traced.at(record) {
                        record.outcome = Outcome::Dropped(cause);
                    }
                    self.drop(now_ns, place, left.entered_ns);
                }
                Fate::Sent(_) => {
                    self.transmit(now_ns, place, &left);
                    return Ok(());
                }
            }
        }
    }

    fn transmit(&mut self, now_ns: u64, place: u32, left: &Departure) {
        let Some(on_way) = self.packets.items.get_mut(place as usize) else { return };
        on_way.ecn = left.packet.ecn;
        let on_way = *on_way;
        let sent_ns = now_ns + transmission_ns(left.packet.len, self.scenario.rate_bps);
        self.is_link_busy = true;
        self.agenda.add(sent_ns, Event::LinkFree);
        let received_ns = sent_ns + self.scenario.delay_ns;
        self.agenda.add(received_ns, Event::AtReceiver { packet: place });
        if let Some(record) = self.traced.at(on_way.record) {
            record.left_ns = Some(now_ns);
            record.ecn_left = left.packet.ecn;
            record.outcome = Outcome::Sent;
            if let Fate::Sent(mark) = left.fate {
                record.mark = mark;
            }
        }
        if left.entered_ns < self.scenario.warmup_ns {
            return;
        }
        let delay_ns = now_ns - left.entered_ns;
        self.summary.delays.of_mut(left.queue).add(delay_ns);
        let group = self.flows.get(on_way.flow as usize).map_or(0, |flow| flow.group);
        if let Some(of_group) = self.summary.groups.get_mut(group) {
            of_group.delays.add(delay_ns);
            of_group.bytes += u64::from(left.packet.len);
            of_group.remarked += u64::from(on_way.is_remarked);
        }
    }

    fn receive(&mut self, now_ns: u64, place: u32) {
        let Some(on_way) = self.packets.take(place) else { return };
        if let Some(record) = self.traced.at(on_way.record) {
            record.received_ns = Some(now_ns);
        }
        let Some(of_flow) = self.flow(on_way.flow) else { return };
        let answer = of_flow.receiver.receive(ArrivedPacket {
            segment: on_way.segment,
            is_marked: on_way.ecn == Ecn::Ce,
            is_retransmission: on_way.is_retransmission,
            sent_ns: on_way.sent_ns,
        });
        for ack in answer.acks {
            self.acknowledge_later(now_ns, ack);
        }
        if let Some(number) = answer.waits {
            let over = Event::DelayedAck { flow: on_way.flow, number };
            self.agenda.add(now_ns + receiver::DELAY_MAX_NS, over);
        }
    }

    fn acknowledge_later(&mut self, now_ns: u64, ack: Option<Ack>) {
        if let Some(ack) = ack {
            let ack = self.acks.put(ack);
            self.agenda.add(now_ns + self.scenario.delay_ns, Event::Acknowledged { ack });
        }
    }

    fn acknowledge(&mut self, now_ns: u64, place: u32) {
        let Some(ack) = self.acks.take(place) else { return };
        let Some(of_flow) = self.flows.get_mut(ack.flow as usize) else { return };
        let (traced, steering) = (&mut self.traced, &mut self.steering);
        let is_steered = of_flow.sender_number == STEERED;
        of_flow.sender.acknowledge(now_ns, &ack, |delivered| {
            if let Some(record) = traced.at(delivered.record)
                && record.received_ns.is_some()
            {
                record.acked_ns.get_or_insert(now_ns);
            }
            if is_steered {
                let latency_ns = delivered.was_sent_once.then_some(delivered.latency_ns);
                steering.acknowledge(delivered.number, delivered.queue, now_ns, latency_ns);
            }
        });
        self.send(now_ns, ack.flow);
    }

    fn end(mut self) -> io::Result<Summary> {
        self.traced.end()?;
        if let Some(journal) = self.journal {
            journal.flush()?;
        }
        for queue in [Queue::L4s, Queue::Classic] {
            self.summary.delays.of_mut(queue).sort();
        }
        self.summary.counts = self.router.counts();
        self.summary.steering = self.steering.outcome();
        for flow in &self.flows {
            if let Some(of_group) = self.summary.groups.get_mut(flow.group) {
                of_group.retransmissions += flow.sender.retransmissions;
                of_group.reordered += flow.receiver.reordered;
            }
        }
        self.summary.groups.iter_mut().for_each(|of_group| of_group.delays.sort());
        Ok(self.summary)
    }
}

/// How long a packet takes a link.
fn transmission_ns(len: u32, bps: u64) -> u64 {
    (u64::from(len) * 8 * 1_000_000_000).div_ceil(bps.max(1))
}
