//! Frames of Ethernet out of the engine's bytes, each behind its length in a byte, with stamps that
//! follow from the lengths.

use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, LinkType, Record, Source, Timestamp};

use crate::input::Input;

const FRAMES_MAX: usize = 64;
/// From one frame to the next: some wait, one is an hour late.
const STEPS_NS: [i64; 4] = [1_000, 700_000_000, 11_000_000_000, 3_600_000_000_000];

/// Frames in memory, read once.
pub struct Frames {
    bytes: Vec<u8>,
    records: Vec<Record>,
    is_read: bool,
}

impl Frames {
    /// At most 64 of them; what is left of the bytes is not looked at.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let mut input = Input::new(bytes);
        let mut made = Self { bytes: Vec::new(), records: Vec::new(), is_read: false };
        let mut now = 1_700_000_000_000_000_000i64;
        while !input.is_empty() && made.records.len() < FRAMES_MAX {
            let len = usize::from(input.u8());
            now += STEPS_NS[len % STEPS_NS.len()];
            let frame = input.bytes(len);
            let captured_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
            made.records.push(Record {
                timestamp: Timestamp::from_ns(now),
                offset: u32::try_from(made.bytes.len()).unwrap_or(u32::MAX),
                captured_len,
                wire_len: captured_len,
                layers: dissect(LinkType::ETHERNET, frame, captured_len, DissectOptions::default()),
                ..Record::default()
            });
            made.bytes.extend_from_slice(frame);
        }
        made
    }

    /// All of them, in batches of at most so many.
    pub fn batches(&self, len_max: usize) -> impl Iterator<Item = Batch<'_>> {
        let bytes = &self.bytes;
        self.records.chunks(len_max).map(move |records| Batch { bytes, records, tick: None })
    }
}

impl Source for Frames {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        let is_new = !std::mem::replace(&mut self.is_read, true);
        is_new.then_some(Batch { bytes: &self.bytes, records: &self.records, tick: None })
    }
}
