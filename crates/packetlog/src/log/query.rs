//! From a question to packets: the index first, then the chunks.

use std::net::IpAddr;
use std::ops::ControlFlow;

use packet::community_id::{DIGEST_LEN, community_digest};
use packet::file::{Decoder, Interface};
use packet::{FlowKey, Frame, Record, Timestamp};

use super::Log;
use super::decode::{StoredPacket, packets};
use super::error::{LogError, LogFault};
use super::file::LogFile;
use crate::index::{
    IndexRecord, Membership as InList, Note, contains, flow_hash, flow_hash_of_digest, host_hash,
};

/// A flow that is asked for; both of its directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowQuery {
    /// By addresses, ports and protocol.
    Key(FlowKey),
    /// By the hash of its Community ID under seed 0.
    CommunityId([u8; DIGEST_LEN]),
}

/// What is asked for: all of what is given must hold; of several hosts or classes, one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// Source or destination of the innermost IP header.
    pub hosts: Vec<IpAddr>,
    /// The flow.
    pub flow: Option<FlowQuery>,
    /// Names of classes.
    pub classes: Vec<String>,
    /// The earliest stamp.
    pub from: Option<Timestamp>,
    /// The first stamp that is too late.
    pub to: Option<Timestamp>,
}

/// A packet that was found.
#[derive(Clone, Copy, Debug)]
pub struct PacketMatch<'a> {
    /// What is known of it: its headers are found, `offset` is 0, and `interface` counts the
    /// interfaces of the answer in order of appearance.
    pub record: &'a Record,
    /// Its bytes that were kept.
    pub bytes: &'a [u8],
    /// What was found of it when it came.
    pub note: Note,
    /// The name of its class.
    pub class: &'a str,
    /// Its interface.
    pub interface: &'a Interface,
}

/// The chunks that may hold what is asked for.
#[derive(Debug, Default)]
pub struct Plan {
    /// By file, indices of chunks.
    chunks: Vec<Vec<u32>>,
    /// Chunks of the log.
    pub chunk_count: u64,
    /// Those that time and class leave.
    pub timely_count: u64,
    /// Those that are to be read.
    pub wanted_count: u64,
    /// Their bytes.
    pub wanted_bytes: u64,
    /// Those of them whose hosts and flows no index gives.
    pub unindexed_count: u64,
    /// Hashes that are not those that were written: their chunks are read instead.
    pub faults: Vec<LogFault>,
}

/// What a query came upon.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueryReport {
    /// Chunks of the log.
    pub chunk_count: u64,
    /// Chunks that were read.
    pub chunks_read: u64,
    /// Packets in them.
    pub packets_read: u64,
    /// Packets that were found.
    pub packets_found: u64,
    /// Chunks that are not whole: what they held is not in the answer.
    pub faults: Vec<LogFault>,
}

/// The question with its hashes.
struct HashedQuery<'a> {
    query: &'a Query,
    hosts: Vec<u32>,
    flow: Option<u32>,
}

impl<'a> HashedQuery<'a> {
    fn new(query: &'a Query) -> Self {
        let hosts = query.hosts.iter().map(|&host| host_hash(host)).collect();
        let flow = query.flow.as_ref().map(|flow| match flow {
            FlowQuery::Key(key) => flow_hash(key),
            FlowQuery::CommunityId(digest) => flow_hash_of_digest(digest),
        });
        Self { query, hosts, flow }
    }

    /// Numbers of the classes that are asked for, in a file.
    fn classes(&self, file: &LogFile) -> Vec<u16> {
        let named = (0..file.classes.len() as u16).chain([u16::MAX]);
        named.filter(|&class| self.is_class(file.class_name(class))).collect()
    }

    fn is_class(&self, name: &str) -> bool {
        self.query.classes.is_empty() || self.query.classes.iter().any(|class| class == name)
    }

    fn is_timely(&self, record: &IndexRecord) -> bool {
        let trailer = &record.trailer;
        // A chunk that could not be read to its end may hold what its trailer does not count.
        (trailer.packet_count > 0 || record.keys.are_incomplete)
            && self.query.from.is_none_or(|from| trailer.last_ns >= from.as_ns())
            && self.query.to.is_none_or(|to| trailer.first_ns < to.as_ns())
    }

    /// Whether the chunk may hold the hosts and the flow; `None` where nothing shows it.
    fn is_listed(&self, file: &LogFile, record: &IndexRecord, bytes: &mut Vec<u8>) -> Option<bool> {
        if !self.hosts.is_empty() {
            if !file.read_keys(record, true, bytes) {
                return None;
            }
            if !self.hosts.iter().any(|&hash| contains(bytes, hash) == InList::Yes) {
                return Some(false);
            }
        }
        if let Some(hash) = self.flow {
            if !file.read_keys(record, false, bytes) {
                return None;
            }
            return Some(contains(bytes, hash) == InList::Yes);
        }
        Some(true)
    }

    /// Whether a packet is wanted; finds its headers where that matters.
    fn wants(&self, packet: &mut StoredPacket, chunk: &[u8], file: &LogFile) -> bool {
        let (query, stamp) = (self.query, packet.record.timestamp);
        if query.from.is_some_and(|from| stamp < from) || query.to.is_some_and(|to| stamp >= to) {
            return false;
        }
        if !query.classes.is_empty() && !self.is_class(file.class_name(packet.note.class)) {
            return false;
        }
        packet.dissect(chunk);
        let frame = Frame::new(chunk, &packet.record);
        if !query.hosts.is_empty() {
            let Some((source, destination)) = frame.ip_addresses() else { return false };
            if !query.hosts.contains(&source) && !query.hosts.contains(&destination) {
                return false;
            }
        }
        let Some(flow) = &query.flow else { return true };
        let Some((key, _)) = FlowKey::from_frame(&frame) else { return false };
        match flow {
            FlowQuery::Key(wanted) => key == *wanted,
            FlowQuery::CommunityId(wanted) => community_digest(&key, 0) == *wanted,
        }
    }
}

/// Reads one series of files chunk by chunk.
struct Cursor<'a> {
    /// What is still to be read, the next last.
    rest: Vec<(&'a LogFile, &'a IndexRecord)>,
    file: Option<&'a LogFile>,
    chunk: Vec<u8>,
    /// Packets wanted of the chunk, the next last.
    packets: Vec<StoredPacket>,
    /// The number in the answer of each of the chunk's interfaces.
    interfaces: Vec<u16>,
}

impl Cursor<'_> {
    /// Sees to it that a packet is there, unless there is none left.
    fn fill(
        &mut self,
        asked: &HashedQuery<'_>,
        known: &mut Vec<Interface>,
        report: &mut QueryReport,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), LogError> {
        while self.packets.is_empty() && !is_over() {
            let Some((file, record)) = self.rest.pop() else { return Ok(()) };
            self.file = Some(file);
            let read = file.read(record, &mut self.chunk);
            let read = match read {
                Err(error) => return Err(LogError::new(&file.path, error)),
                Ok(read) => read,
            };
            report.chunks_read += 1;
            let decoded = read.and_then(|(trailer, end)| {
                let (chunk, wanted) = (&self.chunk, &mut self.packets);
                let (decoder, at) = packets(chunk, end, |mut packet| {
                    report.packets_read += 1;
                    if asked.wants(&mut packet, chunk, file) {
                        wanted.push(packet);
                    }
                    true
                })?;
                let is_whole =
                    at == end && decoded_count(&decoder) == u64::from(trailer.packet_count);
                if is_whole { Ok(decoder) } else { Err(crate::index::ChunkFault::Nonsense) }
            });
            match decoded {
                Ok(decoder) => self.number_interfaces(&decoder, known),
                Err(fault) => report.faults.push(file.fault(record, fault)),
            }
            self.packets.reverse();
        }
        Ok(())
    }

    fn number_interfaces(&mut self, decoder: &Decoder, known: &mut Vec<Interface>) {
        self.interfaces.clear();
        for interface in decoder.interfaces() {
            let plain = Interface { statistics: None, ..interface.clone() };
            let place = known.iter().position(|known| *known == plain).unwrap_or_else(|| {
                known.push(plain);
                known.len() - 1
            });
            self.interfaces.push(u16::try_from(place).unwrap_or(u16::MAX));
        }
    }
}

/// Packets of a chunk that was read.
pub(super) fn decoded_count(decoder: &Decoder) -> u64 {
    decoder.counts().enhanced_packet_blocks
}

/// Files that are searched in parallel.
const FIND_THREAD_COUNT: usize = 4;

/// The chunks of one file that may hold what is asked for.
fn find_in(file: &LogFile, asked: &HashedQuery<'_>, bytes: &mut Vec<u8>) -> Plan {
    let mut plan = Plan::default();
    let (mut wanted, mut spoilt) = (Vec::new(), 0);
    let classes = asked.classes(file);
    for (index, record) in (0_u32..).zip(&file.chunks) {
        plan.chunk_count += 1;
        let mut rows = record.trailer.rows.iter();
        let has_class = asked.query.classes.is_empty()
            || rows.any(|row| row.stored_packets > 0 && classes.contains(&row.class));
        if !has_class || !asked.is_timely(record) {
            continue;
        }
        plan.timely_count += 1;
        let is_listed = asked.is_listed(file, record, bytes);
        if is_listed == Some(false) {
            continue;
        }
        plan.unindexed_count += u64::from(is_listed.is_none());
        spoilt += u64::from(is_listed.is_none() && !record.keys.are_incomplete && file.has_keys());
        plan.wanted_count += 1;
        plan.wanted_bytes += u64::from(record.len);
        wanted.push(index);
    }
    if spoilt > 0 {
        plan.faults.push(file.keys_fault(spoilt));
    }
    plan.chunks.push(wanted);
    plan
}

impl Log {
    /// Determines from the index which chunks may hold what is asked for. Files are searched in
    /// parallel: from a disk, several at a time come sooner.
    #[must_use]
    pub fn find(&self, query: &Query) -> Plan {
        let asked = HashedQuery::new(query);
        let count = self.files.len().clamp(1, FIND_THREAD_COUNT);
        let look = |first: usize| -> Vec<(usize, Plan)> {
            let mut bytes = Vec::new();
            let files = self.files.iter().enumerate().skip(first).step_by(count);
            files.map(|(index, file)| (index, find_in(file, &asked, &mut bytes))).collect()
        };
        let mut found = std::thread::scope(|scope| {
            let look = &look;
            let threads: Vec<_> =
                (1..count).map(|first| scope.spawn(move || look(first))).collect();
            let mut found = look(0);
            for (first, thread) in (1..).zip(threads) {
                // A thread that ended early is made up for.
                found.extend(thread.join().unwrap_or_else(|_| look(first)));
            }
            found
        });
        found.sort_by_key(|(index, _)| *index);
        let mut plan = Plan::default();
        for (_, part) in found {
            plan.chunks.extend(part.chunks);
            plan.faults.extend(part.faults);
            plan.chunk_count += part.chunk_count;
            plan.timely_count += part.timely_count;
            plan.wanted_count += part.wanted_count;
            plan.wanted_bytes += part.wanted_bytes;
            plan.unindexed_count += part.unindexed_count;
        }
        plan
    }

    /// Lends the packets that are asked for to `take`, in the order of their stamps over all
    /// series of files, until it breaks off. Within a series they come as they were kept: where a
    /// clock stepped, stamps do so too.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn query(
        &self,
        query: &Query,
        take: &mut dyn FnMut(&PacketMatch<'_>) -> ControlFlow<()>,
    ) -> Result<QueryReport, LogError> {
        self.read(query, &self.find(query), take)
    }

    /// The second half of [`Log::query`]: reads the chunks of a plan made for the same question.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(
        &self,
        query: &Query,
        plan: &Plan,
        take: &mut dyn FnMut(&PacketMatch<'_>) -> ControlFlow<()>,
    ) -> Result<QueryReport, LogError> {
        self.read_until(query, plan, &|| false, take)
    }

    /// The same until `is_over`, which is asked before each chunk: a question that no packet
    /// answers ends as well.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read_until(
        &self,
        query: &Query,
        plan: &Plan,
        is_over: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&PacketMatch<'_>) -> ControlFlow<()>,
    ) -> Result<QueryReport, LogError> {
        let asked = HashedQuery::new(query);
        let chunk_count = plan.chunk_count;
        let mut report = QueryReport { chunk_count, ..QueryReport::default() };
        let mut known = Vec::new();
        let mut cursors = self.cursors(plan);
        loop {
            for cursor in &mut cursors {
                cursor.fill(&asked, &mut known, &mut report, is_over)?;
            }
            // The lowest priority first where stamps are the same.
            let next = cursors
                .iter_mut()
                .filter(|cursor| !cursor.packets.is_empty())
                .min_by_key(|cursor| cursor.packets.last().map(|packet| packet.record.timestamp));
            let Some(cursor) = next else { return Ok(report) };
            let (Some(mut packet), Some(file)) = (cursor.packets.pop(), cursor.file) else {
                return Ok(report);
            };
            let lent = packet.record;
            let bytes = Frame::new(&cursor.chunk, &lent).bytes;
            let number = cursor.interfaces.get(usize::from(packet.record.interface));
            let Some(&number) = number else { continue };
            let Some(interface) = known.get(usize::from(number)) else { continue };
            (packet.record.offset, packet.record.interface) = (0, number);
            let class = file.class_name(packet.note.class);
            let found =
                PacketMatch { record: &packet.record, bytes, note: packet.note, class, interface };
            report.packets_found += 1;
            if take(&found).is_break() {
                return Ok(report);
            }
        }
    }

    /// One for each priority.
    fn cursors(&self, plan: &Plan) -> Vec<Cursor<'_>> {
        let mut cursors: Vec<(u8, Cursor<'_>)> = Vec::new();
        for (file, wanted) in self.files.iter().zip(&plan.chunks) {
            let records =
                wanted.iter().filter_map(|&index| Some((file, file.chunks.get(index as usize)?)));
            match cursors.last_mut() {
                Some((priority, cursor)) if *priority == file.name.priority => {
                    cursor.rest.extend(records);
                }
                _ => {
                    let cursor = Cursor {
                        rest: records.collect(),
                        file: None,
                        chunk: Vec::new(),
                        packets: Vec::new(),
                        interfaces: Vec::new(),
                    };
                    cursors.push((file.name.priority, cursor));
                }
            }
        }
        for (_, cursor) in &mut cursors {
            cursor.rest.reverse();
        }
        cursors.into_iter().map(|(_, cursor)| cursor).collect()
    }
}
