//! Names of flows: whatever segments and datagrams come, the reader keeps to its budgets, says of a
//! name what is safe to print, and has given everything back when its flows have ended.
//!
//! Input: packets, each with a byte of what it is (side, SYN, protocol, port), two bytes for the
//! place of its bytes in the stream, one for how many there are, and these.
#![no_main]

use std::net::Ipv4Addr;

use engine::Stage as _;
use engine::flow::{EndedFlow, FlowFrames, FlowOptions, FlowSink, FlowState};
use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use names::reader::{Limits, NameState, Reader};
use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, HashSeed, LinkType, Record, Timestamp};

const PORTS: [u16; 4] = [443, 53, 5353, 25];
const FRAMES_MAX: usize = 64;

struct Ended(usize);

impl FlowSink<NameState> for Ended {
    fn take(&mut self, flows: &[EndedFlow<NameState>]) {
        self.0 += flows.len();
        for (_, FlowState(named)) in flows {
            let Some(found) = &named.seen.found else { continue };
            for name in [found.name(), found.server_name.as_deref()].into_iter().flatten() {
                assert!(name.chars().all(|c| !c.is_control()), "{name:?}");
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (bytes, records) = frames(&mut Input::new(bytes));
    let limits = Limits { handshake_bytes: 8192, name_bytes: 600, answers: 4, ..Limits::default() };
    let options = FlowOptions { flow_count_max: 64, ..FlowOptions::default() };
    let mut flows = FlowFrames::new(options, HashSeed::new(7), Reader::new(limits), Ended(0));
    for records in records.chunks(5) {
        flows.on_batch(&Batch { bytes: &bytes, records, tick: None });
    }
    let done = flows.finish();
    let counts = done.keep.counts();
    assert!(counts.faults().all(|(name, count)| !name.is_empty() && count > 0));
});

fn frames(input: &mut Input<'_>) -> (Vec<u8>, Vec<Record>) {
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    while !input.is_empty() && records.len() < FRAMES_MAX {
        let kind = input.u8();
        let (offset, len) = (input.u16(), usize::from(input.u8()));
        let payload = input.bytes(len);
        let start = bytes.len();
        frame(&mut bytes, kind, u32::from(offset), payload);
        let len = (bytes.len() - start) as u32;
        let time = 1_700_000_000_000_000_000 + records.len() as i64 * 1_000_000;
        records.push(Record {
            timestamp: Timestamp::from_ns(time),
            offset: start as u32,
            captured_len: len,
            wire_len: len,
            layers: dissect(LinkType::ETHERNET, &bytes[start..], len, DissectOptions::default()),
            ..Record::default()
        });
    }
    (bytes, records)
}

fn frame(bytes: &mut Vec<u8>, kind: u8, offset: u32, payload: &[u8]) {
    let (is_answer, is_syn, is_udp) = (kind & 1 != 0, kind & 2 != 0, kind & 4 != 0);
    let server = (Ipv4Addr::new(192, 0, 2, 1 + (kind >> 5)), PORTS[usize::from(kind >> 3 & 3)]);
    let client = (Ipv4Addr::new(192, 0, 2, 100), 1024);
    let (source, destination) = if is_answer { (server, client) } else { (client, server) };
    let header_len = if is_udp { 8 } else { 20 };
    let total = (20 + header_len + payload.len()) as u16;
    bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, if is_udp { 17 } else { 6 }, 0, 0]);
    bytes.extend(source.0.octets());
    bytes.extend(destination.0.octets());
    bytes.extend(source.1.to_be_bytes());
    bytes.extend(destination.1.to_be_bytes());
    if is_udp {
        bytes.extend((8 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0]);
    } else {
        bytes.extend(offset.to_be_bytes());
        bytes.extend([0, 0, 0, 1, 0x50, if is_syn { 2 } else { 16 }, 255, 255, 0, 0, 0, 0]);
    }
    bytes.extend_from_slice(payload);
}
