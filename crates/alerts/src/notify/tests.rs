use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use packet::Timestamp;
use serde_json::Value as Json;

use super::feed::ROOM_WITHIN;
use super::*;
use crate::alert::tests::sample;

/// The clocks of tests, which may read the machine's.
#[allow(clippy::disallowed_methods)]
pub(crate) fn clocks() -> Clocks {
    fn monotonic() -> Duration {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        START.elapsed()
    }
    Clocks { monotonic, realtime: || Timestamp::from_ns(1_772_359_260_000_000_000) }
}

fn origin() -> Origin {
    let page = Some("http://127.0.0.1:9417/".into());
    Origin { host: "sensor-1".into(), page, clocks: clocks(), eve: |alert| Some(alert.json()) }
}

fn settings(text: &str) -> NotifySettings {
    toml::from_str(text).unwrap()
}

/// A request: its head in lower case, and its body.
struct Request {
    head: String,
    body: Json,
}

/// Answers requests with these, one connection each, the last for ever; none keeps the
/// connection open without an answer.
fn serve(answers: Vec<Option<&'static str>>) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut held = Vec::new();
        for at in 0.. {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = Vec::new();
            let (head, len) = loop {
                let mut some = [0; 4_096];
                let count = stream.read(&mut some).unwrap();
                bytes.extend_from_slice(&some[..count]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let Some((head, _)) = text.split_once("\r\n\r\n") {
                    let head = head.to_lowercase();
                    let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    break (head.clone(), len.unwrap().parse::<usize>().unwrap());
                }
            };
            let start = head.len() + 4;
            while bytes.len() < start + len {
                let mut some = [0; 4_096];
                let count = stream.read(&mut some).unwrap();
                bytes.extend_from_slice(&some[..count]);
            }
            let body = serde_json::from_slice(&bytes[start..]).unwrap();
            if sender.send(Request { head, body }).is_err() {
                return;
            }
            match answers.get(at).or(answers.last()).unwrap() {
                Some(answer) => {
                    let head = format!("HTTP/1.1 {answer}\r\nconnection: close\r\n\r\n");
                    let _ = stream.write_all(head.as_bytes());
                }
                None => held.push(stream),
            }
        }
    });
    (format!("http://{address}"), receiver)
}

const OK: Option<&str> = Some("200 OK\r\ncontent-length: 0");
const BROKEN: Option<&str> = Some("500 Internal Server Error\r\ncontent-length: 0");

/// Delivers these alerts as a thread does, and says how that went.
fn deliver(settings: &NotifySettings, alerts: &[Arc<Alert>]) -> NotifyState {
    let destination = open(settings, &origin()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let feed = Feed::new(settings, "name".into(), clocks());
    alerts.iter().for_each(|alert| feed.push(alert));
    thread::scope(|scope| {
        let working = scope.spawn(|| work(&feed, destination, settings.attempts));
        while !working.is_finished() {
            let state = feed.state();
            let done = state.delivered + state.failed;
            if state.waiting == 0 && done + state.dropped + state.held_back >= alerts.len() as u64 {
                feed.end(Duration::ZERO);
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    feed.state()
}

fn firing(ids: std::ops::Range<u64>) -> Vec<Arc<Alert>> {
    ids.map(|id| Arc::new(sample(id))).collect()
}

#[test]
fn a_webhook_is_tried_again_after_a_failure() {
    let (url, requests) = serve(vec![BROKEN, OK]);
    let state = deliver(&settings(&format!("kind = 'webhook'\nto = '{url}/hook'")), &firing(1..3));
    assert_eq!((state.delivered, state.retried, state.failed), (2, 1, 0), "{state:?}");
    let (first, second) = (requests.recv().unwrap(), requests.recv().unwrap());
    assert!(first.head.starts_with("post /hook http/1.1"), "{}", first.head);
    assert!(first.head.contains("content-type: application/json"));
    assert_eq!(first.body, second.body);
    let body = second.body;
    assert_eq!((&body["version"], &body["status"]), (&"4".into(), &"firing".into()));
    assert_eq!(body["commonLabels"]["severity"], "critical");
    assert_eq!(body["alerts"].as_array().unwrap().len(), 2);
    let alert = &body["alerts"][0];
    assert_eq!(alert["annotations"]["summary"], "quoted \" ] \\ é");
    assert_eq!(alert["startsAt"], "2026-03-01T10:00:00.123456789Z");
}

#[test]
fn a_receiver_that_does_not_answer_is_given_up_in_time() {
    let (url, _requests) = serve(vec![None]);
    let text = format!("kind = 'webhook'\nto = '{url}'\ntimeout = '200ms'\nattempts = 2");
    let began = (clocks().monotonic)();
    let state = deliver(&settings(&text), &firing(1..2));
    assert_eq!((state.delivered, state.retried, state.failed), (0, 1, 1), "{state:?}");
    assert!(state.failure.unwrap().contains("timeout"));
    assert!((clocks().monotonic)() - began < Duration::from_secs(10));
}

#[test]
fn a_redirect_is_not_followed_and_a_refusal_not_repeated() {
    let secret = std::env::temp_dir().join(format!("wirelens-{}-token", std::process::id()));
    fs::write(&secret, "s3cret\nmore\n").unwrap();
    let elsewhere =
        Some("307 Temporary Redirect\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0");
    for (answer, wanted) in [
        (elsewhere, "http://elsewhere.example/"),
        (
            Some("403 Forbidden\r\ncontent-length: 5\r\n\r\nno\u{7}no"),
            "HTTP status 403: no\\u{7}no",
        ),
    ] {
        let (url, requests) = serve(vec![answer]);
        let text = format!("kind = 'webhook'\nto = '{url}'\ntoken-file = '{}'", secret.display());
        let state = deliver(&settings(&text), &firing(1..2));
        assert_eq!((state.delivered, state.retried, state.failed), (0, 0, 1), "{state:?}");
        let why = state.failure.unwrap();
        assert!(why.contains(wanted) && !why.contains("s3cret"), "{why}");
        assert!(requests.recv().unwrap().head.contains("authorization: bearer s3cret"));
    }
    fs::remove_file(secret).unwrap();
}

#[test]
fn a_receiver_says_when_to_come_again() {
    let busy = Some("429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0");
    let (url, _requests) = serve(vec![busy, OK]);
    let began = (clocks().monotonic)();
    let state = deliver(&settings(&format!("kind = 'webhook'\nto = '{url}'")), &firing(1..2));
    assert_eq!((state.delivered, state.retried), (1, 1));
    assert!((clocks().monotonic)() - began >= Duration::from_secs(1));
}

#[test]
fn alertmanager_is_sent_what_is_active_again_and_what_is_over_once() {
    let (url, requests) = serve(vec![BROKEN, OK]);
    let text = format!("kind = 'alertmanager'\nto = '{url}/am/'\nresend = '300ms'");
    let settings = settings(&text);
    let destination = open(&settings, &origin()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let feed = Feed::new(&settings, "name".into(), clocks());
    let alert = sample(7);
    thread::scope(|scope| {
        scope.spawn(|| work(&feed, destination, None));
        feed.push(&Arc::new(alert.clone()));
        let next = || requests.recv_timeout(Duration::from_secs(9)).unwrap();
        let first = next();
        assert!(first.head.starts_with("post /am/api/v2/alerts "), "{}", first.head);
        // Tried again after the failure, then re-sent while it is active.
        for _ in 0..3 {
            let body = next().body;
            let [one] = body.as_array().unwrap().as_slice() else { panic!("{body}") };
            assert_eq!(one["labels"]["alertname"], "drops");
            assert_eq!(one["startsAt"], "2026-03-01T10:00:00.123456789Z");
            // Four times `resend` after the clock.
            assert_eq!(one["endsAt"], "2026-03-01T10:01:01.200000000Z");
            assert_eq!(one["generatorURL"], "http://127.0.0.1:9417/");
        }
        let end = Timestamp::from_ns(alert.time.as_ns() + 1_000_000_000);
        feed.push(&Arc::new(alert.resolved(end, 9)));
        let last = loop {
            let body = next().body;
            if body[0]["endsAt"] == "2026-03-01T10:00:01.123456789Z" {
                break body;
            }
        };
        assert_eq!(last.as_array().unwrap().len(), 1);
        let more = requests.recv_timeout(Duration::from_millis(900));
        assert!(more.is_err(), "nothing is active any more");
        feed.end(Duration::ZERO);
    });
}

#[test]
fn alertmanager_is_sent_what_is_over_before_what_fires_again() {
    let (url, requests) = serve(vec![OK]);
    let settings = settings(&format!("kind = 'alertmanager'\nto = '{url}'"));
    let first = sample(1);
    let end = Timestamp::from_ns(first.time.as_ns() + 1_000_000_000);
    // One batch: of both reports, which have the same labels, the later one counts.
    let batch = [Arc::new(first.resolved(end, 9)), Arc::new(sample(2))];
    assert_eq!(deliver(&settings, &batch).delivered, 2);
    let body = requests.recv().unwrap().body;
    assert_eq!(body[0]["labels"], body[1]["labels"]);
    assert_eq!(body[0]["endsAt"], "2026-03-01T10:00:01.123456789Z");
    assert_ne!(body[1]["endsAt"], body[0]["endsAt"]);
}

#[test]
fn what_alertmanager_is_sent_later_is_no_loss() {
    let (url, _requests) = serve(vec![BROKEN, OK]);
    let text = format!("kind = 'alertmanager'\nto = '{url}'\nattempts = 1\nresend = '100ms'");
    let settings = settings(&text);
    let destination = open(&settings, &origin()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let feed = Feed::new(&settings, "pager".into(), clocks());
    firing(0..2).iter().for_each(|alert| feed.push(alert));
    let began = (clocks().monotonic)();
    thread::scope(|scope| {
        scope.spawn(|| work(&feed, destination, settings.attempts));
        while feed.state().late < 2 && (clocks().monotonic)() - began < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(5));
        }
        feed.end(Duration::ZERO);
    });
    let state = feed.state();
    assert_eq!((state.delivered, state.failed, state.late), (2, 2, 2), "{state:?}");
    assert_eq!(state.loss(), None);
}

#[test]
fn a_full_queue_is_waited_for_while_something_is_taken_out_of_it() {
    let path = log_path("waited");
    let settings = settings(&format!("kind = 'jsonl'\nto = {path:?}\nqueue = 3"));
    let destination = open(&settings, &origin()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let feed = Feed::new(&settings, "file".into(), clocks()).waiting_for_room(true);
    thread::scope(|scope| {
        scope.spawn(|| work(&feed, destination, settings.attempts));
        firing(0..500).iter().for_each(|alert| feed.push(alert));
        feed.end(Duration::from_secs(20));
    });
    assert_eq!((feed.state().delivered, feed.state().loss()), (500, None));
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    assert_eq!(text.lines().count(), 500);
    // Nothing takes anything: the first that finds it full waits, and the others do not.
    let feed = Feed::new(&settings, "file".into(), clocks()).waiting_for_room(true);
    let began = (clocks().monotonic)();
    firing(0..20).iter().for_each(|alert| feed.push(alert));
    assert_eq!(feed.state().dropped, 17);
    assert!((clocks().monotonic)() - began < 5 * ROOM_WITHIN);
}

#[test]
fn alerts_that_no_one_takes_are_a_loss_and_those_over_the_rate_are_not() {
    let (url, _requests) = serve(vec![BROKEN]);
    let text = format!("kind = 'webhook'\nto = '{url}'\nattempts = 1\nqueue = 3");
    let state = deliver(&settings(&text), &firing(0..5));
    let wanted = "[[notify]] name: 5 alerts were not delivered, 2 of them as its queue was full: \
                  HTTP status 500";
    assert!(state.loss().is_some_and(|loss| loss.starts_with(wanted)), "{:?}", state.loss());
    let held_back = NotifyState { held_back: 3, ..NotifyState::default() };
    assert_eq!(held_back.loss(), None, "so it was asked for");
}

#[test]
fn messages_of_syslog_arrive_over_udp_and_sockets_of_the_machine() {
    let grammar = syslog::tests::grammar();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!("udp://{}", socket.local_addr().unwrap());
    let state = deliver(&settings(&format!("kind = 'syslog'\nto = '{to}'")), &firing(1..4));
    assert_eq!(state.delivered, 3);
    let mut bytes = [0; 9_999];
    let len = socket.recv(&mut bytes).unwrap();
    assert!(grammar.is_match(std::str::from_utf8(&bytes[..len]).unwrap()));

    let path = std::env::temp_dir().join(format!("wirelens-{}-log", std::process::id()));
    let socket = UnixDatagram::bind(&path).unwrap();
    let text = format!("kind = 'syslog'\nto = 'unix:{}'\nfacility = 'local5'", path.display());
    assert_eq!(deliver(&settings(&text), &firing(1..2)).delivered, 1);
    let len = socket.recv(&mut bytes).unwrap();
    let found = grammar.captures(std::str::from_utf8(&bytes[..len]).unwrap()).unwrap();
    assert_eq!((&found["pri"], &found["host"]), ("170", "sensor-1"));
    fs::remove_file(path).unwrap();
    let gone = deliver(&settings(&format!("{text}\nattempts = 1")), &firing(1..2));
    assert_eq!((gone.failed, gone.failure.is_some()), (1, true));
}

fn log_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wirelens-{}-{name}.jsonl", std::process::id()))
}

fn lines(path: &PathBuf) -> Vec<Json> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn json_lines_are_appended_and_a_file_that_was_moved_is_opened_again() {
    let (path, moved) = (log_path("log"), log_path("moved"));
    let settings = settings(&format!("kind = 'jsonl'\nto = '{}'", path.display()));
    assert_eq!(deliver(&settings, &firing(1..3)).delivered, 2);
    // Another run appends.
    let destination = open(&settings, &origin()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let feed = Feed::new(&settings, "name".into(), clocks());
    let wait_for = |count| {
        while feed.state().delivered < count {
            thread::sleep(Duration::from_millis(1));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| work(&feed, destination, None));
        feed.push(&Arc::new(sample(3)));
        wait_for(1);
        fs::rename(&path, &moved).unwrap();
        feed.push(&Arc::new(sample(4)));
        wait_for(2);
        feed.reopen();
        while !path.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        feed.push(&Arc::new(sample(5)));
        wait_for(3);
        feed.end(Duration::ZERO);
    });
    assert_eq!((lines(&moved).len(), lines(&path).len()), (4, 1));
    assert_eq!(lines(&path)[0]["labels"]["alertname"], "drops");
    fs::remove_file(path).unwrap();
    fs::remove_file(moved).unwrap();
    let nowhere = NotifySettings { to: "/nonexistent/a.jsonl".into(), ..settings };
    assert!(open(&nowhere, &origin()).err().unwrap()[0].1.contains("/nonexistent/a.jsonl"));
}

#[test]
fn a_line_that_a_power_cut_tore_does_not_spoil_the_next() {
    let path = log_path("torn");
    fs::write(&path, "{\"torn\":").unwrap();
    let settings = settings(&format!("kind = 'jsonl'\nto = '{}'", path.display()));
    assert_eq!(deliver(&settings, &firing(1..3)).delivered, 2);
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.lines().skip(1).all(|line| serde_json::from_str::<Json>(line).is_ok()), "{text}");
}

#[test]
fn a_queue_that_is_full_drops_the_oldest_and_counts() {
    let path = log_path("full");
    let text = format!("kind = 'jsonl'\nto = '{}'\nqueue = 10", path.display());
    let state = deliver(&settings(&text), &firing(0..25));
    assert_eq!((state.delivered, state.dropped), (10, 15));
    assert_eq!(lines(&path).len(), 10);
    fs::remove_file(path).unwrap();
}

#[test]
fn what_is_over_the_rate_is_held_back_with_its_resolution() {
    let path = log_path("rate");
    let text = format!("kind = 'jsonl'\nto = '{}'\nrate = '3/h'", path.display());
    let mut alerts = firing(0..10);
    let resolved = |alert: &Arc<Alert>| Arc::new(alert.resolved(alert.time, 1));
    alerts.extend(alerts.iter().map(resolved).collect::<Vec<_>>());
    let settings = settings(&text);
    let destination = open(&settings, &origin()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let feed = Feed::new(&settings, "name".into(), clocks());
    alerts.iter().for_each(|alert| feed.push(alert));
    feed.end(Duration::from_secs(9));
    work(&feed, destination, None);
    let state = feed.state();
    assert_eq!((state.delivered, state.held_back), (6, 7), "three fire, three are resolved");
    let mut states: HashMap<String, usize> = HashMap::new();
    for line in lines(&path) {
        *states.entry(line["state"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(states, HashMap::from([("firing".into(), 3), ("resolved".into(), 3)]));
    fs::remove_file(path).unwrap();
}

#[test]
fn only_alerts_with_the_labels_are_delivered() {
    let path = log_path("only");
    let text = format!("kind = 'jsonl'\nto = '{}'\n", path.display());
    for (only, count) in [
        ("only = { severity = ['critical', 'page'] }", 1),
        ("only = { severity = 'warning' }", 0),
        ("only = { alertname = 'drops', team = 'net' }", 0),
        ("only = { alertname = 'drops' }", 1),
    ] {
        let settings = settings(&format!("{text}{only}"));
        let feed = Feed::new(&settings, "name".into(), clocks());
        feed.push(&Arc::new(sample(1)));
        assert_eq!(feed.state().waiting, count, "{only}");
    }
}

#[test]
fn a_receiver_that_does_not_answer_does_not_hold_up_the_end() {
    let (url, _requests) = serve(vec![None]);
    let text = format!("kind = 'webhook'\nto = '{url}'\ntimeout = '100ms'\nrate = '999/s'");
    let settings = settings(&text);
    let destination = open(&settings, &origin()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let feed = Feed::new(&settings, "name".into(), clocks());
    firing(0..900).iter().for_each(|alert| feed.push(alert));
    feed.end(Duration::from_millis(300));
    let began = (clocks().monotonic)();
    work(&feed, destination, None);
    assert!((clocks().monotonic)() - began < Duration::from_secs(10));
    let state = feed.state();
    assert_eq!((state.delivered, state.failed, state.waiting), (0, 900, 0));
}

#[test]
fn destinations_without_a_name_of_their_own_have_numbers() {
    let read = |text: &str| settings(&format!("kind = 'syslog'\n{text}"));
    let all = [read(""), read("name = 'log'"), read(""), read("name = 'log'")];
    assert_eq!(names(&all), ["syslog", "log", "syslog 2", "log 2"]);
}
