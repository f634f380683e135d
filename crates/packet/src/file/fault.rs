//! The names of what can be wrong with a capture file.

use std::fmt;

use super::magic::Magic;

macro_rules! file_faults {
    ($(
        $(#[$doc:meta])*
        $name:ident $({ $($(#[$field_doc:meta])* $field:ident: $ty:ty),* $(,)? })? = $text:literal;
    )*) => {
        /// Why reading a file cannot continue. The caller knows at which offset.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum FileFault {
            $($(#[$doc])* $name $({ $($(#[$field_doc])* $field: $ty,)* })?,)*
        }

        impl FileFault {
            /// The name used in output and metrics: `snake_case`, stable.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name { .. } => $text,)* }
            }
        }
    };
}

file_faults! {
    /// The file ends before its first header does.
    HeaderShort {
        /// Bytes the header takes.
        wanted: u32,
        /// Bytes there are.
        got: u32,
    } = "header_short";
    /// The first bytes are those of no format known here.
    MagicUnknown {
        /// The first four bytes as they stand in the file.
        magic: [u8; 4],
    } = "magic_unknown";
    /// The first bytes are those of another format.
    FormatUnsupported {
        /// What they are.
        magic: Magic,
    } = "format_unsupported";
    /// A pcap header with a major version other than 2.
    PcapVersionUnsupported {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    } = "pcap_version_unsupported";
    /// A pcap header whose link type has more than 16 bits.
    LinkTypeUnknown {
        /// The field without the bits of the check sequence.
        link: u32,
    } = "link_type_unknown";
    /// A record says that it holds more than any frame of its link type can.
    RecordTooLong {
        /// Captured length it claims.
        captured_len: u32,
        /// The longest that is believed.
        captured_len_max: u32,
    } = "record_too_long";
    /// The file ends within a record or block.
    TruncatedRecord {
        /// Bytes the record takes.
        wanted: u64,
        /// Bytes that are left.
        got: u64,
    } = "truncated_record";
    /// A section header whose byte-order magic is neither way round.
    ByteOrderMagicWrong {
        /// The four bytes as they stand in the file.
        magic: [u8; 4],
    } = "byte_order_magic_wrong";
    /// A section with a major version other than 1.
    SectionVersionUnsupported {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    } = "section_version_unsupported";
    /// A block's total length cannot hold what its type must hold.
    BlockLengthSmall {
        /// Block type.
        block_type: u32,
        /// Total length it claims.
        block_len: u32,
        /// The least its type takes.
        block_len_min: u32,
    } = "block_length_small";
    /// A block's total length is no multiple of 4.
    BlockLengthUnaligned {
        /// Block type.
        block_type: u32,
        /// Total length it claims.
        block_len: u32,
    } = "block_length_unaligned";
    /// A block's total length is above what is believed.
    BlockLengthLong {
        /// Block type.
        block_type: u32,
        /// Total length it claims.
        block_len: u32,
        /// The longest that is believed.
        block_len_max: u32,
    } = "block_length_long";
    /// The total lengths at a block's start and end differ.
    BlockLengthMismatch {
        /// Length at its start.
        leading: u32,
        /// Length at its end.
        trailing: u32,
    } = "block_length_mismatch";
    /// A frame does not fit the block that holds it.
    FrameLongerThanBlock {
        /// Captured length it claims.
        captured_len: u32,
        /// Bytes the block has for it.
        room: u32,
    } = "frame_longer_than_block";
    /// A frame names an interface that its section did not describe.
    InterfaceUnknown {
        /// Index it names.
        interface: u32,
        /// How many the section described.
        interface_count: u32,
    } = "interface_unknown";
    /// More interfaces than a record can number.
    InterfacesTooMany {
        /// The most there may be.
        interface_count_max: u32,
    } = "interfaces_too_many";
}

impl FileFault {
    /// The fault for input that ends `got` bytes into an item of `wanted` bytes,
    /// for callers that have no more to give when asked for it.
    #[must_use]
    pub const fn truncated(wanted: usize, got: usize) -> Self {
        Self::TruncatedRecord { wanted: wanted as u64, got: got as u64 }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeaderShort { wanted, got } => {
                write!(f, "file header takes {wanted} bytes, found {got}")
            }
            Self::MagicUnknown { magic: [a, b, c, d] } => write!(
                f,
                "first bytes {a:02x} {b:02x} {c:02x} {d:02x} are not a capture file; wanted pcap \
                 or pcapng"
            ),
            Self::FormatUnsupported { magic } => {
                write!(f, "file is {magic}; wanted pcap or pcapng")
            }
            Self::PcapVersionUnsupported { major, minor } => {
                write!(f, "pcap version is {major}.{minor}; wanted 2.x")
            }
            Self::LinkTypeUnknown { link } => {
                write!(f, "link type is {link}; registered ones are at most 65535")
            }
            Self::RecordTooLong { captured_len, captured_len_max } => write!(
                f,
                "record claims {captured_len} captured bytes; the maximum is {captured_len_max}"
            ),
            Self::TruncatedRecord { wanted, got } => {
                write!(f, "record takes {wanted} bytes, file ends after {got}")
            }
            Self::ByteOrderMagicWrong { magic: [a, b, c, d] } => write!(
                f,
                "section's byte-order magic is {a:02x} {b:02x} {c:02x} {d:02x}; wanted 1a 2b 3c 4d or 4d 3c 2b 1a"
            ),
            Self::SectionVersionUnsupported { major, minor } => {
                write!(f, "pcapng section version is {major}.{minor}; wanted 1.x")
            }
            Self::BlockLengthSmall { block_type, block_len, block_len_min } => write!(
                f,
                "block of type {block_type:#x} claims {block_len} bytes; it takes at least {block_len_min}"
            ),
            Self::BlockLengthUnaligned { block_type, block_len } => write!(
                f,
                "block of type {block_type:#x} claims {block_len} bytes; wanted a multiple of 4"
            ),
            Self::BlockLengthLong { block_type, block_len, block_len_max } => write!(
                f,
                "block of type {block_type:#x} claims {block_len} bytes; the maximum is \
                 {block_len_max}"
            ),
            Self::BlockLengthMismatch { leading, trailing } => write!(
                f,
                "block is {leading} bytes long by its start and {trailing} by its end; wanted the same"
            ),
            Self::FrameLongerThanBlock { captured_len, room } => write!(
                f,
                "frame claims {captured_len} captured bytes; its block has room for {room}"
            ),
            Self::InterfaceUnknown { interface, interface_count } => write!(
                f,
                "frame names interface {interface}; its section described {interface_count}"
            ),
            Self::InterfacesTooMany { interface_count_max } => {
                write!(f, "file describes more than {interface_count_max} interfaces")
            }
        }
    }
}

impl std::error::Error for FileFault {}

/// Why nothing was decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The item is not complete. Call again with at least this many bytes, counted
    /// from the start of the item; more may be asked for then. At the end of input
    /// this is [`FileFault::truncated`], or the regular end where no byte is left.
    NeedMore(usize),
    /// The bytes cannot be what they claim to be; what follows cannot be found.
    Fault(FileFault),
}

impl From<FileFault> for Stop {
    fn from(fault: FileFault) -> Self {
        Self::Fault(fault)
    }
}

const _: () = assert!(size_of::<FileFault>() <= 24, "a fault is passed by value");
