//! Names of flows that are cut, and of datagrams that are not what their ports say.

#![allow(clippy::unwrap_used)]

use engine::flow::{EndedFlow, FlowFrames, FlowOptions, FlowSink, FlowState};
use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, HashSeed, LinkType, Record, Span, Timestamp};

use super::{ACK, Limits, NameState, Reader, SYN};
use crate::greeting::Protocol;
use crate::quic::vectors;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];
const MS: i64 = 1_000_000;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n";

/// A frame of the client, or of the server, between these ports.
fn frame(is_back: bool, ports: [u16; 2], protocol: u8, transport: &[u8], fragment: u16) -> Vec<u8> {
    let (mut addresses, mut ports) = ([CLIENT, SERVER], ports);
    if is_back {
        addresses.reverse();
        ports.reverse();
    }
    let transport = [&ports.map(u16::to_be_bytes).concat(), transport].concat();
    let len = u16::try_from(20 + transport.len()).unwrap().to_be_bytes();
    let [high, low] = fragment.to_be_bytes();
    let ip = [0x45, 0, len[0], len[1], 0, 0, high, low, 64, protocol, 0, 0];
    [&[2; 12][..], &[8, 0], &ip, &addresses.concat(), &transport].concat()
}

fn datagram(is_back: bool, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).unwrap().to_be_bytes();
    frame(is_back, ports, 17, &[&len, &[0; 2], payload].concat(), 0)
}

fn segment(is_back: bool, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let rest = [0, 0, 0, 1, 0x50, flags, 2, 0, 0, 0, 0, 0];
    frame(is_back, [40_000, 80], 6, &[&seq.to_be_bytes(), &rest[..], payload].concat(), 0)
}

fn query(id: u8, label: &[u8]) -> Vec<u8> {
    let len = u8::try_from(label.len()).unwrap();
    let head = [0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, len];
    [&head[..], label, &[0, 0, 1, 0, 1]].concat()
}

/// What rows show: protocol, name of the server, and query.
type Shown = (Option<Protocol>, Option<String>, Option<String>);

#[derive(Default)]
struct Taken(Vec<(Timestamp, Shown)>);

impl FlowSink<NameState> for Taken {
    fn take(&mut self, flows: &[EndedFlow<NameState>]) {
        self.0.extend(flows.iter().map(|(record, FlowState(named))| {
            let found = named.seen.found.as_deref();
            let server = found.and_then(|found| found.server_name.as_deref().map(str::to_owned));
            let query =
                found.and_then(|found| found.query.as_ref().map(|(name, _)| name.to_string()));
            (record.first, (named.seen.protocol, server, query))
        }));
    }
}

/// The rows of frames at these milliseconds, in windows of a second, in batches of so many; faults.
fn rows(frames: &[(i64, Vec<u8>)], batch_len: usize) -> (Vec<Shown>, String) {
    let options = FlowOptions { window: Some(Span::from_seconds(1)), ..FlowOptions::default() };
    let limits = Limits { has_windows: true, ..Limits::default() };
    let mut flows =
        FlowFrames::new(options, HashSeed::new(3), Reader::new(limits), Taken::default());
    for frames in frames.chunks(batch_len) {
        let (mut bytes, mut records) = (Vec::new(), Vec::new());
        for (at, frame) in frames {
            let len = u32::try_from(frame.len()).unwrap();
            records.push(Record {
                timestamp: Timestamp::from_ns(1_700_000_000_000 * MS + at * MS),
                offset: u32::try_from(bytes.len()).unwrap(),
                captured_len: len,
                wire_len: len,
                link: LinkType::ETHERNET,
                layers: dissect(LinkType::ETHERNET, frame, len, DissectOptions::default()),
                ..Record::default()
            });
            bytes.extend_from_slice(frame);
        }
        engine::Stage::on_batch(
            &mut flows,
            &Batch { bytes: &bytes, records: &records, tick: None },
        );
    }
    let outcome = flows.finish();
    let mut rows = outcome.output.0;
    rows.sort_by_key(|(first, _)| *first);
    let faults = outcome.keep.counts().faults().map(|(name, n)| format!("{n} {name} ")).collect();
    (rows.into_iter().map(|(_, shown)| shown).collect(), faults)
}

/// The same in one batch, and in a batch for each frame: the end of a flow that is cut is reported
/// sooner or later.
fn rows_of(frames: &[(i64, Vec<u8>)]) -> Vec<Shown> {
    let (rows_together, _) = rows(frames, 64);
    let (rows_each, _) = rows(frames, 1);
    assert_eq!(rows_together, rows_each);
    rows_each
}

fn http(name: &str) -> Shown {
    (Some(Protocol::Http), Some(name.to_owned()), None)
}

#[test]
fn a_handshake_across_a_window_keeps_its_name_in_every_later_row() {
    let frames: Vec<_> = [
        (900, segment(false, 100, SYN, b"")),
        (1100, segment(true, 700, SYN | ACK, b"")),
        (1200, segment(false, 101, ACK, REQUEST)),
    ]
    .into_iter()
    .chain((2..6).map(|n| (n * 1000 + 500, segment(true, 701, ACK, b"data"))))
    .collect();
    let found = rows_of(&frames);
    assert_eq!(found[0], (None, None, None));
    assert_eq!(found[1..], [(); 5].map(|()| http("www.example.com")));
}

#[test]
fn a_syn_that_is_sent_again_leaves_nothing_behind() {
    let frames: Vec<_> = [
        (900, segment(false, 100, SYN, b"")),
        (1900, segment(false, 100, SYN, b"")),
        (2100, segment(true, 700, SYN | ACK, b"")),
        (2200, segment(false, 101, ACK, REQUEST)),
    ]
    .into_iter()
    .chain((3..6).map(|n| (n * 1000 + 500, segment(true, 701, ACK, b"data"))))
    .collect();
    let found = rows_of(&frames);
    assert_eq!(found[2..], [(); 4].map(|()| http("www.example.com")));
}

#[test]
fn a_connection_that_is_answered_has_no_name_of_a_closed_one() {
    const FIN: u8 = 1;
    let frames = [
        (100, segment(false, 100, SYN, b"")),
        (110, segment(false, 101, ACK, REQUEST)),
        (120, segment(false, 142, FIN | ACK, b"")),
        (130, segment(true, 701, FIN | ACK, b"")),
        // Of the next one the tap sees one direction alone.
        (9_100, segment(true, 9_000, SYN | ACK, b"")),
        (9_200, segment(true, 9_001, ACK, b"data that shows nothing")),
    ];
    assert_eq!(rows_of(&frames), [http("www.example.com"), (None, None, None)]);
}

#[test]
fn datagrams_keep_their_names_in_every_window() {
    let [initial, _] = vectors::clients();
    let short = [&[0x41][..], &[7; 40]].concat();
    let frames: Vec<_> = (0..5)
        .map(|n| (n * 1000 + 500, if n == 0 { &initial } else { &short }))
        .map(|(at, payload)| (at, datagram(false, [40_000, 443], payload)))
        .collect();
    let wanted = (Some(Protocol::Quic), Some("example.com".to_owned()), None);
    assert_eq!(rows_of(&frames), vec![wanted; 5]);
}

#[test]
fn a_flow_of_dns_keeps_its_first_query_in_every_window() {
    let labels = [b"one", b"two", b"six"];
    let frames: Vec<_> = (0..)
        .zip(labels)
        .map(|(n, label)| (i64::from(n) * 1000 + 500, query(n, label)))
        .map(|(at, payload)| (at, datagram(false, [40_000, 53], &payload)))
        .collect();
    assert_eq!(rows_of(&frames), vec![(Some(Protocol::Dns), None, Some("one".to_owned())); 3]);
}

#[test]
fn a_client_at_a_port_of_multicast_is_no_such_service() {
    for port in [5353, 5355] {
        let quic = datagram(false, [port, 443], &vectors::clients()[0]);
        let wanted = (Some(Protocol::Quic), Some("example.com".to_owned()), None);
        assert_eq!(rows(&[(0, quic)], 1), (vec![wanted], String::new()));
        let dns = datagram(false, [port, 53], &query(1, b"one"));
        assert_eq!(rows(&[(0, dns)], 1).0, [(Some(Protocol::Dns), None, Some("one".to_owned()))]);
    }
    let own = datagram(false, [5353, 5353], &query(1, b"one"));
    assert_eq!(rows(&[(0, own)], 1).0, [(Some(Protocol::Mdns), None, Some("one".to_owned()))]);
}

#[test]
fn the_first_fragment_of_a_response_is_no_fault() {
    const MORE_FRAGMENTS: u16 = 0x2000;
    let asked = datagram(false, [40_000, 53], &query(1, b"one"));
    let mut response = query(1, b"one");
    (response[2], response[7]) = (0x81, 2);
    // An answer, and the beginning of the next one.
    response.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 0, 0, 4, 10, 0, 0, 9, 0xc0, 12, 0, 1]);
    let udp = [&[8, 0, 0, 0][..], &response].concat();
    let fragment = frame(true, [40_000, 53], 17, &udp, MORE_FRAGMENTS);
    let (found, faults) = rows(&[(0, asked), (1, fragment)], 1);
    assert_eq!(found, [(Some(Protocol::Dns), None, Some("one".to_owned()))]);
    assert_eq!(faults, "");
}
