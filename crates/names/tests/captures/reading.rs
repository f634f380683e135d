//! The hellos of a capture, found with this crate.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use names::gather::Gather;
use names::quic::{ClientKeys, Datagram, Packet};
use names::tls::{self, Hello, Ja4, Progress, Transport};
use packet::Protocol;
use packet::dissect::{DissectOptions, dissect};
use packet::file::{Decoder, Item, Stop};

/// One hello.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct HelloRow {
    pub(crate) source_port: u16,
    pub(crate) server_name: String,
    pub(crate) ja4: String,
}

#[derive(Default)]
struct Way {
    keys: ClientKeys,
    gather: Gather,
    /// Sequence number of the stream's first byte.
    start: Option<u32>,
    is_done: bool,
}

/// The captures in a folder.
pub(crate) fn captures(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

fn bytes(path: &Path) -> Vec<u8> {
    if path.extension().is_some_and(|suffix| suffix == "gz") {
        return Command::new("gzip").arg("-dc").arg(path).output().unwrap().stdout;
    }
    fs::read(path).unwrap()
}

/// The hellos at the beginning of streams and in Initial packets.
pub(crate) fn hellos(path: &Path) -> Vec<HelloRow> {
    let bytes = bytes(path);
    let Ok((mut decoder, mut place)) = Decoder::new(&bytes) else { return Vec::new() };
    let (mut ways, mut seen) = (HashMap::new(), Vec::new());
    loop {
        match decoder.next(&bytes[place..]) {
            Ok((Item::Frame(header), len)) => {
                let start = place + header.data_offset as usize;
                let frame = &bytes[start..start + header.captured_len as usize];
                let options = DissectOptions::default();
                let layers = dissect(header.link, frame, header.wire_len, options);
                take(frame, layers, &mut ways, &mut seen);
                place += len;
            }
            Ok((Item::Meta(_), len)) => place += len,
            Err(Stop::NeedMore(_) | Stop::Fault(_)) => return seen,
        }
    }
}

type Ways = HashMap<Vec<u8>, Way>;

fn take(frame: &[u8], layers: packet::Layers, ways: &mut Ways, seen: &mut Vec<HelloRow>) {
    let transport = usize::from(layers.transport_offset);
    let payload_start = usize::from(layers.payload_offset);
    if !layers.has(packet::Layers::TRANSPORT) || layers.has(packet::Layers::LATER_FRAGMENT) {
        return;
    }
    let Some(header) = frame.get(transport..payload_start) else { return };
    let payload = frame.get(payload_start..).unwrap_or_default();
    let payload = payload.get(..layers.payload_len as usize).unwrap_or(payload);
    // Addresses lie at the end of both IP headers' fixed parts.
    let network = usize::from(layers.network_offset);
    let is_v4 = frame[network] >> 4 == 4;
    let addresses = if is_v4 { network + 12..network + 20 } else { network + 8..network + 40 };
    let key = [&frame[addresses], &header[..4]].concat();
    let source_port = u16::from_be_bytes([header[0], header[1]]);
    match layers.protocol {
        Protocol::TCP => {
            let is_syn = header[13] & 2 != 0;
            if is_syn {
                ways.remove(&key);
            }
            let way = ways.entry(key).or_default();
            let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            let start = *way.start.get_or_insert(number.wrapping_add(u32::from(is_syn)));
            if !payload.is_empty() && !way.is_done {
                let offset = number.wrapping_sub(start).wrapping_add(u32::from(is_syn));
                segment(way, offset, payload, source_port, seen);
            }
        }
        Protocol::UDP => datagram(ways.entry(key).or_default(), payload, source_port, seen),
        _ => {}
    }
}

fn segment(way: &mut Way, offset: u32, payload: &[u8], source_port: u16, seen: &mut Vec<HelloRow>) {
    way.gather.insert(u64::from(offset), payload);
    let mut buffer = [0; names::gather::LEN_MAX];
    let stream = way.gather.bytes();
    if stream.is_empty() {
        return;
    }
    let read = tls::handshake(stream, &mut buffer);
    assert!(tls::begins_like_hello(stream) || read.progress != Progress::Complete);
    way.is_done = match read.progress {
        Progress::NeedMore(_) => false,
        Progress::Complete => {
            seen.extend(hello(read.bytes, Transport::Tcp, source_port));
            true
        }
        _ => true,
    };
}

fn datagram(way: &mut Way, payload: &[u8], source_port: u16, seen: &mut Vec<HelloRow>) {
    let mut scratch = [0; 2048];
    for packet in Datagram::new(payload) {
        let Ok(Packet::Initial(initial)) = packet else { continue };
        let Ok(opened) = way.keys.open(&initial, &mut scratch) else { continue };
        if opened.is_fresh() {
            way.gather.clear();
            way.is_done = false;
        }
        for piece in opened.pieces().flatten() {
            way.gather.insert(piece.offset, piece.bytes);
        }
        let bytes = way.gather.bytes();
        if !way.is_done && !bytes.is_empty() {
            let found = hello(bytes, Transport::Quic, source_port);
            way.is_done = found.is_some();
            seen.extend(found);
        }
    }
}

fn hello(bytes: &[u8], transport: Transport, source_port: u16) -> Option<HelloRow> {
    let hello = Hello::new(bytes).ok()?;
    let ja4 = Ja4::of(&hello, transport)?.to_string();
    let name = hello.server_name().unwrap_or_default();
    Some(HelloRow { source_port, server_name: String::from_utf8_lossy(name).into_owned(), ja4 })
}
