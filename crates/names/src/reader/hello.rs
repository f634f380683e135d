//! What a ClientHello says, kept for its flow.

use super::Reader;
use crate::found::{ClientHelloInfo, FlowInfo};
use crate::text;
use crate::tls::{self, Hello, Ja4, Progress, Transport};

impl Reader {
    /// Reads a ClientHello in records at the start of `bytes`; whether nothing more is needed.
    pub(super) fn read_hello(&mut self, seen: &mut FlowInfo, bytes: &[u8]) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(bytes.len().max(scratch.len()), 0);
        let handshake = tls::handshake(bytes, &mut scratch);
        let is_all = match handshake.progress {
            Progress::NeedMore(_) => false,
            Progress::Complete | Progress::NotTls => true,
            Progress::Wrong(fault) => {
                self.counts.fault(fault.name());
                true
            }
        };
        if !handshake.bytes.is_empty() {
            self.take_hello(seen, handshake.bytes, Transport::Tcp);
        }
        self.scratch = scratch;
        is_all
    }

    /// Keeps what a handshake message says, also where it is cut short: its end may never come.
    pub(super) fn take_hello(&mut self, seen: &mut FlowInfo, message: &[u8], transport: Transport) {
        let hello = match Hello::new(message) {
            Ok(hello) => hello,
            Err(fault) => return self.counts.fault(fault.name()),
        };
        if !hello.is_cut() {
            if let Some(fault) = hello.fault() {
                self.counts.fault(fault.name());
            }
            match transport {
                Transport::Tcp => self.counts.hellos += 1,
                Transport::Quic => self.counts.quic_hellos += 1,
            }
        }
        let server_name = hello.server_name().map(|name| text::shown(name).into_boxed_str());
        let mut alpn = String::new();
        for protocol in hello.alpn() {
            if alpn.len() + protocol.len() > text::NAME_LEN_MAX {
                break;
            }
            if !alpn.is_empty() {
                alpn.push(',');
            }
            text::push(&mut alpn, protocol);
        }
        let found_hello = ClientHelloInfo {
            alpn: (!alpn.is_empty()).then(|| alpn.into_boxed_str()),
            version: (!hello.is_cut()).then(|| hello.version()),
            ja4: Ja4::of(&hello, transport),
            ech_offered: hello.ech_offered(),
        };
        self.find(seen, |found| {
            found.server_name = server_name.or(found.server_name.take());
            found.hello = Some(found_hello);
        });
    }
}
