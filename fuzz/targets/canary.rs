//! Holds a planted fault.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let [b'w', b'i', b'r', b'e', ..] = bytes {
        panic!("the planted fault");
    }
});
