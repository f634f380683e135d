//! Messages of sensors, as a central reads them.

use async_nats::{HeaderMap, Message, Subject};
use bytes::Bytes;
use engine::columns::{Columns, Schema};

use super::rows::{Head, central_schema, read_rows};
use super::sensors::Metrics;

/// The rows of a message with these headers, lines of `NAME: VALUE`, where it is one of rows.
#[must_use]
pub fn read_row_message(
    subject: &str,
    headers: &str,
    payload: &[u8],
    of_sensors: Schema,
) -> Option<Columns> {
    let mut map = HeaderMap::new();
    for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
        // What is no name of a header cannot be sent.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !name.is_empty() && name.bytes().all(is_plain) {
            map.insert(name, value.replace('\r', " ").as_str());
        }
    }
    let message = Message {
        subject: Subject::from(subject),
        reply: None,
        payload: Bytes::new(),
        headers: Some(map),
        status: None,
        description: None,
        length: 0,
    };
    let head = Head::read(&message, "wirelens").ok()?;
    let mut read = Columns::new(central_schema(of_sensors));
    let rows = head.rows.clone();
    read_rows(&head, payload, &[rows], &mut read, |_| ()).ok()?;
    Some(read)
}

/// Whether a message of metrics is read.
#[must_use]
pub fn metrics_are_read(payload: &[u8]) -> bool {
    Metrics::read(payload).is_some()
}
