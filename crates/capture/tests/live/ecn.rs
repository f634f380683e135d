//! The marker at tc egress: what it re-marks, and what it leaves alone.

use std::fs;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use aya::programs::tc::{TcAttachOptions, TcAttachType};
use aya::programs::{LinkOrder, SchedClassifier, loaded_programs};
use aya::{Btf, Ebpf, EbpfLoader};
use capture::live::LiveOptions;
use capture::tap::{EcnFault, EcnMarker, EcnSettings, Offloads};
use capture::{Filter, ReadOptions, devices};
use packet::{EcnFlowCounts, OneWayFlow, Protocol};

use crate::lab::{
    self, Killed, Listener, Seen, add_pair, again, in_namespace, ip, numbered, send, tagged,
    wait_until,
};

const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

/// Says aloud that a test is skipped where no program can be loaded: a user namespace is not
/// enough for eBPF.
fn is_skipped() -> bool {
    let is_root = lab::run("id", &["-u"]).trim() == "0";
    if !is_root {
        let test = thread::current().name().unwrap_or("ecn").to_owned();
        eprintln!("SKIPPED: {test}: needs root, to load eBPF");
    }
    !is_root
}

fn flow(source: &str, destination: &str, protocol: Protocol) -> OneWayFlow {
    OneWayFlow::new(source.parse().unwrap(), destination.parse().unwrap(), protocol)
}

/// Flows of one pair of hosts, by the port of the sender.
fn tcp4(port: u16) -> OneWayFlow {
    flow(&format!("192.0.2.1:{port}"), "192.0.2.2:443", Protocol::TCP)
}

fn tcp6(port: u16) -> OneWayFlow {
    flow(&format!("[2001:db8::1]:{port}"), "[2001:db8::2]:443", Protocol::TCP)
}

fn octets(end: SocketAddr) -> Vec<u8> {
    match end {
        SocketAddr::V4(end) => end.ip().octets().to_vec(),
        SocketAddr::V6(end) => end.ip().octets().to_vec(),
    }
}

/// The Internet checksum's sum, 0xffff of what holds its own checksum (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// A packet of a flow with right checksums, behind an Ethernet header.
fn frame(flow: OneWayFlow, ecn: u8, number: u16) -> Vec<u8> {
    let (source, destination) = flow.key.endpoints(flow.direction);
    let source = SocketAddr::new(source.address, source.port);
    let destination = SocketAddr::new(destination.address, destination.port);
    let protocol = flow.key.protocol();
    let mut transport = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
    let checksum_at = if protocol == Protocol::TCP { 16 } else { 6 };
    if protocol == Protocol::TCP {
        transport.extend(u32::from(number).to_be_bytes());
        transport.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    } else {
        transport.extend([0, 28, 0, 0]);
    }
    transport.extend([0x5a; 20]);
    let len = u16::try_from(transport.len()).unwrap();
    let ends = [octets(source), octets(destination)].concat();
    let pseudo = [&ends[..], &len.to_be_bytes(), &[0, protocol.0], &transport].concat();
    transport[checksum_at..checksum_at + 2].copy_from_slice(&(!sum(&pseudo)).to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if flow.key.is_ipv6() {
        // A traffic class of which all bits that are not ECN are set, and a flow label.
        frame.extend([0x86, 0xdd, 0x6f, 0xcf | ecn << 4, 0x12, 0x34]);
        frame.extend(len.to_be_bytes());
        frame.extend([protocol.0, 64]);
        frame.extend(&ends);
    } else {
        frame.extend([8, 0, 0x45, 0xfc | ecn]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend(number.to_be_bytes());
        frame.extend([0x40, 0, 64, protocol.0, 0, 0]);
        frame.extend(&ends);
        let checksum = !sum(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    frame.extend(transport);
    frame
}

/// What a frame must be once it is re-marked.
fn remarked(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame[14] >> 4 == 6 {
        frame[15] &= 0xcf;
        return frame;
    }
    frame[15] &= 0xfc;
    frame[24..26].fill(0);
    let checksum = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn listen(interface: &str) -> Listener {
    Listener::open(interface, &LiveOptions::default(), &ReadOptions::default())
}

/// Sends frames on `wl0`; what arrives at `wl1`.
fn pass(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut listener = listen("wl1");
    send("wl0", frames);
    let seen = listener.read(frames.len());
    assert_eq!(seen.len(), frames.len());
    seen.into_iter().map(|seen| seen.bytes).collect()
}

fn attach(settings: EcnSettings) -> EcnMarker {
    EcnMarker::attach("wl0", settings).unwrap()
}

#[test]
fn a_budget_of_five_re_marks_five_packets_of_that_flow_alone() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        for flow in [tcp4, tcp6] {
            let (named, other) = (flow(1_000), flow(1_001));
            let marker = attach(EcnSettings::default());
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
        let marker = attach(EcnSettings::default());
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
        let marker = attach(EcnSettings::default());
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
        let marker = attach(EcnSettings::default());
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
        let marker = attach(EcnSettings::default());
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
        assert!(pass(std::slice::from_ref(&extended)) == [remarked(&extended)]);
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
        let marker = attach(EcnSettings::default());
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
        let marker = attach(EcnSettings { is_dry_run: true, ..EcnSettings::default() });
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
        let marker = attach(EcnSettings { flow_count_max: 2, ..EcnSettings::default() });
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
        assert_eq!((last.remarked, last.budget_out, last.seen()), (4, 3, 7));
        assert_eq!(ecn_of(tcp4(1), 1), [ECT1]);
        marker.allow(tcp4(3), 1).unwrap();
        assert_eq!(ecn_of(tcp4(3), 2), [NOT_ECT, ECT1]);
        let flows = marker.flows().unwrap();
        assert_eq!(flows.iter().map(|flow| flow.flow).collect::<Vec<_>>(), [tcp4(2), tcp4(3)]);
        assert_eq!(flows[1].counts.remarked, 1);
        let counts = marker.counts().unwrap();
        assert_eq!((counts.flows_refused, counts.named.remarked, counts.no_flow), (1, 5, 2));
        // Through the trait, which an application has.
        let control: &dyn packet::EcnControl = &marker;
        assert_eq!(control.flow_counts(tcp4(3)).unwrap().remarked, 1);
        assert!(control.forget(tcp4(9)).is_err());
    });
}

/// Numbers of the programs at the egress of `wl0`.
fn programs() -> Vec<u32> {
    let (_, programs) = SchedClassifier::query_tcx("wl0", TcAttachType::Egress).unwrap();
    programs.iter().map(aya::programs::ProgramInfo::id).collect()
}

#[test]
fn a_marker_that_is_killed_leaves_no_program_behind() {
    const TEST: &str = "ecn::a_marker_that_is_killed_leaves_no_program_behind";
    const HOLDER: &str = "holder";
    if is_skipped() {
        return;
    }
    if lab::part().as_deref() == Some(HOLDER) {
        let marker = attach(EcnSettings::default());
        marker.allow(tcp4(1), u32::MAX).unwrap();
        loop {
            thread::park();
        }
    }
    in_namespace(|| {
        add_pair();
        let is_remarked = || pass(&[frame(tcp4(1), ECT1, 1)])[0][15] & 3 == NOT_ECT;
        assert!(!is_remarked() && programs().is_empty());
        let mut holder = Killed(again(TEST, HOLDER, "env", &[]).spawn().unwrap());
        wait_until(is_remarked);
        let attached = programs();
        assert_eq!(attached.len(), 1);
        // SIGKILL, of which no process hears.
        holder.0.kill().unwrap();
        holder.0.wait().unwrap();
        // Maps and programs are freed a little later.
        let is_loaded = |id| loaded_programs().any(|program| program.is_ok_and(|of| of.id() == id));
        wait_until(|| programs().is_empty() && !is_loaded(attached[0]));
        assert!(!is_remarked());
        // And one that is dropped, too.
        drop(attach(EcnSettings::default()));
        wait_until(|| programs().is_empty());
    });
}

#[test]
fn an_interface_that_is_removed_is_named() {
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        let marker = attach(EcnSettings::default());
        marker.allow(tcp4(1), 1).unwrap();
        pass(&[frame(tcp4(1), ECT1, 1)]);
        marker.check().unwrap();
        ip("link del wl0");
        for error in [marker.check(), marker.allow(tcp4(1), 1), marker.set_budget(tcp4(1), 1)] {
            let error = error.unwrap_err();
            assert_eq!(error.fault(), &EcnFault::Gone);
            assert!(
                error.to_string().contains("wl0: cannot re-mark packets: the interface is gone")
            );
        }
        // What was counted can still be read.
        assert_eq!(marker.counts().unwrap().named.remarked, 1);
        assert_eq!(marker.forget(tcp4(1)).unwrap().remarked, 1);
    });
}

#[test]
fn where_it_cannot_be_attached_the_message_says_why() {
    const TEST: &str = "ecn::where_it_cannot_be_attached_the_message_says_why";
    const NOBODY: &str = "nobody";
    if lab::part().as_deref() == Some(NOBODY) {
        let error = EcnMarker::attach("lo", EcnSettings::default()).unwrap_err();
        assert_eq!(error.fault(), &EcnFault::NotPermitted, "{error}");
        let error = Offloads::off("lo").unwrap_err();
        assert_eq!(error.fault(), &EcnFault::NotPermitted, "{error}");
        return;
    }
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        // Root of a new user namespace has no say in the network of the old one.
        let status = again(TEST, NOBODY, "unshare", &["--user"]).status().unwrap();
        assert!(status.success());
        let error = EcnMarker::attach("wl7", EcnSettings::default()).unwrap_err();
        assert_eq!(error.fault(), &EcnFault::NoInterface);
        let made = Command::new("ip").args(["tuntap", "add", "wl8", "mode", "tun"]).output();
        if made.is_ok_and(|made| made.status.success()) {
            let error = EcnMarker::attach("wl8", EcnSettings::default()).unwrap_err();
            assert_eq!(error.fault(), &EcnFault::NotEthernet(ARPHRD_NONE));
        } else {
            eprintln!("SKIPPED: in {TEST}: an interface without Ethernet: there is no TUN here");
        }
    });
}

/// `ARPHRD_NONE`, of interfaces without a link header.
const ARPHRD_NONE: u16 = 0xfffe;

/// Runs a Python script, for socket options that the standard library of Rust has not; whether
/// there is Python.
fn python(script: &str) -> bool {
    let Ok(status) = Command::new("python3").args(["-c", script]).status() else {
        let test = thread::current().name().unwrap_or("ecn").to_owned();
        eprintln!("SKIPPED: {test}: needs python3");
        return false;
    };
    assert!(status.success());
    true
}

#[test]
fn a_packet_of_ten_segments_spends_ten_packets_or_is_kept() {
    /// Three times ten datagrams of 100 bytes, which the kernel gets as one packet each (SOL_UDP,
    /// UDP_SEGMENT), ECT(1).
    const SEND: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 1)
s.setsockopt(17, 103, 100)
s.bind(('192.0.2.1', 5000))
for _ in range(3): s.sendto(bytes(1000), ('192.0.2.2', 443))
";
    if is_skipped() {
        return;
    }
    in_namespace(|| {
        add_pair();
        ip("addr add 192.0.2.1/24 dev wl0");
        ip("neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev wl0");
        let marker = attach(EcnSettings::default());
        let named = flow("192.0.2.1:5000", "192.0.2.2:443", Protocol::UDP);
        marker.allow(named, 25).unwrap();
        let filter = Some(Filter::new("udp dst port 443").unwrap());
        let read = ReadOptions { filter, ..ReadOptions::default() };
        let mut listener = Listener::open("wl1", &LiveOptions::default(), &read);
        if !python(SEND) {
            return;
        }
        let mut seen: Vec<Seen> = Vec::new();
        while seen.iter().map(|seen| usize::from(seen.segments)).sum::<usize>() < 30 {
            let more = listener.read(1);
            assert!(!more.is_empty(), "{seen:?}");
            seen.extend(more);
        }
        let segments = |ecn: u8| -> u16 {
            let of = seen.iter().filter(|seen| seen.bytes[15] & 3 == ecn);
            of.map(|seen| seen.segments).sum()
        };
        assert_eq!((segments(NOT_ECT), segments(ECT1)), (20, 10));
        assert!(seen.iter().all(|seen| sum(&seen.bytes[14..34]) == 0xffff));
        let flow = marker.flow(named).unwrap();
        assert_eq!((flow.budget_left, flow.counts.remarked, flow.counts.budget_out), (5, 20, 10));
        assert_eq!(marker.counts().unwrap().segmented, 3);
    });
}

/// Bytes of a transfer.
const TRANSFER_LEN: usize = 1 << 20;

/// The other end of transfers, in a namespace of its own: takes all bytes of two connections.
fn receive_transfers() {
    wait_until(|| devices::list().unwrap().iter().any(|device| device.name == "wl1"));
    fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap();
    ip("addr add 192.0.2.2/24 dev wl1");
    ip("link set wl1 up");
    let listener = TcpListener::bind("192.0.2.2:443").unwrap();
    for _ in 0..2 {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), TRANSFER_LEN);
    }
    // Its interface is there until the other side has looked at everything.
    assert_eq!(io::stdin().read(&mut [0]).unwrap(), 0);
}

/// Sends by TCP from a socket whose packets the testbed's program makes ECT(1).
fn send_transfer(port: u16) -> bool {
    python(&format!(
        "
import socket, time
for attempt in range(1000):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, 36, 0x4c3453)
    s.bind(('192.0.2.1', {port}))
    try:
        s.connect(('192.0.2.2', 443))
        break
    except OSError:
        s.close()
        time.sleep(0.01)
s.sendall(bytes({TRANSFER_LEN}))
s.shutdown(socket.SHUT_WR)
assert not s.recv(1)
"
    ))
}

/// Makes ECT(1) of ECT(0), before the marker sees it.
fn attach_testbed_ect1() -> Ebpf {
    let object = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/bpf/ect1.bpf.o");
    let types = Btf::from_sys_fs().unwrap();
    let mut ebpf = EbpfLoader::new().btf(Some(&types)).load_file(object).unwrap();
    let program: &mut SchedClassifier = ebpf.program_mut("ect1").unwrap().try_into().unwrap();
    program.load().unwrap();
    let order = TcAttachOptions::TcxOrder(LinkOrder::first());
    program.attach_with_options("wl0", TcAttachType::Egress, order).unwrap();
    ebpf
}

#[test]
fn tcp_of_this_kernel_is_re_marked_packet_by_packet_without_offloads() {
    const TEST: &str = "ecn::tcp_of_this_kernel_is_re_marked_packet_by_packet_without_offloads";
    const PEER: &str = "peer";
    if is_skipped() {
        return;
    }
    if lab::part().as_deref() == Some(PEER) {
        return receive_transfers();
    }
    in_namespace(|| {
        add_pair();
        let mut peer = again(TEST, PEER, "unshare", &["--net"]);
        let peer = peer.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut peer = Killed(peer.unwrap());
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        wait_until(|| namespace(&peer.0.id().to_string()) != namespace("self"));
        ip(&format!("link set wl1 netns {}", peer.0.id()));
        fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap();
        ip("addr add 192.0.2.1/24 dev wl0");
        // After the testbed's, though it is attached before.
        let marker = attach(EcnSettings::default());
        let _ect1 = attach_testbed_ect1();
        let before = marker.offloads().unwrap();
        assert!(before.contains(&"TSO") && before.contains(&"GSO"), "{before:?}");
        if !send_transfer(6_000) {
            return;
        }
        assert!(marker.counts().unwrap().segmented > 0, "TCP hands over many segments at once");

        let segmented = marker.counts().unwrap().segmented;
        let offloads = Offloads::off("wl0").unwrap();
        assert!(offloads.still_on().unwrap().is_empty() && marker.offloads().unwrap().is_empty());
        marker.allow(tcp4(6_001), 50).unwrap();
        let read = ReadOptions {
            filter: Some(Filter::new("tcp src port 6001 and greater 100").unwrap()),
            ..ReadOptions::default()
        };
        // At the device, after all programs: the other end is in another namespace.
        let listener = Listener::open("wl0", &LiveOptions::default(), &read);
        send_transfer(6_001);
        let (seen, _) = listener.finish();
        assert!(seen.len() > 700 && seen.iter().all(|seen| seen.segments == 1));
        assert_eq!(marker.counts().unwrap().segmented, segmented);
        let with = |ecn: u8| seen.iter().filter(|seen| seen.bytes[15] & 3 == ecn).count();
        let counts = marker.flow(tcp4(6_001)).unwrap().counts;
        assert_eq!((counts.remarked, with(NOT_ECT)), (50, 50), "{counts:?}");
        assert_eq!(with(ECT1), seen.len() - 50, "{counts:?}");
        assert!(seen.iter().all(|seen| sum(&seen.bytes[14..34]) == 0xffff));

        let limit = || lab::run("ip", &["-d", "link", "show", "wl0"]);
        assert!(limit().contains("gso_max_segs 1 "), "{}", limit());
        offloads.put_back().unwrap();
        assert_eq!(marker.offloads().unwrap(), before);
        assert!(limit().contains("gso_max_segs 65535 "), "{}", limit());
        drop(Offloads::off("wl0").unwrap());
        assert_eq!(marker.offloads().unwrap(), before);
        drop(peer.0.stdin.take());
        assert!(peer.0.wait().unwrap().success());
    });
}
