//! Sends UDP datagrams on an interface at a steady rate, for measuring. Only for interfaces
//! of your own: what it sends goes out as it is.
//!
//! `live_send INTERFACE FRAME_BYTES PACKETS_PER_SECOND SECONDS [FLOWS]`, or the frames of a capture
//! with `live_send INTERFACE --replay FILE PACKETS_PER_SECOND SECONDS`; a rate of 0 is the highest.

// A program of its own, whose output is for a person.
#![allow(clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::thread;
use std::time::Duration;

use capture::sys::clock::realtime_now;
use capture::sys::packet_sender::PacketSender;
use capture::{Input, ReadOptions, devices, open};
use packet::Source as _;

const USAGE: &str = "give INTERFACE FRAME_BYTES PACKETS_PER_SECOND SECONDS [FLOWS], \
                     or INTERFACE --replay FILE PACKETS_PER_SECOND SECONDS";

/// The longest frame that an interface of the largest MTU takes.
const FRAME_LEN_MAX: usize = 65_535;

/// Frames handed to the kernel per call.
const BURST_LEN: usize = 64;

/// Flows of the traffic by default.
const FLOW_COUNT: u16 = 1_024;

/// Neighbours in the traffic are so many flows apart, a prime, so that tables are not met in
/// order.
const FLOW_STRIDE: u32 = 7_919;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (interface, mut frames, rate, seconds): (_, Box<dyn Frames>, _, _) = match *words {
        [interface, "--replay", file, rate, seconds] => {
            (interface, Box::new(Replay::read(file)?), rate, seconds)
        }
        [interface, len, rate, seconds] => {
            (interface, Box::new(Datagrams::new(len.parse()?, FLOW_COUNT)), rate, seconds)
        }
        [interface, len, rate, seconds, flows] => {
            (interface, Box::new(Datagrams::new(len.parse()?, flows.parse()?)), rate, seconds)
        }
        _ => return Err(USAGE.into()),
    };
    let (rate, seconds): (f64, f64) = (rate.parse()?, seconds.parse()?);
    let devices = devices::list()?;
    let device = devices.iter().find(|device| device.name == interface);
    let sender = PacketSender::open(device.ok_or("no such interface")?.index)?;
    sender.set_queue_bypass()?;
    let start = realtime_now();
    let (mut sent, mut bytes, mut refused, mut elapsed) = (0_u64, 0_u64, 0_u64, 0.0);
    while elapsed < seconds {
        // Whoever is behind the schedule catches up, at most one burst at once.
        let due = if rate > 0.0 { (elapsed * rate) as u64 } else { u64::MAX };
        if sent >= due {
            thread::sleep(Duration::from_micros(50));
        } else {
            let burst = frames.burst(sent, (due - sent).min(BURST_LEN as u64) as usize);
            match sender.send(&burst) {
                Ok(count) => {
                    sent += count as u64;
                    bytes += burst.iter().take(count).map(|frame| frame.len() as u64).sum::<u64>();
                }
                Err(_) => refused += 1,
            }
        }
        elapsed = realtime_now().since(start).as_seconds_f64();
    }
    let rate = sent as f64 / elapsed;
    println!("{sent} packets sent, {rate:.0} a second; {refused} refusals; {bytes} bytes");
    Ok(())
}

/// What is sent.
trait Frames {
    /// Frames from this one on, at most so many, at least one.
    fn burst(&mut self, first: u64, count: usize) -> Vec<&[u8]>;
}

/// Datagrams of one length, of many flows in turn.
struct Datagrams(Vec<Vec<u8>>);

impl Datagrams {
    fn new(len: usize, flow_count: u16) -> Self {
        let flow_count = u32::from(flow_count.max(BURST_LEN as u16 + 1));
        let flow = |number: u32| (number * FLOW_STRIDE % flow_count) as u16;
        Self((0..flow_count).map(|number| datagram(flow(number), len.max(42))).collect())
    }
}

impl Frames for Datagrams {
    fn burst(&mut self, first: u64, count: usize) -> Vec<&[u8]> {
        let at = first as usize % (self.0.len() - BURST_LEN);
        self.0[at..at + count].iter().map(Vec::as_slice).collect()
    }
}

/// The frames of a capture, again and again. What it cut off is sent as zeros.
struct Replay {
    bytes: Vec<u8>,
    /// Where each begins, how long it is there, and on the wire.
    places: Vec<(usize, usize, usize)>,
    burst: Vec<u8>,
}

impl Replay {
    fn read(file: &str) -> Result<Self, Box<dyn Error>> {
        let mut source = open(&Input::File(file.into()), &ReadOptions::default())?;
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        while let Some(batch) = source.next_batch() {
            for frame in batch.frames() {
                let wire_len = (frame.record.wire_len as usize).min(FRAME_LEN_MAX);
                let kept = &frame.bytes[..frame.bytes.len().min(wire_len)];
                places.push((bytes.len(), kept.len(), wire_len));
                bytes.extend_from_slice(kept);
            }
        }
        if places.is_empty() {
            return Err(format!("{file}: no packets").into());
        }
        Ok(Self { bytes, places, burst: Vec::new() })
    }
}

impl Frames for Replay {
    fn burst(&mut self, first: u64, count: usize) -> Vec<&[u8]> {
        let places = &self.places[first as usize % self.places.len()..];
        let places = &places[..count.min(places.len())];
        self.burst.clear();
        for &(start, kept_len, wire_len) in places {
            self.burst.extend_from_slice(&self.bytes[start..start + kept_len]);
            self.burst.resize(self.burst.len() + wire_len - kept_len, 0);
        }
        let mut rest = self.burst.as_slice();
        let mut next = |&(_, _, wire_len): &(usize, usize, usize)| {
            let (frame, others) = rest.split_at(wire_len);
            rest = others;
            frame
        };
        places.iter().map(&mut next).collect()
    }
}

/// A UDP datagram of a flow, in a frame of `len` bytes.
fn datagram(flow: u16, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0]);
    let total_len = (len - 14) as u16;
    frame[14..18].copy_from_slice(&[0x45, 0, (total_len >> 8) as u8, total_len as u8]);
    frame[20..24].copy_from_slice(&[0x40, 0, 64, 17]);
    let [high, low] = flow.to_be_bytes();
    frame[26..34].copy_from_slice(&[198, 18, high, low, 198, 19, 0, 1]);
    let udp_len = (len - 34) as u16;
    for (at, word) in [(34, flow.wrapping_add(1_024)), (36, 53), (38, udp_len)] {
        frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
    frame
}
