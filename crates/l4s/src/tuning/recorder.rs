//! What the predictions of the last packets read, and what happened to these packets.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::encoder::{Change, NONE_BEFORE};

use crate::history::{QUERY_LEN, Query, SentPacket};

/// Packets of a block at most.
const BLOCK_LEN_MAX: usize = 512;
/// Blocks among which the packets are divided, at least.
const BLOCK_COUNT: usize = 16;
/// Flows of which the newest latency before the recorded packets is kept.
const FLOWS_MAX: usize = 4_096;

/// A target is in these ms, and within so many of them.
const UNIT_MS: f64 = 100.0;
const TARGET_MAX: f64 = 20.0;
/// A sharp change is at least so many ms, and this share of the latency before.
const SHARP_MS: f64 = 20.0;
const SHARP_SHARE: f64 = 0.2;

/// What is recorded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecorderSettings {
    /// How long a packet is kept after it left, in ns.
    pub span_ns: u64,
    /// Packets that are kept at most; of more, the oldest are dropped and counted.
    pub packets_max: usize,
    /// Weight of an example whose latency changes sharply (α): by at least 20 ms and 20 % from the
    /// packet before, of the sender or of its flow. Others have weight 1.
    pub alpha: f32,
}

impl Default for RecorderSettings {
    /// One minute, 300,000 packets, α 10.
    fn default() -> Self {
        Self { span_ns: 60_000_000_000, packets_max: 300_000, alpha: 10.0 }
    }
}

/// Packets that a recorder saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecorderCounts {
    /// Packets that were recorded.
    pub recorded: u64,
    /// Those that were dropped before their time was over, as there was no room.
    pub no_room: u64,
    /// Flows whose newest latency was forgotten, as there was no room: their next packet counts as
    /// without a sharp change.
    pub flow_no_room: u64,
}

/// A packet: what its prediction read, and its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at_ns: u64,
    base_ns: Option<u64>,
    /// When it was acknowledged, and with which latency.
    answer: Option<(u64, Option<u64>)>,
    flow: u32,
    /// Which output of the block.
    output: u32,
    values: [f32; QUERY_LEN],
}

/// Packets that follow each other, with the encoder's outputs that they need.
#[derive(Clone, Debug, Default)]
struct Block {
    entries: Vec<Entry>,
    outputs: Vec<f32>,
}

/// The newest latencies before the packets that are kept, in ms.
#[derive(Clone, Debug, Default)]
struct Before {
    sender: Option<f64>,
    /// And when the packet left, in ns.
    flows: HashMap<u32, (f64, u64)>,
}

impl Before {
    /// Takes the next packet with a latency; whether it is a sharp change.
    fn change(&mut self, flow: u32, latency_ms: f64, at_ns: u64) -> bool {
        let is_sharp = |before_ms: f64| {
            let change = (latency_ms - before_ms).abs();
            change >= SHARP_MS && change >= SHARP_SHARE * before_ms.abs()
        };
        let sender = self.sender.replace(latency_ms);
        let of_flow = self.flows.insert(flow, (latency_ms, at_ns));
        sender.is_some_and(is_sharp) || of_flow.is_some_and(|(before_ms, _)| is_sharp(before_ms))
    }
}

/// Keeps, for the packets of the last minute, what their predictions read, and the latency that was
/// acknowledged later.
///
/// An output of the encoder is kept once for the packets that share it, and once more where a block
/// of packets begins. Memory is bounded: about 170 bytes a packet, and 4 × width bytes for each
/// batch with an acknowledgement before it. While a [`Snapshot`] exists, which is as much again at
/// most, a block that changes is copied first: up to 0.2 MB at a width of 64.
#[derive(Clone, Debug)]
pub struct Recorder {
    settings: RecorderSettings,
    width: usize,
    block_len: usize,
    /// All but the last are full.
    blocks: VecDeque<Arc<Block>>,
    /// Number of the first packet that is kept.
    first: u64,
    /// Whether the encoder's output differs from the one that was recorded last.
    is_new_output: bool,
    before: Before,
    /// A block to be used again.
    spare: Option<Block>,
    counts: RecorderCounts,
}

impl Recorder {
    /// Begins without packets; an output of the encoder has `width` numbers.
    #[must_use]
    pub fn new(settings: RecorderSettings, width: usize) -> Self {
        Self {
            settings,
            width,
            block_len: (settings.packets_max / BLOCK_COUNT).clamp(1, BLOCK_LEN_MAX),
            blocks: VecDeque::new(),
            first: 0,
            is_new_output: true,
            before: Before::default(),
            spare: None,
            counts: RecorderCounts::default(),
        }
    }

    /// Drops all packets; outputs have this width from now on.
    pub fn clear(&mut self, width: usize) {
        self.blocks.clear();
        self.width = width;
        self.before = Before::default();
        self.is_new_output = true;
    }

    /// The encoder has another output from now on.
    pub const fn renew(&mut self) {
        self.is_new_output = true;
    }

    /// A packet leaves under this number, one above the last one's: the encoder's output and the
    /// query that its prediction read.
    pub fn leave(&mut self, number: u64, packet: &SentPacket, output: &[f32], query: &Query) {
        if number != self.first + self.len() as u64 {
            // The numbering began again.
            self.clear(self.width);
        }
        if self.blocks.is_empty() {
            self.first = number;
        }
        self.make_room(packet.at_ns);
        let is_full = |block: &Arc<Block>| block.entries.len() >= self.block_len;
        if self.blocks.back().is_none_or(is_full) {
            let block = self.spare.take().unwrap_or_default();
            self.blocks.push_back(Arc::new(block));
            self.is_new_output = true;
        }
        let Some(block) = self.blocks.back_mut().map(Arc::make_mut) else { return };
        if self.is_new_output {
            block.outputs.extend_from_slice(output);
            self.is_new_output = false;
        }
        let output = block.outputs.len() / self.width.max(1);
        block.entries.push(Entry {
            at_ns: packet.at_ns,
            base_ns: query.base_ns,
            answer: None,
            flow: packet.flow,
            // A block has far fewer outputs.
            output: output.saturating_sub(1) as u32,
            values: query.values,
        });
        self.counts.recorded += 1;
    }

    /// A packet was acknowledged; the first time counts, and what is not kept any more does not.
    pub fn acknowledge(&mut self, number: u64, at_ns: u64, latency_ns: Option<u64>) {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let Some(place) = place else { return };
        let block = self.blocks.get_mut(place / self.block_len).map(Arc::make_mut);
        let entry = block.and_then(|block| block.entries.get_mut(place % self.block_len));
        if let Some(Entry { answer: answer @ None, .. }) = entry {
            *answer = Some((at_ns, latency_ns));
        }
    }

    /// What is known at an instant: of the packets that left within the span before it, with what
    /// had been acknowledged before it.
    #[must_use]
    pub fn snapshot(&self, now_ns: u64) -> Snapshot {
        let RecorderSettings { span_ns, alpha, .. } = self.settings;
        Snapshot {
            blocks: self.blocks.iter().cloned().collect(),
            before: self.before.clone(),
            now_ns,
            from_ns: now_ns.saturating_sub(span_ns),
            alpha,
            width: self.width,
        }
    }

    /// Packets that are kept. Some may have left before the span: blocks are dropped as a whole.
    #[must_use]
    pub fn len(&self) -> usize {
        let last = self.blocks.back().map_or(0, |block| block.entries.len());
        self.blocks.len().saturating_sub(1) * self.block_len + last
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Packets by outcome.
    #[must_use]
    pub const fn counts(&self) -> RecorderCounts {
        self.counts
    }

    /// Drops the oldest block if it is too old, or to make room for a packet.
    fn make_room(&mut self, now_ns: u64) {
        let oldest_ns = now_ns.saturating_sub(self.settings.span_ns);
        while let Some(block) = self.blocks.front() {
            let is_full = block.entries.len() >= self.block_len;
            let is_old = block.entries.last().is_some_and(|last| last.at_ns < oldest_ns);
            let has_room = self.len() < self.settings.packets_max.max(1);
            if !(is_full && (is_old || !has_room)) {
                return;
            }
            let Some(block) = self.blocks.pop_front() else { return };
            self.first += block.entries.len() as u64;
            let kept = block.entries.iter().filter(|entry| entry.at_ns >= oldest_ns).count();
            self.counts.no_room += kept as u64;
            for entry in &block.entries {
                if let Some((_, Some(latency_ns))) = entry.answer {
                    self.before.change(entry.flow, ms(latency_ns), entry.at_ns);
                }
            }
            self.forget(oldest_ns);
            // One that a snapshot still reads is left to it.
            if let Ok(mut block) = Arc::try_unwrap(block) {
                block.entries.clear();
                block.outputs.clear();
                self.spare = Some(block);
            }
        }
    }

    /// Forgets flows where there are too many: those that were silent for a span, or else all.
    fn forget(&mut self, oldest_ns: u64) {
        let silent_ns = oldest_ns.saturating_sub(self.settings.span_ns);
        let flows = &mut self.before.flows;
        if flows.len() > FLOWS_MAX {
            let count = flows.len();
            flows.retain(|_, &mut (_, at_ns)| at_ns >= silent_ns);
            if flows.len() > FLOWS_MAX {
                flows.clear();
            }
            self.counts.flow_no_room += (count - flows.len()) as u64;
        }
    }
}

/// What a [`Recorder`] knew at an instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    blocks: Vec<Arc<Block>>,
    before: Before,
    now_ns: u64,
    from_ns: u64,
    alpha: f32,
    width: usize,
}

/// Examples in the order in which their packets left; columns as
/// [`model::encoder::Examples`] takes them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExampleColumns {
    /// Outputs of the encoder.
    pub hidden: Vec<f32>,
    /// For each example which of them.
    pub hidden_index: Vec<u32>,
    /// Queries with the queue that was taken, [`QUERY_LEN`] numbers each.
    pub queries: Vec<f32>,
    /// Latencies above the base, in 100 ms, from −20 to 20.
    pub targets: Vec<f32>,
    /// 1, or α at sharp changes.
    pub weights: Vec<f32>,
    /// What is before each in its flow.
    pub changes: Vec<Change>,
}

/// The newest packet of a flow with a latency.
#[derive(Clone, Copy, Debug)]
struct Newest {
    /// Which example it is, or [`NONE_BEFORE`].
    example: u32,
    latency_ms: f64,
    base_ms: f32,
}

impl Newest {
    /// The change from it to the next one of its flow.
    fn change(&self, next: &Self) -> Change {
        let change_ms = next.latency_ms - self.latency_ms;
        let threshold_ms = SHARP_MS.max(SHARP_SHARE * self.latency_ms.abs());
        let is_sharp = change_ms.abs() >= threshold_ms;
        Change {
            before: self.example,
            step: (next.base_ms - self.base_ms) / UNIT_MS as f32,
            threshold: (threshold_ms / UNIT_MS) as f32,
            sign: if is_sharp { change_ms.signum() as f32 } else { 0.0 },
        }
    }
}

impl Snapshot {
    /// The examples: packets with a base and a latency. A packet whose encoder output is not finite
    /// had no prediction, and is no example.
    #[must_use]
    pub fn into_examples(self) -> ExampleColumns {
        let Self { blocks, mut before, now_ns, from_ns, alpha, width } = self;
        let mut examples = ExampleColumns::default();
        let mut newest: HashMap<u32, Newest> = HashMap::new();
        for block in blocks {
            let mut taken: Option<u32> = None;
            for entry in &block.entries {
                let Some((acked_ns, Some(latency_ns))) = entry.answer else { continue };
                // One that arrives with a batch's first packet does not precede it.
                if acked_ns >= now_ns {
                    continue;
                }
                let is_sharp = before.change(entry.flow, ms(latency_ns), entry.at_ns);
                let output = &block.outputs[entry.output as usize * width..][..width];
                let is_example = entry.base_ns.is_some()
                    && entry.at_ns >= from_ns
                    && output.iter().all(|number| number.is_finite());
                let base_ns = entry.base_ns.unwrap_or_default();
                let this = Newest {
                    // There are fewer packets than that.
                    example: if is_example { examples.targets.len() as u32 } else { NONE_BEFORE },
                    latency_ms: ms(latency_ns),
                    base_ms: ms(base_ns) as f32,
                };
                let last = newest.insert(entry.flow, this);
                if !is_example {
                    continue;
                }
                let last = last.filter(|last| last.example != NONE_BEFORE);
                examples.changes.push(last.map_or(Change::NONE, |last| last.change(&this)));
                if taken.replace(entry.output) != Some(entry.output) {
                    examples.hidden.extend_from_slice(output);
                }
                examples
                    .hidden_index
                    .push((examples.hidden.len() / width).saturating_sub(1) as u32);
                examples.queries.extend(entry.values);
                examples.targets.push(target(latency_ns, base_ns));
                examples.weights.push(if is_sharp { alpha } else { 1.0 });
            }
        }
        examples
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// As it is in training, where bases have 32 bits.
fn target(latency_ns: u64, base_ns: u64) -> f32 {
    let above_ms = ms(latency_ns) - f64::from(ms(base_ns) as f32);
    (above_ms / UNIT_MS).clamp(-TARGET_MAX, TARGET_MAX) as f32
}
