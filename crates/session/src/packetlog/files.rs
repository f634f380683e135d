//! How a log is written.

use std::path::PathBuf;

use packet::Span;
use serde::Deserialize;

use crate::choice::choice;
use crate::written;

choice! {
    /// What to do when the disk is full.
    WhenFull: "way to handle a full disk" {
        Stop = "stop", "Keep existing files and count lost packets; if reading a capture, stop";
        Overwrite = "overwrite", "Overwrite the oldest files of the least important classes";
    }
}

choice! {
    /// How blocks are written.
    Direct: "way to write blocks" {
        Auto = "auto", "Bypass the page cache if the file system allows it";
        Never = "never", "Through the page cache";
        Always = "always", "Bypass the page cache, or fail";
    }
}

choice! {
    /// Who classifies and truncates packets in place of user space.
    Means: "way to classify in the kernel" {
        Xdp = "xdp", "An XDP program, where the driver hands packets over";
        AfXdp = "af-xdp", "As xdp, and packets come by an AF_XDP socket, past the network stack";
    }
}

choice! {
    /// How class and confidence stand beside a packet.
    Notes: "way to store classes" {
        Option = "option", "As twelve bytes for Wirelens, on packets that are not benign";
        Comment = "comment", "As a comment visible in Wireshark, on packets that are not benign";
    }
}

choice! {
    /// How packets lie in a block.
    Encoding: "encoding of packets" {
        Pcapng = "pcapng", "As in a capture, which Wireshark and tcpdump open";
        Compact = "compact", "In a fraction of the bytes; only `wirelens packetlog query` reads it";
    }
}

/// How a log is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileSettings {
    /// Rotate the file after this many bytes.
    #[serde(deserialize_with = "written::bytes")]
    pub file_bytes: u64,
    /// Rotate the file after this time.
    #[serde(deserialize_with = "written::duration")]
    pub file_time: Span,
    /// Keep so many bytes at most.
    #[serde(deserialize_with = "written::bytes_if_any")]
    pub keep_bytes: Option<u64>,
    /// Delete files older than this.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub keep_time: Option<Span>,
    /// What to do when the disk is full.
    #[serde(deserialize_with = "written::choice")]
    pub when_full: WhenFull,
    /// How blocks are written.
    #[serde(deserialize_with = "written::choice")]
    pub direct: Direct,
    /// Block size in bytes, a multiple of 4096.
    #[serde(deserialize_with = "written::bytes")]
    pub block_bytes: u64,
    /// Number of blocks that are being filled or wait for the disk, 2 to 4096.
    pub blocks: u16,
    /// Write a block that is not full after this time.
    #[serde(deserialize_with = "written::duration")]
    pub flush: Span,
    /// Synchronise each block to the disk before it counts as written.
    pub sync: bool,
    /// Let the folder's group read the log.
    pub group_readable: bool,
    /// How class and confidence are stored with a packet.
    #[serde(deserialize_with = "written::choice")]
    pub notes: Notes,
    /// How packets are encoded.
    #[serde(deserialize_with = "written::choice")]
    pub encoding: Encoding,
    /// Compress files once they are complete, with zstd at this level.
    pub compress: Option<i32>,
    /// Append heads of the ledger to this file, outside of the log's folder.
    pub anchor: Option<PathBuf>,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            file_bytes: 1 << 30,
            file_time: Span::from_seconds(3600),
            keep_bytes: None,
            keep_time: None,
            when_full: WhenFull::Stop,
            direct: Direct::Auto,
            block_bytes: 4 << 20,
            blocks: 8,
            flush: Span::from_seconds(1),
            sync: false,
            group_readable: false,
            notes: Notes::Option,
            encoding: Encoding::Pcapng,
            compress: None,
            anchor: None,
        }
    }
}
