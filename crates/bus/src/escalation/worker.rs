//! A worker: rows of any number of sensors, scored by as many threads as it is given.

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, Subject, Subscriber};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::{SelectAll, select_all};
use store::Count;
use tokio::sync::mpsc::{self as parcels, Receiver, Sender};
use tokio::time::{interval, sleep, timeout};

use super::format::{self, RowAnswer, RowFields, Status};
use super::waiting::{BatchOptions, Job, Jobs, WAITING_MAX};
use super::{PARTITION_COUNT, subject};
use crate::link::{Link, LinkEvent, OpenError, connect, wait_before};
use crate::message::token;
use crate::status::LinkStatus;
use crate::{BusError, runtime};

/// How often it is looked whether the worker is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A worker that is to end is gone after so long, and what its threads have in hand. What is not
/// scored or sent by then has no answer of this worker: its sensor asks once more.
const LEAVE_WITHIN: Duration = Duration::from_millis(1_500);

/// Of that, what the broker has handed out already has so long to come.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

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
    /// Rows of several messages that a thread scores together.
    pub batch: BatchOptions,
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
    /// Messages that still waited when it ended, which have no answer.
    pub left: u64,
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
    left: AtomicU64,
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
            left: self.left.load(Relaxed),
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

/// Replies that go out together.
type Replies = Vec<(Subject, Vec<u8>)>;

/// Messages that are taken in before a thread is woken for them, at most.
const TOGETHER_MAX: usize = 64;

/// A worker that is connected, or waits for its broker.
pub struct Worker {
    options: WorkerOptions,
    tally: WorkerTally,
    jobs: Jobs,
    /// Each attempt to connect again fails by itself, and is reported once.
    status: Arc<LinkStatus>,
}

impl Worker {
    /// One that has done nothing yet.
    #[must_use]
    pub fn new(options: WorkerOptions) -> Self {
        let (tally, jobs) =
            (WorkerTally::default(), Jobs::new(options.batch, options.thread_count));
        let status = Arc::new(LinkStatus::new(options.tell));
        Self { options, tally, jobs, status }
    }

    /// What it has done so far, and what waits.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn metrics(&self) -> Vec<Count> {
        let (waiting, is_connected) = (self.jobs.len(), self.status.is_connected());
        let about = "1 while the broker is reached, otherwise 0.";
        let mut counts = self.tally.counts().metrics();
        counts.extend([
            Count::gauge("connected", about, f64::from(is_connected)),
            Count::gauge("messages_waiting", "Messages that wait for a thread.", waiting as f64),
        ]);
        counts
    }

    /// Answers rows until it is to end; then what waits is answered as far as that is soon done,
    /// and no more is taken. `make` makes the model of each thread.
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
                scope.spawn(move || self.score(make, &to));
            }
            let carried = runtime.block_on(self.carry((to, replies), ends));
            self.jobs.end();
            carried
        });
        // No end waits for the name of a server.
        runtime.shutdown_background();
        self.tally.left.fetch_add(self.jobs.len() as u64, Relaxed);
        done.map(|()| self.tally.counts())
    }

    fn now(&self) -> Duration {
        (self.options.monotonic)()
    }

    /// A thread's work.
    fn score<A: AnswerRows>(&self, make: &impl Fn() -> A, to: &Sender<Replies>) {
        let (mut model, mut row_time) = (make(), Duration::ZERO);
        loop {
            let jobs = self.jobs.take(row_time, || self.now());
            if jobs.is_empty() {
                return;
            }
            let began = self.now();
            // A thread that is gone would leave a worker that is handed messages and answers none.
            let asked = catch_unwind(AssertUnwindSafe(|| self.answers(&mut model, &jobs)));
            let Ok(outcomes) = asked else {
                jobs.iter().for_each(|_| self.note_failure("it panicked"));
                // How far it came in what it remembers is not known.
                model = make();
                continue;
            };
            if to.is_closed() {
                // The time to leave is over: what waits has no answer either.
                self.tally.left.fetch_add(jobs.len() as u64, Relaxed);
                return;
            }
            let rows: usize = jobs.iter().map(|job| job.row_count).sum();
            let rows = u32::try_from(rows).unwrap_or(u32::MAX).max(1);
            row_time = self.now().saturating_sub(began) / rows;
            let mut replies = Replies::with_capacity(jobs.len());
            for (job, outcome) in jobs.iter().zip(outcomes) {
                let Some((status, answers)) = outcome else { continue };
                self.tally.note(status, answers.len());
                let spent = self.now().saturating_sub(job.came);
                replies.push((job.reply.clone(), format::answer_bytes(status, spent, &answers)));
            }
            // Together, so that a sensor is woken once for what it sent together.
            if !replies.is_empty() && to.blocking_send(replies).is_err() {
                return;
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
        let WorkerOptions { link, prefix, model, partitions, name, .. } = &self.options;
        let status = Arc::clone(&self.status);
        let on_event = move |event| match event {
            LinkEvent::Connected => status.note_connected(""),
            LinkEvent::Away(why) => drop(status.note_away(&why, "")),
            LinkEvent::Trouble(why) => status.note_trouble(&why),
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

    /// Connects, as soon as the broker answers.
    async fn open_first(&self) -> Result<(Client, Vec<Subscriber>), BusError> {
        let mut attempt = 1;
        loop {
            match self.open().await {
                Ok(opened) => return Ok(opened),
                Err(OpenError::Refused(error)) => return Err(error),
                Err(OpenError::Away(why)) => drop(self.status.note_away(&why, "")),
            }
            sleep(wait_before(attempt)).await;
            attempt += 1;
        }
    }

    /// Carries messages to the threads and replies back, until the worker is to end.
    async fn carry(
        &self,
        (to, replies): (Sender<Replies>, Receiver<Replies>),
        ends: &AtomicBool,
    ) -> Result<(), BusError> {
        let (client, subscribers) = tokio::select! {
            opened = self.open_first() => opened?,
            () = ended(ends, Duration::ZERO) => return Ok(()),
        };
        let carried = async {
            // Each by itself: a broker that takes no reply does not hold up what comes.
            let take_all = self.take_all(&client, select_all(subscribers), to, ends);
            tokio::join!(take_all, send_all(&client, replies));
            if client.connection_state() == State::Connected {
                let _ = client.flush().await;
            }
        };
        tokio::select! {
            () = carried => {}
            // With the other end of replies, threads end.
            () = ended(ends, LEAVE_WITHIN) => {}
        }
        Ok(())
    }

    /// Passes messages to the threads until the worker is to end, and then what the broker has
    /// handed out already.
    async fn take_all(
        &self,
        client: &Client,
        mut messages: SelectAll<Subscriber>,
        to: Sender<Replies>,
        ends: &AtomicBool,
    ) {
        let mut look = interval(LOOK_EVERY);
        while !ends.load(Relaxed) {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.take_in_all(message, &mut messages, &to),
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
                self.take_in_all(message, &mut messages, &to);
            }
        };
        // A broker that is away has nothing to hand out.
        if client.connection_state() == State::Connected {
            let _ = timeout(DRAIN_WITHIN, last).await;
        }
        // With the threads, and `to` of this one, replies end.
        self.jobs.end();
    }

    /// Takes in a message and those that came with it: a thread that is woken finds all of them.
    fn take_in_all(
        &self,
        first: Message,
        messages: &mut SelectAll<Subscriber>,
        to: &Sender<Replies>,
    ) {
        self.take_in(first, to);
        let mut count = 1;
        while count < TOGETHER_MAX
            && let Some(Some(message)) = messages.next().now_or_never()
        {
            self.take_in(message, to);
            count += 1;
        }
        self.jobs.wake(count);
    }

    fn take_in(&self, message: Message, to: &Sender<Replies>) {
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
            let busy = format::answer_bytes(Status::Busy, Duration::ZERO, &[]);
            let _ = to.try_send(vec![(reply, busy)]);
        }
    }
}

/// Sends replies until there are no more.
async fn send_all(client: &Client, mut replies: Receiver<Replies>) {
    while let Some(list) = replies.recv().await {
        for (reply, bytes) in list {
            // A reply that waits for a broker which is away comes too late.
            if client.connection_state() != State::Connected {
                continue;
            }
            // Where it is not sent, its sensor sees the deadline pass.
            let _ = client.publish(reply, Bytes::from(bytes)).await;
        }
    }
}

/// Returns when the worker is to end and this time has passed since.
async fn ended(ends: &AtomicBool, after: Duration) {
    while !ends.load(Relaxed) {
        sleep(LOOK_EVERY).await;
    }
    sleep(after).await;
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::sync::Mutex;

    use super::*;

    /// A model of one stage, which says of each row how many were scored with it.
    struct Counting;

    impl AnswerRows for Counting {
        fn answer(
            &mut self,
            rows: &[RowFields<'_>],
            answers: &mut Vec<RowAnswer>,
        ) -> Result<(), AnswerError> {
            assert!(rows.iter().all(|row| row.stage != PANICS));
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

    /// One at which it panics.
    const PANICS: u8 = 8;

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
            batch: BatchOptions { rows_max: 64, waits: true },
            monotonic: || Duration::from_millis(100),
            tell,
        })
    }

    /// By message, its status and the label of each row.
    fn asked(worker: &Worker, messages: Vec<Vec<u8>>) -> Vec<Option<(Status, Vec<u16>)>> {
        let job = |bytes: Vec<u8>| Job {
            reply: Subject::from("r"),
            bytes: bytes.into(),
            came: Duration::ZERO,
            time_to_live: Duration::ZERO,
            row_count: 0,
        };
        let jobs: Vec<_> = messages.into_iter().map(job).collect();
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

    #[test]
    fn a_model_that_panics_takes_no_thread_with_it() {
        static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let worker = worker(|line| PRINTED.lock().unwrap().push(line.to_owned()));
        let stages = [PANICS, 0, PANICS, 0];
        for stage in stages {
            let bytes = message(&[stage], 200);
            let (row_count, time_to_live) = format::size(&bytes).unwrap();
            let (reply, came) = (Subject::from(stage.to_string()), Duration::from_millis(100));
            // As many rows as a batch has, so that each is one.
            let row_count = row_count * 64;
            let bytes = bytes.into();
            assert!(worker.jobs.push(Job { reply, bytes, came, time_to_live, row_count }));
        }
        worker.jobs.end();
        let (to, mut replies) = parcels::channel(stages.len());
        worker.score(&|| Counting, &to);
        drop(to);
        let answered = std::iter::from_fn(|| replies.blocking_recv()).flatten();
        let answered: Vec<_> = answered.map(|(reply, _)| reply.to_string()).collect();
        assert_eq!(answered, ["0", "0"]);
        assert_eq!((worker.tally.counts().failed, worker.tally.counts().messages), (2, 2));
        let printed = PRINTED.lock().unwrap();
        assert!(printed.len() == 1 && printed[0].contains("m fails: it panicked"), "{printed:?}");
    }

    /// A model that takes a second for each batch.
    struct Slow;

    impl AnswerRows for Slow {
        fn answer(
            &mut self,
            rows: &[RowFields<'_>],
            answers: &mut Vec<RowAnswer>,
        ) -> Result<(), AnswerError> {
            thread::sleep(Duration::from_secs(1));
            Counting.answer(rows, answers)
        }
    }

    /// Lets a worker in and hands it messages of one row each, which have a minute; the replies.
    fn serve(listener: &TcpListener, count: usize) -> usize {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).split(b'\n');
        let info = r#"INFO {"server_id":"S","version":"2.10.0","max_payload":1048576}"#;
        stream.write_all(format!("{info}\r\n").as_bytes()).unwrap();
        let mut replies = 0;
        for line in lines.map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if line.starts_with("PING") {
                stream.write_all(b"PONG\r\n").unwrap();
            } else if line.starts_with("SUB") {
                let sid = line.split_whitespace().next_back().unwrap();
                let payload = message(&[0], 60_000);
                let head = format!("MSG wirelens.v2.escalations.m.0 {sid} r {}\r\n", payload.len());
                let one = [head.as_bytes(), &payload, b"\r\n"].concat();
                stream.write_all(&one.repeat(count)).unwrap();
            }
            replies += usize::from(line.starts_with("PUB r "));
        }
        replies
    }

    #[test]
    fn a_worker_with_much_to_do_ends_soon_and_says_what_it_leaves() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = vec![format!("nats://{}", listener.local_addr().unwrap())];
        let mut worker = worker(|_| {});
        worker.options.link = Link { servers, ..Link::default() };
        worker.jobs = Jobs::new(BatchOptions { rows_max: 64, waits: false }, 1);
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let broker = scope.spawn(|| serve(&listener, 1_000));
            let ran = scope.spawn(|| worker.run(|| Slow, &ends));
            for _ in 0..1_000 {
                thread::sleep(Duration::from_millis(10));
                if worker.tally.counts().batches > 0 {
                    break;
                }
            }
            ends.store(true, Relaxed);
            // All of it would take sixteen seconds.
            let counts = ran.join().unwrap().unwrap();
            assert!(counts.messages > 0 && counts.left > 500, "{counts:?}");
            assert_eq!(counts.messages + counts.left, 1_000);
            assert_eq!(broker.join().unwrap() as u64, counts.messages);
        });
    }
}
