//! Frames that are sent, and what becomes of each.

use std::slice;
use std::thread;
use std::time::Duration;

use capture::tap::{EcnFault, EcnSettings};
use packet::{EcnControl, EcnFlowCounts, Protocol, Span};

use super::{
    CE, ECT0, ECT1, NOT_ECT, attach, flow, frame, is_skipped, lasting, listen, pass, remarked, sum,
    tcp4, tcp6,
};
use crate::lab::{add_pair, in_namespace, numbered, send, tagged};

#[test]
fn a_budget_of_five_re_marks_five_packets_of_that_flow_alone() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        for flow in [tcp4, tcp6] {
            let (named, other) = (flow(1_000), flow(1_001));
            let marker = attach(lasting());
            marker.allow(named, 5).unwrap();
            let sent: Vec<_> =
                (0..20).flat_map(|n| [frame(named, ECT1, n), frame(other, ECT1, n)]).collect();
            let seen = pass(&sent);
            for (at, (seen, sent)) in seen.iter().zip(&sent).enumerate() {
                let wanted = if at < 10 && at % 2 == 0 { remarked(sent) } else { sent.clone() };
                assert!(*seen == wanted, "packet {at}: {seen:02x?}");
            }
            let flow = marker.flow(named).unwrap();
            let counts = EcnFlowCounts { remarked: 5, budget_out: 15, ..EcnFlowCounts::default() };
            assert_eq!((flow.budget_left, flow.counts), (0, counts));
            let counts = marker.counts().unwrap();
            assert_eq!((counts.named.remarked, counts.no_flow, counts.seen()), (5, 20, 40));
            assert_eq!((counts.segmented, counts.flows_refused), (0, 0));
        }
    });
}

#[test]
fn every_checksum_of_an_ipv4_header_is_right_after_the_change() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let marker = attach(lasting());
        marker.allow(tcp4(1_000), 1 << 16).unwrap();
        // The identification takes the header's sum through all of its values.
        for numbers in (0..=u16::MAX).collect::<Vec<_>>().chunks(2_048) {
            let sent: Vec<_> = numbers.iter().map(|&n| frame(tcp4(1_000), ECT1, n)).collect();
            for (seen, sent) in pass(&sent).iter().zip(&sent) {
                assert_eq!((seen[15] & 3, sum(&seen[14..34])), (NOT_ECT, 0xffff));
                assert_eq!((&seen[16..24], &seen[26..]), (&sent[16..24], &sent[26..]));
            }
        }
        assert_eq!(marker.flow(tcp4(1_000)).unwrap().counts.remarked, 1 << 16);
    });
}

#[test]
fn a_budget_is_exact_where_several_processors_send() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let marker = attach(lasting());
        marker.allow(tcp4(7), 1_000).unwrap();
        let sent: Vec<_> = (0..1_000).map(|n| frame(tcp4(7), ECT1, n)).collect();
        let mut listener = listen("wl1");
        thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| send("wl0", &sent))));
        });
        let seen = listener.read(4_000);
        assert_eq!(seen.iter().filter(|seen| seen.bytes[15] & 3 == NOT_ECT).count(), 1_000);
        let counts = marker.flow(tcp4(7)).unwrap().counts;
        assert_eq!((counts.remarked, counts.budget_out), (1_000, 3_000));
    });
}

#[test]
fn what_is_not_ect1_is_never_changed() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let marker = attach(lasting());
        let flows = [tcp4(7), tcp6(7), flow("192.0.2.1:7", "192.0.2.2:443", Protocol::UDP)];
        for flow in flows {
            marker.allow(flow, u32::MAX).unwrap();
            let sent = [NOT_ECT, ECT0, CE].map(|ecn| frame(flow, ecn, 1)).to_vec();
            assert!(pass(&sent) == sent);
            let EcnFlowCounts { not_ect, ect0, ce, remarked, .. } =
                marker.flow(flow).unwrap().counts;
            assert_eq!([not_ect, ect0, ce, remarked], [1, 1, 1, 0]);
            assert_eq!(marker.flow(flow).unwrap().budget_left, u32::MAX);
        }
        assert_eq!(marker.counts().unwrap().seen(), 9);
    });
}

/// A destination-options header of 8 bytes before TCP.
fn with_extension(frame: &[u8]) -> Vec<u8> {
    let mut frame = [&frame[..54], &[6, 0, 1, 4, 0, 0, 0, 0], &frame[54..]].concat();
    frame[19] += 8;
    frame[20] = 60;
    frame
}

#[test]
fn flows_are_recognised_behind_tags_and_extension_headers() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let marker = attach(lasting());
        let udp = flow("192.0.2.1:5000", "192.0.2.2:443", Protocol::UDP);
        let flows = [udp, tcp4(7), tcp6(7)];
        flows.iter().for_each(|&flow| marker.allow(flow, 10).unwrap());
        let single = |frame: &[u8]| tagged(frame, 0x8100, 5);
        let double = |frame: &[u8]| tagged(&tagged(frame, 0x8100, 7), 0x88a8, 9);
        for flow in flows {
            let plain = frame(flow, ECT1, 1);
            let after = remarked(&plain);
            let sent = [plain.clone(), single(&plain), double(&plain)];
            let wanted = [after.clone(), single(&after), double(&after)];
            assert!(pass(&sent) == wanted, "{flow}");
        }
        let extended = with_extension(&frame(tcp6(7), ECT1, 1));
        assert!(pass(slice::from_ref(&extended)) == [remarked(&extended)]);
        assert_eq!(marker.counts().unwrap().named.remarked, 10);
    });
}

#[test]
fn what_has_no_flow_is_counted_by_cause_and_passes() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let marker = attach(lasting());
        marker.allow(tcp4(7), 100).unwrap();
        marker.allow(tcp6(7), 100).unwrap();
        let change = |flow, at: usize, to: u8| {
            let mut frame = frame(flow, ECT1, 1);
            frame[at] = to;
            frame
        };
        let udp = flow("192.0.2.1:7", "192.0.2.2:443", Protocol::UDP);
        let back = flow("192.0.2.2:443", "192.0.2.1:7", Protocol::TCP);
        let no_flow = [frame(udp, ECT1, 1), frame(back, ECT1, 1)];
        let not_ip = [
            numbered(1, 60),
            tagged(&tagged(&tagged(&no_flow[0], 0x8100, 1), 0x8100, 2), 0x8100, 3),
        ];
        let not_tcp_udp = [change(tcp4(7), 23, 1), change(tcp6(7), 20, 58)];
        // The first fragment, a later one, and one of IPv6.
        let fragments =
            [change(tcp4(7), 20, 0x20), change(tcp4(7), 21, 9), change(tcp6(7), 20, 44)];
        let malformed = [
            change(tcp4(7), 14, 0x44),
            change(tcp4(7), 14, 0x65),
            change(tcp4(7), 17, 12),
            frame(tcp4(7), ECT1, 1)[..30].to_vec(),
            frame(tcp4(7), ECT1, 1)[..36].to_vec(),
            change(tcp6(7), 14, 0x4f),
            frame(tcp6(7), ECT1, 1)[..50].to_vec(),
            frame(tcp6(7), ECT1, 1)[..56].to_vec(),
        ];
        let sent = [&no_flow[..], &not_ip, &not_tcp_udp, &fragments, &malformed].concat();
        assert!(pass(&sent) == sent);
        let counts = marker.counts().unwrap();
        assert_eq!((counts.no_flow, counts.not_ip, counts.not_tcp_udp), (2, 2, 2));
        assert_eq!((counts.fragments, counts.malformed), (3, 8));
        assert_eq!((counts.seen(), counts.named.seen()), (sent.len() as u64, 0));
    });
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let marker = attach(EcnSettings { is_dry_run: true, ..lasting() });
        for flow in [tcp4(7), tcp6(7)] {
            marker.allow(flow, 5).unwrap();
            let sent: Vec<_> = (0..20).map(|n| frame(flow, ECT1, n)).collect();
            assert!(pass(&sent) == sent);
            let counts = EcnFlowCounts { would_remark: 5, budget_out: 15, ..Default::default() };
            assert_eq!(marker.flow(flow).unwrap().counts, counts);
        }
    });
}

#[test]
fn budgets_are_set_and_flows_forgotten_while_packets_leave() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let marker = attach(EcnSettings { flow_count_max: 2, ..lasting() });
        let ecn_of = |flow, count: u16| -> Vec<u8> {
            let sent: Vec<_> = (0..count).map(|n| frame(flow, ECT1, n)).collect();
            pass(&sent).iter().map(|frame| frame[15] & 3).collect()
        };
        marker.allow(tcp4(1), 1).unwrap();
        marker.allow(tcp4(2), 0).unwrap();
        assert_eq!(ecn_of(tcp4(1), 2), [NOT_ECT, ECT1]);
        assert_eq!(ecn_of(tcp4(2), 1), [ECT1]);
        marker.set_budget(tcp4(1), 2).unwrap();
        assert_eq!(ecn_of(tcp4(1), 3), [NOT_ECT, NOT_ECT, ECT1]);
        // What is left is void, not added to.
        marker.allow(tcp4(1), 3).unwrap();
        marker.allow(tcp4(1), 1).unwrap();
        assert_eq!(ecn_of(tcp4(1), 2), [NOT_ECT, ECT1]);
        // Unless it is to stay; then there is a maximum.
        for _ in 0..4 {
            marker.add(tcp4(1), 1, 3).unwrap();
        }
        assert_eq!(marker.flow(tcp4(1)).unwrap().budget_left, 3);
        assert_eq!(ecn_of(tcp4(1), 2), [NOT_ECT; 2]);
        marker.add(tcp4(1), 1, 3).unwrap();
        assert_eq!(ecn_of(tcp4(1), 3), [NOT_ECT, NOT_ECT, ECT1]);
        let error = marker.add(tcp4(3), 1, 1).unwrap_err();
        assert_eq!(error.fault(), &EcnFault::NotNamed(tcp4(3)));

        let error = marker.allow(tcp4(3), 1).unwrap_err();
        assert_eq!(error.fault(), &EcnFault::Full(2));
        let wanted = "wl0: cannot re-mark packets: all 2 places for flows are taken; ";
        assert!(error.to_string().starts_with(wanted), "{error}");
        let error = marker.set_budget(tcp4(3), 1).unwrap_err();
        assert_eq!(error.fault(), &EcnFault::NotNamed(tcp4(3)));
        let icmp = flow("192.0.2.1:0", "192.0.2.2:0", Protocol::ICMP);
        assert_eq!(marker.allow(icmp, 1).unwrap_err().fault(), &EcnFault::NotTcpUdp(icmp));
        assert_eq!(ecn_of(tcp4(3), 1), [ECT1]);

        marker.allow(tcp4(1), 9).unwrap();
        let last = marker.forget(tcp4(1)).unwrap();
        assert_eq!((last.remarked, last.budget_out, last.seen()), (8, 4, 12));
        assert_eq!(ecn_of(tcp4(1), 1), [ECT1]);
        marker.allow(tcp4(3), 1).unwrap();
        assert_eq!(ecn_of(tcp4(3), 2), [NOT_ECT, ECT1]);
        let flows = marker.flows().unwrap();
        assert_eq!(flows.iter().map(|flow| flow.flow).collect::<Vec<_>>(), [tcp4(2), tcp4(3)]);
        assert_eq!(flows[1].counts.remarked, 1);
        let counts = marker.counts().unwrap();
        assert_eq!((counts.flows_refused, counts.named.remarked, counts.no_flow), (1, 9, 2));
        // Through the trait, which an application has.
        let control: &dyn EcnControl = &marker;
        assert_eq!(control.flow_counts(tcp4(3)).unwrap().remarked, 1);
        assert!(control.forget(tcp4(9)).is_err());
    });
}

#[test]
fn a_budget_that_is_not_renewed_in_time_re_marks_nothing_and_is_counted_once() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let lasts = Duration::from_millis(500);
        let budget_lasts = Span::from_ns(500_000_000);
        let marker = attach(EcnSettings { budget_lasts, ..EcnSettings::default() });
        let ecn_of_three = |flow| -> Vec<u8> {
            let sent: Vec<_> = (0..3).map(|n| frame(flow, ECT1, n)).collect();
            pass(&sent).iter().map(|frame| frame[15] & 3).collect()
        };
        marker.allow(tcp4(1), u32::MAX).unwrap();
        marker.allow(tcp4(2), 0).unwrap();
        thread::sleep(lasts);
        assert_eq!(marker.flow(tcp4(1)).unwrap().budget_left, 0);
        for flow in [tcp4(1), tcp4(2)] {
            assert_eq!(ecn_of_three(flow), [ECT1; 3]);
        }
        // Packets that an empty budget cannot re-mark are no sign of one that was too old.
        let counts = marker.counts().unwrap();
        assert_eq!((counts.budgets_expired, counts.named.budget_out, counts.seen()), (1, 6, 6));
        // What has expired is not added to.
        marker.add(tcp4(1), 2, u32::MAX).unwrap();
        assert_eq!(ecn_of_three(tcp4(1)), [NOT_ECT, NOT_ECT, ECT1]);
        assert_eq!(marker.counts().unwrap().budgets_expired, 1);
    });
}
