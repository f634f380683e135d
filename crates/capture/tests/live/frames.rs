//! What is sent, and what arrives.

use std::collections::HashMap;
use std::slice;

use capture::live::{Latency, LiveOptions};
use capture::{DamageCause, Filter, ReadOptions};
use packet::{Direction, LinkType, Source as _};

use crate::lab::{
    CapturedFrame, Listener, add_pair, await_running, datagram, in_namespace, ip, numbered, send,
    tagged,
};

pub(crate) const LATENCIES: [Latency; 2] = [Latency::Throughput, Latency::Low];

fn with(latency: Latency) -> LiveOptions {
    LiveOptions { latency, ..LiveOptions::default() }
}

fn filtered(expression: &str) -> ReadOptions {
    ReadOptions { filter: Some(Filter::new(expression).unwrap()), ..ReadOptions::default() }
}

fn bytes(seen: &[CapturedFrame]) -> Vec<Vec<u8>> {
    seen.iter().map(|seen| seen.bytes.clone()).collect()
}

#[test]
fn every_frame_arrives_as_it_was_sent() {
    in_namespace(|| {
        add_pair();
        let sent: Vec<_> = (0..3_000).map(|n| numbered(n, 18 + n as usize % 1_497)).collect();
        // So that the low-latency ring has slots for all of them: they are read only then.
        let read = ReadOptions { snaplen: 2_000, ..ReadOptions::default() };
        for latency in LATENCIES {
            for (interface, direction) in
                [("wl1", Direction::Inbound), ("wl0", Direction::Outbound)]
            {
                let mut listener = Listener::open(interface, &with(latency), &read);
                send("wl0", &sent);
                let seen = listener.read(sent.len());
                assert!(bytes(&seen) == sent, "{latency:?} on {interface}: {}", seen.len());
                for frame in &seen {
                    assert_eq!(frame.wire_len as usize, frame.bytes.len());
                    assert_eq!(frame.direction, direction);
                    assert_eq!((frame.link, frame.interface), (LinkType::ETHERNET, 0));
                    assert_eq!((frame.segments, frame.vlan), (1, None));
                }
                let stamps = || seen.iter().map(|seen| seen.timestamp);
                assert!(stamps().is_sorted(), "one sender, one order");
                let (rest, report) = listener.finish();
                assert_eq!(rest.len(), 0);
                assert_eq!(report.received, 3_000);
                assert_eq!((report.dropped.total(), report.unread), (0, 0));
                assert_eq!((report.filtered, report.damage), (0, None));
            }
        }
    });
}

#[test]
fn tags_are_where_they_were() {
    in_namespace(|| {
        add_pair();
        let plain = datagram((1, 1_000), (2, 53), &[7; 40]);
        let single = tagged(&plain, 0x8100, 0x2005);
        let double = tagged(&tagged(&plain, 0x8100, 7), 0x88a8, 9);
        let sent = vec![plain, single, double];
        for latency in LATENCIES {
            for interface in ["wl1", "wl0"] {
                let mut listener =
                    Listener::open(interface, &with(latency), &ReadOptions::default());
                send("wl0", &sent);
                let seen = listener.read(sent.len());
                assert_eq!(bytes(&seen), sent, "{latency:?} on {interface}");
                let lens: Vec<_> = seen.iter().map(|seen| seen.wire_len as usize).collect();
                assert_eq!(lens, [82, 86, 90]);
                let vlans: Vec<_> = seen.iter().map(|seen| seen.vlan).collect();
                assert_eq!(vlans, [None, Some(5), Some(9)]);
            }
        }
    });
}

#[test]
fn filters_act_in_the_kernel_also_on_tags_that_it_took_out() {
    in_namespace(|| {
        add_pair();
        let dns = datagram((1, 1_000), (2, 53), &[1; 30]);
        let web = datagram((1, 1_000), (2, 443), &[2; 30]);
        let five = tagged(&dns, 0x8100, 5);
        let six = tagged(&web, 0x8100, 6);
        let sent = [dns.clone(), web.clone(), five.clone(), six.clone()];
        // As with tcpdump, what is asked of the inside of a frame is asked past a tag that the
        // kernel took out, and `not vlan` says that it must have none.
        let cases: [(&str, &[&Vec<u8>]); 7] = [
            ("udp port 53", &[&dns, &five]),
            ("udp port 53 and not vlan", &[&dns]),
            ("vlan 5", &[&five]),
            ("vlan", &[&five, &six]),
            ("vlan 6 and udp port 443", &[&six]),
            ("not vlan", &[&dns, &web]),
            ("tcp", &[]),
        ];
        for latency in LATENCIES {
            for (expression, wanted) in &cases {
                let read = filtered(expression);
                let mut listener = Listener::open("wl1", &with(latency), &read);
                send("wl0", &sent);
                let mut seen = listener.read(wanted.len());
                let (more, report) = listener.finish();
                seen.extend(more);
                let what = format!("{expression}, {latency:?}");
                assert!(bytes(&seen).iter().eq(wanted.iter().copied()), "{what}: {seen:?}");
                assert_eq!(report.received, wanted.len() as u64, "{what}");
            }
        }
    });
}

#[test]
fn a_snaplen_cuts_what_is_kept_and_not_what_is_told() {
    in_namespace(|| {
        add_pair();
        let long = datagram((1, 1_000), (2, 53), &[3; 1_200]);
        let sent = [long.clone(), tagged(&long, 0x8100, 5), numbered(0, 60)];
        for latency in LATENCIES {
            for filter in [None, Some("udp or ether proto 0x88b5 or vlan")] {
                let read = ReadOptions {
                    snaplen: 96,
                    ..filter.map_or_else(ReadOptions::default, filtered)
                };
                let mut listener = Listener::open("wl1", &with(latency), &read);
                send("wl0", &sent);
                let seen = listener.read(3);
                assert_eq!(seen.len(), 3, "{latency:?} {filter:?}");
                for (seen, sent) in seen.iter().zip(&sent) {
                    assert_eq!(seen.bytes, sent[..sent.len().min(96)]);
                    assert_eq!(seen.wire_len as usize, sent.len());
                }
            }
        }
    });
}

#[test]
fn a_ring_that_overflows_counts_what_it_lost() {
    in_namespace(|| {
        add_pair();
        let sent: Vec<_> = (0..5_000).map(|number| numbered(number, 500)).collect();
        for latency in LATENCIES {
            let options = LiveOptions { ring_size_bytes: 256 << 10, ..with(latency) };
            let read = ReadOptions { snaplen: 500, ..ReadOptions::default() };
            let mut listener = Listener::open("wl1", &options, &read);
            send("wl0", &sent);
            Listener::await_received(slice::from_mut(&mut listener), 5_000);
            let before = listener.source.report().clone();
            assert_eq!(before.unread, 5_000 - before.dropped.total());
            let (seen, report) = listener.finish();
            assert!(report.dropped.ring_full > 1_000, "{latency:?}: {report:?}");
            assert_eq!(seen.len() as u64 + report.dropped.ring_full, 5_000, "{latency:?}");
            assert_eq!((report.received, report.unread), (5_000, 0));
            assert_eq!(read.progress.frames_dropped(), report.dropped.ring_full);
            assert_eq!(read.progress.frames_read(), seen.len() as u64);
            assert_eq!(bytes(&seen), sent[..seen.len()], "the first are those that had room");
            if latency == Latency::Throughput {
                assert!(report.freezes > 0, "{report:?}");
            }
        }
    });
}

#[test]
fn a_silent_link_ticks_and_a_tick_is_not_before_what_was_handed_out() {
    in_namespace(|| {
        add_pair();
        for latency in LATENCIES {
            let mut listener = Listener::open("wl1", &with(latency), &ReadOptions::default());
            let mut ticks = Vec::new();
            for round in 0..3 {
                let batch = listener.source.next_batch().unwrap();
                assert_eq!(batch.records.len(), 0);
                ticks.push(batch.tick.unwrap());
                send("wl0", &[numbered(round, 60)]);
                let seen = listener.read(1);
                assert!(seen[0].timestamp > *ticks.last().unwrap(), "{latency:?}");
                let batch = listener.source.next_batch().unwrap();
                assert!(batch.tick.unwrap() > seen[0].timestamp, "{latency:?}");
            }
            assert!(ticks.is_sorted_by(|one, next| next.since(*one).as_ns() >= 100_000_000));
        }
    });
}

#[test]
fn a_stop_hands_out_what_the_ring_holds_and_ends() {
    in_namespace(|| {
        add_pair();
        for latency in LATENCIES {
            // Much longer than the stop may take to be noticed: what is in a block is not lost.
            let options = LiveOptions { block_timeout_ms: 300, ..with(latency) };
            let mut listener = Listener::open("wl1", &options, &ReadOptions::default());
            send("wl0", &(0..700).map(|number| numbered(number, 60)).collect::<Vec<_>>());
            Listener::await_received(slice::from_mut(&mut listener), 700);
            let (seen, report) = listener.finish();
            assert_eq!((seen.len(), report.received, report.unread), (700, 700, 0));
        }
    });
}

#[test]
fn an_interface_that_goes_down_is_waited_for() {
    in_namespace(|| {
        add_pair();
        for latency in LATENCIES {
            ip("link set wl1 down");
            let mut listener = Listener::open("wl1", &with(latency), &ReadOptions::default());
            assert!(!listener.source.is_up_at_start());
            ip("link set wl1 up");
            await_running(true);
            send("wl0", &[numbered(1, 60)]);
            assert_eq!(listener.read(1).len(), 1, "{latency:?}: after it came up");
            ip("link set wl1 down");
            assert!(listener.source.next_batch().unwrap().tick.is_some());
            ip("link set wl1 up");
            await_running(true);
            send("wl0", &[numbered(2, 60)]);
            let seen = listener.read(1);
            assert_eq!(bytes(&seen), [numbered(2, 60)], "{latency:?}: after it came back");
            let (_, report) = listener.finish();
            assert_eq!((report.interface_down_count, report.damage), (1, None));
        }
    });
}

#[test]
fn an_interface_that_is_removed_ends_the_source_and_is_named() {
    in_namespace(|| {
        for (latency, is_up) in LATENCIES.into_iter().zip([true, false]) {
            add_pair();
            if !is_up {
                ip("link set wl1 down");
            }
            let mut listener = Listener::open("wl1", &with(latency), &ReadOptions::default());
            if is_up {
                send("wl0", &[numbered(1, 60), numbered(2, 60)]);
            }
            if is_up {
                Listener::await_received(slice::from_mut(&mut listener), 2);
            }
            ip("link del wl0");
            let seen = listener.read(usize::MAX);
            assert_eq!(seen.len(), if is_up { 2 } else { 0 });
            assert!(listener.source.next_batch().is_none());
            let report = listener.source.report().clone();
            let damage = report.damage.unwrap();
            assert_eq!(damage.cause, DamageCause::InterfaceRemoved);
            let frames = seen.len();
            let wanted = format!("the interface was removed; the {frames} frames before it");
            assert!(damage.to_string().starts_with(&format!("wl1: {wanted}")), "{damage}");
            assert_eq!(report.unread, 0);
        }
    });
}

/// Hosts and ports without direction.
fn flow(frame: &[u8]) -> [(u8, u16); 2] {
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let mut ends = [(frame[29], port(34)), (frame[33], port(36))];
    ends.sort_unstable();
    ends
}

#[test]
fn sockets_of_a_group_share_flows_and_see_both_directions_of_each() {
    in_namespace(|| {
        add_pair();
        for latency in LATENCIES {
            let options = LiveOptions { socket_count: 2, ..with(latency) };
            let read = ReadOptions { snaplen: 128, ..filtered("udp") };
            let mut listeners = Listener::open_all("wl1", &options, &read);
            assert_eq!(listeners.len(), 2);
            let there: Vec<_> =
                (0..200).map(|n| datagram((1, 2_000 + n), (2, 53), &[1; 20])).collect();
            let back: Vec<_> =
                (0..200).map(|n| datagram((2, 53), (1, 2_000 + n), &[2; 20])).collect();
            send("wl0", &there);
            send("wl1", &back);
            Listener::await_received(&mut listeners, 400);
            let mut homes: HashMap<_, Vec<usize>> = HashMap::new();
            for (index, listener) in listeners.into_iter().enumerate() {
                let (seen, report) = listener.finish();
                assert!(seen.len() > 50, "socket {index} saw {}, {latency:?}", seen.len());
                assert_eq!(report.received, seen.len() as u64);
                for frame in seen {
                    homes.entry(flow(&frame.bytes)).or_default().push(index);
                }
            }
            assert_eq!(homes.len(), 200);
            assert!(homes.values().all(|home| matches!(home[..], [a, b] if a == b)), "{homes:?}");
        }
    });
}

#[test]
fn loopback_shows_each_packet_once_and_any_shows_all_interfaces() {
    in_namespace(|| {
        add_pair();
        ip("link set lo up");
        let sent = [numbered(1, 60), tagged(&datagram((1, 9), (2, 9), &[0; 9]), 0x8100, 5)];
        for latency in LATENCIES {
            let mut lo = Listener::open("lo", &with(latency), &ReadOptions::default());
            let mut any = Listener::open("any", &with(latency), &ReadOptions::default());
            let mut five = Listener::open("any", &with(latency), &filtered("vlan 5"));
            send("lo", &sent);
            Listener::await_received(slice::from_mut(&mut lo), 2);
            send("wl0", &sent);
            Listener::await_received(slice::from_mut(&mut any), 6);
            Listener::await_received(slice::from_mut(&mut five), 3);
            let (seen, report) = lo.finish();
            assert_eq!((bytes(&seen), report.received), (sent.to_vec(), 2), "{latency:?}");
            let (seen, _) = any.finish();
            let of = |interface| {
                let of_one: Vec<_> =
                    seen.iter().filter(|seen| seen.interface == interface).cloned().collect();
                bytes(&of_one)
            };
            assert_eq!([of(0), of(1), of(2)], [&sent; 3].map(|sent| sent.to_vec()));
            assert_eq!(bytes(&five.finish().0), vec![sent[1].clone(); 3]);
        }
    });
}
