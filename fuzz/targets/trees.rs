//! Files of trees: whatever a file says, it is read or refused, and what was read scores a row on
//! every path alike.
//!
//! Input: how many bytes the row has, then the file without its last line; that is made here, as a
//! seal cannot be guessed. Without a line feed at its end it is read as it is.
#![no_main]

use std::fmt::Write as _;

use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use model::trees::Path;
use model::{Forest, Rows};
use sha2::{Digest, Sha256};

/// Rows and classes of more than this take longer to score than is learnt from them.
const RECORDS_LEN_MAX: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let row_len = usize::from(input.u8());
    let content = input.rest();
    let mut file = content.to_vec();
    if content.last() == Some(&b'\n') {
        let mut seal = String::from("{\"sha256\":\"");
        for byte in Sha256::digest(content) {
            let _ = write!(seal, "{byte:02x}");
        }
        file.extend_from_slice(seal.as_bytes());
        file.extend_from_slice(b"\"}\n");
    }
    let Ok(forest) = Forest::parse(&file) else { return };
    if forest.records_len() > RECORDS_LEN_MAX {
        return;
    }
    let numbers = vec![1.0; forest.numbers().len()];
    let record: Vec<u8> = content.iter().copied().cycle().take(row_len).collect();
    let row = &record[..row_len.min(forest.records_len())];
    let mut rows = Rows::for_forest(&forest, 9);
    for count in [1, 8] {
        for _ in 0..count {
            forest.push_with(&mut rows, row, &numbers).expect("a row of this forest");
        }
        let mut first: Option<Vec<u64>> = None;
        for path in Path::ALL {
            let mut scores = vec![0.0; rows.len() * forest.classes().len()];
            forest.score_on(path, &rows, &mut scores).expect("a place for each score");
            let bits: Vec<u64> = scores.iter().map(|score| score.to_bits()).collect();
            assert_eq!(first.get_or_insert_with(|| bits.clone()), &bits, "{path:?}");
        }
    }
});
