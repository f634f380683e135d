//! Which features of a flow's window there are, checked, with the schema that names them.

use std::collections::HashSet;
use std::fmt;

use packet::Span;

use super::number::WindowNumber;
use crate::block::Block;
use crate::first::{FeaturesError, FlowFeatures, Number};
use crate::layout::Layout;
use crate::schema::{FeatureSchema, Headers};
use crate::trees::{Forest, NUMBER_COUNT_MAX};

/// The features of a flow's window: header bits of its first packets, and numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowFeatures {
    every: Span,
    /// Of the window's packets; the numbers that are named as those of a flow, and more where
    /// others need them.
    first: FlowFeatures,
    names: Vec<String>,
    numbers: Vec<WindowNumber>,
    reads_rtp: bool,
    needs_whole_window: bool,
}

/// Why there are no such features.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WindowError {
    /// A window of no time.
    Every(Span),
    /// A name that is none.
    NoNumber(String),
    /// A name that was given before.
    Twice(String),
    /// Windows that are not as long as those before.
    Unlike,
    /// What is asked of packets cannot be.
    First(FeaturesError),
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(every) => {
                write!(f, "windows of {} ns; wanted: longer than 0", every.as_ns())
            }
            Self::NoNumber(name) => write!(
                f,
                "numbers: {name:?} is none; wanted: of a window such as main_packets, \
                 back_gap_mean_ns, previous_main_frames_by_size, or of a packet such as \
                 pkt0_size_bytes, pkt0_offset_ns, pkt0_byte_0"
            ),
            Self::Twice(name) => write!(f, "numbers: {name} is there twice; wanted: each once"),
            Self::Unlike => {
                f.write_str("windows of another length than those before; wanted: the same")
            }
            Self::First(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WindowError {}

impl From<FeaturesError> for WindowError {
    fn from(error: FeaturesError) -> Self {
        Self::First(error)
    }
}

/// The numbers in the order of their names, and those that the packets have to be kept for.
fn read(names: &[String]) -> Result<(Vec<WindowNumber>, Vec<String>), WindowError> {
    if names.len() > NUMBER_COUNT_MAX {
        return Err(FeaturesError::NumberCount(names.len()).into());
    }
    let (mut numbers, mut first, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    for name in names {
        let number = WindowNumber::named(name);
        let number = number.ok_or_else(|| WindowError::NoNumber(name.clone()))?;
        if !known.insert(number) {
            return Err(WindowError::Twice(name.clone()));
        }
        match number {
            WindowNumber::First(number) => first.push(number),
            // An offset is a sum of gaps.
            WindowNumber::OffsetNs(packet) => first.push(Number::GapNs(packet)),
            WindowNumber::Whole { .. } => {}
        }
        numbers.push(number);
    }
    let mut known = HashSet::new();
    first.retain(|&number| known.insert(number));
    Ok((numbers, first.iter().map(Number::to_string).collect()))
}

impl WindowFeatures {
    /// These features, checked: of windows of `every`, aligned to the epoch.
    ///
    /// # Errors
    /// [`WindowError`], where there can be no such features.
    pub fn new(
        every: Span,
        headers: Headers,
        blocks: &[Block],
        payload_bytes: u16,
        packets: usize,
        names: &[String],
    ) -> Result<Self, WindowError> {
        let (numbers, first) = read(names)?;
        let first = FlowFeatures::new(headers, blocks, payload_bytes, packets, &first)?;
        Self::checked(every, first, names, numbers)
    }

    /// What a file of trees says that it reads.
    ///
    /// # Errors
    /// As [`new`](Self::new), where its numbers are none of a window.
    pub fn of_forest(every: Span, forest: &Forest) -> Result<Self, WindowError> {
        let (headers, layout) = (forest.headers(), forest.layout());
        Self::of_layout(every, headers, layout, forest.packet_count(), forest.numbers())
    }

    fn of_layout(
        every: Span,
        headers: Headers,
        layout: Layout,
        packets: usize,
        names: &[String],
    ) -> Result<Self, WindowError> {
        let (numbers, first) = read(names)?;
        let first = FlowFeatures::of_layout(headers, layout, packets, &first)?;
        Self::checked(every, first, names, numbers)
    }

    fn checked(
        every: Span,
        first: FlowFeatures,
        names: &[String],
        numbers: Vec<WindowNumber>,
    ) -> Result<Self, WindowError> {
        if every <= Span::default() {
            return Err(WindowError::Every(every));
        }
        let reads_rtp = numbers.iter().any(|number| number.is_of_rtp());
        let needs_whole_window = numbers.iter().any(|number| number.needs_whole_window());
        Ok(Self { every, first, names: names.to_vec(), numbers, reads_rtp, needs_whole_window })
    }

    /// Features of which each of these is a part: what has to be kept of a flow for all of them.
    ///
    /// # Errors
    /// As [`new`](Self::new); also where one does not begin as the other, or there are none.
    pub fn of_all<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Result<Self, WindowError> {
        let mut parts = parts.into_iter();
        let all = parts.next().ok_or(FeaturesError::Packets(0))?.clone();
        let (headers, layout) = (all.first.headers(), all.first.layout());
        let (mut names, mut packets) = (all.names, all.first.packets());
        let mut known: HashSet<_> = all.numbers.into_iter().collect();
        for part in parts {
            if part.every != all.every {
                return Err(WindowError::Unlike);
            }
            if (part.first.headers(), part.first.layout()) != (headers, layout) {
                return Err(FeaturesError::Unlike.into());
            }
            packets = packets.max(part.first.packets());
            let new = part.names.iter().zip(&part.numbers);
            let new = new.filter(|(_, number)| known.insert(**number));
            names.extend(new.map(|(name, _)| name.clone()));
        }
        Self::of_layout(all.every, headers, layout, packets, &names)
    }

    /// How long a window is.
    #[inline]
    #[must_use]
    pub const fn every(&self) -> Span {
        self.every
    }

    /// What is kept of the window's first packets: layout, headers and how many. Its numbers are
    /// not those of a row.
    #[inline]
    #[must_use]
    pub const fn first(&self) -> &FlowFeatures {
        &self.first
    }

    /// Names of the numbers, in order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The numbers, in the order of their names.
    #[must_use]
    pub fn numbers(&self) -> &[WindowNumber] {
        &self.numbers
    }

    /// Whether RTP headers are read.
    #[inline]
    #[must_use]
    pub const fn reads_rtp(&self) -> bool {
        self.reads_rtp
    }

    /// Whether a row is known at the end of the window only, and not with its last packet.
    #[inline]
    #[must_use]
    pub const fn needs_whole_window(&self) -> bool {
        self.needs_whole_window
    }

    /// What the values of a row mean. The length of the window is part of it.
    #[must_use]
    pub fn schema(&self) -> FeatureSchema {
        let first = &self.first;
        let columns: Vec<_> = first.layout().columns().collect();
        let packets = first.packets();
        FeatureSchema::of_window(&columns, packets, first.headers(), &self.names, self.every)
            .with_identity(first.layout().identity())
    }

    /// [`FeatureSchema::hash`] of it.
    #[must_use]
    pub fn hash(&self) -> String {
        self.schema().hash()
    }
}
