//! Reasons as bytes: records with a checksum each, of which readers pass over those that they do
//! not know. docs/specs/packet-log.md has the layout.

use std::net::IpAddr;

use packet::{Protocol, Span, Timestamp};

use super::{ColumnNames, EVIDENCE_MAX, Ends, Evidence, Reason, ReasonScope, steps};
use crate::account::one_line;
use crate::judged::Basis;

/// Checksum, length, kind.
const HEAD_LEN: usize = 8;
/// Longest name of a column.
const NAME_LEN_MAX: usize = 255;
const MAGIC: &[u8; 8] = b"WLWHY001";

const START: u8 = 0;
const NAME: u8 = 1;
const REASON: u8 = 2;

const OF_IPV6: u8 = 1;
const HAS_ENDS: u8 = 2;
const HAS_PROTOCOL: u8 = 4;
const BY_PACKET: u8 = 8;

/// Appends a record.
fn put(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_LEN]);
    body(out);
    out.resize(start + (out.len() - start).next_multiple_of(4), 0);
    let len = (out.len() - start) as u16;
    let Some(record) = out.get_mut(start..) else { return };
    record[4..6].copy_from_slice(&len.to_le_bytes());
    record[6] = kind;
    let sum = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

/// The first record of a file.
pub(crate) fn start(out: &mut Vec<u8>, names: &ColumnNames) {
    let window_ns = names.window.map_or(0, Span::as_ns);
    put(out, START, |out| {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&window_ns.to_le_bytes());
    });
}

/// The names of the columns of a reason that the file does not have yet.
pub(crate) fn put_names(
    out: &mut Vec<u8>,
    reason: &Reason,
    names: &ColumnNames,
    written: &mut Vec<u16>,
) {
    for evidence in reason.evidence.iter().flatten() {
        let column = evidence.column;
        let Some(name) = names.columns.get(usize::from(column)) else { continue };
        if !written.contains(&column) {
            written.push(column);
            let name = name.as_bytes();
            let name = name.get(..NAME_LEN_MAX).unwrap_or(name);
            put(out, NAME, |out| {
                out.extend_from_slice(&column.to_le_bytes());
                out.extend_from_slice(&(name.len() as u16).to_le_bytes());
                out.extend_from_slice(name);
            });
        }
    }
}

/// A reason.
pub(crate) fn put_reason(out: &mut Vec<u8>, reason: &Reason) {
    let ends = reason.ends;
    let ipv6 = ends.is_some_and(|ends| ends.source.is_ipv6() || ends.destination.is_ipv6());
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(ipv6, OF_IPV6)
        | flag(ends.is_some(), HAS_ENDS)
        | flag(ends.is_some_and(|ends| ends.protocol.is_some()), HAS_PROTOCOL)
        | flag(reason.basis == Basis::Packet, BY_PACKET);
    let protocol = ends.and_then(|ends| ends.protocol).map_or(0, |protocol| protocol.0);
    let (source_port, destination_port) =
        ends.map_or((0, 0), |ends| (ends.source_port, ends.destination_port));
    put(out, REASON, |out| {
        out.extend_from_slice(&reason.time.as_ns().to_le_bytes());
        let count = reason.evidence.iter().flatten().count() as u8;
        out.extend_from_slice(&[reason.scope.0, flags, protocol, count]);
        for number in [reason.class, steps(reason.confidence), source_port, destination_port] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for address in ends.iter().flat_map(|ends| [ends.source, ends.destination]) {
            match address {
                IpAddr::V4(address) if !ipv6 => out.extend_from_slice(&address.octets()),
                IpAddr::V4(address) => {
                    out.extend_from_slice(&address.to_ipv6_mapped().octets());
                }
                IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
            }
        }
        for evidence in reason.evidence.iter().flatten() {
            out.extend_from_slice(&evidence.column.to_le_bytes());
            out.extend_from_slice(&steps(evidence.contribution).to_le_bytes());
            out.extend_from_slice(&evidence.value.to_le_bytes());
            out.extend_from_slice(&evidence.threshold.to_le_bytes());
        }
    });
}

/// Names of columns as a file has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// What sums of flows and hosts cover.
    pub(crate) window: Option<Span>,
    by_number: Vec<(u16, String)>,
}

impl Names {
    /// The name of a column.
    pub(crate) fn of(&self, column: u16) -> &str {
        let known = self.by_number.iter().rev().find(|(number, _)| *number == column);
        known.map_or("unknown", |(_, name)| name)
    }
}

/// Reads the reasons of a file, one after the other.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    pub(crate) names: Names,
    /// Places that are no record and are followed by one.
    pub(crate) damaged: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, names: Names::default(), damaged: 0 }
    }

    /// The next record that is whole.
    fn record(&mut self) -> Option<(u8, &'a [u8])> {
        let mut is_damaged = false;
        loop {
            if let Some((kind, body, rest)) = whole(self.rest) {
                self.rest = rest;
                self.damaged += u64::from(is_damaged);
                return Some((kind, body));
            }
            // A tail that is cut off is what a recorder that was killed leaves.
            is_damaged = true;
            self.rest = self.rest.get(4..)?;
        }
    }

    fn take_in(&mut self, kind: u8, body: &[u8]) -> Option<Reason> {
        match kind {
            START => {
                let window_ns = body.strip_prefix(MAGIC)?.first_chunk().copied()?;
                let window_ns = i64::from_le_bytes(window_ns);
                self.names.window = (window_ns > 0).then(|| Span::from_ns(window_ns));
                None
            }
            NAME => {
                let (&[a, b, c, d], rest) = body.split_first_chunk()?;
                let name = rest.get(..usize::from(u16::from_le_bytes([c, d])))?;
                let name = one_line(std::str::from_utf8(name).ok()?);
                self.names.by_number.push((u16::from_le_bytes([a, b]), name));
                None
            }
            REASON => reason(body),
            _ => None,
        }
    }
}

impl Iterator for Reader<'_> {
    type Item = Reason;

    fn next(&mut self) -> Option<Reason> {
        loop {
            let (kind, body) = self.record()?;
            if let Some(reason) = self.take_in(kind, body) {
                return Some(reason);
            }
        }
    }
}

/// The record that bytes begin with: kind, body, and what follows.
fn whole(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let &[a, b, c, d, low, high, kind, _] = bytes.first_chunk()?;
    let len = usize::from(u16::from_le_bytes([low, high]));
    let (record, rest) = bytes.split_at_checked(len).filter(|_| len >= HEAD_LEN)?;
    let is_whole = crc32fast::hash(record.get(4..)?) == u32::from_le_bytes([a, b, c, d]);
    Some((kind, record.get(HEAD_LEN..)?, rest)).filter(|_| is_whole)
}

fn reason(body: &[u8]) -> Option<Reason> {
    let mut rest = body;
    let time = Timestamp::from_ns(i64::from_le_bytes(take(&mut rest)?));
    let [scope, flags, protocol, count] = take(&mut rest)?;
    let mut number = || take(&mut rest).map(u16::from_le_bytes);
    let (class, confidence) = (number()?, f32::from(number()?) / 65_535.0);
    let (source_port, destination_port) = (number()?, number()?);
    let mut address = || -> Option<IpAddr> {
        Some(match flags & OF_IPV6 {
            0 => IpAddr::from(take::<4>(&mut rest)?),
            _ => IpAddr::from(take::<16>(&mut rest)?),
        })
    };
    let ends = match flags & HAS_ENDS {
        0 => None,
        _ => Some(Ends {
            source: address()?,
            destination: address()?,
            source_port,
            destination_port,
            protocol: (flags & HAS_PROTOCOL != 0).then_some(Protocol(protocol)),
        }),
    };
    let mut evidence = [None; EVIDENCE_MAX];
    for place in evidence.iter_mut().take(count.into()) {
        *place = Some(Evidence {
            column: u16::from_le_bytes(take(&mut rest)?),
            contribution: f32::from(u16::from_le_bytes(take(&mut rest)?)) / 65_535.0,
            value: f32::from_le_bytes(take(&mut rest)?),
            threshold: f32::from_le_bytes(take(&mut rest)?),
        });
    }
    let basis = if flags & BY_PACKET == 0 { Basis::Flow } else { Basis::Packet };
    let scope = ReasonScope(scope);
    Some(Reason { time, scope, ends, class, confidence, basis, evidence })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (value, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*value)
}
