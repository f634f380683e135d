//! Classic pcap: any bytes, whole and in pieces, give the same frames.
#![no_main]

use fuzz::decoding;
use libfuzzer_sys::fuzz_target;
use packet::file::Magic;

const MAGICS: [[u8; 4]; 6] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x34, 0xcd, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xcd, 0x34],
];

fuzz_target!(|bytes: &[u8]| {
    let magic = MAGICS[usize::from(bytes.first().copied().unwrap_or_default()) % MAGICS.len()];
    decoding::check_file(&decoding::as_file(bytes, Magic::Pcap, &[(0, &magic)]));
});
