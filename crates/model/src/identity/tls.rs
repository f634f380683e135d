//! TLS: versions, suites and extensions that a library offers, and the public name that is asked
//! for; no random numbers, session ids, tickets, keys, certificates or ciphertext.

use super::dns::is_public;
use super::http::without_ids;
use super::{View, part, word};

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const SERVER_NAME: u16 = 0;
/// Bytes for the end of the server's name, so that what follows has a place of its own.
const NAME_LEN: usize = 24;
const RECORDS_MAX: usize = 8;

/// Whether bytes begin as a record does.
pub(super) fn is_record(bytes: &[u8]) -> bool {
    matches!(bytes, [20..=23, 3, 0..=4, _, _, ..])
}

/// Each record's kind and version, and what is listed of the messages that begin in it.
pub(super) fn records(view: &mut View<'_>, bytes: &[u8]) {
    let mut rest = bytes;
    for _ in 0..RECORDS_MAX {
        if !is_record(rest) || view.is_full() {
            return;
        }
        let len = word(rest, 3).map_or(0, usize::from);
        view.keep(part(rest, 0, 3));
        let body = part(rest, 5, len);
        if rest.first() == Some(&HANDSHAKE) {
            handshake(view, body);
        }
        rest = part(rest, 5 + len, rest.len());
    }
}

/// A message that is encrypted looks like any kind; its length then is not that of the record.
fn handshake(view: &mut View<'_>, body: &[u8]) {
    let [kind, 0, high, low, ..] = *body else { return };
    let len = usize::from(u16::from_be_bytes([high, low]));
    let message = part(body, 4, len);
    match kind {
        CLIENT_HELLO => client_hello(view, message),
        SERVER_HELLO => server_hello(view, message),
        11..=16 | 20 => view.keep(&[kind]),
        _ => {}
    }
}

/// What stands behind the version, random number and session id.
fn behind_session(message: &[u8]) -> &[u8] {
    let session_len = message.get(34).copied().map_or(0, usize::from);
    part(message, 35 + session_len, message.len())
}

fn client_hello(view: &mut View<'_>, message: &[u8]) {
    view.keep(&[CLIENT_HELLO]);
    view.keep(part(message, 0, 2));
    let rest = behind_session(message);
    let suites_len = word(rest, 0).map_or(0, usize::from);
    let methods_len = rest.get(2 + suites_len).copied().map_or(0, usize::from);
    let list = part(rest, 5 + suites_len + methods_len, rest.len());
    let (mut kinds, mut server) = (Vec::new(), &[][..]);
    let mut at = 0;
    while let (Some(kind), Some(len)) = (word(list, at), word(list, at + 2)) {
        let data = part(list, at + 4, usize::from(len));
        if kind == SERVER_NAME {
            server = part(data, 5, word(data, 3).map_or(0, usize::from));
        }
        kinds.push(kind);
        at += 4 + usize::from(len);
    }
    put_server(view, server);
    view.keep(part(rest, 0, 2));
    let suites = part(rest, 2, suites_len).chunks_exact(2);
    suites.for_each(|pair| put_value(view, u16::from_be_bytes([pair[0], pair[1]])));
    kinds.into_iter().for_each(|kind| put_value(view, kind));
}

/// The end of a public name.
fn put_server(view: &mut View<'_>, server: &[u8]) {
    let labels: Vec<_> = server.split(|&byte| byte == b'.').collect();
    if !is_public(&labels) {
        return view.hide(NAME_LEN);
    }
    let kept: Vec<_> = without_ids(server).collect();
    let skipped = kept.len().saturating_sub(NAME_LEN);
    view.hide(NAME_LEN.saturating_sub(kept.len()));
    view.filter(kept.into_iter().skip(skipped));
}

/// A suite or an extension; those that are drawn at random to keep servers honest (RFC 8701) are
/// absent.
fn put_value(view: &mut View<'_>, value: u16) {
    let [high, low] = value.to_be_bytes();
    if high == low && high & 0x0f == 0x0a {
        view.hide(2);
    } else {
        view.keep(&[high, low]);
    }
}

fn server_hello(view: &mut View<'_>, message: &[u8]) {
    view.keep(&[SERVER_HELLO]);
    view.keep(part(message, 0, 2));
    view.keep(part(behind_session(message), 0, 3));
}
