//! Sends UDP datagrams on an interface at a steady rate, for measuring. Only for interfaces
//! of your own: what it sends goes out as it is.
//!
//! `live_send INTERFACE FRAME_BYTES PACKETS_PER_SECOND SECONDS [FLOWS]`; a rate of 0 is the
//! highest.

// A program of its own, whose output is for a person.
#![allow(clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::thread;
use std::time::Duration;

use capture::devices;
use capture::sys::clock::realtime_now;
use capture::sys::packet_sender::PacketSender;

/// Frames handed to the kernel at once.
const BURST_LEN: usize = 64;

/// Flows of the traffic unless told otherwise.
const FLOW_COUNT: u16 = 1_024;

/// Neighbours in the traffic are so many flows apart, a prime, so that tables are not met in
/// order.
const FLOW_STRIDE: u32 = 7_919;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let ([interface, len, rate, seconds] | [interface, len, rate, seconds, _]) = words.as_slice()
    else {
        return Err("give INTERFACE FRAME_BYTES PACKETS_PER_SECOND SECONDS [FLOWS]".into());
    };
    let flow_count = words.get(4).map_or(Ok(FLOW_COUNT), |word| word.parse())?;
    let (len, rate, seconds): (usize, f64, f64) = (len.parse()?, rate.parse()?, seconds.parse()?);
    let devices = devices::list()?;
    let device = devices.iter().find(|device| device.name == *interface);
    let sender = PacketSender::open(device.ok_or("no such interface")?.index)?;
    sender.set_queue_bypass()?;
    let flow_count = u32::from(flow_count.max(BURST_LEN as u16 + 1));
    let flow = |number: u32| (number * FLOW_STRIDE % flow_count) as u16;
    let frames = (0..flow_count).map(|number| datagram(flow(number), len.max(42)));
    let frames: Vec<Vec<u8>> = frames.collect();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let start = realtime_now();
    let (mut sent, mut refused, mut elapsed) = (0_u64, 0_u64, 0.0);
    while elapsed < seconds {
        // Whoever is behind the schedule catches up, at most one burst at once.
        let due = if rate > 0.0 { (elapsed * rate) as u64 } else { u64::MAX };
        if sent >= due {
            thread::sleep(Duration::from_micros(50));
        } else {
            let at = sent as usize % (frames.len() - BURST_LEN);
            let count = (due - sent).min(BURST_LEN as u64) as usize;
            match sender.send(&frames[at..at + count]) {
                Ok(count) => sent += count as u64,
                Err(_) => refused += 1,
            }
        }
        elapsed = realtime_now().since(start).as_seconds_f64();
    }
    println!("{sent} packets sent, {:.0} a second; {refused} refusals", sent as f64 / elapsed);
    Ok(())
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
