//! The rest of the system: offloads, permissions, what cannot be opened.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::slice;

use capture::live::{self, Latency, LiveError, LiveOptions};
use capture::sys::interfaces;
use capture::{Filter, OpenError, ReadOptions, devices};
use packet::{LinkType, Source as _};

use crate::lab::{self, KillGuard, Listener, add_pair, again, in_namespace, ip, wait_until};

/// Bytes of the transfer.
const TRANSFER_LEN: usize = 4 << 20;

/// The other end of the transfer, in a namespace of its own: takes all bytes and ends.
fn receive_transfer() {
    wait_until(|| devices::list().unwrap().iter().any(|device| device.name == "wl1"));
    ip("addr add 192.0.2.2/24 dev wl1");
    ip("link set wl1 up");
    let listener = TcpListener::bind("192.0.2.2:5000").unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), TRANSFER_LEN);
}

fn send_transfer() {
    let mut stream = None;
    wait_until(|| {
        stream = TcpStream::connect("192.0.2.2:5000").ok();
        stream.is_some()
    });
    stream.unwrap().write_all(&vec![7; TRANSFER_LEN]).unwrap();
}

/// Bytes of payload of a TCP frame over IPv4.
fn tcp_payload_len(frame: &[u8]) -> usize {
    let ip_header_len = usize::from(frame[14] & 0xf) * 4;
    let total_len = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let tcp_header_len = usize::from(frame[14 + ip_header_len + 12] >> 4) * 4;
    total_len - ip_header_len - tcp_header_len
}

#[test]
fn a_frame_of_many_segments_tells_how_many() {
    const TEST: &str = "system::a_frame_of_many_segments_tells_how_many";
    const PEER: &str = "peer";
    if lab::part().as_deref() == Some(PEER) {
        return receive_transfer();
    }
    in_namespace(|| {
        add_pair();
        let peer = again(TEST, PEER, "unshare", &["--net"]).stdout(Stdio::null()).spawn();
        let mut peer = KillGuard(peer.unwrap());
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        wait_until(|| namespace(&peer.0.id().to_string()) != namespace("self"));
        ip(&format!("link set wl1 netns {}", peer.0.id()));
        ip("addr add 192.0.2.1/24 dev wl0");
        let listeners = [Latency::Throughput, Latency::Low].map(|latency| {
            let options = LiveOptions { latency, ..LiveOptions::default() };
            let filter = Some(Filter::new("tcp dst port 5000 and greater 67").unwrap());
            // Headers only, so that the low-latency ring has slots for all frames.
            Listener::open("wl0", &options, &ReadOptions { filter, snaplen: 200, ..<_>::default() })
        });
        send_transfer();
        assert!(peer.0.wait().unwrap().success());
        for listener in listeners {
            let (seen, report) = listener.finish();
            assert_eq!(report.dropped.total(), 0, "{report:?}");
            let mut payload_len = 0;
            for frame in &seen {
                let len = tcp_payload_len(&frame.bytes);
                payload_len += len;
                // Stamps are in use, so that the segments carry 1500 - 20 - 32 bytes.
                assert_eq!(usize::from(frame.segments), len.div_ceil(1_448).max(1));
            }
            assert!(payload_len >= TRANSFER_LEN, "{payload_len}");
            let longest = seen.iter().map(|seen| seen.segments).max().unwrap();
            assert!(longest > 10, "offloads are on, and frames have at most {longest} segments");
        }
    });
}

fn refusal(interface: &str, options: &LiveOptions, read: &ReadOptions) -> String {
    live::open(interface, options, read).err().unwrap().to_string()
}

#[test]
fn what_cannot_be_opened_says_why_and_what_to_try() {
    in_namespace(|| {
        add_pair();
        let (options, read) = (LiveOptions::default(), ReadOptions::default());
        let text = refusal("wl2", &options, &read);
        let wanted = "wl2: no such interface; there are lo, wl1, wl0; did you mean wl0?";
        assert_eq!(text, wanted);
        let huge = LiveOptions { ring_size_bytes: 8 << 40, ..LiveOptions::default() };
        let text = refusal("wl0", &huge, &read);
        assert!(text.starts_with("wl0: no ring of 8796093022208 bytes: "), "{text}");
        assert!(text.contains("-B"), "{text}");
        let filter = |expression: &str| ReadOptions {
            filter: Some(Filter::new(expression).unwrap()),
            ..ReadOptions::default()
        };
        let text = refusal("wl0", &options, &filter("udp port fish"));
        assert!(text.starts_with("filter: `udp port fish` cannot be used on ETHERNET"), "{text}");
    });
}

#[test]
fn a_filter_is_compiled_on_another_interface_where_its_own_is_down() {
    in_namespace(|| {
        add_pair();
        ip("link set wl0 down");
        ip("link set wl1 down");
        let filter = Some(Filter::new("vlan 5").unwrap());
        let read = ReadOptions { filter, ..ReadOptions::default() };
        let text = refusal("wl1", &LiveOptions::default(), &read);
        assert!(text.contains("an interface that is up, and none is"), "{text}");
        ip("link set lo up");
        assert_eq!(live::open("wl1", &LiveOptions::default(), &read).unwrap().len(), 1);
    });
}

#[test]
fn without_the_capability_the_message_names_it() {
    const TEST: &str = "system::without_the_capability_the_message_names_it";
    const NOBODY: &str = "nobody";
    if lab::part().as_deref() == Some(NOBODY) {
        let refused = live::open("lo", &LiveOptions::default(), &ReadOptions::default());
        let error = refused.err().unwrap();
        assert!(matches!(error, OpenError::Live(LiveError::NotPermitted { .. })), "{error}");
        return;
    }
    in_namespace(|| {
        // Root of a new user namespace has no say in the network of the old one.
        let status = again(TEST, NOBODY, "unshare", &["--user"]).status().unwrap();
        assert!(status.success());
    });
}

#[test]
fn an_interface_names_its_driver() {
    in_namespace(|| {
        add_pair();
        // What an AF_XDP socket loses is subtracted from the drops of this driver alone.
        assert_eq!(interfaces::driver("wl0").unwrap(), "veth");
        assert!(interfaces::driver("wl9").is_err());
    });
}

#[test]
fn devices_are_listed_with_what_they_are() {
    in_namespace(|| {
        add_pair();
        ip("link set wl0 mtu 1400");
        ip("link set wl0 address 02:00:00:00:00:07");
        ip("addr add 192.0.2.1/24 dev wl0");
        ip("link set wl1 down");
        lab::await_running(false);
        let devices = devices::list().unwrap();
        let find = |name: &str| devices.iter().find(|device| device.name == name).unwrap();
        let (lo, wl0, wl1) = (find("lo"), find("wl0"), find("wl1"));
        assert!(lo.is_loopback && !lo.is_up && lo.link_address.is_empty());
        assert_eq!((lo.index, lo.link), (1, Some(LinkType::ETHERNET)));
        assert_eq!((wl0.mtu_bytes, wl0.is_up, wl0.is_running), (1_400, true, false));
        assert_eq!(wl0.addresses, ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]);
        assert_eq!((wl1.mtu_bytes, wl1.is_up), (1_500, false));
        let text = wl0.to_string();
        let wanted = "wl0: ETHERNET, up, no carrier, MTU 1400, 02:00:00:00:00:07, 192.0.2.1";
        assert!(text.ends_with(wanted), "{text}");
    });
}

#[test]
fn abandoned_sources_tell_what_they_left_unread() {
    in_namespace(|| {
        add_pair();
        let mut listener = Listener::open("wl1", &LiveOptions::default(), &ReadOptions::default());
        lab::send("wl0", &(0..1_000).map(|n| lab::numbered(n, 60)).collect::<Vec<_>>());
        Listener::await_received(slice::from_mut(&mut listener), 1_000);
        let handed_out = listener.source.next_batch().unwrap().records.len() as u64;
        let report = listener.source.report();
        assert_eq!((report.received, report.unread), (1_000, 1_000 - handed_out));
    });
}
