//! What of the packets is wanted: which blocks, which of their columns, of how many packets.

use std::fmt;

use regex_lite::Regex;

use crate::block::Block;
use crate::layout::Layout;

/// Packets of a flow that can be asked for.
pub const DEPTH_MAX: usize = 255;

/// Columns of addresses.
const ADDRESSES: &str = "^ipv[46]_(src|dst)_";

/// Columns of ports.
const PORTS: &str = "^(tcp_[sd]prt|udp_[sd]port)_";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct SubscriptionRequest<'a> {
    /// The blocks.
    pub layout: Layout,
    /// Columns whose names one of these regular expressions finds are left out.
    pub exclude: &'a [String],
    /// Whether addresses are wanted.
    pub addresses: bool,
    /// Whether ports are wanted.
    pub ports: bool,
    /// Packets of each flow, from 1 to [`DEPTH_MAX`].
    pub depth: usize,
    /// What stands where a packet has no bit.
    pub missing: i8,
}

/// What is wanted, ready for packets. Blocks of which no column is left are not read at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    layout: Layout,
    /// For each byte of the blocks, its bits that are wanted.
    masks: Vec<u8>,
    column_count: usize,
    depth: usize,
    missing: i8,
}

/// Why nothing can be extracted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubscriptionError {
    /// A pattern is no regular expression.
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        cause: String,
    },
    /// No column is left.
    NoColumns,
    /// No packet, or too many.
    Depth(usize),
}

impl Default for SubscriptionRequest<'_> {
    fn default() -> Self {
        let layout = Layout::default();
        Self { layout, exclude: &[], addresses: true, ports: true, depth: 1, missing: -1 }
    }
}

impl fmt::Display for SubscriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { pattern, cause } => write!(
                f,
                "`{pattern}` is not a regular expression ({cause}); give one that finds names of \
                 columns, such as `^tcp_opt_`"
            ),
            Self::NoColumns => f.write_str("no column is left; ask for a header, or exclude less"),
            Self::Depth(depth) => {
                write!(f, "{depth} packets of each flow; give a number from 1 to {DEPTH_MAX}")
            }
        }
    }
}

impl std::error::Error for SubscriptionError {}

impl Subscription {
    /// Makes ready what is wanted.
    ///
    /// # Errors
    /// [`SubscriptionError`], where that is nothing, or nothing that can be.
    pub fn new(wanted: &SubscriptionRequest<'_>) -> Result<Self, SubscriptionError> {
        if !(1..=DEPTH_MAX).contains(&wanted.depth) {
            return Err(SubscriptionError::Depth(wanted.depth));
        }
        let mut patterns = Vec::new();
        let of_ours = [(wanted.addresses, ADDRESSES), (wanted.ports, PORTS)];
        let of_ours = of_ours.iter().filter(|(keeps, _)| !keeps).map(|&(_, pattern)| pattern);
        for pattern in of_ours.chain(wanted.exclude.iter().map(String::as_str)) {
            patterns.push(Regex::new(pattern).map_err(|error| SubscriptionError::Pattern {
                pattern: pattern.to_owned(),
                cause: error.to_string(),
            })?);
        }
        let is_wanted = |name: &str| !patterns.iter().any(|pattern| pattern.is_match(name));
        let has_any =
            |block: Block| block.columns(wanted.layout.len(block)).any(|name| is_wanted(&name));
        let layout = wanted.layout.only(has_any);
        let mut masks = vec![0; layout.data_len()];
        let mut column_count = 0;
        for (column, _) in layout.columns().enumerate().filter(|(_, name)| is_wanted(name)) {
            if let Some(mask) = masks.get_mut(column / 8) {
                *mask |= 0x80_u8 >> (column % 8);
            }
            column_count += 1;
        }
        if column_count == 0 {
            return Err(SubscriptionError::NoColumns);
        }
        let SubscriptionRequest { depth, missing, .. } = *wanted;
        Ok(Self { layout, masks, column_count, depth, missing })
    }

    /// The blocks that are read.
    #[inline]
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Columns of one packet.
    #[must_use]
    pub const fn column_count(&self) -> usize {
        self.column_count
    }

    /// Packets of each flow.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// What stands where a packet has no bit.
    #[must_use]
    pub const fn missing(&self) -> i8 {
        self.missing
    }

    /// Names of one packet's columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = String> {
        self.layout.columns().enumerate().filter(|&(bit, _)| self.has(bit)).map(|(_, name)| name)
    }

    /// For each of one packet's columns the bit of a record that holds its value.
    pub fn bits(&self) -> impl Iterator<Item = usize> {
        (0..self.layout.column_count()).filter(|&bit| self.has(bit))
    }

    fn has(&self, bit: usize) -> bool {
        self.masks.get(bit / 8).is_some_and(|mask| mask << (bit % 8) & 0x80 != 0)
    }

    /// For each byte of the blocks, its bits that are wanted.
    pub(crate) fn masks(&self) -> &[u8] {
        &self.masks
    }

    /// Appends a record's values: 0, 1, and [`missing`](Self::missing) where the packet has no
    /// such byte. Nothing of a record of another layout.
    pub fn values(&self, record: &[u8], out: &mut Vec<i8>) {
        let Some((data, presence)) = record.split_at_checked(self.layout.data_len()) else {
            return;
        };
        for (index, (&byte, &mask)) in data.iter().zip(&self.masks).enumerate() {
            let is_there =
                presence.get(index / 8).is_some_and(|bits| bits << (index % 8) & 0x80 != 0);
            let value =
                |bit: u8| if is_there { (byte >> bit & 1).cast_signed() } else { self.missing };
            if mask == u8::MAX {
                out.extend([7, 6, 5, 4, 3, 2, 1, 0].map(value));
            } else {
                out.extend((0..8).rev().filter(|bit| mask >> bit & 1 == 1).map(value));
            }
        }
    }

    /// Appends the values of a packet that is not there.
    pub fn absent_values(&self, out: &mut Vec<i8>) {
        out.resize(out.len() + self.column_count, self.missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(patterns: &[&str]) -> Result<Subscription, SubscriptionError> {
        let exclude: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        Subscription::new(&SubscriptionRequest {
            exclude: &exclude,
            ..SubscriptionRequest::default()
        })
    }

    #[test]
    fn addresses_and_ports_are_left_out_on_request() {
        let layout = Layout::new(&Block::ALL, 0);
        let wanted = SubscriptionRequest {
            layout,
            addresses: false,
            ports: false,
            ..SubscriptionRequest::default()
        };
        let some = Subscription::new(&wanted).unwrap();
        assert_eq!(some.column_count(), 480 + 320 + 480 + 64 + 64 - 64 - 256 - 32 - 32);
        let is_told = |name: &String| {
            ["_src_", "_dst_", "prt", "port"].iter().any(|word| name.contains(word))
        };
        assert!(!some.columns().any(|name| is_told(&name)));
        assert_eq!(some.columns().count(), some.column_count());
    }

    #[test]
    fn blocks_without_columns_are_not_read() {
        let some = without(&["^ipv4_", "_opt_"]).unwrap();
        assert_eq!(some.layout(), Layout::new(&[Block::Tcp, Block::Udp], 0));
        assert_eq!(some.column_count(), 160 + 64);
        assert_eq!(some.bits().nth(160), Some(480), "UDP behind the options' place");
        assert_eq!(without(&["_"]), Err(SubscriptionError::NoColumns));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let error = without(&["tcp_("]).unwrap_err();
        assert!(error.to_string().starts_with("`tcp_(` is not a regular expression"), "{error}");
        for depth in [0, 256] {
            let refused =
                Subscription::new(&SubscriptionRequest { depth, ..SubscriptionRequest::default() });
            assert_eq!(refused, Err(SubscriptionError::Depth(depth)));
        }
    }

    #[test]
    fn values_are_those_of_the_columns() {
        let some = without(&["^ipv4_", "^tcp_(doff|opt)", "^udp_(sport_1[0-5]|[dlc])"]).unwrap();
        let mut record = vec![0; some.layout().record_len()];
        record[..14].copy_from_slice(&[0x80, 1, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0xf1, 0x02]);
        let mut values = Vec::new();
        some.values(&record, &mut values);
        assert_eq!(values, vec![-1; some.column_count()]);
        values.clear();
        record[68..].fill(0xff);
        some.values(&record, &mut values);
        let names: Vec<_> = some.columns().collect();
        assert_eq!((values.len(), names.len()), (156 + 10, 156 + 10));
        let set: Vec<_> = names
            .iter()
            .zip(&values)
            .filter(|(_, value)| **value == 1)
            .map(|(name, _)| name.as_str())
            .collect();
        let first =
            ["tcp_sprt_0", "tcp_sprt_15", "tcp_dprt_9", "tcp_dprt_11", "tcp_ns_0", "tcp_syn_0"];
        assert_eq!(set[..6], first);
        let of_bits = some.bits().map(|bit| record[bit / 8] >> (7 - bit % 8) & 1);
        assert!(of_bits.map(u8::cast_signed).eq(values.iter().copied()));
        values.clear();
        some.absent_values(&mut values);
        assert_eq!(values, vec![-1; 166]);
    }
}
