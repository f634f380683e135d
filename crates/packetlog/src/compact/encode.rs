//! Enhanced packet blocks to columns.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;

use zstd::bulk::Compressor;

use super::flow::{FlowState, HEADER_LEN_MAX, Layout, Steps};
use super::streams::{Column, Columns, zigzag};
use super::{FLOW_COUNT_MAX, flag, transport_flag};

/// Bytes of an enhanced packet block before its frame, and the length behind everything.
pub(super) const BLOCK_HEAD_LEN: usize = 28;
/// Above so many differing bytes a packet is stored as the first of a flow.
const PATCH_COUNT_MAX: usize = 40;

/// The fields of one enhanced packet block as the recorder writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketBlock<'a> {
    pub(super) interface: u32,
    pub(super) ticks: u64,
    pub(super) wire_len: u32,
    pub(super) frame: &'a [u8],
    pub(super) options: &'a [u8],
    /// Bytes of the block.
    pub(super) len: usize,
}

impl<'a> PacketBlock<'a> {
    /// The block that `bytes` begin with; `None` where it is none that [`super::decode`] would
    /// write in the same way.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (head, _) = bytes.split_at_checked(BLOCK_HEAD_LEN)?;
        let (words, _) = head.as_chunks::<4>();
        let [kind, total, interface, high, low, kept_len, wire_len] =
            <[[u8; 4]; 7]>::try_from(words).ok()?.map(u32::from_le_bytes);
        let len = total as usize;
        let kept_len = kept_len as usize;
        let padding = kept_len.wrapping_neg() & 3;
        let options_at = BLOCK_HEAD_LEN.checked_add(kept_len)?.checked_add(padding)?;
        if kind != 6 || !len.is_multiple_of(4) || options_at + 4 > len {
            return None;
        }
        let block = bytes.get(..len)?;
        let end = block.last_chunk::<4>()?;
        let filling = block.get(options_at - padding..options_at)?;
        if u32::from_le_bytes(*end) != total || filling.iter().any(|byte| *byte != 0) {
            return None;
        }
        Some(Self {
            interface,
            ticks: u64::from(high) << 32 | u64::from(low),
            wire_len,
            frame: block.get(BLOCK_HEAD_LEN..BLOCK_HEAD_LEN + kept_len)?,
            options: block.get(options_at..len - 4)?,
            len,
        })
    }
}

/// A hash that is one already.
#[derive(Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Turns packets into columns, with memory that is used again.
pub(crate) struct Encoder {
    columns: Columns,
    zstd: Compressor<'static>,
    flows: Vec<FlowState>,
    numbers: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    /// By length, the last headers that began a flow.
    recent: Vec<[u8; HEADER_LEN_MAX]>,
    pub(super) packed: Vec<u8>,
    last_flow: u32,
    last_ticks: u64,
    ticks_unit: u64,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("flows", &self.flows.len()).finish_non_exhaustive()
    }
}

impl Encoder {
    /// One that compresses its columns with zstd at `level`.
    pub(crate) fn new(level: i32) -> io::Result<Self> {
        Ok(Self {
            columns: Columns::default(),
            zstd: Compressor::new(level)?,
            flows: Vec::new(),
            numbers: HashMap::default(),
            recent: vec![[0; HEADER_LEN_MAX]; HEADER_LEN_MAX + 1],
            packed: Vec::new(),
            last_flow: 0,
            last_ticks: 0,
            ticks_unit: 1,
        })
    }

    /// Encodes the packet blocks that `bytes` begin with; returns how many there are and where
    /// they end. The columns are then in `packed`.
    pub(super) fn run(&mut self, bytes: &[u8]) -> io::Result<(u32, usize, u64)> {
        self.columns.clear();
        self.packed.clear();
        self.flows.clear();
        self.numbers.clear();
        self.recent.fill([0; HEADER_LEN_MAX]);
        (self.last_flow, self.last_ticks) = (0, 0);
        let blocks = || {
            let mut at = 0;
            std::iter::from_fn(move || {
                let block = PacketBlock::read(bytes.get(at..)?)?;
                at += block.len;
                Some(block)
            })
        };
        let is_in_us = blocks().all(|block| {
            block.ticks.is_multiple_of(1_000) && block.ticks <= i64::MAX.cast_unsigned()
        });
        self.ticks_unit = if is_in_us { 1_000 } else { 1 };
        let (mut count, mut end) = (0_u32, 0);
        for block in blocks() {
            self.put(&block);
            count += 1;
            end += block.len;
        }
        self.columns.pack(&mut self.zstd, &mut self.packed)?;
        Ok((count, end, self.ticks_unit))
    }

    #[inline]
    fn put(&mut self, block: &PacketBlock<'_>) {
        let step = block.ticks.wrapping_sub(self.last_ticks).cast_signed();
        self.last_ticks = block.ticks;
        self.columns.put(Column::Time, zigzag(step / self.ticks_unit.cast_signed()));
        let layout = Layout::of(block.frame);
        let len = usize::from(layout.len);
        let (first, payload) = block.frame.split_at(len.min(block.frame.len()));
        let mut header = [0; HEADER_LEN_MAX];
        if let Some(place) = header.get_mut(..first.len()) {
            place.copy_from_slice(first);
        }
        let key = layout.key(&header, block.interface);
        let known = self.numbers.get(&key).copied();
        let is_known = |number: &u32| {
            self.flows.get(*number as usize).is_some_and(|flow| flow.layout == layout)
        };
        match known.filter(is_known) {
            Some(number) => self.put_known(number, key, &header, payload, block),
            None => self.put_new(layout, key, &header, payload, block),
        }
    }

    /// A packet of a flow that the block has not had, or of one whose headers have changed much.
    fn put_new(
        &mut self,
        layout: Layout,
        key: u64,
        header: &[u8; HEADER_LEN_MAX],
        payload: &[u8],
        block: &PacketBlock<'_>,
    ) {
        if self.flows.len() >= FLOW_COUNT_MAX {
            self.flows.clear();
            self.numbers.clear();
            self.last_flow = 0;
        }
        let number = self.flows.len() as u32;
        self.numbers.insert(key, number);
        self.flows.push(FlowState::new(layout, header, number));
        let len = usize::from(layout.len);
        self.columns.put(Column::Header, len as u64);
        self.columns.put(Column::Header, block.interface.into());
        if let Some(recent) = self.recent.get_mut(len) {
            let changes = header.iter().zip(recent.iter()).take(len);
            self.columns.of(Column::Header).extend(changes.map(|(one, other)| one ^ other));
            *recent = *header;
        }
        let flags = flag::NEW | self.lengths(number, header, payload, block);
        self.columns.of(Column::Flags).push(flags);
        self.follow(number);
    }

    #[inline]
    fn put_known(
        &mut self,
        number: u32,
        key: u64,
        header: &[u8; HEADER_LEN_MAX],
        payload: &[u8],
        block: &PacketBlock<'_>,
    ) {
        let Some(flow) = self.flows.get(number as usize) else { return };
        let layout = flow.layout;
        let steps = flow.steps(header);
        let predicted = flow.predict(&steps);
        let mut flags = 0;
        if predicted != *header {
            let differ = |at: &usize| predicted.get(*at) != header.get(*at);
            let count = (0..usize::from(layout.len)).filter(differ).count();
            if count > PATCH_COUNT_MAX {
                return self.put_new(layout, key, header, payload, block);
            }
            flags |= flag::PATCH;
            let patch = self.columns.of(Column::Patch);
            patch.push(count as u8);
            for at in (0..usize::from(layout.len)).filter(differ) {
                patch.extend([at as u8, header.get(at).copied().unwrap_or(0)]);
            }
        }
        let successor = self.flows.get(self.last_flow as usize).map(|last| last.successor);
        if successor != Some(number) {
            flags |= flag::FLOW;
            self.columns.put(Column::Flow, number.into());
        }
        flags |= self.steps(&steps);
        if let Some(flow) = self.flows.get_mut(number as usize) {
            flow.learn(header);
        }
        flags |= self.lengths(number, header, payload, block);
        self.columns.of(Column::Flags).push(flags);
        self.follow(number);
    }

    /// Writes the steps that are none that were predicted, and says which.
    #[inline]
    fn steps(&mut self, steps: &Steps) -> u8 {
        let columns = &mut self.columns;
        let mut flags = 0;
        if let Some(total) = steps.total {
            flags |= flag::TOTAL;
            columns.put(Column::Length, total.into());
        }
        if steps.identification != 0 {
            flags |= flag::IDENTIFICATION;
            let step = i64::from(steps.identification.cast_signed());
            columns.put(Column::Identification, zigzag(step));
        }
        let mut transport = 0;
        let words = [
            (steps.sequence, transport_flag::SEQUENCE, Column::Sequence),
            (steps.acknowledgement, transport_flag::ACKNOWLEDGEMENT, Column::Acknowledgement),
            (steps.times[0], transport_flag::TIME, Column::TcpTime),
            (steps.times[1], transport_flag::ECHO, Column::TcpTime),
        ];
        for (step, bit, column) in words {
            if step != 0 {
                transport |= bit;
                columns.put(column, zigzag(step.cast_signed().into()));
            }
        }
        if steps.window != 0 {
            transport |= transport_flag::WINDOW;
            columns.put(Column::Window, zigzag(steps.window.cast_signed().into()));
        }
        if let Some(checksum) = steps.checksum {
            transport |= transport_flag::CHECKSUM;
            columns.of(Column::Checksum).extend(checksum.to_le_bytes());
        }
        columns.of(Column::TransportFlags).push(transport);
        flags
    }

    /// Writes lengths, payload and options of a packet of a flow that knows its headers.
    #[inline]
    fn lengths(
        &mut self,
        number: u32,
        header: &[u8; HEADER_LEN_MAX],
        payload: &[u8],
        block: &PacketBlock<'_>,
    ) -> u8 {
        let Some(flow) = self.flows.get_mut(number as usize) else { return 0 };
        let columns = &mut self.columns;
        let mut flags = 0;
        let predicted = flow.wire_len(header);
        if predicted != block.wire_len {
            flags |= flag::WIRE;
            let step = i64::from(block.wire_len) - i64::from(predicted);
            columns.put(Column::Length, zigzag(step));
        }
        let payload_len = block.wire_len.saturating_sub(flow.layout.len.into());
        let kept_len = payload.len() as u32;
        if flow.kept_len(payload_len) != kept_len {
            flags |= flag::KEPT;
            columns.put(Column::Length, kept_len.into());
        }
        columns.of(Column::Payload).extend_from_slice(payload);
        flow.learn_lengths(header, block.wire_len, payload_len, kept_len);
        let options = columns.of(Column::Option);
        let (start, len) = flow.options;
        if options.get(start..start + len) != Some(block.options) {
            flags |= flag::OPTIONS;
            columns.put(Column::Option, block.options.len() as u64);
            let options = columns.of(Column::Option);
            flow.options = (options.len(), block.options.len());
            options.extend_from_slice(block.options);
        }
        flags
    }

    /// Remembers that this flow's packet came after the one before.
    #[inline]
    fn follow(&mut self, number: u32) {
        if let Some(last) = self.flows.get_mut(self.last_flow as usize) {
            last.successor = number;
        }
        self.last_flow = number;
    }
}
