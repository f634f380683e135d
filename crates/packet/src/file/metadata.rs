//! What a file says about itself besides its frames. All of it is bounded.

use super::option::text_bytes;
use super::resolution::Resolution;
use crate::link::LinkType;
use crate::time::Timestamp;

/// Interfaces a file may describe, over all its sections: what a record's `u16` numbers.
pub const INTERFACE_COUNT_MAX: usize = 1 << 16;
/// Sections whose texts are kept; later ones are only counted.
pub const SECTION_COUNT_KEPT_MAX: usize = 64;
/// Bytes kept of one text.
pub const TEXT_LEN_MAX: usize = 4096;
/// Bytes of text kept of one file.
pub const TEXT_TOTAL_MAX: usize = 1 << 20;
/// Comments kept of one section or interface.
pub const COMMENT_COUNT_MAX: usize = 64;

/// An interface that frames were captured on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interface {
    /// What the first byte of its frames is.
    pub link: LinkType,
    /// Bytes at which its frames were cut; 0 where they were not.
    pub snaplen: u32,
    /// Length of a tick of its clock.
    pub resolution: Resolution,
    /// Seconds added to its stamps.
    pub offset_seconds: i64,
    /// Bytes of frame check sequence at the end of each frame, if the file says so.
    pub fcs_len: Option<u8>,
    /// Bits per second, if the file says so.
    pub speed: Option<u64>,
    /// Name, such as `eth0`.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Filter text the capture was made with.
    pub filter: String,
    /// Operating system of the machine the interface is in.
    pub os: String,
    /// What the interface is made of.
    pub hardware: String,
    /// Comments.
    pub comments: Comments,
    /// What the capture counted, if it says so.
    pub statistics: Option<InterfaceStatistics>,
}

/// Counters of one interface; the last block about it wins, as they only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InterfaceStatistics {
    /// When they were read.
    pub timestamp: Timestamp,
    /// When the capture began.
    pub start: Option<Timestamp>,
    /// When the capture ended.
    pub end: Option<Timestamp>,
    /// Packets the interface received.
    pub received: Option<u64>,
    /// Packets the interface dropped because there was no room.
    pub dropped: Option<u64>,
    /// Packets the filter accepted.
    pub filter_accepted: Option<u64>,
    /// Packets the operating system dropped.
    pub os_dropped: Option<u64>,
    /// Packets delivered to the capturing program.
    pub delivered: Option<u64>,
}

/// What a section header says; of a pcap file, nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Section {
    /// Hardware that captured.
    pub hardware: String,
    /// Operating system that captured.
    pub os: String,
    /// Program that wrote the section.
    pub application: String,
    /// Comments.
    pub comments: Comments,
}

/// Comments of one section or interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Comments {
    /// Those that were kept, in order.
    pub texts: Vec<String>,
    /// How many were left out because a limit of this module was reached.
    pub omitted_count: u64,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What was met while decoding, by kind.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct FileCounts {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl FileCounts {
            /// Adds the counts of another part of the same file. Saturates, as the sum over
            /// one part does: a file may claim any number of packets lost.
            pub const fn merge(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// Every count with its name, in a fixed order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }
    };
}

counts! {
    /// Section header blocks.
    section_blocks,
    /// Interface description blocks.
    interface_blocks,
    /// Enhanced packet blocks.
    enhanced_packet_blocks,
    /// Simple packet blocks: frames without a timestamp.
    simple_packet_blocks,
    /// Packet blocks of the form that the enhanced one replaced.
    obsolete_packet_blocks,
    /// Name resolution blocks.
    name_blocks,
    /// Interface statistics blocks.
    statistics_blocks,
    /// Decryption secrets blocks; their contents are ignored.
    secrets_blocks,
    /// systemd journal entries.
    journal_blocks,
    /// Custom blocks, both kinds.
    custom_blocks,
    /// Blocks of types not known here.
    unknown_blocks,
    /// Option lists that reach past their block; the block stands.
    options_malformed,
    /// Options whose value has a length that its code does not allow; left out.
    option_values_malformed,
    /// Statistics about interfaces that their section did not describe; left out.
    statistics_without_interface,
    /// Stamps whose part below a second is a second or more; taken as they are.
    subseconds_above_second,
    /// Stamps of frames past the year 2262, or before 1677; taken as the nearer end.
    timestamps_saturated,
    /// Records of old pcap versions whose lengths stood in the other order.
    lengths_swapped,
    /// Packets that `epb_dropcount` and its forerunner say were lost before a frame.
    packets_dropped,
    /// Texts cut or left out because a limit of this module was reached.
    texts_cut,
}

/// What is left of [`TEXT_TOTAL_MAX`].
#[derive(Clone, Copy, Debug)]
pub(super) struct TextBudget {
    left: usize,
}

impl TextBudget {
    pub(super) const fn new() -> Self {
        Self { left: TEXT_TOTAL_MAX }
    }

    /// As much of `value` as the limits allow; false where that is not all.
    pub(super) fn take(&mut self, value: &[u8]) -> (String, bool) {
        let value = text_bytes(value);
        let whole = value.len();
        // Replacing a damaged byte takes three, so that the budget is met in the end.
        let mut text =
            String::from_utf8_lossy(value.get(..TEXT_LEN_MAX).unwrap_or(value)).into_owned();
        let end = text.floor_char_boundary(self.left.min(TEXT_LEN_MAX));
        let complete = whole <= TEXT_LEN_MAX && end == text.len();
        text.truncate(end);
        // The string itself is charged too: a million empty comments are not free.
        self.left = self.left.saturating_sub(end.saturating_add(size_of::<String>()));
        (text, complete)
    }
}

impl Comments {
    /// Adds one where the limits allow; returns whether it was kept in full.
    pub(super) fn push(&mut self, value: &[u8], budget: &mut TextBudget) -> bool {
        if self.texts.len() >= COMMENT_COUNT_MAX || budget.left == 0 {
            self.omitted_count = self.omitted_count.wrapping_add(1);
            return false;
        }
        let (text, complete) = budget.take(value);
        self.texts.push(text);
        complete
    }
}
