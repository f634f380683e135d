//! Blocks of a ring, as fuzz targets hand them in.

use packet::dissect::DissectOptions;
use packet::{BATCH_LEN_MAX, LinkType, Record};

use super::frame::{Origin, Taker};
use super::ring_v3::BlockReader;

/// The records of the first batch of a block, whatever its headers say.
#[must_use]
pub fn block_records(block: &mut [u8], link: LinkType, snaplen: u32) -> Vec<Record> {
    let mut records = vec![Record::default(); BATCH_LEN_MAX];
    let origin = Origin::One(link);
    let dissect = DissectOptions::default();
    let mut taker = Taker {
        slots: records.iter_mut(),
        snaplen,
        dissect,
        origin: &origin,
        cut_secret: Some(0),
        captured_bytes: 0,
    };
    BlockReader::default().walk(block, &mut taker);
    let left = taker.slots.len();
    records.truncate(BATCH_LEN_MAX - left);
    records
}
