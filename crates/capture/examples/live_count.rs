//! Counts what arrives on an interface, for measuring: packets and bytes, what was dropped,
//! and the processor time of this program for each packet.
//!
//! `live_count INTERFACE SECONDS [low] [sockets=N] [ring=BYTES] [snaplen=BYTES] [filter=TEXT]`

// A program of its own, whose output is for a person.
#![allow(clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use capture::live::{self, Latency, LiveOptions, LiveSource};
use capture::{Filter, ReadOptions, Report};
use packet::Source as _;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let interface = words.next().ok_or("give an interface")?;
    let seconds: f64 = words.next().ok_or("give a duration in seconds")?.parse()?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut options = LiveOptions::default();
    let mut read = ReadOptions { stop: Arc::clone(&stop), ..ReadOptions::default() };
    for word in words {
        match word.split_once('=') {
            None if word == "low" => options.latency = Latency::Low,
            Some(("sockets", count)) => options.socket_count = count.parse()?,
            Some(("ring", size)) => options.ring_size_bytes = size.parse()?,
            Some(("snaplen", len)) => read.snaplen = len.parse()?,
            Some(("filter", text)) => read.filter = Some(Filter::new(text)?),
            _ => return Err(format!("{word}: not known; see the first lines of this file").into()),
        }
    }
    let sources = live::open(&interface, &options, &read)?;
    let (mut whole, mut handed_out, mut payload_bytes) = (Report::default(), 0, 0);
    let mut cpu_ns = 0;
    thread::scope(|scope| {
        let readers: Vec<_> =
            sources.into_iter().map(|source| scope.spawn(move || read_all(source))).collect();
        thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            let Ok((frames, bytes, ns, report)) = reader.join() else { continue };
            handed_out += frames;
            payload_bytes += bytes;
            cpu_ns += ns;
            whole.merge(&report);
        }
    });
    println!(
        "{handed_out} packets, {payload_bytes} bytes of payload; {} received, {} dropped, \
         {} unread, {} freezes; {:.3} s of processor, {:.0} ns a packet",
        whole.received,
        whole.dropped.total(),
        whole.unread,
        whole.freezes,
        cpu_ns as f64 / 1e9,
        cpu_ns as f64 / (handed_out as f64).max(1.0)
    );
    if let Some(damage) = whole.damage {
        println!("{damage}");
    }
    Ok(())
}

fn read_all(mut source: LiveSource) -> (u64, u64, u64, Report) {
    let (mut frames, mut bytes) = (0, 0);
    while let Some(batch) = source.next_batch() {
        frames += batch.records.len() as u64;
        bytes +=
            batch.records.iter().map(|record| u64::from(record.layers.payload_len)).sum::<u64>();
    }
    (frames, bytes, cpu_ns().unwrap_or(0), source.report().clone())
}

/// Processor time of this thread so far, in nanoseconds, user and system.
fn cpu_ns() -> Option<u64> {
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}
