//! Network namespaces of a test's own: the test runs again in a child that has one.
//!
//! The namespace has no name, so it ends with the last process inside, however that ends,
//! and its interfaces with it. Nothing is left behind, not even after a kill.

use std::any::type_name;
use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use capture::live::{self, LiveOptions, LiveSource};
use capture::sys::packet_sender::PacketSender;
use capture::{ReadOptions, Report, devices};
use packet::{Direction, LinkType, Source, Timestamp};

/// Assigns a child its role.
const PART: &str = "WIRELENS_LIVE_TEST_PART";

/// Parts of a child.
const BODY: &str = "body";

/// Runs `body`, a closure of the test itself, in a network namespace of its own, as root of it.
///
/// Without root a user namespace is tried; where that is not allowed the test is skipped
/// aloud. Root must be able to.
pub(crate) fn in_namespace<F: FnOnce()>(body: F) {
    // `live::frames::name_of_the_test::{{closure}}`
    let closure = type_name::<F>();
    let test = closure.split_once("::").unwrap().1.strip_suffix("::{{closure}}").unwrap();
    if part().as_deref() == Some(BODY) {
        let quiet = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
        // Nothing may be sent that the test does not send.
        fs::write(quiet, "1").unwrap();
        return body();
    }
    if part().is_some() {
        return;
    }
    let is_root = run("id", &["-u"]).trim() == "0";
    let mut unshare = vec!["--net"];
    if !is_root {
        unshare.extend(["--user", "--map-root-user"]);
        let probe = Command::new("unshare").args(&unshare).arg("true").output();
        if !probe.is_ok_and(|probe| probe.status.success()) {
            eprintln!("SKIPPED: {test}: needs root, or user namespaces, for a network of its own");
            return;
        }
    }
    let status = again(test, BODY, "unshare", &unshare).status().unwrap();
    assert!(status.success(), "{test}: failed in its namespace, see above: {status}");
}

/// The part this process plays, if it is such a child.
pub(crate) fn part() -> Option<String> {
    env::var(PART).ok()
}

/// This test again, in a child behind `program`.
pub(crate) fn again(test: &str, part: &str, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).arg(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PART, part);
    command
}

/// A child that is killed at the latest when this is dropped.
pub(crate) struct KillGuard(pub(crate) Child);

impl Drop for KillGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program prints; it must succeed.
pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{program} {}", args.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `ip` with the words of `command`.
pub(crate) fn ip(command: &str) {
    run("ip", &command.split(' ').collect::<Vec<_>>());
}

/// A pair of interfaces, `wl0` and `wl1`: what enters one leaves the other. Both are up.
pub(crate) fn add_pair() {
    ip("link add wl0 type veth peer name wl1");
    ip("link set wl0 up");
    ip("link set wl1 up");
    await_running(true);
}

/// The same, and another one, `wl2` and `wl3`.
pub(crate) fn add_pairs() {
    add_pair();
    ip("link add wl2 type veth peer name wl3");
    ip("link set wl2 up");
    ip("link set wl3 up");
    await_running(true);
}

/// Waits until the kernel has noticed that the pair is connected, or no longer is: it does so
/// a little later, and throws away what is sent before.
pub(crate) fn await_running(wanted: bool) {
    wait_until(|| {
        let devices = devices::list().unwrap();
        let mut pair = devices.iter().filter(|device| device.name.starts_with("wl"));
        pair.all(|device| device.is_running == wanted)
    });
}

/// Sends on an interface.
pub(crate) fn sender(interface: &str) -> PacketSender {
    let devices = devices::list().unwrap();
    let device = devices.iter().find(|device| device.name == interface).unwrap();
    PacketSender::open(device.index).unwrap()
}

/// Sends all frames on an interface.
pub(crate) fn send(interface: &str, frames: &[Vec<u8>]) {
    let sender = sender(interface);
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut rest = frames.as_slice();
    while !rest.is_empty() {
        rest = &rest[sender.send(&rest[..rest.len().min(64)]).unwrap()..];
    }
}

/// A frame as it was handed out.
#[derive(Clone, Debug)]
pub(crate) struct CapturedFrame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) timestamp: Timestamp,
    pub(crate) wire_len: u32,
    pub(crate) link: LinkType,
    pub(crate) interface: u16,
    pub(crate) segments: u16,
    pub(crate) direction: Direction,
    pub(crate) vlan: Option<u16>,
}

/// One open source, and the flag that stops it.
pub(crate) struct Listener {
    pub(crate) source: LiveSource,
    stop: Arc<AtomicBool>,
}

/// Ticks without a frame after which a test gives up waiting.
const TICKS_WAITED: u32 = 20;

impl Listener {
    /// Listens on an interface with one socket.
    pub(crate) fn open(interface: &str, options: &LiveOptions, read: &ReadOptions) -> Self {
        let [listener] = Self::open_all(interface, options, read).try_into().ok().unwrap();
        listener
    }

    /// Listens with as many as there are in `options`.
    pub(crate) fn open_all(
        interface: &str,
        options: &LiveOptions,
        read: &ReadOptions,
    ) -> Vec<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let read = ReadOptions { stop: Arc::clone(&stop), ..read.clone() };
        let sources = live::open(interface, options, &read).unwrap();
        sources.into_iter().map(|source| Self { source, stop: Arc::clone(&stop) }).collect()
    }

    /// Reads until `count` frames have come, or none comes any more.
    pub(crate) fn read(&mut self, count: usize) -> Vec<CapturedFrame> {
        let mut seen = Vec::new();
        let mut ticks = 0;
        while seen.len() < count && ticks < TICKS_WAITED {
            let before = seen.len();
            if !self.read_batch(&mut seen) {
                break;
            }
            ticks = if seen.len() == before { ticks + 1 } else { 0 };
        }
        seen
    }

    /// Waits until the kernel has received `count` frames that are not read yet or were
    /// dropped: a busy host delivers what was sent a little later.
    pub(crate) fn await_received(listeners: &mut [Self], count: u64) {
        let mut received = || -> u64 {
            listeners.iter_mut().map(|listener| listener.source.report().received).sum()
        };
        wait_until(|| received() >= count);
        assert_eq!(received(), count);
    }

    /// Stops, and reads what is left.
    pub(crate) fn finish(mut self) -> (Vec<CapturedFrame>, Report) {
        self.stop.store(true, Ordering::Relaxed);
        let mut seen = Vec::new();
        while self.read_batch(&mut seen) {}
        (seen, self.source.report().clone())
    }

    fn read_batch(&mut self, seen: &mut Vec<CapturedFrame>) -> bool {
        let Some(batch) = self.source.next_batch() else { return false };
        seen.extend(batch.frames().map(|frame| CapturedFrame {
            bytes: frame.bytes.to_vec(),
            timestamp: frame.record.timestamp,
            wire_len: frame.record.wire_len,
            link: frame.record.link,
            interface: frame.record.interface,
            segments: frame.record.segments,
            direction: frame.record.direction,
            vlan: frame.record.layers.vlan(),
        }));
        true
    }
}

/// Waits for something that happens by itself.
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let mut looks = 0;
    while !holds() {
        assert!(looks < 2_000, "waited for ten seconds in vain");
        looks += 1;
        thread::sleep(Duration::from_millis(5));
    }
}

/// An Ethernet frame of `len` bytes, of an EtherType that no host answers, with its number.
pub(crate) fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; len.max(18)];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// A UDP datagram without checksums between two hosts of 192.0.2.0/24.
pub(crate) fn datagram(from: (u8, u16), to: (u8, u16), payload: &[u8]) -> Vec<u8> {
    let udp_len = u16::try_from(8 + payload.len()).unwrap();
    let mut frame = vec![2, 0, 0, 0, 0, to.0, 2, 0, 0, 0, 0, from.0, 0x08, 0x00, 0x45, 0];
    frame.extend((20 + udp_len).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, from.0, 192, 0, 2, to.0]);
    for word in [from.1, to.1, udp_len, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// `frame` with a VLAN tag in front of its EtherType.
pub(crate) fn tagged(frame: &[u8], tpid: u16, vlan: u16) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    [addresses, &tpid.to_be_bytes(), &vlan.to_be_bytes(), rest].concat()
}
