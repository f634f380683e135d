//! Columns to enhanced packet blocks.

use super::encode::BLOCK_HEAD_LEN;
use super::flow::{FlowState, HEADER_LEN_MAX, Layout, Steps};
use super::streams::{Column, Reader, unzigzag};
use super::{FLOW_COUNT_MAX, flag, transport_flag};

struct Decoder {
    reader: Reader,
    flows: Vec<FlowState>,
    interfaces: Vec<u32>,
    recent: Vec<[u8; HEADER_LEN_MAX]>,
    last_flow: u32,
    last_ticks: u64,
    ticks_unit: u64,
    /// Blocks may have so many bytes.
    room: usize,
}

/// Appends the blocks of `count` packets to `out`, at most `len_max` bytes of them; `None` where
/// the columns are none of an [`Encoder`](super::Encoder).
pub(super) fn decode(
    packed: &[u8],
    count: u32,
    ticks_unit: u64,
    len_max: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    // A column has no more bytes than the blocks and what says how to build them.
    let reader = Reader::unpack(packed, len_max.checked_mul(4)?)?;
    let mut decoder = Decoder {
        reader,
        flows: Vec::new(),
        interfaces: Vec::new(),
        recent: vec![[0; HEADER_LEN_MAX]; HEADER_LEN_MAX + 1],
        last_flow: 0,
        last_ticks: 0,
        ticks_unit,
        room: len_max,
    };
    for _ in 0..count {
        decoder.packet(out)?;
    }
    Some(())
}

impl Decoder {
    #[inline]
    fn packet(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let step = unzigzag(self.reader.number(Column::Time)?);
        let step = step.cast_unsigned().wrapping_mul(self.ticks_unit);
        self.last_ticks = self.last_ticks.wrapping_add(step);
        let flags = self.reader.byte(Column::Flags)?;
        let number = if flags & flag::NEW == 0 { self.known(flags)? } else { self.begin()? };
        let block = self.block(number, flags, out);
        if let Some(last) = self.flows.get_mut(self.last_flow as usize) {
            last.successor = number;
        }
        self.last_flow = number;
        block
    }

    /// Begins a flow.
    fn begin(&mut self) -> Option<u32> {
        if self.flows.len() >= FLOW_COUNT_MAX {
            self.flows.clear();
            self.interfaces.clear();
            self.last_flow = 0;
        }
        let number = self.flows.len() as u32;
        let len = usize::try_from(self.reader.number(Column::Header)?).ok()?;
        let interface = u32::try_from(self.reader.number(Column::Header)?).ok()?;
        let header = self.recent.get_mut(len)?;
        let changes = self.reader.bytes(Column::Header, len)?;
        header.iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
        let layout = Layout::of(header.get(..len)?);
        // Others would be read beyond what was written.
        if usize::from(layout.len) != len {
            return None;
        }
        self.flows.push(FlowState::new(layout, header, number));
        self.interfaces.push(interface);
        Some(number)
    }

    /// Brings a flow to its next packet.
    #[inline]
    fn known(&mut self, flags: u8) -> Option<u32> {
        let number = if flags & flag::FLOW == 0 {
            self.flows.get(self.last_flow as usize)?.successor
        } else {
            u32::try_from(self.reader.number(Column::Flow)?).ok()?
        };
        let steps = self.steps(flags)?;
        let flow = self.flows.get_mut(number as usize)?;
        let mut header = flow.predict(&steps);
        if flags & flag::PATCH != 0 {
            for _ in 0..self.reader.byte(Column::Patch)? {
                let at = usize::from(self.reader.byte(Column::Patch)?);
                let value = self.reader.byte(Column::Patch)?;
                *header.get_mut(at).filter(|_| at < usize::from(flow.layout.len))? = value;
            }
        }
        flow.learn(&header);
        Some(number)
    }

    #[inline]
    fn steps(&mut self, flags: u8) -> Option<Steps> {
        let reader = &mut self.reader;
        let mut steps = Steps::default();
        if flags & flag::TOTAL != 0 {
            steps.total = Some(u16::try_from(reader.number(Column::Length)?).ok()?);
        }
        if flags & flag::IDENTIFICATION != 0 {
            steps.identification = unzigzag(reader.number(Column::Identification)?) as u16;
        }
        let transport = reader.byte(Column::TransportFlags)?;
        let words = [
            (&mut steps.sequence, transport_flag::SEQUENCE, Column::Sequence),
            (&mut steps.acknowledgement, transport_flag::ACKNOWLEDGEMENT, Column::Acknowledgement),
        ];
        for (step, bit, column) in words {
            if transport & bit != 0 {
                *step = unzigzag(reader.number(column)?) as u32;
            }
        }
        for (step, bit) in steps.times.iter_mut().zip([transport_flag::TIME, transport_flag::ECHO])
        {
            if transport & bit != 0 {
                *step = unzigzag(reader.number(Column::TcpTime)?) as u32;
            }
        }
        if transport & transport_flag::WINDOW != 0 {
            steps.window = unzigzag(reader.number(Column::Window)?) as u16;
        }
        if transport & transport_flag::CHECKSUM != 0 {
            let (low, high) = (reader.byte(Column::Checksum)?, reader.byte(Column::Checksum)?);
            steps.checksum = Some(u16::from_le_bytes([low, high]));
        }
        Some(steps)
    }

    /// Appends the block of a packet whose headers its flow knows.
    #[inline]
    fn block(&mut self, number: u32, flags: u8, out: &mut Vec<u8>) -> Option<()> {
        let flow = self.flows.get_mut(number as usize)?;
        let interface = *self.interfaces.get(number as usize)?;
        let reader = &mut self.reader;
        let mut wire_len = flow.wire_len(&flow.header);
        if flags & flag::WIRE != 0 {
            let step = unzigzag(reader.number(Column::Length)?);
            wire_len = u32::try_from(i64::from(wire_len).checked_add(step)?).ok()?;
        }
        let header_len = usize::from(flow.layout.len);
        let payload_len = wire_len.saturating_sub(flow.layout.len.into());
        let mut kept_len = flow.kept_len(payload_len);
        if flags & flag::KEPT != 0 {
            kept_len = u32::try_from(reader.number(Column::Length)?).ok()?;
        }
        let header = flow.header;
        flow.learn_lengths(&header, wire_len, payload_len, kept_len);
        if flags & flag::OPTIONS != 0 {
            let len = usize::try_from(reader.number(Column::Option)?).ok()?;
            flow.options = (reader.place(Column::Option), len);
            reader.bytes(Column::Option, len)?;
        }
        let (options_at, options_len) = flow.options;
        let frame_len = header_len.checked_add(kept_len as usize)?;
        let padding = frame_len.wrapping_neg() & 3;
        let len = frame_len.checked_add(BLOCK_HEAD_LEN + padding + 4)?.checked_add(options_len)?;
        self.room = self.room.checked_sub(len)?;
        let total = u32::try_from(len).ok()?;
        let (high, low) = ((self.last_ticks >> 32) as u32, self.last_ticks as u32);
        let words = [6, total, interface, high, low, frame_len as u32, wire_len];
        out.extend_from_slice(words.map(u32::to_le_bytes).as_flattened());
        out.extend_from_slice(header.get(..header_len)?);
        out.extend_from_slice(reader.bytes(Column::Payload, kept_len as usize)?);
        out.extend_from_slice([0; 3].get(..padding)?);
        out.extend_from_slice(reader.again(Column::Option, options_at, options_len)?);
        out.extend_from_slice(&total.to_le_bytes());
        Some(())
    }
}
