//! The rest of the system: how it ends, where it is refused, segments, and TCP of this kernel.

use std::fs;
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use aya::programs::tc::{TcAttachOptions, TcAttachType};
use aya::programs::{LinkOrder, SchedClassifier, loaded_programs};
use aya::{Btf, Ebpf, EbpfLoader};
use capture::live::LiveOptions;
use capture::tap::{EcnFault, EcnMarker, Offloads};
use capture::{Filter, ReadOptions, devices};
use packet::Protocol;

use super::{ECT1, NOT_ECT, attach, flow, frame, is_skipped, lasting, pass, sum, tcp4};
use crate::lab::{
    self, CapturedFrame, KillGuard, Listener, add_pair, again, in_namespace, ip, wait_until,
};

/// Numbers of the programs at the egress of `wl0`.
fn programs() -> Vec<u32> {
    let (_, programs) = SchedClassifier::query_tcx("wl0", TcAttachType::Egress).unwrap();
    programs.iter().map(aya::programs::ProgramInfo::id).collect()
}

#[test]
fn a_marker_that_is_killed_leaves_no_program_behind() {
    const TEST: &str = "ecn::system::a_marker_that_is_killed_leaves_no_program_behind";
    const HOLDER: &str = "holder";
    if is_skipped() {
        return;
    }
    if lab::part().as_deref() == Some(HOLDER) {
        let marker = attach(lasting());
        marker.allow(tcp4(1), u32::MAX).unwrap();
        loop {
            thread::park();
        }
    }
    in_namespace(|| {
        add_pair();
        let is_remarked = || pass(&[frame(tcp4(1), ECT1, 1)])[0][15] & 3 == NOT_ECT;
        assert!(!is_remarked() && programs().is_empty());
        let mut holder = KillGuard(again(TEST, HOLDER, "env", &[]).spawn().unwrap());
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
        drop(attach(lasting()));
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
        let marker = attach(lasting());
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
    const TEST: &str = "ecn::system::where_it_cannot_be_attached_the_message_says_why";
    const NOBODY: &str = "nobody";
    if lab::part().as_deref() == Some(NOBODY) {
        let error = EcnMarker::attach("lo", lasting()).unwrap_err();
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
        let error = EcnMarker::attach("wl7", lasting()).unwrap_err();
        assert_eq!(error.fault(), &EcnFault::NoInterface);
        let made = Command::new("ip").args(["tuntap", "add", "wl8", "mode", "tun"]).output();
        if made.is_ok_and(|made| made.status.success()) {
            let error = EcnMarker::attach("wl8", lasting()).unwrap_err();
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
        let marker = attach(lasting());
        let named = flow("192.0.2.1:5000", "192.0.2.2:443", Protocol::UDP);
        marker.allow(named, 25).unwrap();
        let filter = Some(Filter::new("udp dst port 443").unwrap());
        let read = ReadOptions { filter, ..ReadOptions::default() };
        let mut listener = Listener::open("wl1", &LiveOptions::default(), &read);
        if !python(SEND) {
            return;
        }
        let mut seen: Vec<CapturedFrame> = Vec::new();
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
    const TEST: &str =
        "ecn::system::tcp_of_this_kernel_is_re_marked_packet_by_packet_without_offloads";
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
        let mut peer = KillGuard(peer.unwrap());
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        wait_until(|| namespace(&peer.0.id().to_string()) != namespace("self"));
        ip(&format!("link set wl1 netns {}", peer.0.id()));
        fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap();
        ip("addr add 192.0.2.1/24 dev wl0");
        // After the testbed's, though it is attached before.
        let marker = attach(lasting());
        let _ect1 = attach_testbed_ect1();
        let before = marker.offloads().unwrap();
        assert!(before.contains(&"TSO") && before.contains(&"GSO"), "{before:?}");
        if !send_transfer(6_000) {
            return;
        }
        assert!(
            marker.counts().unwrap().segmented > 0,
            "TCP hands over many segments in one packet"
        );

        let segmented = marker.counts().unwrap().segmented;
        let mut offloads = Offloads::off("wl0").unwrap();
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
