//! The text protocol of NATS: what the broker says, read from its bytes, and what is written to it.

use serde_json::Value as Json;

/// Bytes of a line at most: more is no broker of NATS.
const LINE_LEN_MAX: usize = 64 << 10;

/// Bytes of a message at most, which are answers to ours.
const MESSAGE_LEN_MAX: usize = 1 << 20;

/// What a broker says.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ServerMessage {
    Info(Json),
    Message {
        subject: String,
        /// The number of its status, such as 503 where no one listens.
        status: Option<u16>,
        payload: Vec<u8>,
    },
    Ping,
    Pong,
    Error(String),
    /// What needs no answer.
    Fine,
}

/// Why the rest cannot be read.
pub(crate) const NO_BROKER: &str = "no broker of NATS: what it says is not understood";

/// Takes the next thing off the front of what was read; nothing where it is not complete.
pub(crate) fn take(read: &mut Vec<u8>) -> Result<Option<ServerMessage>, &'static str> {
    let Some(len) = read.windows(2).position(|two| two == b"\r\n") else {
        return if read.len() > LINE_LEN_MAX { Err(NO_BROKER) } else { Ok(None) };
    };
    let line = read.get(..len).and_then(|line| std::str::from_utf8(line).ok()).ok_or(NO_BROKER)?;
    let (verb, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let said = match verb.to_ascii_uppercase().as_str() {
        "INFO" => ServerMessage::Info(serde_json::from_str(rest).map_err(|_| NO_BROKER)?),
        "PING" => ServerMessage::Ping,
        "PONG" => ServerMessage::Pong,
        "+OK" => ServerMessage::Fine,
        "-ERR" => ServerMessage::Error(rest.trim().trim_matches('\'').to_owned()),
        "MSG" | "HMSG" => {
            let has_headers = verb.len() == 4;
            let words: Vec<&str> = rest.split_ascii_whitespace().collect();
            let number = |text: Option<&&str>| text.and_then(|text| text.parse::<usize>().ok());
            let subject = words.first().copied().unwrap_or_default().to_owned();
            let total = number(words.last()).filter(|&len| len <= MESSAGE_LEN_MAX);
            let total = total.ok_or(NO_BROKER)?;
            let head_len = if has_headers { number(words.iter().nth_back(1)) } else { Some(0) };
            let head_len = head_len.filter(|&len| len <= total).ok_or(NO_BROKER)?;
            let (begin, end) = (len + 2, len + 2 + total);
            let Some(whole) = read.get(begin..end) else { return Ok(None) };
            if read.len() < end + 2 {
                return Ok(None);
            }
            let (head, payload) = whole.split_at(head_len);
            let message =
                ServerMessage::Message { subject, status: status(head), payload: payload.to_vec() };
            read.drain(..end + 2);
            return Ok(Some(message));
        }
        _ => return Err(NO_BROKER),
    };
    read.drain(..len + 2);
    Ok(Some(said))
}

/// Of headers `NATS/1.0 503`.
fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    line.strip_prefix("NATS/1.0")?.split_ascii_whitespace().next()?.parse().ok()
}

/// Appends a message without headers.
pub(crate) fn publish(out: &mut Vec<u8>, subject: &str, reply: &str, payload: &[u8]) {
    let len = payload.len();
    out.extend_from_slice(format!("PUB {subject} {reply} {len}\r\n").as_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// Appends a message with headers. A line's end in a value would begin another header.
pub(crate) fn publish_with(
    out: &mut Vec<u8>,
    subject: &str,
    reply: &str,
    headers: &[(&str, String)],
    payload: &[u8],
) {
    let mut head = String::from("NATS/1.0\r\n");
    for (name, text) in headers {
        let text = text.replace(['\r', '\n'], " ");
        head.push_str(&format!("{name}: {text}\r\n"));
    }
    head.push_str("\r\n");
    let (head_len, len) = (head.len(), head.len() + payload.len());
    out.extend_from_slice(format!("HPUB {subject} {reply} {head_len} {len}\r\n").as_bytes());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_in_any_pieces() {
        let said = b"INFO {\"max_payload\":9}\r\n+OK\r\nPING\r\nMSG in.1 1 4\r\na\r\nb\r\n\
            HMSG in.2 1 16 18\r\nNATS/1.0 503\r\n\r\nok\r\n-ERR 'Authorization Violation'\r\n";
        let message = |subject: &str, status, payload: &[u8]| ServerMessage::Message {
            subject: subject.into(),
            status,
            payload: payload.to_vec(),
        };
        let wanted = [
            ServerMessage::Info(serde_json::json!({"max_payload": 9})),
            ServerMessage::Fine,
            ServerMessage::Ping,
            message("in.1", None, b"a\r\nb"),
            message("in.2", Some(503), b"ok"),
            ServerMessage::Error("Authorization Violation".into()),
        ];
        for piece_len in [1, 7, said.len()] {
            let (mut read, mut seen) = (Vec::new(), Vec::new());
            for piece in said.chunks(piece_len) {
                read.extend_from_slice(piece);
                while let Some(next) = take(&mut read).unwrap() {
                    seen.push(next);
                }
            }
            assert_eq!((seen, read.len()), (wanted.to_vec(), 0));
        }
    }

    #[test]
    fn who_is_no_broker_is_not_listened_to() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"INFO {\r\n",
            b"MSG a 1 99999999999\r\n",
            b"MSG a 1 -1\r\n",
            b"HMSG a 1 9 4\r\nabcd\r\n",
            b"\xff\xfe\r\n",
            &[b'a'; LINE_LEN_MAX + 1],
        ] {
            assert_eq!(take(&mut bytes.to_vec()), Err(NO_BROKER), "{bytes:?}");
        }
        // What was cut is waited for.
        assert_eq!(take(&mut b"MSG a 1 4\r\nab".to_vec()), Ok(None));
    }

    #[test]
    fn headers_cannot_be_forged_by_a_name() {
        let mut out = Vec::new();
        let headers = [("A", String::from("x\r\nNats-Msg-Id: y"))];
        publish_with(&mut out, "s", "r", &headers, b"p");
        assert_eq!(out, b"HPUB s r 34 35\r\nNATS/1.0\r\nA: x  Nats-Msg-Id: y\r\n\r\np\r\n");
    }
}
