//! Which features of a flow there are, checked, with the schema that names them.

use std::collections::HashSet;
use std::fmt;

use super::number::Number;
use super::payload_byte;
use crate::block::Block;
use crate::identity::Identity;
use crate::layout::{Layout, PAYLOAD_LEN_MAX};
use crate::schema::{FeatureSchema, Headers};
use crate::subscription::DEPTH_MAX;
use crate::trees::{Forest, NUMBER_COUNT_MAX, ROW_LEN_MAX};

/// The features of a flow: header bits of its first packets, and numbers in addition to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowFeatures {
    headers: Headers,
    layout: Layout,
    packets: usize,
    names: Vec<String>,
    numbers: Vec<Number>,
    has_steps: bool,
}

/// Why there are no such features.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FeaturesError {
    /// No packet, or too many.
    Packets(usize),
    /// A payload that is too long.
    PayloadBytes(u16),
    /// Neither a header nor payload, or too much of them.
    RowLen(usize),
    /// Too many numbers.
    NumberCount(usize),
    /// A name that is none.
    NoNumber(String),
    /// A name that was given before.
    Twice(String),
    /// A number of a packet that is not read.
    PacketBeyond {
        /// The number.
        name: String,
        /// Packets that are read.
        packets: usize,
    },
    /// A byte of the payload that is not read.
    ByteBeyond {
        /// The number.
        name: String,
        /// Bytes that are read.
        payload_bytes: u16,
    },
    /// A name of a row's column that is none.
    NoColumn {
        /// The name.
        name: String,
        /// One that there is.
        example: String,
    },
    /// Features of which one does not begin as the other.
    Unlike,
}

impl fmt::Display for FeaturesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => {
                write!(f, "packets: {packets}; wanted: a number from 1 to {DEPTH_MAX}")
            }
            Self::PayloadBytes(len) => {
                write!(f, "payload_bytes: {len}; wanted: {PAYLOAD_LEN_MAX} at most")
            }
            Self::RowLen(0) => f.write_str("blocks: none, and no payload; wanted: one at least"),
            Self::RowLen(len) => write!(
                f,
                "records of {len} bytes a flow; wanted: {ROW_LEN_MAX} at most; ask for fewer \
                 packets, blocks or bytes of payload"
            ),
            Self::NumberCount(count) => {
                write!(f, "numbers: {count} of them; wanted: {NUMBER_COUNT_MAX} at most")
            }
            Self::NoNumber(name) => write!(
                f,
                "numbers: {name:?} is none; wanted: protocol, server_port, client_port, or of a \
                 packet such as pkt0_size_bytes, pkt0_direction, pkt0_gap_ns, \
                 pkt0_payload_bytes, pkt0_byte_0"
            ),
            Self::Twice(name) => write!(f, "numbers: {name} is there twice; wanted: each once"),
            Self::PacketBeyond { name, packets } => write!(
                f,
                "numbers: {name} is of a packet that is not read; wanted: below {packets}; ask for \
                 more packets"
            ),
            Self::ByteBeyond { name, payload_bytes } => write!(
                f,
                "numbers: {name} is of a byte that is not read; wanted: below {payload_bytes}; \
                 ask for more bytes of payload"
            ),
            Self::NoColumn { name, example } => {
                write!(f, "{name}: no column of the features; wanted: such as {example}")
            }
            Self::Unlike => f.write_str(
                "features of other headers, blocks, bytes of payload or identity than those \
                 before; wanted: the same, so that fewer packets are the beginning of more",
            ),
        }
    }
}

impl std::error::Error for FeaturesError {}

impl FlowFeatures {
    /// These features, checked.
    ///
    /// # Errors
    /// [`FeaturesError`], where there can be no such features.
    pub fn new(
        headers: Headers,
        blocks: &[Block],
        payload_bytes: u16,
        packets: usize,
        numbers: &[String],
    ) -> Result<Self, FeaturesError> {
        if payload_bytes > PAYLOAD_LEN_MAX {
            return Err(FeaturesError::PayloadBytes(payload_bytes));
        }
        let features =
            Self::of_layout(headers, Layout::new(blocks, payload_bytes), packets, numbers)?;
        match features.records_len() {
            row_len if row_len > ROW_LEN_MAX => Err(FeaturesError::RowLen(row_len)),
            _ => Ok(features),
        }
    }

    /// The same numbers and packets, holding what this leaves of them.
    #[must_use]
    pub fn with_identity(self, identity: Identity) -> Self {
        Self { layout: self.layout.with_identity(identity), ..self }
    }

    /// The same from a layout, also of more bytes than a row of trees may have.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_layout(
        headers: Headers,
        layout: Layout,
        packets: usize,
        names: &[String],
    ) -> Result<Self, FeaturesError> {
        if !(1..=DEPTH_MAX).contains(&packets) {
            return Err(FeaturesError::Packets(packets));
        }
        if layout.is_empty() {
            return Err(FeaturesError::RowLen(0));
        }
        if names.len() > NUMBER_COUNT_MAX {
            return Err(FeaturesError::NumberCount(names.len()));
        }
        let payload_bytes = layout.len(Block::Payload);
        let mut known = HashSet::new();
        let number = |name: &String| {
            let named = Number::named(name);
            let number = named.ok_or_else(|| FeaturesError::NoNumber(name.clone()))?;
            let name = || name.clone();
            if !known.insert(number) {
                return Err(FeaturesError::Twice(name()));
            }
            if number.packet().is_some_and(|packet| packet >= packets) {
                return Err(FeaturesError::PacketBeyond { name: name(), packets });
            }
            match number {
                Number::Byte { index, .. } if index >= payload_bytes => {
                    Err(FeaturesError::ByteBeyond { name: name(), payload_bytes })
                }
                number => Ok(number),
            }
        };
        let numbers = names.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let has_steps = numbers.iter().any(|number| number.is_of_step());
        Ok(Self { headers, layout, packets, names: names.to_vec(), numbers, has_steps })
    }

    /// What a file of trees says that it reads.
    ///
    /// # Errors
    /// As [`new`](Self::new), where its numbers are none of a flow.
    pub fn of_forest(forest: &Forest) -> Result<Self, FeaturesError> {
        Self::of_layout(forest.headers(), forest.layout(), forest.packet_count(), forest.numbers())
    }

    /// Features of which each of these is a part: what has to be kept of a flow for all of them.
    ///
    /// # Errors
    /// As [`new`](Self::new); also where one does not begin as the other, or there are none.
    pub fn of_all<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Result<Self, FeaturesError> {
        let mut parts = parts.into_iter();
        let mut all = parts.next().ok_or(FeaturesError::Packets(0))?.clone();
        let mut known: HashSet<_> = all.numbers.iter().copied().collect();
        for part in parts {
            if (part.headers, part.layout) != (all.headers, all.layout) {
                return Err(FeaturesError::Unlike);
            }
            all.packets = all.packets.max(part.packets);
            let new = part.names.iter().zip(&part.numbers);
            all.names.extend(
                new.filter(|(_, number)| known.insert(**number)).map(|(name, _)| name.clone()),
            );
        }
        Self::of_layout(all.headers, all.layout, all.packets, &all.names)
    }

    /// Which headers of a packet in a tunnel are meant: the frames that it is given have to be
    /// dissected so.
    #[must_use]
    pub const fn headers(&self) -> Headers {
        self.headers
    }

    /// The headers of a record, and how much of the payload.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Packets of a flow that are read.
    #[inline]
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes of the records of all packets.
    #[must_use]
    pub const fn records_len(&self) -> usize {
        self.layout.record_len() * self.packets
    }

    /// Names of the numbers, in order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The numbers, in the order of their names.
    #[must_use]
    pub fn numbers(&self) -> &[Number] {
        &self.numbers
    }

    /// Appends all numbers of a row, from its records and those numbers that are not read from
    /// records, as [`FirstPackets`](super::FirstPackets) gives them; false where these are fewer or
    /// more.
    #[must_use]
    pub fn row_numbers(&self, records: &[u8], unrecorded: &[f32], out: &mut Vec<f64>) -> bool {
        let mut unrecorded = unrecorded.iter();
        for &number in &self.numbers {
            let value = match number {
                Number::Byte { packet, index } => {
                    Some(payload_byte(self.layout, records, packet, index))
                }
                _ => unrecorded.next().map(|&value| value.into()),
            };
            let Some(value) = value else { return false };
            out.push(value);
        }
        unrecorded.next().is_none()
    }

    /// Whether a number needs what [`FirstSteps`](crate::FirstSteps) keeps.
    #[inline]
    pub(super) const fn has_steps(&self) -> bool {
        self.has_steps
    }

    /// What the values of a row mean: header bits alone as of any flow, with numbers a row of its
    /// own kind.
    #[must_use]
    pub fn schema(&self) -> FeatureSchema {
        let columns = self.layout.columns().collect();
        FeatureSchema::of_columns(columns, Some(self.packets), self.headers, &self.names)
            .with_identity(self.layout.identity())
    }

    /// [`FeatureSchema::hash`] of it.
    #[must_use]
    pub fn hash(&self) -> String {
        self.schema().hash()
    }
}
