//! A worker: rows of any number of sensors, scored by as many threads as it is given.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{SelectAll, select_all};
use store::Count;
use tokio::sync::mpsc::{self as parcels, Receiver, Sender};
use tokio::time::{interval, sleep, timeout};

use super::format::{self, RowAnswer, RowFields, Status};
use super::{PARTITION_COUNT, subject};
use crate::link::{Link, LinkEvent, OpenError, connect, wait_before};
use crate::message::token;
use crate::{BusError, runtime};

/// Messages that wait for a thread at most.
const WAITING_MAX: usize = 1024;

/// How often it is looked whether the worker is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What was handed out before it ends has so long to come, and answers to go: after that, answers
/// for a broker that takes none are dropped.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// A batch that is not full waits for this part of its oldest message's time to live at most.
const BATCH_WAIT_PART: u32 = 8;

/// Workers of a model share its messages.
const GROUP: &str = "workers";

/// Which rows a worker answers.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The broker, and how it is reached.
    pub link: Link,
    /// The first word of every subject.
    pub prefix: String,
    /// The model, as sensors name it.
    pub model: String,
    /// Parts of the flows that it takes.
    pub partitions: RangeInclusive<u16>,
    /// Its name, for the broker's lists.
    pub name: String,
    /// Threads that score.
    pub thread_count: usize,
    /// Rows that a thread scores together, where that is cheaper than one message after the other:
    /// a batch is scored when it has so many, or when its oldest has waited for
    /// an eighth of its time to live. None: a message is scored when its turn comes.
    pub batch_rows: Option<usize>,
    /// Monotonic time, lent by the front end.
    pub monotonic: fn() -> Duration,
    /// Prints messages for users; a line each.
    pub tell: fn(&str),
}

/// Why rows have no answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnswerError {
    /// One of them is none of the model's.
    OtherModel,
    /// The model failed, and how. What it would have said is not known: no answer is given for it.
    Failure(String),
}

/// A model that scores rows, of which each thread has its own.
pub trait AnswerRows {
    /// Appends an answer for each row.
    ///
    /// # Errors
    /// [`AnswerError`]; then nothing is appended.
    fn answer(
        &mut self,
        rows: &[RowFields<'_>],
        answers: &mut Vec<RowAnswer>,
    ) -> Result<(), AnswerError>;
}

/// What a worker has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerCounts {
    /// Rows that were answered.
    pub answered: u64,
    /// Messages that were answered.
    pub messages: u64,
    /// Times that a model was asked.
    pub batches: u64,
    /// Messages whose time to live was over before a thread was free.
    pub late: u64,
    /// Messages that found no room to wait.
    pub busy: u64,
    /// Messages that are damaged, of another version, or with rows of another model.
    pub refused: u64,
    /// Messages that the model could not score, which have no answer.
    pub failed: u64,
}

#[derive(Default)]
struct WorkerTally {
    answered: AtomicU64,
    messages: AtomicU64,
    batches: AtomicU64,
    late: AtomicU64,
    busy: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl WorkerTally {
    fn note(&self, status: Status, row_count: usize) {
        let messages = match status {
            Status::Answered => &self.messages,
            Status::Refused => &self.refused,
            Status::Late => &self.late,
            Status::Busy => &self.busy,
        };
        messages.fetch_add(1, Relaxed);
        self.answered.fetch_add(row_count as u64, Relaxed);
    }

    fn counts(&self) -> WorkerCounts {
        WorkerCounts {
            answered: self.answered.load(Relaxed),
            messages: self.messages.load(Relaxed),
            batches: self.batches.load(Relaxed),
            late: self.late.load(Relaxed),
            busy: self.busy.load(Relaxed),
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

impl WorkerCounts {
    /// What they are called in metrics.
    fn metrics(&self) -> Vec<Count> {
        let about = "Messages of sensors, by outcome.";
        let outcomes = [
            ("answered", self.messages),
            ("late", self.late),
            ("busy", self.busy),
            ("refused", self.refused),
            ("failed", self.failed),
        ];
        let messages = outcomes.map(|(outcome, count)| {
            Count::total("messages", about, count).with("outcome", outcome)
        });
        let mut counts = messages.to_vec();
        counts.extend([
            Count::total("rows_answered", "Rows that were answered.", self.answered),
            Count::total("batches", "Times that a model was asked.", self.batches),
        ]);
        counts
    }
}

/// A message that waits for a thread.
struct Job {
    reply: Subject,
    bytes: Bytes,
    came: Duration,
    time_to_live: Duration,
    row_count: usize,
}

/// Messages that wait for threads.
#[derive(Default)]
struct Jobs {
    waiting: Mutex<(VecDeque<Job>, bool)>,
    more: Condvar,
}

impl Jobs {
    fn lock(&self) -> MutexGuard<'_, (VecDeque<Job>, bool)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was room.
    fn push(&self, job: Job) -> bool {
        let mut waiting = self.lock();
        let has_room = waiting.0.len() < WAITING_MAX;
        if has_room {
            waiting.0.push_back(job);
            self.more.notify_one();
        }
        has_room
    }

    fn end(&self) {
        self.lock().1 = true;
        self.more.notify_all();
    }

    /// Waits for a message; none where there will be no more.
    ///
    /// The oldest is next, unless it has used up half of its time. Then more comes than can be
    /// answered, and in the order of arrival each would be scored when its time is over: the newest
    /// is next, which can still be in time, and the oldest again once it is late for certain.
    fn take(&self, now: impl Fn() -> Duration) -> Option<Job> {
        let mut waiting = self.lock();
        while waiting.0.is_empty() && !waiting.1 {
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        next(&mut waiting.0, now())
    }

    /// Waits for messages with so many rows together, or for what there is once the first of them
    /// has waited long enough; none where there will be no more.
    fn take_batch(&self, rows_max: usize, now: impl Fn() -> Duration) -> Vec<Job> {
        let Some(first) = self.take(&now) else { return Vec::new() };
        let until = first.came + first.time_to_live / BATCH_WAIT_PART;
        let mut row_count = first.row_count;
        let mut batch = vec![first];
        let mut waiting = self.lock();
        loop {
            while let Some(job) = waiting.0.front()
                && row_count + job.row_count <= rows_max
            {
                let Some(job) = next(&mut waiting.0, now()) else { break };
                row_count += job.row_count;
                batch.push(job);
            }
            let left = until.saturating_sub(now());
            if !waiting.0.is_empty() || waiting.1 || row_count >= rows_max || left.is_zero() {
                return batch;
            }
            let woken = self.more.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The message that is next, as [`Jobs::take`] says.
fn next(waiting: &mut VecDeque<Job>, now: Duration) -> Option<Job> {
    let oldest = waiting.front()?;
    let age = now.saturating_sub(oldest.came);
    let is_behind = age >= oldest.time_to_live / 2 && age <= oldest.time_to_live;
    if is_behind { waiting.pop_back() } else { waiting.pop_front() }
}

type Reply = (Subject, Vec<u8>);

/// A worker that is connected, or waits for its broker.
pub struct Worker {
    options: WorkerOptions,
    tally: WorkerTally,
    jobs: Jobs,
    is_connected: Arc<AtomicBool>,
}

impl Worker {
    /// One that has done nothing yet.
    #[must_use]
    pub fn new(options: WorkerOptions) -> Self {
        let (tally, jobs) = (WorkerTally::default(), Jobs::default());
        Self { options, tally, jobs, is_connected: Arc::default() }
    }

    /// What it has done so far, and what waits.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn metrics(&self) -> Vec<Count> {
        let (waiting, is_connected) = (self.jobs.lock().0.len(), self.is_connected.load(Relaxed));
        let about = "1 while the broker is reached, otherwise 0.";
        let mut counts = self.tally.counts().metrics();
        counts.extend([
            Count::gauge("connected", about, f64::from(is_connected)),
            Count::gauge("messages_waiting", "Messages that wait for a thread.", waiting as f64),
        ]);
        counts
    }

    /// Answers rows until it is to end; then what waits is answered, and no more is taken. `make`
    /// makes the model of each thread.
    ///
    /// # Errors
    /// [`BusError`], where trying again would not help.
    pub fn run<A: AnswerRows>(
        &self,
        make: impl Fn() -> A + Sync,
        ends: &AtomicBool,
    ) -> Result<WorkerCounts, BusError> {
        let runtime = runtime().map_err(BusError::Start)?;
        let (to, replies) = parcels::channel(WAITING_MAX);
        let done = thread::scope(|scope| {
            for _ in 0..self.options.thread_count.max(1) {
                let (to, make) = (to.clone(), &make);
                scope.spawn(move || self.score(make(), &to));
            }
            let carried = runtime.block_on(self.carry((to, replies), ends));
            self.jobs.end();
            carried
        });
        // No end waits for the name of a server.
        runtime.shutdown_background();
        done.map(|()| self.tally.counts())
    }

    fn now(&self) -> Duration {
        (self.options.monotonic)()
    }

    /// A thread's work.
    fn score<A: AnswerRows>(&self, mut model: A, to: &Sender<Reply>) {
        let now = || self.now();
        loop {
            let jobs = match self.options.batch_rows {
                Some(rows_max) => self.jobs.take_batch(rows_max, now),
                None => self.jobs.take(now).into_iter().collect(),
            };
            if jobs.is_empty() {
                return;
            }
            for (job, outcome) in jobs.iter().zip(self.answers(&mut model, &jobs)) {
                let Some((status, answers)) = outcome else { continue };
                self.tally.note(status, answers.len());
                let spent = self.now().saturating_sub(job.came);
                let bytes = format::answer_bytes(status, spent, &answers);
                if to.blocking_send((job.reply.clone(), bytes)).is_err() {
                    // The broker took none when all was to end: what waits has no answer either.
                    return;
                }
            }
        }
    }

    /// An answer to each of some messages, whose rows are scored together; none where the model
    /// fails. The sensor then asks once more, as of a worker that is gone, and decides by itself
    /// at its deadline: none of the statuses says so, and an answer that says nothing would count
    /// as one.
    fn answers<A: AnswerRows>(
        &self,
        model: &mut A,
        jobs: &[Job],
    ) -> Vec<Option<(Status, Vec<RowAnswer>)>> {
        let mut rows = Vec::new();
        let mut spans = Vec::with_capacity(jobs.len());
        for job in jobs {
            let start = rows.len();
            let status = match format::read_rows(&job.bytes, &mut rows) {
                Err(_) => Status::Refused,
                Ok(span) if self.now().saturating_sub(job.came) > span => Status::Late,
                Ok(_) => Status::Answered,
            };
            if status != Status::Answered {
                rows.truncate(start);
            }
            spans.push((status, start..rows.len()));
        }
        let together = self.ask(model, &rows);
        let mut outcomes = Vec::with_capacity(jobs.len());
        for (status, span) in spans {
            if status != Status::Answered {
                outcomes.push(Some((status, Vec::new())));
                continue;
            }
            let own = match &together {
                Ok(answers) => Ok(answers.get(span).unwrap_or_default().to_vec()),
                // One of them is another's, or they are too many: each message is scored alone.
                Err(_) if jobs.len() > 1 => self.ask(model, rows.get(span).unwrap_or_default()),
                Err(error) => Err(error.clone()),
            };
            outcomes.push(match own {
                Ok(answers) => Some((status, answers)),
                Err(AnswerError::OtherModel) => Some((Status::Refused, Vec::new())),
                Err(AnswerError::Failure(why)) => {
                    self.note_failure(&why);
                    None
                }
            });
        }
        outcomes
    }

    fn ask<A: AnswerRows>(
        &self,
        model: &mut A,
        rows: &[RowFields<'_>],
    ) -> Result<Vec<RowAnswer>, AnswerError> {
        let mut answers = Vec::with_capacity(rows.len());
        if !rows.is_empty() {
            self.tally.batches.fetch_add(1, Relaxed);
            model.answer(rows, &mut answers)?;
        }
        Ok(answers)
    }

    /// A message could not be scored: reported once, as a card that fails may do so with each.
    fn note_failure(&self, why: &str) {
        if self.tally.failed.fetch_add(1, Relaxed) == 0 {
            let model = &self.options.model;
            (self.options.tell)(&format!(
                "{model} fails: {why}; its messages have no answer, and earlier models decide"
            ));
        }
    }

    async fn open(&self) -> Result<(Client, Vec<Subscriber>), OpenError> {
        let WorkerOptions { link, prefix, model, partitions, name, tell, .. } = &self.options;
        let (tell, is_connected) = (*tell, Arc::clone(&self.is_connected));
        let on_event = move |event| match event {
            LinkEvent::Connected => {
                is_connected.store(true, Relaxed);
                tell("nats: connected");
            }
            LinkEvent::Away(why) => {
                is_connected.store(false, Relaxed);
                tell(&format!("nats: the broker is away ({why})"));
            }
            LinkEvent::Trouble(why) => tell(&format!("nats: {why}")),
        };
        let inbox = format!("_INBOX.{}", token(name));
        let client = connect(link, name, &inbox, Arc::new(on_event)).await?;
        let is_all = *partitions == (0..=PARTITION_COUNT - 1);
        let parts: Vec<_> = match is_all {
            true => vec![String::from("*")],
            false => partitions.clone().map(|part| part.to_string()).collect(),
        };
        let mut subscribers = Vec::new();
        for part in parts {
            let subject = subject(prefix, model, &part);
            let subscriber = client.queue_subscribe(subject, GROUP.into()).await;
            subscribers.push(subscriber.map_err(|error| OpenError::Away(error.to_string()))?);
        }
        Ok((client, subscribers))
    }

    /// Carries messages to the threads and replies back, until the worker is to end.
    async fn carry(
        &self,
        (to, replies): (Sender<Reply>, Receiver<Reply>),
        ends: &AtomicBool,
    ) -> Result<(), BusError> {
        let mut attempt = 1;
        let (client, subscribers) = loop {
            match self.open().await {
                Ok(opened) => break opened,
                Err(OpenError::Refused(error)) => return Err(error),
                Err(OpenError::Away(why)) if attempt == 1 => {
                    (self.options.tell)(&format!("nats: the broker is away ({why})"));
                }
                Err(OpenError::Away(_)) => {}
            }
            sleep(wait_before(attempt)).await;
            attempt += 1;
            if ends.load(Relaxed) {
                return Ok(());
            }
        };
        // Each by itself: a broker that takes no reply holds up neither what comes nor the end.
        let take_all = self.take_all(select_all(subscribers), to, ends);
        tokio::join!(take_all, send_all(&client, replies, ends));
        // Answers that are not out now are late anyway.
        let _ = timeout(LEAVE_WITHIN, client.flush()).await;
        Ok(())
    }

    /// Passes messages to the threads until the worker is to end, and then what the broker has
    /// handed out already.
    async fn take_all(
        &self,
        mut messages: SelectAll<Subscriber>,
        to: Sender<Reply>,
        ends: &AtomicBool,
    ) {
        let mut look = interval(LOOK_EVERY);
        while !ends.load(Relaxed) {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.take_in(message, &to),
                    None => break,
                },
                _ = look.tick() => {}
            }
        }
        let last = async {
            for subscriber in messages.iter_mut() {
                // Others of the group get what comes from here on.
                let _ = subscriber.drain().await;
            }
            while let Some(message) = messages.next().await {
                self.take_in(message, &to);
            }
        };
        // A broker that is away has nothing to hand out.
        let _ = timeout(LEAVE_WITHIN, last).await;
        // With the threads, and `to` of this one, replies end.
        self.jobs.end();
    }

    fn take_in(&self, message: Message, to: &Sender<Reply>) {
        let Message { reply: Some(reply), payload: bytes, .. } = message else {
            return self.tally.note(Status::Refused, 0);
        };
        // What is damaged is refused when its turn comes.
        let (row_count, time_to_live) = format::size(&bytes).unwrap_or_default();
        let came = self.now();
        let job = Job { reply: reply.clone(), bytes, came, time_to_live, row_count };
        if !self.jobs.push(job) {
            self.tally.note(Status::Busy, 0);
            // Without room even for that, its sensor sees the deadline pass.
            let _ = to.try_send((reply, format::answer_bytes(Status::Busy, Duration::ZERO, &[])));
        }
    }
}

/// Sends replies until there are no more, or the worker is to end and the broker takes none.
async fn send_all(client: &Client, mut replies: Receiver<Reply>, ends: &AtomicBool) {
    while let Some((reply, bytes)) = replies.recv().await {
        // A reply that waits for a broker which is away comes too late.
        if client.connection_state() != State::Connected {
            continue;
        }
        tokio::select! {
            biased;
            // Where it is not sent, its sensor sees the deadline pass.
            _ = client.publish(reply, Bytes::from(bytes)) => {}
            () = given_up(ends) => return,
        }
    }
}

/// Returns once the worker is to end and some time has passed.
async fn given_up(ends: &AtomicBool) {
    loop {
        sleep(LEAVE_WITHIN).await;
        if ends.load(Relaxed) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_comes_first_where_the_oldest_is_behind() {
        let ms = Duration::from_millis;
        let jobs = Jobs::default();
        for at in 0..10 {
            let reply = Subject::from(at.to_string());
            let (bytes, came, time_to_live) = (Bytes::new(), ms(at), ms(100));
            assert!(jobs.push(Job { reply, bytes, came, time_to_live, row_count: 1 }));
        }
        let next = |now| jobs.take(|| ms(now)).unwrap().reply.to_string();
        // In time, behind, and late.
        assert_eq!([next(10), next(50)], ["0", "1"]);
        assert_eq!([next(52), next(52), next(102)], ["9", "8", "7"]);
        assert_eq!([next(103), next(103), next(104)], ["2", "6", "3"]);
        jobs.end();
        assert_eq!([next(0), next(0)], ["4", "5"]);
        assert!(jobs.take(|| ms(0)).is_none());
    }

    /// A message that asks for as many rows as it is long.
    fn job(name: &str, came_ms: u64, bytes: Vec<u8>, row_count: usize) -> Job {
        let (came, time_to_live) = (Duration::from_millis(came_ms), Duration::from_millis(80));
        Job { reply: Subject::from(name), bytes: bytes.into(), came, time_to_live, row_count }
    }

    #[test]
    fn a_batch_leaves_when_it_is_full_or_has_waited_long_enough() {
        let now = |ms| move || Duration::from_millis(ms);
        let names = |batch: Vec<Job>| -> Vec<String> {
            batch.iter().map(|job| job.reply.to_string()).collect()
        };
        let jobs = Jobs::default();
        for (name, row_count) in [("a", 3), ("b", 4), ("c", 4), ("d", 9), ("e", 1)] {
            assert!(jobs.push(job(name, 0, Vec::new(), row_count)));
        }
        // Full, though there is time; one that is larger than a batch is one.
        assert_eq!(names(jobs.take_batch(8, now(1))), ["a", "b"]);
        assert_eq!(names(jobs.take_batch(8, now(1))), ["c"]);
        assert_eq!(names(jobs.take_batch(8, now(1))), ["d"]);
        // Not full, and an eighth of its time is over.
        assert_eq!(names(jobs.take_batch(8, now(10))), ["e"]);
        jobs.end();
        assert!(jobs.take_batch(8, now(11)).is_empty());
    }

    #[test]
    fn a_batch_waits_for_what_comes() {
        let jobs = Jobs::default();
        assert!(jobs.push(job("a", 0, Vec::new(), 1)));
        let found = thread::scope(|scope| {
            // No time passes, so that it is what comes that ends the wait.
            let taken = scope.spawn(|| jobs.take_batch(2, || Duration::ZERO));
            thread::sleep(Duration::from_millis(2));
            assert!(jobs.push(job("b", 2, Vec::new(), 1)));
            taken.join().unwrap()
        });
        assert_eq!(found.len(), 2);
    }

    /// A model of one stage, which says of each row how many were scored with it.
    struct Counting;

    impl AnswerRows for Counting {
        fn answer(
            &mut self,
            rows: &[RowFields<'_>],
            answers: &mut Vec<RowAnswer>,
        ) -> Result<(), AnswerError> {
            if rows.iter().any(|row| row.stage == FAILS) {
                return Err(AnswerError::Failure(String::from("out of memory")));
            }
            if rows.iter().any(|row| row.stage != 0) {
                return Err(AnswerError::OtherModel);
            }
            let label = rows.len() as u16;
            let each = RowAnswer { label, guess: 0, confidence: 1.0, uncertainty: 0.0 };
            answers.extend(rows.iter().map(|_| each));
            Ok(())
        }
    }

    /// A stage at which it fails.
    const FAILS: u8 = 9;

    fn message(stages: &[u8], time_to_live_ms: u64) -> Vec<u8> {
        let mut bytes =
            format::EscalationBytes::new(Duration::from_millis(time_to_live_ms), Vec::new());
        for &stage in stages {
            assert!(bytes.push(stage, &[1; 144], &[], None));
        }
        bytes.into_bytes()
    }

    fn worker(tell: fn(&str)) -> Worker {
        Worker::new(WorkerOptions {
            link: Link::default(),
            prefix: String::from("wirelens"),
            model: String::from("m"),
            partitions: 0..=0,
            name: String::from("w"),
            thread_count: 1,
            batch_rows: Some(64),
            monotonic: || Duration::from_millis(100),
            tell,
        })
    }

    /// By message, its status and the label of each row.
    fn asked(worker: &Worker, messages: Vec<Vec<u8>>) -> Vec<Option<(Status, Vec<u16>)>> {
        let jobs: Vec<_> = messages.into_iter().map(|bytes| job("r", 0, bytes, 0)).collect();
        let labels =
            |rows: Vec<RowAnswer>| -> Vec<u16> { rows.iter().map(|row| row.label).collect() };
        let outcomes = worker.answers(&mut Counting, &jobs).into_iter();
        outcomes.map(|one| one.map(|(status, rows)| (status, labels(rows)))).collect()
    }

    #[test]
    fn messages_of_a_batch_are_scored_together_and_answered_each_by_itself() {
        let worker = worker(|_| {});
        let fine = message(&[0, 0], 200);
        let mixed = vec![fine.clone(), message(&[0], 50), vec![9], message(&[0; 3], 200)];
        let wanted = [
            Some((Status::Answered, vec![5, 5])),
            Some((Status::Late, vec![])),
            Some((Status::Refused, vec![])),
            Some((Status::Answered, vec![5, 5, 5])),
        ];
        assert_eq!(asked(&worker, mixed), wanted);
        // A stranger's rows do not take others with them.
        let with_stranger = vec![fine, message(&[0, 7], 200)];
        let wanted = [Some((Status::Answered, vec![2, 2])), Some((Status::Refused, vec![]))];
        assert_eq!(asked(&worker, with_stranger), wanted);
        let strangers = vec![message(&[7], 200)];
        assert_eq!(asked(&worker, strangers), [Some((Status::Refused, vec![]))]);
        assert_eq!(worker.tally.counts().batches, 1 + 3 + 1);
    }

    #[test]
    fn a_model_that_fails_gives_no_answer_and_is_reported_once() {
        static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let worker = worker(|line| PRINTED.lock().unwrap().push(line.to_owned()));
        let failing = message(&[0, FAILS], 200);
        // What fails with others may succeed without them.
        let batch = vec![message(&[0], 200), failing.clone(), failing.clone()];
        assert_eq!(asked(&worker, batch), [Some((Status::Answered, vec![1])), None, None]);
        assert_eq!(asked(&worker, vec![failing]), [None]);
        assert_eq!((worker.tally.counts().failed, worker.tally.counts().messages), (3, 0));
        let printed = PRINTED.lock().unwrap();
        assert!(printed.len() == 1 && printed[0].contains("m fails: out of memory"), "{printed:?}");
    }
}
