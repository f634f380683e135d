//! What a chunk of the log says of itself, and what the files next to it say about it.
//!
//! A file of the log is a row of chunks, each a pcapng section that ends with a [`Trailer`].
//! Next to the file are `.idx`, one [`IndexRecord`] a chunk, and `.keys`, the hashes of the hosts
//! and flows of each chunk. Both can be made again from the chunks; without them a query reads
//! more. docs/specs/packet-log.md has the layout byte by byte.

mod bytes;
mod keys;
mod note;
mod record;
mod rows;
mod trailer;

pub use keys::{flow_hash, flow_hash_of_digest, host_hash};
pub use note::Note;
pub use record::{IndexFault, IndexRecord, Keys};
pub use rows::ClassRow;
pub use trailer::{ChunkFault, Trailer};

pub(crate) use keys::{FlowBook, KeyLists, Membership, contains, key_lists, sort_once};
pub(crate) use rows::{add_row, add_rows};

/// The private enterprise number of our blocks and options: the one reserved for examples and
/// documentation (RFC 5612), as we have no assigned one. What distinguishes ours from another's
/// under the same number is the magic of each value.
pub const ENTERPRISE: u32 = 32_473;

/// Chunks begin at multiples of this and are multiples of it long, so that they can be written
/// around the page cache and found without an index.
pub const ALIGNMENT: usize = 4096;

/// How a file of the log is named.
pub(crate) const FILE_SUFFIX: &str = ".pcapng";
/// The same compressed.
pub(crate) const COMPRESSED_SUFFIX: &str = ".pcapng.zst";
/// Its index.
pub(crate) const INDEX_SUFFIX: &str = ".idx";
/// Its hashes.
pub(crate) const KEYS_SUFFIX: &str = ".keys";
/// Why its packets were marked.
pub(crate) const WHY_SUFFIX: &str = ".why";
