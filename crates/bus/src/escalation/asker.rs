//! Asking on behalf of a thread that keeps flows: rows become messages, and each row has one
//! outcome, by its deadline at the latest.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use async_nats::Subject;
use bytes::Bytes;

use super::format::{self, Answer, EscalationBytes, Evidence, HEAD_LEN, RowAnswer};
use super::sensor::{Arrival, Escalations, Parcel};
use super::tally::Outcome;
use super::{PARTITION_COUNT, subject};

/// A message is sent when it has so many bytes, if not before. Where the broker takes less, before
/// it would have more than that.
const MESSAGE_LEN: usize = 128 << 10;

/// The same for its rows. A sensor's time goes by messages, of which so many rows have hardly any
/// part each; more would only keep rows that another thread or worker could score.
const MESSAGE_ROWS: usize = 64;

/// What is under way when the run is to end has so long, if its deadline is later.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// Messages that may be published again in one call, as after the end of a worker that had them.
const REPEATS_MAX: f64 = 64.0;

/// Beyond these, of each message that is sent: where workers have too much to do, most messages
/// wait for half of their deadline, and all of them twice would be more work yet.
const REPEATS_PER_MESSAGE: f64 = 0.1;

/// Who waits for answers looks so often whether the run is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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
struct Building {
    subject: Subject,
    bytes: Option<EscalationBytes>,
    rows: Vec<(u32, u8)>,
    /// Memory of a message that is over, for one to come: what so many bytes are taken from and
    /// given back to is the system, with a fault for each page.
    spare: Vec<u8>,
}

impl Building {
    fn len(&self) -> usize {
        self.bytes.as_ref().map_or(0, EscalationBytes::len)
    }
}

/// A message without an answer.
struct Sent {
    at: Duration,
    part: usize,
    bytes: Bytes,
    /// Empty where all have an outcome.
    rows: Vec<(u32, u8)>,
    /// Whether it was published twice, and neither copy was refused so far.
    is_twice: bool,
}

/// Asks workers on behalf of a thread that keeps flows.
pub struct Asker {
    shared: Arc<Escalations>,
    /// Its place among the askers, which answers name.
    index: usize,
    model: String,
    class_count: usize,
    deadline: Duration,
    rows_max: usize,
    stop: Arc<AtomicBool>,
    /// From here on nothing is waited for.
    stops_at: Option<Duration>,
    answers: Receiver<Arrival>,
    /// By part.
    building: Vec<Building>,
    /// Messages that go to the connection together.
    parcels: Vec<Parcel>,
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

impl Escalations {
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
        let index = askers.len();
        askers.push(to);
        let of = |part: u16| Building {
            subject: subject(&self.options.prefix, model, &part.to_string()).into(),
            bytes: None,
            rows: Vec::new(),
            spare: Vec::new(),
        };
        Asker {
            shared: Arc::clone(self),
            index,
            model: model.to_owned(),
            class_count,
            deadline,
            rows_max,
            stop,
            stops_at: None,
            answers,
            building: (0..PARTITION_COUNT).map(of).collect(),
            parcels: Vec::new(),
            sent: VecDeque::new(),
            first_number: 0,
            repeated: 0,
            repeats_left: REPEATS_MAX,
            under_way: 0,
        }
    }
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
    /// for any message that the broker takes.
    pub fn ask(
        &mut self,
        (place, partition): (u32, u16),
        stage: u8,
        records: &[u8],
        numbers: &[f32],
        evidence: Option<Evidence>,
    ) -> bool {
        let row_len = format::row_len(records, numbers, evidence);
        let len_max = self.shared.len_max.load(Relaxed);
        let has_room = self.under_way < self.rows_max && HEAD_LEN + row_len <= len_max;
        let why_not = match self.shared.tally.is_connected() {
            false => Some(Outcome::Away),
            true => (!has_room).then_some(Outcome::NoRoom),
        };
        if let Some(why_not) = why_not {
            self.shared.tally.note_rows(why_not, 1);
            return false;
        }
        let part = usize::from(partition % PARTITION_COUNT);
        if self.building.get(part).is_some_and(|building| building.len() + row_len > len_max) {
            self.seal(part);
            self.hand_over();
        }
        let deadline = self.deadline;
        let Some(building) = self.building.get_mut(part) else { return false };
        let spare = &mut building.spare;
        let bytes =
            building.bytes.get_or_insert_with(|| EscalationBytes::new(deadline, mem::take(spare)));
        if !bytes.push(stage, records, numbers, evidence) {
            self.shared.tally.note_rows(Outcome::NoRoom, 1);
            return false;
        }
        let is_long = bytes.len() >= MESSAGE_LEN;
        building.rows.push((place, stage));
        let is_full = is_long || building.rows.len() == MESSAGE_ROWS;
        self.under_way += 1;
        self.shared.tally.note_asked();
        if is_full {
            self.seal(part);
            self.hand_over();
        }
        true
    }

    /// Sends rows that wait for company.
    pub fn flush(&mut self) {
        for part in 0..self.building.len() {
            self.seal(part);
        }
        self.hand_over();
    }

    /// Makes a message of the rows of a part, for the next [`hand_over`](Self::hand_over).
    fn seal(&mut self, part: usize) {
        let Some(building) = self.building.get_mut(part) else { return };
        if building.rows.is_empty() {
            return;
        }
        let Some(bytes) = building.bytes.take() else { return };
        let rows = mem::replace(&mut building.rows, Vec::with_capacity(MESSAGE_ROWS));
        let bytes = Bytes::from(bytes.into_bytes());
        let sent = Sent { at: self.now(), part, bytes, rows, is_twice: false };
        let parcel = self.parcel(self.first_number + self.sent.len() as u64, &sent, false);
        self.parcels.extend(parcel);
        self.repeats_left = (self.repeats_left + REPEATS_PER_MESSAGE).min(REPEATS_MAX);
        self.sent.push_back(sent);
    }

    fn parcel(&self, number: u64, sent: &Sent, is_repeated: bool) -> Option<Parcel> {
        let subject = self.building.get(sent.part)?.subject.clone();
        let (bytes, until) = (sent.bytes.clone(), sent.at + self.deadline);
        Some(Parcel { subject, asker: self.index, number, bytes, until, is_repeated })
    }

    /// Passes messages to the connection. Those for which there is no room have no answer.
    fn hand_over(&mut self) {
        if self.parcels.is_empty() {
            return;
        }
        let parcels = mem::take(&mut self.parcels);
        let count = parcels.len();
        let repeated = parcels.iter().filter(|parcel| parcel.is_repeated).count();
        if let Some(to) = &self.shared.to
            && to.try_send(parcels).is_ok()
        {
            self.shared.tally.note_messages(count, repeated);
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
        // The other copy may be with a worker that answers.
        if answer.is_none() && mem::take(&mut sent.is_twice) {
            return tally.note_unexpected();
        }
        let rows = mem::take(&mut sent.rows);
        let bytes = mem::take(&mut sent.bytes);
        if let Some(building) = self.building.get_mut(sent.part).filter(|_| bytes.is_unique()) {
            building.spare = bytes.into();
        }
        match &answer {
            Some(answer) => {
                tally.note_times(came.saturating_sub(sent.at), answer.spent, rows.len());
                tally.note_well();
            }
            None => tally.note_trouble(&self.trouble(outcome), came),
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
        self.shared.tally.note_settled(outcome, rows.len());
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
            Outcome::NoRoom => String::from(
                "messages are longer than the broker takes (max_payload); earlier models decide",
            ),
            Outcome::Away => {
                String::from("the connection takes no messages; earlier models decide")
            }
            Outcome::Answered | Outcome::Late => {
                String::from("answers come too late; earlier models decide")
            }
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
            let rows = mem::take(&mut first.rows);
            self.sent.pop_front();
            self.first_number += 1;
            if !rows.is_empty() {
                self.shared.tally.note_trouble(&self.trouble(Outcome::Late), now);
                self.settle(&rows, &[], Outcome::Late, outcomes);
            }
        }
        self.repeat(now);
        let again = usize::try_from(self.repeated - self.first_number).unwrap_or(usize::MAX);
        let ends = self.sent.front().map(|first| first.at + self.deadline);
        let again = self.sent.get(again).map(|sent| sent.at + self.deadline / 2);
        let next = ends.into_iter().chain(again).min();
        let wait = next.map_or(self.deadline, |at| at.saturating_sub(now));
        wait.clamp(Duration::from_micros(100), LOOK_EVERY)
    }

    fn repeat(&mut self, now: Duration) {
        self.repeated = self.repeated.max(self.first_number);
        loop {
            let at = usize::try_from(self.repeated - self.first_number).unwrap_or(usize::MAX);
            let Some(sent) = self.sent.get(at) else { break };
            if now.saturating_sub(sent.at) < self.deadline / 2 {
                break;
            }
            if !sent.rows.is_empty() && self.repeats_left >= 1.0 {
                let parcel = self.parcel(self.repeated, sent, true);
                self.parcels.extend(parcel);
                if let Some(sent) = self.sent.get_mut(at) {
                    sent.is_twice = true;
                }
                self.repeats_left -= 1.0;
            }
            self.repeated += 1;
        }
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize};
    use std::sync::mpsc::Sender;

    use tokio::sync::mpsc as parcels;

    use super::super::format::{ROW_HEAD_LEN, Status};
    use super::super::sensor::EscalationOptions;
    use super::super::tally::EscalationTally;
    use super::*;
    use crate::Link;

    /// An asker, with what it hands over and a way to answer, in place of a broker.
    struct Bench {
        asker: Asker,
        lists: parcels::Receiver<Vec<Parcel>>,
        answers: Sender<Arrival>,
    }

    impl Bench {
        fn new(monotonic: fn() -> Duration, len_max: usize) -> Self {
            let (to, lists) = parcels::channel(8);
            let options = EscalationOptions {
                link: Link::default(),
                prefix: String::from("wirelens"),
                sensor: String::from("s"),
                run: String::from("1"),
                monotonic,
                tell: |_| {},
            };
            let tally = Arc::new(EscalationTally::new(options.tell));
            tally.note_connected();
            let len_max = Arc::new(AtomicUsize::new(len_max));
            let (askers, to) = (Arc::default(), Some(to));
            let shared =
                Arc::new(Escalations { options, tally, askers, len_max, to, thread: None });
            let asker = shared.asker(("m", 3), Duration::from_millis(100), 100, Arc::default());
            let answers = shared.askers.lock().unwrap()[0].clone();
            Self { asker, lists, answers }
        }

        fn ask(&mut self, place: u32, partition: u16) -> bool {
            self.asker.ask((place, partition), 1, &[7; 100], &[], None)
        }

        /// The next list that was handed over: number, whether it is repeated, and bytes of each.
        fn handed(&mut self) -> Vec<(u64, bool, usize)> {
            let list = self.lists.try_recv().unwrap_or_default();
            list.iter().map(|one| (one.number, one.is_repeated, one.bytes.len())).collect()
        }

        /// An answer of this outcome to a message of one row, and the outcomes of rows after it:
        /// place, and whether it is answered.
        fn arrive(&mut self, number: u64, at_ms: u64, outcome: Outcome) -> Vec<(u32, bool)> {
            let row = RowAnswer { label: 2, guess: 2, confidence: 0.5, uncertainty: 0.5 };
            let rows = vec![row];
            let answer = Answer { status: Status::Answered, spent: Duration::ZERO, rows };
            let answer = (outcome == Outcome::Answered).then_some(answer);
            let at = Duration::from_millis(at_ms);
            self.answers.send(Arrival { number, at, answer, outcome }).unwrap();
            self.outcomes()
        }

        fn outcomes(&mut self) -> Vec<(u32, bool)> {
            let mut outcomes = Vec::new();
            self.asker.take(false, &mut outcomes);
            outcomes.iter().map(|one| (one.place, one.answer.is_some())).collect()
        }
    }

    /// Bytes of a message with so many rows.
    fn message_len(row_count: usize) -> usize {
        HEAD_LEN + row_count * (ROW_HEAD_LEN + 100)
    }

    #[test]
    fn messages_of_a_flush_are_handed_over_together() {
        let mut bench = Bench::new(|| Duration::ZERO, usize::MAX);
        for (place, partition) in [(0, 0), (1, 2), (2, 2), (3, 3)] {
            assert!(bench.ask(place, partition));
        }
        assert_eq!(bench.handed(), []);
        bench.asker.flush();
        let lens = [message_len(1), message_len(2), message_len(1)];
        assert_eq!(bench.handed(), [(0, false, lens[0]), (1, false, lens[1]), (2, false, lens[2])]);
        bench.asker.flush();
        assert_eq!(bench.handed(), []);
        assert_eq!(bench.asker.under_way(), 4);
        // No more than 100 are under way.
        assert!((4..100).all(|place| bench.ask(place, 0)) && !bench.ask(100, 0));
    }

    #[test]
    fn a_part_of_the_flows_has_a_subject_of_its_own() {
        let mut bench = Bench::new(|| Duration::ZERO, usize::MAX);
        let parts: Vec<_> = (0..6)
            .map(|place| {
                assert!(bench.ask(place, (place % 3).try_into().unwrap()));
                bench.asker.flush();
                bench.lists.try_recv().unwrap()[0].subject.to_string()
            })
            .collect();
        let of = |part: u16| subject("wirelens", "m", &part.to_string());
        assert_eq!(parts, [0, 1, 2, 0, 1, 2].map(of));
    }

    #[test]
    fn a_message_that_is_full_is_not_held() {
        let mut bench = Bench::new(|| Duration::ZERO, usize::MAX);
        let full = u32::try_from(MESSAGE_ROWS).unwrap();
        assert!((0..=full).all(|place| bench.ask(place, 1)));
        assert_eq!(bench.handed(), [(0, false, message_len(MESSAGE_ROWS))]);
        bench.asker.flush();
        assert_eq!(bench.handed(), [(1, false, message_len(1))]);
    }

    #[test]
    fn no_message_is_longer_than_the_broker_takes() {
        let mut bench = Bench::new(|| Duration::ZERO, message_len(2) + 1);
        assert!((0..3).all(|place| bench.ask(place, 1)));
        assert_eq!(bench.handed(), [(0, false, message_len(2))]);
        bench.asker.flush();
        assert_eq!(bench.handed(), [(1, false, message_len(1))]);
        assert!(!bench.asker.ask((3, 1), 1, &[7; 300], &[], None));
        bench.asker.flush();
        assert_eq!((bench.handed(), bench.asker.under_way()), (vec![], 3));
    }

    #[test]
    fn a_refusal_of_one_of_two_copies_leaves_the_other() {
        static NOW_MS: AtomicU64 = AtomicU64::new(0);
        let mut bench = Bench::new(|| Duration::from_millis(NOW_MS.load(Relaxed)), usize::MAX);
        for place in 0..4 {
            assert!(bench.ask(place, 0));
            bench.asker.flush();
            assert_eq!(bench.handed(), [(u64::from(place), false, message_len(1))]);
        }
        // Published once: what is refused is decided.
        assert_eq!(bench.arrive(0, 40, Outcome::Busy), [(0, false)]);
        NOW_MS.store(50, Relaxed);
        assert_eq!(bench.outcomes(), []);
        let again = [1, 2, 3].map(|number| (number, true, message_len(1)));
        assert_eq!(bench.handed(), again);
        assert_eq!(bench.arrive(1, 60, Outcome::Busy), []);
        assert_eq!(bench.arrive(1, 70, Outcome::Answered), [(1, true)]);
        assert_eq!(bench.arrive(2, 60, Outcome::NoWorker), []);
        assert_eq!(bench.arrive(2, 70, Outcome::Refused), [(2, false)]);
        assert_eq!(bench.arrive(3, 60, Outcome::Refused), []);
        NOW_MS.store(100, Relaxed);
        assert_eq!(bench.outcomes(), [(3, false)]);
        assert_eq!((bench.handed(), bench.asker.under_way()), (vec![], 0));
    }
}
