//! The thread that receives.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_nats::jetstream::Message as StreamMessage;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{DeliverPolicy, ReplayPolicy};
use async_nats::jetstream::context::{ContextBuilder, RequestErrorKind};
use async_nats::jetstream::response::Response;
use async_nats::{Client, Message, Subscriber, datetime};
use engine::columns::Columns;
use futures_util::StreamExt as _;
use serde_json::Value as Json;
use store::Store;
use store::query::{cell, time_column};
use tokio::time::{sleep, timeout};

use super::joins::Joins;
use super::rows::{Head, read_rows};
use super::sensors::{Metrics, Sensors};
use super::tally::{CentralTally, Fault};
use super::{CentralOptions, CentralTable};
use crate::link::{LinkEvent, OpenError, RECONNECT_MAX, connect, first};
use crate::message::{LEN_MAX, all_rows, stream_name, token};
use crate::{BusError, VERSION, stream};

/// How often it is looked who is silent, which flows have waited, and whether all ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A question about the stream has so long to be answered.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How often it is looked whether the stream is still the one that is read.
const LOOK_AT_STREAM_EVERY: Duration = Duration::from_secs(10);

/// Messages that are asked for at a time, and their bytes at most.
const BATCH_MAX: i64 = 64;
const BATCH_BYTES_MAX: i64 = 8 << 20;

/// So far may event time be ahead of this machine's clock: a minute. A sensor whose clock is wrong
/// does not take all others along.
const AHEAD_MAX_NS: i64 = 60_000_000_000;

/// Columns that are named because they are left out, at most.
const LEFT_OUT_MAX: usize = 100;

/// What receives.
pub(super) struct Receiver {
    options: CentralOptions,
    tables: Vec<CentralTable>,
    sensors: Sensors,
    joins: Option<Joins>,
    store: Arc<Store>,
    tally: Arc<CentralTally>,
    /// Tables and columns of which it was said that they are left out.
    left_out: BTreeSet<String>,
    open: Option<Open>,
    stream: ReadStream,
}

/// The stream that is read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct ReadStream {
    /// When the broker made it, in its words; nothing where it was not asked yet.
    created: Option<String>,
    /// The last message that was read.
    sequence: u64,
}

impl ReadStream {
    /// Whether the broker's info is of another one: its messages count from 1, and what reads on
    /// behind the last one would wait for as many as there were, or leave out what came in between.
    fn is_other(&self, info: &Json) -> bool {
        let last = info.pointer("/state/last_seq").and_then(Json::as_u64);
        let is_made_later = self.created.as_deref().zip(created(info));
        is_made_later.is_some_and(|(before, now)| before != now)
            || last.is_some_and(|last| last < self.sequence)
    }
}

fn created(info: &Json) -> Option<&str> {
    info.get("created")?.as_str()
}

/// A connection, over which metrics come.
struct Open {
    client: Client,
    metrics: Subscriber,
}

impl Receiver {
    pub(super) fn new(
        options: CentralOptions,
        tables: Vec<CentralTable>,
        (sensors, joins): (Sensors, Option<Joins>),
        store: Arc<Store>,
        tally: Arc<CentralTally>,
    ) -> Self {
        let (left_out, open, stream) = (BTreeSet::new(), None, ReadStream::default());
        Self { options, tables, sensors, joins, store, tally, left_out, open, stream }
    }

    fn now(&self) -> Duration {
        (self.options.monotonic)()
    }

    /// The first attempt: what would not become well by itself is an error.
    pub(super) async fn connect(&mut self) -> Result<(), BusError> {
        let attempt = open(self.options.clone(), Arc::clone(&self.tally));
        match first(&self.options.link, attempt).await {
            Ok(open) => self.open = Some(open),
            Err(OpenError::Away(why)) => self.tally.note_event(&LinkEvent::Away(why)),
            Err(OpenError::Refused(error)) => return Err(error),
        }
        Ok(())
    }

    /// Receives until it is to end. That waits for no answer: neither of a broker nor about the
    /// name of one.
    pub(super) async fn run(mut self) {
        let tally = Arc::clone(&self.tally);
        tokio::select! {
            () = self.receive_all() => {}
            () = ended(&tally) => {}
        }
        let now = self.now();
        self.joins.iter_mut().for_each(Joins::end);
        self.sensors.look(now);
        self.sensors.end(now);
        self.tally.put_sums(self.sensors.sums());
    }

    /// Over one connection after the other.
    async fn receive_all(&mut self) {
        while !self.tally.ends.load(Relaxed) {
            let Some(Open { client, mut metrics }) = self.open.take() else {
                self.wait(RECONNECT_MAX).await;
                // It was not refused at the start: the broker's operator may repair it.
                match self.open_again().await {
                    Ok(open) => self.open = Some(open),
                    Err(OpenError::Away(_)) => {}
                    Err(OpenError::Refused(error)) => self.tally.note_trouble(&error.to_string()),
                }
                continue;
            };
            self.receive(&client, &mut metrics).await;
        }
    }

    /// An attempt to connect, while others are looked at.
    async fn open_again(&mut self) -> Result<Open, OpenError> {
        let opening = open(self.options.clone(), Arc::clone(&self.tally));
        tokio::pin!(opening);
        loop {
            match timeout(LOOK_EVERY, &mut opening).await {
                Ok(outcome) => return outcome,
                Err(_) => self.look(),
            }
        }
    }

    /// Waits while others are looked at.
    async fn wait(&mut self, time: Duration) {
        let until = self.now() + time;
        while self.now() < until && !self.tally.ends.load(Relaxed) {
            sleep(LOOK_EVERY).await;
            self.look();
        }
    }

    /// Of one connection, for as long as the library keeps it: it opens it again where it is lost.
    async fn receive(&mut self, client: &Client, metrics: &mut Subscriber) {
        let mut rows = None;
        let mut retry_at = Duration::ZERO;
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut look_at_stream = tokio::time::interval(LOOK_AT_STREAM_EVERY);
        let since_ns = (self.options.realtime_ns)()
            .saturating_sub(i64::try_from(self.options.since.as_nanos()).unwrap_or(i64::MAX));
        while !self.tally.ends.load(Relaxed) {
            if rows.is_none() && self.now() >= retry_at {
                match self.rows(client, since_ns).await {
                    Ok(found) => rows = Some(found),
                    Err(why) => {
                        self.tally.note_trouble(&why);
                        retry_at = self.now() + RECONNECT_MAX;
                    }
                }
            }
            let next = async {
                match &mut rows {
                    Some(rows) => rows.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                found = next => match found {
                    Some(Ok(message)) => self.take_rows(&message),
                    outcome => {
                        let error = outcome.and_then(Result::err);
                        let why = error.map_or_else(String::new, |error| error.to_string());
                        self.tally.note_trouble(&format!("rows: {why}"));
                        (rows, retry_at) = (None, self.now() + RECONNECT_MAX);
                    }
                },
                message = metrics.next() => match message {
                    Some(message) => self.take_metrics(&message),
                    // The library has given up, which it was told not to.
                    None => return,
                },
                _ = look.tick() => self.look(),
                _ = look_at_stream.tick() => if self.is_other_stream(client).await {
                    rows = None;
                },
            }
        }
    }

    /// The rows of all sensors in the stream's order, from a time on.
    async fn rows(&mut self, client: &Client, since_ns: i64) -> Result<Ordered, String> {
        // First: one that is made later is another one then.
        if let Some(info) = self.stream_info(client).await? {
            self.note_other(&info);
            self.stream.created = created(&info).map(str::to_owned);
        }
        let prefix = &self.options.prefix;
        let name = stream_name(prefix);
        let context = ContextBuilder::new().timeout(ANSWER_WITHIN).build(client.clone());
        let stream = context.get_stream_no_info(&name).await;
        let none = |why: String| {
            format!(
                "stream {name}: {why}; wanted: the stream that sensors with prefix {prefix:?} create"
            )
        };
        let stream = stream.map_err(|error| none(error.to_string()))?;
        let start_time = datetime::from_nanos(since_ns.max(0).into());
        let start_time = start_time.map_err(|error| error.to_string())?;
        let config = OrderedConfig {
            filter_subject: all_rows(prefix),
            replay_policy: ReplayPolicy::Instant,
            deliver_policy: DeliverPolicy::ByStartTime { start_time },
            max_batch: BATCH_MAX,
            max_bytes: BATCH_BYTES_MAX,
            ..OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await;
        let consumer = consumer.map_err(|error| none(error.to_string()))?;
        consumer.messages().await.map_err(|error| none(error.to_string()))
    }

    /// Whether the stream was deleted and made again.
    async fn is_other_stream(&mut self, client: &Client) -> bool {
        let Ok(Some(info)) = self.stream_info(client).await else { return false };
        let is_other = self.note_other(&info);
        if self.stream.created.is_none() {
            self.stream.created = created(&info).map(str::to_owned);
        }
        is_other
    }

    /// Reports a stream that is another one, and forgets how far the one before was read.
    fn note_other(&mut self, info: &Json) -> bool {
        let is_other = self.stream.is_other(info);
        if is_other {
            self.tally.tell("nats: the stream is another one; it is read from its start");
            self.stream = ReadStream::default();
        }
        is_other
    }

    /// What the broker says of the stream; nothing where it has none.
    async fn stream_info(&self, client: &Client) -> Result<Option<Json>, String> {
        let context = ContextBuilder::new().timeout(ANSWER_WITHIN).build(client.clone());
        let name = stream_name(&self.options.prefix);
        // The library does not limit how long a question waits to be sent, as to a broker that is
        // away, and the end of the run would wait with it.
        let unanswered = || Err(String::from("the broker does not answer about its stream"));
        match timeout(ANSWER_WITHIN, stream::info(&context, &name)).await {
            Ok(Ok(Response::Ok(info))) => Ok(Some(info)),
            Ok(Err(error)) if error.kind() == RequestErrorKind::TimedOut => unanswered(),
            Err(_) => unanswered(),
            Ok(_) => Ok(None),
        }
    }

    fn take_rows(&mut self, message: &StreamMessage) {
        let before = self.stream.sequence;
        self.stream.sequence = message.info().map_or(before, |info| info.stream_sequence);
        if let Err(fault) = self.attempt(message) {
            self.tally.note_fault(fault);
        }
    }

    fn attempt(&mut self, message: &Message) -> Result<(), Fault> {
        let now = self.now();
        let head = Head::read(message, &self.options.prefix).map_err(Fault::Row)?;
        let unseen = self.sensors.unseen(&head, now).ok_or(Fault::Sensors)?;
        let count: u64 = unseen.iter().map(|rows| rows.end - rows.start).sum();
        let is_it = |table: &CentralTable| table.name == head.table;
        let at = self.tables.iter().position(is_it);
        let (mut named, mut read) = (Vec::new(), None);
        if let Some(table) = at.filter(|_| count > 0).and_then(|at| self.tables.get(at)) {
            let rows = read.insert(Columns::new(table.schema));
            read_rows(&head, &message.payload, &unseen, rows, |name| named.push(name.to_owned()))
                .map_err(Fault::Row)?;
        }
        // Not before they are read: rows of a message that is damaged may come again.
        self.sensors.take(&head, count, now);
        self.tally.repeated.fetch_add(head.rows.end - head.rows.start - count, Relaxed);
        if let Some(rows) = &read {
            self.note_times(&head.sensor, rows);
        }
        let (Some(table), Some(rows)) = (at.and_then(|at| self.tables.get_mut(at)), read) else {
            if count > 0 {
                self.tally.unwanted.fetch_add(count, Relaxed);
                self.leave_out(&head.sensor, format!("table {}", head.table));
            }
            return Ok(());
        };
        if let Some(joins) = self.joins.as_mut().filter(|_| head.table == "flows") {
            joins.take(&rows, now);
        }
        self.tally.rows.fetch_add(count, Relaxed);
        (table.put)(rows);
        for name in named {
            self.leave_out(&head.sensor, format!("column {name} of {}", head.table));
        }
        Ok(())
    }

    /// The latest time that is not far ahead of this machine's clock.
    fn limit_ns(&self) -> i64 {
        (self.options.realtime_ns)().saturating_add(AHEAD_MAX_NS)
    }

    /// Event time follows rows, save those that are far ahead of this machine's clock.
    fn note_times(&self, sensor: &str, rows: &Columns) {
        let limit = self.limit_ns();
        let Some(time) = time_column(rows.schema()) else { return };
        let times = || (0..rows.row_count()).filter_map(|row| cell(rows, time, row).time());
        if let Some(latest) = times().filter(|&ns| ns <= limit).max() {
            self.store.put_time(latest);
        }
        let ahead = times().filter(|&ns| ns > limit).count() as u64;
        if ahead > 0 && self.tally.ahead.fetch_add(ahead, Relaxed) == 0 {
            self.tally.tell(&format!(
                "sensors: {sensor} has rows whose time is a minute or more ahead of this machine's \
                 clock; event time here does not follow such rows, which are counted \
                 (rows_ahead); wanted: clocks that agree; set both by NTP"
            ));
        }
    }

    /// Said once of each.
    fn leave_out(&mut self, sensor: &str, what: String) {
        if self.left_out.len() < LEFT_OUT_MAX && !self.left_out.contains(&what) {
            let wanted = "give this view the tables and keys that its sensors have";
            self.tally.tell(&format!("sensors: {sensor} has {what}, which is left out; {wanted}"));
            self.left_out.insert(what);
        }
    }

    fn take_metrics(&mut self, message: &Message) {
        let now = self.now();
        let read = Some(&message.payload).filter(|payload| payload.len() <= 4 * LEN_MAX);
        let read = read.and_then(|payload| Metrics::read(payload)).filter(|(sensor, _, _)| {
            let prefix = &self.options.prefix;
            message.subject.as_str() == format!("{prefix}.v{VERSION}.metrics.{}", token(sensor))
        });
        let Some((sensor, run, metrics)) = read else {
            return self.tally.note_fault(Fault::Metrics);
        };
        if let Some(ns) = metrics.time_ns.filter(|&ns| ns <= self.limit_ns()) {
            self.store.put_time(ns);
        }
        if !self.sensors.take_metrics(&sensor, &run, metrics, now) {
            self.tally.note_fault(Fault::Sensors);
        }
    }

    fn look(&mut self) {
        let now = self.now();
        self.sensors.look(now);
        self.tally.put_sums(self.sensors.sums());
        if let Some(joins) = &mut self.joins {
            joins.look(now);
            self.tally.joins_waiting.store(joins.waiting(), Relaxed);
            self.tally.joins_evicted.store(joins.evicted, Relaxed);
        }
    }
}

/// An attempt to connect, which may take longer than anything waits for it.
async fn open(options: CentralOptions, tally: Arc<CentralTally>) -> Result<Open, OpenError> {
    let CentralOptions { link, prefix, name, .. } = &options;
    let on_event = Arc::new(move |event| tally.note_event(&event));
    let inbox = format!("_INBOX.{}", token(name));
    let client = connect(link, name, &inbox, on_event).await?;
    let metrics = client.subscribe(format!("{prefix}.v{VERSION}.metrics.*")).await;
    let metrics = metrics.map_err(|error| OpenError::Away(error.to_string()))?;
    Ok(Open { client, metrics })
}

/// Returns once the view is to end.
async fn ended(tally: &CentralTally) {
    while !tally.ends.load(Relaxed) {
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stream_that_was_made_again_is_seen_by_its_time_or_its_count() {
        let info =
            |created: &str, last: u64| json!({"created": created, "state": {"last_seq": last}});
        let read =
            ReadStream { created: Some(String::from("2026-11-30T06:00:00.1Z")), sequence: 9 };
        assert!(!read.is_other(&info("2026-11-30T06:00:00.1Z", 9)));
        // Purged, it counts on.
        assert!(!read.is_other(&info("2026-11-30T06:00:00.1Z", 12)));
        // More came since than were read before.
        assert!(read.is_other(&info("2026-11-30T06:00:05Z", 12)));
        assert!(read.is_other(&info("2026-11-30T06:00:00.1Z", 8)));
        let unasked = ReadStream { created: None, sequence: 9 };
        assert!(!unasked.is_other(&info("2026-11-30T06:00:05Z", 12)));
        assert!(unasked.is_other(&info("2026-11-30T06:00:05Z", 8)));
        assert!(!read.is_other(&json!({})));
    }
}
