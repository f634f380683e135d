//! Clients that are slow, ask for much or do not wait, on real connections.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use server::{Facts, Limits, Mode, Options, Server};
use store::Store;
use store::packets::{PacketLog, PacketQuery, PacketRow};

/// The length of a download.
const DOWNLOAD: usize = 16 << 20;

/// Tests give up after this.
const PATIENCE: Duration = Duration::from_secs(20);

const STEP: Duration = Duration::from_millis(20);

/// Downloads, and searches that find nothing until they are cancelled.
#[derive(Default)]
struct Packets {
    searching: AtomicUsize,
    cancelled: AtomicUsize,
}

impl PacketLog for Packets {
    fn status(&self) -> Result<String, String> {
        Ok(String::from("{}"))
    }

    fn rows(&self, query: &PacketQuery, _: usize) -> Result<(Vec<PacketRow>, bool), String> {
        self.searching.fetch_add(1, SeqCst);
        if (0..2 * PATIENCE.as_millis() / STEP.as_millis()).any(|_| {
            thread::sleep(STEP);
            query.cancellation.is_cancelled()
        }) {
            self.cancelled.fetch_add(1, SeqCst);
        }
        Ok((Vec::new(), false))
    }

    fn pcapng(&self, _: &PacketQuery) -> Result<Vec<u8>, String> {
        Ok(vec![7; DOWNLOAD])
    }
}

struct Served {
    server: Server,
    packets: Arc<Packets>,
}

impl Served {
    fn new(limits: Limits) -> Self {
        let packets = Arc::new(Packets::default());
        let facts = Facts {
            version: "1",
            mode: Mode::Captures,
            inputs: Box::new(Vec::new),
            now_ns: || 0,
            packets: Box::new(|| (0, 0)),
            packet_log: Some(Arc::<Packets>::clone(&packets)),
            history: None,
        };
        let listen = "127.0.0.1:0".parse().unwrap();
        let store = Store::new();
        store.end();
        let options = Options { listen, token: None, certificate: None };
        Self { server: Server::begin_with(options, limits, store, facts).unwrap(), packets }
    }

    fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A connection on which this was asked for.
    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Status, and all that is answered.
    fn get(&self, path: &str) -> (u16, String) {
        let mut text = Vec::new();
        let _ = self.ask(path).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or(0), text)
    }

    fn count(&self, name: &str) -> usize {
        let metrics = self.get("/metrics").1;
        let start = format!("wirelens_server_{name} ");
        let line = metrics.lines().find(|line| line.starts_with(&start));
        let value = line.unwrap_or_else(|| panic!("no {name} in {metrics}")).split(' ').next_back();
        value.unwrap().trim_end_matches(".0").parse().unwrap()
    }

    fn wait_for(&self, name: &str, is_it: impl Fn(usize) -> bool) {
        wait_until(name, || is_it(self.count(name)));
    }
}

fn wait_until(what: &str, mut is_it: impl FnMut() -> bool) {
    let tries = PATIENCE.as_millis() / STEP.as_millis();
    let is_found = (0..tries).any(|_| {
        let found = is_it();
        thread::sleep(if found { Duration::ZERO } else { STEP });
        found
    });
    assert!(is_found, "waited in vain for {what}");
}

/// Bytes that come until the connection ends, and whether it ends before the client gives up.
fn read_slowly(stream: &mut TcpStream, piece_len: usize, between: Duration) -> (usize, bool) {
    let (mut sum, mut piece) = (0, vec![0; piece_len]);
    for _ in 0..PATIENCE.as_millis() / between.as_millis() {
        match stream.read(&mut piece) {
            Ok(0) => return (sum, true),
            Ok(len) => sum += len,
            Err(error) => return (sum, error.kind() != io::ErrorKind::WouldBlock),
        }
        thread::sleep(between);
    }
    (sum, false)
}

#[test]
fn bytes_that_slow_clients_hold_are_bounded() {
    let served = Served::new(Limits { answer_bytes: 4 * DOWNLOAD, ..Limits::default() });
    let download = "/api/v1/packetlog/pcapng";
    let slow: Vec<_> = (0..3).map(|_| served.ask(download)).collect();
    served.wait_for("answer_bytes_waiting", |waiting| waiting >= 3 * DOWNLOAD);
    let (status, text) = served.get(download);
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("48 MiB of answers wait for clients that read slowly"), "{text}");
    assert!(text.contains("retry-after: 1"), "{text}");
    assert_eq!(served.count("answers_refused_total{cause=\"bytes\"}"), 1);
    assert_eq!(served.get("/api/v1/state").0, 200, "small answers have room of their own");
    drop(slow);
    // The answer that says so waits, too.
    served.wait_for("answer_bytes_waiting", |waiting| waiting < DOWNLOAD);
    let mut whole = Vec::new();
    served.ask(download).read_to_end(&mut whole).unwrap();
    assert!(whole.len() > DOWNLOAD && whole.ends_with(&[7; 64]), "{}", whole.len());
    served.server.end();
}

#[test]
fn events_end_where_there_is_no_room_for_them() {
    let served = Served::new(Limits { answer_bytes: 1_000, ..Limits::default() });
    let (status, text) = served.get("/api/v1/stream");
    assert_eq!(status, 200, "it ended, and was not waited for");
    assert!(!text.contains("event:"), "{text}");
    served.server.end();
}

#[test]
fn a_client_that_takes_an_answer_slowly_is_cut() {
    let within = Duration::from_secs(1);
    for limits in [
        Limits { taken_within: within, ..Limits::default() },
        Limits { takes_within: within, ..Limits::default() },
    ] {
        let served = Served::new(limits);
        let mut stream = served.ask("/api/v1/packetlog/pcapng");
        if limits.takes_within == within {
            thread::sleep(3 * within);
        }
        let (len, has_ended) = read_slowly(&mut stream, 64 << 10, Duration::from_millis(30));
        assert!(has_ended && len < DOWNLOAD, "{len} bytes of {DOWNLOAD}");
        assert_eq!(served.count("connections_cut_total{cause=\"answer\"}"), 1);
        served.wait_for("answer_bytes_waiting", |waiting| waiting < DOWNLOAD);
        served.server.end();
    }
}

#[test]
fn a_request_that_comes_slowly_is_cut() {
    let head_within = Duration::from_millis(500);
    let served = Served::new(Limits { head_within, ..Limits::default() });
    let mut idle = TcpStream::connect(served.address()).unwrap();
    idle.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(idle.read(&mut [0; 64]).unwrap(), 0, "closed, and not counted");
    assert_eq!(served.count("connections_cut_total{cause=\"request\"}"), 0);
    let mut slow = TcpStream::connect(served.address()).unwrap();
    let head = b"GET /api/v1/state HTTP/1.1\r\nHost: localhost\r\n".iter();
    let sent = head.take_while(|&&byte| {
        thread::sleep(Duration::from_millis(50));
        slow.write_all(&[byte]).is_ok()
    });
    assert!(sent.count() < 40, "the rest is not waited for");
    assert_eq!(served.count("connections_cut_total{cause=\"request\"}"), 1);
    served.server.end();
}

#[test]
fn connections_are_bounded() {
    let head_within = PATIENCE;
    let served = Served::new(Limits { connections: 2, head_within, ..Limits::default() });
    let idle = TcpStream::connect(served.address()).unwrap();
    served.wait_for("connections_open", |open| open == 2);
    let more = TcpStream::connect(served.address()).unwrap();
    let mut refused = TcpStream::connect(served.address()).unwrap();
    refused.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(refused.read(&mut [0; 64]).unwrap_or(0) == 0);
    drop((idle, more));
    wait_until("room", || served.get("/api/v1/state").0 == 200);
    assert!(served.count("connections_refused_total") >= 1);
    served.server.end();
}

#[test]
fn a_query_has_a_time_after_which_its_thread_is_free() {
    let query_within = Duration::from_millis(500);
    let served = Served::new(Limits { query_within, ..Limits::default() });
    // Of the last two, each waits for one of the first, which have both threads.
    let asked: Vec<_> = (0..4).map(|_| served.ask("/api/v1/packetlog/search")).collect();
    for mut stream in asked {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 504"), "{text}");
        assert!(text.contains("no answer after 500ms"), "{text}");
        assert!(text.contains("try a narrower time range (from, to)"), "{text}");
    }
    let Packets { searching, cancelled } = &*served.packets;
    wait_until("their ends", || cancelled.load(SeqCst) == searching.load(SeqCst));
    assert!((2..=4).contains(&searching.load(SeqCst)), "those that waited may not have begun");
    assert_eq!(served.count("answers_refused_total{cause=\"time\"}"), 4);
    assert_eq!(served.get("/api/v1/packetlog").0, 200);
    served.server.end();
}

#[test]
fn a_query_whose_client_has_gone_is_cancelled() {
    let served = Served::new(Limits { query_within: 2 * PATIENCE, ..Limits::default() });
    let gone = served.ask("/api/v1/packetlog/search");
    wait_until("the query", || served.packets.searching.load(SeqCst) == 1);
    drop(gone);
    wait_until("its end", || served.packets.cancelled.load(SeqCst) == 1);
    assert_eq!(served.count("answers_refused_total{cause=\"time\"}"), 0);
    served.server.end();
}

#[test]
fn queries_that_wait_are_bounded() {
    let query_within = Duration::from_secs(2);
    let served = Served::new(Limits { query_within, ..Limits::default() });
    let asked: Vec<_> = (0..65).map(|_| served.ask("/api/v1/packetlog/search")).collect();
    let answers = asked.into_iter().map(|mut stream| {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    });
    let busy = answers.filter(|text| text.contains("too many queries wait")).count();
    assert_eq!(busy, 1);
    // Those that were never begun make room as soon as a thread comes to them.
    wait_until("room", || served.get("/metrics").0 == 200);
    assert!(served.count("answers_refused_total{cause=\"queries\"}") >= 1);
    served.server.end();
}
