//! Interfaces that are added to others while these are read, and let go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use capture::ReadOptions;
use capture::live::{self, DetachedSocket, LiveOptions, LiveSeveral};
use packet::{Source, Timestamp};

use crate::frames::LATENCIES;
use crate::lab::{
    add_pair, add_pairs, await_running, in_namespace, ip, numbered, send, wait_until,
};

/// The number that the second interface is given.
const ADDED: u16 = 7;

/// Sends frames with these numbers, and waits until they are where they go.
fn pass(interface: &str, numbers: std::ops::Range<u32>) {
    send(interface, &numbers.map(|number| numbered(number, 64)).collect::<Vec<_>>());
    thread::sleep(Duration::from_millis(100));
}

/// What is handed out until `count` frames have come: interface, number and time of each.
fn taken(several: &mut LiveSeveral, count: usize) -> Vec<(u16, u32, Timestamp)> {
    let mut seen = Vec::new();
    let mut ticks = 0;
    while seen.len() < count && ticks < 20 {
        let batch = several.next_batch().unwrap();
        ticks += usize::from(batch.records.is_empty());
        seen.extend(batch.frames().map(|frame| {
            let number = u32::from_be_bytes(frame.bytes[14..18].try_into().unwrap());
            assert_eq!(frame.record.input, frame.record.interface);
            (frame.record.interface, number, frame.record.timestamp)
        }));
    }
    seen
}

#[test]
fn interfaces_come_and_go_and_no_frame_is_lost_or_out_of_order() {
    in_namespace(|| {
        add_pairs();
        for latency in LATENCIES {
            let stop: Arc<AtomicBool> = Arc::default();
            let options =
                LiveOptions { latency, ring_size_bytes: 1 << 20, ..LiveOptions::default() };
            let read =
                ReadOptions { snaplen: 400, stop: Arc::clone(&stop), ..ReadOptions::default() };
            // Slots of that length are many, also where each frame has its own.
            let mut several = LiveSeveral::new(live::open("wl1", &options, &read).unwrap());
            let open = DetachedSocket::open("wl3", &options, &read).unwrap();
            // Neither open nor mapped it lets anything in.
            pass("wl2", 900..905);
            let source = open.into_source("wl3", &options, &read).unwrap();
            pass("wl2", 905..910);
            pass("wl0", 0..10);
            several.add(source, ADDED);
            pass("wl2", 10..20);
            pass("wl0", 20..30);
            let mut seen = taken(&mut several, 30);
            // What the ring holds by then is handed out.
            pass("wl0", 30..40);
            several.let_go("wl1");
            pass("wl0", 910..915);
            pass("wl2", 40..50);
            seen.extend(taken(&mut several, 20));
            wait_until(|| several.next_batch().is_some() && several.released().count > 0);
            let released = several.released();
            let received = (released.count, released.report.received);
            assert_eq!(received, (1, 30), "{latency:?}");
            // It comes back, with its number.
            let source = DetachedSocket::open("wl1", &options, &read).unwrap();
            several.add(source.into_source("wl1", &options, &read).unwrap(), 0);
            pass("wl0", 50..60);
            seen.extend(taken(&mut several, 10));
            let interface = |number: u32| match number {
                10..20 | 40..50 => ADDED,
                _ => 0,
            };
            let wanted: Vec<_> = (0..60).map(|number| (interface(number), number)).collect();
            let found: Vec<_> = seen.iter().map(|&(one, number, _)| (one, number)).collect();
            assert_eq!(found, wanted, "{latency:?}");
            assert!(seen.is_sorted_by_key(|(_, _, time)| *time), "{latency:?}");
            stop.store(true, Ordering::Relaxed);
            while several.next_batch().is_some() {}
            let (sources, unused) = several.into_sources();
            let received = sources.into_iter().map(|mut one| one.report().received).sum::<u64>();
            assert_eq!((received, unused.count), (30, 0), "{latency:?}");
        }
    });
}

#[test]
fn one_that_is_removed_again_and_again_leaves_no_ring_and_no_count_behind() {
    in_namespace(|| {
        add_pairs();
        let stop: Arc<AtomicBool> = Arc::default();
        let options = LiveOptions { ring_size_bytes: 1 << 20, ..LiveOptions::default() };
        let read = ReadOptions { stop: Arc::clone(&stop), ..ReadOptions::default() };
        let mut several = LiveSeveral::new(live::open("wl1", &options, &read).unwrap());
        let rings = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().filter(|line| line.contains("socket:")).count()
        };
        let before = rings();
        for round in 0..3 {
            let source = DetachedSocket::open("wl3", &options, &read).unwrap();
            several.add(source.into_source("wl3", &options, &read).unwrap(), ADDED);
            pass("wl2", 0..10);
            assert_eq!(taken(&mut several, 10).len(), 10);
            ip("link del wl2");
            wait_until(|| several.next_batch().is_some() && several.newly_ended().len() == 1);
            wait_until(|| several.next_batch().is_some() && several.released().count > round);
            assert!(several.newly_ended().is_empty());
            let released = several.released();
            let before_end: Vec<_> = released.damages.iter().map(|one| one.frames_before).collect();
            let round = usize::try_from(round).unwrap();
            assert_eq!(before_end, vec![10; round + 1]);
            assert_eq!((released.report.received, rings()), (10 * (round as u64 + 1), before));
            ip("link add wl2 type veth peer name wl3");
            ip("link set wl2 up");
            ip("link set wl3 up");
            await_running(true);
        }
        stop.store(true, Ordering::Relaxed);
        while several.next_batch().is_some() {}
        assert_eq!(several.into_sources().0.len(), 1);
    });
}

#[test]
fn the_last_interface_that_is_let_go_ends_the_source() {
    in_namespace(|| {
        add_pair();
        let (options, read) = (LiveOptions::default(), ReadOptions::default());
        let mut several = LiveSeveral::new(live::open("wl1", &options, &read).unwrap());
        pass("wl0", 0..10);
        several.let_go("wl1");
        several.let_go("wl9");
        let mut count = 0;
        while let Some(batch) = several.next_batch() {
            count += batch.records.len();
        }
        assert_eq!(count, 10);
    });
}
