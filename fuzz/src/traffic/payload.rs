//! What packets carry: handshakes, requests and answers of real programs with a few bytes changed,
//! and names that the input chooses.

use crate::input::Input;

/// Beginnings of streams.
const STREAMS: [&[u8]; 7] = [
    include_bytes!("../../seeds/tls_hello/browser-record"),
    include_bytes!("../../seeds/tls_hello/rfc9001-records"),
    include_bytes!("../../seeds/tls_hello/old-record"),
    b"  GET /index.html HTTP/1.1\r\nHost: www.example.com\r\n\r\n",
    b"  HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"  220 mail.example.com ESMTP\r\n",
    b"  SSH-2.0-OpenSSH_9.2\r\n",
];

/// Bytes before each of those: seeds have two of another target there.
const STREAM_START: usize = 2;

/// Datagrams of a QUIC client and server, encrypted as RFC 9001 and RFC 9369 have them: each the
/// first of a seed, behind a byte that is another target's and two of its length.
const QUIC: [&[u8]; 5] = [
    include_bytes!("../../seeds/quic_initial/client-v1"),
    include_bytes!("../../seeds/quic_initial/client-v2"),
    include_bytes!("../../seeds/quic_initial/server-v1"),
    include_bytes!("../../seeds/quic_initial/retry-v1"),
    include_bytes!("../../seeds/quic_initial/coalesced"),
];

/// Ports of datagrams.
const PORTS: [u16; 8] = [53, 443, 5353, 123, 4789, 2152, 500, 9];

/// A datagram, and the server's port.
pub(super) struct Datagram {
    pub port: u16,
    pub bytes: Vec<u8>,
}

/// Changes bytes: how many, and of each where it is and what it becomes.
fn changed(mut bytes: Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
    for _ in 0..input.u8() & 3 {
        let (at, value) = (usize::from(input.u16()), input.u8());
        let len = bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at % len) {
            *byte = value;
        }
    }
    bytes
}

/// What a stream has next: a beginning of the list above, a name in a request, or anything.
pub(super) fn stream(input: &mut Input<'_>) -> Vec<u8> {
    let which = usize::from(input.u8() & 15);
    match STREAMS.get(which) {
        Some(known) => changed(known[STREAM_START..].to_vec(), input),
        None if which == 7 => {
            let mut request = b"GET / HTTP/1.1\r\nHost: ".to_vec();
            request.extend(named(input));
            request.extend(b"\r\n\r\n");
            request
        }
        None if which == 8 => hello(&named(input)),
        None => {
            let len = usize::from(input.u8());
            input.bytes(len).to_vec()
        }
    }
}

/// Bytes where a name should be.
fn named(input: &mut Input<'_>) -> Vec<u8> {
    let len = usize::from(input.u8() & 63);
    input.bytes(len).to_vec()
}

/// A ClientHello for a server of this name (RFC 8446 §4.1.2, RFC 6066 §3), in one record.
fn hello(name: &[u8]) -> Vec<u8> {
    let vector = |bytes: &[u8]| {
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&len, bytes].concat()
    };
    let names = vector(&[&[0], &*vector(name)].concat());
    let extensions = vector(&[&[0, 0], &*vector(&names)].concat());
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend(vector(&[0x13, 1]));
    body.extend([1, 0]);
    body.extend(extensions);
    let len = u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes();
    let message = [&[1, 0, len[0], len[1]], &*body].concat();
    [&[22, 3, 1], &*vector(&message)].concat()
}

/// A datagram with anything in it.
pub(super) fn datagram(input: &mut Input<'_>) -> Datagram {
    let (which, len) = (input.u8(), usize::from(input.u8()));
    Datagram { port: PORTS[usize::from(which & 7)], bytes: input.bytes(len).to_vec() }
}

/// A message of DNS: a question, and answers to it, of names that the input chooses.
pub(super) fn dns(input: &mut Input<'_>) -> Datagram {
    let (flags, kind, answers) = (input.u8(), input.u8(), input.u8() & 3);
    let mut bytes = vec![0, flags >> 4, if flags & 1 == 0 { 1 } else { 0x81 }, 0x80];
    bytes.extend([0, 1, 0, answers, 0, 0, 0, 0]);
    for _ in 0..=flags >> 1 & 3 {
        let label = named(input);
        bytes.push(u8::try_from(label.len()).unwrap_or_default());
        bytes.extend(label);
    }
    // A label of no length ends a name, also one that was chosen so.
    bytes.extend([0, 0, kind, 0, 1]);
    for _ in 0..answers {
        let (pointer, kind, len) = (input.u8(), input.u8(), usize::from(input.u8() & 31));
        let data = input.bytes(len);
        bytes.extend([0xc0, pointer, 0, kind, 0, 1, 0, 0, 0, 60]);
        bytes.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
        bytes.extend(data);
    }
    let port = if flags & 8 == 0 { 53 } else { 5353 };
    Datagram { port, bytes: changed(bytes, input) }
}

/// A datagram of QUIC: the first ones of a connection, or later ones with a spin bit (RFC 9000
/// §17.3.1).
pub(super) fn quic(input: &mut Input<'_>) -> Datagram {
    let which = input.u8();
    let bytes = match QUIC.get(usize::from(which & 7)) {
        Some([_, high, low, known @ ..]) => {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            changed(known[..len].to_vec(), input)
        }
        _ => {
            let mut later = vec![0x40 | which & 0x20, 0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 8];
            later.extend([which; 60]);
            later
        }
    };
    Datagram { port: 443, bytes }
}
