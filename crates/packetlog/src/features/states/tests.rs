use super::*;
use crate::features::tests::{Capture, arp, ip};
use crate::features::{Column, FeatureOptions};

const SYN: u8 = TCP_SYN;
const SYN_ACK: u8 = TCP_SYN | TCP_ACK;
const PSH_ACK: u8 = 8 | TCP_ACK;
const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

fn options() -> FeatureOptions {
    FeatureOptions { states: 1024, ..FeatureOptions::default() }
}

/// Of each packet the values of columns.
fn rows<const N: usize>(frames: &[(i64, Vec<u8>)], names: [&str; N]) -> Vec<[f32; N]> {
    let options = options();
    let columns = names.map(|name| Column::named(name, &options).unwrap());
    let rows = Capture::new(frames).rows(&options, &columns, 3);
    rows.into_iter().map(|row| row.try_into().unwrap()).collect()
}

/// The last of them.
fn last<const N: usize>(frames: &[(i64, Vec<u8>)], names: [&str; N]) -> [f32; N] {
    *rows(frames, names).last().unwrap()
}

fn tcp(client: u8, server: u8, ports: [u16; 2], is_back: bool, len: u16, flags: u8) -> Vec<u8> {
    let [near, far] = ports;
    if is_back {
        ip(6, [server, client], [far, near], len, flags)
    } else {
        ip(6, [client, server], [near, far], len, flags)
    }
}

#[test]
fn a_handshake_is_followed_to_its_end() {
    let packet = |is_back, len, flags| tcp(1, 2, [40_000, 22], is_back, len, flags);
    let frames = [
        (0, packet(false, 0, SYN)),
        (MS, packet(true, 0, SYN_ACK)),
        (2 * MS, packet(false, 0, TCP_ACK)),
        (3 * MS, packet(true, 20, PSH_ACK)),
        (4 * MS, packet(false, 30, PSH_ACK)),
        (5 * MS, packet(true, 7, PSH_ACK | TCP_FIN)),
        (6 * MS, packet(false, 0, SYN)),
    ];
    let names = ["flow_handshake", "flow_is_answered", "flow_turns", "pair_flows"];
    assert_eq!(
        rows(&frames, names),
        [
            [2.0, 0.0, 0.0, 1.0],
            [3.0, 1.0, 0.0, 1.0],
            [4.0, 1.0, 0.0, 1.0],
            [4.0, 1.0, 0.0, 1.0],
            [4.0, 1.0, 1.0, 1.0],
            [6.0, 1.0, 2.0, 1.0],
            // The same ports again.
            [2.0, 0.0, 0.0, 2.0],
        ]
    );
    let names = [
        "flow_client_packets",
        "flow_server_packets",
        "flow_client_payload_bytes",
        "flow_server_payload_bytes",
        "flow_first_request_bytes",
        "flow_first_response_bytes",
        "flow_is_from_client",
        "flow_is_unsolicited",
    ];
    assert_eq!(last(&frames[..6], names), [3.0, 3.0, 30.0, 27.0, 30.0, 20.0, 0.0, 0.0]);
    let [idle, age] = last(&frames[..6], ["flow_idle_s", "flow_age_s"]);
    assert!((idle - 0.001).abs() < 1e-6 && (age - 0.005).abs() < 1e-6);
    assert_eq!(last(&frames[..1], ["flow_idle_s"]), [MISSING]);
}

#[test]
fn a_scan_is_refused_or_unanswered_by_many_servers() {
    let mut frames = Vec::new();
    for server in 0..40_u8 {
        let time = i64::from(server) * 10 * MS;
        let port = 1000 + u16::from(server);
        frames.push((time, tcp(1, 100 + server, [50_000, port], false, 0, SYN)));
        if server % 2 == 0 {
            let answer = tcp(1, 100 + server, [50_000, port], true, 0, TCP_RST | TCP_ACK);
            frames.push((time + MS, answer));
        }
    }
    let [flows, servers, ports, new, refused, unanswered, handshake] = last(
        &frames,
        [
            "client_flows",
            "client_servers",
            "client_ports",
            "client_new_pairs_fraction",
            "client_refused_fraction",
            "client_unanswered_fraction",
            "flow_handshake",
        ],
    );
    assert_eq!([flows, new, refused, unanswered, handshake], [40.0, 1.0, 0.5, 0.5, 2.0]);
    assert!((servers - 40.0).abs() < 8.0 && (ports - 40.0).abs() < 8.0, "{servers} {ports}");
    assert_eq!(last(&frames[..2], ["flow_handshake", "server_refused_fraction"]), [5.0, 1.0]);
}

#[test]
fn a_handshake_that_is_not_acknowledged_is_half_open() {
    let names =
        ["server_half_open_fraction", "pair_half_open_fraction", "server_unanswered_fraction"];
    let mut frames = Vec::new();
    for client in 1..=10_u8 {
        let time = i64::from(client) * MS;
        frames.push((time, tcp(client, 99, [2_000, 80], false, 0, SYN)));
        frames.push((time + 1, tcp(client, 99, [2_000, 80], true, 0, SYN_ACK)));
    }
    assert_eq!(last(&frames, names), [1.0, 1.0, 0.0]);
    frames.push((20 * MS, tcp(3, 99, [2_000, 80], false, 0, TCP_ACK)));
    assert_eq!(last(&frames, names), [0.9, 0.0, 0.0]);
    // A handshake that is given up is none that waits.
    frames.push((21 * MS, tcp(4, 99, [2_000, 80], false, 0, TCP_RST)));
    assert_eq!(last(&frames, names), [0.8, 0.0, 0.0]);
}

#[test]
fn connections_on_the_second_are_regular_and_others_are_not() {
    let connections = |gap_ns: fn(i64) -> i64| {
        let mut time = 0;
        let mut frames = Vec::new();
        for number in 0..20 {
            let ports = [40_000 + number as u16, 443];
            frames.push((time, tcp(1, 2, ports, false, 0, SYN)));
            frames.push((time + MS, tcp(1, 2, ports, true, 0, SYN_ACK)));
            frames.push((time + 2 * MS, tcp(1, 2, ports, false, 100, PSH_ACK)));
            time += gap_ns(number);
        }
        last(
            &frames,
            [
                "pair_gap_variation",
                "pair_flows",
                "pair_unanswered_fraction",
                "pair_gap_s",
                "pair_client_payload_per_flow_bytes",
            ],
        )
    };
    let [variation, flows, unanswered, gap, payload] = connections(|_| 10 * SECOND);
    assert!(variation < 1e-3, "{variation}");
    assert_eq!([flows, unanswered, gap, payload], [20.0, 0.0, 10.0, 100.0]);
    let [variation, ..] = connections(|number| if number % 5 == 0 { 20 * SECOND } else { SECOND });
    assert!(variation > 1.0, "{variation}");
}

#[test]
fn answers_that_nobody_asked_for_are_of_the_victim() {
    let names = ["flow_is_unsolicited", "client_unsolicited", "flow_is_from_client"];
    let reflected: Vec<_> =
        (0..5).map(|n| (i64::from(n) * MS, ip(17, [50 + n, 9], [53, 40_000], 900, 0))).collect();
    assert_eq!(last(&reflected, names), [1.0, 5.0, 0.0]);
    let asked =
        [(0, ip(17, [9, 50], [40_000, 53], 30, 0)), (MS, ip(17, [50, 9], [53, 40_000], 900, 0))];
    assert_eq!(last(&asked, names), [0.0, 0.0, 0.0]);
    assert_eq!(last(&asked, ["flow_is_answered", "flow_server_payload_bytes"]), [1.0, 900.0]);
    // Forged sources of a flood send from any port: the victim is the server.
    let flood = |port| vec![(0, ip(17, [1, 2], [port, 40_000], 100, 0))];
    assert_eq!(last(&flood(1_024), names), [0.0, 0.0, 1.0]);
    assert_eq!(last(&flood(11_211), names), [1.0, 1.0, 0.0]);
    // A segment of a connection from before the capture was asked for.
    let middle = [(0, ip(6, [2, 1], [80, 40_000], 500, PSH_ACK))];
    assert_eq!(last(&middle, names), [0.0, 0.0, 0.0]);
    assert_eq!(last(&middle, ["flow_handshake"]), [1.0]);
    let back = [(0, ip(6, [2, 1], [80, 40_000], 0, SYN_ACK))];
    assert_eq!(last(&back, names), [1.0, 1.0, 0.0], "a victim of forged SYNs");
}

#[test]
fn arp_has_states_too() {
    let reply = |sender, target| {
        let mut frame = arp(sender, target);
        frame[21] = 2;
        frame
    };
    let names = ["flow_is_unsolicited", "flow_is_answered", "flow_handshake"];
    assert_eq!(last(&[(0, reply(1, 2))], names), [1.0, 0.0, MISSING]);
    assert_eq!(last(&[(0, arp(2, 1)), (MS, reply(1, 2))], names), [0.0, 1.0, MISSING]);
    let asked: Vec<_> = (1..30).map(|target| (i64::from(target), arp(77, target))).collect();
    let [servers, flows] = last(&asked, ["client_servers", "client_flows"]);
    assert!((servers - 29.0).abs() < 5.0, "{servers}");
    assert_eq!(flows, 29.0);
}

#[test]
fn a_full_memory_evicts_and_counts() {
    let options = options();
    let columns = [Column::named("client_flows", &options).unwrap()];
    let frames: Vec<_> = (0..4000_u16)
        .map(|port| (i64::from(port), tcp(1, 2, [10_000 + port, 80], false, 0, SYN)))
        .collect();
    let capture = Capture::new(&frames);
    let mut features =
        crate::features::Features::new(&options, &columns, HashSeed::new(5)).unwrap();
    let mut seen = Vec::new();
    let batch = Batch { bytes: &capture.bytes, records: &capture.records, tick: None };
    features.take(&batch, |_, snapshots| {
        seen.extend((0..snapshots.len()).flat_map(|at| snapshots.row(at).collect::<Vec<_>>()));
    });
    assert_eq!(seen.last(), Some(&4000.0));
    let counts = features.state_counts().unwrap();
    assert_eq!((counts.flows.begun, counts.clients.begun, counts.pairs.begun), (4000, 1, 1));
    assert!((2_900..=3_050).contains(&counts.flows.evicted), "{counts:?}");
}

#[test]
fn memory_is_what_the_specification_says() {
    let states = States::new(Vec::new(), 1 << 16, Span::from_seconds(120), HashSeed::new(1));
    assert_eq!(states.size_bytes() >> 20, 34);
}
