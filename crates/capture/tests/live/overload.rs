//! Readers that are too slow: whatever way frames come, each is handed out, counted as dropped, or
//! as unread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use capture::live::{self, LiveOptions, LiveSeveral, LiveSource};
use capture::{ReadOptions, Report};
use packet::Source;

use crate::frames::LATENCIES;
use crate::lab::{add_pair, add_pairs, datagram, in_namespace, send};

/// What a slow stage takes for a batch: frames come ten times as fast.
const SLOW: Duration = Duration::from_millis(10);

const SENT: u16 = 8_000;

/// So many times frames are sent during a stall, 10 ms apart at least.
const PATIENCE: usize = 4_000;

fn options(latency: live::Latency, socket_count: u16) -> LiveOptions {
    LiveOptions { latency, socket_count, ring_size_bytes: 256 << 10, ..LiveOptions::default() }
}

/// Flows, so that sockets of a group share them.
fn sent() -> Vec<Vec<u8>> {
    (0..SENT).map(|number| datagram((1, 1_024 + number % 512), (2, 53), &[7; 300])).collect()
}

/// Frames that were handed out until the source ends.
fn slowly(source: &mut impl Source) -> u64 {
    let mut count = 0;
    while let Some(batch) = source.next_batch() {
        count += batch.records.len() as u64;
        thread::sleep(SLOW);
    }
    count
}

fn opened(interface: &str, options: &LiveOptions, stop: &Arc<AtomicBool>) -> Vec<LiveSource> {
    let read = ReadOptions { snaplen: 400, stop: Arc::clone(stop), ..ReadOptions::default() };
    live::open(interface, options, &read).unwrap()
}

/// Sends on interfaces while others read, and stops them.
fn sending<T>(interfaces: &[&str], stop: &AtomicBool, read: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        scope.spawn(|| {
            interfaces.iter().for_each(|interface| send(interface, &sent()));
            // What is on its way is let in before.
            thread::sleep(Duration::from_millis(500));
            stop.store(true, Ordering::Relaxed);
        });
        read()
    })
}

fn check(what: &str, handed_out: u64, reports: &[Report], received_min: u64) {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let (received, dropped) = (sum(|one| one.received), sum(|one| one.dropped.ring_full));
    let unread = sum(|one| one.unread);
    assert_eq!(received, handed_out + dropped + unread, "{what}: {reports:?}");
    assert!(received >= received_min, "{what}: {received} of {received_min}");
    assert!(dropped > 0 && handed_out > 0, "{what}: it was to be too slow: {reports:?}");
}

#[test]
fn a_slow_reader_of_one_interface_accounts_for_every_frame() {
    in_namespace(|| {
        add_pair();
        for latency in LATENCIES {
            for interface in ["wl1", live::ANY] {
                let stop = Arc::default();
                let mut sources = opened(interface, &options(latency, 1), &stop);
                let count = sending(&["wl0"], &stop, || slowly(&mut sources[0]));
                let report = sources[0].report().clone();
                // On any the frames are seen at either end.
                let ends = if interface == live::ANY { 2 } else { 1 };
                check(
                    &format!("{interface}, {latency:?}"),
                    count,
                    &[report],
                    ends * u64::from(SENT),
                );
            }
        }
    });
}

#[test]
fn slow_threads_that_share_an_interface_account_for_every_frame() {
    in_namespace(|| {
        add_pair();
        for latency in LATENCIES {
            let stop = Arc::default();
            let sources = opened("wl1", &options(latency, 2), &stop);
            let read = |mut source: LiveSource| (slowly(&mut source), source.report().clone());
            let read = || {
                thread::scope(|scope| {
                    let threads: Vec<_> =
                        sources.into_iter().map(|one| scope.spawn(move || read(one))).collect();
                    threads.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
                })
            };
            let (counts, reports): (Vec<u64>, Vec<Report>) =
                sending(&["wl0"], &stop, read).into_iter().unzip();
            check(&format!("2 sockets, {latency:?}"), counts.iter().sum(), &reports, SENT.into());
        }
    });
}

#[test]
fn a_slow_reader_of_several_interfaces_accounts_for_every_frame() {
    in_namespace(|| {
        add_pairs();
        for latency in LATENCIES {
            let stop = Arc::default();
            let mut sources = opened("wl1", &options(latency, 1), &stop);
            sources.extend(opened("wl3", &options(latency, 1), &stop));
            let mut several = LiveSeveral::new(sources);
            let count = sending(&["wl0", "wl2"], &stop, || slowly(&mut several));
            let (sources, unused) = several.into_sources();
            let reports: Vec<_> = sources.into_iter().map(|mut one| one.report().clone()).collect();
            check(
                &format!("several, {latency:?}"),
                count + unused.count,
                &reports,
                2 * u64::from(SENT),
            );
        }
    });
}

#[test]
fn a_stalled_reader_makes_the_kernel_drop_what_was_asked_for_and_reads_on() {
    in_namespace(|| {
        add_pair();
        for latency in LATENCIES {
            let stop: Arc<AtomicBool> = Arc::default();
            let options = LiveOptions { stall_until_dropped: Some(500), ..options(latency, 1) };
            let mut sources = opened("wl1", &options, &stop);
            let mut is_over = false;
            let mut count = 0;
            thread::scope(|scope| {
                scope.spawn(|| {
                    let frames = sent();
                    for _ in 0..PATIENCE {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        send("wl0", &frames[..200]);
                        thread::sleep(Duration::from_millis(10));
                    }
                    stop.store(true, Ordering::Relaxed);
                });
                while let Some(batch) = sources[0].next_batch() {
                    count += batch.records.len() as u64;
                    // What comes after the stall is read: the ring is empty again and again.
                    if !is_over && sources[0].report().dropped.ring_full >= 500 {
                        is_over = true;
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
            let report = sources[0].report().clone();
            assert!(is_over, "{latency:?}: {report:?}");
            check(&format!("stalled, {latency:?}"), count, &[report], 500);
        }
    });
}
