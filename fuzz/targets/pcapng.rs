//! pcapng: any bytes, whole and in pieces, give the same frames and blocks.
#![no_main]

use fuzz::decoding;
use libfuzzer_sys::fuzz_target;
use packet::file::Magic;

const BLOCK_TYPE: [u8; 4] = *b"\n\r\r\n";
const BYTE_ORDERS: [[u8; 4]; 2] = [[0x4d, 0x3c, 0x2b, 0x1a], [0x1a, 0x2b, 0x3c, 0x4d]];

fuzz_target!(|bytes: &[u8]| {
    let order = BYTE_ORDERS[usize::from(bytes.first().copied().unwrap_or_default() & 1)];
    let prefix: [(usize, &[u8]); 2] = [(0, &BLOCK_TYPE), (8, &order)];
    decoding::check_file(&decoding::as_file(bytes, Magic::Pcapng, &prefix));
});
