//! Syslog: messages of RFC 5424, over UDP (RFC 5426), TCP with octet counting (RFC 6587, 3.4.1) or
//! a socket of this machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use super::{Batch, Destination, Failure, Origin};
use crate::alert::{Alert, State, known};
use crate::rules::Wrong;
use crate::settings::{Facility, NotifySettings, duration_or};

/// Bytes of a datagram, which every receiver should take (RFC 5426, 3.2).
const DATAGRAM_LEN_MAX: usize = 2_048;

/// Bytes of a message over TCP.
const MESSAGE_LEN_MAX: usize = 8_192;

/// Bytes of the value of a parameter.
const PARAM_LEN_MAX: usize = 128;

/// Bytes of the name of a parameter (RFC 5424, 6.3.3).
const PARAM_NAME_LEN_MAX: usize = 32;

/// Reserved for documentation (RFC 5612).
const ENTERPRISE: u32 = 32_473;

/// Where messages go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Udp(String),
    Tcp(String),
    Unix(PathBuf),
}

impl Target {
    /// Reads `udp://HOST`, `tcp://HOST:PORT` or `unix:PATH`.
    ///
    /// # Errors
    /// What was wanted.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let wanted = || {
            let wanted = "wanted: udp://HOST:PORT, tcp://HOST:PORT or unix:/dev/log";
            format!("{text:?}; {wanted}")
        };
        if text.is_empty() {
            return Ok(Self::Unix("/dev/log".into()));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(wanted()) } else { Ok(Self::Unix(path.into())) };
        }
        let (is_udp, host) = match (text.strip_prefix("udp://"), text.strip_prefix("tcp://")) {
            (Some(host), _) => (true, host),
            (_, Some(host)) => (false, host),
            _ => return Err(wanted()),
        };
        let host = host.trim_end_matches('/');
        // The colons of an IPv6 address are in brackets.
        let port = host.rsplit_once(':');
        let has_port = port.is_some_and(|(name, port)| {
            let is_number = !port.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
            is_number && (!name.contains(':') || name.ends_with(']'))
        });
        let name = if has_port { port.map_or("", |(name, _)| name) } else { host };
        let is_bare =
            !name.contains([':', '/', ' ']) || (name.starts_with('[') && name.ends_with(']'));
        if name.is_empty() || !is_bare {
            return Err(wanted());
        }
        let default = if is_udp { 514 } else { 601 };
        let host = if has_port { host.to_owned() } else { format!("{host}:{default}") };
        Ok(if is_udp { Self::Udp(host) } else { Self::Tcp(host) })
    }
}

/// A receiver of syslog.
pub(super) struct Syslog {
    target: Target,
    timeout: Duration,
    sender: Sender,
    link: Option<Link>,
}

enum Link {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Unix(UnixDatagram),
}

/// What a message says of the program that sends it.
struct Sender {
    facility: Facility,
    enterprise: u32,
    host: String,
    process: u32,
}

impl Syslog {
    pub(super) fn open(settings: &NotifySettings, origin: &Origin) -> Result<Self, Wrong> {
        let target = Target::read(&settings.to).map_err(|why| ("to", why))?;
        let host: String = origin.host.chars().filter(char::is_ascii_graphic).take(255).collect();
        let sender = Sender {
            facility: settings.facility.unwrap_or(Facility::DAEMON),
            enterprise: settings.enterprise.unwrap_or(ENTERPRISE),
            host: if host.is_empty() { "-".into() } else { host },
            process: std::process::id(),
        };
        Ok(Self { target, timeout: duration_or(settings.timeout, 5), sender, link: None })
    }

    fn connect(&self) -> io::Result<Link> {
        match &self.target {
            Target::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(self.timeout))?;
                Ok(Link::Unix(socket))
            }
            Target::Udp(host) => each_address(host, |address| {
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => ([0; 4], 0).into(),
                    SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Ok(Link::Udp(socket))
            }),
            Target::Tcp(host) => each_address(host, |address| {
                let stream = TcpStream::connect_timeout(&address, self.timeout)?;
                stream.set_write_timeout(Some(self.timeout))?;
                stream.set_nodelay(true)?;
                Ok(Link::Tcp(stream))
            }),
        }
    }

    fn send(&mut self, alert: &Alert) -> io::Result<()> {
        let link = match self.link.take() {
            Some(link) if link.is_open() => link,
            _ => self.connect()?,
        };
        match &link {
            Link::Udp(socket) => {
                socket.send(self.sender.message(alert, DATAGRAM_LEN_MAX).as_bytes())?;
            }
            Link::Unix(socket) => {
                socket.send(self.sender.message(alert, DATAGRAM_LEN_MAX).as_bytes())?;
            }
            Link::Tcp(stream) => {
                let message = self.sender.message(alert, MESSAGE_LEN_MAX);
                let mut stream: &TcpStream = stream;
                stream.write_all(format!("{} {message}", message.len()).as_bytes())?;
            }
        }
        self.link = Some(link);
        Ok(())
    }
}

fn each_address(host: &str, connect: impl Fn(SocketAddr) -> io::Result<Link>) -> io::Result<Link> {
    let mut failed = io::Error::new(ErrorKind::NotFound, format!("{host}: no address"));
    for address in host.to_socket_addrs()? {
        match connect(address) {
            Ok(link) => return Ok(link),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl Link {
    /// Whether the other end of a connection is still there: a receiver sends nothing, so that
    /// something to read is its end. Without asking, the first message after a restart of the
    /// receiver would be written into a connection that no one reads.
    fn is_open(&self) -> bool {
        let Self::Tcp(stream) = self else { return true };
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let is_open = match peeked {
            Ok(len) => len > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        is_open && stream.set_nonblocking(false).is_ok()
    }
}

impl Destination for Syslog {
    fn deliver(&mut self, batch: &Batch<'_>) -> Result<(), Failure> {
        batch.alerts.iter().try_for_each(|alert| self.send(alert)).map_err(Failure::later)
    }

    fn batch_max(&self) -> usize {
        // What is tried again is one message.
        1
    }
}

/// Severities of RFC 5424, 6.2.1, by the words that people use in labels.
fn severity(alert: &Alert) -> u8 {
    if alert.state == State::Resolved {
        return 5;
    }
    match alert.severity.to_ascii_lowercase().as_str() {
        "emergency" | "emerg" | "panic" => 0,
        "alert" | "page" => 1,
        "critical" | "crit" => 2,
        "error" | "err" | "high" | "major" => 3,
        "notice" | "low" => 5,
        "info" | "informational" | "none" => 6,
        "debug" => 7,
        // Also `warning`.
        _ => 4,
    }
}

/// A value between quotes (RFC 5424, 6.3.3).
fn push_param(into: &mut String, name: &str, value: &str) {
    let mut value_end = value.len().min(PARAM_LEN_MAX);
    while !value.is_char_boundary(value_end) {
        value_end -= 1;
    }
    let name = name.get(..PARAM_NAME_LEN_MAX).unwrap_or(name);
    let _ = write!(into, " {name}=\"");
    for c in value.get(..value_end).unwrap_or_default().chars() {
        if matches!(c, '"' | '\\' | ']') {
            into.push('\\');
        }
        into.push(c);
    }
    into.push('"');
}

impl Sender {
    fn message(&self, alert: &Alert, len_max: usize) -> String {
        let priority = self.facility.code() * 8 + severity(alert);
        // A fraction of six digits at most (RFC 5424, 6.2.3).
        let time = known(alert.time).map(|time| {
            let text = time.to_string();
            text.get(..26).map(|text| format!("{text}Z")).unwrap_or(text)
        });
        let time = time.as_deref().unwrap_or("-");
        let Self { host, process, enterprise, .. } = self;
        let mut message =
            format!("<{priority}>1 {time} {host} wirelens {process} alert [wirelens@{enterprise}");
        for (name, value) in params(alert) {
            // Whatever the labels, half of the message is left for its text.
            if message.len() + name.len() + 2 * value.len().min(PARAM_LEN_MAX) + 5 < len_max / 2 {
                push_param(&mut message, &name, &value);
            }
        }
        message.push_str("] ");
        let state = alert.state.name();
        if !alert.text.is_ascii() {
            // Says that the text is UTF-8 (RFC 5424, 6.4).
            message.push('\u{feff}');
        }
        let _ = write!(message, "{state}: {}", alert.text);
        let mut end = message.len().min(len_max);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message
    }
}

/// The parameters of a message: the alert's own, then its labels.
fn params(alert: &Alert) -> Vec<(String, String)> {
    let mut own = BTreeMap::new();
    let mut params = Vec::new();
    let value = alert.value.map(|value| value.to_string());
    let rows = alert.rows.to_string();
    for (name, value) in [
        ("name", Some(&*alert.name)),
        ("state", Some(alert.state.name())),
        ("severity", Some(&*alert.severity)),
        ("table", Some(&*alert.table)),
        ("community_id", alert.community_id.as_deref()),
        ("host", alert.host.as_deref()),
        ("value", value.as_deref()),
        ("rows", Some(rows.as_str())),
    ] {
        own.insert(name, ());
        params.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }
    let labels = alert.labels.iter();
    let labels =
        labels.filter(|(name, _)| !own.contains_key(name.as_str()) && *name != "alertname");
    params.extend(labels.map(|(name, value)| (name.clone(), value.clone())));
    params
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use regex::Regex;

    use super::*;
    use crate::alert::tests::sample;
    use crate::text::{VALUE_LEN_MAX, push_clean};

    /// The grammar of RFC 5424, section 6, written down on its own.
    pub(crate) fn grammar() -> Regex {
        let params = r#"(?: [!#-<>-\\^-~]{1,32}="(?:[^"\\\]]|\\["\\\]])*")*"#;
        let text = format!(
            "(?s)^<(?P<pri>\\d{{1,3}})>1 (?P<time>-|\\d{{4}}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\
             (?:\\.\\d{{1,6}})?Z) (?P<host>[!-~]{{1,255}}) (?P<app>[!-~]{{1,48}}) \
             (?P<proc>[!-~]{{1,128}}) (?P<id>[!-~]{{1,32}}) \
             (?P<data>\\[[!#-<>-\\\\^-~]{{1,32}}{params}\\])(?: (?P<text>.*))?$"
        );
        Regex::new(&text).unwrap()
    }

    fn sender() -> Sender {
        let host = "sensor-1".into();
        Sender { facility: Facility::DAEMON, enterprise: ENTERPRISE, host, process: 42 }
    }

    #[test]
    fn a_message_is_one_of_the_rfc() {
        let alert = sample(1);
        let message = sender().message(&alert, DATAGRAM_LEN_MAX);
        let found = grammar().captures(&message).unwrap_or_else(|| panic!("{message}"));
        assert_eq!(&found["pri"], "26");
        assert_eq!(&found["time"], "2026-03-01T10:00:00.123456Z");
        assert_eq!(&found["host"], "sensor-1");
        assert!(found["data"].starts_with("[wirelens@32473 name=\"drops\" state=\"firing\""));
        assert!(found["data"].contains("src_ip=\"192.0.2.1\""), "{message}");
        assert_eq!(&found["text"], "\u{feff}firing: quoted \" ] \\ é");
        let unknown = Alert { time: packet::Timestamp::UNKNOWN, ..alert.clone() };
        assert!(
            sender().message(&unknown, 999).starts_with("<26>1 - sensor-1 wirelens 42 alert [")
        );
        assert!(sender().message(&alert.resolved(alert.time, 3), 999).starts_with("<29>1 "));
    }

    #[test]
    fn hostile_values_stay_in_their_places() {
        let mut alert = sample(1);
        alert.labels.insert("x".into(), "a\"] [evil@1 b=\"\\".repeat(9));
        alert.labels.insert("y".repeat(99), "é".repeat(999));
        (0..999).for_each(|at| drop(alert.labels.insert(format!("l{at}"), "v".repeat(99))));
        alert.text = "é".repeat(9_999);
        let message = sender().message(&alert, DATAGRAM_LEN_MAX);
        assert!(message.len() <= DATAGRAM_LEN_MAX && message.len() > 2_000, "{}", message.len());
        let found = grammar().captures(&message).unwrap_or_else(|| panic!("{message}"));
        assert!(found["data"].len() <= DATAGRAM_LEN_MAX / 2 && found["text"].len() > 900);
    }

    proptest! {
        #[test]
        fn whatever_packets_say_the_message_is_one_of_the_rfc(
            text in any::<String>(),
            values in proptest::collection::vec(any::<String>(), 0..6),
            len_max in 600_usize..3_000,
        ) {
            let clean = |text: &str| {
                let mut cleaned = String::new();
                push_clean(&mut cleaned, text, VALUE_LEN_MAX);
                cleaned
            };
            let labels = values.iter().enumerate();
            let labels = labels.map(|(at, value)| (format!("l{at}"), clean(value))).collect();
            let alert = Alert { text: clean(&text), labels, ..sample(1) };
            let message = sender().message(&alert, len_max);
            prop_assert!(message.len() <= len_max);
            prop_assert!(!message.chars().any(char::is_control));
            let grammar = grammar();
            let found = grammar.captures(&message);
            let found = found.ok_or_else(|| TestCaseError::fail(message.clone()))?;
            let begins = found["text"].trim_start_matches('\u{feff}').starts_with("firing: ");
            prop_assert!(begins, "no state before the text");
        }
    }

    #[test]
    fn targets_are_read() {
        let (udp, tcp) =
            (|host: &str| Target::Udp(host.into()), |host: &str| Target::Tcp(host.into()));
        for (text, wanted) in [
            ("", Target::Unix("/dev/log".into())),
            ("unix:/run/log", Target::Unix("/run/log".into())),
            ("unix:///run/log", Target::Unix("/run/log".into())),
            ("udp://log.example", udp("log.example:514")),
            ("udp://[::1]:99", udp("[::1]:99")),
            ("udp://[::1]", udp("[::1]:514")),
            ("tcp://10.0.0.1", tcp("10.0.0.1:601")),
            ("tcp://10.0.0.1:6514/", tcp("10.0.0.1:6514")),
        ] {
            assert_eq!(Target::read(text), Ok(wanted), "{text}");
        }
        for text in ["log.example", "udp://", "udp://a:b", "udp://a:0", "tcp://::1", "unix:"] {
            assert!(Target::read(text).unwrap_err().contains("wanted"), "{text}");
        }
    }

    #[test]
    fn a_connection_that_ended_is_made_again() {
        use std::io::Read as _;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp(listener.local_addr().unwrap().to_string());
        let timeout = Duration::from_secs(5);
        let mut syslog = Syslog { target, timeout, sender: sender(), link: None };
        for round in 0..3 {
            let alerts = [Arc::new(sample(round))];
            syslog.deliver(&Batch { alerts: &alerts, held_back: 0 }).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 4_096];
            let len = stream.read(&mut bytes).unwrap();
            let text = std::str::from_utf8(&bytes[..len]).unwrap();
            let (count, message) = text.split_once(' ').unwrap();
            assert_eq!(count.parse(), Ok(message.len()));
            assert!(grammar().is_match(message), "{message}");
            drop(stream);
            // Until the end of the connection has come.
            while syslog.link.as_ref().is_some_and(Link::is_open) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
