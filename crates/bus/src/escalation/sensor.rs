//! The sensor's end: the connection over which rows go out and answers come back.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::client::PublishErrorKind;
use async_nats::connection::State;
use async_nats::{Client, Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use store::Store;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self as parcels, Receiver};
use tokio::time::sleep;

use super::format::{self, Answer, Status};
use super::tally::{EscalationTally, Outcome};
use crate::link::{Link, LinkEvent, OpenError, connect, first, wait_before};
use crate::message::token;
use crate::{BusError, runtime};

/// Lists of messages on their way to the connection at most, of all threads that keep flows. Rows
/// under way are bounded as well.
const LISTS_MAX: usize = 1024;

/// What waits for the connection looks so often whether that is still of use.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often it is looked for what is to be reported.
const REPORT_EVERY: Duration = Duration::from_millis(200);

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
pub(super) struct Parcel {
    pub(super) subject: Subject,
    /// Who gets the answer.
    pub(super) asker: usize,
    /// The number of the message among those of the asker.
    pub(super) number: u64,
    pub(super) bytes: Bytes,
    /// From here on no answer is waited for.
    pub(super) until: Duration,
    /// Whether it was published before, with all of its time to live.
    pub(super) is_repeated: bool,
}

/// What came for a message that was sent.
pub(super) struct Arrival {
    pub(super) number: u64,
    /// When it came: who asked may be busy for longer.
    pub(super) at: Duration,
    /// None where no worker heard it, or the answer is none.
    pub(super) answer: Option<Answer>,
    pub(super) outcome: Outcome,
}

/// The connection of a sensor over which rows are escalated.
pub struct Escalations {
    pub(super) options: EscalationOptions,
    pub(super) tally: Arc<EscalationTally>,
    pub(super) askers: Arc<Mutex<Vec<Sender<Arrival>>>>,
    /// Bytes of a message that the broker takes.
    pub(super) len_max: Arc<AtomicUsize>,
    /// The messages of one time that rows are flushed go together, so that the thread is woken
    /// once for them.
    pub(super) to: Option<parcels::Sender<Vec<Parcel>>>,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Escalations {
    /// Connects. A broker that does not answer within two seconds is no error: it is tried again
    /// for as long as the run lasts.
    ///
    /// # Errors
    /// [`BusError`], where trying again would not help.
    pub fn begin(options: EscalationOptions) -> Result<Arc<Self>, BusError> {
        let tally = Arc::new(EscalationTally::new(options.tell));
        let askers = Arc::new(Mutex::new(Vec::new()));
        let len_max = Arc::new(AtomicUsize::new(usize::MAX));
        let (to, from) = parcels::channel(LISTS_MAX);
        let ends = Ends {
            link: options.link.clone(),
            name: format!("wirelens {} escalations", options.sensor),
            inbox: format!("_INBOX.{}-{}-e", token(&options.sensor), token(&options.run)),
            tally: Arc::clone(&tally),
            askers: Arc::clone(&askers),
            len_max: Arc::clone(&len_max),
            monotonic: options.monotonic,
        };
        let runtime = runtime().map_err(BusError::Start)?;
        let opened = match runtime.block_on(first(&options.link, ends.open())) {
            Ok(opened) => Some(opened),
            Err(OpenError::Refused(error)) => return Err(error),
            Err(OpenError::Away(why)) => {
                ends.note_away(&why);
                None
            }
        };
        let thread = thread::Builder::new()
            .name("escalations".into())
            .spawn(move || {
                ends.carry_all(runtime, opened, from);
                ends.tally.report((ends.monotonic)(), true);
            })
            .map_err(BusError::Start)?;
        Ok(Arc::new(Self { options, tally, askers, len_max, to: Some(to), thread: Some(thread) }))
    }

    /// Has its counts shown.
    pub fn count_in(&self, store: &Store) {
        let tally = Arc::clone(&self.tally);
        store.count_by("escalations", Box::new(move || tally.counts()));
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

/// A connection that is open.
struct Opened {
    client: Client,
    inbox: Subscriber,
    /// Notified once it is lost.
    lost: Arc<Notify>,
}

/// The thread's ends: the broker and the askers.
struct Ends {
    link: Link,
    name: String,
    inbox: String,
    tally: Arc<EscalationTally>,
    askers: Arc<Mutex<Vec<Sender<Arrival>>>>,
    len_max: Arc<AtomicUsize>,
    monotonic: fn() -> Duration,
}

impl Ends {
    async fn open(&self) -> Result<Opened, OpenError> {
        let (tally, monotonic) = (Arc::clone(&self.tally), self.monotonic);
        let lost = Arc::new(Notify::new());
        let notified = Arc::clone(&lost);
        let on_event = move |event| match event {
            LinkEvent::Connected => tally.note_connected(),
            LinkEvent::Away(why) => {
                tally.note_away(&why, monotonic());
                notified.notify_one();
            }
            LinkEvent::Trouble(why) => {
                tally.note_trouble(&why, monotonic());
                tally.report(monotonic(), false);
            }
        };
        let client = connect(&self.link, &self.name, &self.inbox, Arc::new(on_event)).await?;
        self.len_max.store(client.max_payload(), Relaxed);
        let inbox = client.subscribe(format!("{}.*.*", self.inbox)).await;
        let inbox = inbox.map_err(|error| OpenError::Away(error.to_string()))?;
        self.tally.note_connected();
        Ok(Opened { client, inbox, lost })
    }

    fn note_away(&self, why: &str) {
        self.tally.note_away(why, (self.monotonic)());
    }

    /// Returns when no one sends any more, or at this time.
    async fn no_more(&self, from: &Receiver<Vec<Parcel>>, until: Duration) {
        while !from.is_closed() && (self.monotonic)() < until {
            sleep(LOOK_EVERY).await;
        }
    }

    /// Connects once the broker answers; none where no one sends any more before.
    async fn open_later(&self, from: &Receiver<Vec<Parcel>>) -> Option<Opened> {
        for attempt in 1.. {
            let open = async {
                sleep(wait_before(attempt)).await;
                self.open().await
            };
            let opened = tokio::select! {
                opened = open => opened,
                () = self.no_more(from, Duration::MAX) => return None,
                () = self.report() => return None,
            };
            match opened {
                Ok(opened) => return Some(opened),
                Err(OpenError::Away(why)) => self.note_away(&why),
                Err(OpenError::Refused(error)) => self.note_away(&error.to_string()),
            }
        }
        None
    }

    /// Connection after connection, until no one sends any more.
    ///
    /// Each has a runtime of its own. With it ends what the library still has to send: it would
    /// keep up to 64 messages until the broker is back, and a worker, which measures their time to
    /// live from their arrival, would score what no one waits for any more.
    fn carry_all(
        &self,
        mut runtime: Runtime,
        mut opened: Option<Opened>,
        mut from: Receiver<Vec<Parcel>>,
    ) {
        loop {
            let is_over = runtime.block_on(self.carry(opened.take(), &mut from));
            // No end of a run waits for the name of a server.
            runtime.shutdown_background();
            if is_over {
                return;
            }
            match crate::runtime() {
                Ok(next) => runtime = next,
                Err(error) => return self.note_away(&error.to_string()),
            }
        }
    }

    /// Carries messages to the broker and answers back, until the connection is lost; whether no
    /// one sends any more.
    async fn carry(&self, opened: Option<Opened>, from: &mut Receiver<Vec<Parcel>>) -> bool {
        let opened = match opened {
            Some(opened) => Some(opened),
            None => self.open_later(from).await,
        };
        let Some(Opened { client, inbox, lost }) = opened else { return true };
        // Each by itself: a connection that takes no more keeps no answer from coming.
        tokio::select! {
            () = self.send_all(&client, from) => true,
            () = self.hear(inbox) => false,
            () = lost.notified() => false,
            () = self.report() => false,
        }
    }

    /// Never returns.
    async fn report(&self) {
        loop {
            sleep(REPORT_EVERY).await;
            self.tally.report((self.monotonic)(), false);
        }
    }

    async fn hear(&self, mut inbox: Subscriber) {
        while let Some(message) = inbox.next().await {
            self.deliver(&message);
        }
    }

    /// Sends until no one asks any more. What is not sent by then has no one who waits for it.
    async fn send_all(&self, client: &Client, from: &mut Receiver<Vec<Parcel>>) {
        while let Some(list) = from.recv().await {
            // Another server of the broker may allow less.
            self.len_max.store(client.max_payload(), Relaxed);
            for parcel in list {
                if from.is_closed() {
                    return;
                }
                self.send(client, parcel, from).await;
            }
        }
    }

    /// Sends a message as long as its answer can be in time: a broker that takes no bytes would
    /// hold up the end of the run, and get late what no one waits for any more.
    async fn send(&self, client: &Client, parcel: Parcel, from: &Receiver<Vec<Parcel>>) {
        let Parcel { subject, asker, number, bytes, until, is_repeated } = parcel;
        let left = until.saturating_sub((self.monotonic)());
        // It is past its deadline, or the connection is about to be given up.
        if left.is_zero() || client.connection_state() != State::Connected {
            return;
        }
        let bytes = match is_repeated {
            true => Bytes::from(format::with_time_to_live(&bytes, left)),
            false => bytes,
        };
        let reply = format!("{}.{asker}.{number}", self.inbox);
        let sent = tokio::select! {
            biased;
            sent = client.publish_with_reply(subject, reply, bytes) => sent,
            () = self.no_more(from, until) => return,
        };
        if let Err(error) = sent {
            let outcome = match error.kind() {
                PublishErrorKind::MaxPayloadExceeded => Outcome::NoRoom,
                PublishErrorKind::InvalidSubject | PublishErrorKind::Send => Outcome::Away,
            };
            let at = (self.monotonic)();
            self.pass(Some((asker, Arrival { number, at, answer: None, outcome })));
        }
    }

    /// Passes an answer to who asked.
    fn deliver(&self, message: &Message) {
        self.pass(arrival(message, &self.inbox, (self.monotonic)()));
    }

    /// What is no answer to anyone is counted.
    fn pass(&self, arrival: Option<(usize, Arrival)>) {
        let askers = self.askers.lock().unwrap_or_else(PoisonError::into_inner);
        let asker = arrival.as_ref().and_then(|(asker, _)| askers.get(*asker));
        match (asker, arrival) {
            // An asker that is gone waits for nothing.
            (Some(asker), Some((_, arrival))) => drop(asker.send(arrival)),
            _ => self.tally.note_unexpected(),
        }
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::AtomicU64;

    use super::*;

    const DEADLINE: Duration = Duration::from_millis(200);
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Time passes where it is waited.
    static NOW_MS: AtomicU64 = AtomicU64::new(0);
    const STEP_MS: u64 = 20;

    /// Reads until the bytes are there; all that came.
    fn read_until(stream: &mut TcpStream, wanted: &[u8]) -> Vec<u8> {
        let (mut seen, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        while !seen.windows(wanted.len()).any(|bytes| bytes == wanted) {
            let len = stream.read(&mut buffer).unwrap();
            assert!(len > 0, "the sensor hung up");
            seen.extend_from_slice(&buffer[..len]);
        }
        seen
    }

    /// Lets a sensor in, as a broker does.
    fn let_in(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().unwrap();
        let info = r#"INFO {"server_id":"S","version":"2.10.0","max_payload":1048576}"#;
        stream.write_all(format!("{info}\r\n").as_bytes()).unwrap();
        read_until(&mut stream, b"PING\r\n");
        stream.write_all(b"PONG\r\n").unwrap();
        stream
    }

    fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..1000 {
            if holds() {
                return;
            }
            thread::sleep(Duration::from_millis(STEP_MS));
            NOW_MS.fetch_add(STEP_MS, Relaxed);
        }
        panic!("waited in vain: {what}");
    }

    /// The broker stops reading while far more is sent than connections hold, and is back after the
    /// deadline of it all: what it then gets is only what was asked since.
    #[test]
    fn what_waited_for_a_broker_that_is_back_does_not_go_out_late() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("nats://{}", listener.local_addr().unwrap());
        let (first_to, first_from) = std::sync::mpsc::channel();
        let (seen_to, seen_from) = std::sync::mpsc::channel();
        let broker = thread::spawn(move || {
            first_to.send(let_in(&listener)).unwrap();
            let mut second = let_in(&listener);
            seen_to.send(Vec::new()).unwrap();
            seen_to.send(read_until(&mut second, &[9; 100])).unwrap();
        });
        let escalations = Escalations::begin(EscalationOptions {
            link: Link { servers: vec![server], ..Link::default() },
            prefix: String::from("wirelens"),
            sensor: String::from("s"),
            run: String::from("1"),
            monotonic: || Duration::from_millis(NOW_MS.load(Relaxed)),
            tell: |_| {},
        });
        let escalations = escalations.unwrap();
        let first = first_from.recv_timeout(PATIENCE).unwrap();
        let stop = Arc::default();
        let mut asker = escalations.asker(("m", 3), DEADLINE, 1 << 16, stop);
        let mut outcomes = Vec::new();
        for place in 0..1000 {
            asker.ask((place, 0), 1, &[7; 1 << 16], &[], None);
        }
        asker.flush();
        wait_until("all is late", || {
            asker.take(false, &mut outcomes);
            asker.under_way() == 0
        });
        drop(first);
        assert!(seen_from.recv_timeout(PATIENCE).unwrap().is_empty());
        let mut seen = Vec::new();
        wait_until("what was asked since", || {
            asker.ask((0, 0), 1, &[9; 100], &[], None);
            asker.take(false, &mut outcomes);
            asker.flush();
            seen = seen_from.try_recv().unwrap_or_default();
            !seen.is_empty()
        });
        broker.join().unwrap();
        assert!(!seen.contains(&7), "{} bytes came late", seen.len());
    }
}
