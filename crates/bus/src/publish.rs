//! Sending rows until the broker has acknowledged them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_nats::client::PublishErrorKind;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::{Client, Message, StatusCode, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use store::Store;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::link::{OnEvent, OpenError, RECONNECT_MAX, connect, first, wait_before};
use crate::message::{LEN_MAX, RowMessage, header_map, metrics_subject, token};
use crate::source::{Losses, Source};
use crate::tally::Tally;
use crate::{BusError, Options, metrics, stream};

/// How often new rows are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Messages that wait for an acknowledgement at most: 16 MiB where all are as long as may be.
const UNDER_WAY_MAX: usize = 64;

/// After this a question has no answer. A message is then published again, under the same id.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The wait before something that was refused is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Bytes that headers are given of what the broker and the stream take, or half where that is less:
/// they are a few hundred, unless a sensor has a long name.
const HEADERS_LEN: usize = 4_096;

/// How long the last bytes may take to be written.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// The connection, and where acknowledgements come from: one subscription for all of them. The
/// library's own futures would leave an entry in its table for every one that never comes.
struct Open {
    client: Client,
    /// What answers are sent to, but for the number of the message.
    inbox: String,
    answers: Subscriber,
}

/// How it stands with the stream.
enum Stream {
    Unknown,
    Asked(JoinHandle<Result<usize, String>>),
    /// It is there, and takes messages of so many bytes.
    Found(usize),
}

/// Bytes of rows where a message may have so many, headers included.
fn len_max(allowed: usize) -> usize {
    allowed.saturating_sub(HEADERS_LEN.min(allowed / 2)).clamp(512, LEN_MAX)
}

/// The thread's work.
pub(crate) struct Publisher {
    options: Options,
    store: Arc<Store>,
    tally: Arc<Tally>,
    open: Option<Open>,
    /// An attempt to connect that is under way.
    opening: Option<JoinHandle<Result<Open, OpenError>>>,
    sources: Vec<Source>,
    /// By number, and with the time until which it waits.
    under_way: BTreeMap<u64, (Duration, RowMessage)>,
    number: u64,
    /// Those that were not acknowledged, oldest first.
    again: VecDeque<RowMessage>,
    stream: Stream,
    retry_at: Duration,
    /// How many connections were lost when it was looked last.
    disconnects: u64,
    connect_at: Duration,
    attempts: usize,
    metrics_at: Duration,
    metrics_number: u64,
}

impl Publisher {
    pub(crate) const fn new(options: Options, store: Arc<Store>, tally: Arc<Tally>) -> Self {
        Self {
            options,
            store,
            tally,
            open: None,
            opening: None,
            sources: Vec::new(),
            under_way: BTreeMap::new(),
            number: 0,
            again: VecDeque::new(),
            stream: Stream::Unknown,
            retry_at: Duration::ZERO,
            disconnects: 0,
            connect_at: Duration::ZERO,
            attempts: 0,
            metrics_at: Duration::ZERO,
            metrics_number: 0,
        }
    }

    fn now(&self) -> Duration {
        (self.options.monotonic)()
    }

    /// Connects, if the broker answers soon. From then on the library opens the connection again.
    ///
    /// # Errors
    /// Where trying again would not help.
    pub(crate) async fn begin(&mut self) -> Result<(), BusError> {
        let attempt = attempt(self.options.clone(), Arc::clone(&self.tally));
        let outcome = first(&self.options.link, attempt).await;
        self.on_attempt(outcome)
    }

    fn on_attempt(&mut self, outcome: Result<Open, OpenError>) -> Result<(), BusError> {
        match outcome {
            Ok(open) => self.open = Some(open),
            Err(OpenError::Away(why)) => {
                self.tally.note_away(&why);
                self.attempts += 1;
                self.connect_at = self.now() + wait_before(self.attempts);
            }
            Err(OpenError::Refused(error)) => return Err(error),
        }
        Ok(())
    }

    /// Connects as far as that is done meanwhile: the end of the run does not wait for the name of
    /// a server.
    async fn connect(&mut self) {
        if self.opening.is_none() {
            if self.now() < self.connect_at {
                return sleep(LOOK_EVERY).await;
            }
            let attempt = attempt(self.options.clone(), Arc::clone(&self.tally));
            self.opening = Some(tokio::spawn(attempt));
        }
        let Some(opening) = &mut self.opening else { return };
        let Ok(outcome) = timeout(LOOK_EVERY, opening).await else { return };
        self.opening = None;
        let outcome = outcome.unwrap_or_else(|error| Err(OpenError::Away(error.to_string())));
        if let Err(error) = self.on_attempt(outcome) {
            // It was not refused at the start: the broker's operator may repair it.
            self.tally.note_trouble(&error.to_string());
            self.connect_at = self.now() + RECONNECT_MAX;
        }
    }

    /// Publishes until the run ends and nothing is left, or the time for that is over.
    pub(crate) async fn run(mut self) {
        let mut ends_at = None;
        loop {
            self.turn(ends_at.is_some()).await;
            self.note();
            if ends_at.is_none() {
                ends_at = self.tally.ends_within().map(|within| self.now() + within);
                // What came until then is looked at another time.
                continue;
            }
            if self.waiting() == 0 || ends_at.is_some_and(|at| self.now() >= at) {
                break;
            }
        }
        // What is left now is lost: whether the broker took it is not known.
        self.tally.note_unacknowledged(self.waiting());
        self.tally.note_waiting(0);
        if let Some(open) = self.open.as_ref().filter(|_| self.tally.is_connected()) {
            // The last metrics need no acknowledgement.
            let _ = timeout(FLUSH_WITHIN, open.client.flush()).await;
        }
    }

    async fn turn(&mut self, is_ending: bool) {
        for table in self.store.tables().into_iter().skip(self.sources.len()) {
            self.sources.push(Source::new(table));
        }
        if self.open.is_none() {
            return self.connect().await;
        }
        self.hear().await;
        if self.disconnects != self.tally.disconnects() {
            self.disconnects = self.tally.disconnects();
            self.lose();
        }
        self.give_up_waiting();
        if !self.tally.is_connected() {
            return;
        }
        self.find_stream().await;
        self.send().await;
        self.send_metrics(is_ending).await;
    }

    /// The connection is gone: what was under way is published again.
    fn lose(&mut self) {
        if let Stream::Asked(asked) = &self.stream {
            asked.abort();
        }
        (self.stream, self.retry_at) = (Stream::Unknown, self.now());
        for (_, (_, message)) in std::mem::take(&mut self.under_way).into_iter().rev() {
            self.tally.note_retried();
            self.again.push_front(message);
        }
    }

    /// Takes in what the broker answers; waits for it unless it has answered already.
    async fn hear(&mut self) {
        let Some(open) = &mut self.open else { return };
        let mut heard = timeout(LOOK_EVERY, open.answers.next()).await.ok();
        while let Some(answer) = heard {
            let Some(answer) = answer else {
                // The library has given up, which it was told not to.
                self.tally.note_away("the connection was closed");
                self.open = None;
                return;
            };
            self.on_answer(&answer);
            let Some(open) = &mut self.open else { return };
            heard = open.answers.next().now_or_never();
        }
    }

    /// What no message of ours asked for, or was answered before, is not heard.
    fn on_answer(&mut self, answer: &Message) {
        let number = answer.subject.rsplit('.').next().and_then(|text| text.parse::<u64>().ok());
        let Some((_, message)) = number.and_then(|number| self.under_way.remove(&number)) else {
            return;
        };
        let why = match serde_json::from_slice(&answer.payload) {
            _ if answer.status == Some(StatusCode::NO_RESPONDERS) => {
                self.stream = Stream::Unknown;
                String::from("no stream takes them")
            }
            Ok(Response::Ok(PublishAck { duplicate, .. })) => {
                return self.tally.note_published(message.row_count, duplicate);
            }
            Ok(Response::Err { error })
                if error.error_code() == ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM =>
            {
                // Its operator has changed the limit.
                self.stream = Stream::Unknown;
                return self.split(message);
            }
            Ok(Response::Err { error }) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.refuse(message, &format!("rows were not acknowledged: {why}"));
    }

    fn refuse(&mut self, message: RowMessage, why: &str) {
        self.tally.note_trouble(why);
        self.tally.note_retried();
        self.again.push_back(message);
        self.retry_at = self.now() + RETRY_AFTER;
    }

    /// A message is longer than the broker or the stream takes, and always will be: its rows go in
    /// two, and one that is alone is lost, so that others are not held up by it.
    fn split(&mut self, message: RowMessage) {
        match message.halves() {
            Ok(halves) => {
                for half in halves.into_iter().rev() {
                    self.tally.note_retried();
                    self.again.push_front(half);
                }
            }
            Err(RowMessage { row_count: too_large, .. }) => {
                self.tally.note_lost(Losses { too_large, ..Losses::default() });
            }
        }
    }

    /// Messages without an answer.
    fn give_up_waiting(&mut self) {
        let now = self.now();
        while let Some(first) = self.under_way.first_entry() {
            if first.get().0 > now {
                return;
            }
            let (_, message) = first.remove();
            self.refuse(message, "rows were not acknowledged in time");
        }
    }

    /// Asks for the stream, and takes in what became of that.
    async fn find_stream(&mut self) {
        let (Some(open), now) = (&self.open, self.now()) else { return };
        match &mut self.stream {
            Stream::Unknown if now >= self.retry_at => {
                let wanted = stream::wanted(&self.options);
                let asked = stream::find(open.client.clone(), wanted, ANSWER_WITHIN);
                self.stream = Stream::Asked(tokio::spawn(asked));
            }
            Stream::Asked(asked) if asked.is_finished() => match asked.await {
                Ok(Ok(len_max)) => self.stream = Stream::Found(len_max),
                outcome => {
                    if let Ok(Err(why)) = outcome {
                        self.tally.note_trouble(&why);
                    }
                    (self.stream, self.retry_at) = (Stream::Unknown, now + RETRY_AFTER);
                }
            },
            Stream::Unknown | Stream::Asked(_) | Stream::Found(_) => {}
        }
    }

    /// Sends what was refused before, then new rows, as far as there is room under way.
    async fn send(&mut self) {
        if !matches!(self.stream, Stream::Found(_)) || self.now() < self.retry_at {
            return;
        }
        while self.under_way.len() < UNDER_WAY_MAX {
            let Some(message) = self.again.pop_front().or_else(|| self.next()) else { return };
            if !self.publish(message).await {
                return;
            }
        }
    }

    /// Whether the connection takes more.
    async fn publish(&mut self, message: RowMessage) -> bool {
        let Some(open) = &self.open else { return false };
        let (subject, headers) = (message.subject(&self.options), message.headers(&self.options));
        self.number += 1;
        let sent = open.client.publish_with_reply_and_headers(
            subject,
            format!("{}.{}", open.inbox, self.number),
            header_map(&headers),
            message.payload.clone(),
        );
        // A broker that takes no bytes holds up no other work of this thread.
        match timeout(LOOK_EVERY, sent).await {
            Ok(Ok(())) => {
                self.under_way.insert(self.number, (self.now() + ANSWER_WITHIN, message));
                true
            }
            Ok(Err(error)) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                // The broker that is there now allows less than the one that was there before.
                self.split(message);
                true
            }
            Ok(Err(error)) => {
                self.refuse(message, &format!("rows were not sent: {error}"));
                false
            }
            Err(_) => {
                self.again.push_front(message);
                false
            }
        }
    }

    fn next(&mut self) -> Option<RowMessage> {
        let of_broker = self.open.as_ref().map_or(0, |open| open.client.max_payload());
        let of_stream = if let Stream::Found(len_max) = self.stream { len_max } else { usize::MAX };
        let len_max = len_max(of_broker.min(of_stream));
        let mut lost = Losses::default();
        let message = self.sources.iter_mut().find_map(|source| source.next(len_max, &mut lost));
        self.tally.note_lost(lost);
        message
    }

    async fn send_metrics(&mut self, is_last: bool) {
        let now = self.now();
        let Some(open) = &self.open else { return };
        if self.metrics_at == Duration::MAX || now < self.metrics_at && !is_last {
            return;
        }
        self.metrics_at = if is_last { Duration::MAX } else { now + self.options.metrics_every };
        let message = metrics::message(&self.options, &self.store, self.metrics_number);
        // Applications answer at the end of a batch, for the message after this.
        self.store.ask_for_counts();
        let sent = open.client.publish(metrics_subject(&self.options), message.into());
        if let Ok(Ok(())) = timeout(LOOK_EVERY, sent).await {
            self.metrics_number += 1;
            self.tally.note_metrics();
        }
    }

    /// Rows that the broker has not acknowledged.
    fn waiting(&self) -> u64 {
        let in_tables: u64 = self.sources.iter().map(Source::waiting).sum();
        let under_way = self.under_way.values().map(|(_, message)| message);
        let sent: u64 = self.again.iter().chain(under_way).map(|message| message.row_count).sum();
        in_tables + sent
    }

    /// What others see: how much waits, and how far tables were taken where they wait for that.
    fn note(&self) {
        self.tally.note_waiting(self.waiting());
        if self.options.waits {
            let is_well = self.tally.is_well() && matches!(self.stream, Stream::Found(_));
            for source in &self.sources {
                source.table.put_taken(is_well.then_some(source.taken));
            }
        }
    }
}

/// An attempt to connect, which may take longer than anything waits for it.
async fn attempt(options: Options, tally: Arc<Tally>) -> Result<Open, OpenError> {
    let Options { link, sensor, run, .. } = &options;
    let name = format!("wirelens {sensor}");
    let inbox = format!("_INBOX.{}-{}", token(sensor), token(run));
    let on_event: OnEvent = Arc::new(move |event| tally.note_event(&event));
    let client = connect(link, &name, &inbox, on_event).await?;
    let inbox = client.new_inbox();
    let answers = client.subscribe(format!("{inbox}.*")).await;
    let answers = answers.map_err(|error| OpenError::Away(error.to_string()))?;
    Ok(Open { client, inbox, answers })
}

/// Tables that wait for a thread that is gone would wait for ever.
impl Drop for Publisher {
    fn drop(&mut self) {
        if self.options.waits {
            self.sources.iter().for_each(|source| source.table.put_taken(None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_room_in_what_is_allowed() {
        for (allowed, wanted) in [
            (usize::MAX, LEN_MAX),
            (1 << 20, LEN_MAX),
            (16_384, 12_288),
            (8_192, 4_096),
            (4_096, 2_048),
            (700, 512),
            (0, 512),
        ] {
            assert_eq!(len_max(allowed), wanted, "{allowed}");
        }
    }
}
