#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn silent(line: &str) {
    unreachable!("{line}");
}

fn started(socket: impl Into<OsString>, watchdog_usec: &str) -> ServiceEnvironment {
    let watchdog_usec = Some(watchdog_usec.into()).filter(|text: &OsString| !text.is_empty());
    ServiceEnvironment { socket: Some(socket.into()), watchdog_usec, watchdog_pid: None, pid: 7 }
}

fn received(manager: &UnixDatagram) -> Vec<String> {
    manager.set_nonblocking(true).unwrap();
    let mut buffer = [0; 1024];
    let mut messages = Vec::new();
    while let Ok(len) = manager.recv(&mut buffer) {
        messages.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
    }
    messages
}

#[test]
fn states_come_in_order_and_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let service = Service::found(&started(&path, ""), silent).unwrap().unwrap();
    let at = Instant::now();
    let status = || String::from("3 packets\nread");
    assert!(received(&manager).is_empty(), "it is not ready");
    service.tick(at, status);
    service.tick(at + Duration::from_secs(9), status);
    assert_eq!(received(&manager), ["READY=1", "STATUS=3 packets read"]);
    service.reloading();
    service.reloading();
    service.taken_up();
    service.tick(at, status);
    let messages = received(&manager);
    assert_eq!(messages.len(), 2, "one reload is still going on: {messages:?}");
    assert!(messages.iter().all(|text| text.starts_with("RELOADING=1\nMONOTONIC_USEC=")));
    service.taken_up();
    assert!(received(&manager).is_empty());
    service.tick(at, status);
    assert_eq!(received(&manager), ["READY=1"]);
    service.stopping();
    service.stopping();
    service.reloading();
    service.tick(at + Duration::from_secs(60), status);
    assert_eq!(received(&manager), ["STOPPING=1"]);
}

#[test]
fn the_watchdog_is_answered_at_half_of_its_time() {
    let name = format!("wirelens-service-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    let service = Service::found(&started(format!("@{name}"), "2000000"), silent);
    let service = service.unwrap().unwrap();
    let at = Instant::now();
    for ms in [0, 400, 999, 1000, 1500, 5000, 5100] {
        service.tick(at + Duration::from_millis(ms), String::new);
    }
    let messages = received(&manager);
    let count = messages.iter().filter(|text| *text == "WATCHDOG=1").count();
    assert_eq!(count, 3, "{messages:?}");
    let of_another =
        ServiceEnvironment { watchdog_pid: Some("8".into()), ..started("/x", "2000000") };
    assert_eq!(watchdog_every(&of_another), None);
    let ours = ServiceEnvironment { watchdog_pid: Some("7".into()), ..of_another };
    assert_eq!(watchdog_every(&ours), Some(Duration::from_secs(1)));
    for text in ["0", "-1", "soon", ""] {
        assert_eq!(watchdog_every(&started("/x", text)), None, "{text}");
    }
}

#[test]
fn what_there_is_no_room_for_is_sent_later_and_nothing_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let service = Service::found(&started(&path, "2"), silent).unwrap().unwrap();
    let at = Instant::now();
    for _ in 0..10_000 {
        service.tick(at, String::new);
        service.reloading();
    }
    let waiting = service.state().waiting.len();
    assert!((1..=WAITING_MAX).contains(&waiting), "{waiting}");
    assert_eq!(received(&manager)[0], "READY=1");
    service.stopping();
    service.tick(at, String::new);
    let last = received(&manager).pop();
    assert_eq!(last.as_deref(), Some("STOPPING=1"), "nothing waits any more");
}

#[test]
fn a_manager_that_is_not_there_is_reported_once() {
    static LINES: AtomicUsize = AtomicUsize::new(0);
    fn count(line: &str) {
        assert!(line.contains("/nowhere/notify") && line.contains("the run goes on"), "{line}");
        LINES.fetch_add(1, Ordering::Relaxed);
    }
    let service = Service::found(&started("/nowhere/notify", ""), count).unwrap().unwrap();
    service.tick(Instant::now(), String::new);
    service.stopping();
    assert_eq!(LINES.load(Ordering::Relaxed), 1);
    for name in ["vsock:2:1234", "relative"] {
        let wrong = Service::found(&started(name, ""), count).unwrap_err();
        assert!(wrong.contains(name) && wrong.contains("wanted"), "{wrong}");
    }
    let too_long = format!("/{}", "x".repeat(200));
    assert!(Service::found(&started(too_long, ""), count).is_err());
    assert!(Service::found(&started("", ""), count).unwrap().is_none());
    assert!(Service::found(&ServiceEnvironment::default(), count).unwrap().is_none());
}
