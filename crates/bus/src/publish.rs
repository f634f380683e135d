//! Sending rows until the broker has acknowledged them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};
use store::Store;

use crate::link::OpenError;
use crate::message::{LEN_MAX, RowMessage, all_rows, metrics_subject, stream_name, token};
use crate::protocol::{ServerMessage, publish, publish_with};
use crate::socket::{Connection, explained};
use crate::source::{Losses, Source};
use crate::tally::Tally;
use crate::{BusError, Options, metrics};

/// How often new rows are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Messages that wait for an acknowledgement at most: 16 MiB where all are as long as may be.
const UNDER_WAY_MAX: usize = 64;

/// After this a question has no answer. A message is then published again, under the same id.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The wait before something that was refused is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The first wait for a broker that is away; each further one is twice as long.
const RECONNECT_FIRST: Duration = Duration::from_millis(100);

/// The longest.
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// After so long without a word the broker is asked for one, and after another it is away.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// The broker recognises a message that is published again for so long.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);

/// Status of a question that no one hears.
const NO_RESPONDERS: u16 = 503;

/// The code of the API for a stream that is not there.
const NO_STREAM: u64 = 10_059;

/// The code for one that another sensor has just created otherwise.
const STREAM_EXISTS: u64 = 10_058;

/// A question that waits for its answer.
enum Asked {
    Rows(RowMessage),
    Stream,
    NewStream,
}

/// How it stands with the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Unknown,
    Asked,
    Found,
}

/// The thread's work.
pub(crate) struct Publisher {
    options: Options,
    store: Arc<Store>,
    tally: Arc<Tally>,
    /// What answers are sent to, but for the number of the question.
    inbox: String,
    connection: Option<Connection>,
    sources: Vec<Source>,
    /// By number, and with the time until which it waits.
    under_way: BTreeMap<u64, (Duration, Asked)>,
    number: u64,
    /// Those that were not acknowledged, oldest first.
    again: VecDeque<RowMessage>,
    stream: Stream,
    retry_at: Duration,
    reconnect_at: Duration,
    reconnect_wait: Duration,
    heard_at: Duration,
    has_pinged: bool,
    metrics_at: Duration,
    metrics_number: u64,
}

impl Publisher {
    pub(crate) fn new(options: Options, store: Arc<Store>, tally: Arc<Tally>) -> Self {
        let inbox = format!("_INBOX.{}-{}", token(&options.sensor), token(&options.run));
        Self {
            options,
            store,
            tally,
            inbox,
            connection: None,
            sources: Vec::new(),
            under_way: BTreeMap::new(),
            number: 0,
            again: VecDeque::new(),
            stream: Stream::Unknown,
            retry_at: Duration::ZERO,
            reconnect_at: Duration::ZERO,
            reconnect_wait: RECONNECT_FIRST,
            heard_at: Duration::ZERO,
            has_pinged: false,
            metrics_at: Duration::ZERO,
            metrics_number: 0,
        }
    }

    fn now(&self) -> Duration {
        (self.options.monotonic)()
    }

    /// Connects, if the broker answers.
    ///
    /// # Errors
    /// Where trying again would not help.
    pub(crate) fn connect(&mut self) -> Result<(), BusError> {
        let name = format!("wirelens {}", self.options.sensor);
        let opened = Connection::open(&self.options.link, &name);
        let subscribed = opened.and_then(|mut connection| {
            connection.write(format!("SUB {}.* 1\r\n", self.inbox).as_bytes())?;
            Ok(connection)
        });
        let now = self.now();
        match subscribed {
            Ok(connection) => {
                self.connection = Some(connection);
                (self.heard_at, self.has_pinged) = (now, false);
                (self.stream, self.retry_at) = (Stream::Unknown, now);
                self.reconnect_wait = RECONNECT_FIRST;
                self.tally.note_connected();
                Ok(())
            }
            Err(OpenError::Away(why)) => {
                self.tally.note_away(&why);
                self.reconnect_at = now + self.reconnect_wait;
                self.reconnect_wait = (self.reconnect_wait * 2).min(RECONNECT_MAX);
                Ok(())
            }
            Err(OpenError::Refused(error)) => Err(error),
        }
    }

    /// Publishes until the run ends and nothing is left, or the time for that is over.
    pub(crate) fn run(mut self) {
        let mut ends_at = None;
        loop {
            if let Err(error) = self.turn(ends_at.is_some()) {
                self.lose(&error.to_string());
            }
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
    }

    fn turn(&mut self, is_ending: bool) -> io::Result<()> {
        for table in self.store.tables().into_iter().skip(self.sources.len()) {
            self.sources.push(Source::new(table));
        }
        if self.connection.is_none() {
            if self.now() < self.reconnect_at {
                thread::sleep(LOOK_EVERY);
            } else if let Err(error) = self.connect() {
                // It was let in once: whoever runs the broker may put it right.
                self.tally.note_away(&error.to_string());
                self.reconnect_at = self.now() + RECONNECT_MAX;
            }
            return Ok(());
        }
        self.hear()?;
        let mut out = Vec::new();
        self.give_up_waiting();
        self.find_stream(&mut out);
        self.send(&mut out);
        self.send_metrics(is_ending, &mut out);
        if self.now() > self.heard_at + SILENT_MAX {
            if self.has_pinged {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it says nothing"));
            }
            (self.heard_at, self.has_pinged) = (self.now(), true);
            out.extend_from_slice(b"PING\r\n");
        }
        match &mut self.connection {
            Some(connection) if !out.is_empty() => connection.write(&out),
            _ => Ok(()),
        }
    }

    /// The connection is gone: what was under way is published again.
    fn lose(&mut self, why: &str) {
        self.connection = None;
        self.reconnect_at = self.now();
        self.tally.note_away(why);
        for (_, (_, asked)) in std::mem::take(&mut self.under_way).into_iter().rev() {
            if let Asked::Rows(message) = asked {
                self.tally.note_retried();
                self.again.push_front(message);
            }
        }
    }

    /// Takes in what the broker says; waits for it unless there is something to send.
    fn hear(&mut self) -> io::Result<()> {
        let mut wait = LOOK_EVERY;
        loop {
            let Some(connection) = &mut self.connection else { return Ok(()) };
            let Some(said) = connection.next(wait)? else { return Ok(()) };
            wait = Duration::ZERO;
            (self.heard_at, self.has_pinged) = (self.now(), false);
            match said {
                ServerMessage::Ping => self.write(b"PONG\r\n")?,
                ServerMessage::Message { subject, status, payload } => {
                    self.on_answer(&subject, status, &payload);
                }
                ServerMessage::Error(why) => self.tally.note_trouble(&explained(&why)),
                ServerMessage::Info(_) | ServerMessage::Pong | ServerMessage::Fine => {}
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.as_mut().map_or(Ok(()), |connection| connection.write(bytes))
    }

    /// What no question of ours asked for, or was answered before, is not heard.
    fn on_answer(&mut self, subject: &str, status: Option<u16>, payload: &[u8]) {
        let number = subject.strip_prefix(&self.inbox).and_then(|rest| rest.strip_prefix('.'));
        let number = number.and_then(|text| text.parse::<u64>().ok());
        let Some((_, asked)) = number.and_then(|number| self.under_way.remove(&number)) else {
            return;
        };
        let answer: Json = serde_json::from_slice(payload).unwrap_or_default();
        let error = answer.get("error");
        let code = error.and_then(|error| error.get("err_code")).and_then(Json::as_u64);
        let described = error.and_then(|error| error.get("description")).and_then(Json::as_str);
        let is_unheard = status == Some(NO_RESPONDERS);
        match asked {
            Asked::Rows(message) => {
                let is_kept = error.is_none() && answer.get("seq").is_some();
                if is_kept {
                    let is_duplicate = answer.get("duplicate").and_then(Json::as_bool);
                    let rows = message.row_count;
                    return self.tally.note_published(rows, is_duplicate.unwrap_or(false));
                }
                let why = described.unwrap_or("no stream takes them");
                if is_unheard {
                    self.stream = Stream::Unknown;
                }
                self.refuse(message, &format!("rows were not acknowledged: {why}"));
            }
            Asked::Stream | Asked::NewStream if error.is_none() && !is_unheard => {
                self.stream = Stream::Found;
            }
            Asked::Stream if code == Some(NO_STREAM) => self.ask_for_new_stream(),
            // Another sensor has created it since.
            Asked::NewStream if code == Some(STREAM_EXISTS) => self.stream = Stream::Found,
            Asked::Stream | Asked::NewStream => {
                let why = described.unwrap_or("JetStream does not answer");
                let wanted = "wanted: a server with JetStream (nats-server -js)";
                self.tally.note_trouble(&format!("no stream for rows: {why}; {wanted}"));
                self.stream = Stream::Unknown;
                self.retry_at = self.now() + RETRY_AFTER;
            }
        }
    }

    fn refuse(&mut self, message: RowMessage, why: &str) {
        self.tally.note_trouble(why);
        self.tally.note_retried();
        self.again.push_back(message);
        self.retry_at = self.now() + RETRY_AFTER;
    }

    /// Questions without an answer.
    fn give_up_waiting(&mut self) {
        let now = self.now();
        while let Some(first) = self.under_way.first_entry() {
            if first.get().0 > now {
                return;
            }
            match first.remove().1 {
                Asked::Rows(message) => self.refuse(message, "rows were not acknowledged in time"),
                Asked::Stream | Asked::NewStream => {
                    self.tally.note_trouble("the broker does not answer about its stream");
                    self.stream = Stream::Unknown;
                    self.retry_at = now + RETRY_AFTER;
                }
            }
        }
    }

    /// Where the answer to the next question goes.
    fn ask(&mut self, asked: Asked) -> String {
        self.number += 1;
        self.under_way.insert(self.number, (self.now() + ANSWER_WITHIN, asked));
        format!("{}.{}", self.inbox, self.number)
    }

    /// Asks for the stream; an operator's own is used as it is.
    fn find_stream(&mut self, out: &mut Vec<u8>) {
        if self.stream == Stream::Unknown && self.now() >= self.retry_at {
            let subject = format!("$JS.API.STREAM.INFO.{}", stream_name(&self.options.prefix));
            let reply = self.ask(Asked::Stream);
            publish(out, &subject, &reply, b"");
            self.stream = Stream::Asked;
        }
    }

    fn ask_for_new_stream(&mut self) {
        let Options { prefix, keep, keep_bytes, .. } = &self.options;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let wanted = json!({
            "name": stream_name(prefix),
            "subjects": [all_rows(prefix)],
            "retention": "limits",
            "discard": "old",
            "storage": "file",
            "num_replicas": 1,
            "max_age": ns(*keep),
            "max_bytes": keep_bytes,
            "duplicate_window": ns(DUPLICATE_WINDOW.min(*keep)),
        });
        let subject = format!("$JS.API.STREAM.CREATE.{}", stream_name(prefix));
        let reply = self.ask(Asked::NewStream);
        let mut out = Vec::new();
        publish(&mut out, &subject, &reply, wanted.to_string().as_bytes());
        // A connection that fails here fails again at the next turn, which reports it.
        let _ = self.write(&out);
    }

    /// Sends what was refused before, then new rows, as far as there is room under way.
    fn send(&mut self, out: &mut Vec<u8>) {
        if self.stream != Stream::Found || self.now() < self.retry_at {
            return;
        }
        while self.under_way.len() < UNDER_WAY_MAX {
            let Some(message) = self.again.pop_front().or_else(|| self.next()) else { return };
            let (subject, headers) =
                (message.subject(&self.options), message.headers(&self.options));
            let payload = message.payload.clone();
            let reply = self.ask(Asked::Rows(message));
            publish_with(out, &subject, &reply, &headers, &payload);
        }
    }

    fn next(&mut self) -> Option<RowMessage> {
        // Headers take part of what the broker allows.
        let max_payload = self.connection.as_ref().map_or(0, |open| open.max_payload);
        let len_max = max_payload.saturating_sub(4_096).clamp(512, LEN_MAX);
        let mut lost = Losses::default();
        let message = self.sources.iter_mut().find_map(|source| source.next(len_max, &mut lost));
        self.tally.note_lost(lost);
        message
    }

    fn send_metrics(&mut self, is_last: bool, out: &mut Vec<u8>) {
        let now = self.now();
        if self.metrics_at == Duration::MAX || now < self.metrics_at && !is_last {
            return;
        }
        self.metrics_at = if is_last { Duration::MAX } else { now + self.options.metrics_every };
        let message = metrics::message(&self.options, &self.store, self.metrics_number);
        // Applications answer at the end of a batch, for the message after this.
        self.store.ask_for_counts();
        self.metrics_number += 1;
        publish(out, &metrics_subject(&self.options), "", &message);
        self.tally.note_metrics();
    }

    /// Rows that the broker has not acknowledged.
    fn waiting(&self) -> u64 {
        let in_tables: u64 = self.sources.iter().map(Source::waiting).sum();
        let refused: u64 = self.again.iter().map(|message| message.row_count).sum();
        let rows = |(_, asked): &(Duration, Asked)| match asked {
            Asked::Rows(message) => message.row_count,
            Asked::Stream | Asked::NewStream => 0,
        };
        in_tables + refused + self.under_way.values().map(rows).sum::<u64>()
    }

    /// What others see: how much waits, and how far tables were taken where they wait for that.
    fn note(&self) {
        self.tally.note_waiting(self.waiting());
        if self.options.waits {
            let is_well = self.tally.is_well() && self.stream == Stream::Found;
            for source in &self.sources {
                source.table.put_taken(is_well.then_some(source.taken));
            }
        }
    }
}

/// Tables that wait for a thread that is gone would wait for ever.
impl Drop for Publisher {
    fn drop(&mut self) {
        if self.options.waits {
            self.sources.iter().for_each(|source| source.table.put_taken(None));
        }
    }
}
