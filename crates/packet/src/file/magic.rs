//! What a file is, by its first bytes.
//!
//! Names are ignored: captures are called `.pcap`, `.cap`, `.dmp`, `.0`
//! and worse, and `.pcap` is often pcapng or gzip.

use std::fmt;

macro_rules! magics {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $sentence:literal, [$($prefix:expr),+];)*) => {
        /// A kind of file that its first bytes tell apart.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Magic {
            $($(#[$doc])* $name,)*
        }

        impl Magic {
            /// The name used in output and metrics: `snake_case`, stable.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What the file is, in words that fit after "file is".
            const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }

            /// Each known prefix with what it means; none is the start of another.
            pub(super) const PREFIXES: &'static [(&'static [u8], Self)] = &[
                $($((&$prefix, Self::$name),)+)*
            ];
        }
    };
}

magics! {
    /// Classic pcap, either byte order: microseconds, nanoseconds, or the
    /// modified form of patched Linux tcpdumps.
    Pcap = "pcap", "pcap", [
        [0xa1, 0xb2, 0xc3, 0xd4], [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d], [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xcd, 0x34], [0x34, 0xcd, 0xb2, 0xa1]
    ];
    /// pcapng: a section header block.
    Pcapng = "pcapng", "pcapng", [[0x0a, 0x0d, 0x0d, 0x0a]];
    /// gzip (RFC 1952).
    Gzip = "gzip", "compressed with gzip", [[0x1f, 0x8b]];
    /// Zstandard (RFC 8878).
    Zstd = "zstd", "compressed with zstd", [[0x28, 0xb5, 0x2f, 0xfd]];
    /// LZ4 frame.
    Lz4 = "lz4", "compressed with lz4", [[0x04, 0x22, 0x4d, 0x18]];
    /// xz.
    Xz = "xz", "compressed with xz", [[0xfd, b'7', b'z', b'X', b'Z', 0]];
    /// bzip2.
    Bzip2 = "bzip2", "compressed with bzip2", [*b"BZh"];
    /// zip archive.
    Zip = "zip", "a zip archive", [*b"PK\x03\x04"];
    /// 7z archive.
    SevenZip = "7z", "a 7z archive", [[b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c]];
    /// Solaris snoop (RFC 1761).
    Snoop = "snoop", "a snoop capture (RFC 1761)", [*b"snoop\0\0\0"];
    /// Bluetooth `btsnoop`.
    BtSnoop = "btsnoop", "a btsnoop capture", [*b"btsnoop\0"];
    /// Microsoft Network Monitor 1 or 2.
    NetMon = "netmon", "a Microsoft Network Monitor capture", [*b"RTSS", *b"GMBU"];
    /// Network General Sniffer.
    Sniffer = "sniffer", "a Network General Sniffer capture", [*b"TRSNIFF data"];
    /// Accellent 5Views.
    FiveViews = "5views", "a 5Views capture", [[0xaa, 0xaa, 0xaa, 0xaa]];
    /// pcap as IXIA hardware writes it, with a length field of its own.
    IxiaPcap = "ixia_pcap", "a capture of IXIA's lcap form", [
        [0x1c, 0x00, 0x01, 0xac], [0xac, 0x01, 0x00, 0x1c],
        [0x1c, 0x00, 0x01, 0xab], [0xab, 0x01, 0x00, 0x1c]
    ];
    /// pcap as two early patches wrote it; libpcap refuses them too.
    PatchedPcap = "patched_pcap", "pcap with a patched magic number that libpcap refuses too", [
        [0xa1, 0xb2, 0x34, 0xcd], [0xcd, 0x34, 0xb2, 0xa1],
        [0xa1, 0x2b, 0x3c, 0x4d], [0x4d, 0x3c, 0x2b, 0xa1]
    ];
}

impl Magic {
    /// Bytes that suffice for [`Magic::detect`].
    pub const PREFIX_LEN: usize = 12;

    /// What begins with `prefix`; `None` where it is nothing known here.
    #[must_use]
    pub fn detect(prefix: &[u8]) -> Option<Self> {
        let known = Self::PREFIXES.iter().find(|(magic, _)| prefix.starts_with(magic));
        known.map(|&(_, kind)| kind)
    }

    /// Whether [`Decoder`](super::Decoder) reads it.
    #[must_use]
    pub const fn is_capture(self) -> bool {
        matches!(self, Self::Pcap | Self::Pcapng)
    }

    /// Whether it is a container that must be unpacked first.
    #[must_use]
    pub const fn is_compressed(self) -> bool {
        matches!(
            self,
            Self::Gzip
                | Self::Zstd
                | Self::Lz4
                | Self::Xz
                | Self::Bzip2
                | Self::Zip
                | Self::SevenZip
        )
    }
}

/// Words that fit after "file is".
impl fmt::Display for Magic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}
