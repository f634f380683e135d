//! How much of what is in a log.

use packet::Timestamp;

use super::Log;
use crate::index::ClassRow;

/// What became of the packets of one class, over the whole log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassTotals {
    /// Its name.
    pub name: String,
    /// Sums; the class's number is that of the file where it was first met.
    pub sums: ClassRow,
}

/// How much of what is in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogStats {
    /// Files.
    pub file_count: u64,
    /// Those of them that are compressed.
    pub compressed_count: u64,
    /// Bytes of all files with index and hashes, as they lie there.
    pub bytes: u64,
    /// Bytes of index and hashes.
    pub index_bytes: u64,
    /// Bytes of the chunks, not compressed.
    pub chunk_bytes: u64,
    /// Chunks.
    pub chunk_count: u64,
    /// Packets.
    pub packet_count: u64,
    /// The earliest stamp.
    pub first: Option<Timestamp>,
    /// The latest.
    pub last: Option<Timestamp>,
    /// Chunks that were put together again after a tear.
    pub repaired_count: u64,
    /// Places that are no whole chunk.
    pub fault_count: u64,
    /// By class.
    pub classes: Vec<ClassTotals>,
}

impl LogStats {
    /// Sums over classes.
    #[must_use]
    pub fn total(&self) -> ClassRow {
        let mut total = ClassRow::default();
        for class in &self.classes {
            total.add(&class.sums);
        }
        total
    }

    /// Bytes of the log for each byte that was seen on the wire; `None` where none was.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn share(&self) -> Option<f64> {
        let seen = self.total().seen_bytes;
        (seen > 0).then(|| self.bytes as f64 / seen as f64)
    }
}

impl Log {
    /// Counts what is in the log, from its index alone.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        let mut stats =
            LogStats { fault_count: self.faults().count() as u64, ..LogStats::default() };
        for file in &self.files {
            stats.file_count += 1;
            stats.compressed_count += u64::from(file.is_compressed);
            stats.bytes += file.len + file.side_len;
            stats.index_bytes += file.side_len;
            for record in &file.chunks {
                let trailer = &record.trailer;
                stats.chunk_count += 1;
                stats.chunk_bytes += u64::from(record.len);
                stats.packet_count += u64::from(trailer.packet_count);
                stats.repaired_count += u64::from(trailer.is_repaired);
                if trailer.packet_count > 0 {
                    let (first, last) =
                        (Timestamp::from_ns(trailer.first_ns), Timestamp::from_ns(trailer.last_ns));
                    stats.first = Some(stats.first.map_or(first, |earlier| earlier.min(first)));
                    stats.last = Some(stats.last.map_or(last, |later| later.max(last)));
                }
                for row in &trailer.rows {
                    let name = file.class_name(row.class);
                    match stats.classes.iter_mut().find(|class| class.name == name) {
                        Some(class) => class.sums.add(row),
                        None => {
                            stats.classes.push(ClassTotals { name: name.to_owned(), sums: *row })
                        }
                    }
                }
            }
        }
        stats.classes.sort_by_key(|class| class.sums.class);
        stats
    }
}
