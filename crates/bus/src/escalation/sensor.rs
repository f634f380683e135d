//! The sensor's end: rows that go out, answers that come back, and deadlines.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use store::Store;
use tokio::sync::mpsc as parcels;

use super::format::{self, Answer, EscalationBytes, Evidence, ROWS_MAX, RowAnswer, Status};
use super::tally::{EscalationTally, Outcome};
use super::{PARTITION_COUNT, subject};
use crate::link::{Link, LinkEvent, OpenError, connect, wait_before};
use crate::message::token;
use crate::{BusError, runtime};

/// A message is sent when it has so many bytes, if not before.
const MESSAGE_LEN: usize = 128 << 10;

/// Messages on their way to the connection at most, of all threads that keep flows.
const PARCELS_MAX: usize = 1024;

/// What is under way when the run is to end has so long, if its deadline is later.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// Messages that may be published again at once, as after the end of a worker that had them.
const REPEATS_MAX: f64 = 64.0;

/// Beyond these, of each message that is sent: where workers have too much to do, most messages
/// wait for half of their deadline, and all of them twice would be more work yet.
const REPEATS_PER_MESSAGE: f64 = 0.1;

/// Who waits for answers looks so often whether the run is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a sensor escalates, and how.
#[derive(Clone, Debug)]
pub struct EscalationOptions {
    /// The broker, and how it is reached.
    pub link: Link,
    /// The first word of every subject.
    pub prefix: String,
    /// The name of this sensor.
    pub sensor: String,
    /// Distinguishes this run from others of the same sensor.
    pub run: String,
    /// Monotonic time, lent by the front end.
    pub monotonic: fn() -> Duration,
    /// Prints messages for users; a line each.
    pub tell: fn(&str),
}

/// A message on its way to the connection.
struct Parcel {
    subject: String,
    reply: String,
    bytes: Bytes,
}

/// What came for a message that was sent.
struct Arrival {
    number: u64,
    /// When it came: who asked may be busy for longer.
    at: Duration,
    /// None where no worker heard it, or the answer is none.
    answer: Option<Answer>,
    outcome: Outcome,
}

/// The connection of a sensor over which rows are escalated.
pub struct Escalations {
    options: EscalationOptions,
    inbox: String,
    tally: Arc<EscalationTally>,
    askers: Arc<Mutex<Vec<Sender<Arrival>>>>,
    to: Option<parcels::Sender<Parcel>>,
    thread: Option<JoinHandle<()>>,
}

impl Escalations {
    /// Connects. A broker that does not answer is no error: it is tried again for as long as the
    /// run lasts.
    ///
    /// # Errors
    /// [`BusError`], where trying again would not help.
    pub fn begin(options: EscalationOptions) -> Result<Arc<Self>, BusError> {
        let tally = Arc::new(EscalationTally::new(options.tell));
        let inbox = format!("_INBOX.{}-{}-e", token(&options.sensor), token(&options.run));
        let askers = Arc::new(Mutex::new(Vec::new()));
        let (to, from) = parcels::channel(PARCELS_MAX);
        let ends = Ends {
            link: options.link.clone(),
            name: format!("wirelens {} escalations", options.sensor),
            inbox: inbox.clone(),
            tally: Arc::clone(&tally),
            askers: Arc::clone(&askers),
            monotonic: options.monotonic,
        };
        let runtime = runtime().map_err(BusError::Start)?;
        let first = runtime.block_on(ends.open());
        let first = match first {
            Ok(opened) => Some(opened),
            Err(OpenError::Refused(error)) => return Err(error),
            Err(OpenError::Away(why)) => {
                tally.note_away(&why);
                None
            }
        };
        let thread = thread::Builder::new()
            .name("escalations".into())
            .spawn(move || {
                runtime.block_on(ends.carry(first, from));
                // No end of a run waits for the name of a server.
                runtime.shutdown_background();
            })
            .map_err(BusError::Start)?;
        Ok(Arc::new(Self { options, inbox, tally, askers, to: Some(to), thread: Some(thread) }))
    }

    /// Has its counts shown.
    pub fn count_in(&self, store: &Store) {
        let tally = Arc::clone(&self.tally);
        store.count_by("escalations", Box::new(move || tally.counts()));
    }

    /// The end for a thread that keeps flows, whose rows are for workers with this model, which
    /// distinguishes so many classes. A row has to be answered within the deadline; at most so many
    /// are under way. Once it is to `stop`, what is under way has a second.
    #[must_use]
    pub fn asker(
        self: &Arc<Self>,
        (model, class_count): (&str, usize),
        deadline: Duration,
        rows_max: usize,
        stop: Arc<AtomicBool>,
    ) -> Asker {
        let (to, answers) = mpsc::channel();
        let mut askers = self.askers.lock().unwrap_or_else(PoisonError::into_inner);
        let inbox = format!("{}.{}", self.inbox, askers.len());
        askers.push(to);
        let of = |partition: u16| subject(&self.options.prefix, model, &partition.to_string());
        let building =
            (0..PARTITION_COUNT).map(|at| Building { subject: of(at), ..Building::default() });
        Asker {
            shared: Arc::clone(self),
            model: model.to_owned(),
            class_count,
            inbox,
            deadline,
            rows_max,
            stop,
            stops_at: None,
            answers,
            building: building.collect(),
            sent: VecDeque::new(),
            first_number: 0,
            repeated: 0,
            repeats_left: REPEATS_MAX,
            under_way: 0,
        }
    }
}

impl Drop for Escalations {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the thread; what it had not sent is unanswered.
            let _ = thread.join();
        }
    }
}

/// The thread's ends: the broker and the askers.
struct Ends {
    link: Link,
    name: String,
    inbox: String,
    tally: Arc<EscalationTally>,
    askers: Arc<Mutex<Vec<Sender<Arrival>>>>,
    monotonic: fn() -> Duration,
}

impl Ends {
    async fn open(&self) -> Result<(Client, Subscriber), OpenError> {
        let tally = Arc::clone(&self.tally);
        let on_event = move |event| match event {
            LinkEvent::Connected => tally.note_connected(),
            LinkEvent::Away(why) => tally.note_away(&why),
            LinkEvent::Trouble(why) => tally.note_trouble(&why),
        };
        let client = connect(&self.link, &self.name, &self.inbox, Arc::new(on_event)).await?;
        let inbox = client.subscribe(format!("{}.*.*", self.inbox)).await;
        let inbox = inbox.map_err(|error| OpenError::Away(error.to_string()))?;
        self.tally.note_connected();
        Ok((client, inbox))
    }

    /// Connects once the broker answers; none where no one sends any more before.
    async fn open_later(
        &self,
        from: &mut parcels::Receiver<Parcel>,
    ) -> Option<(Client, Subscriber)> {
        for attempt in 1.. {
            // What is to be sent meanwhile is let go: those who sent it see the deadline pass.
            let let_go = async { while from.recv().await.is_some() {} };
            if tokio::time::timeout(wait_before(attempt), let_go).await.is_ok() {
                return None;
            }
            match self.open().await {
                Ok(opened) => return Some(opened),
                Err(OpenError::Away(why)) => self.tally.note_away(&why),
                Err(OpenError::Refused(error)) => self.tally.note_away(&error.to_string()),
            }
        }
        None
    }

    /// Carries messages to the broker and answers back, until no one sends any more.
    async fn carry(self, first: Option<(Client, Subscriber)>, mut from: parcels::Receiver<Parcel>) {
        let opened = match first {
            Some(opened) => Some(opened),
            None => self.open_later(&mut from).await,
        };
        let Some((client, mut inbox)) = opened else { return };
        loop {
            tokio::select! {
                parcel = from.recv() => match parcel {
                    Some(parcel) => send(&client, parcel).await,
                    None => return,
                },
                message = inbox.next() => match message {
                    Some(message) => self.deliver(&message),
                    None => return,
                },
            }
        }
    }

    /// Passes an answer to who asked. What is no answer to anyone is counted.
    fn deliver(&self, message: &Message) {
        let arrival = arrival(message, &self.inbox, (self.monotonic)());
        let askers = self.askers.lock().unwrap_or_else(PoisonError::into_inner);
        let asker = arrival.as_ref().and_then(|(asker, _)| askers.get(*asker));
        match (asker, arrival) {
            // An asker that is gone waits for nothing.
            (Some(asker), Some((_, arrival))) => drop(asker.send(arrival)),
            _ => self.tally.note_unexpected(),
        }
    }
}

/// A connection that is away would keep what it is given for later, when no one wants it.
async fn send(client: &Client, Parcel { subject, reply, bytes }: Parcel) {
    if client.connection_state() == State::Connected {
        // A message that cannot be sent is one without an answer.
        let _ = client.publish_with_reply(subject, reply, bytes).await;
    }
}

/// Whose answer it is and what it says.
fn arrival(message: &Message, inbox: &str, at: Duration) -> Option<(usize, Arrival)> {
    let words = message.subject.strip_prefix(inbox)?.strip_prefix('.')?;
    let (asker, number) = words.split_once('.')?;
    let (asker, number) = (asker.parse().ok()?, number.parse().ok()?);
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Some((asker, Arrival { number, at, answer: None, outcome: Outcome::NoWorker }));
    }
    let answer = format::read_answer(&message.payload).ok()?;
    let outcome = match answer.status {
        Status::Answered => Outcome::Answered,
        Status::Refused => Outcome::Refused,
        Status::Late => Outcome::Late,
        Status::Busy => Outcome::Busy,
    };
    Some((asker, Arrival { number, at, answer: Some(answer), outcome }))
}

/// The outcome of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RowOutcome {
    /// What its flow is known by to who asked.
    pub place: u32,
    /// The stage.
    pub stage: u8,
    /// The answer; none where there will be none.
    pub answer: Option<RowAnswer>,
}

/// Rows of a part of the flows that wait for company.
#[derive(Default)]
struct Building {
    subject: String,
    bytes: Option<EscalationBytes>,
    rows: Vec<(u32, u8)>,
}

/// A message without an answer.
struct Sent {
    at: Duration,
    partition: usize,
    bytes: Bytes,
    /// Empty where all have an outcome.
    rows: Vec<(u32, u8)>,
}

/// Asks workers on behalf of a thread that keeps flows.
pub struct Asker {
    shared: Arc<Escalations>,
    model: String,
    class_count: usize,
    inbox: String,
    deadline: Duration,
    rows_max: usize,
    stop: Arc<AtomicBool>,
    /// From here on nothing is waited for.
    stops_at: Option<Duration>,
    answers: Receiver<Arrival>,
    building: Vec<Building>,
    /// By number, oldest first.
    sent: VecDeque<Sent>,
    /// The number of the oldest.
    first_number: u64,
    /// Messages before this number are not published again.
    repeated: u64,
    /// So many may be, for now.
    repeats_left: f64,
    under_way: usize,
}

impl Asker {
    /// Rows without an outcome.
    #[must_use]
    pub const fn under_way(&self) -> usize {
        self.under_way
    }

    /// The same at most.
    #[must_use]
    pub const fn rows_max(&self) -> usize {
        self.rows_max
    }

    fn now(&self) -> Duration {
        (self.shared.options.monotonic)()
    }

    /// Takes a row; false where the broker is away, too many rows are under way, or it is too long
    /// for any message.
    pub fn ask(
        &mut self,
        (place, partition): (u32, u16),
        stage: u8,
        records: &[u8],
        numbers: &[f64],
        evidence: Option<Evidence>,
    ) -> bool {
        let tally = &self.shared.tally;
        let why_not = match tally.is_connected() {
            false => Some(Outcome::Away),
            true => (self.under_way >= self.rows_max).then_some(Outcome::NoRoom),
        };
        let at = usize::from(partition % PARTITION_COUNT);
        let (None, Some(building)) = (why_not, self.building.get_mut(at)) else {
            tally.note_rows(why_not.unwrap_or(Outcome::NoRoom), 1);
            return false;
        };
        let bytes = building.bytes.get_or_insert_with(|| EscalationBytes::new(self.deadline));
        if !bytes.push(stage, records, numbers, evidence) {
            tally.note_rows(Outcome::NoRoom, 1);
            return false;
        }
        building.rows.push((place, stage));
        self.under_way += 1;
        tally.note_under_way(1, 0);
        if building.rows.len() == ROWS_MAX || bytes.len() >= MESSAGE_LEN {
            self.send(at);
        }
        true
    }

    /// Sends rows that wait for company.
    pub fn flush(&mut self) {
        for at in 0..self.building.len() {
            self.send(at);
        }
    }

    fn send(&mut self, at: usize) {
        let Some(building) = self.building.get_mut(at) else { return };
        let Some(bytes) = building.bytes.take() else { return };
        let rows = std::mem::take(&mut building.rows);
        let bytes = Bytes::from(bytes.into_bytes());
        let sent = Sent { at: self.now(), partition: at, bytes, rows };
        self.publish(self.first_number + self.sent.len() as u64, &sent, false);
        self.repeats_left = (self.repeats_left + REPEATS_PER_MESSAGE).min(REPEATS_MAX);
        self.sent.push_back(sent);
    }

    /// A message for which there is no room is one without an answer.
    fn publish(&self, number: u64, sent: &Sent, is_repeated: bool) {
        let Some(building) = self.building.get(sent.partition) else { return };
        let parcel = Parcel {
            subject: building.subject.clone(),
            reply: format!("{}.{number}", self.inbox),
            bytes: sent.bytes.clone(),
        };
        if let Some(to) = &self.shared.to
            && to.try_send(parcel).is_ok()
        {
            self.shared.tally.note_message(is_repeated);
        }
    }

    /// Appends the outcomes since the last call; where `waits` and rows are under way, at least
    /// one.
    pub fn take(&mut self, waits: bool, outcomes: &mut Vec<RowOutcome>) {
        let before = outcomes.len();
        if waits {
            self.flush();
        }
        loop {
            while let Ok(arrival) = self.answers.try_recv() {
                self.on_arrival(arrival, outcomes);
            }
            let next = self.look_at_clock(outcomes);
            if !waits || self.under_way == 0 || outcomes.len() > before {
                return;
            }
            match self.answers.recv_timeout(next) {
                Ok(arrival) => self.on_arrival(arrival, outcomes),
                Err(RecvTimeoutError::Timeout) => {}
                // The other end lives as long as `shared`.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(next),
            }
        }
    }

    fn on_arrival(&mut self, arrival: Arrival, outcomes: &mut Vec<RowOutcome>) {
        let Arrival { number, at: came, answer, outcome } = arrival;
        let at = number.checked_sub(self.first_number).and_then(|at| usize::try_from(at).ok());
        let (deadline, tally) = (self.deadline, &self.shared.tally);
        let is_open =
            |sent: &&mut Sent| !sent.rows.is_empty() && came.saturating_sub(sent.at) < deadline;
        let Some(sent) = at.and_then(|at| self.sent.get_mut(at)).filter(is_open) else {
            return tally.note_unexpected();
        };
        let class_count = self.class_count;
        let fits = |answer: &Answer| {
            answer.rows.len() == sent.rows.len()
                && answer.rows.iter().all(|row| row.is_of(class_count))
        };
        let answer = answer.filter(|answer| outcome == Outcome::Answered && fits(answer));
        let outcome = match (&answer, outcome) {
            (None, Outcome::Answered) => Outcome::Refused,
            _ => outcome,
        };
        let rows = std::mem::take(&mut sent.rows);
        match &answer {
            Some(answer) => {
                tally.note_times(came.saturating_sub(sent.at), answer.spent, rows.len());
                tally.note_well();
            }
            None => tally.note_trouble(&self.trouble(outcome)),
        }
        let answers = answer.map(|answer| answer.rows).unwrap_or_default();
        self.settle(&rows, &answers, outcome, outcomes);
    }

    fn settle(
        &mut self,
        rows: &[(u32, u8)],
        answers: &[RowAnswer],
        outcome: Outcome,
        outcomes: &mut Vec<RowOutcome>,
    ) {
        let tally = &self.shared.tally;
        tally.note_rows(outcome, rows.len());
        tally.note_under_way(0, rows.len());
        self.under_way = self.under_way.saturating_sub(rows.len());
        outcomes.extend(rows.iter().enumerate().map(|(at, &(place, stage))| RowOutcome {
            place,
            stage,
            answer: answers.get(at).copied(),
        }));
    }

    fn trouble(&self, outcome: Outcome) -> String {
        let model = &self.model;
        match outcome {
            Outcome::NoWorker => {
                format!("no worker has {model}; earlier models decide (wirelens worker --model)")
            }
            Outcome::Busy => String::from("workers have no room; earlier models decide"),
            Outcome::Refused => format!("a worker refuses rows of {model}: another version?"),
            _ => String::from("answers come too late; earlier models decide"),
        }
    }

    /// Gives up what is past its deadline, and publishes again what has waited for half of it: who
    /// had it may be gone. Returns how long nothing of that is to be done.
    fn look_at_clock(&mut self, outcomes: &mut Vec<RowOutcome>) -> Duration {
        let now = self.now();
        if self.stops_at.is_none() && self.stop.load(Relaxed) {
            self.stops_at = Some(now + STOP_WITHIN);
        }
        let is_over = self.stops_at.is_some_and(|at| now >= at);
        while let Some(first) = self.sent.front_mut() {
            let is_late = is_over || now.saturating_sub(first.at) >= self.deadline;
            if !first.rows.is_empty() && !is_late {
                break;
            }
            let rows = std::mem::take(&mut first.rows);
            self.sent.pop_front();
            self.first_number += 1;
            if !rows.is_empty() {
                self.shared.tally.note_trouble(&self.trouble(Outcome::Late));
                self.settle(&rows, &[], Outcome::Late, outcomes);
            }
        }
        self.repeated = self.repeated.max(self.first_number);
        loop {
            let at = usize::try_from(self.repeated - self.first_number).unwrap_or(usize::MAX);
            let Some(sent) = self.sent.get(at) else { break };
            if now.saturating_sub(sent.at) < self.deadline / 2 {
                break;
            }
            if !sent.rows.is_empty() && self.repeats_left >= 1.0 {
                self.publish(self.repeated, sent, true);
                self.repeats_left -= 1.0;
            }
            self.repeated += 1;
        }
        let again = usize::try_from(self.repeated - self.first_number).unwrap_or(usize::MAX);
        let ends = self.sent.front().map(|first| first.at + self.deadline);
        let again = self.sent.get(again).map(|sent| sent.at + self.deadline / 2);
        let next = ends.into_iter().chain(again).min();
        let wait = next.map_or(self.deadline, |at| at.saturating_sub(now));
        wait.clamp(Duration::from_micros(100), LOOK_EVERY)
    }
}
